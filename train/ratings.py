"""Ratings: OpenSkill's Plackett-Luce model on the places at each table, with intervals bootstrapped over deals.

One pass over the tables gives each agent a rating and a sigma, and both depend on the order of the tables; sigma also
counts the tables of one deal, which share its luck, as so many independent ones. So the interval comes from a
bootstrap: every replicate draws as many deals as there are, with all their tables, and rates anew from scratch in the
order drawn. The rating is the replicates' mean, the interval their middle 95%, which is on the safe side: a replicate
scatters by its own order too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from openskill.models import PlackettLuce

from fool_env.agents.intervals import Interval
from fool_env.agents.tables import TableProgress
from fool_env.agents.workers import Batch
from fool_env.rng import checked_seed, derive

REPLICATES: Final = 200
"""A match takes 0.07 ms: 200 replicates of 300 deals at tables of six are 25 seconds of one core."""

REPLICATES_PER_BATCH: Final = 10

_MILLION: Final = 1_000_000  # batches hold whole numbers


@dataclass(frozen=True)
class Bootstrap:
    """The replicates of a bootstrap over deals, as a job of `run_batches`.

    Attributes:
        agents: how many agents there are.
        seating: who sat where, int (deals, tables, seats).
        results: points or scores, int (deals, tables, seats); the more the better, equal ones share a place.
        seed: 0 to 2**64 - 1.
    """

    agents: int
    seating: np.ndarray
    results: np.ndarray
    seed: int

    def play(self, first: int, count: int, progress: TableProgress | None = None) -> Batch:
        """Replicates number `first` to `first + count - 1`: "ratings" in millionths, int64 (count, agents)."""
        deals = _matches(self.seating, self.results)
        ratings = []
        for replicate in range(first, first + count):
            seed = np.uint64(derive(checked_seed(self.seed), replicate))
            drawn = [int(derive(seed, index)) % len(deals) for index in range(len(deals))]
            ratings.append(rate([match for deal in drawn for match in deals[deal]], self.agents))
            if progress is not None:
                progress(len(ratings) / count)
        whole = np.rint(np.array(ratings) * _MILLION).astype(np.int64)
        return Batch(first, count, {"ratings": whole}, np.zeros(self.agents))


Match: TypeAlias = tuple[list[int], list[float]]
"""The agents at one table, and the place of each; equal places are ties."""


def rate(matches: list[Match], agents: int) -> list[float]:
    """Each agent's rating (OpenSkill's mu, 25 to begin with) after the matches in their order.

    An agent in several seats of a table plays against itself too; its rating moves by the mean of what they would.
    """
    model = PlackettLuce(tau=0.0)  # tau is for players whose skill drifts
    mu, sigma = [model.mu] * agents, [model.sigma] * agents
    for seats, places in matches:
        teams = model.rate([[model.rating(mu[agent], sigma[agent])] for agent in seats], ranks=places)
        for agent in set(seats):
            after = [team[0] for team, sitting in zip(teams, seats, strict=True) if sitting == agent]
            mu[agent] = sum(rating.mu for rating in after) / len(after)
            sigma[agent] = sum(rating.sigma for rating in after) / len(after)
    return mu


def intervals(ratings: np.ndarray) -> list[tuple[float, Interval]]:
    """Each agent's rating and its 95% interval, from the replicates in millionths: int64 (replicates, agents)."""
    ratings = ratings / _MILLION
    low, high = np.quantile(ratings, (0.025, 0.975), axis=0)
    return [
        (float(mean), (float(start), float(end)))
        for mean, start, end in zip(ratings.mean(axis=0), low, high, strict=True)
    ]


def _matches(seating: np.ndarray, results: np.ndarray) -> list[list[Match]]:
    """The matches of each deal."""
    places = 1.0 + (results[..., None, :] > results[..., None]).sum(axis=-1)
    return [list(zip(*deal, strict=True)) for deal in zip(seating.tolist(), places.tolist(), strict=True)]
