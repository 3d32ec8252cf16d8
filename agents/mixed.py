"""Mixed tables: many agents at once, each against the field, on deals that everybody plays from every seat.

For each deal some agents are drawn to a line-up in a random circular order, each agent as often as the others. The
deal is played n times, the circle moved on by a seat each time, so that everybody plays every hand of the deal and the
luck of cards and seats cancels out. The deal is the unit of all statistics; full games are rotated in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any, Final, TypeAlias

import numpy as np

from fool_env.rng import checked_seed, derive
from fool_env.rules import MAX_PLAYERS, Rules
from fool_env.state import EPISODES

from .agent import AnyAgent, make_agent, recipe
from .arena import REPORT
from .intervals import Interval, mean_interval
from .tables import Finished, TableProgress, play_tables
from .workers import Batch

Estimate: TypeAlias = tuple[float, Interval | None]
"""A mean and its 95% confidence interval, None where there is a single deal."""

_LINE_UPS: Final = len(EPISODES)  # the deals hang under the indices of the episodes
_MEMBERS, _ORDER = range(2)


def line_ups(seed: np.uint64, first: int, count: int, agents: int, seats: int, guest: bool = False) -> np.ndarray:
    """Who sits together in deals number `first` to `first + count - 1`, in the order of the circle.

    Fewer agents than seats sit more than once. In every block of lcm(agents, seats) / seats deals all agents sit
    equally often, and on the way to its end none more than once more often than another; who meets whom changes from
    block to block.

    Args:
        seed: under which the line-ups hang.
        guest: one more agent, number `agents`, takes one of the seats in every deal.

    Returns:
        Numbers of agents, int64 (count, seats).
    """
    drawn = seats - guest
    block_size = lcm(agents, drawn) // drawn
    circles = np.full((count, seats), agents)
    for row, deal in enumerate(range(first, first + count)):
        block, within = divmod(deal, block_size)
        cycle = _shuffled(agents, derived(seed, _MEMBERS, block))
        circles[row, :drawn] = cycle[np.arange(within * drawn, (within + 1) * drawn) % agents]
        circles[row] = circles[row, _shuffled(seats, derived(seed, _ORDER, deal))]
    return circles


def rotations(circles: np.ndarray) -> np.ndarray:
    """The n seatings of each line-up, int64 (deals, arms, seats): in arm k, seat s holds place s + k of the circle.

    Args:
        circles: int64 (deals, n).
    """
    places = np.arange(circles.shape[1])
    return circles[:, (places[:, None] + places) % len(places)]


def derived(seed: np.uint64, *indices: int) -> np.uint64:
    """The seed under a chain of indices."""
    for index in indices:
        seed = np.uint64(derive(seed, index))
    return seed


def _shuffled(size: int, seed: np.uint64) -> np.ndarray:
    keys = np.array([derive(seed, index) for index in range(size)], np.uint64)
    return keys.argsort(kind="stable")


class MixedTables:
    """Rounds or full games at mixed tables, as a job of `run_batches`.

    All luck is derived from (seed, purpose, episode, deal), as in the arena: cards, decisions and line-ups.

    Args:
        agents: of other names each; in other processes they are made anew by their names.
        rules: of the tables.
        episode: "round" or "game".
        seed: 0 to 2**64 - 1.
        guest: whether the last of the agents sits in one seat of every table, and may see all hands.
        purpose: TRAINING, SELECTION, REPORT or BENCHMARK.
    """

    def __init__(
        self,
        agents: Sequence[AnyAgent],
        rules: Rules,
        episode: str,
        seed: int = 0,
        guest: bool = False,
        purpose: int = REPORT,
    ) -> None:
        self.agents = tuple(agents)
        self.rules = rules
        self.episode = episode
        self.guest = guest
        self._terms = (rules, episode, seed, guest, purpose)
        self._seed = derived(checked_seed(seed), purpose)
        self._warm = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_anew, ([recipe(agent) for agent in self.agents], *self._terms)

    def seating(self, first: int, count: int) -> np.ndarray:
        """Who sits where in deals number `first` to `first + count - 1`: int64 (count, arms, n), numbers of agents."""
        seed = derived(self._seed, _LINE_UPS, EPISODES.index(self.episode))
        drawn = len(self.agents) - self.guest
        return rotations(line_ups(seed, first, count, drawn, self.rules.num_players, self.guest))

    def play(self, first: int, count: int, progress: TableProgress | None = None) -> Batch:
        """Play deals number `first` to `first + count - 1`, each once an arm.

        Returns:
            The batch with "results", a round's points or a game's totals, (count, arms, n); "dealers", of the last
            round, (count,); and "moves" of each agent, (agents,).
        """
        num_players = self.rules.num_players
        if not self._warm:
            # Reading what is compiled, or compiling it, is no CPU time of anybody's moves: everybody plays a round.
            everybody = np.arange(-(-len(self.agents) // num_players) * num_players) % len(self.agents)
            self._play_tables(everybody.reshape(-1, num_players), first, None)
            self._warm = True
        finished = self._play_tables(self.seating(first, count).reshape(-1, num_players), first, progress)
        games = finished.games.reshape(count, num_players)
        field = "points" if self.episode == "round" else "scores"
        results = {
            "results": games[field][:, :, :num_players].astype(np.int64),
            "dealers": games["dealer"][:, 0].astype(np.int64),
            "moves": finished.moves,
        }
        return Batch(first, count, results, finished.cpu_seconds)

    def _play_tables(self, seats: np.ndarray, first: int, progress: TableProgress | None) -> Finished:
        """Play tables, each n of them the arms of a deal, from deal number `first` on; seats: int64 (tables, n)."""
        arms = self.rules.num_players
        seating = np.zeros((len(seats), MAX_PLAYERS), np.int8)
        seating[:, :arms] = seats
        root = derived(self._seed, EPISODES.index(self.episode))
        deals = [derived(root, first + table // arms) for table in range(len(seats))]
        return play_tables(
            self.agents,
            self.rules,
            self.episode,
            seating,
            np.array(deals, np.uint64),
            # The cards hang under index 0, as in the arena.
            np.array([derive(deal, 1 + table % arms) for table, deal in enumerate(deals)], np.uint64),
            allow_omniscient=self.guest,
            progress=progress,
            table_name=lambda table: f"{self.episode} {first + table // arms}, arm {table % arms}",
        )


def _made_anew(recipes: list[tuple[str, bool]], *terms: Any) -> MixedTables:
    return MixedTables([make_agent(*each) for each in recipes], *terms)


# --- the statistics


class MixedResults:
    """What came of some deals, or of some full games, at mixed tables.

    Args:
        seating: numbers of agents, int64 (deals, arms, seats).
        results: points of a round, or totals of a game, int64 (deals, arms, seats).
    """

    def __init__(self, seating: np.ndarray, results: np.ndarray) -> None:
        self.seating = seating
        self.results = results.astype(np.int64)
        self.num_players = results.shape[2]
        # Whole numbers up to one division, so that equal play comes out as exactly equal.
        self._relative = self.num_players * self.results - self.results.sum(axis=2, keepdims=True)
        others, own = results[:, :, None, :], results[:, :, :, None]
        self._better = (others > own).sum(axis=3)
        self._equal = (others == own).sum(axis=3)

    def deals(self, agent: int) -> int:
        """In how many deals an agent sat."""
        return int((self.seating == agent).any(axis=(1, 2)).sum())

    def points(self, agent: int) -> Estimate:
        """Mean of an agent's results."""
        return self._mean(self.results, agent)

    def relative(self, agent: int) -> Estimate:
        """Mean of an agent's results minus the mean of the other seats' at the table."""
        return self._mean(self._relative, agent, self.num_players - 1)

    def wins(self, agent: int) -> Estimate:
        """How often an agent's seat had the best result, 1/k where k share it (R15)."""
        return self._mean((self._better == 0) / self._equal, agent)

    def places(self, agent: int) -> list[float]:
        """How often an agent came first, second and so on, as shares; equal results share their places."""
        shares = []
        for place in range(self.num_players):
            takes = (self._better <= place) & (place < self._better + self._equal)
            shares.append(self._mean(takes / self._equal, agent)[0])
        return shares

    def _mean(self, values: np.ndarray, agent: int, divisor: int = 1) -> Estimate:
        """The mean over all seats that an agent took, and its interval over deals."""
        sitting = self.seating == agent
        seats = sitting.sum(axis=(1, 2))
        sums = np.where(sitting, values, 0).sum(axis=(1, 2))[seats > 0]
        seats = seats[seats > 0]
        mean = sums.sum() / seats.sum()
        # A ratio of sums, as an agent may take more seats in one deal than in another; its error is that of the
        # deals' deviations from it. With as many seats in every deal it is the mean of the deals' means.
        return mean_interval((mean + (sums - mean * seats) / seats.mean()) / divisor)

    def by_seat(self, first_seats: np.ndarray) -> list[tuple[Estimate, Estimate]]:
        """Mean result and relative result of all agents together, by place to the left of a first seat.

        Args:
            first_seats: of each deal, int64 (deals,): 0 for absolute seats, the dealer's for seats relative to it.
        """
        seats = (first_seats[:, None] + np.arange(self.num_players)) % self.num_players
        points = np.take_along_axis(self.results.mean(axis=1), seats, axis=1)
        relative = np.take_along_axis(self._relative.mean(axis=1), seats, axis=1) / (self.num_players - 1)
        return [(mean_interval(points[:, k]), mean_interval(relative[:, k])) for k in range(self.num_players)]
