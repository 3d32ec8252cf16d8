"""Kernels on the cards of one colour, kept as bits: bit r - 2 is the card of rank r."""

from __future__ import annotations

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import LOWEST_RANK, WILD_RANK

_PAIRS = np.uint32(0x55555555)
_QUADS = np.uint32(0x33333333)
_BYTES = np.uint32(0x0F0F0F0F)


@kernel
def card(rank: int) -> int:
    """The card of a rank, alone."""
    return np.uint32(1) << np.uint32(rank - LOWEST_RANK)


@kernel
def highest_rank(cards: int) -> int:
    """The highest rank among the cards; that of a 1 if there are none."""
    rank = WILD_RANK
    for shift in (16, 8, 4, 2, 1):
        if cards >> np.uint32(shift):
            cards >>= np.uint32(shift)
            rank += shift
    return rank + (cards != 0)


@kernel
def lowest_rank(cards: int) -> int:
    """The lowest rank among the cards; that of a 1 if there are none."""
    return highest_rank(cards & (~cards + np.uint32(1)))


@kernel
def count_above(cards: int, rank: int) -> int:
    """How many of the cards have a higher rank; for the rank of a 1, all of them."""
    bits = np.uint32(cards) >> np.uint32(rank - WILD_RANK)
    bits = np.uint32(bits - ((bits >> np.uint32(1)) & _PAIRS))
    bits = np.uint32((bits & _QUADS) + ((bits >> np.uint32(2)) & _QUADS))
    bits = np.uint32((bits + (bits >> np.uint32(4))) & _BYTES)
    bits = np.uint32(bits + (bits >> np.uint32(8)))
    return np.int64((bits + (bits >> np.uint32(16))) & np.uint32(63))
