"""Best responses: a gain that is there is found, measured as the arena measures, and named as the bound that it is."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from checkpoints import write_checkpoint

from fool_env import Rules
from fool_env.agents.agent import make_agent
from fool_env.agents.arena import evaluate
from fool_env.train import best_response
from fool_env.train.best_response import RESULTS, main, make_plan
from fool_env.train.config import load_config

OPTIONS = (
    *("--players", "4", "--steps", "40000", "--deals", "100", "--threads", "1", "--table.num_tables", "64"),
    *("--ppo.minibatch", "256", "--ppo.learning_rate", "3e-3", "--ppo.epochs", "3", "--network.hidden", "[32]"),
    *("--evaluation.every", "0", "--evaluation.deals", "4", "--checkpoint_every", "8000"),
)


def arguments(folder: Path, *more: str, against: str = "lowest") -> list[str]:
    return ["--against", against, "--runs", str(folder), *OPTIONS, *more]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of best responses of two seeds to an agent that is easy to beat."""
    folder = tmp_path_factory.mktemp("runs")
    assert main(arguments(folder, "--seeds", "0", "1")) == 0
    return folder / "against-lowest"


def results_in(folder: Path) -> dict:
    return json.loads((folder / RESULTS).read_text())


# --- what is found


def test_a_weak_agent_is_exploited(finished):
    """A few seconds of training find some ten points a round against whoever plays the lowest card."""
    results = results_in(finished)
    assert [one["seed"] for one in results["by_seed"]] == [0, 1]
    for one in results["by_seed"]:
        assert one["gain"] > 5 and one["gain_ci"][0] > 3
    assert results["gain_ci"][0] > 4
    assert "lower bound" in results["meaning"] and "exploitability" in results["meaning"]
    assert (results["against"], results["steps"], results["players"]) == ("lowest", 40000, 4)


def test_gains_are_those_of_the_arena_and_their_mean_pairs_deals(finished):
    results = results_in(finished)
    for one in results["by_seed"]:
        agents = make_agent(one["checkpoint"]), [make_agent("lowest")]
        found = evaluate(*agents, Rules.official(4), deals=100, seed=0)
        assert one["gain"] == pytest.approx(found.gain)
        assert one["gain_ci"] == pytest.approx(found.gain_ci)
    assert len(results["gain_by_deal"]) == 100
    assert results["gain"] == pytest.approx(np.mean(results["gain_by_deal"]))
    assert results["gain"] == pytest.approx(np.mean([one["gain"] for one in results["by_seed"]]))


def test_one_seat_learns_from_scratch_against_the_agent_alone(finished):
    config = load_config(finished / "seed1" / "config.yaml")
    assert (config.pool.share, config.pool.every, config.pool.members) == (1.0, 0, ["lowest"])
    assert (config.seed, config.init, config.total_steps) == (1, None, 40000)
    rows = (finished / "seed1" / "progress.csv").read_text().splitlines()
    relative = [float(row.split(",")[rows[0].split(",").index("pool/learner_relative")]) for row in rows[1:]]
    assert relative[-1] > relative[0] + 2


# --- going on


def test_the_same_command_takes_what_is_there(finished, capsys):
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(arguments(finished.parent, "--seeds", "0", "1")) == 0
    after = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert before == after
    out = capsys.readouterr().out
    assert "seed 0" in out and "mean" in out and "lower bound" in " ".join(out.split())


def test_an_interrupted_command_goes_on_and_finds_the_same(finished, tmp_path):
    command = [sys.executable, str(Path(best_response.__file__)), *arguments(tmp_path, "--seeds", "1")]
    run = tmp_path / "against-lowest" / "seed1"
    deadline = time.monotonic() + 240
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not ((run / "progress.csv").exists() and (run / "progress.csv").read_text().count("\n") > 2):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 130, errors
    assert "the same command goes on" in errors
    assert not (run / "final.zip").exists() and not (run.parent / RESULTS).exists()
    assert main(arguments(tmp_path, "--seeds", "1")) == 0
    one, other = results_in(run.parent)["by_seed"][0], results_in(finished)["by_seed"][1]
    assert one["gain"] == other["gain"]


# --- comparing


def altered(source: Path, target: Path, **values: object) -> str:
    target.write_text(json.dumps(json.loads(source.read_text()) | values))
    return str(target)


def test_two_agents_are_compared_deal_by_deal(finished, tmp_path, capsys):
    file = finished / RESULTS
    gains = np.array(results_in(finished)["gain_by_deal"])
    other = altered(file, tmp_path / "other.json", against="rock", gain_by_deal=(gains - 3).tolist())
    capsys.readouterr()
    assert main(["--compare", str(file), other]) == 0
    out = capsys.readouterr().out
    assert "rock" in out and "+3.00 ±0.00" in out
    assert main(["--compare", other, str(file)]) == 0
    assert "-3.00 ±0.00" in capsys.readouterr().out


@pytest.mark.parametrize("key", ["steps", "deals", "deal_seed", "rules"])
def test_only_equal_budgets_are_compared(finished, tmp_path, capsys, key):
    other = altered(finished / RESULTS, tmp_path / "other.json", **{key: 7})
    assert main(["--compare", str(finished / RESULTS), other]) == 2
    assert f"--compare: {key} differ" in capsys.readouterr().err


@pytest.mark.parametrize(("content", "message"), [("{", "is no best_response.json"), ("{}", "has no gain_by_deal")])
def test_other_files_are_not_compared(finished, tmp_path, capsys, content, message):
    (tmp_path / "other.json").write_text(content)
    assert main(["--compare", str(finished / RESULTS), str(tmp_path / "other.json")]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


# --- the command line


def plan(folder: Path, *more: str, against: str):
    options = best_response._parser().parse_known_args(["--against", against, "--runs", str(folder), *more])
    return make_plan(*options)


def test_a_trained_agent_is_met_at_the_rules_that_it_learnt(tmp_path):
    checkpoint = write_checkpoint(tmp_path / "mini.zip", Rules.miniature())
    found = plan(tmp_path, "--steps", "500000", against=checkpoint)
    assert found.rules == Rules.miniature()
    (run,) = found.runs.values()
    assert run.config.pool.members == [checkpoint] and run.config.total_steps == 500_000
    assert run.config.ppo.minibatch == 1024
    assert found.folder.parent == tmp_path and found.folder.name.startswith("against-")
    assert plan(tmp_path, "--config", "8p.yaml", against="highest").rules == Rules.official(8)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--against", "higest", "--players", "4"], 'there is no agent "higest"'),
        (["--against", "cheat", "--players", "4"], "sees all hands"),
        (["--against", "lost.zip"], "lost.zip: there is no such file"),
        (["--against", "highest"], "--players is needed"),
        (["--against", "mini.zip", "--players", "4"], "was trained for 3"),
        (["--against", "mini.zip", "--table.num_players", "4"], "--against: mini.zip was trained for"),
        (["--against", "highest", "--players", "4", "--seed", "3"], "--seed: the seeds are those of --seeds"),
        (["--against", "highest", "--players", "4", "--total_steps=3"], "--total_steps: the plays of each run"),
        (["--against", "highest", "--players", "4", "--pool.share", "1"], "--pool.share: the agent is the only"),
        (["--against", "highest", "--players", "4", "--seeds", "1", "1"], "each may come once"),
        (["--against", "highest", "--players", "4", "--ppo.learning_rat", "1"], "do you mean ppo.learning_rate"),
        (["--against", "highest", "--players", "4", "--deals", "0"], "deals: 0"),
        (["--against", "highest", "--players", "4", "--steps", "0"], "total_steps: 0 is too small"),
        (["--compare", "a.json", "b.json"], "a.json"),
        ([], "one of the arguments --against --compare is required"),
    ],
)
def test_what_cannot_begin_ends_with_exit_code_2(tmp_path, monkeypatch, capsys, more, message):
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "mini.zip", Rules.miniature())
    assert main(more) == 2
    err = capsys.readouterr().err
    assert message in err and err.startswith("fool-best-response: error: ") and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mini.zip"]


def test_a_folder_of_another_run_is_left_alone(finished, capsys):
    assert main(arguments(finished.parent, "--seeds", "0", "--ppo.epochs", "1")) == 2
    assert "is a run of another config (ppo.epochs: 3, not 1)" in capsys.readouterr().err


def test_a_run_that_fails_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fool_env.train.run_process.train", lambda script, arguments, lock, stop: 3)
    assert main(arguments(tmp_path)) == 1
    assert "ended with exit code 3" in capsys.readouterr().err
