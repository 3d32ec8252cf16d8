"""The benchmark: tasks that never change, honest scores, and one command for any agent."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from checkpoints import write_checkpoint

from fool_env import Rules
from fool_env.agents.agent import make_agent
from fool_env.agents.arena import BENCHMARK, Terms, evaluate_matchup, make_opponents
from fool_env.agents.intervals import half_width
from fool_env.agents.match import Match
from fool_env.train import benchmark as script
from fool_env.train import tasks
from fool_env.train.tasks import Task, find_tasks, load_tasks, score

SCRIPT = Path(__file__).resolve().parents[1] / "train" / "benchmark.py"
SMALL = """\
fool-4p-round-v1: &round {players: 4, episode: round, opponents: [random, highest], count: 6, seed: 0, budgets: [9]}
fool-4p-round-v2: {<<: *round, count: 8}
fool-4p-round-v10: {<<: *round, count: 30}
fool-5p-game-v1: {<<: *round, players: 5, episode: game, count: 3}
"""

pytestmark = pytest.mark.usefixtures("one_thread")

# What tasks are. A line is added for a new one; none ever changes.
PINNED = {
    "fool-4p-round-v1": "d6351aa0ec64918a",
    "fool-6p-round-v1": "a7f15b945d200628",
    "fool-8p-round-v1": "30c6585ba33ee7dc",
    "fool-4p-game-v1": "613b0d668cda2028",
    "fool-6p-game-v1": "2d78ea56e333af92",
    "fool-8p-game-v1": "1e97b2ba2fa2801f",
}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark of little work, in a folder of its own."""
    (tmp_path / "tasks.yaml").write_text(SMALL)
    monkeypatch.setattr(tasks, "TASKS", tmp_path / "tasks.yaml")
    monkeypatch.setattr(tasks, "players_digest", lambda: "0123abc")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = script.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def values_of(agent: str, opponent: str, task: Task, episode: str) -> np.ndarray:
    """The candidate's relative points, or shares of wins, deal by deal, counted anew from the finished tables."""
    match = Match(make_agent(agent), make_opponents(opponent), task.rules, task.seed, BENCHMARK)
    games = match.play(episode, 0, task.count).games.reshape(task.count, -1)
    values = []
    for tables in games:
        each = []
        for seat in range(task.players):
            if episode == "round":
                points = tables["points"][seat, : task.players].astype(float)
                each.append(points[seat] - np.delete(points, seat).mean())
            else:
                totals = tables["scores"][seat, : task.players]
                each.append(float(totals[seat] == totals.max()) / (totals == totals.max()).sum())
        values.append(np.mean(each))
    return np.array(values)


# --- the tasks


def test_tasks_never_change() -> None:
    """And so nor do their scores: whoever has to change one adds it under a new name."""
    found = {
        name: hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()[:16]
        for name, task in yaml.safe_load(tasks.TASKS.read_text()).items()
    }
    assert found == PINNED


def test_names_say_what_tasks_are_and_every_opponent_can_be_had() -> None:
    for name, task in load_tasks().items():
        assert re.fullmatch(rf"fool-{task.players}p-{task.episode}-v\d+", name)
        assert [make_agent(opponent).name for opponent in task.opponents] == list(task.opponents)
        assert task.count > 1 and list(task.budgets) == sorted(task.budgets)
    assert {(task.players, task.episode) for task in load_tasks().values()} >= {
        (players, episode) for players in (4, 6, 8) for episode in ("round", "game")
    }


def test_opponents_play_as_they_did_when_the_tasks_were_made() -> None:
    """Points of `highest` at their tables, on the first two deals: if these change, tasks need new versions."""
    found = {}
    for name, task in load_tasks().items():
        if task.episode == "round":
            for opponent in task.opponents:
                match = Match(make_agent("highest"), make_opponents(opponent), task.rules, task.seed, BENCHMARK)
                points = match.play("round", 0, 2).games["points"]
                found[f"{name}, {opponent}"] = points.astype(int).sum(axis=1).tolist()
    assert found == json.loads((Path(__file__).parent / "data" / "benchmark.json").read_text())


def test_a_name_without_a_version_is_the_newest(small: Path) -> None:
    assert [task.name for task in find_tasks(["fool-4p-round"])] == ["fool-4p-round-v10"]
    assert [task.name for task in find_tasks(["fool-4p-round-v2"])] == ["fool-4p-round-v2"]
    assert [task.name for task in find_tasks(["all", "fool-4p-round-v1"])] == [
        *("fool-4p-round-v10", "fool-5p-game-v1", "fool-4p-round-v1")
    ]
    with pytest.raises(ValueError, match="no task 'fool-4p-match'; tasks are fool-4p-round, fool-5p-game, or all"):
        find_tasks(["fool-4p-match"])


# --- scores


@pytest.mark.parametrize(("name", "episode"), [("fool-4p-round", "round"), ("fool-5p-game", "game")])
def test_a_score_is_the_mean_over_opponents_with_an_interval_over_deals(small: Path, name: str, episode: str) -> None:
    [task] = find_tasks([name])
    found = score(task, "cautious")
    values = [values_of("cautious", opponent, task, episode) for opponent in task.opponents]
    assert found.scores == pytest.approx([each.mean() for each in values])
    assert found.score == pytest.approx(np.mean(values))
    half = half_width(np.mean(values, axis=0))
    assert found.score_ci == pytest.approx((found.score - half, found.score + half))
    for interval, each in zip(found.scores_ci, values, strict=True):
        assert interval == pytest.approx((each.mean() - half_width(each), each.mean() + half_width(each)))
    assert (found.count, found.agent, found.plays, found.budget) == (task.count, "cautious", 0, "no training")
    if episode == "round":
        terms = Terms(deals=task.count, purpose=BENCHMARK)
        again = evaluate_matchup((make_agent("cautious"), make_opponents("random")), task.rules, terms)
        assert found.scores[0] == again.relative


def test_equal_play_scores_what_chance_does(small: Path) -> None:
    [rounds, games] = find_tasks(["fool-4p-round", "fool-5p-game"])
    assert score(rounds, "highest").scores[1] == rounds.chance == 0
    assert score(games, "highest").scores[1] == pytest.approx(games.chance) == pytest.approx(1 / 5)


@pytest.mark.parametrize(
    ("plays", "budget"),
    [(0, "no training"), (1, "10 M"), (10_090_000, "10 M"), (10_200_000, "40 M"), (41_000_000, "unlimited")],
)
def test_budgets(plays: int, budget: str) -> None:
    task = load_tasks()["fool-6p-round-v1"]
    assert task.budgets == (10_000_000, 40_000_000) and task.budget(plays) == budget
    assert task.budget(None) == "unlimited"


def test_what_an_agent_was_trained_with_is_read_from_its_networks(small: Path) -> None:
    [task] = find_tasks(["fool-4p-round-v1"])
    path = write_checkpoint(small / "net.zip", Rules.official(4), {"steps": 12})
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    for spec in (path, f"pimc:worlds=1,policy={path}"):
        found = score(task, spec, count=1)
        assert (found.plays, found.files, found.sampling) == (12, {path: digest}, True)
    likeliest = score(task, path, count=1, deterministic=True)
    assert likeliest.sampling is False
    for says, plays in (
        ({"steps": 12, "steps_before": 5, "config": {"init": "runs/before.zip"}}, 17),
        ({"steps": 12, "config": {"init": "runs/before.zip"}}, None),
        ({}, None),
    ):
        other = write_checkpoint(small / "other.zip", Rules.official(4), says)
        assert score(task, other, count=1).plays == plays


def test_processes_and_interruptions_change_no_score(small: Path) -> None:
    [task] = find_tasks(["fool-4p-round-v10"])
    whole = score(task, "cautious").scores

    def interrupt(opponent: str, done: float, total: int) -> None:
        if opponent == "highest" and done > 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(task, "cautious", folder=small, progress=interrupt)
    [kept] = small.glob("0123abc/fool-4p-round-v10/*.jsonl")
    before = kept.read_bytes()
    assert before.count(b"highest at") + before.count(b"cautious at") == 3  # two batches at random, one at highest
    seen: list[float] = []
    again = score(task, "cautious", folder=small, progress=lambda opponent, done, total: seen.append(done))
    assert again.scores == whole and kept.read_bytes().startswith(before)


# --- the command


def test_one_command_prints_the_row_for_the_leaderboard(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    options = ["--task", "fool-4p-round", "fool-5p-game", "--agent", "cautious", "--json", "scores.json"]
    code, out, err = run(capsys, *options)
    assert (code, err) == (0, "")
    number, share = r"[+-]\d+\.\d\d ±\d+\.\d\d", r"\d+\.\d% ±\d+\.\d%"
    assert re.search(rf"\n\| cautious \| - \| no training \| {number} \| {number} \| {number} \| \S+ [µm]s \|\n", out)
    assert re.search(rf"\n\| cautious \| - \| no training \| {share} \| {share} \| {share} \| \S+ [µm]s \|\n", out)
    assert "30 deals in every seat, alone at a table of each of random, highest; seed 0" in " ".join(out.split())
    scores = json.loads(Path("scores.json").read_text())
    assert [one["task"] for one in scores] == ["fool-4p-round-v10", "fool-5p-game-v1"]
    [task] = find_tasks(["fool-4p-round"])
    assert scores[0]["score"] == score(task, "cautious").score and scores[0]["score_ci"][0] < scores[0]["score"]
    assert {"commit", "machine", "files", "sampling", "plays", "budget", "count", "scores"} <= scores[0].keys()
    kept = {path: path.read_bytes() for path in Path("runs/benchmark/0123abc").rglob("*.jsonl")}
    assert len(kept) == 2 and run(capsys, *options)[0] == 0
    assert {path: path.read_bytes() for path in kept} == kept, "nothing was played again"


def test_a_look_at_fewer_deals_is_no_score(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    code, out, _ = run(capsys, "--task", "fool-4p-round", "--agent", "highest", "--count", 2)
    assert code == 0 and "2 deals instead of 30: a look, no score" in out and "| highest |" not in out


def test_all_are_the_tasks_that_the_agent_was_trained_for(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    path = write_checkpoint(small / "net.zip", Rules.official(5))
    code, out, _ = run(capsys, "--task", "all", "--agent", path)
    assert code == 0 and "fool-5p-game-v1: 5 players" in out and "fool-4p" not in out
    line = run(capsys, "--task", "fool-4p-round", "--agent", path)[2]
    assert "was not trained for fool-4p-round-v10, which has tables of 4" in line


def test_a_run_is_drawn_over_its_plays(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    folder = small / "runs" / "mine"
    (folder / "checkpoints").mkdir(parents=True)
    for steps in (0, 500, 1500):
        write_checkpoint(folder / "checkpoints" / f"{steps:012d}.zip", Rules.official(4), {"steps": steps})
    code, out, err = run(capsys, "--task", "fool-4p-round-v1", "--run", folder)
    assert (code, err) == (0, "") and out.count("000000000500.zip") >= 1
    rows = list(csv.DictReader((folder / "fool-4p-round-v1.csv").read_text().splitlines()))
    assert [row["plays"] for row in rows] == ["0", "500", "1500"]
    [task] = find_tasks(["fool-4p-round-v1"])
    middle = score(task, str(folder / "checkpoints" / "000000000500.zip"))
    assert float(rows[1]["score"]) == middle.score and float(rows[1]["highest"]) == middle.scores[1]
    assert middle.score_ci is not None and float(rows[1]["low"]) == middle.score_ci[0]
    assert (folder / "fool-4p-round-v1.png").read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_keeps_what_is_finished(
    capsys: pytest.CaptureFixture[str], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = script.score

    def interrupted(task: Task, spec: str, **options: Any) -> Any:
        if task.episode == "game":
            raise KeyboardInterrupt
        return play(task, spec, **options)

    monkeypatch.setattr(script, "score", interrupted)
    code, out, err = run(capsys, "--task", "all", "--agent", "highest")
    assert code == 130 and err == "interrupted; the same command goes on from here\n"
    assert "| highest |" in out and list(Path("runs").rglob("fool-4p-round-v10/*.jsonl"))


def test_the_list_explains_tasks_and_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--list")
    text = " ".join(out.split())
    assert code == 0 and all(name in text for name in load_tasks())
    assert "10 M, 40 M, unlimited" in text and "share of games won" in text
    for line in script.PROTOCOL:
        assert line in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "one of the arguments --list --agent --run is required"),
        ("--agent highest", "--task is needed"),
        ("--agent highest --run runs/6p --task all", "not allowed with"),
        ("--agent highest --task fool-3p-round", "no task 'fool-3p-round'"),
        ("--agent nobody --task fool-4p-round", 'no agent "nobody"'),
        ("--agent cheat:iterations=3 --task fool-4p-round", "sees all hands: what it reaches is an upper bound"),
        ("--agent none.zip --task all", "none.zip"),
        ("--agent highest --task all --count 0", "--count 0"),
        ("--agent highest --task all --workers 0", "workers: 0"),
        ("--agent highest --task all --json nowhere/a.json", "there is no folder nowhere"),
        ("--run nowhere --task all", "nowhere is not the folder of a run"),
        ("--agent highest --tusk all", "--tusk"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], small: Path, arguments: str, says: str) -> None:
    code, out, err = run(capsys, *arguments.split())
    assert (code, out) == (2, "") and err.startswith("fool-benchmark: error: ") and err.count("\n") == 1
    assert says in err


def test_it_runs_as_a_script() -> None:
    result = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True)
    assert "--task" in result.stdout and "LEADERBOARD.md" in result.stdout
