"""PettingZoo's own suite on the AEC env, seeds, spaces, and the arguments of the constructor."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from aec import MAKERS, OFFICIAL, play_on
from pettingzoo import AECEnv
from pettingzoo.test import api_test, render_test, seed_test
from variants import PRESETS

from fool_env import Game, Rules, RulesError, fool_v0

# All other warnings are errors. Any env whose observation is a dict gets these two, unless its name is on PettingZoo's
# own list (`env_obs_dicts`, `env_obs_space` in pettingzoo/test/api_test.py) of its classic games, which all have one.
dict_observation = pytest.mark.filterwarnings(
    "ignore:^Observation is not a NumPy array$:UserWarning",
    "ignore:^Observation space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete$"
    ":UserWarning",
)


# --- PettingZoo's suite


@dict_observation
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("episode", ["game", "round"])
@pytest.mark.parametrize("num_players", OFFICIAL)
def test_pettingzoo_api(num_players: int, episode: str, make: Callable[..., AECEnv]) -> None:
    """It stops when an episode ends and always asks for seed 0, so it is run several times and given others."""
    env = make(num_players=num_players, episode=episode)
    reset = env.unwrapped.reset
    for first_seed in range(3):

        def reset_with_another_seed(
            seed: int | None = None, options: dict[str, Any] | None = None, first_seed: int = first_seed
        ) -> None:
            reset(None if seed is None else first_seed + seed, options)

        env.unwrapped.reset = reset_with_another_seed
        for i, agent in enumerate(env.possible_agents):
            env.action_space(agent).seed(10 * first_seed + i)
        api_test(env, num_cycles=1000)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("episode", ["game", "round"])
@pytest.mark.parametrize("num_players", OFFICIAL)
def test_pettingzoo_seed(num_players: int, episode: str, make: Callable[..., AECEnv]) -> None:
    seed_test(functools.partial(make, num_players=num_players, episode=episode), num_cycles=20)


@pytest.mark.usefixtures("capsys")
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("num_players", OFFICIAL)
def test_pettingzoo_render(num_players: int, make: Callable[..., AECEnv]) -> None:
    render_test(functools.partial(make, num_players=num_players))


# --- seeds (FAULTS 10-12)


@pytest.mark.parametrize("num_players", OFFICIAL)
def test_a_seed_repeats_a_whole_game(num_players: int) -> None:
    games = []
    for _ in range(2):
        env = fool_v0.env(num_players=num_players)
        env.reset(seed=7)
        games.append(play_on(env, seed=3))
    assert games[0] == games[1]
    assert len(games[0]) > 12 * num_players


def test_an_episode_is_that_of_a_game_of_the_same_seed() -> None:
    for preset in PRESETS.values():
        env = fool_v0.env(rules=preset)
        env.reset(seed=5)
        assert env.unwrapped.game.to_bytes() == Game(preset, seed=5).to_bytes()


def test_other_seeds_other_deals_and_reset_alone_goes_on() -> None:
    env = fool_v0.env()

    def deal(seed: int | None = None) -> bytes:
        env.reset(seed=seed)
        return env.state().tobytes()

    assert len({deal(seed) for seed in range(20)}) == 20
    assert deal(1) == deal(1)
    assert len({deal(1)} | {deal() for _ in range(20)}) == 21
    assert (deal(1), deal(), deal()) == (deal(1), deal(), deal())
    first, second = fool_v0.env(), fool_v0.env()
    first.reset()
    second.reset()
    assert first.state().tobytes() != second.state().tobytes()


def test_spaces_are_the_same_objects_and_seeded_samples_repeat() -> None:
    samples = []
    for _ in range(2):
        env = fool_v0.env(num_players=4)
        env.reset(seed=0)
        for i, agent in enumerate(env.possible_agents):
            assert env.action_space(agent) is env.action_space(agent)
            assert env.observation_space(agent) is env.observation_space(agent)
            env.action_space(agent).seed(i)
        drawn = []
        for agent in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            over = terminated or truncated
            drawn.append(None if over else env.action_space(agent).sample(observation["action_mask"]))
            env.step(drawn[-1])
        samples.append(drawn)
    assert samples[0] == samples[1]


# --- arguments


def test_players_and_rules_agree_or_are_refused() -> None:
    assert len(fool_v0.env().possible_agents) == 6
    for make in MAKERS:
        for num_players in OFFICIAL:
            assert make(num_players=num_players).unwrapped.rules == Rules.official(num_players)
            assert make(rules=Rules.official(num_players)).max_num_agents == num_players
            assert make(num_players=num_players, rules=Rules.official(num_players)).max_num_agents == num_players
        with pytest.raises(RulesError, match=r"num_players: 6 disagrees with the rules, which have 3"):
            make(num_players=6, rules=Rules.miniature())
        for num_players in (3, 9, "6", 6.0):
            with pytest.raises(RulesError, match="num_players"):
                make(num_players=num_players)
        with pytest.raises(RulesError, match="rules"):
            make(rules="official")


def test_other_arguments_are_checked() -> None:
    for make in MAKERS:
        with pytest.raises(ValueError, match="episode: 'match'"):
            make(episode="match")
        with pytest.raises(ValueError, match="reward: 'score'"):
            make(reward="score")
        with pytest.raises(ValueError, match=r"'win'.*game"):
            make(episode="round", reward="win")
        with pytest.raises(ValueError, match="render_mode: 'rgb_array'"):
            make(render_mode="rgb_array")
        with pytest.raises(TypeError, match="illegal_action"):
            make(illegal_action="terminate")
        for seed in (-1, 2**64, 0.5, "1", True):
            with pytest.raises(ValueError, match="seed"):
                make().reset(seed=seed)


def test_there_is_no_parallel_env_and_the_module_says_so() -> None:
    """FAULTS 13."""
    assert not hasattr(fool_v0, "parallel_env")
    assert fool_v0.raw_env.metadata["is_parallelizable"] is False
    assert "no parallel env" in fool_v0.__doc__
    assert fool_v0.raw_env.metadata["name"] == str(fool_v0.env()) == "fool_v0"
