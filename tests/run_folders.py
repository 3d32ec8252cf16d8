"""Runs and checkpoints, compared in all that is not a time."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import torch as th

TIMES = ("time/fps",)


def rows_without_times(run: Path) -> list[dict[str, str]]:
    with (run / "progress.csv").open(newline="") as file:
        return [{key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)]


def contents(path: Path) -> dict[str, object]:
    """All of a checkpoint that is not a time: tensors, arrays, description."""
    found: dict[str, object] = {}
    with zipfile.ZipFile(path) as archive:
        for name in ("policy.pth", "policy.optimizer.pth"):
            found[name] = th.load(io.BytesIO(archive.read(name)), weights_only=True)
        found |= dict(np.load(io.BytesIO(archive.read("state.npz")), allow_pickle=False))
        found["fool.json"] = json.loads(archive.read("fool.json"))
    del found["seconds"]
    return found


def assert_same(one: object, other: object) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, th.Tensor):
        assert th.equal(one, other)
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def assert_same_run(one: Path, other: Path) -> None:
    assert rows_without_times(one) == rows_without_times(other)
    assert sorted(path.name for path in (one / "checkpoints").iterdir()) == sorted(
        path.name for path in (other / "checkpoints").iterdir()
    )
    checkpoints = [contents(run / "final.zip") for run in (one, other)]
    for checkpoint in checkpoints:
        del checkpoint["fool.json"]["config"], checkpoint["fool.json"]["commit"]
    assert_same(*checkpoints)
    ladders = [json.loads((run / "ladder.json").read_text()) for run in (one, other)]
    for ladder in ladders:
        del ladder["agent"], ladder["commit"]
        for result in ladder["results"]:  # the run's own path again
            del result["candidate"]
    assert ladders[0] == ladders[1]
