"""Play in fixed batches, in the order of the deals: batches can be kept in a file, and play can stop early.

What is played does not depend on the batches, and whether to stop is asked after each of them in order. So neither
the number of processes nor an interruption changes a result.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

import numpy as np

from fool_env.rules import Rules

from .agent import AnyAgent
from .shipped import shipped_within
from .workers import Batch, Job, Workers

BATCH_DEALS: Final = 25
"""Deals for one batch. With search agents that is some seconds, and scripted ones lose a tenth of their speed by it."""

BATCH_GAMES: Final = 5
"""Full games for one batch: as long as the deals', more or less."""

_FORMAT: Final = 1
_CHECKPOINT: Final = re.compile(r"[^=,]*\.zip")


def run_batches(
    job: Job,
    total: int,
    batch_size: int,
    *,
    workers: Workers | None = None,
    store: BatchFile | None = None,
    name: str = "",
    enough: Callable[[Sequence[Batch]], bool] | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Batch]:
    """Play a job's deals, from the first on.

    Args:
        total: how many deals at most.
        batch_size: deals for each batch, fewer in the last one.
        workers: who plays; this process, if None.
        store: batches that it holds are not played again, and those that are played go there, in order.
        name: the job's in the store, where each has its own.
        enough: given all batches so far, after each: play no more? If None, all deals are played.
        progress: called with how many deals are played, in fractions.

    Returns:
        The batches in order.

    Raises:
        OSError: the store cannot be written, or a worker process died.
        Exception: whatever the job raises.
    """
    parts = [(first, min(batch_size, total - first)) for first in range(0, total, batch_size)]
    known = [None if store is None else store.batch(name, *part) for part in parts]
    missing = [part for part, batch in zip(parts, known, strict=True) if batch is None]
    sizes = np.array([count for _, count in missing])
    done = np.zeros(len(missing))
    done_before = total - int(sizes.sum())

    def show(number: int, share: float) -> None:
        done[number] = share
        if progress is not None:
            progress(done_before + float(done @ sizes))

    batches: list[Batch] = []
    who = Workers() if workers is None else workers
    with contextlib.closing(who.play(job, missing, show)) as played:
        for batch in known:
            if batch is None:
                batch = next(played)
                if store is not None:
                    store.append(name, batch)
            batches.append(batch)
            if enough is not None and enough(batches):
                break
    return batches


def describe_task(agents: Iterable[AnyAgent], rules: Rules, seed: int, **more: Any) -> dict[str, Any]:
    """What a file of batches is about, for its first line.

    Args:
        agents: all of them; the files of trained ones are known by their SHA-256.
        more: whatever else decides about results, as JSON has it.

    Raises:
        OSError: a trained agent's file cannot be read.
    """
    return {
        "format": _FORMAT,
        "fool_env": importlib.metadata.version("fool-env"),
        "agents": {agent.name: _describe(agent) for agent in agents},
        "rules": rules.to_dict(),
        "seed": seed,
        **more,
    }


def _describe(agent: AnyAgent) -> dict[str, Any]:
    """What the name alone does not say: how the agent chooses, and the content of the checkpoints in its name."""
    digests = checkpoint_digests(agent.name)
    return {"deterministic": True, **digests} if getattr(agent, "deterministic", False) else digests


def checkpoint_files(spec: str) -> dict[str, Path]:
    """The files of the trained agents that a `make_agent` string names, by what they are called there."""
    paths = {path: Path(path) for path in sorted({spec, *_CHECKPOINT.findall(spec)}) if Path(path).is_file()}
    return {**paths, **shipped_within(spec)}


def checkpoint_digests(spec: str) -> dict[str, str]:
    """The SHA-256 of these files.

    Raises:
        OSError: a file cannot be read.
    """
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in checkpoint_files(spec).items()}


class BatchFile:
    """Finished batches as JSON lines: the task, then a batch a line, each written as soon as it is there.

    A last line that an interruption tore is dropped. One process at a time writes to a file. A context manager.

    Args:
        path: the file, made if it is missing; None keeps no batches, only transcripts.
        task: what `describe_task` says.
        transcripts: a file for the batches' transcripts. It is written anew, unless the other file has batches: then
            it goes on from the last of these.

    Raises:
        ValueError: the file is of another task, and the message says what differs; or it is no such file; or the
            transcripts of its batches are missing.
        OSError: a file cannot be read or written.
    """

    def __init__(self, path: str | Path | None, task: dict[str, Any], transcripts: str | Path | None = None) -> None:
        self._batches: dict[tuple[str, int, int], Batch] = {}
        self._told: int | None = 0  # bytes of transcripts that belong to the batches
        header = _line(task)
        content = Path(path).read_bytes() if path is not None and Path(path).exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if not whole and not header.startswith(content):
            raise ValueError(f"{path} is no file of results; choose another name")
        if whole:
            self._read(str(path), whole.splitlines(), json.loads(header))
        self._transcripts = None if transcripts is None else self._open_transcripts(Path(transcripts), path)
        self._file = None if path is None else open(path, "ab")  # noqa: SIM115  (closed in __exit__)
        if self._file is not None:
            self._file.truncate(len(whole))
        if not whole:
            self._write(header)

    def __enter__(self) -> BatchFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._file, self._transcripts):
            if file is not None:
                file.close()

    @property
    def wants_transcripts(self) -> bool:
        """Are batches to bring their transcripts?"""
        return self._transcripts is not None

    def batch(self, name: str, first: int, count: int) -> Batch | None:
        """The batch of just these deals, if the file has it."""
        return self._batches.get((name, first, count))

    def append(self, name: str, batch: Batch) -> None:
        """Add a finished batch.

        Raises:
            OSError: a file cannot be written.
        """
        results = {key: values.tolist() for key, values in batch.results.items()}
        line = {"job": name, "first": batch.first, "count": batch.count, "results": results}
        if self._transcripts is not None:
            self._transcripts.write(batch.transcripts.encode())
            self._transcripts.flush()
            line["transcripts"] = self._transcripts.tell()
        self._write(_line({**line, "cpu_seconds": batch.cpu_seconds.round(6).tolist()}))
        self._batches[name, batch.first, batch.count] = replace(batch, transcripts="")

    def _write(self, line: bytes) -> None:
        if self._file is not None:
            self._file.write(line)
            self._file.flush()

    def _open_transcripts(self, path: Path, results: str | Path | None) -> BinaryIO:
        size = path.stat().st_size if self._told and path.exists() else 0
        if self._told is None or size < self._told:
            raise ValueError(f"{path} lacks games whose results are in {results}; let the results go to another file")
        file = path.open("ab")
        file.truncate(self._told)
        file.seek(self._told)
        return file

    def _read(self, path: str, lines: list[bytes], task: dict[str, Any]) -> None:
        _check_task(path, _parsed(path, 1, lines[0]), task)
        for number, line in enumerate(lines[1:], start=2):
            says = _parsed(path, number, line)
            try:
                results = {key: np.array(values, np.int64) for key, values in says["results"].items()}
                batch = Batch(says["first"], says["count"], results, np.array(says["cpu_seconds"], np.float64))
                self._batches[says["job"], batch.first, batch.count] = batch
                self._told = says.get("transcripts")
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}: it is no batch of results ({error!r})") from None


def _parsed(path: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        says = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: it is not JSON ({error})") from None
    if not isinstance(says, dict):
        raise ValueError(f"{path}, line {number}: it is no JSON object")
    return says


def _check_task(path: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse another task's file, naming the first thing that differs."""
    if "format" not in found:
        raise ValueError(f"{path} is no file of results; choose another name")
    names: list[str] = []
    theirs: Any = found
    ours: Any = wanted
    while isinstance(theirs, dict) and isinstance(ours, dict):
        name = next((name for name in {**ours, **theirs} if theirs.get(name) != ours.get(name)), None)
        if name is None:
            return
        names.append(name)
        theirs, ours = theirs.get(name), ours.get(name)
    raise ValueError(
        f"{path} holds results of another task ({' of '.join(reversed(names))}: {theirs}, not {ours}); "
        "choose another name"
    )


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"
