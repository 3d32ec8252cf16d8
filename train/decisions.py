"""Decisions: what the network sees of plays with a choice and what it chose, and their way from the tables to a buffer.

A GPU's buffer lies on the GPU. What the tables show for a step is gathered here, in one piece of page-locked memory,
and goes over in one copy; facts about cards, which a kernel on the CPU finds out, among it, so that no update has to
ask for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import torch as th

from fool_env.agents.facts import FACTS, fill_card_facts
from fool_env.agents.network import Cards
from fool_env.train.vec_env import NativeTables

DERIVED: Final = ("held", "facts")
"""What follows from the observations, so that no checkpoint need hold it."""

_ALIGNED: Final = 16  # bytes


class Decisions(NamedTuple):
    """Rows of a rollout, as tensors."""

    observations: th.Tensor  # float32[rows, K]
    masks: th.Tensor  # bool[rows, actions]
    actions: th.Tensor  # int64[rows]
    log_probs: th.Tensor  # float32[rows], under the policy that acted
    values: th.Tensor  # float32[rows]
    hands: th.Tensor  # uint8[rows, cards], what the others hold, for a critic that sees it; else of no width
    held: th.Tensor  # uint8[rows, hand], `Cards.actions`; of no width for a network without facts about cards
    facts: th.Tensor  # float32[rows, hand, facts], `Cards.facts`, likewise

    @classmethod
    def zeros(
        cls, rows: int, observation: int, actions: int, hands: int, hand: int, device: th.device | str
    ) -> Decisions:
        """So many rows, of such widths."""
        return cls(
            observations=th.zeros((rows, observation), device=device),
            masks=th.zeros((rows, actions), dtype=th.bool, device=device),
            actions=th.zeros(rows, dtype=th.int64, device=device),
            log_probs=th.zeros(rows, device=device),
            values=th.zeros(rows, device=device),
            hands=th.zeros((rows, hands), dtype=th.uint8, device=device),
            held=th.zeros((rows, hand), dtype=th.uint8, device=device),
            facts=th.zeros((rows, hand, len(FACTS)), device=device),
        )

    def at(self, rows: th.Tensor) -> Decisions:
        """A copy of some rows."""
        return Decisions(*(tensor.index_select(0, rows) for tensor in self))

    def part(self, rows: slice) -> Decisions:
        """Some rows in place."""
        return Decisions(*(tensor[rows] for tensor in self))

    @property
    def cards(self) -> Cards | None:
        """The facts about cards, for a network that wants them."""
        return Cards(self.held, self.facts) if self.held.shape[1] else None


def largest_hand(tables: NativeTables) -> int:
    """How many cards a seat at FOOL's tables holds at most; 0 at those of other games."""
    return max((rules.hand_size for rules in getattr(tables, "rules", ())), default=0)


class Intake:
    """Fills rows of a buffer with what tables show.

    Args:
        decisions: the buffer.
        rows: how many it takes in at once, at most.
        staged: whether they go through `Staging`, as they must to another device.
    """

    def __init__(self, decisions: Decisions, rows: int, staged: bool) -> None:
        self._decisions = decisions
        self._staging = Staging(_shown(decisions), rows) if staged else None

    def take(self, tables: NativeTables, numbers: np.ndarray, rows: slice) -> None:
        """Let the rows hold what tables int64[rows] `numbers` show; without staging, several threads may."""
        wanted = _shown(self._decisions.part(rows))
        if self._staging is None:
            _gather(tables, numbers, *wanted)
        else:
            _gather(tables, numbers, *self._staging.here(len(numbers)))
            self._staging.send(wanted)

    def derive(self, rows: slice) -> None:
        """Fill in again what follows from the observations in some rows."""
        if self._decisions.held.shape[1]:
            part = self._decisions.part(rows)
            held, facts = part.held.cpu(), part.facts.cpu()
            fill_card_facts(part.observations.cpu().numpy(), held.numpy(), facts.numpy())
            part.held.copy_(held)
            part.facts.copy_(facts)


def _shown(decisions: Decisions) -> list[th.Tensor]:
    """The columns that tables fill."""
    return [decisions.observations, decisions.facts, decisions.masks, decisions.hands, decisions.held]


def _gather(
    tables: NativeTables,
    numbers: np.ndarray,
    observations: th.Tensor,
    facts: th.Tensor,
    masks: th.Tensor,
    hands: th.Tensor,
    held: th.Tensor,
) -> None:
    """Write what some tables show into columns on the CPU."""
    index = th.from_numpy(numbers)
    th.index_select(th.from_numpy(tables.observations), 0, index, out=observations)
    th.index_select(th.from_numpy(tables.masks).view(th.bool), 0, index, out=masks)
    if hands.shape[1]:
        others = tables.hands_of(numbers)[:, 1:]  # its own hand a seat has in its observation
        hands.copy_(th.from_numpy(others.reshape(len(numbers), -1)))
    if held.shape[1]:
        fill_card_facts(observations.numpy(), held.numpy(), facts.numpy())


class Staging:
    """Rows on their way to another device: written here into one piece of memory, which goes over in one copy.

    What has been sent may be on its way still when `send` returns; before anything is written `here` again, something
    must have come back from the device, as the chosen actions do at every step.

    Args:
        columns: tensors there, a row for each row.
        rows: how many go at once, at most.
    """

    def __init__(self, columns: Sequence[th.Tensor], rows: int) -> None:
        device = columns[0].device
        self._columns = [(column.dtype, column.shape[1:]) for column in columns]
        size = self._end(rows)
        self._here = th.empty(size, dtype=th.uint8, pin_memory=device.type == "cuda")
        self._there = th.empty(size, dtype=th.uint8, device=device)

    def here(self, rows: int) -> list[th.Tensor]:
        """Columns of so many rows, to be written."""
        return self._views(self._here, rows)

    def send(self, columns: Sequence[th.Tensor]) -> None:
        """Let columns there hold what has been written here, as many rows."""
        rows = len(columns[0])
        end = self._end(rows)
        self._there[:end].copy_(self._here[:end], non_blocking=True)
        for column, sent in zip(columns, self._views(self._there, rows), strict=True):
            column.copy_(sent)

    def _views(self, memory: th.Tensor, rows: int) -> list[th.Tensor]:
        views, start = [], 0
        for dtype, shape in self._columns:
            end = start + rows * math.prod(shape) * dtype.itemsize
            views.append(memory[start:end].view(dtype).view(rows, *shape))
            start = _aligned(end)
        return views

    def _end(self, rows: int) -> int:
        return sum(_aligned(rows * math.prod(shape) * dtype.itemsize) for dtype, shape in self._columns)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
