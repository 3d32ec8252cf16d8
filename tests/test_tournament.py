"""Tournaments: planted strengths in order, equal agents equal, no seat favoured, and the script around them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from fool_env import Rules
from fool_env.agents.agent import make_agent
from fool_env.agents.arena import evaluate
from fool_env.agents.mixed import MixedResults, MixedTables
from fool_env.train import contest
from fool_env.train import tournament as script
from fool_env.train.contest import Tournament, make_plan, play_tournament
from fool_env.train.ratings import Bootstrap, intervals
from fool_env.train.standings import Standing, in_order

SCRIPT = Path(__file__).resolve().parents[1] / "train" / "tournament.py"
RANDOM, HIGHEST, CAUTIOUS = make_agent("random"), make_agent("highest"), make_agent("cautious")
FOUR = Rules.official(4)


class Blend:
    """Plays as `cautious` does with a given probability, else any card: planted strengths."""

    def __init__(self, name: str, skill: float) -> None:
        self.name = name
        self._skill = skill

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        skilled = (seeds >> np.uint64(40)) < self._skill * 2**24
        return np.where(skilled, CAUTIOUS.act(views, seeds), RANDOM.act(views, ~seeds))


class Twin:
    """An agent under another name."""

    def __init__(self, spec: str, name: str) -> None:
        self.name = name
        self.act = make_agent(spec).act


class Seer:
    """Sees all hands, and plays as `highest` does."""

    omniscient: Literal[True] = True

    def __init__(self, name: str = "seer") -> None:
        self.name = name

    def act_on_records(self, games: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        assert (games["viewer"] == -1).all() and (games["rng"] != 0).all()
        views = games.copy()
        views["viewer"] = views["player"]
        return HIGHEST.act(views, seeds)


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratings take most of the time, and have tests of their own."""
    monkeypatch.setattr(contest, "REPLICATES", 40)


def play(agents: list[Any], rules: Rules = FOUR, **options: Any) -> Tournament:
    return play_tournament(make_plan(agents, rules, **{"deals": 40, "pair_deals": 0, **options}))


def without_times(tournament: Tournament) -> Any:
    """The results but for CPU times, which no two runs share."""
    report = tournament.to_dict()
    for standing in report["standings"] + report["upper_bounds"]:
        assert standing.pop("cpu_seconds") > 0
    return report


# --- what the figures mean


def test_planted_strengths_are_recovered_in_order_by_points_wins_and_rating() -> None:
    """FAULTS 36."""
    blends = [Blend("d", 0.0), Blend("b", 0.3), Blend("a", 0.6), Blend("c", 1.0)]
    tournament = play(blends, deals=60, games=60, pair_deals=10)
    assert [standing.agent for standing in tournament.standings] == ["c", "a", "b", "d"]
    for better, worse in pairwise(tournament.standings):
        assert better.relative[1][0] > worse.relative[1][1]
        assert better.wins[0] > worse.wins[0] and better.rating[0] > worse.rating[0]
    best, *_, worst = tournament.standings
    assert best.wins[1][0] > 1 / 4 > worst.wins[1][1]
    assert best.rating[1][0] > worst.rating[1][1]
    assert best.places[0] > best.places[3] and worst.places[0] < worst.places[3]
    order = "cabd"
    assert len(tournament.pairs) == 12
    for (one, others), (mean, _) in tournament.pairs.items():
        assert (mean > 0) == (order.index(one) < order.index(others))


@pytest.mark.parametrize("players", [4, 6])
def test_equal_stochastic_agents_come_out_equal(players: int) -> None:
    agents = [Blend(name, 0.5) for name in "abcde"]
    tournament = play(agents, Rules.official(players), deals=200, games=40)
    for standing in tournament.standings:
        for estimate, expected in ((standing.relative, 0), (standing.wins, 1 / players), (standing.rating, 25)):
            mean, (low, high) = estimate
            # 99% rather than 95%, as there are thirty of them.
            assert abs(mean - expected) < 1.35 * (high - low) / 2
        assert standing.places == pytest.approx([1 / players] * players, abs=0.12)


def test_false_promotions_are_as_rare_as_the_intervals_say() -> None:
    """FAULTS 37: in about 5% of tournaments an agent is set apart from equal ones; few deals, many seeds."""
    agents = [Blend(name, 0.5) for name in "abc"]
    apart, of_all = 0, 0
    for seed in range(120):
        job = MixedTables(agents, FOUR, "round", seed)
        mixed = MixedResults(job.seating(0, 24), job.play(0, 24).results["results"])
        for agent in range(3):
            _, (low, high) = mixed.relative(agent)
            apart += not low <= 0 <= high
            of_all += 1
    # 18 of 360 expected. The three of a tournament hang together: they sum to about nothing.
    assert of_all == 360 and 6 <= apart <= 34


def test_deterministic_equal_agents_are_exactly_equal() -> None:
    """No rounding may look like a difference: its interval would not hold zero."""

    tournament = play([Twin("highest", name) for name in "abcd"], deals=30, games=6)
    for standing in tournament.standings:
        assert standing.relative == (0.0, (0.0, 0.0))
        assert standing.wins[0] == pytest.approx(1 / 4)


def test_no_seat_is_favoured_but_for_its_place_to_the_dealer() -> None:
    """FAULTS 38: whoever leads the first trick does best, and no number of a seat matters."""
    job = MixedTables([Twin("lowest", "a"), Twin("lowest", "b")], Rules.official(8), "round")
    played = job.play(0, 1000).results
    mixed = MixedResults(job.seating(0, 1000), played["results"])
    absolute, left_of_dealer = (mixed.by_seat(first) for first in (np.zeros(1000, np.int64), played["dealers"]))
    assert left_of_dealer[1][1][1][0] > 0.25, "the leader's relative points"
    for _, (mean, (low, high)) in absolute:
        assert abs(mean) < 1.5 * (high - low) / 2, "99.7%"
    for rows in (absolute, left_of_dealer):
        assert sum(relative for _, (relative, _) in rows) == pytest.approx(0, abs=1e-9)


def test_a_tournament_reports_what_its_parts_say() -> None:
    agents = [Blend("a", 0.9), Blend("b", 0.3), Blend("c", 0.3)]
    tournament = play(agents, deals=30, games=20, seed=5)
    rounds, games = (MixedTables(agents, FOUR, episode, 5) for episode in ("round", "game"))
    played, in_games = rounds.play(0, 30).results, games.play(0, 20).results
    mixed, mixed_games = (
        MixedResults(job.seating(0, len(results)), results)
        for job, results in ((rounds, played["results"]), (games, in_games["results"]))
    )
    absolute, left_of_dealer = (mixed.by_seat(first) for first in (np.zeros(30, np.int64), played["dealers"]))
    ratings = intervals(Bootstrap(3, mixed_games.seating, mixed_games.results, 5).play(0, 40).results["ratings"])
    for row in tournament.seats:
        assert (row.points, row.relative) == absolute[row.place]
        assert (row.points_from_dealer, row.relative_from_dealer) == left_of_dealer[row.place]
    for standing in tournament.standings:
        number = "abc".index(standing.agent)
        assert (standing.points, standing.relative) == (mixed.points(number), mixed.relative(number))
        assert (standing.deals, standing.games) == (mixed.deals(number), mixed_games.deals(number))
        assert (standing.wins, standing.places) == (mixed_games.wins(number), mixed_games.places(number))
        assert standing.rating == ratings[number]


def test_the_order_is_by_relative_points_and_by_name_where_they_are_equal() -> None:
    blank = Standing("", 9, (0.0, None), (0.0, None), 0, None, [], None, 0.0)
    made = [("b", 1.0, 2.0), ("d", 5.0, 1.0), ("c", -3.0, 3.0), ("a", 0.0, 2.0)]
    standings = [replace(blank, agent=name, points=(x, None), relative=(y, None)) for name, x, y in made]
    assert [standing.agent for standing in in_order(standings)] == ["c", "a", "b", "d"]


def test_cpu_time_is_that_of_a_move() -> None:
    class Slow(Blend):
        def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
            end = time.process_time() + 0.0002 * len(views)
            while time.process_time() < end:
                pass
            return super().act(views, seeds)

    standings = play([Slow("a", 0.5), "highest"], deals=4, games=1).standings
    seconds = {standing.agent: standing.cpu_seconds for standing in standings}
    assert seconds["highest"] < 0.0001 and 0.0002 < seconds["a"] < 0.0005


def test_the_order_in_which_agents_are_named_does_not_matter() -> None:
    names = ["random", "lowest", "highest", "cautious"]
    forwards, backwards = (play(agents, deals=24, games=4, pair_deals=2) for agents in (names, names[::-1]))
    assert without_times(forwards) == without_times(backwards)


def test_other_seeds_play_other_deals() -> None:
    assert without_times(play(["random", "highest"], seed=1)) != without_times(play(["random", "highest"], seed=2))


# --- agents that see all hands


def test_an_omniscient_agent_has_to_be_allowed_and_changes_nothing_for_the_others() -> None:
    agents = ["random", "lowest", "highest"]
    with pytest.raises(ValueError, match=r"seer sees all hands.*upper bound"):
        make_plan([*agents, Seer()], FOUR)
    alone = play(agents, deals=24, games=4)
    beside = play([*agents, Seer()], deals=24, games=4, allow_omniscient=True)
    assert without_times(beside)["standings"] == without_times(alone)["standings"]
    (bound,) = beside.bounds
    assert bound.agent == "seer" and bound.rating is None
    assert bound.relative[1][0] > 0 and bound.wins is not None
    page = script.page(beside, "#")
    assert re.search(r"\|  \| seer \(upper bound: sees all hands\) \|", page)


# --- the script


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = script.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


SMALL = ("--agents", "highest", "random", "lowest", "--players", 4, "--deals", 20, "--games", 4, "--pair-deals", 3)


def test_it_prints_and_saves(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """FAULTS 37: whoever reads a result reads on how many deals it rests, and how far to trust it."""
    code, out, err = run(capsys, *SMALL, "--seed", 7, "--out", tmp_path / "new" / "folder")
    assert (code, err) == (0, "")
    assert "3 agents at mixed tables of 4: 20 deals and 4 games (wins by chance: 25.0%)" in out and "seed 7" in out
    number, share = r"[+-]\d+\.\d\d ±\d+\.\d\d", r"\d+\.\d% ±\d+\.\d%"
    rating = r"-?\d+\.\d \(-?\d+\.\d to -?\d+\.\d\)"
    assert re.search(rf"1 +highest +{number} +{number} +{share} +\d+ \d+ \d+ \d+ +{rating} +[\d.]+ [µm]s", out)
    assert "200 bootstrap samples" in " ".join(out.split())
    folder = tmp_path / "new" / "folder"
    assert (folder / "head-to-head.png").read_bytes().startswith(b"\x89PNG\r\n")
    text = (folder / "standings.md").read_text()
    assert text.startswith("# 4 players\n") and re.search(rf"\| 1 \| highest \| {number} \| {number} \|", text)
    report = json.loads((folder / "results.json").read_text())
    assert [standing["agent"] for standing in report["standings"]] == ["highest", "random", "lowest"]
    assert (report["players"], report["deals"], report["games"], report["seed"]) == (4, 20, 4, 7)
    assert report["rules"] == FOUR.to_dict() and report["replicates"] == 40
    assert set(report["machine"]) == {"fool-env", "numpy", "numba", "python", "cpu"}
    for standing in report["standings"]:
        for name in ("points", "relative", "wins", "rating"):
            low, high = standing[f"{name}_ci"]
            assert low <= standing[name] <= high
    assert len(report["seats"]) == 4
    pairs = {(pair["agent"], pair["at"]): pair for pair in report["head_to_head"]}
    assert len(pairs) == 6
    expected = evaluate(HIGHEST, [RANDOM], FOUR, deals=3, seed=7)
    assert pairs["highest", "random"]["relative"] == expected.relative
    assert pairs["highest", "random"]["relative_ci"] == list(expected.relative_ci)


def test_without_games_places_and_ratings_are_of_rounds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--agents", "highest", "random", "--players", 4, "--deals", 20, "--pair-deals", 0, "--out", tmp_path]
    code, out, _ = run(capsys, *options)
    assert code == 0 and "places in rounds" in out and "games won" not in out
    report = json.loads((tmp_path / "results.json").read_text())
    best = report["standings"][0]
    assert best["wins"] is None and best["wins_ci"] is None and best["games"] == 0 and best["rating"] > 25
    assert not (tmp_path / "head-to-head.png").exists() and report["head_to_head"] is None


def test_a_file_that_cannot_be_written_costs_no_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    code, out, err = run(capsys, *SMALL, "--out", tmp_path)
    assert code == 2 and "No space left" in err and err.count("\n") == 1 and "highest" in out


def test_progress_rises_from_nothing_to_all_in_each_part() -> None:
    seen: dict[str, list[tuple[float, int]]] = {}
    play_tournament(
        make_plan(["random", "highest"], FOUR, deals=30, games=6, pair_deals=4),
        progress=lambda what, done, total: seen.setdefault(what, []).append((done, total)),
    )
    totals = {"rounds": 30, "games": 6, "ratings": 40, "head-to-head": 8}
    assert {what: shown[-1][1] for what, shown in seen.items()} == totals
    for what, shown in seen.items():
        done = [each for each, _ in shown]
        assert done[0] < 1 and done[-1] == totals[what] and done == sorted(done)


# --- workers, resuming, interruption


def test_workers_change_nothing(tmp_path: Path) -> None:
    plan = make_plan(["random", "highest", "pimc:worlds=2"], FOUR, deals=30, games=3, pair_deals=2)
    one, two = (play_tournament(plan, workers=count) for count in (1, 2))
    assert without_times(one) == without_times(two)


class Interrupter(Blend):
    """Is interrupted at its three thousandth move."""

    moves = 0

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self.moves += len(views)
        if self.moves > 3000:
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("the signal should have ended this")
        return super().act(views, seeds)


def test_an_interrupted_tournament_goes_on_where_it_was_and_ends_the_same(tmp_path: Path) -> None:
    agents, interrupted = ([Blend("a", 0.9), kind("b", 0.3)] for kind in (Blend, Interrupter))
    whole = play(agents, deals=60, games=4, pair_deals=4)
    with pytest.raises(KeyboardInterrupt):
        play_tournament(make_plan(interrupted, FOUR, deals=60, games=4, pair_deals=4), folder=tmp_path)
    batches = (tmp_path / "batches.jsonl").read_text().splitlines()
    assert len(batches) > 1
    resumed = play_tournament(make_plan(agents, FOUR, deals=60, games=4, pair_deals=4), folder=tmp_path)
    assert without_times(resumed) == without_times(whole)
    jobs = [json.loads(line).get("job") for line in (tmp_path / "batches.jsonl").read_text().splitlines()]
    assert jobs == [None, "rounds", "rounds", "rounds", "games", "a at b: rounds", "b at a: rounds"]
    assert (tmp_path / "batches.jsonl").read_text().splitlines()[: len(batches)] == batches


def test_more_deals_go_on_with_those_that_are_played(tmp_path: Path) -> None:
    agents = ["random", "highest"]
    few, more = (make_plan(agents, FOUR, deals=deals, games=2, pair_deals=2) for deals in (25, 30))
    play_tournament(few, folder=tmp_path)
    before = (tmp_path / "batches.jsonl").read_text()
    resumed = play_tournament(more, folder=tmp_path)
    after = (tmp_path / "batches.jsonl").read_text()
    assert after.startswith(before) and after.count("\n") == before.count("\n") + 1
    assert without_times(resumed) == without_times(play_tournament(more))


def test_a_folder_of_another_tournament_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--players", 4, "--deals", 12, "--pair-deals", 0, "--out", tmp_path]
    assert run(capsys, "--agents", "random", "highest", *options)[0] == 0
    for others in (["random", "lowest"], ["random", "highest", "lowest"], ["random", "highest", "--seed", 1]):
        code, out, err = run(capsys, "--agents", *others, *options)
        assert (code, out) == (2, "") and err.count("\n") == 1 and str(tmp_path) in err


def test_ctrl_c_exits_with_130_and_the_same_command_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--agents", "a", "b", "--players", 4, "--deals", 60, "--pair-deals", 0, "--out", tmp_path]

    def with_second(kind: type[Blend]) -> None:
        agents = {"a": Blend("a", 0.9), "b": kind("b", 0.3)}
        for module in (script, contest):
            monkeypatch.setattr(module, "make_agent", agents.__getitem__)

    with_second(Interrupter)
    code, out, err = run(capsys, *options)
    assert (code, out) == (130, "") and "the same command goes on" in err
    assert not (tmp_path / "results.json").exists()
    with_second(Blend)
    code, out, err = run(capsys, *options)
    assert (code, err) == (0, "") and "60 deals" in out


# --- mistakes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--players 4", "--agents"),
        ("--agents random --players 4", "1 to be ordered; at least 2"),
        ("--agents random highest", "--players is needed"),
        ("--agents random highest random --players 4", "random is named twice"),
        ("--agents random hihgest --players 4", 'do you mean "highest"'),
        ("--agents random highest cheat:iterations=4 --players 4", "--allow-omniscient"),
        ("--agents random missing.zip --players 4", "missing.zip"),
        ("--agents random highest --players 3", "3 is not within 4 to 8"),
        ("--agents random highest --players 4 --deals 0", "deals: 0"),
        ("--agents random highest --players 4 --games -1", "games: -1"),
        ("--agents random highest --players 4 --pair-deals -1", "pair_deals: -1"),
        ("--agents random highest --players 4 --workers 0", "--workers 0"),
        ("--agents random highest --players 4 --seed -1", "seed: -1"),
        ("--agents random highest --players 4 --sead 1", "unrecognized arguments: --sead 1"),
        ("--agents random highest --players 4 --out pyproject.toml", "pyproject.toml"),
    ],
)
def test_mistakes_on_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    code, out, err = run(capsys, *arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("fool-tournament: error: ") and err.count("\n") == 1 and says in err


def test_help_explains_every_option_with_its_default() -> None:
    result = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True)
    text = " ".join(result.stdout.split())
    for option in "agents players deals games pair-deals seed workers allow-omniscient out".split():  # noqa: SIM905
        assert f"--{option}" in text
    for default in ("the checkpoints'", "300", "0", "50", "1", "refuse them", "runs/tournament-Np"):
        assert f"(default: {default})" in text
