"""The AEC env: how a game goes, who is paid what and when, what nobody may see, copies."""

from __future__ import annotations

import copy
import functools
import multiprocessing
import pickle
import random
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
from aec import MAKERS, OFFICIAL, midgame, play_on, snapshot, step_at_random
from pettingzoo import AECEnv
from variants import PRESETS

from fool_env import Game, IllegalActionError, Rules, RulesError, fool_v0
from fool_env.cards import CARD_NAMES, NUM_ACTIONS
from fool_env.observation import OBSERVATION_SIZE, STATE_SIZE, encode

# --- the game as it is played


@pytest.mark.parametrize("episode", ["game", "round"])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_agent_to_act_its_mask_and_the_spaces_at_every_step(preset: str, episode: str) -> None:
    """A Fool is passed over, never terminated; all agents stay until the end (FAULTS 4, 6, 41, 56)."""
    env = fool_v0.env(rules=PRESETS[preset], episode=episode)
    env.reset(seed=3)
    game = Game(PRESETS[preset], seed=3, episode=episode)
    rng = random.Random(preset)
    while not game.game_over:
        assert env.agents == env.possible_agents
        assert not any(env.terminations.values()) and not any(env.truncations.values())
        assert env.agent_selection == f"player_{game.player}"
        assert game.player not in game.fools
        legal = game.legal_actions()
        for agent in env.agents:
            observation = env.observe(agent)
            assert env.observation_space(agent).contains(observation)
            own = legal if agent == env.agent_selection else []
            assert np.flatnonzero(observation["action_mask"]).tolist() == own
            assert np.flatnonzero(env.infos[agent]["action_mask"]).tolist() == own
            assert env.infos[agent]["action_mask"].dtype == observation["action_mask"].dtype == np.int8
        assert env.state_space.contains(env.state())
        action = rng.choice(legal)
        env.step(action)
        game.play(action)
        if game.round_over and not game.game_over:
            game.next_round()
    assert all(env.terminations.values()) and not any(env.truncations.values())


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("num_players", OFFICIAL)
def test_all_agents_end_together_and_leave_in_order(num_players: int, make: Callable[..., AECEnv]) -> None:
    env = make(num_players=num_players, episode="round")
    for seed in range(10):
        env.reset(seed=seed)
        rng = random.Random(seed)
        while not env.terminations[env.agent_selection]:
            step_at_random(env, rng)
        left = []
        while env.agents:
            agent = env.agent_selection
            before = list(env.agents)
            for wrong in (0, 82, "G2"):
                with pytest.raises(ValueError, match="dead"):
                    env.step(wrong)
            assert env.agents == before
            observation, _, terminated, truncated, info = env.last()
            assert terminated is True and truncated is False
            assert env.observation_space(agent).contains(observation)
            assert not observation["action_mask"].any() and not info["action_mask"].any()
            env.step(None)
            left.append(agent)
            assert env.agents == [other for other in before if other != agent]
            assert set(env.rewards) == set(env.infos) == set(env.terminations) == set(env.agents)
        assert left == env.possible_agents


def test_an_episode_left_early_leaves_no_trace_in_the_next() -> None:
    for steps_before_leaving in (1, 30, 10_000):
        env = fool_v0.env(num_players=5, episode="round")
        env.reset(seed=1)
        rng = random.Random(0)
        for _ in range(steps_before_leaving):
            if env.agents:
                step_at_random(env, rng)
        fresh = fool_v0.env(num_players=5, episode="round")
        for each in (env, fresh):
            each.reset(seed=2)
        assert play_on(env, seed=4) == play_on(fresh, seed=4)
    while env.agents:
        step_at_random(env, rng)
    for each in (env, fresh):  # left in the middle of the agents' departure
        each.reset(seed=3)
        while not each.terminations[each.agent_selection]:
            step_at_random(each, random.Random(0))
        each.step(None)
        each.reset(seed=3)
        assert each.agents == each.possible_agents


# --- who is paid what, and when (FAULTS 1, 2, 7, 24)


def paid_by_game(game: Game, reward: str) -> list[float]:
    """What the play just made pays to every seat."""
    n = len(game.scores)
    if reward == "win":
        return [1 / len(game.winners) if seat in game.winners else 0.0 for seat in range(n)]
    if not game.round_over:
        return [0.0] * n
    if reward == "points":
        return [float(points) for points in game.points]
    return [own - (sum(game.points) - own) / (n - 1) for own in game.points]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("episode", "reward"), [("game", "points"), ("game", "relative"), ("game", "win"), ("round", "points")]
)
@pytest.mark.parametrize("num_players", OFFICIAL)
def test_rewards_are_those_of_the_game(num_players: int, episode: str, reward: str, make: Callable) -> None:
    """`rewards` after each step, what `last` hands over, and the sum over the episode."""
    env = make(num_players=num_players, episode=episode, reward=reward)
    for seed in range(2):
        env.reset(seed=seed)
        game = Game(Rules.official(num_players), seed=seed, episode=episode)
        rng = random.Random(seed)
        received = dict.fromkeys(env.possible_agents, 0.0)
        due = dict.fromkeys(env.possible_agents, 0.0)
        expected = [0.0] * num_players
        last_rewards = []
        for agent in env.agent_iter():
            observation, handed_over, terminated, truncated, _ = env.last()
            assert handed_over == pytest.approx(due[agent], abs=1e-5)
            received[agent] += handed_over
            due[agent] = 0.0
            if terminated or truncated:
                last_rewards.append(agent)
                env.step(None)
                assert not any(env.rewards.values())
                continue
            action = int(rng.choice(np.flatnonzero(observation["action_mask"])))
            env.step(action)
            game.play(action)
            paid = paid_by_game(game, reward)
            assert list(env.rewards.values()) == pytest.approx(paid, abs=1e-5)
            for seat, other in enumerate(env.possible_agents):
                expected[seat] += paid[seat]
                due[other] += paid[seat]
            if game.round_over and not game.game_over:
                game.next_round()
        assert game.game_over
        assert last_rewards == env.possible_agents  # each exactly once
        assert list(received.values()) == pytest.approx(expected, abs=1e-4)
        if reward == "points":
            assert list(received.values()) == game.scores
            assert len(set(game.scores)) > 1  # else paying another seat would not be noticed
        if reward == "win":
            assert sum(received.values()) == pytest.approx(1, abs=1e-6)
        for value in received.values():
            assert type(value) is float


def test_a_shared_win_is_shared() -> None:
    """One trick, one card each: G2 is the Fool's and scores 0, the other two score 10 and share the win."""
    rules = Rules(3, (4, 1, 1, 1), 0, 1, losing_total=-1, winning_tens=1)
    env = fool_v0.env(rules=rules, reward="win")
    env.reset(seed=0, options={"hands": [["G2"], ["G3"], ["G4"]], "dealer": 0})
    for card in ("G3", "G4", "G2"):
        env.step(CARD_NAMES.index(card))
    assert env.rewards == {"player_0": 0.0, "player_1": 0.5, "player_2": 0.5}


# --- options


def test_options_give_the_deal_and_the_dealer() -> None:
    env = fool_v0.env(rules=Rules.miniature())
    hands = [["G2", "G3", "1"], ["R2", "R3", "R4"], ["G4", "G5", "1"]]
    for dealer in range(3):
        env.reset(seed=4, options={"hands": hands, "dealer": dealer})
        assert env.unwrapped.game.hands == hands and env.unwrapped.game.dealer == dealer
        assert env.agent_selection == f"player_{(dealer + 1) % 3}"
        own = encode(env.unwrapped.game.view((dealer + 1) % 3))[0]
        assert env.observe(env.agent_selection)["observation"].tobytes() == own.tobytes()
    ids = [[CARD_NAMES.index(card) for card in hand] for hand in hands]
    env.reset(seed=4, options={"hands": ids})
    drawn = Game(Rules.miniature(), seed=4)
    assert env.unwrapped.game.hands == hands and env.unwrapped.game.dealer == drawn.dealer
    env.reset(seed=4, options={"dealer": 2})
    assert env.unwrapped.game.hands == drawn.hands and env.unwrapped.game.dealer == 2
    env.reset(seed=4, options={"something else": 1})
    assert env.unwrapped.game == drawn


def test_a_given_first_round_is_followed_by_the_seed_s_deals() -> None:
    games = []
    for hands in (None, [["G2", "G3", "1"], ["R2", "R3", "R4"], ["G4", "G5", "1"]]):
        env = fool_v0.env(rules=Rules.miniature())
        env.reset(seed=4, options={"hands": hands, "dealer": 0} if hands else {"dealer": 0})
        rng = random.Random(0)
        while env.unwrapped.game.num_rounds == 0:
            step_at_random(env, rng)
        games.append(env.unwrapped.game.hands)
    assert games[0] == games[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hands": [["G2"], ["G3"], ["G4"]]}, "seat 0 has 1 cards, not 3"),
        ({"hands": [["G2", "G3", "1"]] * 3}, "G2 is dealt 3 times"),
        ({"hands": [["G2", "G3", "B2"], ["R2", "R3", "R4"], ["G4", "G5", "1"]]}, "B2 is not in the deck"),
        ({"hands": [["G2", "G3", "1"]]}, "3 hands, not 1"),
        ({"hands": "G2 G3"}, "hands"),
        ({"hands": None}, "hands"),
        ({"dealer": 3}, "dealer: 3"),
        ({"dealer": -1}, "dealer: -1"),
        ({"dealer": "0"}, "dealer: '0'"),
    ],
)
def test_bad_options_are_refused_and_change_nothing(options: dict[str, Any], message: str) -> None:
    env = midgame(rules=Rules.miniature(), steps=2)
    before = snapshot(env)
    with pytest.raises(RulesError, match=message):
        env.reset(options=options)
    assert snapshot(env) == before
    twin = midgame(rules=Rules.miniature(), steps=2)
    env.reset()
    twin.reset()
    assert snapshot(env) == snapshot(twin)  # the deal that was refused was not used up


# --- illegal actions (FAULTS 14)


@pytest.mark.parametrize("make", MAKERS)
def test_an_illegal_action_raises_and_changes_nothing(make: Callable[..., AECEnv]) -> None:
    rng = random.Random(0)
    for num_players in OFFICIAL:
        env = make(num_players=num_players)
        env.reset(seed=num_players)
        for _ in range(25):
            before = snapshot(env)
            legal = env.unwrapped.game.legal_actions()
            for action in [*rng.sample(sorted(set(range(NUM_ACTIONS)) - set(legal)), 3), -1, NUM_ACTIONS, 10**9]:
                with pytest.raises(IllegalActionError, match=r"hand: .*legal: "):
                    env.step(action)
            for no_action in (None, 1.0, "Z9", True):
                with pytest.raises(ValueError, match="card"):
                    env.step(no_action)
            assert snapshot(env) == before
            env.step(np.int32(rng.choice(legal)))


@pytest.mark.parametrize("make", MAKERS)
def test_an_illegal_action_after_a_round_loses_no_reward(make: Callable[..., AECEnv]) -> None:
    env = make(num_players=4)
    env.reset(seed=0)
    rng = random.Random(0)
    while env.unwrapped.game.num_rounds == 0:
        step_at_random(env, rng)
    assert all(env.rewards.values()) and env.last()[1] != 0
    before = snapshot(env)
    with pytest.raises(IllegalActionError):
        env.step(-1)
    assert snapshot(env) == before


# --- observe, state, render (FAULTS 22, 42)


@pytest.mark.parametrize("num_players", OFFICIAL)
def test_any_agent_can_be_observed_at_any_time_without_effect(num_players: int) -> None:
    env = fool_v0.env(num_players=num_players, episode="round", render_mode="ansi")
    twin = fool_v0.env(num_players=num_players, episode="round", render_mode="ansi")
    env.reset(seed=1)
    twin.reset(seed=1)
    rng, twin_rng = random.Random(1), random.Random(1)
    while env.agents:
        for agent in env.possible_agents:  # also those that have left
            observed = env.observe(agent)
            observed["observation"][:] = -1
            observed["action_mask"][:] = 1
        env.state()[:] = -1
        env.render()
        env.last()
        step_at_random(env, rng)
        step_at_random(twin, twin_rng)
        assert snapshot(env) == snapshot(twin)


@pytest.mark.parametrize("preset", PRESETS)
def test_state_shows_all_hands_from_the_seat_to_act(preset: str) -> None:
    rules = PRESETS[preset]
    n = rules.num_players
    env = fool_v0.env(rules=rules)
    env.reset(seed=2)
    rng = random.Random(2)
    assert env.state_space.shape == (STATE_SIZE,) == (OBSERVATION_SIZE + 8 * NUM_ACTIONS,)
    for _ in range(60):
        if not env.agents or env.terminations[env.agent_selection]:
            break
        state, game = env.state(), env.unwrapped.game
        assert env.state_space.contains(state)
        assert state[:OBSERVATION_SIZE].tobytes() == env.last()[0]["observation"].tobytes()
        hands = state[OBSERVATION_SIZE:].reshape(8, NUM_ACTIONS)
        for i in range(n):
            hand = game.hands[(game.player + i) % n]
            assert hands[i].tolist() == [hand.count(card) for card in CARD_NAMES]
        assert not hands[n:].any()
        step_at_random(env, rng)


def test_state_and_observations_at_the_end() -> None:
    for preset in PRESETS.values():
        env = fool_v0.env(rules=preset, episode="round")
        env.reset(seed=6)
        rng = random.Random(6)
        while not env.terminations[env.agent_selection]:
            step_at_random(env, rng)
        game = env.unwrapped.game
        assert env.state_space.contains(env.state())
        assert env.state()[:OBSERVATION_SIZE].tobytes() == encode(game.view(game.leader)).tobytes()
        for seat, agent in enumerate(env.possible_agents):
            assert env.observe(agent)["observation"].tobytes() == encode(game.view(seat)).tobytes()


@pytest.mark.parametrize("num_players", OFFICIAL)
def test_rendering_shows_the_hand_of_the_seat_to_act_alone(num_players: int) -> None:
    env = fool_v0.env(num_players=num_players, render_mode="ansi")
    env.reset(seed=num_players)
    rng = random.Random(num_players)
    for _ in range(80):
        game = env.unwrapped.game
        text = env.render()
        assert text == str(game)
        *table, hand, legal = text.splitlines()
        assert hand == f"hand of seat {game.player}: {' '.join(game.hands[game.player])}"
        assert legal == f"legal: {' '.join(CARD_NAMES[action] for action in game.legal_actions())}"
        lying = [card for _, card in game.trick]
        shown = [word for line in table[2:] for word in line.split() if word in CARD_NAMES[:-1]]
        assert sorted(shown) == sorted(card for card in lying if card != "1")
        step_at_random(env, rng)


def test_human_rendering_prints_what_ansi_returns(capsys: pytest.CaptureFixture[str]) -> None:
    env = fool_v0.env(num_players=4, render_mode="human")
    twin = fool_v0.env(num_players=4, render_mode="ansi")
    twin.reset(seed=1)
    env.reset(seed=1)
    rng = random.Random(1)
    for _ in range(10):
        assert capsys.readouterr().out == twin.render() + "\n\n"
        assert env.render() is None
        assert capsys.readouterr().out == twin.render() + "\n\n"
        action = int(rng.choice(np.flatnonzero(twin.last()[0]["action_mask"])))
        twin.step(action)
        env.step(action)


def test_render_without_a_mode_warns_and_returns_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    env = fool_v0.env()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None
    assert capsys.readouterr().out == ""


# --- copies and other processes (FAULTS 9, 53)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize("preset", ["official_4", "official_8", "foppen_1995_3", "miniature"])
def test_a_copy_goes_on_identically(preset: str, copied: Callable, make: Callable[..., AECEnv]) -> None:
    for steps in (0, 1, 50):
        env = midgame(make, rules=PRESETS[preset], seed=steps, steps=min(steps, 5 if preset == "miniature" else 50))
        twin = copied(env)
        assert snapshot(twin) == snapshot(env)
        before = snapshot(env)
        rest = play_on(twin, seed=1)
        assert snapshot(env) == before  # the copy is independent
        assert play_on(env, seed=1) == rest
        env.reset()
        twin.reset()
        assert snapshot(twin) == snapshot(env)


def rewards_of_an_episode(make: Callable[[], AECEnv]) -> list[float]:
    """Run by another process."""
    env = make()
    env.reset(seed=5)
    rng = random.Random(5)
    received = dict.fromkeys(env.possible_agents, 0.0)
    while env.agents:
        received[env.agent_selection] += env.last()[1]
        step_at_random(env, rng)
    return list(received.values())


def test_a_factory_works_under_spawn() -> None:
    factory = functools.partial(fool_v0.env, rules=Rules.miniature(), reward="relative")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(rewards_of_an_episode, factory).result(timeout=120) == rewards_of_an_episode(factory)
