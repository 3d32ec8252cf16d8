"""Rules as data: the official tables, the 1995 edition's deck, a miniature, and anything in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from .cards import (
    CARD_NAMES,
    COLOUR_NAMES,
    COLOUR_OFFSETS,
    HIGHEST_RANKS,
    LOWEST_RANK,
    MAX_ONES,
    NUM_COLOURS,
    WILD,
    WILD_RANK,
    parse_card,
)
from .errors import RulesError

DEFAULT_PLAYERS = 6
MIN_PLAYERS = 3
MAX_PLAYERS = 8
MAX_HAND = 30
MAX_FOOLS = (MAX_PLAYERS - 1) // 2
MAX_EMPTY_HAND_POINTS = 100
MAX_ONE_PENALTY = 50
LOWEST_LOSING_TOTAL = -1000
MAX_TENS = 50

# field: (lowest, highest); RULES, "Rules as data"
_RANGES = {
    "num_players": (MIN_PLAYERS, MAX_PLAYERS),
    "num_ones": (0, MAX_ONES),
    "num_fools": (1, MAX_FOOLS),
    "empty_hand_points": (1, MAX_EMPTY_HAND_POINTS),
    "one_penalty": (0, MAX_ONE_PENALTY),
    "losing_total": (LOWEST_LOSING_TOTAL, -1),
    "winning_tens": (1, MAX_TENS),
}

# players: (highest rank of green, red, yellow, blue; 1s; fools); RULES R2
_OFFICIAL = {
    4: ((17, 13, 11, 8), 3, 1),
    5: ((20, 16, 14, 10), 4, 1),
    6: ((23, 19, 17, 12), 5, 1),
    7: ((26, 22, 20, 14), 6, 2),
    8: ((27, 23, 21, 15), 6, 2),
}


@dataclass(frozen=True)
class Rules:
    """One table's rules; every field is checked on construction.

    Attributes:
        num_players: seats at the table, 3 to 8.
        highest_rank: the highest rank in play of green, red, yellow and blue; each colour starts at 2,
            and a highest rank of 1 leaves the colour out (R2).
        num_ones: wild 1s in play, 0 to 6 (R2).
        num_fools: Fool discs, at least 1, with `num_players >= 2 * num_fools + 1` (R10).
        empty_hand_points: points for an empty hand, 1 to 100 (R13).
        one_penalty: points lost for each 1 still held, 0 to 50 (R13).
        losing_total: the game ends once a total is this or less, -1000 to -1 (R14).
        winning_tens: the game ends once a seat has emptied its hand for points this often, 1 to 50 (R14).

    Raises:
        RulesError: a field is out of range or of the wrong type, or the deck does not deal out evenly.
    """

    num_players: int
    highest_rank: tuple[int, int, int, int]
    num_ones: int
    num_fools: int
    empty_hand_points: int = 10
    one_penalty: int = 5
    losing_total: int = -80
    winning_tens: int = 6

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            object.__setattr__(self, name, _checked_int(name, getattr(self, name), low, high))
        object.__setattr__(self, "highest_rank", _checked_highest_rank(self.highest_rank))
        if self.num_players < 2 * self.num_fools + 1:
            raise RulesError(
                f"num_fools: {self.num_fools} Fools need at least {2 * self.num_fools + 1} players, "
                f"not {self.num_players}: otherwise the winner of a trick could be its Fool"
            )
        if self.num_cards % self.num_players or not 1 <= self.hand_size <= MAX_HAND:
            raise RulesError(
                f"highest_rank, num_ones: {self.num_cards} cards do not deal out evenly, "
                f"1 to {MAX_HAND} each, to {self.num_players} players"
            )

    @property
    def num_cards(self) -> int:
        """Cards in play."""
        return sum(top - WILD_RANK for top in self.highest_rank) + self.num_ones

    @property
    def hand_size(self) -> int:
        """Cards dealt to each seat."""
        return self.num_cards // self.num_players

    @property
    def deck(self) -> np.ndarray:
        """The cards in play as actions, ascending, the wild once for each 1: int64 of shape (num_cards,)."""
        coloured = [
            offset + rank - LOWEST_RANK
            for offset, top in zip(COLOUR_OFFSETS, self.highest_rank, strict=True)
            for rank in range(LOWEST_RANK, top + 1)
        ]
        return np.array(coloured + [WILD] * self.num_ones, dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON or YAML; `Rules(**rules.to_dict()) == rules`."""
        return {**asdict(self), "highest_rank": list(self.highest_rank)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Rules:
        """The rules from their fields by name; unknown or missing names are refused."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise RulesError(f"rules have no field {', '.join(unknown)}: the fields are {', '.join(sorted(known))}")
        missing = [name for name in ("num_players", "highest_rank", "num_ones", "num_fools") if name not in values]
        if missing:
            raise RulesError(f"rules lack {', '.join(missing)}")
        return cls(**values)

    @classmethod
    def official(cls, num_players: int) -> Rules:
        """The official table for 4 to 8 players (R2, R10)."""
        num_players = _checked_int("num_players", num_players, min(_OFFICIAL), max(_OFFICIAL))
        highest_rank, num_ones, num_fools = _OFFICIAL[num_players]
        return cls(num_players, highest_rank, num_ones, num_fools)

    @classmethod
    def foppen_1995(cls, num_players: int) -> Rules:
        """The 60-card deck of the 1995 edition for 3 to 6 players, one Fool, 20, 15, 12 or 10 cards each.

        Only the deck is that edition's: the score is ours (R13), its own score and its announcement of
        the last card are not implemented.
        """
        num_players = _checked_int("num_players", num_players, 3, 6)
        highest_rank, num_ones, num_fools = _OFFICIAL[5]
        return cls(num_players, highest_rank, num_ones, num_fools)

    @classmethod
    def miniature(cls) -> Rules:
        """Three players, green 2-5, red 2-4, two 1s: small enough for exact exploitability."""
        return cls(num_players=3, highest_rank=(5, 4, 1, 1), num_ones=2, num_fools=1)


def _checked_int(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise RulesError(f"{name}: {value!r} is not a whole number")
    if not low <= value <= high:
        raise RulesError(f"{name}: {value} is not within {low} to {high}")
    return int(value)


def _checked_highest_rank(value: object) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)) or len(value) != NUM_COLOURS:
        raise RulesError(f"highest_rank: {value!r} is not four ranks, one each for {', '.join(COLOUR_NAMES)}")
    return tuple(
        _checked_int(f"highest_rank ({colour})", rank, WILD_RANK, top)
        for colour, rank, top in zip(COLOUR_NAMES, value, HIGHEST_RANKS, strict=True)
    )


def chosen_rules(num_players: int | None, rules: Rules | None) -> Rules:
    """The rules that an env is asked for: any, or the official ones for a number of players, 6 if none is given.

    Raises:
        RulesError: the two disagree, or there are no official rules for so many.
    """
    if rules is None:
        return Rules.official(DEFAULT_PLAYERS if num_players is None else num_players)
    if not isinstance(rules, Rules):
        raise RulesError(f"rules: {rules!r} are not Rules; Rules.official(6) makes some")
    if num_players is not None and num_players != rules.num_players:
        raise RulesError(f"num_players: {num_players} disagrees with the rules, which have {rules.num_players}")
    return rules


def checked_deal(rules: Rules, hands: Sequence[Sequence[str | int]]) -> list[list[int]]:
    """The hands as actions.

    Args:
        hands: a list of cards for each seat, as names or ids.

    Raises:
        RulesError: they do not deal out the deck of the rules; the message says which card or seat is wrong.
    """
    if not _is_list(hands) or not all(map(_is_list, hands)):
        raise RulesError(f"hands: {hands!r} is not a list of hands, each a list of cards")
    if len(hands) != rules.num_players:
        raise RulesError(f"hands: {rules.num_players} players need {rules.num_players} hands, not {len(hands)}")
    dealt = [[parse_card(card) for card in hand] for hand in hands]
    deck = Counter(rules.deck.tolist())
    counts = Counter(card for hand in dealt for card in hand)
    for card, count in counts.items():
        if deck[card] == 0:
            raise RulesError(f"hands: {CARD_NAMES[card]} is not in the deck of these rules")
        if count > deck[card]:
            raise RulesError(f"hands: {CARD_NAMES[card]} is dealt {count} times, the deck has it {deck[card]} times")
    for seat, hand in enumerate(dealt):
        if len(hand) != rules.hand_size:
            raise RulesError(f"hands: seat {seat} has {len(hand)} cards, not {rules.hand_size}")
    return dealt


def _is_list(value: object) -> bool:
    return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)
