"""Studies over seeds: runs that are started, gone on with or reused, and what is said of several seeds."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.trainer import TINY, Trainer

from fool_env.train import seeds, sweep
from fool_env.train.run_process import RunError, finish, held, plan_run

# --- statistics


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([3.0], 3),
        ([0, 6, 0], 2),  # a quarter of three is no whole seed
        ([-50, 1, 3, 70], 2),
        ([0, 1, 2, 3, 100], 2),
        ([9, 1, 2, 3, 4, 5, 6, -80], 3.5),
    ],
)
def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end(scores: list[float], mean: float) -> None:
    assert seeds.interquartile_mean(np.array(scores)) == pytest.approx(mean)


def quantiles_of_all(values: list[float]) -> list[float]:
    return [float(end) for end in np.quantile(values, [0.025, 0.975])]


def trimmed(scores: tuple[float, ...]) -> float:
    """The interquartile mean, from its definition."""
    cut = len(scores) // 4
    return float(np.mean(sorted(scores)[cut : len(scores) - cut]))


def test_the_interval_over_seeds_is_that_of_all_ways_to_draw_them() -> None:
    first, second = (0.0, 1.0, 2.5, 4.0, 9.0), (-1.0, -1.5, -2.0, -4.0, 7.0)
    intervals = seeds.seed_intervals(np.array([first, second]).T)
    for column, scores in enumerate((first, second)):
        exact = quantiles_of_all([trimmed(drawn) for drawn in itertools.product(scores, repeat=5)])
        np.testing.assert_allclose(intervals[:, column], exact, atol=0.15)
    assert seeds.seed_intervals(np.array([first])) is None, "a single seed says nothing of others"
    np.testing.assert_array_equal(seeds.seed_intervals(np.full((5, 1), 2.0)), [[2.0], [2.0]])


def test_the_interval_of_a_difference_draws_the_seeds_of_each_config_by_themselves() -> None:
    ours, theirs = (1.0, 2.0, 4.0), (0.0, 3.0, 3.5, 9.0)
    mean, interval = seeds.difference(np.array(ours), np.array(theirs))
    assert mean == pytest.approx(7 / 3 - 3.25)
    draws = itertools.product(itertools.product(ours, repeat=3), itertools.product(theirs, repeat=4))
    np.testing.assert_allclose(interval, quantiles_of_all([trimmed(a) - trimmed(b) for a, b in draws]), atol=0.15)
    assert seeds.difference(np.array([1.0]), np.array(theirs))[1] is None


# --- one run in its own process


def test_a_lock_is_held_as_long_as_anybody_lives_who_was_handed_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(path) as ours:
        assert ours is not None
        with held(path) as theirs:
            assert theirs is None
        child = subprocess.Popen([sys.executable, "-c", "input()"], pass_fds=[ours], stdin=subprocess.PIPE)
    try:
        with held(path) as ours:
            assert ours is None, "an orphan goes on training"
    finally:
        child.communicate(b"\n")
    with held(path) as ours:
        assert ours is not None


@pytest.mark.parametrize(
    ("code", "message", "killed"),
    [(1, "exit code 1", False), (-9, "SIGKILL", True), (130, "interrupted by somebody else", True)],
)
def test_a_run_that_ends_otherwise_is_an_error(
    tmp_path: Path, trainer: Trainer, code: int, message: str, killed: bool
) -> None:
    trainer.codes = [code]
    run = plan_run(trainer.arguments())
    with held(run.lock) as lock, pytest.raises(RunError, match=message) as caught:
        finish(run, lock, lambda: False)
    assert caught.value.killed == killed


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(tmp_path: Path, trainer: Trainer) -> None:
    run = plan_run(trainer.arguments())
    trainer.train(run.arguments)
    shutil.rmtree(run.folder / "checkpoints")
    (run.folder / "final.zip").unlink()
    with held(run.lock) as lock:
        assert finish(plan_run(trainer.arguments()), lock, lambda: False)
    assert trainer.begun == ["tiny", "tiny"] and trainer.resumed == []


def test_the_folder_of_something_else_is_left_alone(tmp_path: Path, trainer: Trainer) -> None:
    (tmp_path / "runs" / "tiny").mkdir(parents=True)
    (tmp_path / "runs" / "tiny" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="is not the folder of a run"):
        plan_run(trainer.arguments())
    assert (tmp_path / "runs" / "tiny" / "thesis.tex").exists()


def test_ctrl_c_saves_the_real_run_and_the_same_command_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    command = ["--config", str(tmp_path / "tiny.yaml"), "--runs", str(tmp_path / "runs"), "--seeds", "3"]
    folder = tmp_path / "runs" / "tiny-seed3"

    def press_ctrl_c() -> None:
        while not list(folder.glob("checkpoints/*.zip")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press_ctrl_c, daemon=True)
    thread.start()
    assert sweep.main([*command, "--total_steps", "40000"]) == sweep.INTERRUPTED
    thread.join()
    assert "the same command goes on" in capfd.readouterr().err
    assert "Interrupted" in (folder / "train.log").read_text() and not (folder / "final.zip").exists()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, "total_steps": 1200}))  # the rest in less time
    assert sweep.main([*command, "--total_steps", "1200"]) == 0
    assert "resumed from" in (folder / "train.log").read_text() and (folder / "final.zip").exists()
    assert (tmp_path / "runs" / "tiny-seeds" / "seeds.png").read_bytes().startswith(b"\x89PNG")
