"""What a play pays: round points, points relative to the table, or the win of the game."""

from __future__ import annotations

from typing import Final

import numpy as np

from ._jit import kernel
from .engine import winners
from .rules import MAX_PLAYERS
from .state import Record

REWARDS: Final = ("points", "relative", "win")
"""points: a round's points as it ends (R13). relative: these minus the mean of the other seats'.
win: 1/k to each of the game's k winners as it ends (R15)."""

POINTS: Final = 0
RELATIVE: Final = 1
WIN: Final = 2


def reward_code(reward: str, episode: str) -> int:
    """The kernels' number for a reward.

    Raises:
        ValueError: there is no such reward, or it does not go with the episode.
    """
    if reward not in REWARDS:
        raise ValueError(f"reward: {reward!r} is none of {', '.join(map(repr, REWARDS))}")
    if reward == "win" and episode == "round":
        raise ValueError("reward: 'win' is paid at the end of a game, so it needs episode='game', not 'round'")
    return REWARDS.index(reward)


@kernel
def pay(game: Record, reward: int, paid: np.ndarray) -> None:
    """Fill float32[8] with what the play that led to this state pays to every seat: zeros within a round."""
    paid[:] = 0.0
    if not game.round_over:
        return
    num_players = np.int64(game.num_players)
    if reward == WIN:
        if game.game_over:
            seats = winners(game)
            share = 0
            for seat in range(MAX_PLAYERS):
                share += (seats >> seat) & 1
            for seat in range(num_players):
                if (seats >> seat) & 1:
                    paid[seat] = 1.0 / share
        return
    total = 0
    for seat in range(num_players):
        total += game.points[seat]
    for seat in range(num_players):
        points = np.int64(game.points[seat])
        others = (total - points) / (num_players - 1) if reward == RELATIVE else 0.0
        paid[seat] = points - others
