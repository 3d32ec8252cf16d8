"""Train a network to play FOOL by deep Monte-Carlo: DouZero's method, as a baseline beside PPO.

    python train/dmc.py --config configs/6p-dmc.yaml
    python train/dmc.py --resume runs/6p-dmc

What a run leaves, and how it goes on after Ctrl-C or a crash: `fool_env.train.run`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Before torch is imported, which reads it once: threads that wait for a busy core should sleep, not spin.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch as th
from stable_baselines3.common.utils import LinearSchedule, get_device

from fool_env.agents.neural import GREEDY
from fool_env.train import run
from fool_env.train.config import RunConfig
from fool_env.train.montecarlo import COLUMNS, DeepMonteCarlo, QNetwork
from fool_env.train.stages import make_tables, stage_at


@dataclass
class DmcConfig:
    """How the network learns.

    Attributes:
        steps: plays at each table in a rollout.
        minibatch: decisions in a minibatch, at most.
        epochs: how often each decision is trained.
        learning_rate, final_learning_rate: of Adam, falling linearly from the first to the last.
        epsilon, final_epsilon: share of decisions that are left to chance, likewise.
        td_lambda: 1 for returns as targets; less trusts the network's values of later decisions too.
        max_grad_norm: gradients longer than this are shortened to it.
        reward_scale: multiplies rewards, so that values are of the order of 1; null for what suits the reward.
    """

    steps: int = 64
    minibatch: int = 1024
    epochs: int = 2
    learning_rate: float = 1e-3
    final_learning_rate: float = 0.0
    epsilon: float = 0.05
    final_epsilon: float = 0.01
    td_lambda: float = 1.0
    max_grad_norm: float = 0.5
    reward_scale: float | None = None


@dataclass
class DmcRunConfig(RunConfig):
    """A run of deep Monte-Carlo.

    Attributes:
        dmc: how the network learns.
    """

    program = "fool-dmc"
    script = "train/dmc.py"
    description = "Train a network to play FOOL by deep Monte-Carlo self-play."
    method = "dmc"
    choice = GREEDY

    dmc: DmcConfig = field(default_factory=DmcConfig)

    @property
    def steps_per_iteration(self) -> int:
        """Plays in one rollout, over all tables."""
        return self.table.num_tables * self.dmc.steps

    @property
    def reward_scale(self) -> float | None:
        """What rewards are multiplied by, None for what suits the reward."""
        return self.dmc.reward_scale

    def check(self) -> None:
        """Refuse what cannot be trained.

        Raises:
            ValueError: the message names the key.
        """
        super().check()
        if self.table.rounds_first:
            raise ValueError("table.rounds_first: only train/ppo.py plays rounds first, then games")
        for name in ("epsilon", "final_epsilon", "td_lambda"):
            if not 0 <= getattr(self.dmc, name) <= 1:
                raise ValueError(f"dmc.{name}: {getattr(self.dmc, name)} is not within 0 to 1")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when trained to the end, 130 when interrupted and saved, 2 when it could not begin."""
    return run.main(DmcRunConfig, train, sys.argv[1:] if arguments is None else arguments)


def train(config: DmcRunConfig, checkpoint: Path | None) -> int:
    """Train a run to its end, from the beginning or from a checkpoint; returns the exit code."""
    return run.train(config, make_model(config), checkpoint, COLUMNS, progress_line)


def make_model(config: DmcRunConfig) -> DeepMonteCarlo:
    """A learner at its tables, as the config has them."""
    dmc, stage = config.dmc, stage_at(config, 0)
    tables = make_tables(config, stage)
    with th.random.fork_rng(devices=[]):
        th.manual_seed(config.seed)
        policy = QNetwork(
            tables.observations.shape[1],
            tables.masks.shape[1],
            config.network.kind,
            config.network.hidden,
            sees_hands=config.network.critic == "full",
        )
    return DeepMonteCarlo(
        policy,
        tables,
        learning_rate=LinearSchedule(dmc.learning_rate, dmc.final_learning_rate, 1.0),
        epsilon=LinearSchedule(dmc.epsilon, dmc.final_epsilon, 1.0),
        steps=dmc.steps,
        minibatch=dmc.minibatch,
        epochs=dmc.epochs,
        td_lambda=dmc.td_lambda,
        max_grad_norm=dmc.max_grad_norm,
        reward_scale=stage.reward_scale,
        precision=config.precision,
        shards=config.shards,
        threads=config.threads,
        seed=config.seed,
        device=get_device(config.device),
    )


def progress_line(config: DmcRunConfig, model: DeepMonteCarlo, seconds: float) -> str:
    """Where the run stands, from what the iteration logged."""
    logged = model.logger.name_to_value  # which would take up what it is asked for by []
    explained = logged.get("train/explained_variance", math.nan)  # no episode has ended yet
    return (
        f"{run.progress(config, model, seconds)} | {logged['train/epsilon']:.1%} by chance, "
        f"values explain {explained:.0%}"
    )


if __name__ == "__main__":
    sys.exit(main())
