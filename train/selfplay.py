"""SelfPlayPPO: sb3-contrib's MaskablePPO, learning from every seat of thousands of tables at once.

What differs from its parent: the rollout reads a native vector environment's arrays in place and credits each seat
with its own reward (`SeatRollout`); forced plays never reach the network; the update runs on threads, whose number
changes no result (`Shards`); schedules start at their first value; and `iterations` hands control back between
iterations, where the model is whole, so that a run can be saved and resumed exactly. Policy, callbacks, logger,
`predict`, `save` and `load` are the parent's.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import MaybeCallback, Schedule
from stable_baselines3.common.utils import FloatSchedule
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from fool_env.agents.network import CardTrunk, make_trunk, start_with_card_values
from fool_env.train.buffer import NO_ROW, SeatRollout
from fool_env.train.compute import Shards
from fool_env.train.distributed import Ranks
from fool_env.train.policy import log_prob_and_entropy, masked_softmax, sample
from fool_env.train.vec_env import NativeTables, SelfPlayVecEnv

Self = TypeVar("Self", bound="SelfPlayPPO")

COLUMNS = (
    *("time/iterations", "time/total_timesteps", "time/fps"),
    *("rollout/episodes", "rollout/forced_plays", "rollout/decisions"),
    *("train/policy_loss", "train/value_loss", "train/entropy", "train/relative_entropy"),
    *("train/approx_kl", "train/clip_fraction", "train/explained_variance"),
    *("train/learning_rate", "train/entropy_coefficient", "train/clip_range", "train/updates"),
)
"""What an iteration logs."""

LOSSES = ("policy_loss", "value_loss", "entropy", "relative_entropy", "approx_kl", "clip_fraction")
"""Means over a rollout's minibatches; relative_entropy is the entropy over log(number of legal actions)."""


class Targets(NamedTuple):
    """What the update aims at, for every row of the buffer: float32[rows] each."""

    advantages: th.Tensor
    returns: th.Tensor
    log_legal: th.Tensor  # log(number of legal actions)

    def at(self, rows: th.Tensor) -> Targets:
        """A copy of some rows."""
        return Targets(*(target.index_select(0, rows) for target in self))


class Trunk(BaseFeaturesExtractor):
    """The layers that policy and value share, as SB3's features extractor; see `fool_env.agents.network`."""

    def __init__(
        self, observation_space: spaces.Box, hidden: Sequence[int] = (256, 256), card_facts: bool = True
    ) -> None:
        layers, features = make_trunk(int(np.prod(observation_space.shape)), hidden, card_facts)
        super().__init__(observation_space, features)
        self.layers = layers

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """float32[rows, K] -> [rows, features]."""
        features: th.Tensor = self.layers(observations)
        return features


class SelfPlayPPO(MaskablePPO):
    """PPO by self-play: all seats learn, with shared weights.

    Args:
        env: the tables; `SelfPlayVecEnv` around a native vector environment.
        learning_rate, ent_coef: numbers, or schedules of the progress that remains (1 at first, towards 0).
        n_steps: plays at each table in a rollout.
        batch_size: decisions in a minibatch, at most; minibatches of one rollout are equally large.
        gamma: discount from one of a seat's decisions to its next.
        reward_scale: multiplies the rewards of the environment.
        precision: "float32", "bfloat16" (autocast, in rollout and update alike) or "auto": the faster one.
        shards: parts into which a batch is cut. Results depend on it, in the last bits.
        threads: threads that compute the parts, None for as many as there are cores; at most `shards` are of use.
        ranks: the processes that train together, each at its own tables and with its own minibatches; steps, losses
            and whatever else is logged count over all of them.
    """

    rollout_buffer: SeatRollout  # type: ignore[assignment]

    def __init__(
        self,
        policy: str | type[MaskableActorCriticPolicy],
        env: SelfPlayVecEnv,
        learning_rate: float | Schedule = 1e-3,
        n_steps: int = 64,
        batch_size: int = 4096,
        n_epochs: int = 2,
        gamma: float = 1.0,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        ent_coef: float | Schedule = 0.01,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        reward_scale: float = 1.0,
        precision: str = "auto",
        shards: int = 2,
        threads: int | None = None,
        ranks: Ranks | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "cpu",
        _init_setup_model: bool = True,
    ) -> None:
        super().__init__(
            policy,
            env,
            learning_rate=learning_rate,
            n_steps=n_steps,
            batch_size=batch_size,
            n_epochs=n_epochs,
            gamma=gamma,
            gae_lambda=gae_lambda,
            clip_range=clip_range,
            ent_coef=ent_coef,  # type: ignore[arg-type]
            vf_coef=vf_coef,
            max_grad_norm=max_grad_norm,
            rollout_buffer_class=SeatRollout,  # type: ignore[arg-type]
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=False,
        )
        self.entropy_schedule: float | Schedule = ent_coef
        self.reward_scale = reward_scale
        self.precision = precision
        self.shards = shards
        self.threads = threads
        self.ranks = Ranks() if ranks is None else ranks
        self.iteration = 0
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        threads = th.get_num_threads()
        th.set_num_threads(1)  # with several, SB3's orthogonal matrices would depend on how many, in the last bits
        super()._setup_model()
        th.set_num_threads(threads)
        trunk = getattr(self.policy.features_extractor, "layers", None)
        if isinstance(trunk, CardTrunk):  # after SB3 has initialised all layers in its own way
            start_with_card_values(trunk, cast(nn.Linear, self.policy.action_net))
        self.entropy_schedule = FloatSchedule(self.entropy_schedule)
        self.compute = Shards(self.shards, self.threads, self.device, self.precision)
        self.generator = th.Generator().manual_seed(self.ranks.seed(th.seed() if self.seed is None else self.seed))
        self._parameters = list(self.policy.parameters())
        if self.env is not None:
            self._last_obs = self.tables.observations  # the first episodes have begun already

    def _excluded_save_params(self) -> list[str]:
        return [
            *super()._excluded_save_params(),
            *("_last_obs", "_last_episode_starts", "ep_info_buffer", "ep_success_buffer", "rollout_buffer_class"),
            *("compute", "generator", "ranks", "_parameters"),
        ]

    @property
    def tables(self) -> NativeTables:
        """The tables that the network plays at."""
        if not isinstance(self.env, SelfPlayVecEnv):
            raise TypeError(f"SelfPlayPPO trains at the tables of a SelfPlayVecEnv, not of {self.env!r}")
        return self.env.native

    def network(self, observations: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """float32[rows, K] -> logits float32[rows, actions], values float32[rows]: the pass of rollout and update."""
        policy = self.policy
        with self.compute.autocast():
            features = policy.features_extractor(observations)
            logits, values = policy.action_net(features), policy.value_net(features)
        return logits.float(), values.float().squeeze(-1)

    def run_state(self) -> dict[str, np.ndarray]:
        """What a run needs between two iterations to go on exactly, besides policy and optimizer."""
        return {
            "num_timesteps": np.array(self.num_timesteps),
            "iteration": np.array(self.iteration),
            "updates": np.array(self._n_updates),
            "generator": self.generator.get_state().numpy(),
            **{f"tables/{name}": array for name, array in self.tables.state_dict().items()},
            **{f"open/{name}": array for name, array in self.rollout_buffer.state_dict().items()},
        }

    def load_run_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `run_state`; then `iterations` with `reset_num_timesteps=False`."""

        def part(prefix: str) -> dict[str, np.ndarray]:
            return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}

        self.num_timesteps = int(state["num_timesteps"])
        self.iteration = int(state["iteration"])
        self._n_updates = int(state["updates"])
        self.generator.set_state(th.from_numpy(state["generator"]))
        self.tables.load_state_dict(part("tables/"))
        self.rollout_buffer.load_state_dict(part("open/"))

    def learn(  # type: ignore[override]  # sb3-contrib's own arguments
        self: Self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "SelfPlayPPO",
        reset_num_timesteps: bool = True,
        use_masking: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for at least `total_timesteps` plays, as the parent does; rows are logged once they are complete."""
        if not use_masking:
            raise ValueError("use_masking: FOOL cannot be played without masks")
        for iteration in self.iterations(
            total_timesteps, callback, tb_log_name, reset_num_timesteps, progress_bar=progress_bar
        ):
            if log_interval is not None and iteration % log_interval == 0:
                self.dump_logs(iteration)
        return self

    def iterations(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        tb_log_name: str = "SelfPlayPPO",
        reset_num_timesteps: bool = True,
        *,
        progress_bar: bool = False,
    ) -> Iterator[int]:
        """Train, and yield each iteration's number after its rollout and update: the place to log, evaluate, save."""
        total_timesteps, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        if reset_num_timesteps:
            self.iteration = 0
            self.rollout_buffer.clear()
        callback.on_training_start(locals(), globals())
        self.ranks.broadcast_(self._parameters)
        assert self.env is not None
        while self.num_timesteps < total_timesteps:
            # Before the rollout, so that the first update has the first value and none the value after the last.
            self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
            start, steps_before = time.perf_counter(), self.num_timesteps
            if not self.collect_rollouts(self.env, callback, self.rollout_buffer, self.n_steps):
                break
            self.train()
            self.iteration += 1
            seconds = time.perf_counter() - start
            self.logger.record("time/fps", (self.num_timesteps - steps_before) / seconds)
            yield self.iteration
        callback.on_training_end()

    def dump_logs(self, iteration: int = 0) -> None:
        """Write the iteration's row to all loggers."""
        self.logger.record("time/iterations", iteration, exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(step=self.num_timesteps)

    def collect_rollouts(  # type: ignore[override]  # its own kind of buffer
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: SeatRollout,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Play `n_rollout_steps` at every table into the buffer; False if the callback ended the training."""
        buffer, tables = rollout_buffer, self.tables
        buffer.begin()
        callback.on_rollout_start()
        actions = np.zeros(env.num_envs, np.int64)
        uniforms = th.rand(n_rollout_steps, env.num_envs, generator=self.generator)
        for step in range(n_rollout_steps):
            rows = buffer.add_decisions(tables, actions)
            self._decide(rows, uniforms[step])
            buffer.place_actions(rows, actions)
            tables.step(actions)
            buffer.add_outcome(tables, self.reward_scale)
            self.num_timesteps += env.num_envs * self.ranks.size
            callback.update_locals(locals())
            if not callback.on_step():
                buffer.clear()  # half a rollout credits nobody rightly
                return False
        buffer.finish()
        callback.on_rollout_end()
        return True

    def _decide(self, rows: slice, uniforms: th.Tensor) -> None:
        """Choose the actions of new rows of the buffer, with their log-probabilities and values."""
        buffer, tables = self.rollout_buffer, self.tables
        decisions, uniforms = buffer.decisions, uniforms.to(self.device)

        def decide(part: slice) -> None:
            with th.inference_mode():
                buffer.take_in(tables, part, rows.start)
                logits, values = self.network(decisions.observations[part])
                probabilities, log_probs = masked_softmax(logits, decisions.masks[part])
                actions = sample(probabilities, uniforms[part.start - rows.start : part.stop - rows.start])
                decisions.actions[part] = actions
                decisions.log_probs[part] = log_probs.gather(1, actions.unsqueeze(1)).squeeze(1)
                decisions.values[part] = values

        self.compute.map(decide, self.compute.slices(rows))

    def train(self) -> None:
        """Update the network from the decisions whose outcome the rollout has shown."""
        self._update_learning_rate(self.policy.optimizer)
        self.ent_coef = self.entropy_schedule(self._current_progress_remaining)  # type: ignore[operator]
        rows = self.rollout_buffer.trainable
        counts = self.ranks.counts(len(rows))
        if sum(counts) == 0:  # so few steps that no seat came to its second decision
            return
        targets = self._targets(rows)
        index = th.from_numpy(rows)
        # As many minibatches at every rank, and the rows of each over all ranks; they are equally large but for one.
        batches = math.ceil(max(counts) / (self.batch_size or max(counts)))
        totals = [sum(count // batches + (batch < count % batches) for count in counts) for batch in range(batches)]
        losses = []
        for _ in range(self.n_epochs):
            order = index[th.randperm(len(index), generator=self.generator)].to(self.device)
            for batch, total in zip(order.tensor_split(batches), totals, strict=True):
                losses.append(self._update(batch, targets, total))
            self._n_updates += 1
        self._record(rows, targets, th.stack(losses).mean(0).tolist())

    def _targets(self, rows: np.ndarray) -> Targets:
        """What the update needs of every row; advantages have mean 0 and deviation 1 over all ranks' rows."""
        buffer = self.rollout_buffer
        used = slice(0, buffer.size)
        advantages = th.from_numpy(buffer.advantages[used])
        values = buffer.decisions.values[used].cpu()
        mean, deviation = self.ranks.moments(buffer.advantages[rows])
        targets = Targets(
            (advantages - mean) / (deviation + 1e-8),
            advantages + values,
            th.from_numpy(buffer.legal[used]).float().log(),
        )
        return Targets(*(target.to(self.device) for target in targets))

    def _update(self, batch: th.Tensor, targets: Targets, total: int) -> th.Tensor:
        """One step on the rows int64[batch] of this rank, `total` of all ranks; returns the LOSSES, float32[6]."""

        def part_gradients(part: th.Tensor) -> tuple[tuple[th.Tensor, ...], th.Tensor]:
            losses = self.losses(part, targets)
            loss = losses[0] + self.vf_coef * losses[1] - self.ent_coef * losses[2]
            return th.autograd.grad(loss / total, self._parameters), losses.detach()

        parts = self.compute.map(part_gradients, batch.tensor_split(self.compute.parts))
        losses = th.stack([losses for _, losses in parts]).sum(0)

        def step() -> None:
            by_parameter = zip(*(gradients for gradients, _ in parts), strict=True)
            gradients = [functools.reduce(th.Tensor.add_, of_parts) for of_parts in by_parameter]
            self.ranks.sum_([*gradients, losses])
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                parameter.grad = gradient
            th.nn.utils.clip_grad_norm_(self._parameters, self.max_grad_norm)
            self.policy.optimizer.step()

        self.compute.alone(step)
        return losses / total

    def losses(self, rows: th.Tensor, targets: Targets) -> th.Tensor:
        """The LOSSES of some rows, summed: float32[6], of which the first three carry gradients."""
        decisions, (advantages, returns, log_legal) = self.rollout_buffer.decisions.at(rows), targets.at(rows)
        logits, values = self.network(decisions.observations)
        log_probs, entropy = log_prob_and_entropy(logits, decisions.masks, decisions.actions)
        log_ratio = log_probs - decisions.log_probs
        ratio = log_ratio.exp()
        clip_range = self._clip_range_now()
        clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
        with th.no_grad():
            relative_entropy = entropy / log_legal
            approx_kl = ratio - 1 - log_ratio
            clip_fraction = ((ratio - 1).abs() > clip_range).float()
        policy_loss = -th.min(advantages * ratio, advantages * clipped)
        value_loss = (returns - values).square()
        return th.stack([policy_loss, value_loss, entropy, relative_entropy, approx_kl, clip_fraction]).sum(1)

    def _clip_range_now(self) -> float:
        return self.clip_range(self._current_progress_remaining)  # type: ignore[operator]  # a schedule by now

    def _record(self, rows: np.ndarray, targets: Targets, losses: list[float]) -> None:
        buffer = self.rollout_buffer
        values, returns = buffer.decisions.values.cpu().numpy()[rows], targets.returns.cpu().numpy()[rows]
        (_, unexplained), (_, spread) = self.ranks.moments(returns - values), self.ranks.moments(returns)
        episodes, forced, plays, decisions = self.ranks.totals(
            int(buffer.dones.sum()), int((buffer.rows == NO_ROW).sum()), buffer.rows.size, len(rows)
        )
        self.logger.record("rollout/episodes", int(episodes))
        self.logger.record("rollout/forced_plays", forced / plays)
        self.logger.record("rollout/decisions", int(decisions))
        for name, value in zip(LOSSES, losses, strict=True):
            self.logger.record(f"train/{name}", value)
        self.logger.record("train/explained_variance", 1 - (unexplained / spread) ** 2 if spread else math.nan)
        self.logger.record("train/entropy_coefficient", self.ent_coef)
        self.logger.record("train/clip_range", self._clip_range_now())
        self.logger.record("train/updates", self._n_updates)
