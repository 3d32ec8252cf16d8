"""DeepMonteCarlo: what each legal action is worth, learnt from what seats are paid in the end, from every seat.

The method of DouZero (Zha et al. 2021): one network for all seats plays against itself, taking mostly the action of
the highest value, now and then any; and it is regressed, at the actions taken, on what each seat got from there to the
end of the episode. Nothing is bootstrapped, unless `td_lambda` is less than 1. Unlike theirs, which read an action
beside the state, the network is that of `SelfPlayPPO`: a value for each of the 83 actions in one pass.
"""

from __future__ import annotations

import io
import math
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch as th
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from fool_env.agents.network import CardTrunk, make_trunk, start_with_card_values
from fool_env.agents.neural import WEIGHTS_FILE
from fool_env.train.compute import Shards
from fool_env.train.distributed import Ranks
from fool_env.train.episodes import Decisions, EpisodeBuffer
from fool_env.train.networks import FullCritic
from fool_env.train.policy import sample
from fool_env.train.vec_env import NativeTables

COLUMNS = (
    *("time/iterations", "time/total_timesteps", "time/fps"),
    *("rollout/episodes", "rollout/forced_plays", "rollout/decisions", "rollout/waiting"),
    *("train/loss", "train/explained_variance", "train/learning_rate", "train/epsilon", "train/updates"),
)
"""What an iteration logs."""

OPTIMIZER_FILE: Final = "policy.optimizer.pth"


class QNetwork(nn.Module):
    """Values of actions: that of the state, and beside it each action's, as in duelling networks (Wang et al. 2016).

    Its parts are named as Stable-Baselines3 names those of its policies, so that whoever plays the one plays the
    other: the state's value makes no difference to the choice. So it may see every hand, in training, which takes
    luck out of what is left for the actions to explain.

    Args:
        observation_size, num_actions: of the tables.
        kind, hidden: of the trunk, see `make_trunk`.
        sees_hands: whether the state's value does.
    """

    def __init__(
        self, observation_size: int, num_actions: int, kind: str, hidden: Sequence[int], sees_hands: bool = False
    ) -> None:
        super().__init__()
        trunk, features = make_trunk(observation_size, kind, hidden)
        self.sees_hands = sees_hands
        self.features_extractor = nn.ModuleDict({"layers": trunk})
        self.action_net = nn.Linear(features, num_actions)
        self.value_net = FullCritic(features) if sees_hands else nn.Linear(features, 1)
        if isinstance(trunk, CardTrunk):
            start_with_card_values(trunk, self.action_net)

    def forward(self, observations: th.Tensor, hands: th.Tensor) -> th.Tensor:
        """float32[rows, K], uint8[rows, cards] -> values [rows, actions], those of illegal actions among them."""
        features = self.features_extractor["layers"](observations)
        state = self.value_net(features, hands) if self.sees_hands else self.value_net(features)
        values: th.Tensor = state + self.action_net(features)
        return values


def epsilon_greedy(values: th.Tensor, masks: th.Tensor, epsilon: float) -> tuple[th.Tensor, th.Tensor]:
    """The probabilities by which an action is chosen, and the highest value of a legal one.

    Args:
        values: float32[rows, actions].
        masks: bool[rows, actions], at least one True in each row.
        epsilon: the chance to choose any legal action, all alike, instead of the best.

    Returns:
        float32[rows, actions], exactly 0 where illegal; float32[rows].
    """
    highest, best = values.masked_fill(~masks, -math.inf).max(-1)
    probabilities = masks * (epsilon / masks.sum(-1, keepdim=True))
    return probabilities.scatter_add_(1, best.unsqueeze(1), values.new_full((len(best), 1), 1 - epsilon)), highest


class DeepMonteCarlo:
    """A network that learns, at its tables.

    Args:
        policy: the network.
        tables: a native vector environment.
        learning_rate, epsilon: schedules of the progress that remains (1 at first, towards 0).
        steps: plays at each table in a rollout.
        minibatch: decisions in a minibatch, at most; minibatches of one rollout are equally large.
        epochs: how often each decision is trained.
        td_lambda: see `EpisodeBuffer`.
        max_grad_norm: gradients longer than this are shortened to it.
        reward_scale: multiplies the rewards of the environment.
        precision, shards, threads: see `Shards`.
        seed: of exploration and minibatches.
        device: where the network lies.
    """

    def __init__(
        self,
        policy: QNetwork,
        tables: NativeTables,
        learning_rate: Schedule,
        epsilon: Schedule,
        steps: int = 64,
        minibatch: int = 4096,
        epochs: int = 1,
        td_lambda: float = 1.0,
        max_grad_norm: float = 0.5,
        reward_scale: float = 1.0,
        precision: str = "auto",
        shards: int = 2,
        threads: int | None = None,
        seed: int = 0,
        device: th.device | str = "cpu",
    ) -> None:
        self.device = th.device(device)
        self.policy = policy.to(self.device)
        self.tables = tables
        self.learning_rate, self.epsilon = learning_rate, epsilon
        self.steps, self.minibatch, self.epochs = steps, minibatch, epochs
        self.max_grad_norm = max_grad_norm
        self.num_timesteps = self.iteration = self.updates = 0
        self.ranks = Ranks()
        self.compute = Shards(shards, threads, self.device, precision)
        self.generator = th.Generator().manual_seed(seed)
        self.logger = Logger(None, [])
        self._parameters = list(policy.parameters())
        self.optimizer = th.optim.Adam(self._parameters, eps=1e-5, fused=True)
        self.buffer = EpisodeBuffer(tables, steps, td_lambda, reward_scale, policy.sees_hands, self.device)

    def set_logger(self, logger: Logger) -> None:
        """Log there."""
        self.logger = logger

    def iterations(self, total_timesteps: int, *, reset_num_timesteps: bool = False) -> Iterator[int]:
        """Train for at least so many plays, and yield each iteration's number after its rollout and update.

        Args:
            total_timesteps: plays to come, over all tables.
            reset_num_timesteps: forget those before; schedules run over all that count.
        """
        if reset_num_timesteps:
            self.num_timesteps = self.iteration = 0
        end = self.num_timesteps + total_timesteps
        while self.num_timesteps < end:
            remaining = 1 - self.num_timesteps / end
            start, steps_before = time.perf_counter(), self.num_timesteps
            self.collect_rollout(self.epsilon(remaining))
            self.train(self.learning_rate(remaining))
            self.iteration += 1
            self.logger.record("train/epsilon", self.epsilon(remaining))
            self.logger.record("time/fps", (self.num_timesteps - steps_before) / (time.perf_counter() - start))
            yield self.iteration

    def dump_logs(self, iteration: int) -> None:
        """Write the iteration's row to all loggers."""
        self.logger.record("time/iterations", iteration, exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(step=self.num_timesteps)

    def values(self, decisions: Decisions) -> th.Tensor:
        """Of each action: float32[rows, actions]. The pass of rollout and update."""
        with self.compute.autocast():
            values: th.Tensor = self.policy(decisions.observations, decisions.hands)
        return values.float()

    def collect_rollout(self, epsilon: float) -> None:
        """Play `steps` at every table into the buffer."""
        buffer, tables = self.buffer, self.tables
        buffer.begin()
        actions = np.zeros(len(tables.masks), np.int64)
        uniforms = th.rand(self.steps, len(actions), generator=self.generator)
        for step in range(self.steps):
            rows = buffer.add_decisions(tables, actions)
            self._decide(rows, uniforms[step], epsilon)
            buffer.place_actions(rows, actions)
            tables.step(actions)
            buffer.add_outcome(tables)
            self.num_timesteps += len(actions)
        buffer.finish()

    def _decide(self, rows: slice, uniforms: th.Tensor, epsilon: float) -> None:
        """Choose the actions of new rows of the buffer."""
        buffer, uniforms = self.buffer, uniforms.to(self.device)

        def decide(part: slice) -> None:
            with th.inference_mode():
                decisions = buffer.take_in(self.tables, part, rows.start)
                probabilities, best = epsilon_greedy(self.values(decisions), decisions.masks, epsilon)
                chance = uniforms[part.start - rows.start : part.stop - rows.start]
                decisions.actions[:] = sample(probabilities, chance)
                buffer.ledger["best"][part] = best.cpu().numpy()

        self.compute.map(decide, self.compute.slices(rows))

    def train(self, learning_rate: float) -> None:
        """Update the network from the decisions whose episode has ended."""
        rows = self.buffer.trainable
        self.logger.record("rollout/episodes", self.buffer.episodes)
        self.logger.record("rollout/forced_plays", self.buffer.forced / (self.steps * len(self.tables.masks)))
        self.logger.record("rollout/decisions", len(rows))
        self.logger.record("rollout/waiting", self.buffer.size - len(rows))
        self.logger.record("train/learning_rate", learning_rate)
        self.logger.record("train/updates", self.updates)
        if len(rows) == 0:  # no episode has ended yet
            return
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        targets = th.from_numpy(self.buffer.ledger["target"][: self.buffer.size].copy()).to(self.device)
        index = th.from_numpy(rows)
        losses = []
        for _ in range(self.epochs):
            order = index[th.randperm(len(index), generator=self.generator)].to(self.device)
            for batch in order.tensor_split(math.ceil(len(order) / self.minibatch)):
                losses.append(self._update(batch, targets))
            self.updates += 1
        loss = float(th.stack(losses).mean())
        variance = float(targets[index.to(self.device)].var(correction=0))
        self.logger.record("train/loss", loss)
        self.logger.record("train/explained_variance", 1 - loss / variance if variance > 0 else math.nan)
        self.logger.record("train/updates", self.updates)

    def _update(self, batch: th.Tensor, targets: th.Tensor) -> th.Tensor:
        """One step of the optimizer on the rows int64[batch]; returns the mean squared error, float32[]."""

        def of_part(part: th.Tensor) -> tuple[th.Tensor, ...]:
            loss = self.loss(part, targets) / len(batch)
            return *th.autograd.grad(loss, self._parameters), loss.detach()

        *gradients, loss = self.compute.sums(of_part, batch)

        def step() -> None:
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                parameter.grad = gradient
            nn.utils.clip_grad_norm_(self._parameters, self.max_grad_norm)
            self.optimizer.step()

        self.compute.alone(step)
        return loss

    def loss(self, rows: th.Tensor, targets: th.Tensor) -> th.Tensor:
        """The squared errors at the actions taken in some rows, summed: float32[]."""
        decisions = self.buffer.decisions.at(rows)
        taken = self.values(decisions).gather(1, decisions.actions.unsqueeze(1)).squeeze(1)
        return (taken - targets[rows]).square().sum()

    def save(self, path: io.BytesIO) -> None:
        """Write a zip with the tensors of the network and of the optimizer, as Stable-Baselines3 names them."""
        with zipfile.ZipFile(path, "w") as archive:
            for name, part in ((WEIGHTS_FILE, self.policy), (OPTIMIZER_FILE, self.optimizer)):
                tensors = io.BytesIO()
                th.save(part.state_dict(), tensors)
                archive.writestr(name, tensors.getvalue())

    def load_tensors(self, path: Path) -> None:
        """Read the tensors from such a zip; nothing is unpickled."""
        with zipfile.ZipFile(path) as archive:
            for name, part in ((WEIGHTS_FILE, self.policy), (OPTIMIZER_FILE, self.optimizer)):
                tensors = io.BytesIO(archive.read(name))
                part.load_state_dict(th.load(tensors, map_location=self.device, weights_only=True))

    def run_state(self) -> dict[str, np.ndarray]:
        """What a run needs between two iterations to go on exactly, besides network and optimizer."""
        return {
            "num_timesteps": np.array(self.num_timesteps),
            "iteration": np.array(self.iteration),
            "updates": np.array(self.updates),
            "generator": self.generator.get_state().numpy(),
            **{f"tables/{name}": array for name, array in self.tables.state_dict().items()},
            **{f"waiting/{name}": array for name, array in self.buffer.state_dict().items()},
        }

    def load_run_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `run_state`."""

        def part(prefix: str) -> dict[str, np.ndarray]:
            return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}

        self.num_timesteps = int(state["num_timesteps"])
        self.iteration = int(state["iteration"])
        self.updates = int(state["updates"])
        self.generator.set_state(th.from_numpy(state["generator"]))
        self.tables.load_state_dict(part("tables/"))
        self.buffer.load_state_dict(part("waiting/"))
