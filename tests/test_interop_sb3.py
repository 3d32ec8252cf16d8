"""Fool-v0 in Stable-Baselines3: the adapter says what the tables say, and the script trains what the arena scores."""

from __future__ import annotations

import json
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.vec_env import VecMonitor

from fool_env.agents.single_agent import FoolSingleAgentVectorEnv
from fool_env.interop.sb3 import SingleAgentVecEnv
from fool_env.train import evaluate, sb3_maskable


def some_tables(count: int = 20) -> FoolSingleAgentVectorEnv:
    return FoolSingleAgentVectorEnv(count, 4, "highest", episode="round", reward="relative")


def test_it_says_what_the_tables_say() -> None:
    env, tables = SingleAgentVecEnv(some_tables()), some_tables()
    assert is_masking_supported(env)
    env.seed(5)
    observations, (expected, infos) = env.reset(), tables.reset(seed=5)
    ended = 0
    for _ in range(60):
        np.testing.assert_array_equal(observations, expected)
        masks = get_action_masks(env)
        np.testing.assert_array_equal(masks, infos["action_mask"] == 1)
        assert (env.env_method("action_masks", indices=3)[0] == masks[3]).all()
        observations, rewards, dones, told = env.step(masks.argmax(axis=1))
        expected, their_rewards, over, _, infos = tables.step(masks.argmax(axis=1))
        np.testing.assert_array_equal(rewards, their_rewards.astype(np.float32))
        np.testing.assert_array_equal(dones, over)
        for table in range(20):
            if dones[table]:
                np.testing.assert_array_equal(told[table]["terminal_observation"], infos["final_obs"][table])
                assert not told[table]["TimeLimit.truncated"]
            else:
                assert not told[table]
        ended += dones.sum()
    assert ended > 20


def test_seeds_count_once_and_monitors_count_episodes() -> None:
    env = VecMonitor(SingleAgentVecEnv(some_tables()))
    env.seed(5)
    first, next_one = env.reset(), env.reset()
    assert (first != next_one).any()
    env.seed(5)
    np.testing.assert_array_equal(env.reset(), first)
    total = 0.0
    for _ in range(40):
        _, rewards, dones, infos = env.step(get_action_masks(env).argmax(axis=1))
        total += rewards[0]
        if dones[0]:
            assert infos[0]["episode"]["r"] == pytest.approx(total, abs=1e-4)
            break
    else:
        pytest.fail("no round ended in 40 decisions")


def test_other_environments_are_refused() -> None:
    with pytest.raises(TypeError, match="SyncVectorEnv is not what"):
        SingleAgentVecEnv(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync"))
    with pytest.raises(AttributeError, match="SingleAgentVecEnv has no hand"):
        SingleAgentVecEnv(some_tables(1)).get_attr("hand")


def test_without_the_library_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['stable_baselines3'] = None; import fool_env.interop.sb3"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install 'fool-env[train]'" in done.stderr


def test_the_script_trains_what_the_arena_scores(tmp_path, capsys) -> None:
    options = ["--players", "4", "--steps", "2000", "--tables", "16", "--eval-every", "1500", "--folder", str(tmp_path)]
    assert sb3_maskable.main(options) == 0
    curve = np.load(tmp_path / "evaluations.npz")
    assert curve["results"].shape == (1, 1000) and curve["timesteps"][0] == 1488
    report = tmp_path / "report.json"
    arguments = ["--checkpoint", str(tmp_path / "final.zip"), "--opponents", "highest", "--deals", "10"]
    assert evaluate.main([*arguments, "--json", str(report)]) == 0
    assert json.loads(report.read_text())
    assert sb3_maskable.main(["--opponents", "higest"]) == 2
    assert 'do you mean "highest"' in capsys.readouterr().err
