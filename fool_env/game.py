"""Game: one game as a friendly object, for people, replays, search and adapters."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import engine
from ._jit import kernel
from .cards import CARD_NAMES, COLOURS, NUM_ACTIONS, card_names, parse_card
from .determinization import sample_worlds
from .errors import IllegalActionError, RulesError
from .observation import OBSERVATION, OBSERVATION_SIZE, encode_into
from .picture import table_svg
from .render import illegal_action_message, table_text
from .rng import SEED_LIMIT, checked_seed
from .rules import Rules, checked_deal
from .state import GAME, GAME_VERSION, NOBODY, copy_games, hand_of, new_games, rules_of, seats_of

_HEADER = struct.Struct("<4sHI")  # magic, GAME_VERSION, CRC-32 of the record
_MAGIC = b"FOOL"


# Kernels on an array of one game: a lone record costs ten times as much to hand over.
@kernel
def _start(games: np.ndarray, seed: np.uint64) -> None:
    engine.start_game(games[0], seed)


@kernel
def _next_round(games: np.ndarray) -> None:
    engine.next_round(games[0])


@kernel
def _play_if_legal(games: np.ndarray, action: int) -> bool:
    if not engine.is_legal(games[0], action):
        return False
    engine.play(games[0], action)
    return True


@kernel
def _legal_actions(games: np.ndarray, actions: np.ndarray) -> int:
    return engine.legal_actions(games[0], actions)


@kernel
def _observe(games: np.ndarray, seat: int, fields: np.ndarray, row: np.ndarray) -> None:
    encode_into(games[0], seat, fields[0], row)


@kernel
def _legal_mask(games: np.ndarray, mask: np.ndarray) -> None:
    engine.legal_mask(games[0], mask)


@kernel
def _winners(games: np.ndarray) -> int:
    return engine.winners(games[0])


@kernel
def _hide(games: np.ndarray, seat: int) -> None:
    engine.hide(games[0], seat)


@kernel
def _set_dealer(games: np.ndarray, dealer: int) -> None:
    games[0].dealer = dealer
    engine.clear_hands(games[0])


@kernel
def _give_card(games: np.ndarray, seat: int, action: int) -> None:
    engine.give_card(games[0], seat, action)


@kernel
def _start_round(games: np.ndarray) -> None:
    engine.start_round(games[0])


class Trick(NamedTuple):
    """A finished trick."""

    winner: int
    fools: tuple[int, ...]
    plays: list[tuple[int, str]]
    """(seat, card) in order."""


class Game:
    """One game of FOOL; seats are ints, cards go out as names and come in as names or actions.

    Args:
        rules: the table's rules.
        seed: 0 to 2**64 - 1; all deals depend on it alone. None takes one from the operating system.
        episode: "game" (R14) or "round": the game is over after one round.

    Raises:
        ValueError: the seed or the episode is none.
    """

    def __init__(self, rules: Rules, seed: int | None = None, episode: str = "game") -> None:
        if not isinstance(rules, Rules):
            raise RulesError(f"rules: {rules!r} are not Rules; Rules.official(6) makes some")
        self._set(new_games([rules], episode))
        _start(self._games, checked_seed(seed))

    def _set(self, games: np.ndarray) -> None:
        self._games = games
        self._num_players = int(games["num_players"][0])
        # Where kernels write; `observation` and `legal_actions` hand out copies.
        self._actions = np.empty(NUM_ACTIONS, np.int64)
        self._row = np.empty(OBSERVATION_SIZE, np.float32)
        self._fields = self._row.view(OBSERVATION)

    @classmethod
    def from_deal(
        cls,
        rules: Rules,
        hands: Sequence[Sequence[str | int]],
        dealer: int,
        seed: int | None = None,
        episode: str = "game",
    ) -> Game:
        """A game whose first round is a given deal; later rounds are dealt from `seed`.

        Args:
            hands: a list of cards for each seat, as names or ids.
            dealer: the seat that deals; the next seat leads (R5).

        Raises:
            RulesError: the hands are not a deal of the rules' deck, or there is no such dealer.
        """
        game = cls(rules, seed, episode)
        game.redeal(hands, dealer)
        return game

    # --- what everybody may know (R16)

    @property
    def rules(self) -> Rules:
        """The table's rules."""
        return rules_of(self._games[0])

    @property
    def player(self) -> int | None:
        """The seat to act; None once the round is over."""
        player = int(self._games["player"][0])
        return None if player == NOBODY else player

    @property
    def dealer(self) -> int:
        """The seat that dealt this round."""
        return int(self._games["dealer"][0])

    @property
    def leader(self) -> int:
        """The seat that leads the current trick; once the round is over, the winner of its last."""
        return int(self._games["leader"][0])

    @property
    def fools(self) -> tuple[int, ...]:
        """The seats that sit out the current trick, ascending; once the round is over, the Fools of its last (R12)."""
        return seats_of(self._games["fools"][0])

    @property
    def lead_colour(self) -> str | None:
        """ "G", "R", "Y" or "B"; None while the colour is open (R6, R7)."""
        colour = int(self._games["lead_colour"][0])
        return None if colour < 0 else COLOURS[colour]

    @property
    def trick(self) -> list[tuple[int, str]]:
        """The plays of the current trick in order, (seat, card)."""
        return self.history[int(self._games["trick_start"][0]) :]

    @property
    def last_trick(self) -> Trick | None:
        """The trick before; None in the first trick of a round."""
        size, end = int(self._games["last_trick_size"][0]), int(self._games["trick_start"][0])
        if size == 0:
            return None
        return Trick(winner=self.leader, fools=self.fools, plays=self.history[end - size : end])

    @property
    def history(self) -> list[tuple[int, str]]:
        """The plays of this round in order, (seat, card)."""
        game = self._games[0]
        size = int(game["num_plays"])
        seats, actions = game["history_seats"][:size].tolist(), game["history_actions"][:size].tolist()
        return [(seat, CARD_NAMES[action]) for seat, action in zip(seats, actions, strict=True)]

    @property
    def points(self) -> list[int]:
        """Each seat's points in the last round finished (R13); zeros before."""
        return self._by_seat("points")

    @property
    def scores(self) -> list[int]:
        """Each seat's total over the rounds finished."""
        return self._by_seat("scores")

    @property
    def tens(self) -> list[int]:
        """How often each seat has scored for an empty hand (R14)."""
        return self._by_seat("tens")

    @property
    def num_rounds(self) -> int:
        """Rounds finished."""
        return int(self._games["num_rounds"][0])

    @property
    def round_over(self) -> bool:
        """Whether the round is over (R12)."""
        return bool(self._games["round_over"][0])

    @property
    def game_over(self) -> bool:
        """Whether the game is over (R14)."""
        return bool(self._games["game_over"][0])

    @property
    def winners(self) -> tuple[int, ...]:
        """The seats with the highest total once the game is over (R15), ascending; empty before."""
        return seats_of(_winners(self._games)) if self.game_over else ()

    # --- what only the table as a whole knows

    @property
    def hands(self) -> list[list[str]]:
        """Every seat's hand, sorted by action."""
        game = self._games[0]
        return [card_names(hand_of(game, seat)) for seat in range(game["num_players"])]

    def view(self, seat: int) -> np.void:
        """What one seat may know (R16, R17), as a GAME record of its own.

        Raises:
            ValueError: there is no such seat.
        """
        self._check_seat("seat", seat, ValueError)
        view = copy_games(self._games)
        _hide(view, int(seat))
        return view[0]

    def observation(self, seat: int) -> np.ndarray:
        """What a seat sees, whether or not it is to act: float32 of shape (OBSERVATION_SIZE,), as `encode` gives it.

        Raises:
            ValueError: there is no such seat.
        """
        self._check_seat("seat", seat, ValueError)
        _observe(self._games, int(seat), self._fields, self._row)
        return self._row.copy()

    @property
    def record(self) -> np.void:
        """The full GAME record, a copy."""
        return copy_games(self._games)[0]

    # --- play

    def legal_actions(self) -> list[int]:
        """The actions that the seat to act may choose (R6, R7), ascending; empty once the round is over."""
        count = _legal_actions(self._games, self._actions)
        legal: list[int] = self._actions[:count].tolist()
        return legal

    def action_mask(self) -> np.ndarray:
        """The legal actions as int8 of shape (83,), 1 for each; all zero once the round is over."""
        mask = np.empty(NUM_ACTIONS, np.int8)
        _legal_mask(self._games, mask)
        return mask

    def play(self, action: int | np.integer | str) -> None:
        """Play a card for the seat to act, by action or name.

        Raises:
            IllegalActionError: the rules forbid it now; the game is as it was.
            RulesError: there is no such card.
        """
        if type(action) is not int:
            action = int(action) if isinstance(action, np.integer) else parse_card(action)
        if not -1 < action < NUM_ACTIONS or not _play_if_legal(self._games, action):
            raise IllegalActionError(illegal_action_message(self._games[0], action))

    def next_round(self, hands: Sequence[Sequence[str | int]] | None = None) -> None:
        """Pass the deal to the left and deal the next round (R4), or take the hands given.

        Raises:
            RulesError: the round is not over, the game is over, or the hands are not a deal; nothing changes.
        """
        if not self.round_over:
            raise RulesError("next_round: this round is not over")
        if self.game_over:
            raise RulesError("next_round: the game is over; make a new Game")
        if hands is None:
            _next_round(self._games)
        else:
            self._deal(hands, (self.dealer + 1) % self._num_players)

    def redeal(self, hands: Sequence[Sequence[str | int]], dealer: int) -> None:
        """Replace this round's deal and dealer before its first card is played.

        Raises:
            RulesError: a card has been played, the hands are not a deal of the rules' deck, or there is no such
                dealer; nothing changes.
        """
        if self.history:
            raise RulesError("redeal: cards have been played in this round")
        self._deal(hands, dealer)

    def _deal(self, hands: Sequence[Sequence[str | int]], dealer: int) -> None:
        dealt = checked_deal(self.rules, hands)
        self._check_seat("dealer", dealer, RulesError)
        _set_dealer(self._games, int(dealer))
        for seat, hand in enumerate(dealt):
            for card in hand:
                _give_card(self._games, seat, card)
        _start_round(self._games)

    # --- copies

    def clone(self) -> Game:
        """An independent copy that goes on identically, luck included."""
        copy = object.__new__(type(self))
        copy._set(copy_games(self._games))
        return copy

    def resample(self, seat: int, rng: int | np.random.Generator) -> Game:
        """A game that the seat cannot tell from this one (R16, R17): the hidden cards and all luck to come are new.

        Each deal of the hidden cards that agrees with what the seat has seen is as likely (see `determinization`).

        Args:
            seat: whose view stays as it is.
            rng: a seed, 0 to 2**64 - 1, or a generator to draw one from.

        Raises:
            ValueError: there is no such seat, or the seed is none.
        """
        self._check_seat("seat", seat, ValueError)
        seed = rng.integers(SEED_LIMIT, dtype=np.uint64) if isinstance(rng, np.random.Generator) else checked_seed(rng)
        view = copy_games(self._games)
        _hide(view, int(seat))
        copy = object.__new__(type(self))
        copy._set(sample_worlds(view, seed, 1))
        return copy

    def to_bytes(self) -> bytes:
        """The game as bytes, from which `from_bytes` makes it again."""
        record = self._games.tobytes()
        return _HEADER.pack(_MAGIC, GAME_VERSION, zlib.crc32(record)) + record

    @classmethod
    def from_bytes(cls, data: bytes) -> Game:
        """The game that `to_bytes` saved.

        Raises:
            ValueError: the bytes are no game, damaged, or of another version.
        """
        if len(data) < _HEADER.size or not data.startswith(_MAGIC):
            raise ValueError("these bytes are not a saved game of FOOL")
        _, version, checksum = _HEADER.unpack_from(data)
        if version != GAME_VERSION:
            raise ValueError(f"the saved game has version {version}, this fool_env reads version {GAME_VERSION}")
        record = data[_HEADER.size :]
        if len(record) != GAME.itemsize or zlib.crc32(record) != checksum:
            raise ValueError("the saved game is damaged: its length or checksum is wrong")
        game = object.__new__(cls)
        game._set(copy_games(np.frombuffer(record, GAME)))
        return game

    def __copy__(self) -> Game:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Game:
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Game) and self._games.tobytes() == other._games.tobytes()

    __hash__ = None  # type: ignore[assignment]  # a game changes with every play

    # --- words

    def __str__(self) -> str:
        """The table as the seat to act sees it."""
        return table_text(self.view(self._onlooker()))

    def full_table(self) -> str:
        """The table with every hand, which no seat may see."""
        return table_text(self._games[0])

    def _repr_svg_(self) -> str:
        """The picture that a notebook shows: the table as the seat to act sees it."""
        return table_svg(self.view(self._onlooker()))

    def __repr__(self) -> str:
        state = "game over" if self.game_over else f"seat {self.player} to play" if self.player is not None else "over"
        return f"<Game: {self._num_players} players, round {self.num_rounds + (not self.round_over)}, {state}>"

    # --- helpers

    def _onlooker(self) -> int:
        """The seat to act; once the round is over, the winner of its last trick."""
        player = self.player
        return self.leader if player is None else player

    def _by_seat(self, field: str) -> list[int]:
        game = self._games[0]
        values: list[int] = game[field][: game["num_players"]].tolist()
        return values

    def _check_seat(self, name: str, seat: int, error: type[ValueError]) -> None:
        whole = type(seat) is int or isinstance(seat, np.integer)
        if not whole or not 0 <= seat < self._num_players:
            raise error(f"{name}: {seat!r} is no seat of this table, which are 0 to {self._num_players - 1}")
