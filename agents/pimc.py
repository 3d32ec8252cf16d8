"""Perfect-information Monte Carlo: every legal card in the same worlds, each played to the end of the round.

Also called determinization (Ginsberg 2001, "GIB: Imperfect Information in a Computationally Challenging Game").
"""

from __future__ import annotations

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import NUM_ACTIONS
from fool_env.determinization import draw_world, hidden_cards
from fool_env.engine import legal_actions, play
from fool_env.rng import derive
from fool_env.rules import MAX_PLAYERS
from fool_env.state import Record

from .rollouts import fill_priors, fill_results, roll_out


@kernel
def add_worlds(
    view: Record,
    seed: np.uint64,
    first: int,
    count: int,
    rollout: int,
    objective: int,
    sample: np.ndarray,
    space: np.ndarray,
    actions: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Play each legal card in worlds number first..first + count - 1 and add up what the round's end is worth.

    Args:
        space: GAME (2,) to work in.
        actions: the legal actions, int64 (k,).
        sums: float64 (2, k), to which the values of each action are added, and their squares.
    """
    hidden = hidden_cards(view)
    values = np.empty(MAX_PLAYERS)
    world, game = space[0], space[1]
    for number in range(first, first + count):
        world_seed = derive(seed, number)
        space[0] = view
        draw_world(hidden, world_seed, world)
        for i in range(len(actions)):
            space[1] = world
            play(game, actions[i])
            # The same luck for all actions: they differ by what they do.
            roll_out(game, rollout, derive(world_seed, 2))
            fill_results(game, objective, sample, derive(world_seed, 3), values)
            value = values[view.player]
            sums[0, i] += value
            sums[1, i] += value * value


@kernel
def add_worlds_of(
    views: np.ndarray,
    seed: np.uint64,
    first: int,
    count: int,
    rollout: int,
    objective: int,
    sample: np.ndarray,
    space: np.ndarray,
    actions: np.ndarray,
    sums: np.ndarray,
) -> None:
    """`add_worlds` for an array of one view."""
    add_worlds(views[0], seed, first, count, rollout, objective, sample, space, actions, sums)


@kernel
def act_pimc(
    views: np.ndarray,
    seeds: np.ndarray,
    worlds: int,
    rollout: int,
    objective: int,
    prior: float,
    sample: np.ndarray,
    space: np.ndarray,
    chosen: np.ndarray,
) -> None:
    """Choose a card for each view: the best by mean value plus prior. `chosen` is int64 (B,)."""
    all_actions, priors, all_sums = np.empty(NUM_ACTIONS, np.int64), np.zeros(NUM_ACTIONS), np.empty((2, NUM_ACTIONS))
    for i in range(len(views)):
        count = legal_actions(views[i], all_actions)
        chosen[i] = all_actions[0]
        if count == 1:
            continue
        actions, sums = all_actions[:count], all_sums[:, :count]
        sums[:] = 0.0
        add_worlds(views[i], seeds[i], 0, worlds, rollout, objective, sample, space, actions, sums)
        fill_priors(views[i], objective, prior, actions, priors)
        chosen[i] = actions[(sums[0] / worlds + priors[actions]).argmax()]
