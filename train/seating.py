"""Who sits where at the tables of an opponent pool, and the luck of what opponents do, all drawn from one seed.

Kernels, in a file of their own: see `tests/test_imports.py` on what their cache covers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fool_env._jit import kernel
from fool_env.rng import below, derive, output

LEARNER: Final = -1

_TABLES, _SEATS, _CHOICES = range(3)


def draw_tables(num_tables: int, count: int, seed: np.uint64) -> np.ndarray:
    """The numbers of `count` tables drawn by lot, ascending: int64 (count,)."""
    seed = np.uint64(derive(seed, _TABLES))
    lots = [derive(seed, table) for table in range(num_tables)]
    return np.sort(np.array(lots, np.uint64).argsort(kind="stable")[:count])


@kernel
def seat_opponents(
    tables: np.ndarray,
    players: np.ndarray,
    episodes: np.ndarray,
    seed: np.uint64,
    members: np.ndarray,
    cumulative: np.ndarray,
    occupants: np.ndarray,
) -> None:
    """Draw who sits at some tables in their present episodes.

    Args:
        tables: int64 (k,), their numbers.
        players: int64 (T,), seats at each of all tables.
        episodes: int64 (T,), the number of each table's episode.
        seed: of the pool.
        members: int64 (m,), numbers of those who may be drawn; if there are none, the learner has all seats.
        cumulative: float64 (m,), their weights, summed up.
        occupants: int64 (T, 8), of which the tables' rows are filled: the number of a member or LEARNER.
    """
    for i in range(len(tables)):
        table = tables[i]
        luck = derive(derive(seed, _SEATS), table)
        # One seat on from episode to episode, so that each is the learner's equally often.
        learner = (below(output(luck), players[table]) + episodes[table]) % players[table]
        luck = derive(luck, episodes[table])
        occupants[table] = LEARNER
        for seat in range(players[table]):
            if seat != learner and len(members) > 0:
                occupants[table, seat] = members[_draw(cumulative, derive(luck, seat))]


@kernel
def _draw(cumulative: np.ndarray, luck: np.uint64) -> int:
    """An index, by weights that are summed up."""
    target = np.float64(output(luck) >> np.uint64(11)) * 2.0**-53 * cumulative[-1]
    index = 0
    while index < len(cumulative) - 1 and cumulative[index] <= target:
        index += 1
    return index


@kernel
def fill_seeds(tables: np.ndarray, play: int, seed: np.uint64, seeds: np.ndarray) -> None:
    """The luck of the choices at some tables in the run's play of this number: int64 (k,) -> uint64 (k,)."""
    for i in range(len(tables)):
        seeds[i] = derive(derive(derive(seed, _CHOICES), tables[i]), play)
