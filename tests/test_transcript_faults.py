"""Transcripts that are wrong: each check has a file that it refuses, and damage of any kind is a TranscriptError."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import played, read, text_of

from fool_env import Game, Rules
from fool_env.cards import CARD_NAMES
from fool_env.transcript import Transcript, TranscriptError, read_transcripts

# A whole game of three rounds or more at a table without a seed, then a game under way with one.
GAMES = [
    Transcript.from_rounds(played(Game(Rules.miniature(), 1), seed=1)[0], None, ["a", "b", "c"]),
    Transcript.from_rounds(played(Game(Rules.miniature(), 2), moves=11)[0], 2),
]
LINES = [json.loads(line) for line in text_of(*GAMES).splitlines()]
END = next(number for number, line in enumerate(LINES) if "winners" in line)  # from 0
OPEN = len(LINES) - 1

Lines = list[dict[str, Any]]


def put(number: int, *keys: Any) -> Callable[[Lines], int]:
    """A change of one value, keys leading to it and the value last; returns the number of the line, from 1."""

    def change(lines: Lines) -> int:
        *path, last, value = keys
        values: Any = lines[number]
        for key in path:
            values = values[key]
        values[last] = value(values[last]) if callable(value) else value
        return number % len(lines) + 1

    return change


def drop(number: int, key: str | None = None, fault: int = 0) -> Callable[[Lines], int]:
    """Leave out a line, or a key of it; the fault shows so many lines later."""

    def change(lines: Lines) -> int:
        if key is None:
            del lines[number]
        else:
            del lines[number][key]
        return number + 1 + fault

    return change


def repeat(number: int) -> Callable[[Lines], int]:
    def change(lines: Lines) -> int:
        lines.insert(number, copy.deepcopy(lines[number]))
        return number + 2

    return change


def wrong_seed(number: int, seed: int) -> Callable[[Lines], int]:
    def change(lines: Lines) -> int:
        lines[number]["seed"] = seed
        return number + 2  # the line of the first deal

    return change


def swap_hands(lines: Lines) -> int:
    hands = lines[END + 2]["hands"]
    hands[0][0], hands[1][0] = hands[1][0], hands[0][0]
    return END + 3


def plays_in_other_order(lines: Lines) -> int:
    plays = lines[2]["plays"]
    plays[0], plays[1] = plays[1], plays[0]
    return 3


def revoke(lines: Lines) -> int:
    """Put in place of some play a card of the hand that may not be played."""
    for game, seat, _ in GAMES[0].replay():
        illegal = sorted(set(game.hands[seat]) - {CARD_NAMES[action] for action in game.legal_actions()})
        if illegal:
            lines[1 + game.num_rounds]["plays"][len(game.history)] = [seat, illegal[0]]
            return 2 + game.num_rounds
    raise AssertionError("no card that may not be played")


def one_more_play(lines: Lines) -> int:
    lines[1]["plays"].append([0, "G5"])
    return 2


def round_after_the_end(lines: Lines) -> int:
    lines.insert(END, {**copy.deepcopy(lines[1]), "round": END})
    return END + 1


def end_unfinished(lines: Lines) -> int:
    lines.append({"winners": [0]})
    return len(lines)


def round_after_open(lines: Lines) -> int:
    lines.append({**copy.deepcopy(lines[1]), "round": lines[OPEN]["round"] + 1})
    return len(lines)


REFUSED: list[tuple[Callable[[Lines], int], str]] = [
    # the game's first line
    (put(0, "transcript", 2), "version is 2, this fool_env reads 1"),
    (put(0, "transcript", True), "transcript: True is not a whole number"),
    (put(0, "rules", []), "rules: .* no JSON object"),
    (put(0, "rules", "num_players", 4), "num_players|deal out"),
    (put(0, "rules", "num_ones", "2"), "num_ones: '2' is not a whole number"),
    (put(0, "rules", "colour", 1), "rules have no field colour"),
    (put(0, "episode", "match"), "episode: 'match' is neither"),
    (put(0, "episode", ["game"]), "episode: "),
    (put(0, "seed", -1), "seed: -1 is not within"),
    (put(0, "seed", 1.0), "seed: 1.0 is not a whole number"),
    (put(0, "agents", ["a", "b"]), "agents: 2 names for 3 seats"),
    (put(0, "agents", "abc"), "agents: 'abc' is not a list"),
    (put(0, "agents", ["a", "b", 3]), "agents: .* not all names"),
    (put(0, "agent", "a"), "unknown 'agent'"),
    (drop(0, "seed"), "lacks 'seed'"),
    (drop(0), "no game has begun"),
    # the order of lines
    (drop(1), "round: 2, but this is round 1"),
    (repeat(1), "round: 1, but this is round 2"),
    (repeat(END), "no game has begun"),
    (drop(END), "before is over, but has no line with its winners"),
    (repeat(END + 1), "has no round"),
    (end_unfinished, "winners: the game is not over"),
    (round_after_open, "the round before is not over"),
    (round_after_the_end, "the game is over with the round before"),
    # a round
    (put(2, "round", 1), "round: 1, but this is round 2"),
    (put(2, "round", "2"), "round: '2' is not a whole number"),
    (put(1, "dealer", 3), "dealer"),
    (put(1, "dealer", None), "dealer: None is not a whole number"),
    (put(2, "dealer", lambda dealer: (dealer + 1) % 3), r"dealer: seat \d, but seat \d deals"),
    (put(1, "hands", 0, 0, "1"), "1 is dealt 3 times"),
    (put(1, "hands", 0, 0, "G6"), "G6 is not in the deck"),
    (put(1, "hands", 0, 0, "X1"), 'no card is called "X1"'),
    (put(1, "hands", 0, 0, 5), "hands: 5 is not the name of a card"),
    (put(1, "hands", 0, "G2 G3"), "hands: 'G2 G3' is not a list"),
    (put(1, "hands", 0, lambda hand: hand[:2]), "hands: seat 0 has 2 cards, not 3"),
    (put(1, "hands", lambda hands: hands[:2]), "3 players need 3 hands, not 2"),
    (put(1, "plays", 0, []), r"plays: \[\] is not a seat and a card"),
    (put(1, "plays", 0, lambda play: [*play, 0]), "plays: .* is not a seat and a card"),
    (put(1, "plays", 0, 0, lambda seat: (seat + 1) % 3), r"play 1 is of seat \d, but seat \d is to act"),
    (put(1, "plays", 0, 0, True), "plays: True is not a whole number"),
    (put(1, "plays", 3, 1, "B15"), "play 4: B15 .* is not in the hand|play 4: B15"),
    (put(1, "plays", lambda plays: plays[:-1]), "points and totals: the round is not over"),
    (plays_in_other_order, "play 1 is of seat"),
    (revoke, "does not follow"),
    (one_more_play, r"play \d+: G5 cannot be played: the round is over"),
    (put(1, "points", 0, lambda points: points + 1), r"points: .* but the plays make it"),
    (put(1, "points", 0, float), "points: .* is not a whole number"),
    (put(2, "totals", 1, lambda total: total - 1), r"totals: .* but the plays make it"),
    (put(2, "totals", {}), "totals: {} is not a list"),
    (drop(1, "points"), "the round is over, but there are no points"),
    (drop(1, "plays"), "round: the line lacks 'plays'"),
    (put(1, "scores", []), "unknown 'scores'"),
    (put(OPEN, "points", [0, 0, 0]), "points: the round is not over"),
    # the winners
    (put(END, "winners", lambda winners: [(winners[0] + 1) % 3]), "winners: .* but the plays make it"),
    (put(END, "winners", []), "winners: .* but the plays make it"),
    (put(END, "winners", 0), "winners: 0 is not a list"),
    (put(END, "place", 1), "unknown 'place'"),
    # the seed
    (wrong_seed(0, 2), "this is not the deal of seed 2"),
    (wrong_seed(END + 1, 3), "this is not the deal of seed 3"),
    (swap_hands, "this is not the deal of seed 2"),
    (put(OPEN, "hands", lambda hands: hands[1:] + hands[:1]), "this is not the deal of seed 2"),
    (put(OPEN, "dealer", lambda dealer: (dealer + 1) % 3), "this is not the deal of seed 2"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_a_wrong_file_is_refused_with_its_line(change: Callable[[Lines], int], message: str, tmp_path: Path) -> None:
    lines = copy.deepcopy(LINES)
    number = change(lines)
    path = tmp_path / "games.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(TranscriptError, match=message) as caught:
        read_transcripts(path)
    assert str(caught.value).startswith(f"{path}, line {number}: ")


# --- damage

TEXT = text_of(*GAMES)


@pytest.mark.parametrize(
    ("text", "number", "message"),
    [
        (TEXT[:-20], TEXT.count("\n"), "not JSON: .*; the file ends within this line"),
        (TEXT[:100], 1, "not JSON: .*; the file ends within this line"),
        (TEXT.replace("\n", "\n\n", 1), 2, "not JSON"),
        (TEXT.replace("}\n", "\n", 1), 1, "not JSON"),
        ("[1]\n" + TEXT, 1, "is no JSON object"),
        ("null\n", 1, "is no JSON object"),
        ('{"winners": [1], "winners": [1]}\n', 1, "a key is there twice"),
        ("{}\n", 1, "it has no transcript, round, winners"),
        ('{"version": 1}\n', 1, "it has no transcript, round, winners"),
        ('{"transcript": 1, "seed": ' + "9" * 5000 + "}", 1, "not JSON|Exceeds"),
        ("[" * 100_000, 1, "not JSON"),
        ("\ufeff" + TEXT, 1, "not JSON"),
    ],
)
def test_lines_that_are_none(text: str, number: int, message: str) -> None:
    with pytest.raises(TranscriptError, match=rf"^transcript, line {number}: .*{message}"):
        read(text)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    lines = TEXT.encode().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b'"', b"\xff", 1) + lines[2])
    with pytest.raises(TranscriptError, match=r"line 2: .*utf-8"):
        read_transcripts(path)
    path.write_text(TEXT, encoding="utf-16")
    with pytest.raises(TranscriptError, match=r"line 1: .*utf-8"):
        read_transcripts(path)


def read_damaged(text: str) -> None:
    """Whatever it is, it is refused as a transcript or reads as one that can be written again."""
    try:
        transcripts = read(text)
    except TranscriptError:
        return
    assert read(text_of(*transcripts)) == transcripts


@given(st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, 3), st.text(max_size=3)), min_size=1, max_size=3))
@settings(max_examples=400)
def test_damaged_text(damages: list[tuple[int, int, str]]) -> None:
    """A few characters here and there are lost, others come in."""
    text = TEXT
    for place, lost, new in damages:
        text = text[:place] + new + text[place + lost :]
    read_damaged(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.sampled_from(["1", "G2", "G5", "B9", "game", "round", ""])
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
@settings(max_examples=600)
def test_damaged_values(data: st.DataObject) -> None:
    """Some value, of any line and at any depth, becomes another one, goes away or comes twice."""
    lines = copy.deepcopy(LINES)
    values: Any = lines
    while True:
        key = data.draw(st.sampled_from(sorted(values) if isinstance(values, dict) else range(len(values))))
        if isinstance(values[key], (dict, list)) and values[key] and data.draw(st.booleans()):
            values = values[key]
            continue
        match data.draw(st.sampled_from(["other", "gone", "twice"])):
            case "other":
                values[key] = data.draw(JSON)
            case "gone":
                del values[key]
            case _:
                if isinstance(values, list):
                    values.insert(key, copy.deepcopy(values[key]))
        break
    read_damaged("".join(json.dumps(line) + "\n" for line in lines))
