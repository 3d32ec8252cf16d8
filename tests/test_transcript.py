"""Transcripts: what is written is read again as it was, and replays as it was played."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aec import step_at_random
from deals import DEAL, PLAYS, table
from transcripts import played, read, text_of
from variants import PRESETS, random_rules

from fool_env import Game, Rules, fool_v0
from fool_env.state import GAME
from fool_env.transcript import Transcript, TranscriptError, read_transcripts, write_transcripts

GOLDEN_FILE = Path(__file__).parent / "data" / "golden_games.jsonl"


# --- there and back


@pytest.mark.parametrize("num_players", [4, 5, 6, 7, 8])
def test_golden_games(num_players: int, tmp_path: Path) -> None:
    """Their deals, plays, points, totals and winners go through a file and come back."""
    golden_games = [json.loads(line) for line in GOLDEN_FILE.read_text(encoding="utf-8").splitlines()]
    golden_games = [golden for golden in golden_games if golden["num_players"] == num_players]
    transcripts = []
    for golden in golden_games:
        records = []
        for number, one in enumerate(golden["rounds"]):
            if number == 0:
                game = Game.from_deal(Rules.official(num_players), one["hands"], golden["dealer"])
            else:
                game.next_round(one["hands"])
            for play in (play for trick in one["tricks"] for play in trick["plays"]):
                game.play(play["card"])
            records.append(game.record)
        transcripts.append(Transcript.from_rounds(np.array(records, GAME)))
    write_transcripts(tmp_path / "golden.jsonl", transcripts)
    back = read_transcripts(tmp_path / "golden.jsonl")
    assert back == transcripts and len(back) == 16
    for golden, transcript in zip(golden_games, back, strict=True):
        assert list(transcript.winners) == golden.get("winners", [])
        assert transcript.seed is None and transcript.agents is None
        for number, (one, ours) in enumerate(zip(golden["rounds"], transcript.rounds, strict=True)):
            assert ours.dealer == (golden["dealer"] + number) % num_players
            assert [sorted(hand) for hand in ours.hands] == [sorted(hand) for hand in one["hands"]]
            told = [(play["seat"], play["card"]) for trick in one["tricks"] for play in trick["plays"]]
            assert list(ours.plays) == told
            assert list(ours.points) == one["points"] and list(ours.totals) == one["scores"]


@pytest.mark.parametrize("episode", ["game", "round"])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_position_of_a_game_comes_back_luck_included(preset: str, episode: str) -> None:
    rules, agents = PRESETS[preset], [f"agent {seat}" for seat in range(PRESETS[preset].num_players)]
    records, states = played(Game(rules, seed=2**64 - 1, episode=episode))
    transcript = Transcript.from_rounds(records, 2**64 - 1, agents)
    [back] = read(text_of(transcript))
    assert back == transcript
    assert (back.rules, back.episode, back.seed, back.agents) == (rules, episode, 2**64 - 1, tuple(agents))
    assert back.winners == states[-1].winners != ()
    assert back.num_plays == len(states) - 1
    moves = {0, 1, back.num_plays - 1, back.num_plays, *range(0, back.num_plays, 17)}
    over, total = set(), 0
    for one in back.rounds:  # the first play after a deal, and the one before
        total += len(one.plays)
        over |= {total - 1, total}
    for move in moves | over:
        assert back.game_at(move) == states[move]
    replayed = list(back.replay())
    assert [game for game, _, _ in replayed] == states[:-1]
    for game, seat, action in replayed:
        assert game.player == seat and action in game.legal_actions()


@pytest.mark.parametrize("moves", [0, 1, 5, 8, 9, 10, 40])
def test_an_unfinished_game_is_played_on_as_the_original(moves: int) -> None:
    """Of the miniature, whose rounds have 6 to 9 plays: at the start, within rounds and as one has just been dealt."""
    game = Game(Rules.miniature(), seed=11)
    records, states = played(game, moves)
    [back] = read(text_of(Transcript.from_rounds(records, 11)))
    assert back.winners == () and back.num_plays == moves
    again = back.game_at(moves)
    assert again == states[-1] == game
    assert played(again, seed=5)[1] == played(game, seed=5)[1]


def test_a_game_between_two_rounds() -> None:
    game = table(*DEAL)
    records, _ = played(game, 0)
    for card in PLAYS.split():
        game.play(card)
    assert game.round_over and not game.game_over
    records = np.array([game.record], GAME)
    [back] = read(text_of(Transcript.from_rounds(records)))
    assert back.winners == ()
    assert back.game_at(back.num_plays).round_over
    back.game_at(back.num_plays).next_round()


@pytest.mark.parametrize("seed", range(1, 30))
def test_any_rules(seed: int) -> None:
    rules = random_rules(random.Random(seed).randint)
    records, states = played(Game(rules, seed), moves=200, seed=seed)
    for known in (seed, None):
        transcript = Transcript.from_rounds(records, known)
        assert read(text_of(transcript)) == [transcript]
        game = transcript.game_at(transcript.num_plays)
        assert game.hands == states[-1].hands and game.scores == states[-1].scores
        assert (game == states[-1]) == (known == seed)


def test_without_a_seed_the_luck_to_come_is_always_the_same() -> None:
    records, _ = played(Game(Rules.official(5), 1), moves=70)
    transcript = Transcript.from_rounds(records)
    first, second = transcript.game_at(70), transcript.game_at(70)
    assert played(first)[1] == played(second)[1]


def test_replayed_games_are_independent() -> None:
    records, _ = played(Game(Rules.miniature(), 1), moves=5)
    transcript = Transcript.from_rounds(records, 1)
    before = text_of(transcript)
    for game, _, _ in transcript.replay():
        game.play(game.legal_actions()[-1])
    assert text_of(transcript) == before
    assert len({game.to_bytes() for game, _, _ in transcript.replay()}) == 5


@pytest.mark.parametrize("move", [-1, 6, 10**30])
def test_a_move_that_there_is_not(move: int) -> None:
    transcript = Transcript.from_rounds(played(Game(Rules.miniature(), 1), moves=5)[0], 1)
    with pytest.raises(ValueError, match=rf"move {move}: .* 0 to 4, and 5"):
        transcript.game_at(move)


# --- files


def test_files_hold_any_number_of_games_and_are_added_to(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    finished = Transcript.from_rounds(played(Game(Rules.miniature(), 1))[0], 1, ["a", "b", "ä\ud800\n"])
    unfinished = Transcript.from_rounds(played(Game(Rules.official(8), 2), moves=30)[0], 2)
    write_transcripts(path, [])
    assert read_transcripts(path) == []
    write_transcripts(path, [finished, unfinished])
    with path.open("a", encoding="utf-8") as stream:
        write_transcripts(stream, [finished])
        write_transcripts(stream, iter([unfinished, finished]))
    assert read_transcripts(str(path)) == [finished, unfinished, finished, unfinished, finished]
    with path.open(encoding="utf-8") as stream:
        assert len(read_transcripts(stream)) == 5
    path.write_text(path.read_text(encoding="utf-8")[:-1], encoding="utf-8")  # editors drop the last newline
    assert len(read_transcripts(path)) == 5
    write_transcripts(path, [unfinished])
    assert read_transcripts(path) == [unfinished]


def test_the_errors_of_files_come_through(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_transcripts(tmp_path / "none")
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the system
        write_transcripts(tmp_path, [])


# --- from records


def broken_records(change: Callable[[np.ndarray], Any]) -> Any:
    records, _ = played(Game(Rules.official(4), 3))
    return change(records.copy())


def with_field(name: str, number: int, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(records: np.ndarray) -> np.ndarray:
        records[name][number] = value
        return records

    return change


@pytest.mark.parametrize("seed", [3, None])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda records: records[:0], "rounds: there are none"),
        (lambda records: np.array([Game(Rules.official(4), 3).view(0)], GAME), "views"),
        (lambda records: records[1:], "round 1: "),
        (lambda records: records[[0, 2]], "round 2: (dealer|this is not the deal)"),
        (lambda records: records[[1, 0]], "round [12]: "),
        (lambda records: np.concatenate([records, records[-1:]]), r"round \d+: the game is over"),
        (lambda records: np.concatenate([played(Game(Rules.official(4), 3), 1)[0], records]), "round 2: the round bef"),
        (with_field("scores", 1, 7), "round 2: its record does not follow"),
        (with_field("points", 0, 0), "round 1: its record does not follow"),
        (with_field("losing_total", 1, -70), "round 2: its record does not follow"),
        (with_field("hands", 0, 0), "round 1: (hands|this is not the deal)"),
    ],
)
def test_records_that_are_no_game(change: Callable[[np.ndarray], Any], message: str, seed: int | None) -> None:
    with pytest.raises(TranscriptError, match=message):
        Transcript.from_rounds(broken_records(change), seed)


def test_a_seed_that_did_not_deal_these_hands() -> None:
    records = broken_records(lambda records: records)
    with pytest.raises(TranscriptError, match="round 1: this is not the deal of seed 4"):
        Transcript.from_rounds(records, 4)
    # Dealt by hand later on: only the second round is not the seed's.
    game = Game(Rules.official(4), 3)
    while not game.round_over:
        game.play(game.legal_actions()[0])
    second = game.clone()
    second.next_round(played(Game(Rules.official(4), 9), 0)[1][0].hands)
    rounds = np.array([game.record, second.record], GAME)
    with pytest.raises(TranscriptError, match="round 2: this is not the deal of seed 3"):
        Transcript.from_rounds(rounds, 3)
    assert Transcript.from_rounds(rounds).game_at(Transcript.from_rounds(rounds).num_plays).hands == second.hands


@pytest.mark.parametrize("agents", [[], ["a"], list("abcde")])
def test_a_name_for_each_seat(agents: list[str]) -> None:
    with pytest.raises(TranscriptError, match=rf"agents: {len(agents)} names for 4 seats"):
        Transcript.from_rounds(broken_records(lambda records: records), 3, agents)


# --- the AEC env


@pytest.mark.parametrize("episode", ["game", "round"])
@pytest.mark.parametrize("make", [fool_v0.env, fool_v0.raw_env])
def test_aec_env(make: Callable[..., Any], episode: str) -> None:
    env = make(num_players=4, episode=episode)
    for seed in (8, None, None):  # the episodes that follow have seeds of their own
        env.reset(seed=seed)
        rng = random.Random(seed)
        steps = 0
        while not env.terminations[env.agent_selection]:
            if steps % 100 in (0, 47, 48):
                transcript = env.unwrapped.transcript()
                assert transcript.num_plays == steps and transcript.winners == ()
                assert transcript.game_at(steps) == env.unwrapped.game
            step_at_random(env, rng)
            steps += 1
        transcript = copy.deepcopy(env.unwrapped).transcript(list("abcd"))
        assert transcript.agents == tuple("abcd") and transcript.winners == env.unwrapped.game.winners
        assert transcript.game_at(steps) == env.unwrapped.game
        assert (transcript.seed == 8) == (seed == 8) and transcript.seed is not None
        assert read(text_of(transcript)) == [transcript]
        while env.agents:
            env.step(None)
        assert env.unwrapped.transcript(list("abcd")) == transcript


@pytest.mark.parametrize("given", ["hands", "dealer"])
def test_aec_env_with_a_given_deal_has_no_seed(given: str) -> None:
    env = fool_v0.raw_env(rules=Rules.miniature())
    game = table(*DEAL, dealer=1)
    env.reset(seed=1, options={given: getattr(game, given)})
    rng = random.Random(0)
    for _ in range(12):
        step_at_random(env, rng)
    transcript = env.transcript()
    assert transcript.seed is None
    assert transcript.game_at(12).hands == env.game.hands
    with pytest.raises(TranscriptError, match="agents"):
        env.transcript(["a"])
