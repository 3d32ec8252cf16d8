"""Train a network to play FOOL by self-play.

    python train/ppo.py --config configs/6p.yaml
    python train/ppo.py --config configs/6p.yaml --seed 2 --name 6p-seed2 --ppo.learning_rate 5e-4
    python train/ppo.py --resume runs/6p
    torchrun --nproc-per-node=4 train/ppo.py --config configs/6p.yaml     four processes, see distributed.py

What a run leaves, and how it goes on after Ctrl-C or a crash: `fool_env.train.run`.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

# Before torch is imported, which reads it once: threads that wait for a busy core should sleep, not spin.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from stable_baselines3.common.utils import LinearSchedule

from fool_env.agents.neural import read_description
from fool_env.train import run
from fool_env.train.compute import available_cores
from fool_env.train.config import TrainConfig
from fool_env.train.distributed import Ranks
from fool_env.train.ladder import agent_of
from fool_env.train.networks import SelfPlayPolicy, Trunk
from fool_env.train.pool import Pool, make_member
from fool_env.train.selfplay import COLUMNS, SelfPlayPPO
from fool_env.train.stages import change_stage, make_tables, stage_at, start_from
from fool_env.train.vec_env import SelfPlayVecEnv


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when trained to the end, 130 when interrupted and saved, 2 when it could not begin."""
    return run.main(TrainConfig, train, sys.argv[1:] if arguments is None else arguments)


def train(config: TrainConfig, checkpoint: Path | None) -> int:
    """Train a run to its end, from the beginning or from a checkpoint; returns the exit code."""
    model = make_model(config, 0 if checkpoint is None else read_description(checkpoint)["steps"])

    def begin() -> str:
        return "" if config.init is None else start_from(config, model)

    def between() -> str:
        return change_stage(config, model)

    return run.train(config, model, checkpoint, COLUMNS, progress_line, begin, between)


def make_model(config: TrainConfig, steps: int = 0) -> SelfPlayPPO:
    """An untrained learner, at the tables that the config has after so many plays."""
    ppo, stage, ranks = config.ppo, stage_at(config, steps), Ranks.join()
    tables = make_tables(config, stage, ranks)
    model = SelfPlayPPO(
        SelfPlayPolicy,
        SelfPlayVecEnv(tables),
        learning_rate=LinearSchedule(ppo.learning_rate, ppo.final_learning_rate, 1.0),
        n_steps=ppo.steps,
        batch_size=ppo.minibatch,
        n_epochs=ppo.epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip_range,
        ent_coef=LinearSchedule(ppo.entropy, ppo.final_entropy, 1.0),
        vf_coef=ppo.value_weight,
        max_grad_norm=ppo.max_grad_norm,
        average_kl=ppo.average_kl,
        average_decay=ppo.average_decay,
        reward_scale=stage.reward_scale,
        precision=config.precision,
        shards=config.shards,
        threads=config.threads or max(1, available_cores() // ranks.local_size),
        ranks=ranks,
        policy_kwargs={
            "features_extractor_class": Trunk,
            "features_extractor_kwargs": {"kind": config.network.kind, "hidden": config.network.hidden},
            "critic": config.network.critic,
            "net_arch": [],  # None would add two more towers
            "optimizer_kwargs": {"eps": 1e-5, "fused": True},
        },
        seed=config.seed,
        device=ranks.device(config.device),
    )
    if config.pool.share > 0:
        members = [make_member(member) for member in config.pool.members]
        freeze = functools.partial(agent_of, model, config, "snapshot")
        model.pool = Pool(tables, config.pool, ranks.seed(config.seed), members, freeze)
    return model


def progress_line(config: TrainConfig, model: SelfPlayPPO, seconds: float) -> str:
    """Where the run stands, from what the iteration logged."""
    logged = model.logger.name_to_value  # which would take up what it is asked for by []
    entropy, explained = (logged.get(f"train/{name}", math.nan) for name in ("relative_entropy", "explained_variance"))
    return f"{run.progress(config, model, seconds)} | entropy {entropy:.0%}, values explain {explained:.0%}"


if __name__ == "__main__":
    sys.exit(main())
