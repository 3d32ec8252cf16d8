"""Checkpoints: Stable-Baselines3's zip, what it is in words (`fool.json`), and all that a run needs to go on.

`MaskablePPO.load` opens one (and unpickles, as it always does: trust the author). `fool_env.agents.neural` and
`load_checkpoint` read JSON, arrays and tensors only.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np
import torch as th
from numpy.lib.npyio import NpzFile
from stable_baselines3.common.logger import Logger
from torch import nn

from fool_env.agents.neural import CHECKPOINT_FORMAT, DESCRIPTION_FILE, CheckpointError, read_description
from fool_env.observation import OBSERVATION_SIZE, OBSERVATION_VERSION
from fool_env.train.compute import Shards
from fool_env.train.config import RunConfig
from fool_env.train.distributed import Ranks
from fool_env.train.provenance import hardware, source_commit
from fool_env.train.stages import stage_at

STATE_FILE: Final = "state.npz"
_PACKAGES: Final = ("fool-env", "numpy", "numba", "torch", "stable-baselines3", "sb3-contrib")


class Learner(Protocol):
    """What a run trains, and a checkpoint holds: `SelfPlayPPO`, or what learns in another way."""

    num_timesteps: int
    """Plays so far, over all tables."""
    iteration: int
    """Iterations so far."""

    @property
    def policy(self) -> nn.Module:
        """The network, its parts named as in Stable-Baselines3."""

    @property
    def device(self) -> th.device:
        """Where the network lies."""

    @property
    def compute(self) -> Shards:
        """What computes."""

    @property
    def ranks(self) -> Ranks:
        """The processes that train it together."""

    @property
    def logger(self) -> Logger:
        """Where iterations are logged."""

    def set_logger(self, logger: Logger) -> None:
        """Log there."""

    def iterations(self, total_timesteps: int, *, reset_num_timesteps: bool) -> Iterator[int]:
        """Train for so many plays more, and yield each iteration's number once it is over."""

    def dump_logs(self, iteration: int) -> None:
        """Write the iteration's row to the logger."""

    def save(self, path: io.BytesIO) -> None:
        """Write a zip with the network's tensors (`policy.pth`) and the optimizer's."""

    def load_tensors(self, path: Path) -> None:
        """Read the tensors from such a zip, with `weights_only=True`; nothing is unpickled."""

    def run_state(self) -> dict[str, np.ndarray]:
        """What it needs to go on exactly, besides those tensors."""

    def load_run_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `run_state`."""


def save_checkpoint(path: Path, model: Learner, config: RunConfig, seconds: float) -> None:
    """Write a checkpoint between two iterations; the file appears whole or not at all. All ranks call it, one writes.

    Args:
        path: the zip to be written.
        model: the learner.
        config: of its run.
        seconds: that the run has taken so far.
    """
    states = model.ranks.gather(model.run_state())
    if not model.ranks.is_first:
        return
    buffer = io.BytesIO()
    model.save(buffer)
    arrays = io.BytesIO()
    size = len(states)
    state: dict[str, Any] = {"seconds": np.array(seconds)} | ({"ranks": np.array(size)} if size > 1 else {})
    for rank, of_rank in enumerate(states):
        state |= {f"{_prefix(rank, size)}{name}": array for name, array in of_rank.items()}
    np.savez_compressed(arrays, **state)
    with zipfile.ZipFile(buffer, "a") as archive:
        says = describe_run(config, model.num_timesteps) | {
            "steps_before": int(state.get("steps_before", 0)),
            "hardware": hardware() | {"device": _name(model.device)},
        }
        archive.writestr(DESCRIPTION_FILE, json.dumps(says, indent=2))
        archive.writestr(STATE_FILE, arrays.getvalue())
    write_whole(path, buffer.getvalue())


def describe_zip(path: Path, config: RunConfig, steps: int) -> None:
    """Let the zip of a stock algorithm be played as an agent: one whose policy is built on the config's network.

    Args:
        path: the zip, which gets a `fool.json`; it has no run to be resumed.
        config: says rules, network and seed.
        steps: that it was trained for.
    """
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(DESCRIPTION_FILE, json.dumps(describe_run(config, steps) | {"method": "stock"}, indent=2))


def load_checkpoint(path: Path, model: Learner) -> float:
    """Put a model of the same config exactly where the checkpoint was saved; returns the seconds the run had taken.

    Each rank reads its own state from the file.

    Raises:
        CheckpointError: the file is no checkpoint, or of another version, or of a run of more or fewer processes.
    """
    ranks = model.ranks
    ranks.lead(lambda: _check(path, ranks.size))  # so that one complains for all
    with _open_state(path) as file:
        seconds, prefix = float(file["seconds"]), _prefix(ranks.rank, ranks.size)
        state = {name.removeprefix(prefix): file[name] for name in file.files if name.startswith(prefix)}
    model.load_tensors(path)
    model.load_run_state(state)
    return seconds


def training_seconds(path: Path) -> float:
    """How long the run had taken when the checkpoint was saved.

    Raises:
        CheckpointError: the file is no checkpoint of a run.
    """
    read_description(path)
    try:
        with _open_state(path) as file:
            return float(file["seconds"])
    except CheckpointError:
        raise CheckpointError(f"{path} does not say how long its run took: it is not a run's own checkpoint") from None


def _check(path: Path, size: int) -> None:
    """Refuse what `load_checkpoint` cannot load, for as many processes."""
    read_description(path)
    with _open_state(path) as file:
        saved = int(file["ranks"]) if "ranks" in file.files else 1
    if saved != size:
        raise CheckpointError(
            f"{path} is of a run of {saved} process{'es' * (saved > 1)}, each with its own tables, and now there "
            f"{'are' if size > 1 else 'is'} {size}: go on with as many (torchrun: nproc-per-node times nnodes)"
        )


def _open_state(path: Path) -> NpzFile:
    try:
        with zipfile.ZipFile(path) as archive:
            return cast(NpzFile, np.load(io.BytesIO(archive.read(STATE_FILE)), allow_pickle=False))
    except KeyError:
        raise CheckpointError(f"{path} has no {STATE_FILE}: it can be played, but its run cannot be resumed") from None


def _prefix(rank: int, size: int) -> str:
    """What stands before the names of a rank's arrays; nothing for a process alone."""
    return f"rank{rank}/" if size > 1 else ""


def latest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint of most steps in a folder of checkpoints, None if there is none."""
    return max(folder.glob("*.zip"), default=None)


def checkpoint_name(steps: int) -> str:
    """The name of a checkpoint; names sort by steps."""
    return f"{steps:012d}.zip"


def describe_run(config: RunConfig, steps: int) -> dict[str, Any]:
    """What `fool.json` says."""
    return {
        "format": CHECKPOINT_FORMAT,
        "observation_version": OBSERVATION_VERSION,
        "observation_size": OBSERVATION_SIZE,
        "rules": [rules.to_dict() for rules in config.table.make_rules()],
        "method": config.method,
        "choice": config.choice,
        **stage_at(config, steps)._asdict(),
        "network": {**asdict(config.network), "activation": "relu"},
        "steps": steps,
        "seed": config.seed,
        "config": config.to_dict(),
        "commit": source_commit(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }


def _name(device: th.device) -> str:
    return th.cuda.get_device_name(device) if device.type == "cuda" else device.type


def remove_leftovers(folder: Path) -> None:
    """Remove the files that `write_whole` had not finished when a process died."""
    for path in folder.rglob(".*.tmp"):
        path.unlink()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that whoever looks, whenever the process dies, sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
