"""What a seat sees, as named float32 fields of one size for every table; seats are relative, oneself first.

`OBSERVATION` declares the fields once: offsets, bounds, the README's table and the spaces all derive from it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from gymnasium import spaces

from ._jit import kernel
from .cards import (
    ACTION_COLOUR,
    ACTION_RANK,
    CARD_NAMES,
    COLOUR_NAMES,
    MAX_ONES,
    MAX_RANK,
    NUM_ACTIONS,
    NUM_CARDS,
    NUM_COLOURS,
    WILD,
)
from .engine import BYTE_FLAGS, NUM_BYTES, action_bits, byte_of
from .rules import (
    LOWEST_LOSING_TOTAL,
    MAX_EMPTY_HAND_POINTS,
    MAX_FOOLS,
    MAX_HAND,
    MAX_ONE_PENALTY,
    MAX_PLAYERS,
    MAX_TENS,
)
from .state import NOBODY, Record

OBSERVATION_VERSION: Final = 1
"""Changes whenever a field or its meaning does; every checkpoint carries it."""

_BYTE_FLAGS = BYTE_FLAGS.astype(np.float32)
_SEATS = (MAX_PLAYERS,)
_SEATS_COLOURS = (MAX_PLAYERS, NUM_COLOURS)
# The official hand, and the official ends of a game (R2, R14).
_HAND_SCALE = 12
_SCORE_SCALE = 80
_TENS_SCALE = 6
# No total can leave these, whatever the rules: one round below the last total that goes on; all the tens there can be.
_LOWEST_SCORE = LOWEST_LOSING_TOTAL - MAX_HAND * max(MAX_RANK, MAX_ONE_PENALTY)
_HIGHEST_SCORE = MAX_TENS * MAX_EMPTY_HAND_POINTS

# name, shape, (lowest, highest), meaning
_FIELDS: Final = (
    ("hand", (NUM_ACTIONS,), (0, MAX_ONES), "own cards by action: 1 if held; last, the number of 1s held"),
    ("unseen", (NUM_ACTIONS,), (0, MAX_ONES), "cards in play that are neither in hand nor played, likewise"),
    ("trick_played", _SEATS, (0, 1), "the seat has a card in the current trick"),
    ("trick_colour", _SEATS_COLOURS, (0, 1), "its colour: green, red, yellow, blue; none for a 1"),
    ("trick_is_one", _SEATS, (0, 1), "it is a wild 1"),
    ("trick_rank", _SEATS, (0, 1), f"its rank / {MAX_RANK}"),
    ("trick_wins", _SEATS, (0, 1), "it wins the trick so far"),
    ("trick_fool", _SEATS, (0, 1), "it is among the num_fools worst cards so far"),
    ("trick_order", _SEATS, (0, 1), f"its place in the order of the trick / {MAX_PLAYERS}"),
    ("present", _SEATS, (0, 1), "there is such a seat"),
    ("sits_out", _SEATS, (0, 1), "a Fool of the last trick, not in this one"),
    ("hand_size", _SEATS, (0, MAX_HAND / _HAND_SCALE), f"cards held / {_HAND_SCALE}"),
    ("void", _SEATS_COLOURS, (0, 1), "has shown to hold no green, red, yellow, blue"),
    ("score", _SEATS, (_LOWEST_SCORE / _SCORE_SCALE, _HIGHEST_SCORE / _SCORE_SCALE), f"total / {_SCORE_SCALE}"),
    ("tens", _SEATS, (0, MAX_TENS * np.float32(1 / _TENS_SCALE)), f"rounds scored for an empty hand / {_TENS_SCALE}"),
    ("leads", _SEATS, (0, 1), "led the current trick"),
    ("deals", _SEATS, (0, 1), "is the dealer"),
    ("plays_after", _SEATS, (0, 1), "another seat that has still to play in this trick"),
    ("lead_colour", (NUM_COLOURS + 1,), (0, 1), "green, red, yellow, blue, open"),
    ("num_players", (1,), (0, 1), f"seats / {MAX_PLAYERS}"),
    ("num_fools", (1,), (0, 1), f"Fool discs / {MAX_FOOLS}"),
    ("totals_matter", (1,), (0, 1), "the episode is a whole game, not one round"),
)

# np.record for the same reason as in GAME.
OBSERVATION: Final = np.dtype((np.record, [(name, np.float32, shape) for name, shape, _, _ in _FIELDS]))
OBSERVATION_SIZE: Final = OBSERVATION.itemsize // 4
"""K, the number of floats in an observation."""


def first_float(field: str) -> int:
    """Where a field begins in a flat observation."""
    fields = OBSERVATION.fields
    assert fields is not None  # a structured dtype has fields
    return fields[field][1] // 4


# The fields before this one are written whole, the others only where they are not zero.
_FIRST_SPARSE = first_float("trick_played")

STATE_SIZE: Final = OBSERVATION_SIZE + MAX_PLAYERS * NUM_ACTIONS
"""The floats of a full state: the observation of one seat, then every hand as seen from it."""


def _bound(which: int) -> np.ndarray:
    rows = [np.full(int(np.prod(shape)), limits[which], np.float32) for _, shape, limits, _ in _FIELDS]
    return np.concatenate(rows)


def observation_space() -> spaces.Box:
    """The flat observation: Box of shape (OBSERVATION_SIZE,), float32."""
    return spaces.Box(_bound(0), _bound(1), dtype=np.float32)


def state_space() -> spaces.Box:
    """The full state, all hands shown: Box of shape (STATE_SIZE,), float32."""
    hands = np.zeros(MAX_PLAYERS * NUM_ACTIONS, np.float32)
    low, high = np.concatenate([_bound(0), hands]), np.concatenate([_bound(1), hands + MAX_ONES])
    return spaces.Box(low, high, dtype=np.float32)


@kernel
def _spread(green: int, red: int, yellow: int, blue: int, row: np.ndarray) -> None:
    """Write four colour masks as 82 floats, a byte at a time as `engine.legal_mask` does for int8.

    A kernel has one signature (see `kernel`), so each dtype has its own loop.
    """
    low, high = action_bits(green, red, yellow, blue)
    for index in range(NUM_BYTES):
        byte = byte_of(low, high, index)
        for i in range(8):
            row[8 * index + i] = _BYTE_FLAGS[byte, i]
    byte = byte_of(low, high, NUM_BYTES)
    for i in range(WILD - 8 * NUM_BYTES):
        row[8 * NUM_BYTES + i] = _BYTE_FLAGS[byte, i]


@kernel
def _spread_hand(game: Record, seat: int, row: np.ndarray) -> None:
    hands = game.hands
    _spread(hands[seat, 0], hands[seat, 1], hands[seat, 2], hands[seat, 3], row)
    row[WILD] = game.ones[seat]


@kernel
def deck_mask(game: Record, colour: int) -> int:
    """The cards of a colour that are in play, as bits like those of `hands` (R2)."""
    return (np.uint32(1) << np.uint32(game.highest_rank[colour] - 1)) - np.uint32(1)


@kernel
def _unseen(game: Record, seat: int, colour: int) -> int:
    return deck_mask(game, colour) & ~(game.hands[seat, colour] | game.played[colour])


@kernel
def encode_cards(game: Record, seat: int, observation: Record) -> None:
    """Own hand and the unseen cards; reads no other hand."""
    _spread_hand(game, seat, observation.hand)
    green, red = _unseen(game, seat, 0), _unseen(game, seat, 1)
    yellow, blue = _unseen(game, seat, 2), _unseen(game, seat, 3)
    _spread(green, red, yellow, blue, observation.unseen)
    observation.unseen[WILD] = game.num_ones - game.ones_played - game.ones[seat]


@kernel
def _relative(game: Record, seat: int, viewer: int) -> int:
    """A seat counted from the viewer, who is 0."""
    return seat - viewer if seat >= viewer else seat - viewer + game.num_players


@kernel
def _relative_set(game: Record, seats: int, viewer: int) -> int:
    """A set of seats, each counted from the viewer."""
    return ((seats >> viewer) | (seats << (game.num_players - viewer))) & ((1 << game.num_players) - 1)


@kernel
def _flag(seats: int, flags: np.ndarray) -> None:
    """Write a set of relative seats as eight zeros and ones."""
    for i in range(MAX_PLAYERS):
        flags[i] = np.float32((seats >> i) & 1)


@kernel
def encode_trick(game: Record, viewer: int, observation: Record) -> None:
    """The cards of the current trick, by the seats that played them, and who is still to play."""
    played = 0
    for i in range(game.trick_start, game.num_plays):
        seat = _relative(game, game.history_seats[i], viewer)
        action = game.history_actions[i]
        played |= 1 << seat
        if action == WILD:
            observation.trick_is_one[seat] = 1.0
        else:
            observation.trick_colour[seat, ACTION_COLOUR[action]] = 1.0
        observation.trick_rank[seat] = ACTION_RANK[action] * np.float32(1 / MAX_RANK)
        observation.trick_order[seat] = (i - game.trick_start + 1) * np.float32(1 / MAX_PLAYERS)
    _flag(played, observation.trick_played)
    if played:
        observation.trick_wins[_relative(game, game.best_seat, viewer)] = 1.0
        for i in range(game.num_fools):
            if game.worst_seats[i] != NOBODY:
                observation.trick_fool[_relative(game, game.worst_seats[i], viewer)] = 1.0
    if game.player != NOBODY:
        present = (1 << game.num_players) - 1
        _flag(present & ~(played | _relative_set(game, game.fools, viewer) | 1), observation.plays_after)


@kernel
def encode_seats(game: Record, viewer: int, observation: Record) -> None:
    """The public state of every seat at the table."""
    seat = viewer
    for i in range(game.num_players):
        observation.hand_size[i] = game.hand_sizes[seat] * np.float32(1 / _HAND_SCALE)
        observation.score[i] = game.scores[seat] * np.float32(1 / _SCORE_SCALE)
        observation.tens[i] = game.tens[seat] * np.float32(1 / _TENS_SCALE)
        void = game.voids[seat]
        if void:
            for colour in range(NUM_COLOURS):
                observation.void[i, colour] = (void >> colour) & 1
        seat += 1
        if seat == game.num_players:
            seat = 0
    _flag((1 << game.num_players) - 1, observation.present)
    _flag(_relative_set(game, game.fools, viewer), observation.sits_out)
    observation.leads[_relative(game, game.leader, viewer)] = 1.0
    observation.deals[_relative(game, game.dealer, viewer)] = 1.0


@kernel
def encode_table(game: Record, observation: Record) -> None:
    """What is the same from every seat."""
    observation.lead_colour[game.lead_colour if game.lead_colour >= 0 else NUM_COLOURS] = 1.0
    observation.num_players[0] = game.num_players * np.float32(1 / MAX_PLAYERS)
    observation.num_fools[0] = game.num_fools * np.float32(1 / MAX_FOOLS)
    observation.totals_matter[0] = 1.0 - game.one_round


@kernel
def encode_into(game: Record, viewer: int, observation: Record, row: np.ndarray) -> None:
    """Write what `viewer` sees of a record; `observation` (OBSERVATION) and `row` (float32[K]) are the same memory.

    It reads nothing that the viewer may not know, so a full record and the viewer's view give the same bytes.
    """
    for i in range(_FIRST_SPARSE, OBSERVATION_SIZE):
        row[i] = 0.0
    encode_cards(game, viewer, observation)
    encode_trick(game, viewer, observation)
    encode_seats(game, viewer, observation)
    encode_table(game, observation)


@kernel
def encode_hands(game: Record, viewer: int, rows: np.ndarray) -> None:
    """Every hand, from the viewer's round the table: float32[8, 83] like the field `hand`."""
    rows[:] = 0.0
    seat = viewer
    for i in range(game.num_players):
        _spread_hand(game, seat, rows[i])
        seat += 1
        if seat == game.num_players:
            seat = 0


@kernel
def encode_history(game: Record, viewer: int, plays: np.ndarray) -> None:
    """The plays of the round in order, as (relative seat, action): int16[88, 2], -1 beyond the last."""
    plays[:] = -1
    for i in range(game.num_plays):
        plays[i, 0] = _relative(game, game.history_seats[i], viewer)
        plays[i, 1] = game.history_actions[i]


@kernel
def _encode_views(views: np.ndarray, observations: np.ndarray, rows: np.ndarray) -> None:
    for i in range(len(views)):
        encode_into(views[i], views[i].viewer, observations[i], rows[i])


@kernel
def _encode_histories(views: np.ndarray, plays: np.ndarray) -> None:
    for i in range(len(views)):
        encode_history(views[i], views[i].viewer, plays[i])


def encode(views: np.ndarray) -> np.ndarray:
    """The observations of views, each from its viewer's seat.

    Args:
        views: GAME of shape (B,) or one record, as `Game.view` and `FoolVectorEnv.views` give them.

    Returns:
        float32 of shape (B, OBSERVATION_SIZE); `.view(OBSERVATION)` names its fields.

    Raises:
        ValueError: a full record, which has no viewer.
    """
    views = _checked_views(views)
    observations = np.zeros(len(views), OBSERVATION)
    rows = observations.view(np.float32).reshape(len(views), OBSERVATION_SIZE)
    _encode_views(views, observations, rows)
    return rows


def history(views: np.ndarray) -> np.ndarray:
    """The plays of the round so far, for models with a memory: with an observation they are perfect recall.

    Args:
        views: as for `encode`.

    Returns:
        int16 of shape (B, 88, 2): relative seat (the viewer is 0) and action of each play, -1 beyond the last.
    """
    views = _checked_views(views)
    plays = np.empty((len(views), NUM_CARDS, 2), np.int16)
    _encode_histories(views, plays)
    return plays


def _checked_views(views: np.ndarray) -> np.ndarray:
    views = np.ascontiguousarray(np.atleast_1d(views))
    if (views["viewer"] == NOBODY).any():
        raise ValueError("these are full records, not views: a view has a viewer, see Game.view(seat)")
    return views


def describe(observation: np.ndarray) -> str:
    """An observation in words, from the float32 row alone.

    Args:
        observation: float32 of shape (OBSERVATION_SIZE,).

    Raises:
        ValueError: the shape is wrong.
    """
    row = np.ascontiguousarray(observation, np.float32)
    if row.shape != (OBSERVATION_SIZE,):
        raise ValueError(f"observation: shape {row.shape} is not ({OBSERVATION_SIZE},)")
    fields = row.view(OBSERVATION)[0]
    led = [*COLOUR_NAMES, "open"][int(fields["lead_colour"].argmax())]
    goal = "a whole game" if fields["totals_matter"][0] else "one round"
    num_players, num_fools = _times(fields["num_players"][0], MAX_PLAYERS), _times(fields["num_fools"][0], MAX_FOOLS)
    lines = [
        f"{num_players} players, {num_fools} Fool{'s' if num_fools > 1 else ''}, {goal}; lead colour: {led}",
        f"hand: {_cards_in_words(fields['hand'])}",
        f"unseen: {_cards_in_words(fields['unseen'])}",
    ]
    return "\n".join(lines + [_seat_in_words(fields, seat) for seat in range(num_players)])


def _times(value: float, scale: int) -> int:
    return round(float(value) * scale)


def _cards_in_words(counts: np.ndarray) -> str:
    cards = [CARD_NAMES[action] for action in range(WILD) if counts[action]] + ["1"] * int(counts[WILD])
    return " ".join(cards) or "none"


def _seat_in_words(fields: np.void, seat: int) -> str:
    words = [f"{_times(fields['hand_size'][seat], _HAND_SCALE)} cards"]
    words.append(f"total {_times(fields['score'][seat], _SCORE_SCALE)}")
    words.append(f"{_times(fields['tens'][seat], _TENS_SCALE)} tens")
    if fields["trick_played"][seat]:
        colour = "".join(
            name[0].upper() for name, is_it in zip(COLOUR_NAMES, fields["trick_colour"][seat], strict=True) if is_it
        )
        order = _times(fields["trick_order"][seat], MAX_PLAYERS)
        words.append(f"played {colour}{_times(fields['trick_rank'][seat], MAX_RANK)} as number {order}")
    for name, meaning in (
        ("trick_wins", "wins so far"),
        ("trick_fool", "Fool so far"),
        ("sits_out", "sits out"),
        ("leads", "leads"),
        ("deals", "deals"),
        ("plays_after", "still to play"),
    ):
        if fields[name][seat]:
            words.append(meaning)
    void = [COLOUR_NAMES[colour] for colour in np.flatnonzero(fields["void"][seat])]
    if void:
        words.append(f"void in {' and '.join(void)}")
    return f"{'you' if seat == 0 else f'seat +{seat}'}: {', '.join(words)}"


def field_table() -> str:
    """The fields as a Markdown table: name, first float, shape, range, meaning."""
    lines = ["| field | offset | shape | range | meaning |", "|---|---|---|---|---|"]
    for name, shape, (low, high), meaning in _FIELDS:
        offset = first_float(name)
        lines.append(f"| `{name}` | {offset} | {shape} | {low:.4g} to {high:.4g} | {meaning} |")
    return "\n".join(lines)
