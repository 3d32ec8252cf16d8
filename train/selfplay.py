"""SelfPlayPPO: sb3-contrib's MaskablePPO, learning from every seat of thousands of tables at once.

What differs from its parent: the rollout reads a native vector environment's arrays in place and credits each seat
with its own reward (`SeatRollout`); forced plays never reach the network; the update runs on threads, whose number
changes no result (`Shards`); schedules start at their first value; and `iterations` hands control back between
iterations, where the model is whole, so that a run can be saved and resumed exactly. Policy, callbacks, logger,
`predict`, `save` and `load` are the parent's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch as th
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import MaybeCallback, Schedule
from stable_baselines3.common.utils import FloatSchedule
from stable_baselines3.common.vec_env import VecEnv

from fool_env import FoolVectorEnv
from fool_env.agents.network import Cards, PolicyNetwork
from fool_env.observation import first_float
from fool_env.train.average import AveragePolicy
from fool_env.train.buffer import NO_ROW, SeatRollout
from fool_env.train.compute import Shards, one_thread
from fool_env.train.decisions import largest_hand
from fool_env.train.distributed import Ranks
from fool_env.train.losses import LOSSES, Targets, ppo_losses, standardised
from fool_env.train.policy import masked_softmax, sample
from fool_env.train.pool import Pool
from fool_env.train.vec_env import NativeTables, SelfPlayVecEnv

Self = TypeVar("Self", bound="SelfPlayPPO")

COLUMNS = (
    *("time/iterations", "time/total_timesteps", "time/fps"),
    *("rollout/episodes", "rollout/forced_plays", "rollout/decisions"),
    *("train/policy_loss", "train/value_loss", "train/entropy", "train/average_kl", "train/relative_entropy"),
    *("train/approx_kl", "train/clip_fraction", "train/explained_variance"),
    *("train/learning_rate", "train/entropy_coefficient", "train/clip_range", "train/updates"),
    *("pool/members", "pool/learner_relative"),
)
"""What an iteration logs; the last two only where there is a pool."""

_NUM_PLAYERS = first_float("num_players")


class SelfPlayPPO(MaskablePPO):
    """PPO by self-play: all seats learn, with shared weights.

    Args:
        env: the tables; `SelfPlayVecEnv` around a native vector environment.
        learning_rate, ent_coef: numbers, or schedules of the progress that remains (1 at first, towards 0).
        n_steps: plays at each table in a rollout.
        batch_size: decisions in a minibatch, at most; minibatches of one rollout are equally large.
        gamma: discount from one of a seat's decisions to its next.
        average_kl: weight of the divergence from an average of the policy over its iterations.
        average_decay: what is left of that average at each iteration.
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
        average_kl: float = 0.0,
        average_decay: float = 0.95,
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
        self.average_kl = average_kl
        self.average_decay = average_decay
        self.reward_scale = reward_scale
        self.precision = precision
        self.shards = shards
        self.threads = threads
        self.ranks = Ranks() if ranks is None else ranks
        self.iteration = 0
        self.steps_before = 0  # plays of training of the network that it started from
        self.pool: Pool | None = None  # opponents at some of the tables
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        self.sees_hands = self.policy_kwargs.get("critic") == "full"
        sees_cards = self.policy_kwargs["features_extractor_kwargs"]["kind"] != "mlp" and self.env is not None
        self.rollout_buffer_kwargs["with_hands"] = self.sees_hands
        self.rollout_buffer_kwargs["hand_size"] = largest_hand(self.tables) if sees_cards else 0
        with one_thread():  # SB3's orthogonal matrices depend on their number, in the last bits
            super()._setup_model()
        self.entropy_schedule = FloatSchedule(self.entropy_schedule)
        self.compute = Shards(self.shards, self.threads, self.device, self.precision)
        self.generator = th.Generator().manual_seed(self.ranks.seed(th.seed() if self.seed is None else self.seed))
        self._parameters = list(self.policy.parameters())
        self.start_average()
        if self.env is not None:
            self._last_obs = self.tables.observations  # the first episodes have begun already

    def _excluded_save_params(self) -> list[str]:
        return [
            *super()._excluded_save_params(),
            *("_last_obs", "_last_episode_starts", "ep_info_buffer", "ep_success_buffer", "rollout_buffer_class"),
            "rollout_buffer_kwargs",  # of the SeatRollout, which a stock MaskablePPO does not build
            *("compute", "generator", "ranks", "_parameters", "average", "pool"),
        ]

    @property
    def tables(self) -> NativeTables:
        """The tables that the network plays at."""
        if not isinstance(self.env, SelfPlayVecEnv):
            raise TypeError(f"SelfPlayPPO trains at the tables of a SelfPlayVecEnv, not of {self.env!r}")
        return self.env.native

    def start_average(self) -> None:
        """Let the average policy, if it plays a part, begin as the policy is."""
        self.average = None
        if self.average_kl:
            self.average = AveragePolicy(self.policy_network().to(self.device), self.average_decay)

    def change_tables(self, tables: FoolVectorEnv, reward_scale: float) -> None:
        """Between two iterations: play at other tables, as many; decisions still open at the old ones are forgotten."""
        self.set_env(SelfPlayVecEnv(tables), force_reset=False)
        self._last_obs = tables.observations
        self.reward_scale = reward_scale
        self.rollout_buffer.clear()
        if self.pool is not None:
            self.pool.change_tables(tables)

    def policy_network(self) -> PolicyNetwork:
        """A copy of the policy as it is now, without the critic, on the CPU."""
        return PolicyNetwork.from_policy(
            **self.policy_kwargs["features_extractor_kwargs"], state=self.policy.state_dict()
        )

    def network(
        self, observations: th.Tensor, hands: th.Tensor, cards: Cards | None = None
    ) -> tuple[th.Tensor, th.Tensor]:
        """The pass of rollout and update.

        Args:
            observations: float32[rows, K].
            hands: uint8[rows, cards], what the others hold, for a critic that sees it.
            cards: what a trunk of cards wants to know of those held; None lets it look.

        Returns:
            Logits float32[rows, actions], and values float32[rows].
        """
        policy = self.policy
        with self.compute.autocast():
            features = policy.features_extractor(observations, cards)
            logits = policy.action_net(features)
            values = policy.value_net(features, hands) if self.sees_hands else policy.value_net(features)
        return logits.float(), values.float().squeeze(-1)

    def load_tensors(self, path: Path) -> None:
        """Read policy and optimizer from a checkpoint: tensors with `weights_only=True`, nothing is unpickled."""
        self.set_parameters(str(path), exact_match=True, device=self.device)

    def run_state(self) -> dict[str, np.ndarray]:
        """What a run needs between two iterations to go on exactly, besides policy and optimizer."""
        return {
            "num_timesteps": np.array(self.num_timesteps),
            "iteration": np.array(self.iteration),
            "steps_before": np.array(self.steps_before),
            "updates": np.array(self._n_updates),
            "generator": self.generator.get_state().numpy(),
            **{f"tables/{name}": array for name, array in self.tables.state_dict().items()},
            **{f"open/{name}": array for name, array in self.rollout_buffer.state_dict().items()},
            **{f"average/{name}": array for name, array in (self.average.state_dict() if self.average else {}).items()},
            **({} if self.pool is None else {f"pool/{name}": array for name, array in self.pool.state_dict().items()}),
        }

    def load_run_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `run_state`; then `iterations` with `reset_num_timesteps=False`."""

        def part(prefix: str) -> dict[str, np.ndarray]:
            return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}

        self.num_timesteps = int(state["num_timesteps"])
        self.iteration = int(state["iteration"])
        self.steps_before = int(state.get("steps_before", 0))
        self._n_updates = int(state["updates"])
        self.generator.set_state(th.from_numpy(state["generator"]))
        self.tables.load_state_dict(part("tables/"))
        self.rollout_buffer.load_state_dict(part("open/"))
        if self.average is not None:
            self.average.load_state_dict(part("average/"))
        if self.pool is not None:
            self.pool.load_state_dict(part("pool/"))

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
            if self.pool is not None:
                self.pool.end_iteration(self.num_timesteps, self.logger, self.ranks)
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
        buffer, tables, pool = rollout_buffer, self.tables, self.pool
        buffer.begin()
        callback.on_rollout_start()
        actions = np.zeros(env.num_envs, np.int64)
        uniforms = th.rand(n_rollout_steps, env.num_envs, generator=self.generator).to(self.device)
        for step in range(n_rollout_steps):
            rows = buffer.add_decisions(tables, actions, None if pool is None else pool.to_act())
            self._decide(rows, uniforms[step])
            buffer.place_actions(rows, actions)
            if pool is not None:
                pool.play(actions, self.compute)
            tables.step(actions)
            buffer.add_outcome(tables, self.reward_scale)
            if pool is not None:
                pool.add_outcome()
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

        def decide(part: slice) -> None:
            with th.inference_mode():
                buffer.take_in(tables, part, rows.start)
                new = buffer.decisions.part(part)
                logits, values = self.network(new.observations, new.hands, new.cards)
                probabilities, log_probs = masked_softmax(logits, new.masks)
                actions = sample(probabilities, uniforms[part.start - rows.start : part.stop - rows.start])
                new.actions.copy_(actions)
                new.log_probs.copy_(log_probs.gather(1, actions.unsqueeze(1)).squeeze(1))
                new.values.copy_(values)

        self.compute.map(decide, self.compute.slices(rows))

    def train(self) -> None:
        """Update the network from the decisions whose outcome the rollout has shown."""
        self._update_learning_rate(self.policy.optimizer)
        self.ent_coef = self.entropy_schedule(self._current_progress_remaining)  # type: ignore[operator]
        rows = self.rollout_buffer.trainable
        totals = self.ranks.minibatches(len(rows), self.batch_size or self.rollout_buffer.capacity)
        if not totals:  # so few steps that no seat came to its second decision
            return
        targets = self._targets(rows)
        index, losses = th.from_numpy(rows), []
        orders = th.stack([index[th.randperm(len(index), generator=self.generator)] for _ in range(self.n_epochs)])
        for order in orders.to(self.device):
            for batch, total in zip(order.tensor_split(len(totals)), totals, strict=True):
                losses.append(self._update(batch, targets, total))
            self._n_updates += 1
        if self.average is not None:
            self.average.update(self.policy_network())
        self._record(rows, targets, th.stack(losses).mean(0).tolist())

    def _targets(self, rows: np.ndarray) -> Targets:
        """What the update needs of every row; advantages are standardised over all ranks' rows of as many players."""
        buffer, average = self.rollout_buffer, self.average
        decisions, used = buffer.decisions, slice(0, buffer.size)
        advantages, values = th.from_numpy(buffer.advantages[used]), decisions.values[used].cpu()
        standard, players = th.zeros_like(advantages), decisions.observations[used, _NUM_PLAYERS].cpu()
        standard[rows] = standardised(advantages[rows], players[rows], self.ranks)
        targets = Targets(
            standard,
            advantages + values,
            th.from_numpy(buffer.legal[used]).float().log(),
            th.zeros((buffer.size, 0)) if average is None else average.log_probs(decisions.part(used), self.compute),
        )
        return Targets(*(target.to(self.device) for target in targets))

    def _update(self, batch: th.Tensor, targets: Targets, total: int) -> th.Tensor:
        """One step on the rows int64[batch] of this rank, `total` of all ranks; returns the LOSSES, float32[7]."""

        def of_part(part: th.Tensor) -> tuple[th.Tensor, ...]:
            losses = self.losses(part, targets)
            loss = losses[0] + self.vf_coef * losses[1] - self.ent_coef * losses[2] + self.average_kl * losses[3]
            return *th.autograd.grad(loss / total, self._parameters), losses.detach()

        *gradients, losses = self.compute.sums(of_part, batch)

        def step() -> None:
            self.ranks.sum_([*gradients, losses])
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                parameter.grad = gradient
            th.nn.utils.clip_grad_norm_(self._parameters, self.max_grad_norm)
            self.policy.optimizer.step()

        self.compute.alone(step)
        return losses / total

    def losses(self, rows: th.Tensor, targets: Targets) -> th.Tensor:
        """The LOSSES of some rows, summed: float32[7], of which the first four carry gradients."""
        decisions = self.rollout_buffer.decisions.at(rows)
        logits, values = self.network(decisions.observations, decisions.hands, decisions.cards)
        return ppo_losses(logits, values, decisions, targets.at(rows), self._clip_range_now())

    def _clip_range_now(self) -> float:
        return self.clip_range(self._current_progress_remaining)  # type: ignore[operator]  # a schedule by now

    def _record(self, rows: np.ndarray, targets: Targets, losses: list[float]) -> None:
        buffer = self.rollout_buffer
        values, returns = buffer.decisions.values.cpu().numpy()[rows], targets.returns.cpu().numpy()[rows]
        (_, (unexplained,)), (_, (spread,)) = self.ranks.moments(returns - values), self.ranks.moments(returns)
        explained = 1 - (unexplained / spread) ** 2 if spread else math.nan
        own = buffer.opponents == 0  # the network's plays
        forced, plays, episodes, decisions = self.ranks.totals(
            [(own & (buffer.rows == NO_ROW)).sum(), own.sum(), buffer.dones.sum(), len(rows)]
        )
        self.logger.record("rollout/episodes", int(episodes))
        self.logger.record("rollout/forced_plays", forced / plays)
        self.logger.record("rollout/decisions", int(decisions))
        for name, value in zip(LOSSES, losses, strict=True):
            self.logger.record(f"train/{name}", value)
        self.logger.record("train/explained_variance", explained)
        self.logger.record("train/entropy_coefficient", self.ent_coef)
        self.logger.record("train/clip_range", self._clip_range_now())
        self.logger.record("train/updates", self._n_updates)
