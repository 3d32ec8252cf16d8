"""Rollouts by a policy, a trained network as a rule: the games of all worlds, cards and views step together.

So the network sees large batches. Plays without a choice never reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import NUM_ACTIONS, NUM_CARDS
from fool_env.determinization import draw_world, hidden_cards
from fool_env.engine import hide, legal_actions, play
from fool_env.rng import derive
from fool_env.rules import MAX_PLAYERS, Rules
from fool_env.state import GAME

from .rollouts import fill_results

MAX_GAMES: Final = 8192
"""Games that step together; those of one view are never parted."""


class Policy(Protocol):
    """What a search needs of a network; `NeuralAgent` is one."""

    @property
    def name(self) -> str:
        """Its `make_agent` string."""

    @property
    def rules(self) -> Sequence[Rules]:
        """Those that it was trained for, for each number of players one."""

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Choose a legal card for each view: GAME (B,), uint64 (B,) -> int64 (B,)."""

    def probabilities(self, views: np.ndarray) -> np.ndarray:
        """How likely it plays each card: GAME (B,) -> float64 (B, 83), 0 for illegal ones."""


@kernel
def _start_games(
    views: np.ndarray,
    seeds: np.ndarray,
    candidates: np.ndarray,
    first: int,
    count: int,
    games: np.ndarray,
    streams: np.ndarray,
) -> None:
    """Play every candidate in every world of each view, view by view and world by world."""
    size = 0
    for i in range(len(views)):
        hidden = hidden_cards(views[i])
        for number in range(first, first + count):
            world_seed = derive(seeds[i], number)
            start = size
            for action in range(NUM_ACTIONS):
                if candidates[i, action]:
                    if size == start:
                        games[size] = views[i]
                        draw_world(hidden, world_seed, games[size])
                    else:
                        games[size] = games[start]
                    streams[size] = world_seed
                    size += 1
            size = start
            for action in range(NUM_ACTIONS):
                if candidates[i, action]:
                    play(games[size], action)
                    size += 1


@kernel
def _gather(games: np.ndarray, streams: np.ndarray, waiting: np.ndarray, views: np.ndarray, seeds: np.ndarray) -> int:
    """Play on to the next choice of each game that is not over: their numbers, views and seeds; returns how many."""
    actions = np.empty(NUM_ACTIONS, np.int64)
    size = 0
    for i in range(len(games)):
        game = games[i]
        while not game.round_over and legal_actions(game, actions) == 1:
            play(game, actions[0])
        if not game.round_over:
            waiting[size] = i
            views[size] = game
            hide(views[size], game.player)
            # The same luck for all actions of a world: they differ by what they do.
            seeds[size] = derive(derive(streams[i], 2), np.int64(game.num_plays))
            size += 1
    return size


@kernel
def _play(games: np.ndarray, waiting: np.ndarray, actions: np.ndarray) -> None:
    for i in range(len(waiting)):
        play(games[waiting[i]], actions[i])


@kernel
def _add_results(
    games: np.ndarray,
    streams: np.ndarray,
    players: np.ndarray,
    candidates: np.ndarray,
    count: int,
    objective: int,
    sample: np.ndarray,
    sums: np.ndarray,
) -> None:
    values = np.empty(MAX_PLAYERS)
    number = 0
    for i in range(len(players)):
        for _ in range(count):
            for action in range(NUM_ACTIONS):
                if candidates[i, action]:
                    fill_results(games[number], objective, sample, derive(streams[number], 3), values)
                    sums[i, 0, action] += values[players[i]]
                    sums[i, 1, action] += values[players[i]] ** 2
                    number += 1


def search_policy_worlds(
    policy: Policy,
    views: np.ndarray,
    seeds: np.ndarray,
    candidates: np.ndarray,
    first: int,
    count: int,
    objective: int,
    sample: np.ndarray,
    sums: np.ndarray,
) -> None:
    """What `pimc.search_worlds` does, with all seats played by a policy; the other arguments are as there."""
    sizes = candidates.sum(axis=1, dtype=np.int64) * count
    start = 0
    while start < len(views):
        end = start + max(1, int(np.searchsorted(sizes[start:].cumsum(), MAX_GAMES, side="right")))
        some = slice(start, end)
        games = np.empty(sizes[some].sum(), GAME)
        streams = np.empty(len(games), np.uint64)
        _start_games(views[some], seeds[some], candidates[some], first, count, games, streams)
        _play_out(policy, games, streams)
        _add_results(
            games,
            streams,
            views["player"][some].astype(np.int64),
            candidates[some],
            count,
            objective,
            sample,
            sums[some],
        )
        start = end


def _play_out(policy: Policy, games: np.ndarray, streams: np.ndarray) -> None:
    """Play games to the end of their round."""
    waiting, views, seeds = np.empty(len(games), np.int64), np.empty(len(games), GAME), np.empty(len(games), np.uint64)
    for _ in range(NUM_CARDS):
        size = _gather(games, streams, waiting, views, seeds)
        if size == 0:
            return
        _play(games, waiting[:size], policy.act(views[:size], seeds[:size]))
