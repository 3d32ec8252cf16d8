"""Several seeds of a config: runs that are started, gone on with or reused, and what is said of them together."""

from __future__ import annotations

import fcntl
import importlib.util
import itertools
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from stub_trainer import StubTrainer, stubbed

from fool_env.train import run_process, seeds, sweep
from fool_env.train.run_process import RunError, finish, held, plan_run


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubTrainer:
    return stubbed(tmp_path, monkeypatch)


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


def trimmed(scores: tuple[float, ...]) -> float:
    """The interquartile mean, from its definition."""
    cut = len(scores) // 4
    return float(np.mean(sorted(scores)[cut : len(scores) - cut]))


def middle_95_percent(values: list[float]) -> np.ndarray:
    return np.quantile(values, [0.025, 0.975])


def test_the_interval_over_seeds_is_that_of_all_ways_to_draw_them() -> None:
    first, second = (0.0, 1.0, 2.5, 4.0, 9.0), (-1.0, -1.5, -2.0, -4.0, 7.0)
    intervals = seeds.seed_intervals(np.array([first, second]).T)
    for column, scores in enumerate((first, second)):
        exact = middle_95_percent([trimmed(drawn) for drawn in itertools.product(scores, repeat=5)])
        np.testing.assert_allclose(intervals[:, column], exact, atol=0.2)
    assert seeds.seed_intervals(np.array([first])) is None, "a single seed says nothing of others"
    np.testing.assert_array_equal(seeds.seed_intervals(np.full((5, 1), 2.0)), [[2.0], [2.0]])


def test_the_interval_of_a_difference_draws_the_seeds_of_each_config_by_themselves() -> None:
    ours, theirs = (1.0, 2.0, 4.0), (0.0, 3.0, 3.5, 9.0)
    mean, interval = seeds.difference(np.array(ours), np.array(theirs))
    assert mean == pytest.approx(7 / 3 - 3.25)
    draws = itertools.product(itertools.product(ours, repeat=3), itertools.product(theirs, repeat=4))
    exact = middle_95_percent([trimmed(one) - trimmed(other) for one, other in draws])
    np.testing.assert_allclose(interval, exact, atol=0.2)
    assert seeds.difference(np.array([1.0]), np.array(theirs))[1] is None


# --- one run in its own process


def test_a_lock_is_held_until_the_training_ends_even_if_whoever_began_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_process, "POLL_SECONDS", 0.05)
    path = tmp_path / "lock"
    lock = os.open(path, os.O_CREAT | os.O_WRONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    seen = []

    def let_go() -> bool:
        """As the kernel does for a process that dies."""
        if not seen:
            os.close(lock)
        with held(path) as ours:
            seen.append(ours)
        return False

    assert run_process.train("train/ppo.py", ["--help"], lock, let_go) == 0
    assert seen[0] is None, "the orphan goes on training"
    with held(path) as ours:
        assert ours is not None
        with held(path) as theirs:
            assert theirs is None


@pytest.mark.parametrize(
    ("code", "message", "killed"),
    [(1, "exit code 1", False), (-9, "SIGKILL", True), (130, "interrupted by somebody else", True)],
)
def test_a_run_that_ends_otherwise_is_an_error(trainer: StubTrainer, code: int, message: str, killed: bool) -> None:
    trainer.codes = [code]
    run = plan_run("ppo", trainer.arguments())
    with held(run.lock) as lock, pytest.raises(RunError, match=message) as caught:
        finish(run, lock, lambda: False)
    assert caught.value.killed == killed


def test_a_run_that_was_killed_before_its_first_checkpoint_is_resumed_as_well(trainer: StubTrainer) -> None:
    trainer.codes = [1]
    run = plan_run("ppo", trainer.arguments())
    trainer.train("", run.arguments)
    shutil.rmtree(run.folder / "checkpoints")
    with held(run.lock) as lock:
        assert finish(plan_run("ppo", trainer.arguments()), lock, lambda: False)
    assert trainer.begun == ["tiny"] and trainer.resumed == ["tiny"]


def test_the_folder_of_something_else_is_left_alone(trainer: StubTrainer, tmp_path: Path) -> None:
    (tmp_path / "runs" / "tiny").mkdir(parents=True)
    (tmp_path / "runs" / "tiny" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="is not the folder of a run"):
        plan_run("ppo", trainer.arguments())
    assert (tmp_path / "runs" / "tiny" / "thesis.tex").exists()


def test_ctrl_c_saves_the_run_and_the_same_command_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With training itself, in its own process."""
    command = [*StubTrainer(tmp_path).arguments(), "--seeds", "3"]
    folder = tmp_path / "runs" / "tiny-seed3"

    def press_ctrl_c() -> None:
        while not list(folder.glob("checkpoints/*.zip")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press_ctrl_c, daemon=True)
    thread.start()
    assert sweep.main([*command, "--total_steps", "400000"]) == 130
    thread.join()
    assert "the same command goes on" in capfd.readouterr().err
    assert "Interrupted" in (folder / "train.log").read_text() and not (folder / "final.zip").exists()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, "total_steps": 1200}))  # or it would take long
    assert sweep.main([*command, "--total_steps", "1200"]) == 0
    assert "resumed from" in (folder / "train.log").read_text() and (folder / "final.zip").exists()
    assert (tmp_path / "runs" / "tiny-seeds" / "seeds.png").read_bytes().startswith(b"\x89PNG")


# --- several seeds


def test_seeds_are_trained_once_and_reported_together(
    trainer: StubTrainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer.gains = lambda config: [1.0, 2.0, 4.0, 3.0, 90.0][config.seed]
    command = trainer.arguments("--seeds", "0", "1", "2", "3", "--ppo.epochs", "3")
    assert sweep.main(command) == 0
    assert trainer.begun == [f"tiny-seed{seed}" for seed in range(4)]
    assert all(config.ppo.epochs == 3 for config in trainer.configs.values())
    assert [config.seed for config in trainer.configs.values()] == [0, 1, 2, 3]
    assert sweep.main([*command, "--seeds", "4", "0", "1", "2", "3"]) == 0
    assert trainer.begun[4:] == ["tiny-seed4"] and not trainer.resumed, "what is finished stays as it is"
    folder = tmp_path / "runs" / "tiny-seeds"
    assert {path.name for path in folder.iterdir()} == {"seeds.json", "seeds.md", "seeds.png"}
    (config,) = json.loads((folder / "seeds.json").read_text())["configs"]
    assert (config["name"], config["seeds"]) == ("tiny", [0, 1, 2, 3, 4])
    highest, mixed = config["opponents"]["highest"], config["opponents"]["random+lowest"]
    assert highest["gain"]["iqm"] == 3 and highest["relative"]["iqm"] == 2 and mixed["gain"]["iqm"] is None
    low, high = highest["gain"]["iqm_ci"]
    assert 1 <= low <= 3 <= high
    assert highest["curve"]["steps"] == [400, 800, 1200] and highest["curve"]["iqm"] == [1.5, 2.25, 3]
    assert highest["curve"]["measure"] == "gain" and mixed["curve"]["measure"] == "relative"
    page = (folder / "seeds.md").read_text()
    assert "| 4 | +90.00 ±0.50 | +89.00 ±0.50 | 25.0% ±5.0% | +91.00 ±0.50 | 25.0% ±5.0% |" in page
    assert f"| IQM | +3.00 [{low:+.2f}, {high:+.2f}] |" in page and "+3.00 [" in capsys.readouterr().out


def test_two_configs_are_compared_seed_by_seed(trainer: StubTrainer, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text((tmp_path / "tiny.yaml").read_text().replace("tiny", "other"))
    trainer.gains = lambda config: config.seed + 10 * (config.name > "p")
    command = trainer.arguments("--seeds", "0", "1", "2")
    assert sweep.main([*command, "--config", str(tmp_path / "other.yaml"), "--out", str(tmp_path / "out")]) == 0
    assert trainer.begun[:3] == ["tiny-seed0", "other-seed0", "tiny-seed1"]
    differences = json.loads((tmp_path / "out" / "seeds.json").read_text())["differences"]
    gain = differences[0]
    assert (gain["name"], gain["minus"], gain["opponent"], gain["measure"]) == ("other", "tiny", "highest", "gain")
    assert gain["iqm"] == -10 and -12 <= gain["iqm_ci"][0] < -10 < gain["iqm_ci"][1] <= -8
    assert "| other - tiny | gain at highest | -10.00 [" in (tmp_path / "out" / "seeds.md").read_text()


def test_a_seed_that_fails_leaves_the_others_and_is_tried_again(
    trainer: StubTrainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer.codes = [0, 1]
    command = trainer.arguments("--seeds", "0", "1", "2")
    assert sweep.main(command) == sweep.INCOMPLETE
    assert "tiny-seed1 ended with exit code 1" in capsys.readouterr().err
    (config,) = json.loads((tmp_path / "runs" / "tiny-seeds" / "seeds.json").read_text())["configs"]
    assert config["seeds"] == [0, 2]
    assert sweep.main(command) == 0 and trainer.resumed == ["tiny-seed1"]


def test_a_run_that_another_process_trains_comes_last(trainer: StubTrainer, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with (tmp_path / "runs" / ".tiny-seed0.lock").open("a") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        trainer.during = lambda config: fcntl.flock(theirs, fcntl.LOCK_UN) if config.seed == 2 else None
        assert sweep.main(trainer.arguments("--seeds", "0", "1", "2")) == 0
    assert trainer.begun == ["tiny-seed1", "tiny-seed2", "tiny-seed0"]


def test_a_run_of_another_config_is_not_taken(trainer: StubTrainer, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main(trainer.arguments("--seeds", "0", "1")) == 0
    assert sweep.main(trainer.arguments("--seeds", "0", "1", "--threads", "2")) == 0, "by which no result changes"
    assert sweep.main(trainer.arguments("--seeds", "1", "--ppo.learning_rate", "0.5")) == 2
    assert "tiny-seed1 is a run of another config (ppo.learning_rate: 0.001, not 0.5)" in capsys.readouterr().err
    assert len(trainer.begun) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seeds", "1", "1"], "each may come once"),
        (["--seeds", "1", "--seed", "2"], "the seeds are those of --seeds"),
        (["--seeds", "1", "--ppo.learning_rat", "1"], "do you mean ppo.learning_rate"),
        (["--seeds", "1", "--trials", "5"], "--trials goes with --study"),
        (["--seeds", "1", "--no-pruning"], "--no-pruning goes with --study"),
        (["--seeds", "1", "--evaluation.every", "0"], "no learning curve"),
        (["--seeds", "1", "--evaluation.every", "5000"], "no learning curve in 1200"),
        (["--seeds", "1", "--config", "configs/6p.yaml", "--name", "same"], "two configs are named same"),
        (["--seeds", "1", "--method", "ppo", "dmc"], "one for each of the 1"),
        (["--seeds", "1", "--method", "sac"], "--method"),
        (["--seeds", "1", "--resume", "runs/tiny"], "--resume: the same command goes on"),
        (["--seed", "1"], "--seeds --study is required"),
        (["--seeds", "-1"], "seed: -1 is too small"),
        (["--study", "a", "--search", "ppo.gamma=uniform:0:1", "--trails", "5"], "do you mean --trials?"),
    ],
)
def test_mistakes_on_the_command_line(
    trainer: StubTrainer, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert sweep.main(trainer.arguments(*arguments)) == 2
    err = capsys.readouterr().err
    assert err.startswith("fool-sweep: error: ") and err.count("\n") == 1 and says in err
    assert not trainer.begun and not list(tmp_path.glob("runs/[!.]*"))


def test_without_the_extra_it_is_named(
    trainer: StubTrainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert sweep.main(trainer.arguments("--seeds", "1")) == 2
    assert "pip install 'fool-env[train,studies]'" in capsys.readouterr().err
