"""Runs and their checkpoints: saved whole, resumed exactly, opened safely."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch as th
from run_folders import assert_same, assert_same_run, rows_without_times

from fool_env import FoolVectorEnv, Rules
from fool_env.agents.agent import make_agent
from fool_env.agents.neural import CheckpointError, load_agent, read_description
from fool_env.observation import OBSERVATION_VERSION, encode
from fool_env.train import ppo
from fool_env.train.checkpoint import load_checkpoint, save_checkpoint
from fool_env.train.config import load_config
from fool_env.train.distributed import Ranks

TINY = """
name: tiny
total_steps: 10000
checkpoint_every: 2000
table: {num_players: 4, num_tables: 40}
network: {hidden: [32, 32]}
ppo: {steps: 25, minibatch: 256}
evaluation: {opponents: [highest, random+lowest], every: 4000, deals: 5, final_deals: 10, final_games: 2}
"""


def command(folder: Path, *arguments: str) -> list[str]:
    (folder / "tiny.yaml").write_text(TINY)
    return ["--config", str(folder / "tiny.yaml"), "--runs", str(folder), *arguments]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run that was never interrupted."""
    folder = tmp_path_factory.mktemp("finished")
    assert ppo.main(command(folder)) == 0
    return folder / "tiny"


# --- runs


def test_a_run_leaves_all_that_it_promises(finished):
    names = {path.name for path in finished.iterdir()}
    assert names == {
        *("config.yaml", "progress.csv", "tensorboard", "train.log", "checkpoints"),
        *("ladder.json", "curves.png", "final.zip"),
    }
    assert list((finished / "tensorboard").glob("events*"))
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")
    rows = rows_without_times(finished)
    assert [int(row["time/total_timesteps"]) for row in rows] == list(range(1000, 10001, 1000))
    assert [int(row["time/iterations"]) for row in rows] == list(range(1, 11))
    ladder = json.loads((finished / "ladder.json").read_text())
    assert [entry["steps"] for entry in ladder["history"]] == [4000, 8000]
    assert [result["opponent"] for result in ladder["results"]] == ["highest", "random+lowest"]
    assert [result["players"] for result in ladder["results"]] == [4, 4]
    assert (ladder["deals"], ladder["games"], ladder["sampling"]) == (10, 2, True)
    assert [Rules.from_dict(rules) for rules in ladder["rules"]] == [Rules.official(4)]
    checkpoints = sorted(path.stem for path in (finished / "checkpoints").iterdir())
    assert [int(name) for name in checkpoints] == [0, 2000, 4000, 6000, 8000, 10000]
    assert load_config(finished / "config.yaml").total_steps == 10000


def test_a_run_does_not_overwrite_another(finished, capsys):
    before = (finished / "final.zip").read_bytes()
    assert ppo.main(command(finished.parent)) == 2
    assert "--resume" in capsys.readouterr().err
    assert (finished / "final.zip").read_bytes() == before


def test_a_run_may_begin_with_a_rollout_that_completes_no_decision(tmp_path):
    """So short that no seat came to its second one."""
    short = ["--total_steps", "160", "--ppo.steps", "1", "--evaluation.opponents", "[]"]
    assert ppo.main(command(tmp_path, *short)) == 0
    rows = rows_without_times(tmp_path / "tiny")
    assert rows[0]["train/entropy"] == "" and len(rows) == 4


@pytest.mark.parametrize("stop_after", [1, 5, 8, 10])
def test_a_run_interrupted_and_resumed_equals_one_that_was_not(finished, tmp_path, monkeypatch, capsys, stop_after):
    """Ctrl-C between any two iterations, and once more after the resumption."""
    stops = iter([stop_after, stop_after + 2])

    def press_ctrl_c(config, model, seconds, show=ppo.progress_line):
        if model.iteration == stop:
            os.kill(os.getpid(), signal.SIGINT)
        return show(config, model, seconds)

    monkeypatch.setattr(ppo, "progress_line", press_ctrl_c)
    run = tmp_path / "tiny"
    stop = next(stops)
    assert ppo.main(command(tmp_path)) == 130
    assert f"--resume {run}" in capsys.readouterr().out.replace("\n", "")
    stop = next(stops)
    assert ppo.main(["--resume", str(run)]) in (0, 130)
    stop = None
    assert ppo.main([f"--resume={run}"]) == 0
    for path in (run / "checkpoints").iterdir():  # Ctrl-C saves besides the regular checkpoints
        if int(path.stem) % 2000:
            path.unlink()
    assert_same_run(finished, run)


def test_a_killed_run_goes_on_from_its_last_checkpoint(finished, tmp_path):
    """SIGKILL in the middle of things, past a checkpoint; rows after it are neither lost nor doubled."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fool_env.train.ppo", *command(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    run = tmp_path / "tiny"
    progress = run / "progress.csv"
    deadline = time.monotonic() + 120
    while not (progress.exists() and progress.read_text().count("\n") > 4):
        assert process.poll() is None and time.monotonic() < deadline, process.stderr.read().decode()
        time.sleep(0.005)
    process.kill()
    process.wait()
    process.stderr.close()
    assert not (run / "final.zip").exists()
    with progress.open("a") as file:
        file.write("9,9")  # what a killed process may leave behind
    assert ppo.main(["--resume", str(run)]) == 0
    assert_same_run(finished, run)


@pytest.mark.parametrize("options", [(), ("--network.critic", "full", "--ppo.average_kl", "0.1")])
def test_a_resumed_model_has_the_same_future(tmp_path, options):
    """Including decisions that were open when it was saved, and the average policy."""
    assert ppo.main(command(tmp_path, "--total_steps", "3000", *options)) == 0
    config = load_config(tmp_path / "tiny" / "config.yaml")
    model = ppo.make_model(config)
    iterations = model.iterations(6000, reset_num_timesteps=False)
    for _ in range(3):
        next(iterations)
    save_checkpoint(tmp_path / "saved.zip", model, config, 12.5)
    resumed = ppo.make_model(config)
    assert load_checkpoint(tmp_path / "saved.zip", resumed) == 12.5
    assert (resumed.num_timesteps, resumed.iteration, resumed._n_updates) == (3000, 3, model._n_updates)
    assert resumed.rollout_buffer.open_rows.max() > 50
    next(iterations)
    next(resumed.iterations(3000, reset_num_timesteps=False))
    assert resumed.rollout_buffer.carried == model.rollout_buffer.carried > 50
    assert_same(model.get_parameters(), resumed.get_parameters())
    assert_same(model.run_state(), resumed.run_state())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume", "nowhere"], "nowhere is not the folder of a run"),
        (["--resume", "nowhere", "--seed", "3"], "takes no other option"),
        (["--resume"], "takes no other option"),
        (["--ppo.learning_rat", "1"], "do you mean ppo.learning_rate"),
        (["--evaluation.opponents", "[higest]"], 'evaluation.opponents: there is no agent "higest"'),
        (["--evaluation.opponents", "[lost.zip]"], "evaluation.opponents: lost.zip: there is no such file"),
    ],
)
def test_what_cannot_begin_ends_with_exit_code_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert ppo.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_opponent_of_other_rules_is_refused_at_once(finished, tmp_path, capsys):
    opponent = f"[{finished / 'final.zip'}]"
    arguments = command(tmp_path, "--table.num_players", "5", "--evaluation.opponents", opponent)
    assert ppo.main(arguments) == 2
    assert "was trained for" in capsys.readouterr().err


# --- agents


def some_views(num_players: int = 4, count: int = 300) -> np.ndarray:
    tables = FoolVectorEnv(count, Rules.official(num_players), "round", seed=11)
    rng = np.random.default_rng(0)
    for _ in range(20):
        tables.step((tables.masks * rng.random(tables.masks.shape)).argmax(1))
    return tables.views


def seeds_for(views: np.ndarray) -> np.ndarray:
    return np.random.default_rng(1).integers(2**63, size=len(views)).astype(np.uint64)


def test_the_agent_is_the_network_that_was_trained(finished):
    """The same logits from the trained policy, the agent in a fresh process, and MaskablePPO.load (FAULTS 30)."""
    from sb3_contrib import MaskablePPO

    views = some_views(count=1000)
    agent = load_agent(finished / "final.zip")
    assert agent.rules == (Rules.official(4),)
    logits = agent._logits(views)[: len(views)]
    np.save(finished.parent / "views.npy", views.view(np.uint8))
    script = (
        "import sys, numpy as np; from fool_env.agents.neural import load_agent; from fool_env.state import GAME;"
        "assert 'stable_baselines3' not in sys.modules and 'sb3_contrib' not in sys.modules;"
        f"views = np.load({str(finished.parent / 'views.npy')!r}).view(GAME);"
        f"np.save({str(finished.parent / 'logits.npy')!r}, load_agent({str(finished / 'final.zip')!r})._logits(views))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    np.testing.assert_array_equal(np.load(finished.parent / "logits.npy")[: len(views)], logits)

    stock = MaskablePPO.load(finished / "final.zip", device="cpu")
    with th.no_grad():
        features = stock.policy.extract_features(th.from_numpy(encode(views)))
        np.testing.assert_allclose(stock.policy.action_net(features).numpy(), logits, atol=1e-5)
    actions, _ = stock.predict(encode(views), deterministic=True, action_masks=masks_of(views))
    best = load_agent(finished / "final.zip", deterministic=True).act(views, seeds_for(views))
    assert (actions == best).mean() > 0.99  # but for ties


def masks_of(views: np.ndarray) -> np.ndarray:
    from fool_env.engine import legal_mask_of

    return np.array([legal_mask_of(view) for view in views]).astype(bool)


def test_choices_are_legal_and_depend_on_view_and_seed_alone(finished):
    agent = make_agent(str(finished / "final.zip"))
    assert agent.name == str(finished / "final.zip")
    views = some_views()
    seeds = seeds_for(views)
    actions = agent.act(views, seeds)
    assert actions.dtype == np.int64
    assert masks_of(views)[np.arange(len(views)), actions].all()
    order = np.random.default_rng(2).permutation(len(views))
    np.testing.assert_array_equal(agent.act(views[order], seeds[order]), actions[order])
    one_by_one = [agent.act(views[i : i + 1], seeds[i : i + 1])[0] for i in range(60)]
    np.testing.assert_array_equal(one_by_one, actions[:60])
    before = th.get_num_threads()
    try:
        th.set_num_threads(1)
        np.testing.assert_array_equal(agent.act(views, seeds), actions)
    finally:
        th.set_num_threads(before)
    assert (agent.act(views, seeds + np.uint64(1)) != actions).any()
    assert len(agent.act(views[:0], seeds[:0])) == 0
    deterministic = load_agent(finished / "final.zip", deterministic=True)
    np.testing.assert_array_equal(deterministic.act(views, seeds), deterministic.act(views, seeds + np.uint64(1)))


def test_sampling_follows_the_network(finished):
    agent = load_agent(finished / "final.zip")
    view = next(view for view, mask in zip(some_views(), masks_of(some_views()), strict=True) if mask.sum() >= 4)
    views = np.repeat(np.atleast_1d(view), 40_000)
    actions = agent.act(views, np.arange(len(views), dtype=np.uint64))
    mask = masks_of(views[:1])[0]
    logits = np.where(mask, agent._logits(views[:1])[0].astype(float), -np.inf)
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    np.testing.assert_allclose(np.bincount(actions, minlength=83) / len(views), probabilities, atol=0.01)


def test_a_network_is_shown_the_episodes_that_it_was_trained_on(finished):
    """One of rounds no totals; one of games no round that is not of a game."""
    agent = load_agent(finished / "final.zip")
    th.nn.init.normal_(agent.network.trunk.layers[0].weight)  # totals too
    agent.load({name: tensor.numpy() for name, tensor in agent.network.state_dict().items()})
    views = some_views()
    first, later = views.copy(), views.copy()
    first["one_round"] = later["one_round"] = 0
    later["scores"][:, :4] = -33
    later["tens"][:, 1] = 3
    as_round, shown = agent._logits(views), later.tobytes()
    np.testing.assert_array_equal(agent._logits(first), as_round)
    np.testing.assert_array_equal(agent._logits(later), as_round)
    agent.episode = "game"
    np.testing.assert_array_equal(agent._logits(views), agent._logits(first))
    assert (agent._logits(views) != as_round).any()
    assert (agent._logits(later) != agent._logits(first)).any()
    assert later.tobytes() == shown


def test_a_table_of_other_rules_is_refused_and_both_are_named(finished):
    agent = load_agent(finished / "final.zip")
    views = np.concatenate([some_views(4, 3), some_views(5, 2)])
    with pytest.raises(CheckpointError, match=r"other rules: num_players 4, but at this table it is 5"):
        agent.act(views, seeds_for(views))


# --- files that are no checkpoints


def altered(source: Path, target: Path, **members: bytes | None) -> Path:
    """A copy of a checkpoint with other members; None leaves one out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = members.get(name.replace(".", "_"), old.read(name))
            if content is not None:
                new.writestr(name, content)
    return target


def described(source: Path, target: Path, **fields: object) -> Path:
    description = read_description(source) | fields
    return altered(source, target, fool_json=json.dumps(description).encode())


class Payload:
    """Pickle that runs code when it is loaded."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self):
        return (os.system, (f"touch {self.proof}",))


def test_code_in_a_checkpoint_is_not_run(finished, tmp_path):
    proof = tmp_path / "proof"
    tensors = io.BytesIO()
    th.save({"action_net.weight": Payload(proof)}, tensors)
    for payload in (pickle.dumps(Payload(proof)), tensors.getvalue()):
        bad = altered(finished / "final.zip", tmp_path / "bad.zip", policy_pth=payload)
        with pytest.raises(CheckpointError, match=r"policy\.pth holds something else than tensors"):
            load_agent(bad)
    # What Stable-Baselines3 would unpickle is not even read.
    load_agent(altered(finished / "final.zip", tmp_path / "bad.zip", data=pickle.dumps(Payload(proof))))
    assert not proof.exists()


def test_a_checkpoint_of_another_version_is_refused_and_both_are_named(finished, tmp_path):
    version = OBSERVATION_VERSION + 1
    bad = described(finished / "final.zip", tmp_path / "bad.zip", observation_version=version)
    with pytest.raises(CheckpointError, match=f"observation version {version}, .* has {OBSERVATION_VERSION}"):
        load_agent(bad)
    with pytest.raises(CheckpointError, match=f"observation version {version}, .* has {OBSERVATION_VERSION}"):
        load_checkpoint(bad, SimpleNamespace(ranks=Ranks()))
    with pytest.raises(CheckpointError, match="checkpoint format 99"):
        load_agent(described(finished / "final.zip", tmp_path / "bad.zip", format=99))


def test_a_damaged_file_is_refused_with_the_reason(finished, tmp_path):
    whole = (finished / "final.zip").read_bytes()
    path = tmp_path / "bad.zip"

    def refused(match: str) -> None:
        with pytest.raises(CheckpointError, match=match) as caught:
            load_agent(path)
        assert str(path) in str(caught.value)

    refused("no such file")
    for content in (b"", b"not a zip", whole[: len(whole) // 2], whole[:-30]):
        path.write_bytes(content)
        refused("not a zip file, or a damaged one|or a truncated one")
    path.write_bytes(whole.replace(b'"format"', b'"fromat"'))
    refused("damaged|does not say")
    altered(finished / "final.zip", path, fool_json=None)
    refused(r"has no fool\.json")
    altered(finished / "final.zip", path, policy_pth=None)
    refused(r"has no policy\.pth")
    for text in (b"{", b"[]", b"{}", b'{"format": 1}'):
        altered(finished / "final.zip", path, fool_json=text)
        refused("does not say what it should")
    described(finished / "final.zip", path, rules=[{"num_players": 4}])
    refused("rules lack")
    official = Rules.official(4).to_dict()
    for rules in ([], official, [official, official]):
        described(finished / "final.zip", path, rules=rules)
        refused("does not say what it should")
    described(finished / "final.zip", path, episode="night")
    refused("night")
    described(finished / "final.zip", path, network={"kind": "facts", "hidden": [64, 64]})
    refused("do not fit")


def test_a_checkpoint_says_what_it_is(finished):
    description = read_description(finished / "final.zip")
    assert description["steps"] == 10_000 and description["seed"] == 0
    assert description["network"]["hidden"] == [32, 32]
    assert description["config"]["ppo"]["minibatch"] == 256
    assert description["packages"]["torch"] == th.__version__.split("+")[0] or description["packages"]["torch"]
    assert description["commit"] is None or len(description["commit"]) >= 40
