"""Cards: 82 coloured ones and the wild 1, as actions 0-82 and as names like "G14" (RULES R1, R3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from .errors import RulesError

COLOURS: Final = ("G", "R", "Y", "B")
COLOUR_NAMES: Final = ("green", "red", "yellow", "blue")
NUM_COLOURS: Final = 4
LOWEST_RANK: Final = 2
WILD_RANK: Final = 1
HIGHEST_RANKS: Final = (27, 23, 21, 15)
MAX_ONES: Final = 6
MAX_RANK: Final = max(HIGHEST_RANKS)

NUM_ACTIONS: Final = sum(rank - WILD_RANK for rank in HIGHEST_RANKS) + 1
"""83: one action for each coloured card, and one for any wild 1."""
WILD: Final = NUM_ACTIONS - 1
"""The action of playing a wild 1: 82."""
NUM_CARDS: Final = NUM_ACTIONS - 1 + MAX_ONES
"""88: the cards in the box."""

COLOUR_SIZES: Final = tuple(rank - WILD_RANK for rank in HIGHEST_RANKS)
COLOUR_OFFSETS: Final = tuple(sum(COLOUR_SIZES[:colour]) for colour in range(NUM_COLOURS))
"""The action of each colour's 2: 0, 26, 48, 68."""

# The same facts as arrays indexed by action, for the kernels. The wild has no colour of its own: -1.
ACTION_COLOUR: Final = np.array(
    [colour for colour in range(NUM_COLOURS) for _ in range(COLOUR_SIZES[colour])] + [-1], dtype=np.int8
)
ACTION_RANK: Final = np.array(
    [LOWEST_RANK + i for colour in range(NUM_COLOURS) for i in range(COLOUR_SIZES[colour])] + [WILD_RANK],
    dtype=np.int8,
)

CARD_NAMES: Final = tuple(
    f"{COLOURS[ACTION_COLOUR[action]]}{ACTION_RANK[action]}" if action != WILD else "1" for action in range(NUM_ACTIONS)
)
_ACTION_OF_NAME: Final = {name: action for action, name in enumerate(CARD_NAMES)}


def card_name(action: int) -> str:
    """The name of a card by its action: 12 -> "G14", 82 -> "1" (R3)."""
    if not 0 <= action < NUM_ACTIONS:
        raise RulesError(f"no card has the id {action}: card ids are 0 to {NUM_ACTIONS - 1}")
    return CARD_NAMES[action]


def parse_card(card: str | int) -> int:
    """The action of a card given by name ("G14", "1") or already as its id (R3).

    Raises:
        RulesError: no such card.
    """
    if isinstance(card, str):
        action = _ACTION_OF_NAME.get(card.strip().upper())
        if action is None:
            ranges = ", ".join(f"{c}2-{c}{top}" for c, top in zip(COLOURS, HIGHEST_RANKS, strict=True))
            raise RulesError(f'no card is called "{card}": cards are {ranges} and "1"')
        return action
    if isinstance(card, (bool, np.bool_)) or not isinstance(card, (int, np.integer)):
        raise RulesError(f"a card is a name or an id, not {card!r}")
    card_name(int(card))
    return int(card)


def card_names(actions: Iterable[int]) -> list[str]:
    """The names of several cards, in the order given."""
    return [card_name(int(action)) for action in actions]
