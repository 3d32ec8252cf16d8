"""Transcripts: games as JSON lines, written down, read, checked and replayed.

Any number of games follow each other in a file. A game is a line that begins it, a line for each round, and, once it
is over, a line that names the winners:

    {"transcript": 1, "rules": {"num_players": 3, ...}, "episode": "game", "seed": 5, "agents": ["highest", ...]}
    {"round": 1, "dealer": 2, "hands": [["G2", ...], ...], "plays": [[0, "G5"], ...], "points": [...], "totals": [...]}
    {"winners": [1]}

`transcript` is the version of the format. `seed` is null where the deals did not come from one, `agents` (a name for
each seat) where nobody says who played. A round that is not over has no points and totals, and is the last one.
"""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final, TextIO

import numpy as np

from .cards import CARD_NAMES, card_names, parse_card
from .errors import IllegalActionError
from .game import Game
from .rng import checked_seed
from .rules import Rules
from .state import EPISODES, NOBODY, checked_episode, hand_of, rules_of

TRANSCRIPT_VERSION: Final = 1
"""Changes whenever the lines do."""

# What a line of each kind holds; the kind is named after its first key.
_KEYS: Final = {
    "transcript": {"transcript", "rules", "episode", "seed", "agents"},
    "round": {"round", "dealer", "hands", "plays"},
    "winners": {"winners"},
}
_RESULTS: Final = {"points", "totals"}  # and a round that is over, these


class TranscriptError(ValueError):
    """A transcript that is damaged or tells of no game of FOOL; the message says where and what is wrong."""


@dataclass(frozen=True)
class Round:
    """One round of a transcript.

    Attributes:
        dealer: the seat that dealt.
        hands: the deal, each seat's cards by name, sorted by action.
        plays: (seat, card) in order.
        points: each seat's (R13); None unless the round is over.
        totals: each seat's after this round; None unless it is over.
    """

    dealer: int
    hands: tuple[tuple[str, ...], ...]
    plays: tuple[tuple[int, str], ...]
    points: tuple[int, ...] | None
    totals: tuple[int, ...] | None


@dataclass(frozen=True)
class Transcript:
    """One game that has been checked by replaying it; `from_rounds` and `read_transcripts` make them.

    Attributes:
        rules: the table's rules.
        episode: "game" or "round".
        seed: that of `Game`, from which all its deals come; None if they do not come from one.
        agents: the `make_agent` string of each seat, or any other name; None if unknown.
        rounds: in order; only the last may be unfinished.
        winners: the seats with the highest total, ascending; empty while the game is not over.
    """

    rules: Rules
    episode: str
    seed: int | None
    agents: tuple[str, ...] | None
    rounds: tuple[Round, ...]
    winners: tuple[int, ...]

    @classmethod
    def from_rounds(
        cls, rounds: np.ndarray, seed: int | None = None, agents: Sequence[str] | None = None
    ) -> Transcript:
        """The transcript of a game from its rounds' records.

        Args:
            rounds: GAME (R,), full records of one game in order: each round's as it ended, before the next was
                dealt; the last may be one that is still played.
            seed: the seed of the game; None if a deal did not come from it.
            agents: a name for each seat.

        Raises:
            TranscriptError: these are not all rounds of one game, or not of this seed; or not a name for each seat.
        """
        if len(rounds) == 0 or (rounds["viewer"] != NOBODY).any():
            raise TranscriptError("rounds: there are none, or some are views, which do not show what was dealt")
        number = 0
        try:
            referee = _Referee(rules_of(rounds[0]), EPISODES[rounds["one_round"][0]], seed, agents)
            for record in rounds:
                number += 1
                replayed = referee.add(int(record["dealer"]), *_told_by(record)).record
                if seed is None:
                    replayed["rng"] = record["rng"]
                if replayed.tobytes() != record.tobytes():
                    raise ValueError("its record does not follow from those before")
        except ValueError as error:
            raise TranscriptError(f"round {number}: {error}" if number else str(error)) from None
        return referee.transcript()

    @property
    def num_plays(self) -> int:
        """The plays of all rounds."""
        return sum(len(one.plays) for one in self.rounds)

    def game_at(self, move: int) -> Game:
        """The game before a play, to be looked at or played on.

        With a seed it goes on as the original would, later deals included. Without one nobody knows what would have
        been dealt: the Game's next deals are those of seed 0.

        Args:
            move: the number of the play over the whole game, from 0; `num_plays` is the position after the last.

        Raises:
            ValueError: there is no such play.
        """
        if not 0 <= move <= self.num_plays:
            raise ValueError(
                f"move {move}: this game has the moves 0 to {self.num_plays - 1}, and {self.num_plays}, its end"
            )
        for game, one in self._deals():
            for _, card in one.plays[:move]:
                game.play(card)
            move -= len(one.plays)
            if move < 0:
                break
        return game

    def replay(self) -> Iterator[tuple[Game, int, int]]:
        """Every play in order: a Game of its own as it stood before the play, the seat, and the action."""
        for game, one in self._deals():
            for seat, card in one.plays:
                action = parse_card(card)
                yield game.clone(), seat, action
                game.play(action)

    def _deals(self) -> Iterator[tuple[Game, Round]]:
        """One Game as each round is dealt; whoever asks for the next round has played the one before."""
        game = None
        for one in self.rounds:
            game = _deal(game, self.rules, self.episode, self.seed, one.dealer, one.hands)
            yield game, one

    def _lines(self) -> Iterator[dict[str, Any]]:
        yield {
            "transcript": TRANSCRIPT_VERSION,
            "rules": self.rules.to_dict(),
            "episode": self.episode,
            "seed": self.seed,
            "agents": self.agents,
        }
        for number, one in enumerate(self.rounds, 1):
            line = {"round": number, "dealer": one.dealer, "hands": one.hands, "plays": one.plays}
            yield line if one.points is None else {**line, "points": one.points, "totals": one.totals}
        if self.winners:
            yield {"winners": self.winners}


def write_transcripts(file: str | os.PathLike[str] | TextIO, transcripts: Iterable[Transcript]) -> None:
    """Write games to a path, whose former content is lost, or to an open text file, where it stands.

    Raises:
        OSError: the file cannot be written.
    """
    with open(file, "w", encoding="utf-8") if isinstance(file, (str, os.PathLike)) else nullcontext(file) as stream:
        for transcript in transcripts:
            for line in transcript._lines():
                stream.write(json.dumps(line, separators=(",", ":")) + "\n")


def read_transcripts(file: str | os.PathLike[str] | TextIO) -> list[Transcript]:
    """All games of a path or an open text file, each checked by replaying every play of it.

    Checked are: that each deal is one of the rules' deck, and the seed's if there is one; that the deal passes to the
    left; that each play is legal and of the seat to act; points, totals, winners, and that a game ends when it is over.

    Raises:
        TranscriptError: a line is damaged or tells of what cannot be; the message names file, line and fault.
        OSError: the file cannot be read.
    """
    if isinstance(file, (str, os.PathLike)):
        # As bytes: a line that is no UTF-8 then fails as that line.
        with open(file, "rb") as stream:
            return _read(os.fspath(file), stream)
    return _read(str(getattr(file, "name", "transcript")), file)


def _read(name: str, lines: Iterable[str | bytes]) -> list[Transcript]:
    reader = _Reader()
    number = 0
    try:
        for line in lines:
            number += 1
            reader.read(line)
        reader.close()
    except ValueError as error:
        raise TranscriptError(f"{name}, line {number}: {error}") from None
    return reader.transcripts


# --- the check


class _Referee:
    """Replays a game round by round, from the beginning, and refuses what cannot be with a ValueError."""

    def __init__(self, rules: Rules, episode: str, seed: int | None, agents: Sequence[str] | None) -> None:
        if agents is not None and len(agents) != rules.num_players:
            raise ValueError(f"agents: {len(agents)} names for {rules.num_players} seats")
        self.rules = rules
        self.episode = checked_episode(episode)
        self.seed = None if seed is None else int(checked_seed(seed))
        self.agents = None if agents is None else tuple(agents)
        self.rounds: list[Round] = []
        self._game: Game | None = None

    def add(self, dealer: int, hands: Sequence[Sequence[int]], plays: Sequence[tuple[int, int]]) -> Game:
        """The game after one more round, whose cards are given as actions."""
        if self._game is not None and not self._game.round_over:
            raise ValueError("the round before is not over")
        if self.winners:
            raise ValueError("the game is over with the round before")
        game = _deal(self._game, self.rules, self.episode, self.seed, dealer, hands)
        dealt = tuple(tuple(card_names(sorted(hand))) for hand in hands)
        if self.seed is not None and (dealer, dealt) != (game.dealer, tuple(map(tuple, game.hands))):
            raise ValueError(f"this is not the deal of seed {self.seed}; a game not dealt from a seed has none (null)")
        if game.dealer != dealer:
            raise ValueError(f"dealer: seat {dealer}, but seat {game.dealer} deals")
        for number, (seat, action) in enumerate(plays, 1):
            if seat != game.player and not game.round_over:
                raise ValueError(f"play {number} is of seat {seat}, but seat {game.player} is to act")
            try:
                game.play(action)
            except IllegalActionError as error:
                raise ValueError(f"play {number}: {error}") from None
        points, totals = (tuple(game.points), tuple(game.scores)) if game.round_over else (None, None)
        named = tuple((seat, CARD_NAMES[action]) for seat, action in plays)
        self.rounds.append(Round(dealer, dealt, named, points, totals))
        self._game = game
        return game

    @property
    def winners(self) -> tuple[int, ...]:
        """As in `Transcript`."""
        return () if self._game is None else self._game.winners

    def transcript(self) -> Transcript:
        """All rounds so far."""
        return Transcript(self.rules, self.episode, self.seed, self.agents, tuple(self.rounds), self.winners)


def _deal(
    game: Game | None,
    rules: Rules,
    episode: str,
    seed: int | None,
    dealer: int,
    hands: Sequence[Sequence[str | int]],
) -> Game:
    """The game at the start of its next round: dealt from the seed, or if there is none as told."""
    if game is None:
        return Game.from_deal(rules, hands, dealer, 0, episode) if seed is None else Game(rules, seed, episode)
    game.next_round(hands if seed is None else None)
    return game


def _told_by(record: np.void) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """The deal of a round and its plays, by seat and action."""
    size = int(record["num_plays"])
    seats, actions = record["history_seats"][:size].tolist(), record["history_actions"][:size].tolist()
    plays = list(zip(seats, actions, strict=True))
    hands = [hand_of(record, seat) for seat in range(record["num_players"])]
    for seat, action in plays:
        hands[seat].append(action)
    return hands, plays


class _Reader:
    """Takes a file in line by line; what is wrong with a line is a ValueError."""

    def __init__(self) -> None:
        self.transcripts: list[Transcript] = []
        self._referee: _Referee | None = None  # of the game that has begun

    def read(self, line: str | bytes) -> None:
        """Take in the next line."""
        values = _parsed(line)
        kind = next((kind for kind in _KEYS if kind in values), None)
        if kind is None:
            raise ValueError(f"neither begins a game nor is a round or its winners: it has no {', '.join(_KEYS)}")
        if kind == "transcript":
            version = _whole(kind, values[kind])
            if version != TRANSCRIPT_VERSION:
                raise ValueError(f"the format's version is {version}, this fool_env reads {TRANSCRIPT_VERSION}")
        _check_keys(kind, values)
        if kind == "transcript":
            self.close()
            self._referee = _begun(values)
        elif self._referee is None:
            raise ValueError(f"{kind}: no game has begun")
        elif kind == "round":
            _add_round(self._referee, values)
        else:
            if not self._referee.winners:
                raise ValueError("winners: the game is not over")
            _check_result("winners", values["winners"], self._referee.winners)
            self._keep(self._referee)

    def close(self) -> None:
        """The game that has begun, if there is one, goes no further."""
        if self._referee is None:
            return
        if self._referee.winners:
            raise ValueError("the game before is over, but has no line with its winners")
        if not self._referee.rounds:
            raise ValueError("the game before has no round")
        self._keep(self._referee)

    def _keep(self, referee: _Referee) -> None:
        self.transcripts.append(referee.transcript())
        self._referee = None


def _parsed(line: str | bytes) -> dict[str, Any]:
    text = line.decode("utf-8") if isinstance(line, bytes) else line
    try:
        values = json.loads(text, object_pairs_hook=_unique)
    except (json.JSONDecodeError, RecursionError) as error:
        cut = "" if text.endswith("\n") else "; the file ends within this line"
        raise ValueError(f"not JSON: {error}{cut}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{reprlib.repr(values)} is no JSON object")
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError(f"a key is there twice: {', '.join(repr(key) for key, _ in pairs)}")
    return values


def _check_keys(kind: str, values: dict[str, Any]) -> None:
    missing = _KEYS[kind] - values.keys()
    unknown = values.keys() - _KEYS[kind] - (_RESULTS if kind == "round" else set())
    if missing or unknown:
        faults = [f"lacks {key!r}" for key in sorted(missing)] + [f"has an unknown {key!r}" for key in sorted(unknown)]
        raise ValueError(f"{kind}: the line {' and '.join(faults)}")


def _begun(values: dict[str, Any]) -> _Referee:
    if not isinstance(values["rules"], dict):
        raise ValueError(f"rules: {reprlib.repr(values['rules'])} is no JSON object")
    agents = values["agents"]
    if agents is not None and not all(isinstance(name, str) for name in _list("agents", agents)):
        raise ValueError(f"agents: {reprlib.repr(agents)} are not all names")
    return _Referee(Rules.from_dict(values["rules"]), values["episode"], values["seed"], agents)


def _add_round(referee: _Referee, values: dict[str, Any]) -> None:
    number = len(referee.rounds) + 1
    if _whole("round", values["round"]) != number:
        raise ValueError(f"round: {values['round']}, but this is round {number} of the game")
    dealer = _whole("dealer", values["dealer"])
    hands = [[_card("hands", card) for card in _list("hands", hand)] for hand in _list("hands", values["hands"])]
    plays = [_play(play) for play in _list("plays", values["plays"])]
    game = referee.add(dealer, hands, plays)
    given = values.keys() & _RESULTS
    if not game.round_over and given:
        raise ValueError(f"{' and '.join(sorted(given))}: the round is not over")
    if game.round_over and given != _RESULTS:
        raise ValueError(f"the round is over, but there are no {' and '.join(sorted(_RESULTS - given))}")
    if game.round_over:
        _check_result("points", values["points"], game.points)
        _check_result("totals", values["totals"], game.scores)


def _check_result(name: str, value: object, due: Sequence[int]) -> None:
    found = [_whole(name, number) for number in _list(name, value)]
    if found != list(due):
        raise ValueError(f"{name}: {reprlib.repr(found)}, but the plays make it {list(due)}")


def _play(value: object) -> tuple[int, int]:
    play = _list("plays", value)
    if len(play) != 2:
        raise ValueError(f"plays: {reprlib.repr(play)} is not a seat and a card")
    return _whole("plays", play[0]), _card("plays", play[1])


def _card(name: str, value: object) -> int:
    if not isinstance(value, str):
        raise ValueError(f"{name}: {reprlib.repr(value)} is not the name of a card")
    return parse_card(value)


def _whole(name: str, value: object) -> int:
    # JSON's true and 1.0 would pass for 1.
    if type(value) is not int:
        raise ValueError(f"{name}: {reprlib.repr(value)} is not a whole number")
    return value


def _list(name: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name}: {reprlib.repr(value)} is not a list")
    return value
