"""GAME: one game as one record, luck and all. A batch of games is an array of them.

Cloning is one assignment, saving is `tobytes()`, comparing is `==`. Seats are absolute (0 to num_players - 1),
arrays of length 8 hold a seat each and are zero beyond the last one; a set of seats is a bit mask, bit k for seat k.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from .cards import COLOUR_OFFSETS, COLOUR_SIZES, NUM_CARDS, NUM_COLOURS, WILD
from .rules import MAX_FOOLS, MAX_PLAYERS, Rules

GAME_VERSION: Final = 1
"""Changes whenever the fields do; `Game.to_bytes` carries it."""

EPISODES: Final = ("game", "round")
"""How long an episode lasts: a whole game (R14), or one round of it."""

NOBODY: Final = -1
OPEN: Final = -1

# Ordered by alignment, so that the record has no padding and equal games have equal bytes.
_FIELDS: Final = [
    ("rng", np.uint64),  # SplitMix64 state, from which the next deals come; 0 in a view
    ("hands", np.uint32, (MAX_PLAYERS, NUM_COLOURS)),  # bit r - 2 of [seat, colour]: the card of rank r is held
    ("played", np.uint32, (NUM_COLOURS,)),  # the coloured cards played in this round, likewise
    # --- scores (R13, R14), in points
    ("scores", np.int16, (MAX_PLAYERS,)),  # totals over the rounds finished
    ("points", np.int16, (MAX_PLAYERS,)),  # of the last round finished
    ("num_rounds", np.uint16),  # rounds finished
    # --- the rules of this table (see Rules)
    ("empty_hand_points", np.int16),
    ("one_penalty", np.int16),
    ("losing_total", np.int16),
    # --- the current trick; a key orders the cards of a trick, worst first (engine.trick_key)
    ("best_key", np.int16),  # of the card that wins so far; -1 before the first
    ("worst_keys", np.int16, (MAX_FOOLS,)),  # of the num_fools worst cards so far, ascending
    ("best_seat", np.int8),  # who played the best card so far
    ("worst_seats", np.int8, (MAX_FOOLS,)),  # who played the worst ones
    ("lead_colour", np.int8),  # 0-3 green, red, yellow, blue; -1 while the colour is open (R6, R7)
    ("trick_start", np.uint8),  # plays of the round before this trick
    ("trick_size", np.uint8),  # how many seats take part in this trick
    ("last_trick_size", np.uint8),  # cards in the trick before; 0 if there is none in this round
    ("fools", np.uint8),  # set of the seats with a disc: they sit out the current trick (R10)
    # --- the table
    ("dealer", np.int8),
    ("leader", np.int8),  # of the current trick: the winner of the one before (R5)
    ("player", np.int8),  # the seat to act; -1 once the round is over
    ("viewer", np.int8),  # the seat whose view this record is; -1 for the full record
    ("round_over", np.uint8),
    ("game_over", np.uint8),
    ("one_round", np.uint8),  # 1: the episode is this round alone, totals do not matter
    # --- the rules of this table, continued
    ("num_players", np.uint8),
    ("num_fools", np.uint8),
    ("highest_rank", np.uint8, (NUM_COLOURS,)),
    ("num_ones", np.uint8),
    ("winning_tens", np.uint8),
    # --- what each seat holds and has shown
    ("ones", np.uint8, (MAX_PLAYERS,)),  # wild 1s held; like hands, 0 for the others in a view
    ("hand_sizes", np.uint8, (MAX_PLAYERS,)),  # cards held
    ("voids", np.uint8, (MAX_PLAYERS,)),  # bit c: has shown to hold no card of colour c (R16)
    ("tens", np.uint8, (MAX_PLAYERS,)),  # rounds in which the seat scored for an empty hand
    ("times_fool", np.uint8, (MAX_PLAYERS,)),  # tricks of this round whose Fool the seat was
    ("num_tricks", np.uint8),  # tricks finished in this round
    ("ones_played", np.uint8),  # in this round
    # --- the plays of this round in order
    ("num_plays", np.uint8),
    ("history_seats", np.uint8, (NUM_CARDS,)),
    ("history_actions", np.uint8, (NUM_CARDS,)),
    ("padding", np.uint8, (5,)),  # always 0: rounds the record up to a multiple of 8 bytes
]
# np.record, so that `game.player` reads in plain Python (NUMBA_DISABLE_JIT=1) as it does in compiled code.
GAME: Final = np.dtype((np.record, _FIELDS))


Record: TypeAlias = Any
"""One record in a kernel: numba's, or an np.record where NUMBA_DISABLE_JIT=1; mypy knows the fields of neither."""


def new_games(rules: list[Rules], episode: str = "game") -> np.ndarray:
    """Records with rules and episode filled in, not yet dealt: GAME of shape (len(rules),)."""
    games = np.zeros(len(rules), dtype=GAME)
    for game, table_rules in zip(games, rules, strict=True):
        for name, value in table_rules.to_dict().items():
            game[name] = value
    games["one_round"] = checked_episode(episode) == "round"
    games["viewer"] = NOBODY
    games["player"] = NOBODY
    return games


def copy_games(games: np.ndarray) -> np.ndarray:
    """A copy of contiguous records, byte by byte: field by field, as NumPy would copy them, takes ten times as long."""
    copies: np.ndarray = games.view(np.uint8).copy().view(GAME)
    return copies


def rules_of(game: np.void) -> Rules:
    """The rules of one record."""
    values = {name: game[name].tolist() for name in Rules.__dataclass_fields__}
    return Rules.from_dict(values)


def checked_episode(episode: str) -> str:
    """The name of an episode.

    Raises:
        ValueError: there is no such episode.
    """
    if episode not in EPISODES:
        raise ValueError(f"episode: {episode!r} is neither {' nor '.join(map(repr, EPISODES))}")
    return episode


def seats_of(seats: int) -> tuple[int, ...]:
    """The seats of a bit set, ascending."""
    return tuple(seat for seat in range(MAX_PLAYERS) if int(seats) >> seat & 1)


def hand_of(game: np.void, seat: int) -> list[int]:
    """The cards of a hand as actions, ascending, the wild once for each 1; empty where a view hides it."""
    coloured = [
        offset + i
        for offset, size, cards in zip(COLOUR_OFFSETS, COLOUR_SIZES, game["hands"][seat].tolist(), strict=True)
        for i in range(size)
        if cards >> i & 1
    ]
    return coloured + [WILD] * int(game["ones"][seat])
