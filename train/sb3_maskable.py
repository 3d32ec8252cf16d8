"""Stable-Baselines3 as everybody uses it: stock MaskablePPO learns one seat of Fool-v0 among bots.

    python train/sb3_maskable.py --players 6 --opponents highest --steps 3000000
    python train/evaluate.py --checkpoint runs/sb3-6p/final.zip --opponents highest cautious

The bots are trained against, so a gain at their tables says less than one at those of agents it has never met.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

from fool_env.interop.sb3 import SingleAgentVecEnv
from fool_env.train.checkpoint import describe_zip
from fool_env.train.command import Parser, run_script
from fool_env.train.config import NetworkConfig, TableConfig, TrainConfig
from fool_env.train.networks import Trunk

_PROGRAM = "sb3_maskable"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    parser = Parser(prog=_PROGRAM, description="Train stock MaskablePPO in one seat among bots.", allow_abbrev=False)
    parser.add_argument("--players", type=int, default=6, help="seats at the table (default: 6)")
    parser.add_argument("--opponents", default="highest", metavar="AGENT", help="in all other seats (default: highest)")
    parser.add_argument("--steps", type=int, default=3_000_000, help="the learner's decisions (default: 3 million)")
    parser.add_argument("--tables", type=int, default=256, help="played at once (default: 256)")
    parser.add_argument("--eval-every", type=int, default=500_000, help="steps between evaluations (default: 500,000)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument(
        "--folder", type=Path, help="for the zips and curves (default: runs/sb3-6p, or as many players)"
    )
    return run_script(_PROGRAM, lambda: _run(parser.parse_args(argv)), "interrupted; final.zip has what was learnt")


def make_tables(options: argparse.Namespace, count: int, learns: bool) -> VecNormalize:
    """Tables of single rounds for relative points, with Stable-Baselines3's usual wrappers."""
    kwargs = {"num_players": options.players, "opponents": options.opponents, "episode": "round", "reward": "relative"}
    tables = gymnasium.make_vec("fool_env:Fool-v0", count, vectorization_mode="vector_entry_point", **kwargs)
    env = VecMonitor(SingleAgentVecEnv(tables))
    return VecNormalize(env, training=learns, norm_obs=False, norm_reward=learns)


def _run(options: argparse.Namespace) -> int:
    folder = options.folder or Path(f"runs/sb3-{options.players}p")
    network, table = NetworkConfig(), TableConfig(options.players)
    tables, held_out = make_tables(options, options.tables, True), make_tables(options, 100, False)
    held_out.seed(options.seed + 2**32)
    trunk = {"kind": network.kind, "hidden": network.hidden}
    policy = {"features_extractor_class": Trunk, "features_extractor_kwargs": trunk, "net_arch": []}
    recipe: dict[str, Any] = {"n_steps": 64, "batch_size": 2048, "n_epochs": 2, "learning_rate": 5e-4, "ent_coef": 0.01}
    model = MaskablePPO("MlpPolicy", tables, gamma=1.0, policy_kwargs=policy, seed=options.seed, device="cpu", **recipe)
    every = max(1, options.eval_every // options.tables)
    evaluate = MaskableEvalCallback(
        held_out, n_eval_episodes=1000, eval_freq=every, log_path=str(folder), deterministic=False
    )
    try:
        model.learn(options.steps, callback=evaluate, progress_bar=sys.stderr.isatty())
    finally:  # after Ctrl-C too
        folder.mkdir(parents=True, exist_ok=True)
        model.save(folder / "final.zip")
        config = TrainConfig(total_steps=options.steps, seed=options.seed, table=table, network=network)
        describe_zip(folder / "final.zip", config, model.num_timesteps)
    print(f"wrote {folder / 'final.zip'}; relative points on the way are in {folder / 'evaluations.npz'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
