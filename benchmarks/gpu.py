"""Does training on a GPU do what it does on the CPU, keep everything there, and how fast is it?

    python benchmarks/gpu.py                 a few minutes; exits with 1 if a check fails
    python benchmarks/gpu.py --device cpu    goes through everything with the CPU in the GPU's place

Checks: the same decisions have the same losses on both and lead to the same weights (float32, within rounding); an
update neither waits for the GPU nor copies to or from it; a step of a rollout sends one piece of memory there, and
one, the chosen actions, comes back. Then thousands of steps a second with and without bfloat16 and torch.compile.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported, as train/ppo.py does

import torch as th
from environment import print_machine, show
from torch.profiler import ProfilerActivity, profile

from fool_env.train.compute import has_fast_bfloat16
from fool_env.train.config import TrainConfig
from fool_env.train.ppo import make_model
from fool_env.train.selfplay import SelfPlayPPO

LOSS_TOLERANCE = 1e-4
DRIFT = 0.05  # of the way that weights go in an update: Adam goes as far for a tiny gradient, all rounding, as for any
TABLES, STEPS = 256, 32  # of the checks


def learner(device: str, precision: str = "float32", tables: int = TABLES, steps: int = STEPS) -> SelfPlayPPO:
    """As configs/6p.yaml has it, but for the size and a critic that sees every hand."""
    config = TrainConfig(device=device, precision=precision)
    config.table.num_tables, config.ppo.steps, config.network.critic = tables, steps, "full"
    return make_model(config)


def roll_out(model: SelfPlayPPO) -> None:
    """A rollout without its update."""
    train, model.train = model.train, lambda: None
    next(model.iterations(10**9))
    model.train = train


def hand_over(source: SelfPlayPPO, target: SelfPlayPPO) -> None:
    """Let a learner have the rollout of another of the same config, and the state of its generator."""
    roll_out(target)
    one, other = source.rollout_buffer, target.rollout_buffer
    for column, copy in zip(one.decisions, other.decisions, strict=True):
        copy.copy_(column)
    for name in ("rows", "players", "rewards", "dones", "opponents", "advantages", "complete", "legal"):
        getattr(other, name)[:] = getattr(one, name)
    other.size, other.carried = one.size, one.carried
    target.generator.set_state(source.generator.get_state())


def check_update(device: str) -> list[str]:
    """What differs between the updates on the CPU and on a device, from the same rollout."""
    here, there = learner("cpu"), learner(device)
    roll_out(here)
    hand_over(here, there)
    before, found = weights_of(here), []
    for model in (here, there):
        rows = model.rollout_buffer.trainable
        targets = model._targets(rows)
        losses = model.losses(th.from_numpy(rows).to(model.device), targets) / len(rows)
        model.train()
        found.append((losses.detach().cpu(), weights_of(model)))
    (losses, weights), (other_losses, other_weights) = found
    error = float((losses - other_losses).abs().max())
    drift = float((weights - other_weights).norm() / (weights - before).norm())
    print(
        f"  the same {len(here.rollout_buffer.trainable):,} decisions: losses differ by {error:.1e} at most, "
        f"weights by {drift:.2%} of the way that they went in an update"
    )
    wrong = []
    if not error < LOSS_TOLERANCE:
        wrong.append(f"losses differ by {error:.1e}: {losses.tolist()} and {other_losses.tolist()}")
    if not drift < DRIFT:
        wrong.append(f"weights differ by {drift:.1%} of the way that they went in an update")
    return wrong


def weights_of(model: SelfPlayPPO) -> th.Tensor:
    """All of them in one row, on the CPU."""
    return th.cat([parameter.detach().cpu().flatten() for parameter in model._parameters])


def check_that_updates_do_not_wait(device: str) -> list[str]:
    """Whether a step of the optimizer ever waits for the GPU, as every copy to or from pageable memory does."""
    model = learner(device)
    next(model.iterations(10**9))
    update = model._update

    def strictly(*arguments: object) -> th.Tensor:
        before = th.cuda.get_sync_debug_mode()
        th.cuda.set_sync_debug_mode("error")
        try:
            return update(*arguments)
        finally:
            th.cuda.set_sync_debug_mode(before)

    if device != "cpu":
        model._update = strictly
    try:
        model.train()
    except RuntimeError as error:
        return [f"an update waits for the GPU: {error}"]
    print("  no step of the optimizer waits for the GPU")
    return []


def check_copies(device: str) -> list[str]:
    """How many pieces of memory a rollout sends to the GPU and gets back."""
    model = learner(device)
    roll_out(model)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device != "cpu" else [])]
    with profile(activities=activities) as profiler:
        roll_out(model)
        if device != "cpu":
            th.cuda.synchronize()
    names = [event.name for event in profiler.events()]
    sent, back = (sum(name.startswith(f"Memcpy {way}") for name in names) for way in ("HtoD", "DtoH"))
    print(f"  a rollout of {STEPS} steps: {sent} copies to the GPU, {back} back")
    spare = 2  # random numbers and the numbers of the rows still open; values back
    return [f"a rollout makes {sent} copies to the GPU and {back} back"] * (max(sent, back) > STEPS + spare)


def bench(device: str, repeats: int, tables: int) -> None:
    """Thousands of steps a second."""
    precisions = ["float32", *(["bfloat16"] if has_fast_bfloat16(th.device(device)) else [])]
    for precision in precisions:
        for compiled in (False, True):
            model = learner(device, precision, tables, 64)
            if compiled:
                model.network = th.compile(model.network, dynamic=True)
            iterations = model.iterations(10**12)
            for _ in range(2):
                next(iterations)
            speeds = []
            for _ in range(repeats):
                start = time.perf_counter()
                next(iterations)
                speeds.append(64 * tables / (time.perf_counter() - start))
            show(f"{tables} tables, {precision}{', compiled' * compiled}", speeds, "k steps/s", 1e3)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check training on a GPU, and measure its speed.")
    parser.add_argument("--device", default="cuda", help="where to train")
    parser.add_argument("--tables", type=int, nargs="+", default=[1024, 8192], help="tables of the measurements")
    parser.add_argument("--repeats", type=int, default=5, help="how often each is measured; 0: only the checks")
    options = parser.parse_args()
    if options.device != "cpu" and not th.cuda.is_available():
        print("There is no GPU that torch can use here: nothing was checked.")
        return 0
    print_machine()
    print(f"torch {th.__version__}, {'CPU' if options.device == 'cpu' else th.cuda.get_device_name(options.device)}")
    print("\nChecks")
    wrong = [
        *check_update(options.device),
        *check_that_updates_do_not_wait(options.device),
        *check_copies(options.device),
    ]
    for line in wrong:
        print(f"  WRONG: {line}")
    if options.repeats:
        print("\nSpeed")
        for tables in options.tables:
            bench(options.device, options.repeats, tables)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
