"""Runs of deep Monte-Carlo: the folder, exact resumption, and the agent."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch as th
from checkpoints import write_checkpoint
from run_folders import assert_same, assert_same_run, rows_without_times

from fool_env import FoolVectorEnv, Rules
from fool_env.agents.agent import make_agent
from fool_env.agents.neural import CheckpointError, load_agent, read_description, read_weights
from fool_env.observation import encode
from fool_env.train import dmc, evaluate, ppo
from fool_env.train.checkpoint import load_checkpoint, save_checkpoint
from fool_env.train.config import ConfigError, load_run_config, parse_config, parse_run_config
from fool_env.train.dmc import DmcRunConfig
from fool_env.train.stages import start_from

ROOT = Path(__file__).resolve().parents[1]

TINY = """
name: tiny
total_steps: 6000
checkpoint_every: 2000
table: {num_players: 4, num_tables: 40}
network: {hidden: [32, 32]}
dmc: {steps: 25, minibatch: 256}
evaluation: {opponents: [highest], every: 4000, deals: 5, final_deals: 10, final_games: 2}
"""


def command(folder: Path, *arguments: str) -> list[str]:
    (folder / "tiny.yaml").write_text(TINY)
    return ["--config", str(folder / "tiny.yaml"), "--runs", str(folder), *arguments]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run that was never interrupted."""
    folder = tmp_path_factory.mktemp("finished")
    assert dmc.main(command(folder)) == 0
    return folder / "tiny"


def test_a_run_leaves_all_that_it_promises(finished):
    names = {path.name for path in finished.iterdir()}
    assert names == {
        *("config.yaml", "progress.csv", "tensorboard", "train.log", "checkpoints"),
        *("ladder.json", "curves.png", "final.zip"),
    }
    rows = rows_without_times(finished)
    assert [int(row["time/total_timesteps"]) for row in rows] == list(range(1000, 6001, 1000))
    assert rows[0]["train/loss"] == "" and rows[0]["rollout/decisions"] == "0"  # no round has ended in 25 plays
    assert all(0 < float(row["train/loss"]) < 10 for row in rows[3:])
    epsilons = [float(row["train/epsilon"]) for row in rows]
    assert epsilons[0] == pytest.approx(dmc.DmcConfig().epsilon) and epsilons == sorted(epsilons, reverse=True)
    ladder = json.loads((finished / "ladder.json").read_text())
    assert [entry["steps"] for entry in ladder["history"]] == [4000]
    assert not ladder["sampling"]
    assert load_run_config(DmcRunConfig, finished / "config.yaml").total_steps == 6000
    log = (finished / "train.log").read_text()
    assert "by chance" in log and "4 players" in log


@pytest.mark.parametrize("stop_after", [1, 4])
def test_a_run_interrupted_and_resumed_equals_one_that_was_not(finished, tmp_path, monkeypatch, capsys, stop_after):
    def press_ctrl_c(config, model, seconds, show=dmc.progress_line):
        if model.iteration == stop:
            os.kill(os.getpid(), signal.SIGINT)
        return show(config, model, seconds)

    monkeypatch.setattr(dmc, "progress_line", press_ctrl_c)
    run, stop = tmp_path / "tiny", stop_after
    assert dmc.main(command(tmp_path)) == 130
    assert f"python train/dmc.py --resume {run}" in capsys.readouterr().out.replace("\n", "")
    stop = None
    assert dmc.main(["--resume", str(run)]) == 0
    for path in (run / "checkpoints").iterdir():  # Ctrl-C saves besides the regular checkpoints
        if int(path.stem) % 2000:
            path.unlink()
    assert_same_run(finished, run)


@pytest.mark.parametrize(("episode", "critic"), [("round", "view"), ("game", "full")])
def test_a_resumed_model_has_the_same_future(tmp_path, episode, critic):
    """Including the decisions that waited when it was saved, and what their games had paid by then."""
    options = command(tmp_path, "--network.critic", critic, "--table.episode", episode)
    config = parse_run_config(DmcRunConfig, options)
    model = dmc.make_model(config)
    iterations = model.iterations(6000)
    for _ in range(3):
        next(iterations)
    save_checkpoint(tmp_path / "saved.zip", model, config, 12.5)
    resumed = dmc.make_model(config)
    assert load_checkpoint(tmp_path / "saved.zip", resumed) == 12.5
    assert (resumed.num_timesteps, resumed.iteration, resumed.updates) == (3000, 3, model.updates)
    assert resumed.buffer.size > 200
    assert (resumed.buffer._paid != 0).any() == (episode == "game")
    next(iterations)
    next(resumed.iterations(3000))
    assert resumed.buffer.carried == model.buffer.carried > 200
    assert_same(dict(model.policy.state_dict()), dict(resumed.policy.state_dict()))
    assert_same(model.optimizer.state_dict(), resumed.optimizer.state_dict())
    assert_same(model.run_state(), resumed.run_state())


# --- the agent


def some_views(count: int = 300) -> np.ndarray:
    tables = FoolVectorEnv(count, Rules.official(4), "round", seed=11)
    rng = np.random.default_rng(0)
    for _ in range(20):
        tables.step((tables.masks * rng.random(tables.masks.shape)).argmax(1))
    return tables.views


def test_the_agent_plays_the_legal_card_of_the_highest_value(finished):
    config = load_run_config(DmcRunConfig, finished / "config.yaml")
    model = dmc.make_model(config)
    load_checkpoint(finished / "final.zip", model)
    tables = FoolVectorEnv(300, Rules.official(4), "round", seed=11)
    rng = np.random.default_rng(0)
    agent = make_agent(str(finished / "final.zip"))
    assert agent.deterministic
    for _ in range(20):
        observations, masks = th.from_numpy(encode(tables.views)), th.from_numpy(tables.masks).bool()
        with th.no_grad():
            values = model.policy(observations, th.zeros(300, 0)).masked_fill(~masks, -np.inf)
        chosen = agent.act(tables.views, rng.integers(2**63, size=300).astype(np.uint64))
        best = values.max(1).values
        th.testing.assert_close(values[th.arange(300), th.from_numpy(chosen)], best, atol=1e-5, rtol=0)
        tables.step((tables.masks * rng.random(tables.masks.shape)).argmax(1))


def test_a_checkpoint_says_how_it_was_trained_and_how_it_chooses(finished, tmp_path):
    description = read_description(finished / "final.zip")
    assert (description["method"], description["choice"]) == ("dmc", "greedy")
    assert description["config"]["dmc"]["minibatch"] == 256
    sampler = load_agent(write_checkpoint(tmp_path / "sampler.zip", Rules.official(4)))
    assert not sampler.deterministic
    greedy = load_agent(write_checkpoint(tmp_path / "greedy.zip", Rules.official(4), {"choice": "greedy"}))
    views = some_views()
    seeds = np.arange(len(views), dtype=np.uint64)
    np.testing.assert_array_equal(greedy.act(views, seeds), greedy.act(views, seeds + np.uint64(1000)))
    assert (sampler.act(views, seeds) != sampler.act(views, seeds + np.uint64(1000))).any()
    with pytest.raises(CheckpointError, match="there is no choice 'whim'"):
        load_agent(write_checkpoint(tmp_path / "bad.zip", Rules.official(4), {"choice": "whim"}))


def test_ppo_may_start_from_such_a_policy_but_not_from_its_values(finished):
    """They are what is left beside the actions', up to a constant."""
    options = ["--table.num_players", "4", "--network.hidden", "[32, 32]", "--init", str(finished / "final.zip")]
    config = parse_config([*options, "--table.num_tables", "4"])
    model = ppo.make_model(config)
    assert "policy, without its values" in start_from(config, model)
    assert not model.policy.value_net.weight.any()
    learnt = read_weights(finished / "final.zip")["action_net.weight"]
    assert th.equal(model.policy.action_net.weight, learnt)


def test_an_evaluation_says_that_it_was_greedy(finished, capsys):
    options = ["--checkpoint", str(finished / "final.zip"), "--opponents", "highest", "--deals", "2"]
    report = finished.parent / "report.json"
    assert evaluate.main([*options, "--workers", "1", "--json", str(report)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "trained agents sample, but for this one, which was trained to be greedy" in out
    assert json.loads(report.read_text())["sampling"] is False


# --- what cannot begin


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume", "nowhere"], "nowhere is not the folder of a run"),
        (["--dmc.epsilom", "1"], "do you mean dmc.epsilon"),
        (["--ppo.epochs", "1"], "do you mean dmc.epochs"),
        (["--dmc.epsilon", "1.5"], "dmc.epsilon: 1.5 is not within 0 to 1"),
        (["--dmc.final_epsilon", "-0.1"], "dmc.final_epsilon"),
        (["--dmc.td_lambda", "2"], "dmc.td_lambda"),
        (["--dmc.steps", "0"], "dmc.steps: 0 is too small"),
        (["--table.episode", "game", "--table.rounds_first", "1000"], "table.rounds_first: only train/ppo.py"),
        (["--evaluation.opponents", "[higest]"], 'evaluation.opponents: there is no agent "higest"'),
    ],
)
def test_what_cannot_begin_ends_with_exit_code_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert dmc.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("fool-dmc: error: ") and message in error
    assert not list(tmp_path.iterdir())


def test_a_run_is_resumed_by_the_script_of_its_method(finished, capsys):
    assert ppo.main(["--resume", str(finished)]) == 2
    assert "of the method dmc, and train/ppo.py goes on with ppo" in capsys.readouterr().err


def test_the_projects_config_is_one_of_this_method():
    config = parse_run_config(DmcRunConfig, ["--config", str(ROOT / "configs" / "6p-dmc.yaml")])
    assert config.name == "6p-dmc" and config.table.make_rules() == [Rules.official(6)]
    with pytest.raises(ConfigError, match="higher"):
        parse_run_config(DmcRunConfig, ["--higher", "1"])
