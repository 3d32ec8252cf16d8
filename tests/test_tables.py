"""Tables of any seating: against a slow referee, what agents are shown, and what is kept and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest

from fool_env import Game, IllegalActionError, Rules
from fool_env.agents.agent import Agent, AnyAgent, make_agent
from fool_env.agents.tables import Finished, play_tables
from fool_env.rng import derive
from fool_env.state import GAME

RANDOM, LOWEST, HIGHEST = make_agent("random"), make_agent("lowest"), make_agent("highest")
MINIATURE = Rules.miniature()


class Seer:
    """Sees all hands, and keeps what it saw; plays like `random`."""

    name = "seer"

    def __init__(self) -> None:
        self.records: list[np.ndarray] = []

    @property
    def omniscient(self) -> Literal[True]:
        return True

    def act_on_records(self, games: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self.records.append(games.copy())
        views = games.copy()
        views["viewer"] = views["player"]
        return RANDOM.act(views, seeds)


class Spy:
    """Plays like `random` and keeps the views."""

    name = "spy"

    def __init__(self) -> None:
        self.views: list[np.ndarray] = []

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self.views.append(views.copy())
        return RANDOM.act(views, seeds)


def seats(*agents: int) -> np.ndarray:
    """A table's seating; the seats that are not there hold nonsense."""
    return np.array([*agents, *[-7] * (8 - len(agents))], np.int8)


def play_all(
    agents: Sequence[AnyAgent], rules: Rules, episode: str, seating: Sequence[np.ndarray], **how: Any
) -> Finished:
    tables = len(seating)
    deal_seeds, streams = np.arange(tables, dtype=np.uint64) + 5, np.arange(tables, dtype=np.uint64) + 1000
    return play_tables(agents, rules, episode, np.stack(seating), deal_seeds, streams, **how)


def play_slowly(agents: Sequence[Agent], rules: Rules, episode: str, seed: int, stream: int) -> list[np.void]:
    """One table through Game, an agent for each seat; the last record of each round."""
    game, rounds = Game(rules, seed, episode), []
    while True:
        seat = game.player
        decision = derive(np.uint64(derive(np.uint64(stream), seat)), 88 * len(rounds) + len(game.history))
        game.play(int(agents[seat].act(np.array([game.view(seat)], GAME), np.array([decision], np.uint64))[0]))
        if game.round_over:
            rounds.append(game.record.copy())
            if game.game_over:
                return rounds
            game.next_round()


@pytest.mark.parametrize(("rules", "episode"), [(Rules.official(4), "round"), (MINIATURE, "game")])
def test_any_seating_equals_a_slow_referee(rules: Rules, episode: str) -> None:
    agents, luck = [RANDOM, HIGHEST, LOWEST], np.random.default_rng(1)
    seating = [seats(*luck.integers(0, 3, rules.num_players)) for _ in range(12)]
    finished = play_all(agents, rules, episode, seating, keep_rounds=True)
    moves = np.zeros(3, int)
    for table, row in enumerate(seating):
        at_table = [agents[agent] for agent in row[: rules.num_players]]
        slowly = play_slowly(at_table, rules, episode, 5 + table, 1000 + table)
        kept = finished.rounds[finished.round_tables == table]
        assert [record.tobytes() for record in kept] == [record.tobytes() for record in slowly]
        assert finished.games[table].tobytes() == slowly[-1].tobytes()
        for record in slowly:
            np.add.at(moves, row[record["history_seats"][: record["num_plays"]]], 1)
    assert finished.moves.tolist() == moves.tolist()
    assert len(finished.rounds) == len(finished.round_tables) >= len(seating) * (2 if episode == "game" else 1)


def test_rounds_are_kept_only_if_asked_for() -> None:
    finished = play_all([RANDOM], MINIATURE, "round", [seats(0, 0, 0)])
    assert finished.rounds is None and finished.round_tables is None


def test_cpu_time_is_put_down_to_who_took_it() -> None:
    class Slow(Spy):
        def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
            sum(range(100_000))
            return super().act(views, seeds)

    finished = play_all([RANDOM, Slow(), LOWEST], MINIATURE, "round", [seats(0, 1, 0)] * 5)
    assert finished.cpu_seconds[1] > finished.cpu_seconds[0] > 0
    assert finished.cpu_seconds[2] == 0 == finished.moves[2]


def test_progress_is_a_share() -> None:
    shares: list[float] = []
    play_all([RANDOM], MINIATURE, "round", [seats(0, 0, 0)] * 3, progress=shares.append)
    assert shares[0] == 0 and shares[-1] == 1 and shares == sorted(shares) and len(shares) > 5


# --- who sees what


def test_whoever_sees_all_hands_has_to_be_asked_for() -> None:
    for agents in ([Seer()], [RANDOM, Seer()]):
        with pytest.raises(ValueError, match=r"'seer' sees all hands.*upper bound.*allow_omniscient"):
            play_all(agents, MINIATURE, "round", [seats(0, 0, 0)])


def test_only_the_seer_is_shown_the_records() -> None:
    seer, spy = Seer(), Spy()
    finished = play_all([seer, spy], MINIATURE, "round", [seats(0, 1, 1)] * 4, allow_omniscient=True)
    records, views = np.concatenate(seer.records), np.concatenate(spy.views)
    assert (records["viewer"] == -1).all() and (records["rng"] != 0).all()
    held = np.bitwise_count(records["hands"]).sum(axis=(1, 2)) + records["ones"].sum(axis=1)
    assert (held == records["hand_sizes"].sum(axis=1)).all()
    assert (views["viewer"] == views["player"]).all() and (views["rng"] == 0).all()
    assert (records["player"] == 0).all() and (views["player"] != 0).all()
    assert finished.games["game_over"].all()


def test_what_a_seer_does_to_its_records_does_not_reach_the_tables() -> None:
    class Vandal(Seer):
        def act_on_records(self, games: np.ndarray, seeds: np.ndarray) -> np.ndarray:
            actions = super().act_on_records(games, seeds)
            games["hands"] = 0
            games["points"] = 99
            return actions

    tables = [seats(0, 0, 0)] * 3
    quiet = play_all([Seer()], MINIATURE, "game", tables, allow_omniscient=True)
    loud = play_all([Vandal()], MINIATURE, "game", tables, allow_omniscient=True)
    assert (quiet.games == loud.games).all()


# --- what is refused


class Fixed:
    name = "fixed"

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return np.full(len(views), 81)


def test_an_illegal_card_is_named_with_its_table() -> None:
    tables = [seats(0, 0, 0), seats(1, 1, 1)]
    with pytest.raises(IllegalActionError, match=r"agent 'fixed', table 1, seat \d: .*legal: "):
        play_all([RANDOM, Fixed()], MINIATURE, "round", tables)
    with pytest.raises(IllegalActionError, match="agent 'fixed', deal one, seat"):
        play_all([RANDOM, Fixed()], MINIATURE, "round", tables, table_name=["deal nil", "deal one"].__getitem__)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"seating": np.zeros((2, 8), np.int64)}, "seating: int64"),
        ({"seating": np.zeros((2, 3), np.int8)}, r"seating: int8 of shape \(2, 3\)"),
        ({"seating": np.zeros((0, 8), np.int8)}, "seating: .*at least 1"),
        ({"seating": np.ones((2, 8), np.int8)}, "seating: 1 to 1 are not within 0 to 0"),
        ({"seating": np.full((2, 8), -1, np.int8)}, "seating: -1"),
        ({"deal_seeds": np.zeros(2, np.int64)}, "deal_seeds: int64"),
        ({"deal_seeds": np.zeros(3, np.uint64)}, "deal_seeds: "),
        ({"streams": np.zeros((2, 1), np.uint64)}, "streams: "),
        ({"episode": "match"}, "episode: 'match'"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(wrong: dict[str, Any], says: str) -> None:
    right = {
        "episode": "round",
        "seating": np.zeros((2, 8), np.int8),
        "deal_seeds": np.zeros(2, np.uint64),
        "streams": np.zeros(2, np.uint64),
    }
    with pytest.raises(ValueError, match=says):
        play_tables([RANDOM], MINIATURE, **{**right, **wrong})
