"""`pimc` with a policy: against scripted search, against games played one at a time, and what is pruned."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest
import torch as th
from checkpoints import write_checkpoint
from positions import decisions, position, view_of
from variants import PRESETS

from fool_env import Game, Rules
from fool_env.agents import policy_rollouts, search
from fool_env.agents.agent import make_agent, recipe
from fool_env.agents.arena import evaluate
from fool_env.agents.network import PolicyNetwork
from fool_env.agents.neural import CheckpointError, NeuralAgent
from fool_env.agents.rollouts import OBJECTIVES, WIN_PER_POINT
from fool_env.agents.search import PimcAgent
from fool_env.cards import NUM_ACTIONS
from fool_env.determinization import sample_worlds
from fool_env.engine import legal_mask_of
from fool_env.rng import derive
from fool_env.state import copy_games
from fool_env.train import evaluate as script

HIGHEST = make_agent("highest")
SEED = np.uint64(5)


pytestmark = pytest.mark.usefixtures("one_thread")


class Planted:
    """A policy that plays as `highest` does, and says that it plays each legal card, ascending, with these chances."""

    def __init__(self, rules: Rules, chances: Sequence[float] | None = None) -> None:
        self.name = "planted.zip"
        self.rules = [rules]
        self.asked: list[np.ndarray] = []
        self._chances = chances

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self.asked.append(copy_games(views))
        return HIGHEST.act(views, seeds)

    def probabilities(self, views: np.ndarray) -> np.ndarray:
        legal = np.array([legal_mask_of(view) == 1 for view in views])
        chances = legal / legal.sum(axis=1, keepdims=True)
        if self._chances is not None:
            chances[legal] = np.tile(self._chances, len(views))
        return chances


class Silent(Planted):
    """One that must not be asked to play."""

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        raise AssertionError("no rollout was to be played by the policy")


def a_network(preset: str, episode: str = "round") -> NeuralAgent:
    """Untrained, with likings that are strong enough to be seen."""
    th.manual_seed(3)
    network = PolicyNetwork("facts", [8]).requires_grad_(False)
    network.action_net.weight *= 12
    return NeuralAgent(network, [PRESETS[preset]], episode)


def liked_cards(number: int, chances: Sequence[float]) -> tuple[Game, PimcAgent]:
    """A position with as many legal cards as there are chances, and a search without prior whose policy has them."""
    games = (position("official_6", seed, 5) for seed in count())
    game = next(islice((game for game in games if len(game.legal_actions()) == len(chances)), number, None))
    return game, PimcAgent(worlds=4, prior=0, policy=Planted(game.rules, chances))


# --- against scripted search, and games played one at a time


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("preset", "plays"), [("official_6", 0), ("official_8", 131), ("official_4", 70)])
def test_a_policy_that_plays_a_rule_finds_what_the_rule_finds(objective: str, preset: str, plays: int) -> None:
    game = position(preset, 7, plays)
    planted = PimcAgent(worlds=9, objective=objective, prior=0, policy=Planted(game.rules))
    scripted = make_agent(f"pimc:worlds=9,objective={objective},prior=0")
    found, expected = (bot.estimates(view_of(game), SEED) for bot in (planted, scripted))
    assert found.keys() == expected.keys()
    assert all((found[heading] == expected[heading]).all() for heading in found)


@pytest.mark.parametrize(("preset", "plays"), [("official_6", 31), ("foppen_1995_3", 35), ("official_8", 50)])
def test_means_are_those_of_games_played_one_at_a_time(preset: str, plays: int) -> None:
    game, policy = position(preset, 3, plays), a_network(preset)
    seat, worlds = game.player, 3

    def value(number: int, action: int) -> int:
        copy, world_seed = game.clone(), np.uint64(derive(SEED, number))
        copy._games[:] = sample_worlds(view_of(game), SEED, worlds)[number : number + 1]
        copy.play(action)
        while not copy.round_over:
            seed = derive(np.uint64(derive(world_seed, 2)), int(copy.record["num_plays"]))
            card = policy.act(view_of(copy), np.array([seed], np.uint64))[0]
            copy.play(int(card))
        return copy.points[seat]

    found = PimcAgent(worlds=worlds, policy=policy).estimates(view_of(game), SEED)
    tried = np.isfinite(found["score"])
    assert tried.sum() > 1
    cards = np.array(game.legal_actions())[tried]
    expected = np.array([[value(number, int(card)) for number in range(worlds)] for card in cards])
    assert found["points"][tried] == pytest.approx(expected.mean(axis=1))
    assert found["± 95%"][tried] == pytest.approx(1.96 * expected.std(axis=1) / worlds**0.5)


def test_a_policy_is_asked_only_for_choices_and_sees_only_views() -> None:
    views, seeds = decisions("official_6", 30)
    policy = Planted(PRESETS["official_6"])
    PimcAgent(worlds=2, policy=policy).act(views, seeds)
    asked = np.concatenate(policy.asked)
    assert max(map(len, policy.asked)) > 100
    assert (asked["viewer"] == asked["player"]).all()
    assert not asked["rng"].any()
    others = np.arange(8) != asked["player"][:, None]
    assert not asked["hands"][others].any() and not asked["ones"][others].any()
    assert min(int(legal_mask_of(view).sum()) for view in asked) == 2


# --- what a move depends on


@pytest.mark.parametrize("preset", ["official_4", "official_8"])
def test_moves_are_the_same_in_any_batch_or_thread(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    views, seeds = decisions(preset, 24)
    bot = PimcAgent(worlds=2, policy=a_network(preset))
    priors = bot._priors(views)
    legal = np.array([legal_mask_of(view) == 1 for view in views])
    assert np.isfinite(priors).sum() < legal.sum(), "the policy leaves no card out"
    together, (sums, _) = bot.act(views, seeds), bot._search(views, seeds, priors)
    assert legal[np.arange(len(views)), together].all()
    assert (bot.act(views[::-1].copy(), seeds[::-1].copy())[::-1] == together).all()
    with ThreadPoolExecutor(4) as threads:
        alone = threads.map(lambda i: bot.act(views[i : i + 1], seeds[i : i + 1])[0], range(len(views)))
        assert list(alone) == together.tolist()
    for games in (1, 50, 333):
        monkeypatch.setattr(policy_rollouts, "MAX_GAMES", games)
        assert (bot._search(views, seeds, priors)[0] == sums).all()
    assert len(bot.act(views[:0], seeds[:0])) == 0


def test_moves_do_not_depend_on_what_the_seat_cannot_know() -> None:
    bot = PimcAgent(worlds=2, policy=a_network("official_6"))
    for plays in (5, 23, 60, 90):
        game = position("official_6", plays, plays)
        other = game.resample(game.player, 1)
        assert other.hands != game.hands
        one, two = (bot.estimates(view_of(it), SEED) for it in (game, other))
        assert all(np.array_equal(one[heading], two[heading], equal_nan=True) for heading in one)


def test_games_that_step_together_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """But those of one view are never parted."""
    views, seeds = decisions("official_6", 40)
    views, seeds = views[:20], seeds[:20]  # rounds that have just begun
    sizes = {}
    for limit in (1, 100, 8192):
        monkeypatch.setattr(policy_rollouts, "MAX_GAMES", limit)
        policy = Planted(PRESETS["official_6"])
        PimcAgent(worlds=8, policy=policy).act(views, seeds)
        sizes[limit] = max(map(len, policy.asked))
    largest = 8 * max(int(legal_mask_of(view).sum()) for view in views)
    assert sizes[1] <= largest < sizes[8192]
    assert sizes[1] <= sizes[100] <= max(100, largest)


# --- what the policy likes


def test_cards_below_one_per_cent_are_neither_tried_nor_chosen() -> None:
    game, bot = liked_cards(0, [0.009, 0.01, 0.2, 0.781])
    found = bot.estimates(view_of(game), SEED)
    assert np.isfinite(found["score"]).tolist() == [False, True, True, True]
    assert np.isnan(found["points"]).tolist() == [True, False, False, False] == np.isnan(found["± 95%"]).tolist()
    assert found["score"][0] == -np.inf
    for disliked in range(4):
        chances = [0.33] * 4
        chances[disliked] = 0.0099
        seeds = np.arange(20, dtype=np.uint64)
        game, bot = liked_cards(0, chances)
        moves = bot.act(view_of(game).repeat(20), seeds)
        assert game.legal_actions()[disliked] not in moves
        everything = make_agent("pimc:worlds=4,prior=0").act(view_of(game).repeat(20), seeds)
        rest = everything != game.legal_actions()[disliked]
        assert (moves[rest] == everything[rest]).all()


@pytest.mark.parametrize("liked", range(3))
def test_a_single_candidate_is_played_without_rollouts(liked: int) -> None:
    chances = [0.005] * 3
    chances[liked] = 0.99
    game, _ = liked_cards(0, chances)
    bot = PimcAgent(worlds=4, policy=Silent(game.rules, chances))
    assert bot.act(view_of(game), np.array([SEED])) == game.legal_actions()[liked]
    assert np.isfinite(bot.estimates(view_of(game), SEED)["score"]).tolist() == [i == liked for i in range(3)]


def test_views_with_and_without_a_choice_can_be_in_one_batch() -> None:
    views, seeds = decisions("official_6", 30)
    choices = np.array([legal_mask_of(view).sum() for view in views])
    assert (choices == 1).sum() > 2
    planted = PimcAgent(worlds=3, prior=0, policy=Planted(PRESETS["official_6"]))
    assert (planted.act(views, seeds) == make_agent("pimc:worlds=3,prior=0").act(views, seeds)).all()


@pytest.mark.parametrize(("objective", "unit"), [("points", 1), ("relative", 1), ("win", WIN_PER_POINT)])
def test_the_score_is_the_mean_and_what_the_policy_likes(objective: str, unit: float) -> None:
    chances = [0.001, 0.1, 0.2, 0.299, 0.4]
    game, _ = liked_cards(0, chances)
    bot = PimcAgent(worlds=4, objective=objective, prior=3, policy=Planted(game.rules, chances))
    found = bot.estimates(view_of(game), SEED)
    assert found["score"][1:] == pytest.approx(found[objective][1:] + 1.5 * unit * np.log(chances[1:]))
    assert bot.act(view_of(game), np.array([SEED])) == game.legal_actions()[int(found["score"].argmax())]


@pytest.mark.parametrize("rollout", ["highest", "random", "cautious"])
def test_a_rollout_by_name_leaves_the_policy_its_likings(rollout: str) -> None:
    chances = [0.2, 0.3, 0.005, 0.495]
    game, _ = liked_cards(1, chances)
    bot = PimcAgent(worlds=5, rollout=rollout, policy=Silent(game.rules, chances))
    found = bot.estimates(view_of(game), SEED)
    scripted = make_agent(f"pimc:worlds=5,rollout={rollout}").estimates(view_of(game), SEED)
    tried = [0, 1, 3]
    assert (found["points"][tried] == scripted["points"][tried]).all()
    assert found["score"][tried] == pytest.approx(scripted["points"][tried] + np.log(chances)[tried])
    assert found["score"][2] == -np.inf


# --- in games, by the clock, by name


def test_totals_count_for_who_aims_to_win() -> None:
    game = position("official_4", 2, 9)
    bot = PimcAgent(worlds=6, objective="win", policy=a_network("official_4", "game"))
    shares = []
    for total in (-70, 0, 40):
        game._games["scores"][0, game.player] = total
        shares.append(np.nanmean(bot.estimates(view_of(game), SEED)["win"]))
    assert 0 <= shares[0] < shares[1] < shares[2] <= 1


def test_whole_games_are_played_with_a_policy(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "agent.zip", Rules.miniature(), {"episode": "game"})
    bot = make_agent(f"pimc:worlds=2,objective=win,policy={path}")
    result = evaluate(bot, [HIGHEST], Rules.miniature(), deals=2, games=3)
    assert result.games == 3
    assert result.wins is not None and 0 < result.wins < 1


def test_a_budget_is_spent_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.001
        return now

    monkeypatch.setattr(search.time, "perf_counter", clock)
    game, policy = position("official_6", 1, 3), a_network("official_6")
    view, seed = view_of(game), np.array([SEED])
    for budget, blocks in ((0.5, 1), (5, 5)):
        bot = PimcAgent(budget_ms=budget, policy=policy)
        _, worlds = bot._search(view, seed, bot._priors(view))
        assert worlds == blocks * search._BLOCK
    same = PimcAgent(worlds=worlds, policy=policy)
    found, expected = (it.estimates(view, SEED)["points"] for it in (bot, same))
    assert found == pytest.approx(expected, nan_ok=True)
    assert bot.act(view.repeat(2), seed.repeat(2)).shape == (2,)


@pytest.mark.parametrize("options", ["worlds=4", "budget_ms=2", "worlds=4,rollout=highest", "worlds=4,rollout=random"])
@pytest.mark.parametrize("more", ["", ",objective=win,prior=0.5"])
def test_an_agent_bears_the_name_that_makes_it(options: str, more: str, tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "agent.zip", Rules.official(5))
    bot = make_agent(f"pimc:policy={path},{options}{more}")
    same = make_agent(bot.name)
    assert same.name == bot.name == recipe(bot)[0]
    assert isinstance(bot, PimcAgent) and isinstance(same, PimcAgent)
    for attribute in ("_worlds", "_budget", "_policy_plays", "_rollout", "_objective", "_prior", "rules"):
        assert getattr(same, attribute) == getattr(bot, attribute)
    assert bot._policy_plays == ("rollout" not in options)
    views, seeds = decisions("official_5", 5)
    if bot._worlds:
        assert (same.act(views, seeds) == bot.act(views, seeds)).all()


def test_it_plays_the_rules_that_its_policy_learnt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_checkpoint(tmp_path / "agent.zip", Rules.official(5))
    bot = make_agent(f"pimc:worlds=1,policy={path}")
    assert isinstance(bot, PimcAgent) and bot.rules == (Rules.official(5),)
    assert not hasattr(make_agent("pimc"), "rules")
    with pytest.raises(CheckpointError, match="num_players 5, but at this table it is 6"):
        bot.act(*decisions("official_6", 2))
    arguments = ["--agent", bot.name, "--opponents", "highest", "--deals", "2"]
    assert script.main(arguments) == 0
    assert "tables of 5" in capsys.readouterr().out
    assert script.main([*arguments, "--players", "6"]) == 2
    assert "was trained for 5" in capsys.readouterr().err


def test_probabilities_are_those_of_legal_cards() -> None:
    views, _ = decisions("official_6", 200)
    policy = a_network("official_6")
    probabilities = policy.probabilities(views)
    legal = np.array([legal_mask_of(view) == 1 for view in views])
    assert probabilities.shape == (200, NUM_ACTIONS)
    assert ((probabilities > 0) == legal).all()
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert policy.probabilities(views[:0]).shape == (0, NUM_ACTIONS)
    alone = np.concatenate([policy.probabilities(views[i : i + 1]) for i in range(20)])
    assert (alone == probabilities[:20]).all()
