"""Determinization: full records in which the cards that a seat does not see are dealt anew, as its view allows.

Every *physical* deal that is consistent with the view (R16, R17: sizes of hands, cards gone, voids shown) is equally
likely, the 1s counting as different cards. Such a world has luck of its own, so it does not tell the next deal.

How: the unseen cards fall into classes, the free ones, which any seat may hold, and those of colours that some seats
have shown to lack. Places in the hands of those seats are filled first, one after another, a class at a time by lot:
its weight is the number of its cards left times the chance that a blind shuffle of all other cards keeps to the
voids. A table holds that chance for all numbers of cards left in each class. What remains is shuffled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._jit import kernel
from .cards import ACTION_COLOUR, ACTION_RANK, COLOUR_OFFSETS, LOWEST_RANK, NUM_COLOURS, WILD
from .observation import deck_mask
from .rng import advance, below, derive, output
from .state import GAME, NOBODY, Record

_FREE = NUM_COLOURS  # the class of the cards that any seat may hold; the others are 0-3
_NUM_CLASSES = NUM_COLOURS + 1
_UNIT = 2.0**-53


class HiddenCards(NamedTuple):
    """What a view leaves open, from which worlds are drawn: `size` cards, as many places, the bound ones first."""

    cards: np.ndarray
    """The unseen cards as actions, the wild once for each 1, class by class: uint8[cards]."""
    starts: np.ndarray
    """Where each class begins among them, and the end: int64[6]."""
    seats: np.ndarray
    """The seat of each place to fill, those that lack a colour first: int64[cards]."""
    allowed: np.ndarray
    """The set of classes that each place of a seat that lacks a colour may hold, as bits: int64[bound places]."""
    strides: np.ndarray
    """Steps in a row of `chances` for one card more of each class; 0 for the free: int64[5]."""
    chances: np.ndarray
    """That a shuffle of what is left keeps to the voids, by place and cards left: float64[bound places + 1, ...]."""
    pile: np.ndarray
    """Where `draw_world` works: uint8[cards]."""
    left: np.ndarray
    """Likewise, the cards left in each class: int64[5]."""


@kernel
def hidden_cards(view: Record) -> HiddenCards:
    """Sort what the view leaves open, and count."""
    lacking = np.zeros(NUM_COLOURS, np.int64)
    counts = np.zeros(NUM_COLOURS, np.int64)
    unseen = np.zeros(NUM_COLOURS, np.uint32)
    ones, size = np.int64(view.num_ones) - view.ones_played - view.ones[view.viewer], 0
    for colour in range(NUM_COLOURS):
        unseen[colour] = deck_mask(view, colour) & ~(view.hands[view.viewer, colour] | view.played[colour])
        cards = unseen[colour]
        while cards:
            cards &= cards - np.uint32(1)
            counts[colour] += 1
        size += counts[colour]
        for seat in range(view.num_players):
            if seat != view.viewer and counts[colour] > 0 and view.hand_sizes[seat] > 0:
                lacking[colour] |= ((view.voids[seat] >> colour) & 1) << seat
    size += ones
    cards_of = np.empty(size, np.uint8)
    starts = np.zeros(_NUM_CLASSES + 1, np.int64)
    class_of = _classes(lacking)
    filled = 0
    for kind in range(_NUM_CLASSES):
        starts[kind] = filled
        for colour in range(NUM_COLOURS):
            if class_of[colour] == kind:
                filled = _list_cards(unseen[colour], COLOUR_OFFSETS[colour], cards_of, filled)
    cards_of[filled:] = WILD
    starts[_NUM_CLASSES] = size
    seats, allowed, num_bound = _places(view, lacking, class_of, size)
    strides = np.zeros(_NUM_CLASSES, np.int64)
    row = 1
    for kind in range(NUM_COLOURS):
        strides[kind] = row
        row *= starts[kind + 1] - starts[kind] + 1
    chances = np.zeros((num_bound + 1, row if num_bound > 0 else 0))
    if num_bound > 0:
        _fill_chances(starts, allowed, strides, size, chances)
    return HiddenCards(
        cards_of, starts, seats, allowed, strides, chances, np.empty(size, np.uint8), np.empty(_NUM_CLASSES, np.int64)
    )


@kernel
def _classes(lacking: np.ndarray) -> np.ndarray:
    """The class of each colour: free, or that of the first colour which the same seats lack."""
    class_of = np.empty(NUM_COLOURS, np.int64)
    for colour in range(NUM_COLOURS):
        class_of[colour] = _FREE
        for first in range(colour, -1, -1):
            if lacking[colour] != 0 and lacking[first] == lacking[colour]:
                class_of[colour] = first
    return class_of


@kernel
def _list_cards(cards: int, first_action: int, listed: np.ndarray, size: int) -> int:
    """Write the cards of one colour as actions from `size` on; returns the new size."""
    action = first_action
    while cards:
        if cards & np.uint32(1):
            listed[size] = action
            size += 1
        cards >>= np.uint32(1)
        action += 1
    return size


@kernel
def _places(view: Record, lacking: np.ndarray, class_of: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The seat of each place, the classes that the bound ones may hold, and how many are bound."""
    seats, allowed = np.empty(size, np.int64), np.empty(size, np.int64)
    filled = num_bound = 0
    for bound in (True, False):
        for seat in range(view.num_players):
            classes = (1 << _NUM_CLASSES) - 1
            for colour in range(NUM_COLOURS):
                if (lacking[colour] >> seat) & 1:
                    classes &= ~(1 << class_of[colour])
            if seat == view.viewer or (classes != (1 << _NUM_CLASSES) - 1) != bound:
                continue
            for _ in range(view.hand_sizes[seat]):
                seats[filled], allowed[filled] = seat, classes
                filled += 1
        if bound:
            num_bound = filled
    return seats, allowed[:num_bound], num_bound


@kernel
def _fill_chances(starts: np.ndarray, allowed: np.ndarray, strides: np.ndarray, size: int, chances: np.ndarray) -> None:
    """From the last bound place backwards, for all numbers of cards that can be left in each class."""
    n0, n1, n2, n3 = starts[1] - starts[0], starts[2] - starts[1], starts[3] - starts[2], starts[4] - starts[3]
    chances[len(allowed)] = 1.0
    for place in range(len(allowed) - 1, -1, -1):
        here, after, left = chances[place], chances[place + 1], size - place
        may = allowed[place]
        for r3 in range(max(0, n3 - place), n3 + 1):
            for r2 in range(max(0, n2 - place), n2 + 1):
                for r1 in range(max(0, n1 - place), n1 + 1):
                    base = r1 * strides[1] + r2 * strides[2] + r3 * strides[3]
                    for r0 in range(max(0, n0 - place), n0 + 1):
                        free = left - r0 - r1 - r2 - r3
                        index = base + r0
                        total = free * after[index] if free > 0 else 0.0
                        if r0 > 0:
                            total += ((may >> 0) & 1) * r0 * after[index - 1]
                        if r1 > 0:
                            total += ((may >> 1) & 1) * r1 * after[index - strides[1]]
                        if r2 > 0:
                            total += ((may >> 2) & 1) * r2 * after[index - strides[2]]
                        if r3 > 0:
                            total += ((may >> 3) & 1) * r3 * after[index - strides[3]]
                        here[index] = total / left


@kernel
def draw_world(hidden: HiddenCards, seed: np.uint64, world: Record) -> None:
    """Turn a copy of the view into a full record of the game as it may be, its luck derived from the seed."""
    world.viewer = NOBODY
    world.rng = derive(seed, 0)
    luck = derive(seed, 1)
    # Locals, as every use of a tuple's array counts references.
    starts, seats, allowed, strides = hidden.starts, hidden.seats, hidden.allowed, hidden.strides
    chances, pile, left = hidden.chances, hidden.pile, hidden.left
    for i in range(len(pile)):
        pile[i] = hidden.cards[i]
    index = 0
    for kind in range(_NUM_CLASSES):
        left[kind] = starts[kind + 1] - starts[kind]
        index += left[kind] * strides[kind]
    for place in range(len(allowed)):
        luck = advance(luck)
        drawn = _FREE
        rest = np.float64(output(luck) >> np.uint64(11)) * _UNIT * chances[place, index] * (len(pile) - place)
        for kind in range(_NUM_CLASSES):
            # If rounding leaves a rest, the last class that there is.
            weight = ((allowed[place] >> kind) & 1) * left[kind] * chances[place + 1, index - strides[kind]]
            if weight > 0.0 and rest >= 0.0:
                drawn = kind
            rest -= weight
        luck = advance(luck)
        left[drawn] -= 1
        chosen, last = starts[drawn] + below(output(luck), left[drawn] + 1), starts[drawn] + left[drawn]
        _hold(world, seats[place], pile[chosen])
        pile[chosen] = pile[last]
        index -= strides[drawn]
    size = 0
    for kind in range(_NUM_CLASSES):
        for i in range(starts[kind], starts[kind] + left[kind]):
            pile[size] = pile[i]
            size += 1
    for place in range(len(allowed), len(pile)):
        luck = advance(luck)
        chosen = below(output(luck), size)
        _hold(world, seats[place], pile[chosen])
        size -= 1
        pile[chosen] = pile[size]


@kernel
def _hold(world: Record, seat: int, action: int) -> None:
    """Put a card into a hand whose size already counts it."""
    colour = ACTION_COLOUR[action]
    if colour < 0:
        world.ones[seat] += 1
    else:
        world.hands[seat, colour] |= np.uint32(1) << np.uint32(ACTION_RANK[action] - LOWEST_RANK)


@kernel
def _sample_worlds(views: np.ndarray, seed: np.uint64, worlds: np.ndarray) -> None:
    hidden = hidden_cards(views[0])
    for i in range(len(worlds)):
        worlds[i] = views[0]
        draw_world(hidden, derive(seed, i), worlds[i])


def sample_worlds(view: np.ndarray, seed: np.uint64, count: int) -> np.ndarray:
    """Draw full records from one view, each consistent deal of the hidden cards as likely, independently.

    Args:
        view: GAME of shape (1,), a seat's view: `view["viewer"]` is the seat.
        seed: what all worlds depend on; a larger `count` adds worlds and keeps the first ones.
        count: how many worlds.

    Returns:
        GAME of shape (count,), full records.

    Raises:
        ValueError: the record is no view, or there is not one of it.
    """
    if view.shape != (1,) or view["viewer"][0] == NOBODY:
        raise ValueError(f"view: shape {view.shape} is not (1,), or a full record, of which nothing is hidden")
    worlds = np.empty(count, GAME)
    _sample_worlds(view, np.uint64(seed), worlds)
    return worlds
