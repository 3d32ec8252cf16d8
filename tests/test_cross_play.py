"""Cross-play: pairs of agents at mixed tables, beside tables of their own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from planted import HIGHEST, Blend

from fool_env import Rules
from fool_env.agents.agent import make_agent
from fool_env.agents.arena import REPORT, Terms, evaluate
from fool_env.agents.intervals import mean_interval
from fool_env.agents.mixed import MixedTables
from fool_env.train import cross_play as script
from fool_env.train.cross_play import play_pairs

RULES = Rules.official(4)


class Twin:
    """`highest` under another name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return HIGHEST.act(views, seeds)


def test_agents_that_play_alike_play_each_other_exactly_as_well_as_themselves() -> None:
    result = play_pairs([Twin("one"), Twin("two"), Twin("three")], RULES, Terms(deals=6))
    assert list(result.means) == ["relative", "gain", "shared"]
    for measure, mean in result.means.items():
        assert mean == (0, (0, 0)) and set(result.pairs[measure].values()) == {mean}
        assert len(result.pairs[measure]) == 6
    assert len(set(result.own.values())) == 1


def test_the_figures_are_those_of_the_arena_and_of_mixed_tables() -> None:
    agents = [make_agent("random"), make_agent("highest"), Blend(0.5)]
    deals = 30
    result = play_pairs(agents, RULES, Terms(deals=deals, seed=3))
    alone = evaluate(agents[0], [agents[1]], RULES, deals=deals, seed=3)
    assert result.pairs["relative"]["random", "highest"] == (alone.relative, alone.relative_ci)
    assert result.pairs["gain"]["random", "highest"] == (alone.gain, alone.gain_ci)
    tables = MixedTables(agents[:2], RULES, "round", 3, purpose=REPORT).play(0, deals).results["results"]
    own = []
    for agent in agents[:2]:  # a table of one agent alone is one of the agent among copies
        among_copies = evaluate(Twin("x") if agent.name == "highest" else agent, [agent], RULES, deals=deals, seed=3)
        own.append(among_copies.points - (among_copies.gain or 0))
        assert result.own[agent.name][0] == pytest.approx(own[-1])
    shared = result.pairs["shared"]
    assert shared["random", "highest"] == shared["highest", "random"]
    assert shared["random", "highest"][0] == pytest.approx(tables.mean() - sum(own) / 2)
    for measure, pairs in result.pairs.items():
        assert result.means[measure][0] == pytest.approx(np.mean([mean for mean, _ in pairs.values()]))


def test_tables_half_and_half_say_who_is_the_stronger() -> None:
    agents, deals = [make_agent("random"), make_agent("highest"), Blend(0.5)], 20
    result = play_pairs(agents, RULES, Terms(deals=deals, seed=3))
    batch = MixedTables(agents[:2], RULES, "round", 3, purpose=REPORT)
    seating, points = batch.seating(0, deals), batch.play(0, deals).results["results"]
    ahead, best = [], []
    for seats, scores in zip(seating, points, strict=True):
        highest = [scores[table][seat] for table in range(len(seats)) for seat in range(4) if seats[table][seat] == 1]
        ahead.append(2 * (np.mean(scores) - np.mean(highest)))
        shares = [[row[seat] == max(row) for seat in range(4)] for row in scores]
        best.append(np.mean([sum(np.array(s)[t == 0]) / sum(s) for s, t in zip(shares, seats, strict=True)]))
    assert result.halves["ahead"]["random", "highest"][0] == pytest.approx(np.mean(ahead))
    assert result.halves["best"]["random", "highest"][0] == pytest.approx(np.mean(best))
    assert np.mean(ahead) < -3
    assert len(result.halves["best"]) == 3, "every pair once"


def test_twins_are_even_at_tables_half_and_half() -> None:
    halves = play_pairs([Twin("one"), Twin("two")], RULES, Terms(deals=20)).halves
    assert halves["ahead"]["one", "two"] == (0, (0, 0))
    assert halves["best"]["one", "two"] == (0.5, (0.5, 0.5))


def test_the_interval_of_a_mean_takes_deals_for_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not pairs, which share the luck of the deals."""
    counted: list[int] = []

    def counting(values: np.ndarray) -> object:
        counted.append(len(values))
        return mean_interval(values)

    monkeypatch.setattr(script, "mean_interval", counting)
    play_pairs([Twin("one"), make_agent("random"), Blend(0.5)], RULES, Terms(deals=7))
    assert set(counted) == {7}


def run(capsys: pytest.CaptureFixture[str], folder: Path, *more: object) -> tuple[int, str, str]:
    options = ["--agents", "random", "highest", "lowest", "--players", 4, "--deals", 10, "--out", folder, *more]
    code = script.main([str(option) for option in options])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_writes_its_results_and_goes_on_where_it_was_interrupted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = MixedTables.play

    def interrupted(*arguments: object, **options: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return play(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(MixedTables, "play", interrupted)
        code, _, err = run(capsys, tmp_path)
    assert code == 130 and "the same command goes on" in err
    before = (tmp_path / "batches.jsonl").read_text()
    assert before.count("\n") == 7, "the task, and each of six pairs with one alone"
    code, out, err = run(capsys, tmp_path)
    assert (code, err) == (0, "") and (tmp_path / "batches.jsonl").read_text().startswith(before)
    assert (tmp_path / "cross-play.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads((tmp_path / "cross-play.json").read_text())
    assert [report[key] for key in ("players", "deals", "seed")] == [4, 10, 0]
    assert len(report["gain"]["pairs"]) == 6 and len(report["own"]) == len(report["halves"]) == 3
    mean, (low, high) = report["gain"]["mean"]["points"], report["gain"]["mean"]["points_ci"]
    assert low < mean < high
    assert (
        f"| {mean:+.2f} ±{(high - low) / 2:.2f} |" in (tmp_path / "cross-play.md").read_text() and f"{mean:+.2f}" in out
    )


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--deals", 0], "deals: 0"),
        (["--workers", 0], "--workers 0"),
        (["--agents", "random"], "two or more of different names"),
        (["--agents", "random", "random"], "two or more of different names"),
        (["--agents", "random", "hihgest"], 'do you mean "highest"'),
        (["--agents", "random", "cheat:iterations=4"], "sees all hands"),
        (["--seed", -1], "seed: -1"),
        (["--players", 3], "num_players"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], tmp_path: Path, more: list[object], says: str) -> None:
    code, out, err = run(capsys, tmp_path / "out", *more)
    assert (code, out) == (2, "") and err.startswith("cross-play: error: ") and err.count("\n") == 1 and says in err
