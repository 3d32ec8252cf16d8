"""A search over keys of a config: its trials, how they end, and how they are taken up again."""

from __future__ import annotations

import contextlib
import csv
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
from stub_trainer import StubTrainer, evaluation, stubbed

from fool_env.agents import arena
from fool_env.train import study, sweep
from fool_env.train.config import load_config
from fool_env.train.run_process import Run
from fool_env.train.study import Trials, open_study, parse_search, plan_study

SEARCH = ["--search", "ppo.learning_rate=log:1e-4:1e-2", "network.hidden=choice:[8]|[8,8]"]


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubTrainer:
    """A stub whose agents are as strong as their learning rate is near 1e-3, without being played."""
    trainer = stubbed(tmp_path, monkeypatch)
    trainer.gains = lambda config: -abs(config.ppo.learning_rate - 1e-3) * 1000

    def measure(self: Trials, run: Run) -> SimpleNamespace:
        gain = trainer.gains(trainer.configs[run.folder.name])
        return SimpleNamespace(to_dict=lambda: evaluation("highest", gain, gain))

    monkeypatch.setattr(Trials, "_measure", measure)
    return trainer


def command(trainer: StubTrainer, *more: str) -> list[str]:
    return trainer.arguments("--study", "rates", "--opponent", "highest", *SEARCH, *more)


def rows(tmp_path: Path) -> list[dict[str, str]]:
    with (tmp_path / "runs" / "rates" / "study.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@contextlib.contextmanager
def opened(trainer: StubTrainer, total: int) -> Iterator[Trials]:
    """The study of `command`, as one of several processes has it."""
    plan = plan_study("rates", "ppo", [trainer.arguments()[1]], SEARCH[1:], "highest", training=trainer.arguments()[2:])
    with open_study(plan, pruning=True) as optuna_study:
        yield Trials(optuna_study, plan, total, SimpleNamespace(requested=False))


# --- trials


def test_a_study_finds_the_best_values_and_goes_on_with_the_same_command(
    trainer: StubTrainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep.main(command(trainer, "--trials", "3", "--no-pruning")) == 0
    assert trainer.begun == ["trial-0000", "trial-0001", "trial-0002"]
    assert sweep.main(command(trainer, "--trials", "3", "--no-pruning")) == 0
    assert len(trainer.begun) == 3, "they are all there"
    capsys.readouterr()
    assert sweep.main(command(trainer, "--trials", "5", "--no-pruning")) == 0
    assert len(trainer.begun) == 5 and not trainer.resumed
    table = rows(tmp_path)
    assert [row["run"] for row in table] == trainer.begun and {row["state"] for row in table} == {"complete"}
    for row in table:
        config = trainer.configs[row["run"]]
        assert float(row["ppo.learning_rate"]) == config.ppo.learning_rate
        assert row["network.hidden"] == str(config.network.hidden).replace(" ", "")
        assert float(row["value"]) == pytest.approx(trainer.gains(config))
        assert float(row["high"]) - float(row["low"]) == pytest.approx(1)
    assert len({row["ppo.learning_rate"] for row in table}) == 5, "nothing is drawn again after a new start"
    best = max(table, key=lambda row: float(row["value"]))
    config = load_config(tmp_path / "runs" / "rates" / "best.yaml")
    assert config.ppo.learning_rate == float(best["ppo.learning_rate"]) and config.name == "rates-best"
    assert config.folder == tmp_path / "runs" / "rates-best"
    out = capsys.readouterr().out
    assert f"Best: trial {best['trial']}, {float(best['value']):+.2f} [" in out and "trials: 5 complete" in out
    assert (tmp_path / "runs" / "rates" / "study.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_study_draws_the_same_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        trainer = stubbed(tmp_path / name, monkeypatch)
        monkeypatch.setattr(Trials, "_finish", lambda trials, trial, run, lock: trials.study.tell(trial, 1))
        with opened(trainer, 3) as trials:
            while trials.go_on():
                pass
            drawn.append([trial.params for trial in trials.study.trials])
    assert drawn[0] == drawn[1]
    assert len({params["ppo.learning_rate"] for params in drawn[0]}) == 3


def test_strength_is_measured_on_deals_of_selection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = stubbed(tmp_path, monkeypatch)
    told = []

    def evaluate(*arguments: object, **options: object) -> arena.Evaluation:
        told.append(options)
        return arena.evaluate(*arguments, **options)

    monkeypatch.setattr(study, "evaluate", evaluate)
    assert sweep.main(command(trainer, "--trials", "1", "--deals", "3")) == 0
    assert [(each["purpose"], each["deals"], each["seed"]) for each in told] == [(arena.SELECTION, 3, 0)]
    (row,) = rows(tmp_path)
    assert float(row["low"]) < float(row["value"]) < float(row["high"])


def test_a_trial_that_crashes_does_not_end_the_study(
    trainer: StubTrainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer.codes = [0, 1]
    assert sweep.main(command(trainer, "--trials", "3")) == 0
    assert [row["state"] for row in rows(tmp_path)] == ["complete", "fail", "complete"]
    assert "trial-0001 ended with exit code 1" in rows(tmp_path)[1]["error"]
    assert "trial-0001 ended with exit code 1" in capsys.readouterr().err
    assert trainer.resumed == [], "it would crash again"


def test_values_that_do_not_go_together_are_a_failed_trial(trainer: StubTrainer, tmp_path: Path) -> None:
    search = ["table.reward=choice:relative|win", "table.episode=choice:round|game", "ppo.epochs=uniform:1:3"]
    arguments = trainer.arguments("--study", "rates", "--search", *search, "--table.episode", "game")
    assert sweep.main([*arguments, "--trials", "12"]) == 0
    states = [row["state"] for row in rows(tmp_path)]
    assert states.count("complete") + states.count("fail") == 12 and 0 < states.count("fail") < 12
    for row in rows(tmp_path):
        assert (row["table.reward"] == "win" and row["table.episode"] == "round") == (row["state"] == "fail")


def test_a_training_that_is_killed_is_gone_on_with_but_not_for_ever(trainer: StubTrainer, tmp_path: Path) -> None:
    trainer.codes = [-9, 0, -9, -9, -9]
    assert sweep.main(command(trainer, "--trials", "3")) == 0
    assert trainer.begun == ["trial-0000", "trial-0002", "trial-0005"]
    assert trainer.resumed == ["trial-0000", "trial-0002", "trial-0002"]
    states = {row["trial"]: (row["state"], row["run"], row["error"][-7:]) for row in rows(tmp_path)}
    assert states == {
        "0": ("fail", "trial-0000", ""),
        "1": ("complete", "trial-0000", ""),
        "2": ("fail", "trial-0002", ""),
        "3": ("fail", "trial-0002", ""),
        "4": ("fail", "trial-0002", "SIGKILL"),
        "5": ("complete", "trial-0005", ""),
    }
    assert rows(tmp_path)[0]["ppo.learning_rate"] == rows(tmp_path)[1]["ppo.learning_rate"]


def test_a_killed_study_goes_on_with_the_trial_that_was_being_trained(trainer: StubTrainer, tmp_path: Path) -> None:
    with opened(trainer, 2) as trials, contextlib.ExitStack() as stack:
        trial, name, _ = trials._claim(stack)
        trainer.codes = [130]  # it leaves a checkpoint
        trainer.train("", trials.plan.plan_run(name, trial.params).arguments)
    # Neither was anything told to the study, nor is the lock held any more: as after SIGKILL.
    assert sweep.main(command(trainer, "--trials", "2")) == 0
    assert trainer.resumed == ["trial-0000"] and trainer.begun == ["trial-0000", "trial-0002"]
    assert [row["state"] for row in rows(tmp_path)] == ["fail", "complete", "complete"]
    assert [row["run"] for row in rows(tmp_path)] == ["trial-0000", "trial-0000", "trial-0002"]


def test_ctrl_c_ends_the_study_and_the_same_command_goes_on(
    trainer: StubTrainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer.during = lambda config: os.kill(os.getpid(), signal.SIGINT) if len(trainer.begun) == 2 else None
    assert sweep.main(command(trainer, "--trials", "3")) == 130
    assert "the same command goes on" in capsys.readouterr().err and len(trainer.begun) == 2
    trainer.during = lambda config: None
    assert sweep.main(command(trainer, "--trials", "3")) == 0
    assert trainer.resumed == ["trial-0001"] and len(trainer.begun) == 3
    assert [row["state"] for row in rows(tmp_path)].count("complete") == 3


def test_processes_share_the_trials_of_a_study(trainer: StubTrainer, tmp_path: Path) -> None:
    (tmp_path / "runs" / "rates").mkdir(parents=True)  # by one that was killed then
    with opened(trainer, 2) as ours, opened(trainer, 2) as theirs, contextlib.ExitStack() as stack:
        claims = [ours._claim(stack), theirs._claim(stack)]
        assert [name for _, name, _ in claims] == ["trial-0000", "trial-0001"]
        assert claims[0][0].params != claims[1][0].params
        assert ours._claim(stack) is None, "the trial of the other counts"
        states = [trial.state for trial in ours.study.trials]
        assert states == [TrialState.RUNNING] * 2, "nobody takes what another trains for killed"


def test_a_trial_below_the_median_on_the_way_is_pruned(trainer: StubTrainer, tmp_path: Path) -> None:
    values = iter([1.0, 2.0, 3.0, 2.0, 1.0, -5.0, 4.0])
    by_run: dict[str, float] = {}
    trainer.gains = lambda config: by_run.setdefault(config.name, next(values) if config.name not in by_run else 0)
    assert sweep.main(command(trainer, "--trials", "7")) == 0
    table = rows(tmp_path)
    assert [row["state"] for row in table] == ["complete"] * 5 + ["pruned", "complete"]
    assert not (tmp_path / "runs" / "rates" / "trial-0005" / "final.zip").exists()
    with opened(trainer, 7) as trials:
        assert trials.study.trials[5].intermediate_values[0] == -2.5 and trials.study.best_trial.number == 6


def test_another_study_is_not_gone_on_with(
    trainer: StubTrainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep.main(command(trainer, "--trials", "1")) == 0
    for more, says in (
        (["--ppo.epochs", "7"], "config.ppo.epochs: 2, not 7"),
        (["--deals", "5"], "deals: 1000, not 5"),
        (["--search", "ppo.gamma=uniform:0.5:1"], "search.ppo.gamma: None, not "),
    ):
        capsys.readouterr()
        assert sweep.main(command(trainer, "--trials", "2", *more)) == 2
        assert f"rates is another study ({says}" in capsys.readouterr().err
    (tmp_path / "runs" / "rates" / "study.db").unlink()
    assert sweep.main(command(trainer, "--trials", "2")) == 2
    assert "is not the folder of a study" in capsys.readouterr().err and len(trainer.begun) == 1


# --- what is searched


def test_ranges_are_whole_numbers_where_the_key_is(trainer: StubTrainer) -> None:
    texts = ["ppo.learning_rate=log:1e-4:1", "ppo.entropy=uniform:0:1", "ppo.epochs=uniform:1:4"]
    texts += ["ppo.minibatch=log:256:4096", "network.hidden=choice:[8]|[8,8]", "threads=choice:null|2"]
    assert parse_search(texts, "ppo", trainer.arguments()) == {
        "ppo.learning_rate": FloatDistribution(1e-4, 1, log=True),
        "ppo.entropy": FloatDistribution(0, 1),
        "ppo.epochs": IntDistribution(1, 4),
        "ppo.minibatch": IntDistribution(256, 4096, log=True),
        "network.hidden": CategoricalDistribution(["[8]", "[8,8]"]),
        "threads": CategoricalDistribution(["null", "2"]),
    }
    (epsilon,) = parse_search(["dmc.epsilon=uniform:0:0.5"], "dmc", ["--table.num_players", "4"]).values()
    assert epsilon == FloatDistribution(0, 0.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ppo.learning_rat=log:1e-4:1e-3", "do you mean ppo.learning_rate?"),
        ("learning_rate=log:1e-4:1e-3", "do you mean ppo.learning_rate?"),
        ("ppo.learning_rate", "write KEY=log:LOW:HIGH, uniform:LOW:HIGH or choice:A|B|C"),
        ("ppo.learning_rate=1e-4:1e-3", "write KEY=log:LOW:HIGH"),
        ("ppo.learning_rate=log:1e-4", "1e-4 is not what log takes"),
        ("ppo.learning_rate=log:1e-3:1e-4", "is no range"),
        ("ppo.entropy=log:0:1", "is no range above 0"),
        ("ppo.epochs=uniform:1:2.5", "ppo.epochs"),
        ("ppo.gamma=uniform:0.5:1.5", "ppo.gamma: 1.5"),
        ("network.hidden=uniform:1:2", "network.hidden"),
        ("device=uniform:1:2", "device is not a number"),
        ("precision=choice:float32|float16", "float16"),
        ("precision=choice:float32", "float32 is not what choice takes"),
        ("name=choice:a|b", "name cannot be searched"),
        ("evaluation.deals=uniform:1:5", "evaluation.deals cannot be searched"),
    ],
)
def test_mistakes_in_what_is_searched(
    trainer: StubTrainer, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    assert sweep.main(trainer.arguments("--study", "rates", "--search", text)) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"fool-sweep: error: --search {text}: ") and err.count("\n") == 1 and says in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--study", "rates"], "--study needs --search"),
        (["--study", "a/b", *SEARCH], "--study a/b"),
        (["--study", "rates", *SEARCH, "--trials", "0"], "--trials 0"),
        (["--study", "rates", *SEARCH, "--deals", "0"], "--deals 0"),
        (["--study", "rates", *SEARCH, "--opponent", "cautious"], "is none of evaluation.opponents, which are highest"),
        (["--study", "rates", *SEARCH, "--config", "configs/6p.yaml"], "--study has one --config"),
        (["--study", "rates", *SEARCH, "--method", "ppo", "dmc"], "a study has one"),
        (["--study", "rates", *SEARCH, "--out", "x"], "--out goes with --seeds"),
        (["--study", "rates", "--search", "ppo.gamma=uniform:0.5:1", "ppo.gamma=uniform:0.5:1"], "named twice"),
    ],
)
def test_mistakes_on_the_command_line(
    trainer: StubTrainer, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert sweep.main(trainer.arguments(*arguments)) == 2
    err = capsys.readouterr().err
    assert err.startswith("fool-sweep: error: ") and err.count("\n") == 1 and says in err
