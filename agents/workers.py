"""Worker processes for play that comes in batches: the batches come back in order, however many workers there are.

The processes are spawned, as on every system, so a script that uses them keeps what it does under
`if __name__ == "__main__":`. They end when they are told to, and when the process that started them is no more.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection as pipes
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from .tables import TableProgress

_REPORT_SECONDS: Final = 0.1


@dataclass(frozen=True, eq=False)
class Batch:
    """What came out of some deals in a row.

    Attributes:
        first: number of the first deal.
        count: how many deals.
        results: whole numbers by name, int64 of any shapes: what statistics are made of.
        cpu_seconds: CPU time in each agent's choices, float64 (agents,); varies, and is no result.
        transcripts: what was played, as `fool_env.transcript` writes it, where it is wanted.
    """

    first: int
    count: int
    results: dict[str, np.ndarray]
    cpu_seconds: np.ndarray
    transcripts: str = ""


class Job(Protocol):
    """Something to play. For worker processes it is pickled, so it names its agents and makes them where it plays."""

    def play(self, first: int, count: int, progress: TableProgress | None = None) -> Batch:
        """Play deals number `first` to `first + count - 1`, the same whoever asks, whenever, in whatever batches."""


Parts: TypeAlias = Sequence[tuple[int, int]]
"""First deal and number of deals of each batch."""


@dataclass
class _Failure:
    """What a job raised in a worker process, and where."""

    error: Exception
    where: str


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Any  # pipes.Connection, on Windows another class
    task: tuple[int, int] | None = None  # the run and the number of the batch that it is at


class Workers:
    """Plays jobs batch by batch, in this process or in others that it starts when they are needed; a context manager.

    Args:
        count: 1 plays in this process.

    Raises:
        ValueError: fewer than one.
    """

    def __init__(self, count: int = 1) -> None:
        if count < 1:
            raise ValueError(f"workers: {count} (1 or more)")
        self.count = count
        self._workers: list[_Worker] = []
        self._runs = 0

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.process.terminate()
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join()
        self._workers.clear()

    def play(
        self, job: Job, parts: Parts, progress: Callable[[int, float], None] | None = None
    ) -> Generator[Batch, None, None]:
        """Play parts of a job; closing the iterator drops what is not finished.

        Args:
            progress: called with a part's number and the share of it that is played, 0 to 1.

        Yields:
            Each part's batch, in order.

        Raises:
            ChildProcessError: a worker process died.
            Exception: whatever the job raises, where its turn has come.
        """
        if self.count > 1:
            yield from self._play_elsewhere(job, parts, progress)
            return
        for number, (first, count) in enumerate(parts):
            report = None if progress is None else lambda share, number=number: progress(number, share)
            yield job.play(first, count, report)

    def _play_elsewhere(
        self, job: Job, parts: Parts, progress: Callable[[int, float], None] | None
    ) -> Generator[Batch, None, None]:
        pickled = pickle.dumps(job)
        self._runs += 1
        tasks = ((number, (pickled, *part)) for number, part in enumerate(parts))
        finished: dict[int, Batch | _Failure] = {}
        try:
            for number in range(len(parts)):
                while number not in finished:
                    self._hand_out(tasks)
                    for part, answer in self._answers():
                        if not isinstance(answer, float):
                            finished[part] = answer
                        if progress is not None:
                            progress(part, answer if isinstance(answer, float) else 1.0)
                answer = finished.pop(number)
                if isinstance(answer, _Failure):
                    raise answer.error from RuntimeError(f"in a worker process:\n{answer.where}")
                yield answer
        finally:
            self._drop()

    def _hand_out(self, tasks: Iterator[tuple[int, Any]]) -> None:
        """Give everybody who is free something to do; more processes are started only for more tasks."""
        while any(worker.task is None for worker in self._workers) or len(self._workers) < self.count:
            if (task := next(tasks, None)) is None:
                return
            worker = next((worker for worker in self._workers if worker.task is None), None) or self._start()
            number, work = task
            worker.task = self._runs, number
            self._send(worker, (worker.task, work))

    def _answers(self) -> Iterator[tuple[int, Any]]:
        """Wait for something from the workers: the shares, batches and failures of this run's parts."""
        for pipe in pipes.wait([worker.pipe for worker in self._workers]):
            worker = next(worker for worker in self._workers if worker.pipe is pipe)
            try:
                (run, part), answer = worker.pipe.recv()
            except (EOFError, OSError):
                raise self._death(worker) from None
            if not isinstance(answer, float):
                worker.task = None
            if run == self._runs:
                yield part, answer

    def _drop(self) -> None:
        """Let whoever is still busy stop."""
        for worker in self._workers:
            if worker.task is not None:
                with contextlib.suppress(OSError):  # it is dead, and who needs it next will be told
                    worker.pipe.send(None)

    def _send(self, worker: _Worker, message: object) -> None:
        try:
            worker.pipe.send(message)
        except OSError:
            raise self._death(worker) from None

    def _death(self, worker: _Worker) -> ChildProcessError:
        worker.process.join()
        return ChildProcessError(
            f"a worker process ended with exit code {worker.process.exitcode}: is there memory for {self.count}? and "
            'does the script keep what it does under `if __name__ == "__main__":`?'
        )

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _uninterrupted():
            process.start()
        theirs.close()  # so that a worker's death is the end of the pipe
        worker = _Worker(process, pipe)
        self._workers.append(worker)
        return worker


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: a process that is started meanwhile never hears of it, even while it imports."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # or else the first start starts it, and lifts the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in the worker process


class _Dropped(Exception):  # noqa: N818  (no error: somebody lost interest)
    pass


def _serve(pipe: Any) -> None:
    """Play one part after another, until the other end closes; a new message ends the part in hand."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    os.environ["OMP_NUM_THREADS"] = "1"  # for torch, should an agent need it: the other cores have workers of their own
    if "torch" in sys.modules:  # imported with the script
        sys.modules["torch"].set_num_threads(1)
    job: Job | None = None
    known = b""
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = pipe.recv()
            if message is None:
                continue
            ticket, (pickled, first, count) = message
            try:
                if job is None or pickled != known:  # or else it goes on with the agents that it has made
                    job, known = pickle.loads(pickled), pickled
                answer: Any = job.play(first, count, _Report(pipe, ticket))
            except _Dropped:
                answer = None
            except Exception as error:
                answer = _failure(error)
            pipe.send((ticket, answer))


class _Report:
    """Tells the other end how far a part is, and listens whether it is still wanted; at times only, as both cost."""

    def __init__(self, pipe: Any, ticket: object) -> None:
        self._pipe = pipe
        self._ticket = ticket
        self._next = time.monotonic() + _REPORT_SECONDS

    def __call__(self, share: float) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _REPORT_SECONDS
        if self._pipe.poll():
            raise _Dropped
        self._pipe.send((self._ticket, float(share)))


def _failure(error: Exception) -> _Failure:
    where = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class does when it is pickled
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return _Failure(error, where)
