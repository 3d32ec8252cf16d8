"""Evaluations that are interrupted, by Ctrl-C or for good: nothing is lost, nobody left, and the rest the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fool_env.train import evaluate as script

SCRIPT = Path(__file__).resolve().parents[1] / "train" / "evaluate.py"

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="Ctrl-C for a group of processes is POSIX's")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = script.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def begin(path: Path, workers: int, lines: int) -> subprocess.Popen[str]:
    """A long evaluation in a process group of its own, whose file has some lines."""
    command = [sys.executable, SCRIPT, "--agent", "cautious", "--players", "8", "--opponents", "random", "highest"]
    command += ["--deals", "100000", "--workers", str(workers), "--results", path]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    end = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    return process


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Interrupt all that run in the terminal, and once more if nothing comes of it; returns what was printed.

    Python drops an interrupt that falls into a callback of LLVM's, and says so on stderr: while something compiles.
    """
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
        try:
            return process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    raise AssertionError(f"it does not end: {process.communicate()}")


@pytest.mark.parametrize(("workers", "lines"), [(1, 4), (2, 4), (2, 1)])
def test_ctrl_c_in_a_terminal_and_on_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, workers: int, lines: int
) -> None:
    """Ctrl-C reaches the workers too, as they are of the same process group; with one line they are just starting."""
    path = tmp_path / "results.jsonl"
    process = begin(path, workers, lines)
    out, err = press_ctrl_c(process)
    assert (process.returncode, out) == (130, "")
    says = f"interrupted: 0 of 2 tables finished; the same command goes on from {path}\n"
    assert err == says or (lines == 1 and err.endswith((says, "interrupted\n")))
    wait_for_the_end(process.pid)
    assert_goes_on(capsys, path)


def test_a_killed_run_leaves_no_worker_and_goes_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    process = begin(path, 2, 4)
    process.kill()
    process.communicate()
    wait_for_the_end(process.pid)
    assert_goes_on(capsys, path)


def wait_for_the_end(group: int) -> None:
    """Of the last process of a group."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("a worker goes on")


def assert_goes_on(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    """Fewer deals from the file are what they are without it, and some of them were there."""
    before = path.read_bytes()
    arguments = ["--agent", "cautious", "--players", 8, "--opponents", "random", "highest", "--deals", 100]
    assert run(capsys, *arguments, "--results", path) == run(capsys, *arguments)
    assert path.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert path.read_bytes().count(b'"first":0,') == 2, "the first batch of each table, once"
