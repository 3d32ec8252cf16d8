"""A run that is killed at any moment goes on to the very end that it would have come to."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import shutil
import signal
import time
import zipfile
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from run_folders import assert_same_run

from fool_env.train import ppo

# All that a run has to remember: totals of games, tables of two sizes, opponents, an average policy, hands.
TINY = """
name: tiny
total_steps: 2000
checkpoint_every: 400
table: {num_players: [4, 5], num_tables: 8, episode: game, reward: win, rounds_first: 900}
network: {kind: facts, hidden: [8], critic: full}
ppo: {steps: 25, minibatch: 256, average_kl: 0.1}
pool: {share: 0.5, every: 400, size: 2, members: [cautious]}
evaluation: {opponents: [highest], every: 800, deals: 3, final_deals: 4, final_games: 0}
"""
PATIENCE = 120  # seconds


def command(folder: Path) -> list[str]:
    (folder / "tiny.yaml").write_text(TINY)
    return ["--config", str(folder / "tiny.yaml"), "--runs", str(folder)]


def die_in_write(number: int, arguments: list[str]) -> None:
    """Train, and die in the middle of writing a file."""
    replace, writes = os.replace, itertools.count()

    def half(source: Path, target: Path) -> None:
        if next(writes) == number:
            os.truncate(source, os.path.getsize(source) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = half
    ppo.main(arguments)


@pytest.fixture(scope="module")
def context() -> multiprocessing.context.ForkServerContext:
    """Processes that begin with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fool_env.train.ppo", "test_killed"])
    return context


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The run that nobody killed."""
    folder = tmp_path_factory.mktemp("finished")
    assert ppo.main(command(folder)) == 0
    return folder / "tiny"


def wait(process: BaseProcess, condition) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.is_alive() and not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def rows(run: Path) -> int:
    progress = run / "progress.csv"
    return progress.read_text().count("\n") if progress.exists() else 0


def assert_same_end(finished: Path, run: Path) -> None:
    assert_same_run(finished, run)
    policies = [zipfile.ZipFile(each / "final.zip").read("policy.pth") for each in (finished, run)]
    assert policies[0] == policies[1]
    assert not list(run.parent.rglob(".*"))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_killed_at_random_moments_comes_to_the_same_end(context, finished, tmp_path, seed):
    rng, run, kills = random.Random(seed), tmp_path / "tiny", 0
    arguments = command(tmp_path)
    while True:
        process = context.Process(target=ppo.main, args=(arguments,))
        process.start()
        goal = 0 if kills == 0 else rows(run) + rng.randrange(4)  # the first time hardly after it began
        wait(process, lambda goal=goal: run.exists() and rows(run) >= goal)
        time.sleep(rng.uniform(0, 0.1))
        killed = process.is_alive() and not (run / "final.zip").exists()
        process.kill()
        process.join()
        if not killed or kills == 3:
            break
        kills, arguments = kills + 1, ["--resume", str(run)]
    assert kills >= 1
    assert ppo.main(["--resume", str(run)]) == 0
    assert_same_end(finished, run)


def test_a_run_killed_in_the_middle_of_any_write_comes_to_the_same_end(context, finished, tmp_path):
    """Checkpoints, progress.csv, ladder.json, final.zip, curves.png: each is half written once."""
    run, arguments, left = tmp_path / "tiny", command(tmp_path), set()
    for number in (0, 1, 2, 4, 5, 3, 2):
        process = context.Process(target=die_in_write, args=(number, arguments))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL
        left |= {path.name for path in run.rglob(".*.tmp")}
        arguments = ["--resume", str(run)]
    assert {".progress.csv.tmp", ".ladder.json.tmp"} < left and any(".zip.tmp" in name for name in left), left
    assert ppo.main(arguments) == 0
    assert_same_end(finished, run)


def test_a_half_written_checkpoint_is_no_checkpoint_and_is_removed(finished, tmp_path):
    run = tmp_path / "tiny"
    shutil.copytree(finished, run)
    (run / "final.zip").unlink()
    last = max((run / "checkpoints").iterdir())
    left = last.with_name(f".{1900:012d}.zip.tmp")  # of Ctrl-C, between two that are due
    left.write_bytes(last.read_bytes()[:1000])
    last.unlink()
    assert ppo.main(["--resume", str(run)]) == 0
    assert_same_end(finished, run)
