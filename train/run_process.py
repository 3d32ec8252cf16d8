"""Training runs as parts of something larger: started, gone on with or taken as they are, each in its own process.

A process of its own, so that a run that crashes or is killed takes nothing else with it. While a run is trained, a lock
is held on a file beside its folder. The kernel lets go of it once nobody is left who trains, however that came
about, so that others can tell a run that is being trained from one that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fool_env.train.config import ConfigError, RunConfig, TrainConfig, load_run_config, parse_run_config
from fool_env.train.dmc import DmcRunConfig
from fool_env.train.run import EXIT_INTERRUPTED, check_opponents

METHODS: Final[dict[str, type[RunConfig]]] = {kind.method: kind for kind in (TrainConfig, DmcRunConfig)}
"""The configs of the methods that there are."""

POLL_SECONDS: Final = 0.5
"""Between two looks at a run that is being trained."""

_ELSEWHERE: Final = ("runs", "name", "device", "threads")  # how and where, not what


class RunError(Exception):
    """A run's process ended with an error; the message says how.

    Attributes:
        killed: by a signal, so that another try may go well.
    """

    def __init__(self, message: str, killed: bool) -> None:
        super().__init__(message)
        self.killed = killed


@dataclass(frozen=True)
class Run:
    """A training run.

    Attributes:
        arguments: of its method's script, to begin it.
        config: what they say.
    """

    arguments: tuple[str, ...]
    config: RunConfig

    @property
    def folder(self) -> Path:
        """Its folder."""
        return self.config.folder

    @property
    def final(self) -> Path:
        """The trained agent's checkpoint."""
        return self.folder / "final.zip"

    @property
    def lock(self) -> Path:
        """The file whose lock is held while the run is trained."""
        return lock_of(self.folder)

    def ladder(self) -> dict[str, Any]:
        """Its ladder.json; of a run that has not come so far, an empty one."""
        path = self.folder / "ladder.json"
        return json.loads(path.read_text()) if path.exists() else {"results": [], "history": []}

    @property
    def finished(self) -> bool:
        """Is it trained, and measured?"""
        return self.final.exists() and bool(self.ladder()["results"])


def lock_of(folder: Path) -> Path:
    """The file whose lock says that somebody is at work in a folder; it lies beside it."""
    return folder.with_name(f".{folder.name}.lock")


def plan_run(method: str, arguments: Sequence[str]) -> Run:
    """The run that arguments of a method's script describe.

    Raises:
        ConfigError: as `parse_run_config`; or its folder holds something else.
    """
    run = Run(tuple(arguments), parse_run_config(METHODS[method], arguments))
    check_opponents(run.config)
    if not run.folder.exists():
        return run
    if not (run.folder / "config.yaml").exists():
        raise ConfigError(f"{run.folder} exists and is not the folder of a run: choose another name")
    found = load_run_config(METHODS[method], run.folder / "config.yaml")
    other = first_difference(what_is_trained(found), what_is_trained(run.config))
    if other is not None:
        raise ConfigError(f"{run.folder} is a run of another config ({other}): choose another name")
    return run


def what_is_trained(config: RunConfig) -> dict[str, Any]:
    """The method, and a config without what says only where the run lies and what computes it."""
    values = {key: value for key, value in config.to_dict().items() if key not in _ELSEWHERE}
    return {"method": config.method, **values}


def first_difference(found: dict[str, Any], wanted: dict[str, Any], prefix: str = "") -> str | None:
    """The first key in which two nested dicts differ, in words; None if they are equal."""
    for key in {**wanted, **found}:
        theirs, ours = found.get(key), wanted.get(key)
        if isinstance(theirs, dict) and isinstance(ours, dict):
            inner = first_difference(theirs, ours, f"{prefix}{key}.")
            if inner is not None:
                return inner
        elif theirs != ours:
            return f"{prefix}{key}: {theirs}, not {ours}"
    return None


@contextlib.contextmanager
def held(path: Path, wait: bool = False) -> Iterator[int | None]:
    """Hold the lock on a file, made if it is missing; yields its descriptor, or None if another process holds it.

    A process that the descriptor is handed to holds the lock as well.

    Args:
        wait: until the other process lets go.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield None
        else:
            yield file.fileno()


def finish(run: Run, lock: int, stop: Callable[[], bool]) -> bool:
    """Train a run to its end, from wherever it stands.

    Args:
        lock: the descriptor of its lock, which the caller holds.
        stop: asked again and again meanwhile; once it says yes, the run saves and ends. It has to stay with that.

    Returns:
        Whether it came to its end; otherwise it was stopped.

    Raises:
        RunError: it ended otherwise.
        KeyboardInterrupt: on a second Ctrl-C, after the run has ended.
    """
    if run.finished:
        return True
    arguments: Sequence[str] = ["--resume", str(run.folder)] if run.folder.exists() else run.arguments
    code = train(run.config.script, arguments, lock, stop)
    if code == EXIT_INTERRUPTED and not stop():
        raise RunError(f"the training of {run.folder} was interrupted by somebody else", killed=True)
    if code not in (0, EXIT_INTERRUPTED):
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise RunError(f"the training of {run.folder} {how}", killed=code < 0)
    return code == 0


def train(script: str, arguments: Sequence[str], lock: int, stop: Callable[[], bool]) -> int:
    """Run a training script in a process of its own; returns its exit code."""
    command = [sys.executable, str(Path(__file__).with_name(Path(script).name)), *arguments]
    # In a session of its own, as it would take a terminal's Ctrl-C and the one that is passed on for two of them.
    with subprocess.Popen(command, pass_fds=[lock], start_new_session=True) as process:
        told = False
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(POLL_SECONDS)
                if not told and stop():
                    process.send_signal(signal.SIGINT)
                    told = True
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
