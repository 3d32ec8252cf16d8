"""The scripted agents: what they play and why, and that they know no more than their view."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from deals import play, table
from variants import PRESETS, random_rules

from fool_env import FoolVectorEnv, Game, Rules
from fool_env.agents import bits as bits_of
from fool_env.agents.agent import _FACTORIES, AgentError, make_agent
from fool_env.agents.cautious import chances, look_out
from fool_env.cards import ACTION_RANK, COLOURS, NUM_COLOURS, card_name
from fool_env.engine import legal_mask_of
from fool_env.state import GAME

SCRIPTED = ("random", "lowest", "highest", "cautious")


def choice(agent: str, game: Game, seed: int = 0) -> str:
    """The card that an agent plays for the seat to act."""
    view = np.array([game.view(game.player)], GAME)
    return card_name(int(make_agent(agent).act(view, np.array([seed], np.uint64))[0]))


def views_in_play(rules: Rules, num_tables: int, num_steps: int, seed: int = 0) -> np.ndarray:
    """Views from random play, all steps of all tables."""
    env = FoolVectorEnv(num_tables, rules, seed=seed)
    views = []
    for step in range(num_steps):
        views.append(env.views)
        env.step(make_agent("random").act(views[-1], seeds_for(num_tables, step)))
    return np.concatenate(views)


def seeds_for(size: int, stream: int = 0) -> np.ndarray:
    return np.random.default_rng(stream).integers(0, 2**64, size, np.uint64)


def legal_masks(views: np.ndarray) -> np.ndarray:
    return np.array([legal_mask_of(view) for view in views], bool)


def view_of(hand: str, lead_colour: str | None = None) -> np.ndarray:
    """The view of a seat that holds these cards, as an array of one; the rest of the table is as before any play."""
    views = np.array([Game(Rules.official(6), seed=1).view(0)], GAME)
    view = views[0]
    view["player"] = 0
    view["lead_colour"] = -1 if lead_colour is None else COLOURS.index(lead_colour)
    view["hands"][0] = 0
    cards = hand.split()
    for card in cards:
        if card != "1":
            view["hands"][0, COLOURS.index(card[0])] |= 1 << (int(card[1:]) - 2)
    view["ones"][0] = cards.count("1")
    view["hand_sizes"][0] = len(cards)
    return views


# --- what they play


@pytest.mark.parametrize(
    ("hand", "lead_colour", "highest", "lowest"),
    [
        ("G2 R9 B4", None, "R9", "G2"),
        ("G7 R7 Y7", None, "G7", "G7"),  # ties go to the lowest action
        ("R7 Y7 B3", None, "R7", "B3"),
        ("G27 R23 Y21 B15", None, "G27", "B15"),
        ("1 G2 R2", None, "G2", "1"),  # a 1 counts as rank 1
        ("1 1", None, "1", "1"),
        ("G2 G9 R20 B4", "G", "G9", "G2"),  # follows
        ("G2 R20 B4 1", "G", "G2", "1"),  # the 1 may be played, and counts as 1
        ("R20 Y20 B4", "G", "R20", "B4"),  # void
    ],
)
def test_highest_and_lowest_go_by_rank(hand: str, lead_colour: str | None, highest: str, lowest: str) -> None:
    view = view_of(hand, lead_colour)
    assert card_name(int(make_agent("highest").act(view, seeds_for(1))[0])) == highest
    assert card_name(int(make_agent("lowest").act(view, seeds_for(1))[0])) == lowest


@pytest.mark.parametrize("rules", PRESETS.values(), ids=PRESETS)
def test_highest_and_lowest_are_as_defined(rules: Rules) -> None:
    views = views_in_play(rules, num_tables=20, num_steps=40)
    legal = legal_masks(views)
    ranks = ACTION_RANK.astype(np.int64)
    seeds = seeds_for(len(views))
    assert (make_agent("highest").act(views, seeds) == np.where(legal, ranks, -1).argmax(axis=1)).all()
    assert (make_agent("lowest").act(views, seeds) == np.where(legal, ranks, 99).argmin(axis=1)).all()


# Seat 3 plays last. Seats 2 and 3 hold no green card, so both play off colour when seat 0 leads green.
FOUR_HANDS = ("G5 G2 Y4", "G4 G3 R2", "R5 R4 Y3", "1 R3 Y2")


def test_cautious_plays_a_one_where_any_card_off_colour_would_be_the_worst() -> None:
    game = play(table(*FOUR_HANDS), "G5 G4 R5")
    assert choice("highest", game) == "R3"  # the Fool, under R5
    assert choice("cautious", game) == "1"
    assert play(game, "1").fools == (2,)


def test_cautious_sheds_off_colour_over_a_lower_card_off_colour() -> None:
    hands = ("G8 G2 R8 Y7 Y6 B4", "G7 G6 G5 G4 G3 R7", "R6 R4 R3 Y4 B3 B2", "1 R5 R2 Y5 Y3 Y2")
    for lying in ("R4", "Y4", "B3"):
        game = play(table(*hands), f"G8 G7 {lying}")
        assert choice("cautious", game) in ("R5", "Y5")


def test_cautious_wins_where_any_other_card_makes_it_the_fool() -> None:
    hands = ("G5 G2 R8 Y7 Y6 B4", "G7 G6 R6 R5 Y5 R7", "G4 R4 R3 Y4 B3 B2", "1 G8 G3 R2 Y3 Y2")
    game = play(table(*hands), "G5 G6 G4")
    assert choice("lowest", game) == "1"
    assert choice("cautious", game) == "G8"


@pytest.mark.parametrize(
    ("last", "cards", "best"),
    [("R5", "R2 R4", "R4"), ("R4", "R2 1", "1")],  # the 1 costs 5
)
def test_cautious_sheds_the_costliest_card_in_a_trick_that_ends_the_round(last: str, cards: str, best: str) -> None:
    game = play(table(f"G6 G5 {last}", f"G2 {cards}", "G3 G4 R3"), f"G6 G2 G3 G5 G4 {last}")
    assert game.player == 1 and game.fools == (2,)
    assert choice("cautious", game) == best


@pytest.mark.parametrize("players", range(4, 9))
def test_cautious_who_plays_last_knows_who_will_be_the_fool(players: int) -> None:
    rng = random.Random(players)
    certain = 0
    for seed in range(10):
        game = Game(Rules.official(players), seed, episode="round")
        while not game.round_over:
            seat, view, num_plays = game.player, game.view(game.player), len(game.history)
            outlook = look_out(view)
            for action in game.legal_actions() if outlook.num_later == 0 else ():
                after = game.clone()
                after.play(action)
                assert after.last_trick.plays[-1][0] == seat and len(after.history) == num_plays + 1
                assert chances(view, action, outlook) == (seat in after.fools, seat == after.leader)
                certain += 1
            game.play(rng.choice(game.legal_actions()))
    assert certain > 100


@pytest.mark.parametrize("players", range(4, 9))
def test_cautious_knows_its_chances_at_a_table_of_highest(players: int) -> None:
    computed, happened = [], []
    for seed in range(60):
        game = Game(Rules.official(players), seed, episode="round")
        plays: list[tuple[int, float]] = []
        while not game.round_over:
            view = game.view(game.player)
            action = int(make_agent("highest").act(np.array([view], GAME), seeds_for(1))[0])
            plays.append((game.player, chances(view, action, look_out(view))[0]))
            game.play(action)
            if not game.trick:  # a new one begins
                computed += [chance for _, chance in plays]
                happened += [seat in game.fools for seat, _ in plays]
                plays = []
    said, came = np.array(computed), np.array(happened)
    assert abs(said.mean() - came.mean()) < 0.03
    for fifth in range(5):
        among = np.minimum((said * 5).astype(int), 4) == fifth
        assert abs(said[among].mean() - came[among].mean()) < 0.15


def test_random_plays_every_legal_card_equally_often() -> None:
    for seed in range(5):
        view = views_in_play(Rules.official(5), num_tables=1, num_steps=8, seed=seed)[-1:]
        legal = np.flatnonzero(legal_masks(view)[0])
        draws = 20_000
        actions = make_agent("random").act(np.repeat(view, draws), seeds_for(draws, seed))
        counts = np.bincount(actions, minlength=83)
        assert counts.sum() == counts[legal].sum()
        expected = draws / len(legal)
        chi_square = ((counts[legal] - expected) ** 2 / expected).sum()
        degrees = len(legal) - 1
        assert chi_square < degrees + 5 * (2 * degrees) ** 0.5 + 5


def test_random_depends_on_the_seed_alone() -> None:
    view = views_in_play(Rules.official(4), num_tables=1, num_steps=1)
    seeds = seeds_for(50)
    agent = make_agent("random")
    actions = agent.act(np.repeat(view, 50), seeds)
    assert len(set(actions.tolist())) > 5
    assert (agent.act(np.repeat(view, 50), seeds) == actions).all()


def test_bits_of_one_colour() -> None:
    rng = np.random.default_rng(0)
    for cards in [0, 1, 2, 2**25, 2**26 - 1, *rng.integers(0, 2**26, 300).tolist()]:
        ranks = [rank for rank in range(2, 28) if cards >> (rank - 2) & 1]
        bits = np.uint32(cards)
        assert bits == sum(bits_of.card(rank) for rank in ranks)
        assert bits_of.highest_rank(bits) == max(ranks, default=1)
        assert bits_of.lowest_rank(bits) == min(ranks, default=1)
        for rank in range(1, 28):
            assert bits_of.count_above(bits, rank) == sum(other > rank for other in ranks)


# --- what holds for all of them


@pytest.mark.parametrize("agent", SCRIPTED)
def test_plays_are_legal_under_any_rules(agent: str) -> None:
    rng = random.Random(1)
    rules = [*PRESETS.values(), *(random_rules(rng.randint) for _ in range(150))]
    env = FoolVectorEnv(len(rules), rules, seed=2)
    player, other = make_agent(agent), make_agent("random")
    for step in range(200):
        views, seeds = env.views, seeds_for(len(rules), step)
        actions = player.act(views, seeds)
        assert env.masks[np.arange(len(rules)), actions].all()
        env.step(np.where(env.players % 2 == 0, actions, other.act(views, seeds)))


@pytest.mark.parametrize("agent", SCRIPTED)
def test_choices_do_not_depend_on_hidden_cards(agent: str) -> None:
    """The kernels are called on full records too: what a view hides must not matter to them."""
    env = FoolVectorEnv(200, Rules.official(6), seed=3)
    rng = np.random.default_rng(0)
    for step in range(40):
        views, seeds = env.views, seeds_for(200, step)
        actions = make_agent(agent).act(views, seeds)
        records = env.games
        records["viewer"] = records["player"]
        records["rng"] = rng.integers(0, 2**64, 200, np.uint64)
        assert (make_agent(agent).act(records, seeds) == actions).all()
        for record in records:
            hidden = [seat for seat in range(6) if seat != record["player"]]
            record["hands"][hidden] = rng.integers(0, 2**14, (5, NUM_COLOURS), np.uint32)
            record["ones"][hidden] = rng.integers(0, 3, 5)
        assert (make_agent(agent).act(records, seeds) == actions).all()
        env.step(make_agent("random").act(views, seeds))


@pytest.mark.parametrize("agent", SCRIPTED)
def test_choices_do_not_depend_on_the_batch(agent: str) -> None:
    views = views_in_play(Rules.official(7), num_tables=30, num_steps=30)
    seeds = seeds_for(len(views))
    actions = make_agent(agent).act(views, seeds)
    order = np.random.default_rng(0).permutation(len(views))
    assert (make_agent(agent).act(views[order], seeds[order]) == actions[order]).all()
    alone = [make_agent(agent).act(views[i : i + 1], seeds[i : i + 1])[0] for i in range(0, len(views), 50)]
    assert (alone == actions[::50]).all()


@pytest.mark.parametrize("agent", SCRIPTED)
def test_a_seat_is_as_good_as_another(agent: str) -> None:
    """The same table with every seat moved on by one: the same card."""
    views = views_in_play(Rules.official(6), num_tables=30, num_steps=40)
    moved = views.copy()
    for field in ("hands", "ones", "hand_sizes", "voids", "scores", "tens", "times_fool"):
        moved[field][:, :6] = np.roll(views[field][:, :6], 1, axis=1)
    for field in ("player", "viewer", "leader", "dealer", "best_seat", "worst_seats"):
        moved[field] = np.where(views[field] < 0, views[field], (views[field] + 1) % 6)
    moved["fools"] = (views["fools"] << 1 | views["fools"] >> 5) & 63
    moved["history_seats"] = (views["history_seats"] + 1) % 6
    seeds = seeds_for(len(views))
    assert (make_agent(agent).act(moved, seeds) == make_agent(agent).act(views, seeds)).all()


PLAIN_PYTHON = """
import sys
import numpy as np
from fool_env.agents.agent import make_agent
from fool_env.state import GAME
views = np.frombuffer(sys.stdin.buffer.read(), GAME).copy()
seeds = np.arange(len(views), dtype=np.uint64)
for agent in sys.argv[1:]:
    print(*make_agent(agent).act(views, seeds))
"""


def test_plain_python_chooses_as_compiled_code_does() -> None:
    views = np.concatenate([views_in_play(PRESETS[f"official_{n}"], 2, 40, seed=n) for n in range(4, 9)])
    result = subprocess.run(
        [sys.executable, "-c", PLAIN_PYTHON, *SCRIPTED],
        input=views.tobytes(),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        check=True,
    )
    seeds = np.arange(len(views), dtype=np.uint64)
    for agent, line in zip(SCRIPTED, result.stdout.decode().splitlines(), strict=True):
        assert [int(action) for action in line.split()] == make_agent(agent).act(views, seeds).tolist()


# --- by name


@pytest.mark.parametrize("name", SCRIPTED)
def test_make_agent_knows_names(name: str) -> None:
    assert make_agent(name).name == name


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hihest", r'no agent "hihest" \(do you mean "highest"\?\).*random, lowest, highest, cautious'),
        ("", r'no agent ""; agents are random'),
        ("Highest ", 'do you mean "highest"'),
        ("runs/6p/final", "checkpoints by path"),
        ("highest:worlds=3", 'agent "highest" has no option "worlds"; it takes none'),
    ],
)
def test_make_agent_refuses_what_there_is_not(spec: str, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        make_agent(spec)


class Planted:
    """An agent with options, as search has them."""

    def __init__(self, worlds: int = 8, width: float = 0.5) -> None:
        self.name = f"planted:worlds={worlds},width={width}"

    act = None


def test_make_agent_reads_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_FACTORIES, "planted", Planted)
    assert make_agent("planted").name == "planted:worlds=8,width=0.5"
    assert make_agent("planted:width=2,worlds=64").name == "planted:worlds=64,width=2.0"
    for spec, message in (
        ("planted:world=64", 'no option "world" \\(do you mean "worlds"\\?\\); its options are worlds, width'),
        ("planted:worlds=many", "worlds=many is not int"),
        ("planted:worlds", "as worlds=value"),
        ("planted:worlds=1,worlds=2", "each option once"),
    ):
        with pytest.raises(AgentError, match=message):
            make_agent(spec)


@pytest.mark.parametrize("agent", SCRIPTED)
def test_agents_take_views_of_the_seat_to_act_only(agent: str) -> None:
    game = Game(Rules.official(4), seed=1)
    right = np.array([game.view(game.player)], GAME)
    for wrong in (game.record, game.view((game.player + 1) % 4)):
        with pytest.raises(ValueError, match="number 1 is not the view"):
            make_agent(agent).act(np.array([right[0], wrong], GAME), seeds_for(2))
    with pytest.raises(ValueError, match="shapes"):
        make_agent(agent).act(right, seeds_for(2))


# --- how well they play


def gains(candidate: str, opponent: str, rules: Rules, deals: int, seed: int) -> np.ndarray:
    """The candidate's points less the opponent's own at the same seat and deal, mean over seats: float64[deals]."""
    control = first_round_points([opponent] * rules.num_players, rules, deals, seed)
    total = np.zeros(deals)
    for seat in range(rules.num_players):
        agents = [opponent] * rules.num_players
        agents[seat] = candidate
        total += (first_round_points(agents, rules, deals, seed) - control)[:, seat]
    return total / rules.num_players


def first_round_points(agents: list[str], rules: Rules, deals: int, seed: int) -> np.ndarray:
    """The points of each table's first round, agents by seat: float64[deals, 8]."""
    env = FoolVectorEnv(deals, rules, episode="round", seed=seed)
    players = {name: make_agent(name) for name in agents}
    points, running = np.zeros((deals, 8)), np.ones(deals, bool)
    while running.any():
        actions = np.zeros(deals, np.int64)
        for name, player in players.items():
            theirs = np.isin(env.players, [seat for seat, agent in enumerate(agents) if agent == name])
            actions[theirs] = player.act(env.views[theirs], env.seeds[theirs])
        env.step(actions)
        ended = running & env.dones
        points[ended] = env.rewards[ended]
        running &= ~ended
    return points


@pytest.mark.parametrize(("players", "at_least"), [(4, 5.0), (5, 4.0), (6, 3.5), (7, 3.5), (8, 3.0)])
def test_cautious_gains_at_a_table_of_highest(players: int, at_least: float) -> None:
    gain = gains("cautious", "highest", Rules.official(players), deals=400, seed=4)
    margin = 1.96 * gain.std(ddof=1) / len(gain) ** 0.5
    assert gain.mean() - margin > at_least
