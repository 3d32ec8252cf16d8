"""Perfect-information Monte Carlo: every legal card in the same worlds, each played to the end of the round.

Also called determinization (Ginsberg 2001, "GIB: Imperfect Information in a Computationally Challenging Game").
"""

from __future__ import annotations

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import NUM_ACTIONS
from fool_env.determinization import draw_world, hidden_cards
from fool_env.engine import play
from fool_env.rng import derive
from fool_env.rules import MAX_PLAYERS
from fool_env.state import Record

from .rollouts import fill_results, roll_out


@kernel
def _add_worlds(
    view: Record,
    seed: np.uint64,
    first: int,
    count: int,
    rollout: int,
    objective: int,
    sample: np.ndarray,
    space: np.ndarray,
    candidates: np.ndarray,
    sums: np.ndarray,
) -> None:
    """`search_worlds` for one view: candidates are bool (83,), sums float64 (2, 83)."""
    hidden = hidden_cards(view)
    values = np.empty(MAX_PLAYERS)
    world, game = space[0], space[1]
    for number in range(first, first + count):
        world_seed = derive(seed, number)
        space[0] = view
        draw_world(hidden, world_seed, world)
        for action in range(NUM_ACTIONS):
            if not candidates[action]:
                continue
            space[1] = world
            play(game, action)
            # The same luck for all actions: they differ by what they do.
            roll_out(game, rollout, derive(world_seed, 2))
            fill_results(game, objective, sample, derive(world_seed, 3), values)
            value = values[view.player]
            sums[0, action] += value
            sums[1, action] += value * value


@kernel
def search_worlds(
    views: np.ndarray,
    seeds: np.ndarray,
    candidates: np.ndarray,
    first: int,
    count: int,
    rollout: int,
    objective: int,
    sample: np.ndarray,
    space: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Add up, for each view, what each candidate was worth in worlds number first..first + count - 1.

    Args:
        views: GAME (B,).
        seeds: uint64 (B,), from which worlds are drawn.
        candidates: bool (B, 83), the legal actions to try.
        rollout: an index into ROLLOUTS.
        objective: an index into OBJECTIVES.
        sample: see `rollouts.sample_rounds`.
        space: GAME (2,) to work in.
        sums: float64 (B, 2, 83), to which values and their squares are added.
    """
    for i in range(len(views)):
        _add_worlds(views[i], seeds[i], first, count, rollout, objective, sample, space, candidates[i], sums[i])
