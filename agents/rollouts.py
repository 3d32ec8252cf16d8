"""Rollouts: play a round on to its end by a scripted rule, and what its end is worth to each seat.

What a search aims at is its objective: "points" of the round (R13), "relative" (these minus the mean of the other
seats'), or "win", the share of the win that a seat may expect at the end of the game (R14, R15). For that the rest of
the game is played out many times in scores alone: each round to come takes its points from one of a sample of rounds,
played by the rollouts' rule in all seats.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import NUM_ACTIONS
from fool_env.engine import legal_actions, play, start_game
from fool_env.rng import advance, below, derive, output
from fool_env.rules import MAX_PLAYERS, Rules
from fool_env.state import Record, new_games

from .cautious import choose_cautious, fill_values
from .scripted import choose_highest, choose_random

ROLLOUTS: Final = ("random", "highest", "cautious")
OBJECTIVES: Final = ("points", "relative", "win")

_RANDOM, _HIGHEST, _CAUTIOUS = range(3)
_POINTS, _RELATIVE, WIN = range(3)

_FUTURES = 16  # how often the rest of a game is played out in scores
WIN_PER_POINT = 0.01  # what a point is worth where wins count, for priors
_LONGEST = 1000  # rounds after which such a game counts as over: rules of one's own may know no end
_SAMPLE = 512  # rounds from which the points of rounds to come are taken


@kernel
def choose(game: Record, rollout: int, luck: np.uint64) -> int:
    """The card that a rollout's rule plays, of an index into ROLLOUTS."""
    if rollout == _HIGHEST:
        return choose_highest(game, luck)
    if rollout == _CAUTIOUS:
        return choose_cautious(game, luck)
    return choose_random(game, luck)


@kernel
def roll_out(game: Record, rollout: int, luck: np.uint64) -> None:
    """Play the round to its end."""
    while not game.round_over:
        luck = advance(luck)
        play(game, choose(game, rollout, luck))


@kernel
def fill_results(game: Record, objective: int, sample: np.ndarray, luck: np.uint64, values: np.ndarray) -> None:
    """Fill float64[8] with what the end of a round is worth to each seat, of an index into OBJECTIVES."""
    n = np.int64(game.num_players)
    if objective == WIN:
        _fill_wins(game, sample, luck, values)
        return
    total = np.int64(0)
    for seat in range(n):
        total += game.points[seat]
    for seat in range(n):
        points = np.float64(game.points[seat])
        values[seat] = points if objective == _POINTS else (n * points - total) / (n - 1)


@kernel
def _fill_wins(game: Record, sample: np.ndarray, luck: np.uint64, values: np.ndarray) -> None:
    scores, tens = np.empty(MAX_PLAYERS, np.int64), np.empty(MAX_PLAYERS, np.int64)
    values[:] = 0.0
    futures = 1 if game.game_over else _FUTURES
    n = np.int64(game.num_players)
    for _ in range(futures):
        for seat in range(n):
            scores[seat], tens[seat] = game.scores[seat], game.tens[seat]
        over = game.game_over == 1
        for _ in range(_LONGEST):
            if over:
                break
            luck = advance(luck)
            over = _add_round(game, sample[below(output(luck), len(sample))], scores, tens)
        best = scores[:n].max()
        winners = (scores[:n] == best).sum()
        for seat in range(n):
            if scores[seat] == best:
                values[seat] += 1.0 / winners / futures


@kernel
def _add_round(rules: Record, points: np.ndarray, scores: np.ndarray, tens: np.ndarray) -> bool:
    """Add the points of one round; returns whether the game is over (R14)."""
    over = False
    for seat in range(rules.num_players):
        scores[seat] += points[seat]
        # An empty hand, and only that, scores more than nothing (R13).
        tens[seat] += points[seat] > 0
        over |= scores[seat] <= rules.losing_total or tens[seat] >= rules.winning_tens
    return over


@kernel
def fill_priors(views: np.ndarray, objective: int, weight: float, priors: np.ndarray) -> None:
    """Fill float64[B, 83] with what `cautious` makes of each legal action, in the objective's units; -inf elsewhere."""
    actions, values = np.empty(NUM_ACTIONS, np.int64), np.empty(NUM_ACTIONS)
    scale = weight * (WIN_PER_POINT if objective == WIN else 1.0)
    for i in range(len(views)):
        priors[i] = -np.inf
        legal_actions(views[i], actions)
        for k in range(fill_values(views[i], values)):
            priors[i, actions[k]] = scale * values[k]


@kernel
def _play_rounds(games: np.ndarray, rollout: int, points: np.ndarray) -> None:
    for i in range(len(points)):
        start_game(games[0], derive(np.uint64(0), i))
        roll_out(games[0], rollout, derive(np.uint64(1), i))
        for seat in range(MAX_PLAYERS):
            points[i, seat] = games[0].points[seat]


def sample_rounds(rules: Rules, rollout: int) -> np.ndarray:
    """The points of some rounds, each the deal of another seed, all seats playing by the rollouts' rule.

    Returns:
        int64 of shape (512, 8).
    """
    points = np.empty((_SAMPLE, MAX_PLAYERS), np.int64)
    _play_rounds(new_games([rules], "round"), rollout, points)
    return points


NO_SAMPLE: Final = np.zeros((1, MAX_PLAYERS), np.int64)
"""In the place of a sample, for objectives that need none."""
