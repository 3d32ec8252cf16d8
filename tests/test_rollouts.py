"""Rollouts, and `pimc` on them, against a slow implementation; and all of it once more as plain Python."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
import pytest
from positions import decisions, position, view_of
from search_reference import pimc_values, play_on, under, worth
from variants import PRESETS

from fool_env import Game, Rules
from fool_env.agents import rollouts
from fool_env.agents.agent import make_agent
from fool_env.agents.rollouts import NO_SAMPLE, OBJECTIVES, ROLLOUTS, fill_priors, fill_results, sample_rounds
from fool_env.cards import NUM_ACTIONS
from fool_env.determinization import sample_worlds
from fool_env.engine import legal_mask_of

SEED = np.uint64(11)


def finished(preset: str, seed: int, scores: list[int], tens: list[int]) -> Game:
    """The end of a round, with these totals before it."""
    game = Game(PRESETS[preset], seed)
    game._games["scores"][0, : len(scores)] = scores
    game._games["tens"][0, : len(tens)] = tens
    return play_on(game, "random", np.uint64(seed))


def results(game: Game, objective: str, sample: np.ndarray, luck: int) -> list[float]:
    values = np.full(8, np.nan)
    fill_results(game._games[0], OBJECTIVES.index(objective), sample, np.uint64(luck), values)
    return values[: game.rules.num_players].tolist()


# --- what the end of a round is worth


@pytest.mark.parametrize("objective", ["points", "relative"])
@pytest.mark.parametrize("preset", ["official_4", "official_8", "foppen_1995_3"])
def test_points_and_relative_points_are_those_of_the_round(objective: str, preset: str) -> None:
    for seed in range(20):
        game = finished(preset, seed, [-30, 20], [1])
        found = results(game, objective, NO_SAMPLE, 0)
        assert found == worth(game, objective, NO_SAMPLE, np.uint64(0))
        if objective == "relative":
            others = [(sum(game.points) - own) / (game.rules.num_players - 1) for own in game.points]
            assert found == pytest.approx(np.subtract(game.points, others))


@pytest.mark.parametrize(
    ("preset", "scores", "tens"),
    [
        ("official_4", [0, 0, 0, 0], [0, 0, 0, 0]),
        ("official_4", [-60, -20, 5, 10], [0, 1, 4, 3]),
        ("official_6", [20, -50, 10, 10, 0, 0], [5, 5, 4, 3, 5, 2]),
        ("official_8", [-70, -30, -20, -70, -55, -40, -10, 0], [0, 0, 0, 0, 0, 0, 0, 4]),
        ("miniature", [30, 30, -75], [3, 3, 0]),
    ],
)
def test_win_shares_are_those_of_games_played_on_in_scores(preset: str, scores: list[int], tens: list[int]) -> None:
    sample = sample_rounds(PRESETS[preset], 0)
    shared = over = 0
    for seed in range(12):
        game = finished(preset, seed, scores, tens)
        found = results(game, "win", sample, seed)
        assert found == worth(game, "win", sample, np.uint64(seed))
        assert sum(found) == pytest.approx(1)
        shared += max(found) < 1
        over += game.game_over
    assert shared or over


def test_a_single_round_is_won_by_its_points() -> None:
    game = play_on(Game(Rules.official(6), 4, "round"), "highest", np.uint64(0))
    best = [float(own == max(game.points)) for own in game.points]
    assert results(game, "win", NO_SAMPLE, 1) == [share / sum(best) for share in best]


@pytest.mark.parametrize("rollout", ROLLOUTS)
def test_a_sample_is_of_rounds_of_the_rule_in_all_seats(rollout: str) -> None:
    rules = Rules.official(5)
    sample = sample_rounds(rules, ROLLOUTS.index(rollout))
    assert sample.shape == (512, 8) and not sample[:, 5:].any()
    assert len(np.unique(sample, axis=0)) > 400
    for number in (0, 1, 300, 511):
        game = play_on(Game(rules, int(under(0, number)), "round"), rollout, under(1, number))
        assert sample[number, :5].tolist() == game.points


# --- pimc


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("rollout", ROLLOUTS)
@pytest.mark.parametrize(("preset", "plays"), [("official_5", 128), ("miniature", 2)])
def test_pimc_finds_what_a_slow_search_finds(rollout: str, objective: str, preset: str, plays: int) -> None:
    game, worlds = position(preset, 1, plays), 5
    game._games["scores"][0, :3] = (-60, -72, -30)
    game._games["tens"][0, :3] = (2, 1, 5)
    sample = sample_rounds(game.rules, ROLLOUTS.index(rollout))
    bot = make_agent(f"pimc:worlds={worlds},rollout={rollout},objective={objective},prior=0.7")
    found = bot.estimates(view_of(game), SEED)
    values = pimc_values(game, SEED, worlds, rollout, objective, sample)
    assert found[objective] == pytest.approx(values.mean(axis=1), abs=1e-12)
    assert found["± 95%"] == pytest.approx(1.96 * values.std(axis=1) / worlds**0.5, abs=1e-7)
    liked = make_agent("cautious").estimates(view_of(game), SEED)["value"]
    unit = 0.01 if objective == "win" else 1
    assert found["score"] == pytest.approx(values.mean(axis=1) + 0.7 * unit * liked)
    assert bot.act(view_of(game), np.array([SEED]))[0] == game.legal_actions()[int(found["score"].argmax())]


def test_priors_are_those_of_cautious() -> None:
    views, _ = decisions("official_7", 40)
    for objective, unit in (("points", 1), ("relative", 1), ("win", 0.01)):
        priors = np.zeros((len(views), NUM_ACTIONS))
        fill_priors(views, OBJECTIVES.index(objective), 1.5, priors)
        for i, view in enumerate(views):
            legal = legal_mask_of(view) == 1
            values = make_agent("cautious").estimates(views[i : i + 1], SEED)["value"]
            assert priors[i, legal] == pytest.approx(1.5 * unit * values)
            assert (priors[i, ~legal] == -np.inf).all()


# --- as plain Python


@patch.object(rollouts, "_SAMPLE", 20)
def findings() -> list[Any]:
    """Some worlds, means and visits."""
    found: list[Any] = []
    for preset, seed, plays in (("official_6", 2, 40), ("official_8", 5, 33), ("miniature", 1, 3)):
        view = view_of(position(preset, seed, plays))
        found.append(hashlib.sha256(sample_worlds(view, SEED, 20).tobytes()).hexdigest())
        agents = ["pimc:worlds=2", "pimc:worlds=1,rollout=cautious,objective=relative", "ismcts:iterations=25"]
        agents += ["ismcts:iterations=15,rollout=random,c=2", "cheat:iterations=10"]
        agents += ["pimc:worlds=2,objective=win", "ismcts:iterations=10,objective=win"] if preset == "miniature" else []
        for agent in agents:
            # What `cautious` makes of a card is a sum that LLVM may order otherwise.
            bot = make_agent(f"{agent},prior=0")
            if agent.startswith("cheat"):
                record = position(preset, seed, plays)._games
                found.append(int(bot.act_on_records(record, np.array([SEED]))[0]))
            else:
                found += [[heading, *column.tolist()] for heading, column in bot.estimates(view, SEED).items()]
    return found


def test_plain_python_searches_alike() -> None:
    """To the bit, without numba."""
    if numba.config.DISABLE_JIT:
        pytest.skip("nothing is compiled")
    code = "import json, test_rollouts; print(json.dumps(test_rollouts.findings()))"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    plain = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(plain.stdout) == json.loads(json.dumps(findings()))
