"""How fast self-play PPO trains, end to end, and where the time goes; beside it, stock sb3-contrib MaskablePPO.

    python benchmarks/training.py            about six minutes
    python benchmarks/training.py --quick    about two minutes, noisier

Each figure is the median of repeats, the least and the greatest beside it. `wall` is what a user sees, and suffers
from busy neighbours; `CPU` is steps per second of CPU time, all threads together, and suffers less. "Of it the
network's passes" is what nothing but forward and backward passes and Adam's steps take, on the same decisions, in the
same cut and on as many threads, taken in turns with the training.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
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
from fool_env.train.distributed import Ranks
from fool_env.train.networks import Trunk
from fool_env.train.ppo import make_model
from fool_env.train.selfplay import SelfPlayPPO
from fool_env.train.stages import make_tables, stage_at
from fool_env.train.vec_env import SelfPlayVecEnv

TARGETS = {1: 45.0, 2: 80.0}  # thousand steps a second, on idle cores
SHARE = 85.0  # percent of the time of training that the network's passes take, at least


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


def bench_selfplay(threads: int, repeats: int, config: TrainConfig, compiled: bool = False) -> None:
    """Whole iterations at the tables of a config, and in turns the passes of the network alone."""
    config.threads = threads
    model = make_model(config)
    if compiled:
        model.network = th.compile(model.network, dynamic=True)
    env_seconds = count_seconds(model.env.native, "step")
    iterations = model.iterations(10**12, reset_num_timesteps=False)
    whole, bare = Clock(), Clock()
    for _ in range(2):
        next(iterations)
    env_shares, memory = [], resident()
    for _ in range(repeats):
        env_seconds.clear()
        whole.time(lambda: next(iterations))
        env_shares.append(100 * sum(env_seconds) / whole.wall[-1])
        bare.time(lambda: network_passes(model))
    steps, ratios = config.steps_per_iteration, [b / w for b, w in zip(bare.cpu, whole.cpu, strict=True)]
    logged = model.logger.name_to_value
    network = "card facts, as the configs have it" if config.network.kind == "facts" else "plain network"
    print(
        f"\nSelf-play PPO, {network}{', compiled' * compiled}, {threads} thread{'s' * (threads > 1)} for "
        f"{model.compute.parts} shards, {'bfloat16' if model.compute.bfloat16 else 'float32'}\n"
        f"  {config.table.num_tables} tables x {config.ppo.steps} plays, {logged['rollout/decisions']:,.0f} decisions "
        f"trained, minibatch {config.ppo.minibatch}, {config.ppo.epochs} epochs"
    )
    target = None if config.network.kind == "facts" else TARGETS.get(threads)
    show("wall", [steps / s for s in whole.wall], "k steps/s", 1e3, target)
    show("CPU", [steps / s for s in whole.cpu], "k steps/s", 1e3)
    show("share of the env", env_shares, "%", target=10)
    show("of it the network's passes (CPU)", [100 * ratio for ratio in ratios], "%", target=SHARE)
    print(f"  memory: {memory:,.0f} MiB after two iterations, {resident():,.0f} MiB after {repeats} more")


def resident() -> float:
    """MiB of memory that this process has, where there is a /proc; else NaN."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), float("nan"))


def bench_processes(repeats: int) -> None:
    """Two processes of one thread each, with half the tables and half a minibatch each: the same work as above."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    print("\nTwo processes of one thread each (torchrun), 512 tables and minibatches of 2,048 each", flush=True)
    subprocess.run([*launcher, __file__, "--repeats", str(repeats)], check=True, stderr=subprocess.DEVNULL)


def bench_rank(repeats: int, config: TrainConfig, ranks: Ranks) -> None:
    """What each of these processes does."""
    config.threads = 1
    config.table.num_tables //= ranks.size
    config.ppo.minibatch //= ranks.size
    iterations = make_model(config).iterations(10**12, reset_num_timesteps=False)
    clock = Clock()
    for _ in range(repeats + 1):
        clock.time(lambda: next(iterations))
    if ranks.is_first:
        steps = config.steps_per_iteration * ranks.size
        show("wall", [steps / seconds for seconds in clock.wall[1:]], "k steps/s", 1e3)
    ranks.leave()


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
    compute, buffer = model.compute, model.rollout_buffer
    decisions, trained, new = buffer.decisions, len(buffer.trainable), buffer.size - buffer.carried

    def forward(part: slice) -> None:
        rows = decisions.part(part)
        with th.inference_mode():
            buffer.intake.derive(part)  # facts about cards, which are a part of the network
            model.network(rows.observations, rows.hands, rows.cards)

    def backward(part: slice) -> tuple[th.Tensor, ...]:
        rows = decisions.part(part)
        logits, values = model.network(rows.observations, rows.hands, rows.cards)
        return th.autograd.grad(logits.sum() + values.sum(), model._parameters)

    for step in range(model.n_steps):
        compute.map(forward, compute.slices(slice(new * step // model.n_steps, new * (step + 1) // model.n_steps)))
    optimizer = th.optim.Adam([parameter.detach().clone() for parameter in model._parameters], fused=True)
    batches = -(-trained // model.batch_size)
    for _ in range(model.n_epochs):
        for batch in range(batches):
            rows = slice(trained * batch // batches, trained * (batch + 1) // batches)
            gradients = compute.map(backward, compute.slices(rows))
            for parameter, gradient in zip(optimizer.param_groups[0]["params"], gradients[0], strict=True):
                parameter.grad = gradient
            compute.alone(optimizer.step)


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
    parser.add_argument("--repeats", type=int, default=15, help="how often each is measured")
    options = parser.parse_args()
    repeats = 3 if options.quick else options.repeats
    ranks, config = Ranks.join(), TrainConfig(device="cpu")
    if ranks.size > 1:
        bench_rank(repeats, config, ranks)
        return
    print_machine()
    print(
        f"torch {th.__version__}, sb3 {version('stable-baselines3')}, sb3-contrib {version('sb3-contrib')}"
        f"\n{available_cores()} cores to use, {'AMX' if has_amx() else 'no AMX: bfloat16 would be slower than float32'}"
    )
    print(f"6 players, network {config.network.hidden}, {OBSERVATION_SIZE} floats an observation")
    for config.network.kind in ("facts", "mlp"):
        for threads in (1, 2):
            if threads <= available_cores():
                bench_selfplay(threads, repeats, config)
    config.network.kind = "facts"
    if available_cores() > 1:
        bench_processes(repeats)
    if shutil.which("g++"):  # which torch.compile needs
        bench_selfplay(1, repeats, config, compiled=True)
    bench_stock(max(2, repeats // 3), config)
    bench_stock_defaults(2)


if __name__ == "__main__":
    main()
