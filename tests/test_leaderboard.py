"""The leaderboard: what it plays, what it writes, and how it goes on after an interruption."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
from checkpoints import write_checkpoint

from fool_env import Rules
from fool_env.agents import shipped
from fool_env.agents.agent import OmniscientAgent, make_agent
from fool_env.train import contest, tasks
from fool_env.train import leaderboard as script
from fool_env.train.provenance import players_digest, sources_digest

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "leaderboard.yaml"
SMALL = """\
seed: 3
pair_deals: 0
agents: [random, highest, cautious, "pimc:worlds=2", "cheat:iterations=4"]
allow_omniscient: true
tables:
  4: {deals: 10, games: 2}
  6: {deals: 8, games: 2, seed: 4, agents: [random, lowest]}
  8: {deals: 6, agents: [random, highest], more_agents: [cautious, "cheat:iterations=4"]}
tasks:
  fool-4p-round: [random, highest]
"""
TASKS = "fool-4p-round-v1: {players: 4, episode: round, opponents: [random], count: 3, seed: 0, budgets: [5]}"


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "REPLICATES", 10)
    monkeypatch.setattr(script, "source_commit", lambda: "89ab012")
    monkeypatch.setattr(script, "players_digest", lambda: "0123abc")


@pytest.fixture
def small_benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A task of little work."""
    (tmp_path / "tasks.yaml").write_text(TASKS)
    monkeypatch.setattr(tasks, "TASKS", tmp_path / "tasks.yaml")


def run(capsys: pytest.CaptureFixture[str], folder: Path, text: str, *more: object) -> tuple[int, str, str]:
    """The script with a config of this text, one worker, and all that it writes in a folder."""
    (folder / "small.yaml").write_text(text)
    options = ["--config", folder / "small.yaml", "--workers", 1, "--runs", folder / "runs", "--out", folder / "out.md"]
    code = script.main([str(option) for option in [*options, *more]])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_one_command_writes_a_table_for_each_number_of_players(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, small_benchmark: None
) -> None:
    code, out, err = run(capsys, tmp_path, SMALL)
    assert (code, err) == (0, "") and len(re.findall(r"4 players, rounds: 10 done after \d:\d\d:\d\d\n", out)) == 1
    assert len(re.findall(r"fool-4p-round-v1: (random|highest) scored after", out)) == 2
    text = (tmp_path / "out.md").read_text()
    assert "Commit 89ab012; fool-env " in text and "numba" in text and "CPU times on one core of" in text
    four, six, eight, benchmark = text.split("\n## ")[1:]
    assert four.startswith("4 players\n") and "10 deals and 2 games (wins by chance: 25.0%)" in four
    assert "seed 3" in four and "seed 4" in six and "seed 3" in eight
    for name in ("random", "highest", "cautious", "pimc:worlds=2"):
        numbers = r"[+-]\S+ ±\S+ \| [+-]\S+ ±\S+ \| \S+% ±\S+% \| \d+ \d+ \d+ \d+ \| \S+ \(\S+ to \S+\) \| \S+ [µm]s"
        assert re.search(rf"\n\| \d \| {name} \| {numbers} \|", four)
    assert re.search(r"\n\|  \| cheat:iterations=4 \(upper bound: sees all hands\) \|", four)
    assert "lowest" in six and "cautious" not in six and "lowest" not in eight
    assert [f"| {name}" in eight for name in ("cautious", "cheat:iterations=4", "pimc")] == [True, True, False]
    assert (
        benchmark.startswith("Benchmark tasks\n") and "### fool-4p-round-v1\n\n4 players, official rules" in benchmark
    )
    best, worst = [line.split(" | ") for line in benchmark.splitlines()[-2:]]
    assert best[:3] == ["| highest", "-", "no training"] and worst[0] == "| random"
    assert re.fullmatch(r"\+\d+\.\d\d ±\d+\.\d\d", best[3]) and best[3] == best[4]
    assert "games won" not in eight
    assert [players for players in (4, 6, 8) if (tmp_path / f"runs/0123abc/{players}p/standings.md").is_file()] == [
        4,
        6,
        8,
    ]
    report = json.loads((tmp_path / "runs/0123abc/6p/results.json").read_text())
    assert [report[key] for key in ("players", "deals", "games", "seed")] == [6, 8, 2, 4]


def test_an_interrupted_leaderboard_goes_on_with_the_same_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_benchmark: None
) -> None:
    play_tournament = script.play_tournament

    def interrupted(plan: contest.Plan, **options: object) -> contest.Tournament:
        if plan.rules.num_players == 6:
            signal.raise_signal(signal.SIGINT)
        return play_tournament(plan, **options)

    with monkeypatch.context() as patch:
        patch.setattr(script, "play_tournament", interrupted)
        code, _, err = run(capsys, tmp_path, SMALL)
    assert code == 130 and "interrupted; the same command goes on" in err
    assert not (tmp_path / "out.md").exists()
    batches = tmp_path / "runs/0123abc/4p/batches.jsonl"
    before = batches.read_bytes()
    code, _, err = run(capsys, tmp_path, SMALL)
    assert (code, err) == (0, "") and batches.read_bytes() == before


def test_what_other_sources_played_is_not_taken(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "agents: [random, highest]\ntables: {4: {deals: 4, pair_deals: 0}}\n"
    run(capsys, tmp_path, text)
    monkeypatch.setattr(script, "players_digest", lambda: "4567def")
    run(capsys, tmp_path, text)
    assert sorted(path.parts[-3] for path in tmp_path.glob("runs/*/4p/batches.jsonl")) == ["0123abc", "4567def"]


def test_the_digest_changes_with_every_edit_of_what_plays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    source = tmp_path / "a" / "agent.py"
    digests = []
    for text in ("x = 1\n", "x = 2\n", ""):
        source.write_text(text)
        digests.append(sources_digest(tmp_path, tmp_path / "a"))
    source.rename(source.with_name("other.py"))
    assert len({*digests, sources_digest(tmp_path, tmp_path / "a"), players_digest()}) == 5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agents: [random, highest]\n", "tables: None is not keys and values"),
        ("agent: [random]\ntables: {4: {}}\n", "there is no key 'agent'; do you mean agents?"),
        ("agents: [random, highest]\ntables: {4: {deal: 3}}\n", "tables.4: there is no key 'deal'; do you mean deals?"),
        ("agents: [random, highest]\ntables: {3: {deals: 3}}\n", "tables: there is no key 3"),
        ("tables: {4: {deals: 3}}\n", "tables.4: agents: None is not a list of names"),
        ("agents: random\ntables: {4: {deals: 3}}\n", "agents: 'random' is not a list of names"),
        ("agents: [random, highest]\ntables: {4: {deals: many}}\n", "tables.4: deals: 'many' is not a whole number"),
        ("agents: [random, highest]\ntables: {4: {deals: 0}}\n", "deals: 0"),
        ("agents: [random, hihgest]\ntables: {4: {deals: 3}}\n", 'do you mean "highest"'),
        (
            "agents: [random, highest, 'cheat:iterations=2']\ntables: {4: {deals: 3}}\n",
            "cheat:iterations=2 sees all hands",
        ),
        ("agents: [random, highest]\ntables: {4: {deals: 3, more_agents: 5}}\n", "more_agents: 5 is not a list"),
        (SMALL + "  fool-9p-round: [random]\n", "there is no task 'fool-9p-round'"),
        (SMALL + "  fool-6p-round: [nobody]\n", 'no agent "nobody"'),
        (SMALL + "  fool-6p-round: random\n", "tasks.fool-6p-round: 'random' is not a list of names"),
        (SMALL + "  fool-6p-round: ['cheat:iterations=2']\n", "cheat:iterations=2 sees all hands"),
        ("agents: [random\n", "small.yaml"),
        ("- random\n", "small.yaml"),
    ],
)
def test_mistakes_in_the_config(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, says: str) -> None:
    """FAULTS 51."""
    code, out, err = run(capsys, tmp_path, text)
    assert (code, out) == (2, "") and not (tmp_path / "runs").exists()
    assert err.startswith("leaderboard: error: ") and err.count("\n") == 1
    assert says in err and "small.yaml" in err


@pytest.mark.parametrize(
    ("option", "says"), [(("--workers", 0), "--workers 0"), (("--config", "none.yaml"), "none.yaml"), (("--x",), "--x")]
)
def test_mistakes_on_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: tuple[object, ...], says: str
) -> None:
    code, out, err = run(capsys, tmp_path, SMALL, *option)
    assert (code, out) == (2, "") and err.count("\n") == 1 and says in err


def test_the_leaderboard_of_the_project_holds_every_baseline_and_search_agents_at_several_budgets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shipped, "SHIPPED_FOLDER", tmp_path)
    for players in (4, 6, 8):
        write_checkpoint(tmp_path / f"{players}p.zip", Rules.official(players))
    plans = {plan.rules.num_players: plan for plan in script.load_plans(CONFIG)}
    assert set(plans) == {4, 6, 8}
    for players, plan in plans.items():
        assert {"random", "lowest", "highest", "cautious", f"pretrained:{players}p"} <= set(plan.field)
        for kind, budgets in (("pimc:", 5), ("ismcts:", 2)):
            assert sum(name.startswith(kind) for name in plan.field) >= budgets
        assert any(name.startswith("pimc:") and "rollout=cautious" in name for name in plan.field)
        assert plan.bounds and all(isinstance(agent, OmniscientAgent) for agent in plan.bounds.values())
        assert all(make_agent(name).name == name for name in (*plan.field, *plan.bounds))
        assert plan.deals % len(plan.field) == plan.games % len(plan.field) == 0, "so all sit equally often"
    entries = {task.name: agents for task, agents in script.load_entries(CONFIG)}
    assert entries.keys() == tasks.load_tasks().keys()
    for task, agents in entries.items():
        assert f"pretrained:{task.split('-')[1]}" in agents and "cautious" in agents
