"""The golden games (tests/data/README.md) through `Game`, the AEC env and the vector env, card by card."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fool_env import FoolVectorEnv, Game, Rules, fool_v0
from fool_env.cards import CARD_NAMES, parse_card

GOLDEN_FILE = Path(__file__).parent / "data" / "golden_games.jsonl"
GOLDEN = [json.loads(line) for line in GOLDEN_FILE.read_text(encoding="utf-8").splitlines()]
JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
# Without compilation an observation takes a millisecond, so fewer games go through the envs.
GOLDEN_FOR_ENVS = GOLDEN[::10] if JIT_OFF else GOLDEN

Golden = dict[str, Any]


def named(golden: Golden) -> str:
    return f"{golden['num_players']} players, {len(golden['rounds'])} rounds"


def cards(actions: Any) -> list[str]:
    return [CARD_NAMES[action] for action in actions]


def plays_of(golden_round: Golden) -> list[Golden]:
    """Every play of a round in order."""
    return [play for trick in golden_round["tricks"] for play in trick["plays"]]


def is_last_of_game(golden: Golden, number: int) -> bool:
    """Whether the game ends with this round (the lines without winners stop before)."""
    return "winners" in golden and number == len(golden["rounds"]) - 1


def rewards_of(golden: Golden, number: int, reward: str) -> list[float]:
    """What the last play of a round pays to each seat."""
    points = golden["rounds"][number]["points"]
    if reward == "points":
        return points
    if reward == "relative":
        return [own - (sum(points) - own) / (len(points) - 1) for own in points]
    winners = golden["winners"] if is_last_of_game(golden, number) else []
    return [1 / len(winners) if seat in winners else 0.0 for seat in range(len(points))]


def test_the_golden_games_are_all_there() -> None:
    assert len(GOLDEN) == 80
    assert sum(len(plays_of(golden_round)) for golden in GOLDEN for golden_round in golden["rounds"]) == 22_093
    assert {golden["num_players"] for golden in GOLDEN} == {4, 5, 6, 7, 8}


# --- Game


def dealt_rounds(golden: Golden) -> Iterator[tuple[int, Game]]:
    """A Game at the start of each golden round; the caller plays the round."""
    rules = Rules.official(golden["num_players"])
    assert rules.num_fools == golden["num_fools"]
    for number, golden_round in enumerate(golden["rounds"]):
        if number == 0:
            game = Game.from_deal(rules, golden_round["hands"], golden["dealer"], seed=0)
        else:
            game.next_round(golden_round["hands"])
        yield number, game


@pytest.mark.parametrize("golden", GOLDEN, ids=named)
def test_game(golden: Golden) -> None:
    for number, game in dealt_rounds(golden):
        golden_round = golden["rounds"][number]
        assert game.dealer == (golden["dealer"] + number) % golden["num_players"]
        assert game.leader == golden_round["leader"]
        assert game.hands == [cards(sorted(map(parse_card, hand))) for hand in golden_round["hands"]]
        for trick in golden_round["tricks"]:
            assert not game.round_over
            assert list(game.fools) == trick["sitting_out"]
            for play in trick["plays"]:
                assert game.player == play["seat"]
                assert cards(game.legal_actions()) == play["legal"]
                game.play(play["card"])
            assert game.last_trick is not None
            assert game.last_trick.winner == game.leader == trick["winner"]
            assert list(game.last_trick.fools) == trick["fools"]
            assert game.last_trick.plays == [(play["seat"], play["card"]) for play in trick["plays"]]
        assert game.round_over and game.player is None
        assert game.history == [(play["seat"], play["card"]) for play in plays_of(golden_round)]
        for name in ("points", "scores", "tens"):
            assert getattr(game, name) == golden_round[name]
        assert game.game_over == is_last_of_game(golden, number)
    assert list(game.winners) == golden.get("winners", [])


# --- AEC


def stack_the_deals(env: Any, golden: Golden) -> None:
    """Start the env with the first deal and put the others where it deals the next rounds from."""
    env.reset(options={"hands": golden["rounds"][0]["hands"], "dealer": golden["dealer"]})
    game = env.unwrapped.game
    later_deals = iter([golden_round["hands"] for golden_round in golden["rounds"][1:]])
    game.next_round = lambda: Game.next_round(game, next(later_deals))


@pytest.mark.parametrize("reward", ["points", "relative", "win"])
def test_aec_env(reward: str) -> None:
    """Seats, masks and the end of the game; each seat is paid what the game says, each reward once."""
    for golden in GOLDEN_FOR_ENVS:
        whole = "winners" in golden
        if reward == "win" and not whole:
            continue
        env = fool_v0.env(num_players=golden["num_players"], episode="game" if whole else "round", reward=reward)
        stack_the_deals(env, golden)
        paid = dict.fromkeys(env.agents, 0.0)
        for play in (play for golden_round in golden["rounds"] for play in plays_of(golden_round)):
            agent = env.agent_selection
            assert agent == f"player_{play['seat']}"
            observation, last_reward, terminated, truncated, info = env.last()
            assert not terminated and not truncated
            paid[agent] += last_reward
            assert cards(np.flatnonzero(observation["action_mask"])) == play["legal"]
            assert np.array_equal(observation["action_mask"], info["action_mask"])
            env.step(parse_card(play["card"]))
        for agent in env.agents[:]:
            assert env.agent_selection == agent
            _, last_reward, terminated, _, _ = env.last()
            assert terminated
            paid[agent] += last_reward
            env.step(None)
        assert env.agents == []
        due = [rewards_of(golden, number, reward) for number in range(len(golden["rounds"]))]
        assert list(paid.values()) == pytest.approx(np.sum(due, axis=0).tolist(), abs=1e-3)


# --- Vector env


def load(env: FoolVectorEnv, records: list[np.void]) -> None:
    """Put a game record on each table."""
    state = env.state_dict()
    state["games"] = np.frombuffer(b"".join(record.tobytes() for record in records), np.uint8).reshape(len(records), -1)
    env.load_state_dict(state)


@pytest.mark.parametrize("reward", ["points", "relative", "win"])
@pytest.mark.parametrize("num_players", [4, 5, 6, 7, 8])
def test_vector_env(num_players: int, reward: str) -> None:
    """Every golden round is one table, loaded with the totals that stood before it; all are played at once."""
    records, rounds = [], []
    for golden in GOLDEN_FOR_ENVS:
        if golden["num_players"] == num_players:
            for number, game in dealt_rounds(golden):
                records.append(game.record)
                rounds.append((golden, number))
                for play in plays_of(golden["rounds"][number]):
                    game.play(play["card"])
    env = FoolVectorEnv(len(records), Rules.official(num_players), "game", reward, seed=0)
    load(env, records)
    plays = [plays_of(golden["rounds"][number]) for golden, number in rounds]
    for step in range(max(map(len, plays))):
        actions = env.masks.argmax(axis=1)  # of tables whose golden round is over: any legal card
        for table, table_plays in enumerate(plays):
            if step < len(table_plays):
                assert env.players[table] == table_plays[step]["seat"]
                assert cards(np.flatnonzero(env.masks[table])) == table_plays[step]["legal"]
                actions[table] = parse_card(table_plays[step]["card"])
        env.step(actions)
        for table, (golden, number) in enumerate(rounds):
            if step < len(plays[table]) - 1:
                assert not env.dones[table] and not env.rewards[table].any()
            elif step == len(plays[table]) - 1:
                assert env.dones[table] == is_last_of_game(golden, number)
                paid = rewards_of(golden, number, reward) + [0.0] * (8 - num_players)
                assert env.rewards[table].tolist() == pytest.approx(paid, abs=1e-4)
