"""The opponent pool: at some of the tables one seat learns, and frozen opponents hold the others.

Which tables are the pool's is drawn by lot. There the learner's seat moves on by one from episode to episode, so that
it has every seat equally often, and each other seat gets a member of the pool, drawn anew for each episode and held to
its end. Members are snapshots of the network as it was and any other agents. Their plays have no row in the buffer, so
no gradient comes of them. While there is no member, the pool's tables are like all others.

Snapshots are bounded: when there is to be one more than `size`, one goes whose neighbours in time are closest to
each other, so that those kept stay spread over the whole run. It first finishes its episodes, for as long as the new
snapshot waits; so never are more than `size` in memory or in a checkpoint.

Members are drawn alike ("uniform") or by how hard they are ("hard"). Of each member the pool keeps its *edge*: how many
points better the learner did than the member at the same table (relative points of both), as a mean over its last
`_HORIZON` seats or so. A member's weight is exp(-_SHARPNESS * edge / spread), where the spread is the root mean
square of single results: who does a tenth of it better against the learner is drawn 2.7 times as often, whether
episodes are rounds or games and whatever they pay. That is prioritised fictitious self-play (Vinyals et al. 2019),
with points in place of wins. A share of `_EXPLORATION` is drawn uniformly, so that no edge grows stale.

All luck is derived from the run's seed, the table, and the number of the episode or play; the number of threads plays
no part, and a resumed run draws what the interrupted one would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

import numpy as np
from stable_baselines3.common.logger import Logger

from fool_env import FoolVectorEnv
from fool_env.agents.agent import Agent, AgentError, OmniscientAgent, make_agent
from fool_env.agents.neural import NeuralAgent
from fool_env.rng import derive
from fool_env.rules import MAX_PLAYERS
from fool_env.state import EPISODES
from fool_env.train.buffer import UNDECIDED
from fool_env.train.compute import Shards
from fool_env.train.config import PoolConfig
from fool_env.train.distributed import Ranks
from fool_env.train.seating import LEARNER, draw_tables, fill_seeds, seat_opponents

_NOBODY: Final = -1
POOL: Final = 5  # beside the arena's purposes of deals and the ranks', so that no luck is used twice

_HORIZON: Final = 1000
_DOUBT: Final = 100  # results of 0 that a new member starts with: a snapshot is as good as the learner until it shows
_SHARPNESS: Final = 10.0
_EXPLORATION: Final = 0.1


class Edges:
    """How much better the learner does than each member, as running means.

    Args:
        members: how many there are.

    Attributes:
        means: float64 (members,), in points.
        seen: float64 (members,), results behind each mean, at most _HORIZON.
        square: float64 (2,), the running mean of squared results, of all members together, and the results behind it.
    """

    def __init__(self, members: int) -> None:
        self.means = np.zeros(members)
        self.seen = np.full(members, float(_DOUBT))
        self.square = np.zeros(2)

    def add(self, members: np.ndarray, results: np.ndarray) -> None:
        """Take in results: int64 (k,) of which members, float64 (k,) how many points better the learner did."""
        counts = np.bincount(members, minlength=len(self.means))
        sums = np.bincount(members, results, minlength=len(self.means))
        self.seen[:] = np.maximum(np.minimum(self.seen + counts, _HORIZON), counts)
        self.means += (sums - counts * self.means) / self.seen
        mean, before = self.square
        seen = max(min(before + len(results), _HORIZON), len(results))
        self.square[:] = mean + (np.square(results).sum() - len(results) * mean) / seen, seen

    def forget(self, member: int) -> None:
        """Begin anew with a member."""
        self.means[member], self.seen[member] = 0.0, _DOUBT

    def weights(self, members: np.ndarray) -> np.ndarray:
        """How often to draw each of some members where the harder ones come more often: float64 (k,), sum 1."""
        spread = max(float(np.sqrt(self.square[0])), 1e-9)
        edges = self.means[members]
        weights = np.exp(-_SHARPNESS * (edges - edges.min()) / spread)
        return (1 - _EXPLORATION) * weights / weights.sum() + _EXPLORATION / len(weights)


class Pool:
    """Opponents at some of the tables, who sits where, and how they fare; see the module.

    Args:
        tables: all tables of the run.
        config: the pool's section of the run's.
        seed: of the run.
        members: agents that are always in the pool.
        freeze: makes an agent of the present network, its tensors copied.
    """

    def __init__(
        self,
        tables: FoolVectorEnv,
        config: PoolConfig,
        seed: int,
        members: list[Agent],
        freeze: Callable[[], NeuralAgent],
    ) -> None:
        self.config = config
        self._native = tables
        self._freeze = freeze
        self._seed = np.uint64(derive(np.uint64(seed), POOL))
        self._rows = np.arange(tables.num_tables)
        self._players = np.array([rules.num_players for rules in tables.rules])
        self.tables = draw_tables(tables.num_tables, round(config.share * tables.num_tables), self._seed)
        # Members by number: those of the config, and a place for each snapshot.
        self._agents: list[Agent | None] = [*members, *[None] * config.size]
        self._fixed = len(members)
        self._taken = np.full(config.size, _NOBODY)  # after how many plays each snapshot was taken; -1: none there
        self._episode = np.zeros(config.size, np.int64)  # which of the EPISODES it had been trained on last
        self._leaving = _NOBODY  # the snapshot that finishes its last episodes
        self._next_snapshot = config.every
        self._plays = 0  # at each table
        self._episodes = np.zeros(tables.num_tables, np.int64)
        self.occupants = np.full((tables.num_tables, MAX_PLAYERS), LEARNER)
        self._returns = np.zeros((tables.num_tables, MAX_PLAYERS))
        self.edges = Edges(len(self._agents))
        self._ended, self._relative = 0, 0.0
        self._seat(self.tables)

    @property
    def members(self) -> np.ndarray:
        """The numbers of those who may be drawn: int64 (k,)."""
        snapshots = self._fixed + np.flatnonzero(self._taken != _NOBODY)
        return np.concatenate([np.arange(self._fixed), snapshots[snapshots != self._leaving]])

    def to_act(self) -> np.ndarray:
        """Where an opponent is to act: bool (tables,)."""
        return self.occupants[self._rows, self._native.players] != LEARNER

    def play(self, actions: np.ndarray, compute: Shards) -> None:
        """Let the opponents choose where int64 (tables,) `actions` is UNDECIDED, and write it there."""
        tables = np.flatnonzero(actions == UNDECIDED)
        who = self.occupants[tables, self._native.players[tables]]
        order = who.argsort(kind="stable")
        tables, who = tables[order], who[order]
        views, seeds = self._native.views_of(tables), np.empty(len(tables), np.uint64)
        fill_seeds(tables, self._plays, self._seed, seeds)

        def choose(piece: slice) -> None:
            agent = self._agents[who[piece.start]]
            assert agent is not None
            actions[tables[piece]] = agent.act(views[piece], seeds[piece])

        compute.map(choose, _pieces(who, compute.parts))
        self._plays += 1

    def add_outcome(self) -> None:
        """Take in what a step paid; where an episode ended, rate its opponents and seat others."""
        self._returns += self._native.rewards
        ended = self.tables[self._native.dones[self.tables]]
        if len(ended) == 0:
            return
        rated = ended[(self.occupants[ended] != LEARNER).any(axis=1)]
        if len(rated):
            self._rate(rated)
        self._returns[self._native.dones] = 0.0
        self._episodes[ended] += 1
        self._seat(ended)

    def change_tables(self, tables: FoolVectorEnv) -> None:
        """Go on at other tables, as many, where episodes begin; edges in other points say nothing any more."""
        self._native = tables
        self._players = np.array([rules.num_players for rules in tables.rules])
        self.edges = Edges(len(self._agents))
        self._returns[:] = 0.0
        self._episodes[self.tables] += 1
        self._seat(self.tables)

    def end_iteration(self, steps: int, logger: Logger, ranks: Ranks) -> None:
        """After an update: log how the learner fared, and take a snapshot if it is time.

        Args:
            steps: plays of the run, over all tables.
            logger: receives the number of members, and the learner's relative points at tables with opponents.
            ranks: the processes that train together, each with a pool of its own.
        """
        ended, relative = ranks.totals([self._ended, self._relative])
        if ended:
            logger.record("pool/learner_relative", relative / ended)
        self._ended, self._relative = 0, 0.0
        if self.config.every and steps >= self._next_snapshot:
            self._take_snapshot(steps)
        logger.record("pool/members", len(self.members))

    def state_dict(self) -> dict[str, np.ndarray]:
        """All that the future depends on, snapshots too, as arrays."""
        state = {name: np.array(value) for name, value in self._counters().items()}
        for place in np.flatnonzero(self._taken != _NOBODY):
            agent = self._agents[self._fixed + place]
            assert isinstance(agent, NeuralAgent)
            for name, tensor in agent.network.state_dict().items():
                state[f"snapshots/{place}/{name}"] = tensor.numpy().copy()
        return state

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state_dict` of a pool of the same config."""
        for name, value in self._counters().items():
            if isinstance(value, np.ndarray):
                value[...] = state[name]
        self._leaving = int(state["leaving"])
        self._next_snapshot = int(state["next_snapshot"])
        self._plays = int(state["plays"])
        for place in range(self.config.size):
            prefix = f"snapshots/{place}/"
            weights = {name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)}
            agent = None
            if weights:
                agent = self._freeze()
                agent.load(weights)
                agent.episode = EPISODES[self._episode[place]]
            self._agents[self._fixed + place] = agent

    def _counters(self) -> dict[str, np.ndarray | int]:
        """What the future depends on besides the snapshots; the arrays are the pool's own."""
        return {
            "occupants": self.occupants,
            "episodes": self._episodes,
            "returns": self._returns,
            "taken": self._taken,
            "episode": self._episode,
            "edges": self.edges.means,
            "seen": self.edges.seen,
            "square": self.edges.square,
            "leaving": self._leaving,
            "next_snapshot": self._next_snapshot,
            "plays": self._plays,
        }

    def _seat(self, tables: np.ndarray) -> None:
        """Draw who plays the present episodes of some tables."""
        members = self.members
        hard = self.config.sampling == "hard" and len(members) > 0
        weights = self.edges.weights(members) if hard else np.ones(len(members))
        seat_opponents(tables, self._players, self._episodes, self._seed, members, weights.cumsum(), self.occupants)

    def _rate(self, tables: np.ndarray) -> None:
        """Learn from the episodes that ended at tables with opponents."""
        present = np.arange(MAX_PLAYERS) < self._players[tables, None]
        others = self._players[tables, None] - 1.0
        results = self._returns[tables]  # 0 in absent seats
        relative = results - results.sum(axis=1, keepdims=True) / (others + 1)
        if self._native.reward != "relative":
            relative *= (others + 1) / others
        occupants = self.occupants[tables]
        own = relative[present & (occupants == LEARNER)]  # one for each table
        seats = occupants != LEARNER
        self.edges.add(occupants[seats], (own[:, None] - relative)[seats])
        self._ended += len(own)
        self._relative += float(own.sum())

    def _take_snapshot(self, steps: int) -> None:
        """Freeze the present network, unless the one that makes room for it has still episodes to finish."""
        if (self._taken != _NOBODY).all():
            if self._leaving == _NOBODY:
                self._leaving = self._fixed + most_crowded(self._taken, steps)
            if (self.occupants == self._leaving).any():
                return
            self._taken[self._leaving - self._fixed] = _NOBODY
            self._agents[self._leaving] = None
            self._leaving = _NOBODY
        place, agent = int(np.argmax(self._taken == _NOBODY)), self._freeze()
        self._agents[self._fixed + place] = agent
        self._taken[place] = steps
        self._episode[place] = EPISODES.index(agent.episode)
        self.edges.forget(self._fixed + place)
        self._next_snapshot = (steps // self.config.every + 1) * self.config.every


def make_member(name: str) -> Agent:
    """The agent of a `make_agent` string, to sit in a pool.

    Raises:
        AgentError, OSError, ValueError: as `make_agent`; or the agent sees all hands.
    """
    agent = make_agent(name)
    if isinstance(agent, OmniscientAgent):
        raise AgentError(f'agent "{name}" sees all hands: nobody can learn to play against it from their own cards')
    return agent


def most_crowded(taken: np.ndarray, now: int) -> int:
    """Which snapshot to give up for one taken now: whose neighbours in time, or the start, are closest to each other.

    Args:
        taken: int64 (size,), after how many plays each was taken.
        now: after how many plays the next one is taken.
    """
    order = taken.argsort()
    times = np.concatenate([[0], taken[order], [now]])
    return int(order[(times[2:] - times[:-2]).argmin()])


def _pieces(who: np.ndarray, parts: int) -> list[slice]:
    """Ranges of one member each, none longer than a part of the whole: what a thread does at a time."""
    longest = max(1, -(-len(who) // parts))
    bounds = [0, *(np.flatnonzero(np.diff(who)) + 1).tolist(), len(who)]
    return [
        slice(begin, min(begin + longest, stop))
        for start, stop in pairwise(bounds)
        for begin in range(start, stop, longest)
    ]
