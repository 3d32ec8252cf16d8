"""What computes: precision, cores, and batches cut into shards for threads."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import Any, TypeVar

import torch as th

Result = TypeVar("Result")

PRECISIONS = ("auto", "float32", "bfloat16")


def has_fast_bfloat16(device: th.device) -> bool:
    """Whether matrices multiply faster in bfloat16: on GPUs that know it, and on CPUs with AMX.

    AVX-512's bfloat16 instructions without AMX are half as fast as float32's (measured).
    """
    if device.type == "cuda":
        return th.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and has_amx()


def has_amx() -> bool:
    """Whether the CPU multiplies matrices of bfloat16 in hardware, as far as torch can tell (older ones cannot)."""
    return hasattr(th.cpu, "get_capabilities") and th.cpu.get_capabilities().get("amx_bf16") is True


def available_cores() -> int:
    """Cores that this process may use, by its affinity and, in a container, by the quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
    except OSError:
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for each operation of this thread's, whatever the machine has, so that results do not depend on it."""
    threads = th.get_num_threads()
    th.set_num_threads(1)
    try:
        yield
    finally:
        th.set_num_threads(threads)


class Shards:
    """Computes the parts of a batch, each in one thread, and keeps their order.

    Threads within an operation would wait for each other at every operation: on two cores, two shards take 55% of the
    time of one, two threads on one shard 65%, and much more beside a busy neighbour. And the cut is the same for any
    number of threads, so results are too, bit by bit. A GPU computes the batch in one part.

    Args:
        parts: the number of parts.
        threads: the number of threads, None for as many as there are cores.
        device: where the tensors lie.
        precision: "float32", "bfloat16" (autocast) or "auto": the faster one.
    """

    def __init__(self, parts: int, threads: int | None, device: th.device, precision: str) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision: {precision!r} is none of {', '.join(PRECISIONS)}")
        self.device = device
        self.bfloat16 = precision == "bfloat16" or (precision == "auto" and has_fast_bfloat16(device))
        self.parts = parts if device.type == "cpu" else 1
        self.threads = min(self.parts, available_cores() if threads is None else threads)
        # Threads even if one is enough: theirs is the setting of one thread for each operation, not the process's.
        self._pool = ThreadPoolExecutor(self.threads, "shard", lambda: th.set_num_threads(1))

    def autocast(self) -> AbstractContextManager[None]:
        """The precision, for the network's passes; its cache would be shared between threads, so it is off."""
        return th.autocast(self.device.type, th.bfloat16, cache_enabled=False) if self.bfloat16 else nullcontext()

    def slices(self, rows: slice) -> list[slice]:
        """A range of rows in `parts` pieces, which are equal but for one row."""
        count = rows.stop - rows.start
        bounds = [rows.start + count * part // self.parts for part in range(self.parts + 1)]
        return [slice(start, stop) for start, stop in pairwise(bounds) if stop > start]

    def map(self, function: Callable[..., Result], *arguments: Iterable[Any]) -> list[Result]:
        """`function` of each part, in the order of the parts."""
        if self.device.type != "cpu":
            return list(map(function, *arguments))
        return list(self._pool.map(function, *arguments))

    def sums(self, function: Callable[[th.Tensor], Sequence[th.Tensor]], batch: th.Tensor) -> list[th.Tensor]:
        """What `function` gives for each part of a batch, summed over the parts in their order."""
        parts = self.map(function, batch.tensor_split(self.parts))
        return self.alone(lambda: [functools.reduce(th.Tensor.add_, each) for each in zip(*parts, strict=True)])

    def alone(self, function: Callable[[], Result]) -> Result:
        """`function` in one thread, for operations too small to be worth several."""
        return self.map(lambda _: function(), (None,))[0]
