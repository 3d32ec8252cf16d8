"""Shipped agents: `pretrained:NAME` plays what a run's checkpoint plays, and its card says only what files say."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from positions import decisions

from fool_env import Rules
from fool_env.agents import shipped
from fool_env.agents.agent import AgentError, make_agent, recipe
from fool_env.agents.arena import evaluate, make_opponents
from fool_env.agents.batches import describe_task
from fool_env.agents.neural import NeuralAgent, load_agent, read_description
from fool_env.train import evaluate as evaluate_script
from fool_env.train import publish as script
from fool_env.train.checkpoint import save_checkpoint
from fool_env.train.config import TrainConfig, parse_config
from fool_env.train.model_card import public_description
from fool_env.train.ppo import make_model

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = "--name secret-run --table.num_players 4 --table.num_tables 8 --network.hidden [16] --seed 7 --shards 1"
HOURS = 1.5

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def config() -> TrainConfig:
    return parse_config(OPTIONS.split())


@pytest.fixture(scope="module")
def checkpoint(config: TrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's checkpoint as it was before the first update."""
    path = tmp_path_factory.mktemp("run") / "final.zip"
    save_checkpoint(path, make_model(config), config, HOURS * 3600)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of shipped agents; what the scripts leave lies beside it."""
    path = tmp_path / "pretrained"
    path.mkdir()
    monkeypatch.setattr(shipped, "SHIPPED_FOLDER", path)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def planted(folder: Path, checkpoint: Path) -> NeuralAgent:
    """The agent `pretrained:4p`, without a card."""
    (folder / "4p.zip").write_bytes(script.slim(checkpoint))
    agent = make_agent("pretrained:4p")
    assert isinstance(agent, NeuralAgent)
    return agent


def publish(capsys: pytest.CaptureFixture[str], checkpoint: Path, *options: object) -> tuple[int, str, str]:
    arguments = ["--checkpoint", checkpoint, "--name", "4p", *options]
    code = script.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def check_shipped(name: str) -> None:
    """A shipped agent is small, safe, can be had by its name, and has a card for just this file."""
    path = shipped.shipped_path(name)
    content = path.read_bytes()
    assert len(content) <= script.MOST_BYTES
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["fool.json", "policy.pth"]
    card = path.with_suffix(".md").read_text()
    assert hashlib.sha256(content).hexdigest() in card
    assert f"| plays | {read_description(path)['steps']:,} |" in card
    spec = f"pretrained:{name}"
    assert card.startswith(f"# {spec}\n") and recipe(make_agent(spec))[0] == spec


# --- the agents


def test_whatever_is_shipped_is_fit_to_be_shipped() -> None:
    for name in shipped.shipped_names():
        check_shipped(name)
    cards = {path.stem for path in shipped.SHIPPED_FOLDER.glob("*.md")}
    assert cards == set(shipped.shipped_names())


def test_it_plays_exactly_as_the_checkpoint_does(planted: NeuralAgent, checkpoint: Path) -> None:
    views, seeds = decisions("official_4", 60)
    original = load_agent(checkpoint)
    np.testing.assert_array_equal(planted.act(views, seeds), original.act(views, seeds))
    np.testing.assert_array_equal(planted.probabilities(views), original.probabilities(views))
    likeliest = make_agent("pretrained:4p", deterministic=True)
    assert (likeliest.act(views, seeds) == likeliest.act(views, seeds + np.uint64(1))).all()
    assert (planted.act(views, seeds) != planted.act(views, seeds + np.uint64(1))).any()


def test_it_goes_wherever_an_agent_goes(planted: NeuralAgent) -> None:
    assert recipe(planted) == ("pretrained:4p", False)
    table = make_opponents("pretrained:4p+cautious")
    assert [agent.name for agent in table] == ["pretrained:4p", "cautious"]
    search = make_agent("pimc:worlds=2,policy=pretrained:4p")
    assert search.name == "pimc:worlds=2,policy=pretrained:4p" and recipe(search) == (search.name, False)
    result = evaluate(search, table, Rules.official(4), deals=2)
    assert (result.candidate, result.opponent) == (search.name, "pretrained:4p+cautious")


def test_results_know_which_file_played(planted: NeuralAgent, folder: Path) -> None:
    search = make_agent("pimc:worlds=2,policy=pretrained:4p")

    def digests() -> list[dict[str, Any]]:
        return list(describe_task([planted, search], Rules.official(4), 0)["agents"].values())

    digest = hashlib.sha256((folder / "4p.zip").read_bytes()).hexdigest()
    assert digests() == [{"pretrained:4p": digest}] * 2
    with zipfile.ZipFile(folder / "4p.zip", "a") as archive:
        archive.comment = b"another file"
    assert digests()[0] != {"pretrained:4p": digest}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("pretrained:6p", r'no pretrained agent "6p" \(do you mean "4p"\?\); there are 4p$'),
        ("pretrained:", r'no pretrained agent ""; there are 4p$'),
        ("pretrained:../4p", "no pretrained agent"),
        ("pretraind:4p", r'do you mean "pretrained:NAME"'),
        ("pimc:worlds=2,policy=pretrained:best", r'no pretrained agent "best"; there are 4p$'),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(planted: NeuralAgent, spec: str, says: str) -> None:
    with pytest.raises(AgentError, match=says):
        make_agent(spec)


def test_an_installation_without_agents_says_so(folder: Path) -> None:
    with pytest.raises(AgentError, match='no pretrained agent "4p"; this installation has none'):
        make_agent("pretrained:4p")


def test_without_pytorch_the_message_says_what_to_install(checkpoint: Path) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
from fool_env.agents.agent import AgentError, make_agent
try:
    make_agent({str(checkpoint)!r})
except AgentError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "needs PyTorch" in result.stdout and 'pip install "fool-env[train]"' in result.stdout


# --- the file


def test_the_file_holds_the_policy_alone_and_equal_agents_are_equal_files(checkpoint: Path, tmp_path: Path) -> None:
    content = script.slim(checkpoint)
    path = tmp_path / "slim.zip"
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["fool.json", "policy.pth"]
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        with archive.open("policy.pth") as file:
            state = th.load(file, weights_only=True)
    assert not [name for name in state if "value" in name or name.startswith(("pi_", "vf_"))]
    copy = tmp_path / "copy" / "again.zip"
    copy.parent.mkdir()
    shutil.copy(checkpoint, copy)
    assert script.slim(copy) == content and script.slim(path) == content
    assert len(content) < checkpoint.stat().st_size / 3
    assert "secret-run" not in path.read_bytes().decode("latin-1") + json.dumps(read_description(path))


def test_no_folder_of_the_machine_is_published() -> None:
    config = {"name": "x", "runs": "/home/me/runs", "init": "/home/me/runs/6p/final.zip", "seed": 3}
    config["pool"] = {"members": ["highest", "/home/me/runs/4p/final.zip"]}
    says = public_description({"steps": 5, "config": config})
    assert says == {
        "steps": 5,
        "config": {"init": "6p/final.zip", "seed": 3, "pool": {"members": ["highest", "4p/final.zip"]}},
    }


def test_what_is_too_large_is_not_shipped(
    capsys: pytest.CaptureFixture[str], folder: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "MOST_BYTES", 1000)
    code, out, err = publish(capsys, checkpoint)
    assert (code, out) == (2, "") and re.search(r"what plays takes [\d,]+ bytes, of 1,000 at most", err)
    assert not list(folder.iterdir())


# --- the card


def test_one_command_measures_and_publishes(
    capsys: pytest.CaptureFixture[str], folder: Path, checkpoint: Path, config: TrainConfig
) -> None:
    options = ["--opponents", "highest", "random+lowest", "--deals", 4, "--games", 2]
    code, out, err = publish(capsys, checkpoint, *options)
    assert (code, err) == (0, "") and "4p.zip" in out
    check_shipped("4p")
    card = (folder / "4p.md").read_text()
    assert "| time | 1.50 hours |" in card and "| training seed | 7 |" in card
    assert re.search(r"\| hardware \| \d+ cores? of .+; cpu \|", card)
    assert f"num_tables: {config.table.num_tables}" in card and "learning_rate: 0.001" in card
    assert "secret-run" not in card
    expected = evaluate(load_agent(checkpoint), make_opponents("highest"), Rules.official(4), deals=4, games=2)
    half = (expected.relative_ci[1] - expected.relative_ci[0]) / 2 if expected.relative_ci else 0.0
    row = next(line for line in card.splitlines() if line.startswith("| pretrained:4p | highest |"))
    assert f"| 4 | {expected.points:+.2f} ±" in row and f"| {expected.relative:+.2f} ±{half:.2f} |" in row
    assert f"| 2 | {expected.wins:.1%} ±" in row
    for alone, others in (
        ("highest", "pretrained:4p"),
        ("pretrained:4p", "random+lowest"),
        ("random", "pretrained:4p"),
    ):
        assert f"| {alone} | {others} | 4 |" in card
    before = card
    (played,) = Path("runs/publish").glob("*/4p-*.jsonl")
    batches = played.read_bytes()
    assert publish(capsys, checkpoint, *options)[0] == 0, "again, from what was kept"
    assert played.read_bytes() == batches and (folder / "4p.md").read_text() == before


def test_a_network_of_several_tables_is_measured_at_each(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "final.zip"
    config = parse_config([*OPTIONS.split(), "--table.num_players", "[4,5]"])
    save_checkpoint(path, make_model(config), config, HOURS * 3600)
    assert publish(capsys, path, "--opponents", "random", "--deals", 2, "--games", 0)[0] == 0
    card = (folder / "4p.md").read_text()
    assert "at tables of 4, 5 (official rules)" in card and "won" not in card.split("## How it fares")[1].split("##")[1]
    four, five = card.split("\n### ")[1:]
    for players, section in ((4, four), (5, five)):
        expected = evaluate(load_agent(path), make_opponents("random"), Rules.official(players), deals=2)
        assert section.startswith(f"{players} players\n") and f"| random | 2 | {expected.points:+.2f} ±" in section


def test_results_of_train_evaluate_are_taken_if_they_are_of_this_agent(
    capsys: pytest.CaptureFixture[str], folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    report, other = tmp_path / "report.json", tmp_path / "other.zip"
    options = ["--opponents", "random", "--deals", "3", "--json", str(report)]

    def measure(*arguments: str) -> None:
        assert evaluate_script.main([*arguments, *options]) == 0
        capsys.readouterr()

    measure("--checkpoint", str(checkpoint))
    assert publish(capsys, checkpoint, "--results", report)[0] == 0
    card = (folder / "4p.md").read_text()
    result = json.loads(report.read_text())["results"][0]
    assert f"| pretrained:4p | random | 3 | {result['points']:+.2f} ±" in card and "highest" not in card.split("## ")[2]
    assert not Path("runs").exists()
    measure("--agent", "pretrained:4p")
    assert publish(capsys, checkpoint, "--results", report)[0] == 0
    measure("--checkpoint", str(checkpoint), "--deterministic")
    assert "--deterministic" in publish(capsys, checkpoint, "--results", report)[2]
    shutil.copy(checkpoint, other)
    with zipfile.ZipFile(other, "a") as archive:
        archive.comment = b"other"
    measure("--checkpoint", str(other))
    assert "on another checkpoint" in publish(capsys, checkpoint, "--results", report)[2]
    measure("--agent", "highest", "--players", "4")
    assert "is no report of train/evaluate.py on a trained agent" in publish(capsys, checkpoint, "--results", report)[2]
    assert (folder / "4p.md").read_text() == card


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--checkpoint none.zip --name 4p", "none.zip: there is no such file"),
        ("--checkpoint slim.zip --name 4p", "slim.zip does not say how long its run took"),
        ("--checkpoint slim.zip --name a+b", "'a+b' is no name for an agent"),
        ("--checkpoint slim.zip", "--name"),
        ("--checkpoint full.zip --name 4p --opponents nobody", 'no agent "nobody"'),
        ("--checkpoint full.zip --name 4p --deals 0", "deals: 0"),
        ("--checkpoint full.zip --name 4p --results none.json", "none.json"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], folder: Path, checkpoint: Path, options: str, says: str) -> None:
    Path("slim.zip").write_bytes(script.slim(checkpoint))
    shutil.copy(checkpoint, "full.zip")
    assert script.main(options.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and says in captured.err
    assert not list(folder.iterdir())
