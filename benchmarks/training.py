"""How fast self-play PPO trains, end to end, and where the time goes; beside it, stock sb3-contrib MaskablePPO.

    python benchmarks/training.py            about six minutes
    python benchmarks/training.py --quick    about two minutes, noisier

Each figure is the median of repeats, the least and the greatest beside it. `wall` is what a user sees, and suffers
from busy neighbours; `CPU` is steps per second of CPU time, all threads together, and suffers less. "Of the network's
passes" compares with nothing but forward and backward passes and Adam's steps, for the decisions trained, in the same
cut and on as many threads, taken in turns with the training.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported, as train/ppo.py does

import numpy as np
import torch as th
from environment import print_machine, show
from sb3_contrib import MaskablePPO

from fool_env import FoolVectorEnv, Rules
from fool_env.observation import OBSERVATION_SIZE
from fool_env.train.compute import available_cores, has_amx
from fool_env.train.config import TrainConfig
from fool_env.train.networks import Trunk
from fool_env.train.ppo import make_model
from fool_env.train.selfplay import SelfPlayPPO
from fool_env.train.stages import make_tables, stage_at
from fool_env.train.vec_env import SelfPlayVecEnv

TARGETS = {1: 45.0, 2: 80.0}  # thousand steps a second, on idle cores


class Clock:
    """Wall and CPU time of something that is done again and again."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def time(self, run: Callable[[], Any]) -> None:
        """Do it once."""
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


def bench_selfplay(threads: int, repeats: int, config: TrainConfig) -> None:
    """Whole iterations at the tables of a config, and in turns the passes of the network alone."""
    config.threads = threads
    model = make_model(config)
    env_seconds = count_seconds(model.env.native, "step")
    iterations = model.iterations(10**12, reset_num_timesteps=False)
    whole, bare = Clock(), Clock()
    next(iterations)
    env_shares = []
    for _ in range(repeats):
        env_seconds.clear()
        whole.time(lambda: next(iterations))
        env_shares.append(100 * sum(env_seconds) / whole.wall[-1])
        bare.time(lambda: network_passes(model))
    steps, ratios = config.steps_per_iteration, [b / w for b, w in zip(bare.cpu, whole.cpu, strict=True)]
    logged = model.logger.name_to_value
    network = "card facts, as the configs have it" if config.network.kind == "facts" else "plain network"
    print(
        f"\nSelf-play PPO, {network}, {threads} thread{'s' * (threads > 1)} for {model.compute.parts} shards, "
        f"{'bfloat16' if model.compute.bfloat16 else 'float32'}\n"
        f"  {config.table.num_tables} tables x {config.ppo.steps} plays, {logged['rollout/decisions']:,.0f} decisions "
        f"trained, minibatch {config.ppo.minibatch}, {config.ppo.epochs} epochs"
    )
    target = None if config.network.kind == "facts" else TARGETS.get(threads)
    show("wall", [steps / s for s in whole.wall], "k steps/s", 1e3, target)
    show("CPU", [steps / s for s in whole.cpu], "k steps/s", 1e3)
    show("share of the env", env_shares, "%", target=10)
    show("of the network's passes (CPU)", [100 * ratio for ratio in ratios], "%")


def count_seconds(target: Any, method: str) -> list[float]:
    """The durations of every call to a method from now on."""
    seconds: list[float] = []
    original = getattr(target, method)

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = original(*arguments)
        seconds.append(time.perf_counter() - start)
        return result

    setattr(target, method, timed)
    return seconds


def network_passes(model: SelfPlayPPO) -> None:
    """The passes of one iteration: forward at each step, forward and backward and Adam at each minibatch."""
    compute, decisions = model.compute, model.rollout_buffer.decisions
    count = len(model.rollout_buffer.trainable)
    rows = count // model.n_steps

    def forward(part: slice) -> None:
        with th.no_grad():
            model.network(decisions.observations[part], decisions.hands[part])

    def backward(part: slice) -> tuple[th.Tensor, ...]:
        logits, values = model.network(decisions.observations[part], decisions.hands[part])
        return th.autograd.grad(logits.sum() + values.sum(), model._parameters)

    for step in range(model.n_steps):
        compute.map(forward, compute.slices(slice(step * rows, (step + 1) * rows)))
    optimizer = th.optim.Adam([parameter.detach().clone() for parameter in model._parameters], fused=True)
    for start in range(0, count - model.batch_size, model.batch_size):
        for _ in range(model.n_epochs):
            gradients = compute.map(backward, compute.slices(slice(start, start + model.batch_size)))
            for parameter, gradient in zip(optimizer.param_groups[0]["params"], gradients[0], strict=True):
                parameter.grad = gradient
            optimizer.step()


def bench_stock(repeats: int, config: TrainConfig) -> None:
    """MaskablePPO as it comes, on the same tables with the same network and minibatches."""
    ppo = config.ppo
    env = SelfPlayVecEnv(make_tables(config, stage_at(config, 0)))
    policy = {
        "features_extractor_class": Trunk,
        "features_extractor_kwargs": {"kind": config.network.kind, "hidden": config.network.hidden},
        "net_arch": [],
    }
    model = MaskablePPO(
        "MlpPolicy",
        env,
        n_steps=ppo.steps,
        batch_size=ppo.minibatch,
        n_epochs=ppo.epochs,
        policy_kwargs=policy,
        device="cpu",
    )
    print(f"\nStock MaskablePPO, the same tables, network and minibatches, {th.get_num_threads()} torch threads")
    clock = Clock()
    for _ in range(repeats + 1):
        clock.time(lambda: model.learn(config.steps_per_iteration, reset_num_timesteps=False))
    show("wall", [config.steps_per_iteration / s for s in clock.wall[1:]], "k steps/s", 1e3)
    show("CPU", [config.steps_per_iteration / s for s in clock.cpu[1:]], "k steps/s", 1e3)


class FreeTable:
    """One table that costs nothing: always the same observation, with the same legal cards."""

    def __init__(self) -> None:
        tables = FoolVectorEnv(1, Rules.official(6))
        self.observations, self.masks, self.players = tables.observations, tables.masks, tables.players
        self.rewards, self.dones = tables.rewards, tables.dones

    def reset(self) -> None:
        """Nothing changes."""

    def step(self, actions: np.ndarray) -> None:
        """Nothing changes."""


def bench_stock_defaults(repeats: int) -> None:
    """MaskablePPO with its defaults, its own small network too."""
    model = MaskablePPO("MlpPolicy", SelfPlayVecEnv(FreeTable()), device="cpu")
    print(f"\nStock MaskablePPO with its defaults on a free environment, {th.get_num_threads()} torch threads")
    clock = Clock()
    for _ in range(repeats + 1):
        clock.time(lambda: model.learn(model.n_steps, reset_num_timesteps=False))
    show("wall", [model.n_steps / s for s in clock.wall[1:]], "k steps/s", 1e3)
    show("CPU", [model.n_steps / s for s in clock.cpu[1:]], "k steps/s", 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the speed of training, end to end.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    repeats = 3 if parser.parse_args().quick else 15
    print_machine()
    print(
        f"torch {th.__version__}, sb3 {version('stable-baselines3')}, sb3-contrib {version('sb3-contrib')}"
        f"\n{available_cores()} cores to use, {'AMX' if has_amx() else 'no AMX: bfloat16 would be slower than float32'}"
    )
    config = TrainConfig(device="cpu")
    print(f"6 players, network {config.network.hidden}, {OBSERVATION_SIZE} floats an observation")
    for config.network.kind in ("facts", "mlp"):
        for threads in (1, 2):
            if threads <= available_cores():
                bench_selfplay(threads, repeats, config)
    bench_stock(max(2, repeats // 3), config)
    bench_stock_defaults(2)


if __name__ == "__main__":
    main()
