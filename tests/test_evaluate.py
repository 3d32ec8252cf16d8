"""The evaluation script: its table, JSON and plot, and one clear line for every mistake."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import write_checkpoint

from fool_env import Rules
from fool_env.agents.agent import make_agent
from fool_env.observation import OBSERVATION_VERSION
from fool_env.train import evaluate as script
from fool_env.transcript import read_transcripts

SCRIPT = Path(__file__).resolve().parents[1] / "train" / "evaluate.py"
RESULT_FIELDS = ["candidate", "opponent", "omniscient", "deals", "points", "points_ci", "relative", "relative_ci"]
RESULT_FIELDS += ["gain", "gain_ci", "tens", "fool", "games", "wins", "wins_ci", "placement"]
REPORT_FIELDS = ["agent", "files", "players", "rules", "deals", "games", "precision", "seed", "sampling", "commit"]
REPORT_FIELDS += ["results"]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = script.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line with which the script refuses, exit code 2."""
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("fool-evaluate: error: ") and err.count("\n") == 1
    return err


# --- what it shows and writes


def test_it_prints_a_table_with_deals_seed_and_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    """FAULTS 37: whoever reads a result reads on how many deals it rests, and how far to trust it."""
    arguments = ["--agent", "highest", "--players", "4", "--opponents", "random", "random+lowest"]
    code, out, err = run(capsys, *arguments, "--deals", "60", "--games", "5", "--seed", "7")
    assert (code, err) == (0, "")
    assert "highest at tables of 4: 60 deals and 5 games (1/n of the wins: 25.0%)" in out and "seed 7" in out
    number = r"[+-]\d+\.\d\d ±\d+\.\d\d"
    share = r"\d+\.\d%"
    assert re.search(rf"random +{number} +{number} +{number} +{share} +{share} +{share} ±{share} +\d\.\d\d", out)
    assert re.search(rf"random\+lowest +{number} +{number} +- +{share} +{share} +{share} ±{share} +\d\.\d\d", out)
    _, without_games, _ = run(capsys, *arguments, "--deals", "10")
    assert "wins" not in without_games and "place" not in without_games


def test_json_holds_what_was_asked_and_what_came_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    opponents = ["random", "lowest+highest"]
    run(capsys, "--agent", "cautious", "--players", 5, "--opponents", *opponents, "--deals", 20, "--json", path)
    report = json.loads(path.read_text())
    assert list(report) == REPORT_FIELDS
    commit = report.pop("commit")
    assert commit is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", commit)
    results = report.pop("results")
    rules = Rules.official(5).to_dict()
    asked = {"agent": "cautious", "files": {}, "players": 5, "rules": rules, "deals": 20, "games": 0}
    assert report == {**asked, "precision": None, "seed": 0, "sampling": True}
    assert [result["opponent"] for result in results] == opponents
    for result in results:
        assert list(result) == RESULT_FIELDS
        for name in ("points", "relative", "gain"):
            interval = result[f"{name}_ci"]
            assert (interval is None) == (result[name] is None)
            assert interval is None or interval[0] <= result[name] <= interval[1]
        assert 0 <= result["tens"] <= 1 and 0 <= result["fool"] <= 1
        assert (result["candidate"], result["deals"], result["games"]) == ("cautious", 20, 0)
        assert (result["wins"], result["wins_ci"], result["placement"]) == (None, None, None)
    assert results[0]["gain"] is not None and results[1]["gain"] is None


def test_equal_calls_give_equal_files_and_other_seeds_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def results(name: str, seed: int) -> str:
        options = ["--deals", 10, "--games", 2, "--seed", seed, "--json", tmp_path / name]
        run(capsys, "--agent", "random", "--players", 4, "--opponents", "random", *options)
        return json.dumps(json.loads((tmp_path / name).read_text())["results"])

    assert results("a", 1) == results("b", 1) != results("c", 2)


def test_plot_is_a_png(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "result.png"
    options = ["--opponents", "random", "random+lowest", "--deals", 5, "--plot", path]
    code, _, err = run(capsys, "--agent", "highest", "--players", 4, *options)
    assert (code, err) == (0, "")
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    code, _, err = run(capsys, "--agent", "highest", "--players", 4, "--deals", 1, "--plot", path)
    assert (code, err) == (0, ""), "one deal has no interval to draw"


def test_a_checkpoint_brings_its_rules_and_samples_unless_told_otherwise(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    checkpoint = write_checkpoint(tmp_path / "mini.zip", Rules.miniature())
    options = ["--checkpoint", checkpoint, "--deals", 20, "--games", 2, "--json", tmp_path / "result.json"]
    code, out, _ = run(capsys, *options, "--opponents", "random", checkpoint, "--players", 3)
    sampled = json.loads((tmp_path / "result.json").read_text())
    assert code == 0 and "trained agents sample" in out
    assert sampled["agent"] == checkpoint and sampled["sampling"] is True
    assert sampled["rules"] == Rules.miniature().to_dict()
    assert sampled["results"][1]["opponent"] == checkpoint
    assert sampled["results"][1]["gain_ci"][0] < sampled["results"][1]["gain_ci"][1], "independent streams"
    code, out, _ = run(capsys, *options, "--opponents", "random", checkpoint, "--deterministic")
    likeliest = json.loads((tmp_path / "result.json").read_text())
    assert code == 0 and "trained agents play their likeliest card" in out
    assert likeliest["sampling"] is False
    assert likeliest["results"][0]["points"] != sampled["results"][0]["points"]
    assert likeliest["results"][1]["gain_ci"] == [0, 0], "a deterministic agent against itself"


def test_a_checkpoint_may_be_an_opponent_and_set_the_rules(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "mini.zip", Rules.miniature())
    code, out, _ = run(capsys, "--agent", "cautious", "--opponents", f"{checkpoint}+highest", "--deals", 5)
    assert code == 0 and "at tables of 3" in out


# --- precision, both ways, and who sees all hands


def test_precision_plays_fewer_deals_and_says_how_many(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    options = ["--precision", 30, "--deals", 1500, "--json", path]
    code, out, _ = run(capsys, "--agent", "highest", "--players", 4, "--opponents", "random", *options)
    assert code == 0 and "up to 1,500 deals, enough for ±30" in out
    assert re.search(r"random .* 200 *\n", out)
    report = json.loads(path.read_text())
    assert (report["precision"], report["deals"], report["results"][0]["deals"]) == (30, 1500, 200)


def test_both_ways_shows_each_alone_among_the_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--both-ways", "--deals", 30, "--json", tmp_path / "a.json", "--plot", tmp_path / "a.png"]
    arguments = ["--agent", "highest", "--players", 4, "--opponents", "random", "random+lowest"]
    code, out, err = run(capsys, *arguments, *options)
    assert (code, err) == (0, "") and re.search(r"alone +against", out)
    rows = [("highest", "random"), ("random", "highest"), ("highest", "random+lowest"), ("lowest", "highest")]
    for alone, opponent in rows:
        assert re.search(rf"^ *{alone} +{re.escape(opponent)} +[+-]", out, re.MULTILINE)
    results = json.loads((tmp_path / "a.json").read_text())["results"]
    assert [(result["candidate"], result["opponent"]) for result in results] == rows
    run(capsys, "--agent", "random", "--players", 4, "--opponents", "highest", *options[1:])
    assert json.loads((tmp_path / "a.json").read_text())["results"] == [results[1]]


def test_who_sees_all_hands_has_to_be_asked_for_and_is_marked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cheat = "cheat:iterations=5"
    for arguments in (
        ["--agent", cheat, "--opponents", "random"],
        ["--agent", "random", "--opponents", f"random+{cheat}"],
    ):
        line = refused(capsys, *arguments, "--players", 4)
        assert cheat in line and "upper bound" in line and "--allow-omniscient" in line
    options = ["--allow-omniscient", "--players", 4, "--deals", 3, "--json", tmp_path / "a.json"]
    code, out, _ = run(capsys, "--agent", "random", "--opponents", "highest", cheat, *options)
    assert code == 0 and re.search(rf"{cheat} \* ", out) and "highest *" not in out
    assert "sees all hands: bounds, not strengths" in out
    assert [one["omniscient"] for one in json.loads((tmp_path / "a.json").read_text())["results"]] == [False, True]
    _, out, _ = run(capsys, "--agent", "random", "--opponents", "highest", *options)
    assert "sees all hands" not in out


def test_transcripts_hold_every_game(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    options = ["--deals", 3, "--games", 1, "--transcripts", path]
    code, _, err = run(capsys, "--agent", "highest", "--players", 4, "--opponents", "random", "random+lowest", *options)
    assert (code, err) == (0, "")
    games = read_transcripts(path)
    assert len(games) == (3 * 5 + 4) + (3 * 4 + 4)
    assert games[0].agents == ("highest", "random", "random", "random")
    assert games[-1].agents[3] == "highest" and games[-1].episode == "game" and games[-1].winners


# --- interruptions


def test_ctrl_c_keeps_what_is_finished(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupter:
        name = "interrupter"

        def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("the signal should have ended this")

    def make(spec: str, *how: bool, **more: bool) -> list[Any]:
        return [Interrupter()] if spec == "interrupter" else make_opponents(spec, *how, **more)

    make_opponents = script.make_opponents
    monkeypatch.setattr(script, "make_opponents", make)
    path = tmp_path / "result.json"
    options = ["--players", 4, "--deals", 5, "--json", path]
    code, out, err = run(capsys, "--agent", "highest", "--opponents", "random", "interrupter", "lowest", *options)
    assert code == 130
    assert "1 of 3 tables finished; with --results FILE" in err
    assert "random" in out and "lowest" not in out
    assert [result["opponent"] for result in json.loads(path.read_text())["results"]] == ["random"]
    results = tmp_path / "results.jsonl"
    code, out, err = run(capsys, "--agent", "highest", "--opponents", "interrupter", *options, "--results", results)
    assert (code, out) == (130, "") and f"0 of 1 tables finished; the same command goes on from {results}" in err


# --- what it refuses


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "one of the arguments --checkpoint --agent is required"),
        ("--agent random --checkpoint a.zip --players 4", "not allowed with"),
        ("--agent random", "--players is needed"),
        ("--agent randm --players 4", 'do you mean "random"'),
        ("--agent random --players 4 --opponents nobody", 'no agent "nobody"'),
        ("--agent random --players 4 --opponents highest+", 'no agent ""'),
        ("--agent random --players 4 --opponents highest:depth=3", "no option"),
        ("--agent random --players 4 --opponents", "--opponents: expected at least one argument"),
        ("--agent random --players 3", "3 is not within 4 to 8"),
        ("--agent random --players nine", "--players: invalid int value: 'nine'"),
        ("--agent random --players 4 --deals 0", "--deals 0: at least 1"),
        ("--agent random --players 4 --games -1", "--games -1"),
        ("--agent random --players 4 --seed -1", "seed: -1"),
        ("--agent random --players 4 --precision 0", "--precision 0.0: has to be above 0"),
        ("--agent random --players 4 --precision nan", "--precision nan"),
        ("--agent random --players 4 --workers 0", "--workers 0: at least 1"),
        ("--agent random --players 4 --json a.json --results a.json", "a.json: two files of one name"),
        ("--agent random --players 4 --results nowhere/a.jsonl", "there is no folder nowhere"),
        ("--agent random --players 4 --transcripts .", "is a folder"),
        ("--agent random --players 4 --sead 1", "unrecognized arguments: --sead 1"),
        ("--agent random --players 4 --det", "unrecognized arguments: --det"),
        ("--checkpoint highest --players 4", "--agent"),
        ("--checkpoint missing.zip", "missing.zip"),
        ("--agent random --players 4 --opponents missing.zip", "missing.zip"),
        ("--agent random --players 4 --json nowhere/result.json", "there is no folder nowhere"),
        ("--agent random --players 4 --plot .", "is a folder"),
    ],
)
def test_mistakes_on_the_command_line(capsys: pytest.CaptureFixture[str], arguments: str, says: str) -> None:
    assert says in refused(capsys, *arguments.split())


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


class Payload:
    """What a malicious checkpoint would run when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self._path),)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda path: (write_checkpoint(path, Rules.official(6)), truncate(path)), "zip"),
    "no zip": (lambda path: path.write_text("not a zip"), "zip"),
    "empty": (lambda path: path.write_bytes(b""), "zip"),
    "foreign zip": (lambda path: zipfile.ZipFile(path, "w").close(), "fool.json"),
    "a folder": (lambda path: path.mkdir(), "agent.zip"),
    "observation": (
        lambda path: write_checkpoint(path, Rules.official(6), {"observation_version": 99}),
        rf"observation version 99.*{OBSERVATION_VERSION}",
    ),
    "rules": (lambda path: write_checkpoint(path, Rules.official(6), {"rules": [{"num_players": 6}]}), "rules lack"),
    "code": (
        lambda path: write_checkpoint(path, Rules.official(6), weights=Payload(path.with_name("executed"))),
        "code",
    ),
    "other network": (
        lambda path: write_checkpoint(path, Rules.official(6), {"network": {"kind": "mlp", "hidden": [8, 8]}}),
        "do not fit",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_and_foreign_checkpoints(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    path = tmp_path / "agent.zip"
    damage, says = BROKEN[kind]
    damage(path)
    for arguments in (["--checkpoint", path], ["--agent", "random", "--opponents", path]):
        line = refused(capsys, *arguments, "--deals", 1)
        assert str(path) in line and re.search(says, line)
    assert not (tmp_path / "executed").exists(), "code in a checkpoint has run"


def test_numbers_of_players_and_rules_that_disagree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    six = write_checkpoint(tmp_path / "six.zip", Rules.official(6))
    old = write_checkpoint(tmp_path / "old.zip", Rules.foppen_1995(6))
    assert f"--players 4: {six} was trained for 6" in refused(capsys, "--checkpoint", six, "--players", 4)
    assert "trained for 6" in refused(capsys, "--agent", "random", "--players", 5, "--opponents", "lowest", six)
    assert "different rules" in refused(capsys, "--checkpoint", six, "--opponents", old)


def test_a_file_that_cannot_be_written_costs_no_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    options = ["--opponents", "random", "--deals", 2, "--json", tmp_path / "result.json"]
    code, out, err = run(capsys, "--agent", "highest", "--players", 4, *options)
    assert code == 2 and "No space left" in err and err.count("\n") == 1
    assert "random" in out


def test_another_tasks_results_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    options = ["--players", 4, "--deals", 2, "--opponents", "random", "--results", path]
    assert run(capsys, "--agent", "highest", *options)[0] == 0
    line = refused(capsys, "--agent", "highest", *options, "--seed", 1)
    assert f"{path} holds results of another task (seed: 0, not 1)" in line
    path.write_text("my notes\n")
    assert str(path) in refused(capsys, "--agent", "highest", *options) and path.read_text() == "my notes\n"


def test_a_full_disk_or_a_dead_worker_costs_no_finished_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = script.evaluate_matchup

    def fail(matchup: Any, *terms: Any, **how: Any) -> Any:
        if matchup[1][0].name == "lowest":
            raise ChildProcessError("a worker process ended")
        return evaluate(matchup, *terms, **how)

    monkeypatch.setattr(script, "evaluate_matchup", fail)
    options = ["--players", 4, "--deals", 2, "--opponents", "random", "lowest"]
    code, out, err = run(capsys, "--agent", "highest", *options)
    assert code == 2 and err == "fool-evaluate: error: a worker process ended\n"
    assert "random" in out and "lowest" not in out


# --- as a script


def test_help_explains_every_option_with_its_default() -> None:
    result = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True)
    text = " ".join(result.stdout.split())
    options = {line.split()[0].rstrip(",") for line in result.stdout.splitlines() if line.startswith("  --")}
    assert options == {
        *("--checkpoint", "--agent", "--opponents", "--both-ways", "--players", "--deals", "--games", "--precision"),
        *(
            "--seed",
            "--deterministic",
            "--allow-omniscient",
            "--workers",
            "--results",
            "--transcripts",
            "--json",
            "--plot",
        ),
    }
    for default in ("random highest cautious", "the checkpoint's", "1000", "0", "they sample", "do not", "refuse them"):
        assert f"(default: {default})" in text


def test_the_script_exits_with_2_and_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.zip"
    broken.write_text("broken")
    result = subprocess.run([sys.executable, SCRIPT, "--checkpoint", broken], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stdout == "" and result.stderr.count("\n") == 1 and str(broken) in result.stderr


def test_every_scripted_agent_can_be_candidate_and_opponent(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("random", "lowest", "highest", "cautious"):
        assert make_agent(name).name == name
        code, out, _ = run(capsys, "--agent", name, "--players", 8, "--opponents", name, "--deals", 2)
        assert code == 0 and out.count(name) == 2
