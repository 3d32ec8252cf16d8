"""EpisodeBuffer: the decisions of many seats at many tables, kept until their episodes end.

A *decision* is a play with more than one legal action, as in `buffer.py`. What it is worth by Monte Carlo is known
when its episode is over: what its seat has been paid from then on, whoever played. So a decision waits, through as
many rollouts as it takes, and is then trained, once each epoch, and forgotten. The memory grows to what waits: at six
players and 64 steps, half as much as a rollout brings where single rounds are played, and five times where games are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch as th

from fool_env._jit import kernel
from fool_env.rules import MAX_PLAYERS
from fool_env.train.buffer import find_decisions, place_actions
from fool_env.train.networks import HANDS_SIZE
from fool_env.train.vec_env import NativeTables

LEDGER = np.dtype(
    [
        ("episode", np.int64),  # a number within the rollout; that of a table's first episode is the table's
        ("seat", np.int64),
        ("paid", np.float64),  # what the episode had paid to the seat before the decision
        ("best", np.float32),  # the highest value of a legal action, as the network saw it
        ("target", np.float32),  # once complete
        ("complete", np.bool_),  # the episode has ended
    ],
    align=True,
)
"""What is known about a decision besides what the network sees."""

_PIECE = 512


@kernel
def set_targets(ledger: np.ndarray, totals: np.ndarray, ended: np.ndarray, td_lambda: float) -> None:
    """Fill `target` and `complete` of the decisions whose episode has ended; the others are left alone.

    Args:
        ledger: LEDGER[decisions], in the order of play.
        totals: float64[episodes, seats], what each episode that has ended has paid to each seat.
        ended: bool[episodes].
        td_lambda: 1 for returns; less mixes in, after each of the seat's later decisions, `best` instead of the rest
            of the return (Peng's Q(lambda)).
    """
    paid_later = totals.copy()  # by the seat's next decision, or the end
    best_later, target_later = np.zeros_like(totals), np.zeros_like(totals)
    for row in range(len(ledger) - 1, -1, -1):
        episode, seat = ledger[row]["episode"], ledger[row]["seat"]
        if not ended[episode]:
            continue
        later = td_lambda * target_later[episode, seat] + (1.0 - td_lambda) * best_later[episode, seat]
        target = paid_later[episode, seat] - ledger[row]["paid"] + later
        ledger[row]["target"] = target
        ledger[row]["complete"] = True
        paid_later[episode, seat] = ledger[row]["paid"]
        best_later[episode, seat] = ledger[row]["best"]
        target_later[episode, seat] = target


class Decisions(NamedTuple):
    """What the network sees of decisions, and chose, as tensors."""

    observations: th.Tensor  # float32[rows, K]
    masks: th.Tensor  # bool[rows, actions]
    actions: th.Tensor  # int64[rows]
    hands: th.Tensor  # uint8[rows, cards], what the others hold, for values that see it; else of no width

    def at(self, rows: th.Tensor) -> Decisions:
        """A copy of some rows."""
        return Decisions(*(tensor.index_select(0, rows) for tensor in self))

    def part(self, rows: slice) -> Decisions:
        """Some rows in place."""
        return Decisions(*(tensor[rows] for tensor in self))


class EpisodeBuffer:
    """Rollouts of some steps at some tables, and the decisions of earlier ones that wait for their episode's end.

    Args:
        tables: those of all rollouts.
        steps: plays at each table in a rollout.
        td_lambda: see `set_targets`.
        reward_scale: multiplies rewards.
        with_hands: whether the network is shown what the other seats hold.
        device: where `decisions` lie.

    Attributes:
        decisions: Decisions[capacity]; of the rows in use, those carried over come first.
        ledger: LEDGER[capacity], the same rows.
        size: rows in use.
        carried: rows carried over.
        episodes: how many episodes have ended in the rollout.
        forced: how many plays had one legal action.
    """

    def __init__(
        self,
        tables: NativeTables,
        steps: int,
        td_lambda: float = 1.0,
        reward_scale: float = 1.0,
        with_hands: bool = False,
        device: th.device | str = "cpu",
    ) -> None:
        (num_tables, num_actions), hands = tables.masks.shape, HANDS_SIZE if with_hands else 0
        self.steps, self.num_tables = steps, num_tables
        self.td_lambda, self.reward_scale = td_lambda, reward_scale
        self.decisions = Decisions(
            th.zeros((0, tables.observations.shape[1]), device=device),
            th.zeros((0, num_actions), dtype=th.bool, device=device),
            th.zeros(0, dtype=th.int64, device=device),
            th.zeros((0, hands), dtype=th.uint8, device=device),
        )
        self.ledger = np.zeros(0, LEDGER)
        self.size = self.carried = self.episodes = self.forced = 0
        self._rows = np.zeros(num_tables, np.int64)  # each table's new decision, NO_ROW where forced
        self._tables = np.zeros(num_tables, np.int64)  # the table of each new decision
        self._legal = np.zeros(num_tables, np.int16)
        self._opponents = np.zeros(num_tables, np.uint8)  # all seats are the network's
        self._episode = np.arange(num_tables)  # the number of each table's episode
        self._paid = np.zeros((num_tables, MAX_PLAYERS))  # by each table's episode so far
        self._totals = np.zeros(((steps + 1) * num_tables, MAX_PLAYERS))
        self._ended = np.zeros((steps + 1) * num_tables, np.bool_)

    def begin(self) -> None:
        """Start a rollout: decisions that wait move to the first rows, the others are forgotten."""
        rows = np.flatnonzero(~self.ledger["complete"][: self.size])
        self.size = self.carried = len(rows)
        self.ledger[: self.size] = self.ledger[rows]
        # In pieces, which spares large temporaries; rows ascend, so a piece overwrites none that a later one needs.
        for start in range(0, self.size, _PIECE):
            piece = th.from_numpy(rows[start : start + _PIECE]).to(self.decisions.actions.device)
            for tensor in self.decisions:
                tensor[start : start + len(piece)] = tensor[piece]
        self._grow(self.size + self.steps * self.num_tables)
        table_of = np.zeros(len(self._ended), np.int64)
        table_of[self._episode] = np.arange(self.num_tables)
        self.ledger["episode"][: self.size] = table_of[self.ledger["episode"][: self.size]]
        self._episode = np.arange(self.num_tables)
        self._ended[:] = False
        self.episodes = self.forced = 0

    def _grow(self, capacity: int) -> None:
        """Make room for so many rows."""
        more = capacity - len(self.ledger)
        if more <= 0:
            return
        more += capacity // 8  # what waits varies; growing once is better than often
        self.ledger = np.concatenate([self.ledger, np.zeros(more, LEDGER)])
        self.decisions = Decisions(
            *(th.cat([tensor, tensor.new_zeros((more, *tensor.shape[1:]))]) for tensor in self.decisions)
        )

    def add_decisions(self, tables: NativeTables, actions: np.ndarray) -> slice:
        """Find the decisions that the tables face before a step; int64[tables] `actions` receives the forced plays.

        Returns:
            A row for each, for `take_in` and then for what is decided.

        Raises:
            ValueError: a table has no legal action.
        """
        opponents, legal = self._opponents, self._legal
        count = find_decisions(tables.masks, opponents, self.size, actions, self._rows, self._tables, legal)
        if count < 0:
            raise ValueError(
                f"table {-1 - count} has no legal action: its action mask is all zero, "
                f"although seat {tables.players[-1 - count]} is to act"
            )
        rows, where = slice(self.size, self.size + count), self._tables[:count]
        ledger = self.ledger[rows]
        ledger["episode"], ledger["seat"] = self._episode[where], tables.players[where]
        ledger["paid"] = self._paid[where, ledger["seat"]]
        ledger["target"], ledger["complete"] = 0, False
        self.size += count
        self.forced += self.num_tables - count
        return rows

    def take_in(self, tables: NativeTables, rows: slice, first: int) -> Decisions:
        """Copy what the network sees into some of the new rows, of which `first` is the first; returns these rows."""
        numbers = self._tables[rows.start - first : rows.stop - first]
        index = th.from_numpy(numbers)
        new = self.decisions.part(rows)
        new.observations[:] = th.from_numpy(tables.observations).index_select(0, index)
        new.masks[:] = th.from_numpy(tables.masks).view(th.bool).index_select(0, index)
        if new.hands.shape[1]:
            hands = tables.hands_of(numbers)[:, 1:]  # its own hand a seat has in its observation
            new.hands[:] = th.from_numpy(hands.reshape(len(numbers), -1))
        return new

    def place_actions(self, rows: slice, actions: np.ndarray) -> None:
        """Write the actions chosen in the new rows into int64[tables] `actions`."""
        place_actions(self._rows, rows.start, self.decisions.actions[rows].cpu().numpy(), actions)

    def add_outcome(self, tables: NativeTables) -> None:
        """Take in what the step paid and which episodes it ended."""
        self._paid += tables.rewards * np.float64(self.reward_scale)
        over = np.flatnonzero(tables.dones)
        self._totals[self._episode[over]] = self._paid[over]
        self._ended[self._episode[over]] = True
        self._paid[over] = 0
        self._episode[over] = self.num_tables + self.episodes + np.arange(len(over))
        self.episodes += len(over)

    def finish(self) -> None:
        """Set the targets of all decisions whose episode has ended."""
        known = self.num_tables + self.episodes
        set_targets(self.ledger[: self.size], self._totals[:known], self._ended[:known], self.td_lambda)

    @property
    def trainable(self) -> np.ndarray:
        """The rows whose target is known: int64[decisions]."""
        return np.flatnonzero(self.ledger["complete"][: self.size])

    def state_dict(self) -> dict[str, np.ndarray]:
        """What the next rollout takes over from this one: the decisions that wait, and what has been paid."""
        self.begin()
        rows = slice(0, self.size)
        return {
            **{name: tensor.cpu().numpy() for name, tensor in self.decisions.part(rows)._asdict().items()},
            "ledger": self.ledger[rows],
            "paid": self._paid,
        }

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue where `state_dict` was taken."""
        self.size = 0
        self.begin()
        rows = slice(0, len(state["ledger"]))
        self._grow(rows.stop)
        self.ledger[rows] = state["ledger"]
        for name, tensor in self.decisions._asdict().items():
            tensor[rows] = th.from_numpy(state[name]).to(tensor.device)
        self._paid[:] = state["paid"]
        self.size = rows.stop
