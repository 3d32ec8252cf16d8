"""The scripted agents: random, lowest, highest and cautious.

Each is a kernel on one record, `choose_...(view, seed) -> action`, for other kernels to call, and an agent over
batches of views. The kernels read the hand of the seat to act and what is public, nothing else, so a full record
and the seat's view of it give the same card. The strength figures of this project rest on `lowest` and `highest`,
so these two never change.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import COLOUR_OFFSETS, LOWEST_RANK, MAX_RANK, NUM_ACTIONS, NUM_COLOURS, WILD, WILD_RANK
from fool_env.engine import legal_actions, legal_hand
from fool_env.rng import below, output
from fool_env.state import NOBODY, Record

from .bits import highest_rank, lowest_rank
from .cautious import choose_cautious, fill_values


@kernel
def choose_random(view: Record, seed: np.uint64) -> int:
    """Any legal card, each as likely."""
    actions = np.empty(NUM_ACTIONS, np.int64)
    count = legal_actions(view, actions)
    return actions[below(output(seed), count)]


@kernel
def choose_highest(view: Record, seed: np.uint64) -> int:
    """The highest legal rank, a 1 counting as rank 1; of equal ranks the one with the lowest action."""
    best, best_rank = WILD, WILD_RANK
    for colour in range(NUM_COLOURS):
        rank = highest_rank(legal_hand(view, colour))
        if rank > best_rank:
            best, best_rank = COLOUR_OFFSETS[colour] + rank - LOWEST_RANK, rank
    return best


@kernel
def choose_lowest(view: Record, seed: np.uint64) -> int:
    """The lowest legal rank, a 1 counting as rank 1; of equal ranks the one with the lowest action."""
    if view.ones[view.player] > 0:
        return WILD
    best, best_rank = WILD, MAX_RANK + 1
    for colour in range(NUM_COLOURS):
        cards = legal_hand(view, colour)
        if cards and lowest_rank(cards) < best_rank:
            best_rank = lowest_rank(cards)
            best = COLOUR_OFFSETS[colour] + best_rank - LOWEST_RANK
    return best


@kernel
def _act_random(views: np.ndarray, seeds: np.ndarray, actions: np.ndarray) -> None:
    for i in range(len(views)):
        actions[i] = choose_random(views[i], seeds[i])


@kernel
def _act_highest(views: np.ndarray, seeds: np.ndarray, actions: np.ndarray) -> None:
    for i in range(len(views)):
        actions[i] = choose_highest(views[i], seeds[i])


@kernel
def _act_lowest(views: np.ndarray, seeds: np.ndarray, actions: np.ndarray) -> None:
    for i in range(len(views)):
        actions[i] = choose_lowest(views[i], seeds[i])


@kernel
def _act_cautious(views: np.ndarray, seeds: np.ndarray, actions: np.ndarray) -> None:
    for i in range(len(views)):
        actions[i] = choose_cautious(views[i], seeds[i])


@kernel
def _fill_values(views: np.ndarray, values: np.ndarray) -> int:
    return fill_values(views[0], values)


def check_views(views: np.ndarray, seeds: np.ndarray) -> None:
    """Refuse what is not a batch of decisions.

    Raises:
        ValueError: a record is not the view of the seat to act, or its round is over; or the shapes differ.
    """
    if views.shape != seeds.shape or views.ndim != 1:
        raise ValueError(f"views and seeds: shapes {views.shape} and {seeds.shape} are not one (B,)")
    wrong = np.flatnonzero((views["player"] == NOBODY) | (views["viewer"] != views["player"]))
    if wrong.size:
        raise ValueError(f"views: number {wrong[0]} is not the view of a seat that is to act")


class ScriptedAgent:
    """An agent that is a kernel; it has no options and remembers nothing."""

    def __init__(self, name: str, kernel_on_views: Callable[[np.ndarray, np.ndarray, np.ndarray], None]) -> None:
        self.name = name
        self._kernel = kernel_on_views

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Choose a legal card for the seat to act in each view.

        Args:
            views: GAME of shape (B,), each the view of its seat to act.
            seeds: uint64 of shape (B,); only `random` uses them.

        Returns:
            The actions, int64 of shape (B,).

        Raises:
            ValueError: a record is not the view of the seat to act, or its round is over; or the shapes differ.
        """
        check_views(views, seeds)
        actions = np.empty(len(views), np.int64)
        self._kernel(views, np.ascontiguousarray(seeds, np.uint64), actions)
        return actions


class RandomAgent(ScriptedAgent):
    """Plays any legal card, each as likely."""

    def __init__(self) -> None:
        super().__init__("random", _act_random)


class LowestAgent(ScriptedAgent):
    """Plays the lowest legal rank, a 1 counting as rank 1; of equal ranks the one with the lowest action."""

    def __init__(self) -> None:
        super().__init__("lowest", _act_lowest)


class HighestAgent(ScriptedAgent):
    """Plays the highest legal rank, a 1 counting as rank 1; of equal ranks the one with the lowest action."""

    def __init__(self) -> None:
        super().__init__("highest", _act_highest)


class CautiousAgent(ScriptedAgent):
    """The best rule-based player here: weighs becoming the Fool against shedding high ranks."""

    def __init__(self) -> None:
        super().__init__("cautious", _act_cautious)

    def estimates(self, view: np.ndarray, seed: np.uint64) -> dict[str, np.ndarray]:
        """What it thinks each legal action is worth: "value", in points, up to what all plays have in common.

        Args:
            view: GAME of shape (1,), the view of its seat to act.
            seed: without effect, as for its choice.

        Returns:
            float64 of shape (k,) for the k legal actions, ascending.

        Raises:
            ValueError: the record is not the view of the seat to act, or its round is over.
        """
        check_views(view, np.zeros(1))
        values = np.empty(NUM_ACTIONS)
        return {"value": values[: _fill_values(view, values)]}
