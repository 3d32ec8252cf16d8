"""Ranks: the processes, on one machine or many, that train one network together.

    torchrun --nproc-per-node=4 --nnodes=2 --rdzv-endpoint=HOST:29500 train/ppo.py --config configs/6p.yaml

Each has its own tables and luck. Their gradients are summed at every step of the optimizer, so that the weights stay
the same everywhere, bit by bit; the first of them logs, evaluates and writes. A process alone has nobody to talk to,
and every method gives back what it was given.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import numpy as np
import torch as th
import torch.distributed as dist

# Its functions take whatever group there is as a default, and keep it: imported by an optimizer, after the processes
# have met, they would keep its threads past the end of Python, whose last steps they can turn into a crash.
import torch.distributed.nn

from fool_env.rng import derive

Result = TypeVar("Result")

# For as long the others wait for the first, which evaluates. A process that dies closes its connections, which ends
# them at once, and torchrun ends those that wait on a GPU.
_PATIENCE: Final = timedelta(hours=12)
_BAD_INPUT: Final = 2
RANKS: Final = 4  # beside the arena's purposes of deals and the pool's, so that no luck is used twice


class RanksError(RuntimeError):
    """The processes cannot work together (any more); the message says which noticed and why."""


class Ranks:
    """This process among those that train together; without arguments, one that trains alone.

    Args:
        rank: its number, 0 for the first.
        size: how many there are.
        local_rank, local_size: the same among those of this machine.
    """

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0, local_size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.local_rank, self.local_size = local_rank, local_size

    @classmethod
    def join(cls) -> Ranks:
        """Meet the other processes, as torchrun's environment variables have it; without them, stay alone.

        Who has met them already is told the same again.

        Raises:
            RanksError: they were not to be met.
        """
        if int(os.environ.get("WORLD_SIZE", 1)) == 1:
            return cls()
        with _talking(f"rank {os.environ.get('RANK', '?')} does not find the others"):
            # A tensor goes by the backend of its device; whatever is no gradient lies on the CPU.
            backend = "cpu:gloo,cuda:nccl" if th.cuda.is_available() else "gloo"
            if not dist.is_initialized():
                dist.init_process_group(backend, timeout=_PATIENCE)
        local_rank, local_size = (int(os.environ.get(f"LOCAL_{name}", 0)) for name in ("RANK", "WORLD_SIZE"))
        return cls(dist.get_rank(), dist.get_world_size(), local_rank, max(local_size, 1))

    def leave(self) -> None:
        """Wait until all are done, and part."""
        if self.size > 1:
            self.any(False)
            dist.destroy_process_group()

    @staticmethod
    def hang_up() -> None:
        """Part without waiting for anybody, if that has not been done: at the end of a process that something stopped.

        Not where there are GPUs: theirs would wait for an answer.
        """
        if dist.is_available() and dist.is_initialized() and not th.cuda.is_available():
            dist.destroy_process_group()

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that logs, evaluates and writes."""
        return self.rank == 0

    def seed(self, seed: int) -> int:
        """A seed of this rank's own; alone, the seed itself."""
        return seed if self.size == 1 else int(derive(np.uint64(derive(np.uint64(seed), RANKS)), self.rank))

    def device(self, name: str) -> str:
        """The device that a config names, each process of a machine on its own GPU.

        Raises:
            RanksError: there are fewer GPUs than processes.
        """
        if self.size == 1 or name == "cpu" or not th.cuda.is_available():
            return name
        if self.local_rank >= th.cuda.device_count():
            raise RanksError(
                f"rank {self.rank} is number {self.local_rank + 1} on its machine, which has "
                f"{th.cuda.device_count()} GPUs: start one process for each GPU"
            )
        th.cuda.set_device(self.local_rank)
        return f"cuda:{self.local_rank}"

    def sum_(self, tensors: Sequence[th.Tensor]) -> None:
        """Replace float32 tensors on one device by their sums over all ranks; all in one message."""
        if self.size == 1:
            return
        flat = th.cat([tensor.reshape(-1) for tensor in tensors])
        self._all_reduce(flat)
        for tensor, total in zip(tensors, th.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))

    def broadcast_(self, tensors: Sequence[th.Tensor]) -> None:
        """Replace tensors by those of the first."""
        if self.size == 1:
            return
        with _talking(f"rank {self.rank} lost the others"):
            for tensor in tensors:
                dist.broadcast(tensor.detach(), 0)

    def totals(self, numbers: Any) -> np.ndarray:
        """Sums of numbers, an array or a list, over all ranks: float64."""
        totals = th.tensor(np.asarray(numbers, np.float64))
        self._all_reduce(totals)
        return totals.numpy()

    def any(self, flag: bool) -> bool:
        """Whether it holds for any rank."""
        return bool(self.totals([flag])[0])

    def minibatches(self, rows: int, largest: int) -> list[int]:
        """How many rows, over all ranks, each minibatch has, if this rank has so many, and none is to have more.

        As many minibatches at every rank, which `tensor_split` makes equally large but for one row.
        """
        counts = self.totals([rows * (rank == self.rank) for rank in range(self.size)]).astype(int)
        number = -(-int(counts.max()) // largest)
        return [int((counts // number + (batch < counts % number)).sum()) for batch in range(number)]

    def moments(
        self, values: np.ndarray, groups: np.ndarray | None = None, num_groups: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation over all ranks' values, or over each group of them.

        Args:
            values: float32 (k,).
            groups: int64 (k,), the number of each one's group.
            num_groups: how many groups there are.

        Returns:
            float64 (num_groups,) twice; 0 for a group without values.
        """
        groups = np.zeros(len(values), np.int64) if groups is None else groups
        counts, sums = self.totals(
            [np.bincount(groups, minlength=num_groups), np.bincount(groups, values, minlength=num_groups)]
        )
        means = sums / np.maximum(counts, 1)
        squares = self.totals(np.bincount(groups, np.square(values - means[groups]), minlength=num_groups))
        return means, np.sqrt(squares / np.maximum(counts, 1))

    def gather(self, thing: Result) -> list[Result]:
        """What each rank has, in their order, at the first; an empty list elsewhere."""
        if self.size == 1:
            return [thing]
        gathered: list[Any] = [None] * self.size if self.is_first else []
        with _talking(f"rank {self.rank} lost the others"):
            dist.gather_object(thing, gathered if self.is_first else None)
        return gathered

    def lead(self, function: Callable[[], Result]) -> Result:
        """What `function` gives at the first, which alone calls it, everywhere; if it raises there, all others end."""
        if self.size == 1:
            return function()
        message: list[Any] = [_BAD_INPUT]
        try:
            if self.is_first:
                message = [(function(),)]
        except SystemExit as end:  # after --help
            message = [end.code or 0]
            raise
        finally:
            with _talking(f"rank {self.rank} lost the others"):
                dist.broadcast_object_list(message)
        if not isinstance(message[0], tuple):
            sys.exit(message[0])
        return message[0][0]

    def _all_reduce(self, tensor: th.Tensor) -> None:
        if self.size > 1:
            with _talking(f"rank {self.rank} lost the others"):
                dist.all_reduce(tensor)


@contextmanager
def _talking(complaint: str) -> Iterator[None]:
    """Whatever goes wrong between processes, in one line."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise RanksError(f"{complaint}: {str(error).splitlines()[0]}") from error
