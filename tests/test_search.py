"""The search agents: that they know no more than their view, against slow references, and positions by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from deals import play, table
from positions import decisions, position, view_of
from variants import PRESETS

from fool_env import Game, Rules
from fool_env.agents import ismcts, search
from fool_env.agents.agent import AgentError, make_agent
from fool_env.agents.arena import evaluate
from fool_env.agents.pimc import search_worlds
from fool_env.agents.rollouts import fill_results, sample_rounds
from fool_env.agents.search import CheatAgent, IsmctsAgent, PimcAgent
from fool_env.cards import card_name, parse_card
from fool_env.determinization import sample_worlds
from fool_env.engine import legal_mask_of
from fool_env.state import GAME

AGENTS = [
    "pimc:worlds=3",
    "pimc:worlds=2,rollout=random,objective=relative",
    "pimc:worlds=2,rollout=cautious,objective=win",
    "ismcts:iterations=30",
    "ismcts:iterations=20,rollout=random,objective=win,c=2",
]
HIGHEST = make_agent("highest")


# --- what a move depends on


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("preset", ["official_4", "official_8", "miniature"])
def test_moves_are_legal_and_the_same_in_any_batch_or_thread(agent: str, preset: str) -> None:
    views, seeds = decisions(preset, 24)
    bot = make_agent(agent)
    together = bot.act(views, seeds)
    assert all(legal_mask_of(view)[action] for view, action in zip(views, together, strict=True))
    backwards = bot.act(views[::-1].copy(), seeds[::-1].copy())[::-1]
    assert (backwards == together).all()
    with ThreadPoolExecutor(4) as threads:
        alone = threads.map(lambda i: bot.act(views[i : i + 1], seeds[i : i + 1])[0], range(len(views)))
        assert list(alone) == together.tolist()
    assert (make_agent(agent).act(views, seeds) == together).all()


@pytest.mark.parametrize("agent", AGENTS)
def test_moves_do_not_depend_on_what_the_seat_cannot_know(agent: str) -> None:
    """Other hidden cards and other luck, the same seed: the same move (and other seeds: other moves, now and then)."""
    bot, seeds = make_agent(agent), np.arange(3, dtype=np.uint64)
    for plays in (5, 23, 60, 90):
        game = position("official_6", plays, plays)
        other = game.resample(game.player, 1)
        assert other.hands != game.hands
        for seed in seeds:
            one, two = (bot.estimates(view_of(it), seed) for it in (game, other))
            assert all(np.array_equal(one[heading], two[heading], equal_nan=True) for heading in one)
        assert (bot.act(view_of(game).repeat(3), seeds) == bot.act(view_of(other).repeat(3), seeds)).all()


def test_a_decision_follows_its_seed() -> None:
    view = view_of(position("official_6", 1, 3))
    means = [make_agent("pimc:worlds=2").estimates(view, np.uint64(seed))["points"].tolist() for seed in range(3)]
    assert means[0] != means[1] != means[2]


def test_tables_of_different_rules_can_be_in_one_batch() -> None:
    views = [decisions(preset, 4) for preset in ("official_4", "official_7")]
    mixed = np.concatenate([views[0][0], views[1][0]]), np.concatenate([views[0][1], views[1][1]])
    for agent in ("pimc:worlds=2,objective=win", "ismcts:iterations=10,objective=win"):
        bot = make_agent(agent)
        assert bot.act(*mixed).tolist() == [action for part in views for action in bot.act(*part)]


# --- against slow references


@pytest.mark.parametrize("objective", ["points", "relative"])
@pytest.mark.parametrize(("preset", "plays"), [("official_6", 0), ("official_8", 31), ("official_4", 40)])
def test_pimc_means_are_those_of_worlds_played_out_by_hand(objective: str, preset: str, plays: int) -> None:
    game = position(preset, 7, plays)
    seat, seed, n = game.player, np.uint64(5), game.rules.num_players
    worlds = sample_worlds(view_of(game), seed, 6)

    def value(world: np.void, action: int) -> float:
        copy = Game.from_bytes(game.to_bytes())
        copy._games[0] = world
        copy.play(action)
        while not copy.round_over:
            copy.play(int(HIGHEST.act(view_of(copy), np.zeros(1, np.uint64))[0]))
        points = copy.points
        others = fmean(points[other] for other in range(n) if other != seat)
        return points[seat] - (others if objective == "relative" else 0)

    found = make_agent(f"pimc:worlds=6,objective={objective},prior=0").estimates(view_of(game), seed)
    expected = [[value(world, action) for world in worlds] for action in game.legal_actions()]
    assert found[objective] == pytest.approx(np.mean(expected, axis=1))
    assert found["± 95%"] == pytest.approx(1.96 * np.std(expected, axis=1) / 6**0.5)
    assert (found["score"] == found[objective]).all()


def test_prior_adds_what_cautious_makes_of_a_card() -> None:
    game = position("official_6", 2, 12)
    values = make_agent("cautious").estimates(view_of(game), np.uint64(0))["value"]
    for agent in ("pimc:worlds=4", "ismcts:iterations=200"):
        found = make_agent(f"{agent},prior=3").estimates(view_of(game), np.uint64(1))
        assert found["score"] - found["points"] == pytest.approx(3 * values)
    confident = make_agent("pimc:worlds=1,prior=1000000")
    views, seeds = decisions("official_6", 50)
    assert (confident.act(views, seeds) == make_agent("cautious").act(views, seeds)).all()


def test_a_tree_counts_every_iteration_once_and_explores_what_is_available() -> None:
    game = position("official_6", 3, 2)
    for c, spread in ((0.0, 3), (1000.0, 1.1)):
        visits = make_agent(f"ismcts:iterations=500,c={c},prior=0").estimates(view_of(game), np.uint64(1))["visits"]
        assert visits.sum() == 500
        assert visits.min() >= 1
        assert (visits.max() / visits.min() > spread) == (c == 0.0)


def test_a_full_tree_grows_no_further_and_still_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_NODES", 12)
    bot = make_agent("ismcts:iterations=300")
    assert len(bot._new_tree().actions) == 12
    visits = bot.estimates(view_of(position("official_6", 3, 2)), np.uint64(1))["visits"]
    assert 0 < visits.sum() <= 300
    assert ismcts.MAX_NODES >= 2**17


# --- positions by hand


@pytest.mark.parametrize("agent", ["pimc:worlds=20", "ismcts:iterations=200"])
def test_the_dearer_card_goes_when_the_fool_is_certain(agent: str) -> None:
    """Seat 0 cannot follow and will be the Fool; the next trick, without it, ends the round: it is left with a card."""
    game = play(table("R2 R4", "G3 R3", "G2 G4", dealer=1), "G4")
    bot = make_agent(f"{agent},prior=0")
    assert bot.estimates(view_of(game), np.uint64(3))["points"].tolist() == [-4, -2]
    assert card_name(int(bot.act(view_of(game), np.zeros(1, np.uint64))[0])) == "R4"


def test_a_move_without_choice_is_made_without_search() -> None:
    game = play(table("G2 R2", "G3 R3", "G4 R4"), "G2")
    for bot in (PimcAgent(), IsmctsAgent()):
        assert bot.act(view_of(game), np.zeros(1, np.uint64))[0] == parse_card("G3")
        found = bot.estimates(view_of(game), np.uint64(0))
        assert len(found["score"]) == 1
        assert np.isnan(found["points"]).all()


def test_cheats_see_all_hands_and_only_full_records() -> None:
    cheat = make_agent("cheat:iterations=20")
    assert isinstance(cheat, CheatAgent)
    assert cheat.omniscient
    assert not hasattr(cheat, "act")
    seed, differ = np.zeros(1, np.uint64), 0
    for number in range(40):
        game = position("official_6", number, number)
        before = game.to_bytes()
        other = game.resample(game.player, number)
        moves = [cheat.act_on_records(np.array([it.record], GAME), seed)[0] for it in (game, other)]
        differ += moves[0] != moves[1]
        assert game.to_bytes() == before
    assert differ > 10
    with pytest.raises(ValueError, match="not the full record"):
        cheat.act_on_records(view_of(game), seed)
    with pytest.raises(ValueError, match="sees all hands"):
        evaluate(cheat, [HIGHEST], Rules.official(6), deals=1)


def test_cheats_fare_better_than_who_does_the_same_in_the_dark() -> None:
    rules = Rules.official(6)
    cheat = evaluate(make_agent("cheat:rollout=highest,prior=0"), [HIGHEST], rules, deals=60, allow_omniscient=True)
    honest = evaluate(make_agent("ismcts:iterations=30,prior=0"), [HIGHEST], rules, deals=60)
    assert cheat.gain_ci[0] > honest.gain_ci[1]


# --- the chance to win


def test_win_shares_are_those_of_games_played_on() -> None:
    """At the end of a round, totals apart: against the same game played on by `highest` with many deals."""
    game = Game(PRESETS["official_4"], seed=3)
    game._games["scores"][0, :4] = (-60, -20, 5, 10)
    game._games["tens"][0, :4] = (0, 1, 4, 3)
    while not game.round_over:
        game.play(int(HIGHEST.act(view_of(game), np.zeros(1, np.uint64))[0]))
    assert not game.game_over
    shares = np.zeros(8)
    estimates = np.zeros(4)
    sample = sample_rounds(game.rules, 1)
    for luck in range(200):
        fill_results(game._games[0], 2, sample, np.uint64(luck), shares)
        assert shares.sum() == pytest.approx(1)
        estimates += shares[:4] / 200
    played = np.zeros(4)
    for seed in range(300):
        copy = game.resample(0, seed)
        while not copy.game_over:
            if copy.round_over:
                copy.next_round()
            copy.play(int(HIGHEST.act(view_of(copy), np.zeros(1, np.uint64))[0]))
        for winner in copy.winners:
            played[winner] += 1 / len(copy.winners) / 300
    assert estimates == pytest.approx(played, abs=0.1)
    assert estimates[3] > estimates[1] > estimates[0]


def test_win_shares_of_a_finished_game_are_the_result() -> None:
    game = table("G2", "G3", "G4", winning_tens=1)
    play(game, "G2 G3 G4")
    assert game.game_over
    shares = np.zeros(8)
    fill_results(game._games[0], 2, np.zeros((1, 8), np.int64), np.uint64(0), shares)
    assert shares.tolist() == [0, 0.5, 0.5, 0, 0, 0, 0, 0]


def test_games_without_an_end_end_all_the_same() -> None:
    game = table("G2 R2", "G3 1", "G4 1", one_penalty=0, losing_total=-1000, winning_tens=50)
    play(game, "G2 G3 G4")
    while not game.round_over:
        game.play(game.legal_actions()[0])
    shares = np.zeros(8)
    fill_results(game._games[0], 2, np.zeros((1, 8), np.int64), np.uint64(0), shares)
    assert shares.sum() == pytest.approx(1)


def test_objectives_differ() -> None:
    views, seeds = decisions("official_6", 200)
    moves = [make_agent(f"pimc:worlds=16,objective={it},prior=0").act(views, seeds) for it in search.OBJECTIVES]
    assert 0 < (moves[0] != moves[1]).mean() < 0.5
    assert 0 < (moves[0] != moves[2]).mean() < 0.8


# --- strength, names, budgets


@pytest.mark.parametrize("agent", ["pimc:worlds=16", "ismcts:iterations=100", "pimc:worlds=16,prior=0"])
def test_search_gains_at_tables_of_highest(agent: str) -> None:
    result = evaluate(make_agent(agent), [HIGHEST], Rules.official(6), deals=60)
    assert result.gain_ci[0] > 1


def test_a_budget_is_spent_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.001
        return now

    monkeypatch.setattr(search.time, "perf_counter", clock)
    view, seed = view_of(position("official_6", 1, 3)), np.zeros(1, np.uint64)
    for budget, blocks in ((0.5, 1), (10, 10)):
        bot = PimcAgent(budget_ms=budget)
        _, worlds = bot._search(view, seed, bot._priors(view))
        assert worlds == blocks * search._BLOCK
    same = PimcAgent(worlds=worlds)
    assert same.estimates(view, seed[0])["points"] == pytest.approx(bot.estimates(view, seed[0])["points"])
    blocks_of: list[int] = []

    def count_blocks(views: np.ndarray, *more: Any) -> None:
        blocks_of.append(len(views))
        search_worlds(views, *more)

    monkeypatch.setattr(search, "search_worlds", count_blocks)
    assert PimcAgent(budget_ms=3).act(view.repeat(2), seed.repeat(2)).shape == (2,)
    assert blocks_of == [1] * 6, "three for each decision"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("pimc", "pimc:worlds=32"),
        ("pimc:rollout=highest,worlds=8", "pimc:worlds=8"),
        ("pimc:prior=0,worlds=8,objective=win", "pimc:worlds=8,objective=win,prior=0"),
        ("pimc:budget_ms=2.5", "pimc:budget_ms=2.5"),
        ("ismcts", "ismcts:iterations=1000"),
        ("ismcts:c=1.5,rollout=cautious", "ismcts:iterations=1000,c=1.5,rollout=cautious"),
        ("cheat", "cheat:iterations=30"),
    ],
)
def test_an_agent_bears_the_name_that_makes_it(agent: str, name: str) -> None:
    assert make_agent(agent).name == name
    assert make_agent(name).name == name


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("pimc:worlds=-1", "worlds=-1"),
        ("pimc:worlds=3,budget_ms=2", "either the one or the other"),
        ("pimc:worlds=2.5", "worlds=2.5 is not int"),
        ("pimc:rollout=lowest", "rollout=lowest is none of random, highest, cautious"),
        ("pimc:objective=wins", "objective=wins is none of points, relative, win"),
        ("pimc:world=3", 'do you mean "worlds"'),
        ("pimc:policy=nothing.zip", "there is no such file"),
        ("ismcts:iterations=0", "at least 1"),
        ("ismcts:c=-1", "not negative"),
        ("cheat:worlds=3", "no option"),
    ],
)
def test_bad_options_are_refused(agent: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_agent(agent)
    if "policy" not in agent:
        with pytest.raises(AgentError):
            make_agent(agent)


def test_what_is_no_view_is_refused() -> None:
    game = Game(Rules.official(6), seed=1)
    records, seeds = np.array([game.record], GAME), np.zeros(1, np.uint64)
    for bot in (PimcAgent(worlds=1), IsmctsAgent(iterations=1)):
        with pytest.raises(ValueError, match="not the view"):
            bot.act(records, seeds)
        with pytest.raises(ValueError, match="not the view"):
            bot.estimates(records, seeds[0])
        with pytest.raises(ValueError, match="shapes"):
            bot.act(view_of(game), np.zeros(2, np.uint64))
