"""Self-play PPO as a member of Stable-Baselines3: callbacks, schedules, options, saving; and its buffer's memory."""

from __future__ import annotations

import numpy as np
import pytest
from learners import fool_tables, make_learner
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import LinearSchedule
from toy import ToyTables

from fool_env.train.buffer import NO_ROW, SeatRollout
from fool_env.train.selfplay import SelfPlayPPO
from fool_env.train.vec_env import SelfPlayVecEnv


def test_callbacks_are_called_and_can_end_the_training():
    calls = []

    class Recorder(BaseCallback):
        def _on_training_start(self) -> None:
            calls.append("training start")

        def _on_rollout_start(self) -> None:
            calls.append("rollout start")

        def _on_rollout_end(self) -> None:
            calls.append("rollout end")

        def _on_training_end(self) -> None:
            calls.append("training end")

        def _on_step(self) -> bool:
            return self.num_timesteps < 16 * 8 * 2 + 8

    learner = make_learner(fool_tables())
    learner.learn(10**6, callback=Recorder())
    assert calls == ["training start", *["rollout start", "rollout end"] * 2, "rollout start", "training end"]
    assert learner.num_timesteps == 16 * 8 * 2 + 8
    assert learner.rollout_buffer.size == 0


def test_schedules_start_at_their_first_value_and_never_pass_the_last():
    learner = make_learner(
        fool_tables(), learning_rate=LinearSchedule(1.0, 0.0, 1.0), ent_coef=LinearSchedule(0.5, 0.1, 1.0)
    )
    seen = []
    for _ in learner.iterations(16 * 8 * 4 - 5):
        seen.append((learner.policy.optimizer.param_groups[0]["lr"], learner.ent_coef))
    assert seen[0] == (1.0, 0.5)
    assert len(seen) == 4
    assert all(0 < rate < 1 and 0.1 < entropy < 0.5 for rate, entropy in seen[1:])


def test_options_that_are_not_honoured_are_refused():
    for option in ({"target_kl": 0.1}, {"clip_range_vf": 0.2}, {"normalize_advantage": False}):
        with pytest.raises(TypeError, match=next(iter(option))):
            make_learner(ToyTables(2), **option)
    with pytest.raises(ValueError, match="use_masking"):
        make_learner(ToyTables(2)).learn(1, use_masking=False)


def test_stock_maskable_ppo_accepts_the_tables():
    from sb3_contrib import MaskablePPO

    tables = SelfPlayVecEnv(fool_tables())
    stock = MaskablePPO("MlpPolicy", tables, n_steps=16, batch_size=64, n_epochs=1, device="cpu", seed=0)
    stock.learn(128)
    masks = np.stack(tables.env_method("action_masks"))
    actions, _ = stock.predict(tables.native.observations, action_masks=masks)
    assert masks[np.arange(8), actions].all()


def test_a_saved_learner_can_be_loaded_with_and_without_tables(tmp_path):
    learner = make_learner(fool_tables(), ent_coef=LinearSchedule(0.5, 0.1, 1.0))
    learner.learn(1)
    learner.save(tmp_path / "learner.zip")
    player = SelfPlayPPO.load(tmp_path / "learner.zip", device="cpu")
    observations = fool_tables().observations
    masks = fool_tables().masks.astype(bool)
    for mine, theirs in zip(
        learner.predict(observations, action_masks=masks, deterministic=True),
        player.predict(observations, action_masks=masks, deterministic=True),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(TypeError, match="SelfPlayVecEnv"):
        _ = player.tables
    again = SelfPlayPPO.load(tmp_path / "learner.zip", env=SelfPlayVecEnv(fool_tables(num_tables=3)), device="cpu")
    again.learn(1)
    assert again.num_timesteps == 16 * 3 and again.ent_coef == 0.5


def test_memory_is_allocated_once():
    learner = make_learner(fool_tables())
    iterations = learner.iterations(10**6)
    next(iterations)
    addresses = [tensor.data_ptr() for tensor in learner.rollout_buffer.decisions]
    next(iterations)
    assert addresses == [tensor.data_ptr() for tensor in learner.rollout_buffer.decisions]


def test_a_buffer_forgets_what_it_is_told_to():
    learner = make_learner(fool_tables())
    learner.learn(1)
    buffer: SeatRollout = learner.rollout_buffer
    assert (buffer.open_rows != NO_ROW).any()
    buffer.clear()
    assert buffer.size == 0 and not (buffer.open_rows != NO_ROW).any() and not buffer.open_rewards.any()
