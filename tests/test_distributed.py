"""Several processes that train together: one run, of which the first writes, equal for equal seeds and numbers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from run_folders import assert_same_run, rows_without_times
from test_checkpoint import command

from fool_env.agents.neural import load_agent
from fool_env.train import ppo
from fool_env.train.checkpoint import load_checkpoint
from fool_env.train.config import load_config

RANKS = str(Path(__file__).with_name("ranks.py"))
SECONDS = 600  # the machine may have better things to do


def start(*arguments: str, size: int = 2) -> list[subprocess.Popen]:
    """Processes of tests/ranks.py that find each other by the variables that torchrun sets."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": "2"}
    return [
        subprocess.Popen(
            [sys.executable, RANKS, *arguments],
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def finish(processes: list[subprocess.Popen]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each, soon enough or not at all."""
    try:
        outputs = [process.communicate(timeout=SECONDS) for process in processes]
    finally:
        for process in processes:
            process.terminate()  # torchrun takes its processes with it
            process.wait()
    return [(process.returncode, *output) for process, output in zip(processes, outputs, strict=True)]


def torchrun(*arguments: str) -> None:
    """A run of train/ppo.py as the README starts it."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    process = subprocess.Popen(
        [*launcher, ppo.__file__, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    ((code, _, errors),) = finish([process])
    assert code == 0, errors


def tiny(folder: Path, *arguments: str) -> list[str]:
    """The run of test_checkpoint.py with half its tables in each of two processes, and all that has a state."""
    halves = ["--table.num_tables", "20", "--ppo.minibatch", "128"]
    stateful = ["--pool.share", "0.3", "--pool.every", "2000", "--ppo.average_kl", "0.05", "--network.critic", "full"]
    return command(folder, *halves, *stateful, *arguments)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run of two processes, never interrupted."""
    folder = tmp_path_factory.mktemp("finished")
    torchrun(*tiny(folder))
    return folder / "tiny"


def test_two_processes_leave_one_run(finished):
    names = {path.name for path in finished.iterdir()}
    assert names == {
        *("config.yaml", "progress.csv", "tensorboard", "train.log", "checkpoints"),
        *("ladder.json", "curves.png", "final.zip"),
    }
    assert len(list((finished / "tensorboard").iterdir())) == 1
    rows = rows_without_times(finished)
    assert [int(row["time/total_timesteps"]) for row in rows] == list(range(1000, 10001, 1000))
    checkpoints = sorted(int(path.stem) for path in (finished / "checkpoints").iterdir())
    assert checkpoints == [0, 2000, 4000, 6000, 8000, 10000]
    assert [entry["steps"] for entry in json.loads((finished / "ladder.json").read_text())["history"]] == [4000, 8000]
    assert "2 processes x 20 tables x 25 plays = 1,000 steps" in (finished / "train.log").read_text()
    assert load_agent(finished / "final.zip").rules[0].num_players == 4


def test_a_run_of_two_stopped_at_one_and_resumed_equals_one_that_was_not(finished, tmp_path):
    """SIGTERM reaches the second process alone; both end with the checkpoint written; then torchrun goes on."""
    processes = start("train", *tiny(tmp_path))
    run = tmp_path / "tiny"
    deadline = time.monotonic() + SECONDS
    while not ((run / "progress.csv").exists() and (run / "progress.csv").read_text().count("\n") > 2):
        assert processes[0].poll() is None and time.monotonic() < deadline, finish(processes)
        time.sleep(0.005)
    processes[1].send_signal(signal.SIGTERM)
    (first, output, errors), (second, silence, _) = finish(processes)
    assert (first, second) == (130, 130), errors
    assert "2 processes) train/ppo.py --resume" in output and not silence
    rows = rows_without_times(run)
    assert 2 <= len(rows) < 10
    assert (run / "checkpoints" / f"{1000 * len(rows):012d}.zip").exists()
    torchrun("--resume", str(run))
    for path in (run / "checkpoints").iterdir():
        if int(path.stem) % 2000:
            path.unlink()
    assert_same_run(finished, run)


def test_another_number_of_processes_is_refused_and_both_are_named(finished, tmp_path, capsys):
    assert ppo.main(["--resume", str(finished)]) == 2
    assert "of a run of 2 processes" in (message := capsys.readouterr().err) and "there is 1:" in message
    assert ppo.main(command(tmp_path, "--total_steps", "1000")) == 0
    (first, _, errors), (second, _, silence) = finish(start("train", "--resume", str(tmp_path / "tiny")))
    assert (first, second) == (2, 2)
    assert "of a run of 1 process," in errors and "there are 2:" in errors
    assert "error" not in silence


def test_a_process_that_dies_ends_the_other_with_a_message(tmp_path):
    (first, _, errors), (second, _, cause) = finish(start("crash", *tiny(tmp_path)))
    assert first == 1 and "fool-train: error: rank 0 lost the others" in errors and "Traceback" not in errors
    assert second == 1 and "MemoryError: planted" in cause
    resumable = load_config(tmp_path / "tiny" / "config.yaml")
    assert resumable.total_steps == 10_000
    with pytest.raises(Exception, match="of a run of 2 processes"):
        load_checkpoint(sorted((tmp_path / "tiny" / "checkpoints").iterdir())[-1], ppo.make_model(resumable))


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, dict]:
    """What tests/ranks.py finds out with two processes."""
    path, names = tmp_path_factory.mktemp("found") / "found.json", ("first_update", "weights", "arms")
    for code, _, errors in finish(start(str(path), *names)):
        assert code == 0, errors
    return dict(zip(names, json.loads(path.read_text()), strict=True))


def test_two_processes_take_the_step_of_one_on_the_same_decisions(found):
    """Of 9 and 5 tables, so a mean of the two processes' means would be another step."""
    ranks, alone = found["first_update"]["ranks"], found["first_update"]["alone"]
    gradients = np.array(alone["gradients"])
    assert np.abs(gradients).max() > 0.01
    np.testing.assert_allclose(ranks["gradients"], gradients, rtol=1e-4, atol=1e-6)
    logs = ranks["log"], alone["log"]
    assert logs[0].keys() == logs[1].keys() and "train/explained_variance" in logs[0]
    for key, value in logs[1].items():
        assert logs[0][key] == pytest.approx(value, rel=1e-4, abs=1e-5), key


def test_weights_are_the_same_at_every_rank(found):
    """Seeds and numbers of decisions differ, and one rank has none at all at first."""
    uneven, starved = found["weights"]["found"]
    assert all(first > 2 * second > 0 for first, second in uneven["counts"])
    assert any(first > 0 and second == 0 for first, second in starved["counts"])
    for case in (uneven, starved):
        first, second = case["weights"]
        assert np.isfinite(first).all() and first == second
        assert case["updates"] > 4


@pytest.mark.parametrize("key", ["train/entropy", "train/value_loss", "rollout/decisions", "spread of advantages"])
def test_two_processes_agree_in_distribution_with_one_of_twice_the_tables(found, key):
    ranks, alone = (np.array([row[key] for row in found["arms"][arm]]) for arm in ("ranks", "alone"))
    assert len(ranks) == len(alone) == 12 and min(len(set(ranks)), len(set(alone))) > 6  # each seed has its own luck
    error = np.sqrt((ranks.var(ddof=1) + alone.var(ddof=1)) / len(ranks))
    assert abs(ranks.mean() - alone.mean()) < 3.5 * error
    assert 3.5 * error < 0.4 * abs(alone.mean())  # so that a factor of 2 would show
