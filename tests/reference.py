"""A slow, obvious referee of FOOL, written from the rules alone, to check the engine against.

Cards are names ("G14", "1"), hands are lists, and every question is answered by looking at the cards again.
Nothing here comes from `fool_env`: the rules object is read by its field names only, so any object that has
these fields will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

ONE = "1"
COLOURS = "GRYB"


class RulesLike(Protocol):
    """The fields of `Rules`."""

    num_players: int
    highest_rank: tuple[int, int, int, int]
    num_ones: int
    num_fools: int
    empty_hand_points: int
    one_penalty: int
    losing_total: int
    winning_tens: int


def colour(card: str) -> str | None:
    """ "G14" -> "G"; a wild 1 has no colour of its own (R1)."""
    return None if card == ONE else card[0]


def rank(card: str) -> int:
    """ "G14" -> 14; a wild 1 counts as rank 1 (R7)."""
    return 1 if card == ONE else int(card[1:])


def in_order(cards: Iterable[str]) -> list[str]:
    """Cards by colour, then rank, the 1s last: the order of their action numbers (R3)."""
    return sorted(cards, key=lambda card: (4 if card == ONE else COLOURS.index(card[0]), rank(card)))


def deck_of(rules: RulesLike) -> list[str]:
    """Every card in play (R1, R2)."""
    coloured = [f"{c}{r}" for c, top in zip(COLOURS, rules.highest_rank, strict=True) for r in range(2, top + 1)]
    return coloured + [ONE] * rules.num_ones


Play = tuple[int, str]
"""Who played which card."""


def lead_colour(plays: Sequence[Play]) -> str | None:
    """The colour of the first coloured card of the trick, if there is one yet (R6, R7)."""
    for _, card in plays:
        if card != ONE:
            return colour(card)
    return None


def legal_cards(hand: Sequence[str], plays: Sequence[Play]) -> list[str]:
    """The cards that may be played from this hand after these plays, each named once (R5-R7)."""
    lead = lead_colour(plays)
    following = [card for card in hand if colour(card) == lead and card != ONE]
    if lead is None or not following:
        return in_order(set(hand))
    return in_order(set(following) | {card for card in hand if card == ONE})


def trick_winner(plays: Sequence[Play]) -> int:
    """Who wins a finished trick (R8)."""
    lead = lead_colour(plays)
    if lead is None:
        first_seat, _ = plays[0]
        return first_seat
    highest = max(rank(card) for _, card in plays if colour(card) == lead)
    return next(seat for seat, card in plays if colour(card) == lead and rank(card) == highest)


def worst_first(plays: Sequence[Play]) -> list[Play]:
    """A finished trick from its worst card up to its best one (R9, R10)."""
    lead = lead_colour(plays)
    last_played_first = list(reversed(plays))  # sorted() is stable: among equals the one played last comes first
    off_colour = [play for play in last_played_first if play[1] != ONE and colour(play[1]) != lead]
    of_lead_colour = [play for play in last_played_first if play[1] == ONE or colour(play[1]) == lead]
    return sorted(off_colour, key=lambda play: rank(play[1])) + sorted(of_lead_colour, key=lambda play: rank(play[1]))


def trick_fools(plays: Sequence[Play], num_fools: int) -> list[int]:
    """The seats that take the discs, ascending (R10)."""
    return sorted(seat for seat, _ in worst_first(plays)[:num_fools])


def hand_points(hand: Sequence[str], is_fool: bool, rules: RulesLike) -> int:
    """What a hand scores at the end of a round (R13)."""
    if not hand:
        return 0 if is_fool else rules.empty_hand_points
    return -sum(rules.one_penalty if card == ONE else rank(card) for card in hand)


@dataclass
class Referee:
    """One game from a given first deal: play cards, read everything else off the attributes.

    After a round `round_over` is true and `next_round(hands)` goes on, unless `game_over`.
    """

    rules: RulesLike
    hands: list[list[str]]
    dealer: int
    scores: list[int] = field(init=False)
    tens: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.scores = [0] * self.rules.num_players
        self.tens = [0] * self.rules.num_players
        self._start_round(self.hands)

    def _start_round(self, hands: Sequence[Sequence[str]]) -> None:
        assert in_order(card for hand in hands for card in hand) == in_order(deck_of(self.rules))
        assert len({len(hand) for hand in hands}) == 1 and len(hands) == self.rules.num_players
        self.hands = [in_order(hand) for hand in hands]
        self.leader = (self.dealer + 1) % self.rules.num_players  # R5
        self.sitting_out: list[int] = []  # R4: all take part in the first trick
        self.trick: list[Play] = []
        self.tricks: list[list[Play]] = []
        self.voids: set[tuple[int, str]] = set()
        self.winner: int | None = None
        self.points: list[int] | None = None

    @property
    def round_over(self) -> bool:
        return self.points is not None

    @property
    def game_over(self) -> bool:
        """R14."""
        someone_lost = min(self.scores) <= self.rules.losing_total
        someone_won = max(self.tens) >= self.rules.winning_tens
        return self.round_over and (someone_lost or someone_won)

    @property
    def winners(self) -> list[int]:
        """The seats with the highest total (R15)."""
        return [seat for seat, score in enumerate(self.scores) if score == max(self.scores)]

    def _order_of_play(self) -> list[int]:
        """The seats of this trick, leader first (R4, R5, R10)."""
        n = self.rules.num_players
        return [seat % n for seat in range(self.leader, self.leader + n) if seat % n not in self.sitting_out]

    @property
    def player(self) -> int | None:
        """The seat to act, or None between rounds."""
        return None if self.round_over else self._order_of_play()[len(self.trick)]

    def legal(self) -> list[str]:
        """The legal cards of the seat to act, each named once."""
        return [] if self.player is None else legal_cards(self.hands[self.player], self.trick)

    def play(self, card: str) -> None:
        seat = self.player
        assert seat is not None and card in self.legal(), (seat, card, self.legal())
        lead = lead_colour(self.trick)
        if lead is not None and colour(card) not in (lead, None):
            self.voids.add((seat, lead))  # R16
        self.hands[seat].remove(card)
        self.trick.append((seat, card))
        if len(self.trick) == len(self._order_of_play()):
            self._finish_trick()

    def _finish_trick(self) -> None:
        self.winner = self.leader = trick_winner(self.trick)
        self.sitting_out = trick_fools(self.trick, self.rules.num_fools)
        self.tricks.append(self.trick)
        self.trick = []
        if not all(self.hands):  # R12: someone holds no card
            self._score_round()

    def _score_round(self) -> None:
        self.points = [hand_points(hand, seat in self.sitting_out, self.rules) for seat, hand in enumerate(self.hands)]
        self.scores = [score + points for score, points in zip(self.scores, self.points, strict=True)]
        for seat, hand in enumerate(self.hands):
            if not hand and seat not in self.sitting_out:
                self.tens[seat] += 1

    def next_round(self, hands: Sequence[Sequence[str]]) -> None:
        """The deal passes to the left (R4)."""
        assert self.round_over and not self.game_over
        self.dealer = (self.dealer + 1) % self.rules.num_players
        self._start_round(hands)
