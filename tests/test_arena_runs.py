"""How evaluations run: stopped early, in processes, interrupted, both ways and head to head; and who may take part."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import pytest
from checkpoints import write_checkpoint
from planted import Blend

from fool_env import Rules
from fool_env.agents.agent import AnyAgent, make_agent
from fool_env.agents.arena import (
    MIN_DEALS,
    REPORT,
    Evaluation,
    Terms,
    both_ways,
    evaluate,
    evaluate_matchup,
    head_to_head,
    make_opponents,
    open_results,
)
from fool_env.agents.batches import BATCH_DEALS, run_batches
from fool_env.agents.intervals import half_width
from fool_env.agents.match import Match, MatchJob
from fool_env.agents.neural import CheckpointError
from fool_env.agents.workers import Workers
from fool_env.transcript import read_transcripts

RANDOM, LOWEST, HIGHEST = make_agent("random"), make_agent("lowest"), make_agent("highest")
MINIATURE = Rules.miniature()


class Seer:
    """Sees all hands, and plays like `random`."""

    name = "seer"

    @property
    def omniscient(self) -> Literal[True]:
        return True

    def act_on_records(self, games: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        views = games.copy()
        views["viewer"] = views["player"]
        return RANDOM.act(views, seeds)


class Tired:
    """Plays like `random`, under its name, until it has had enough."""

    name = "random"

    def __init__(self, calls: int) -> None:
        self._calls = calls

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self._calls -= 1
        if self._calls < 0:
            raise KeyboardInterrupt
        return RANDOM.act(views, seeds)


# --- precision


def stopping_point(agents: list[AnyAgent], rules: Rules, precision: float, most: int) -> int:
    """By the definition, from the deals' own numbers."""
    n = rules.num_players
    [batch] = run_batches(MatchJob(Match(agents[0], agents[1:], rules, 0, REPORT), "round"), most, most)
    counts = batch.results
    figures = [counts["own"] / n - counts["others"] / (n * (n - 1))]
    if "control" in counts:
        figures.append((counts["own"] - counts["control"]) / n)
    for deals in range(200, most, 25):
        if all(half_width(figure[:deals]) <= precision for figure in figures):
            return deals
    return most


@pytest.mark.parametrize(
    ("agents", "rules", "precision"),
    [
        ([RANDOM, RANDOM], MINIATURE, 0.25),
        ([RANDOM, RANDOM], MINIATURE, 0.35),
        ([RANDOM, RANDOM, HIGHEST], MINIATURE, 0.3),
        ([make_agent("cautious"), HIGHEST], Rules.official(6), 0.3),  # here the gain's interval is the wider one
    ],
)
def test_play_stops_with_the_first_batch_that_is_precise_enough(
    agents: list[AnyAgent], rules: Rules, precision: float
) -> None:
    stopped = evaluate(agents[0], agents[1:], rules, deals=1000, games=5, precision=precision)
    due = stopping_point(agents, rules, precision, 1000)
    assert stopped.deals == due and 200 < due < 1000, "the case tells something"
    assert stopped == evaluate(agents[0], agents[1:], rules, deals=due, games=5), "and games are all played"


def test_two_hundred_deals_are_played_however_clear_it_is() -> None:
    assert (MIN_DEALS, BATCH_DEALS) == (200, 25), "results of a precision rest on these"
    assert evaluate(RANDOM, [RANDOM], MINIATURE, precision=100).deals == 200
    assert evaluate(RANDOM, [RANDOM], MINIATURE, deals=30, precision=100).deals == 30
    assert evaluate(RANDOM, [RANDOM], MINIATURE, deals=215, precision=0.01).deals == 215
    assert evaluate(HIGHEST, [HIGHEST], MINIATURE, precision=1e-9).deals == 200, "equal play has no interval at all"
    assert evaluate(RANDOM, [RANDOM], MINIATURE, deals=30, games=205, precision=100).games == 205, "it is about rounds"


def test_progress_ends_at_the_total_though_fewer_were_enough() -> None:
    seen: list[tuple[float, int]] = []
    evaluate(RANDOM, [RANDOM], MINIATURE, deals=300, games=7, precision=9, progress=lambda *at: seen.append(at))
    assert seen == sorted(seen) and seen[-1] == (307, 307) and {total for _, total in seen} == {307}


def test_false_promotions_stay_rare_where_luck_decides_when_to_stop() -> None:
    """FAULTS 37: equal agents, stopped at 200 to 600 deals, are told apart in about 5% of 240 evaluations."""
    results = [evaluate(RANDOM, [RANDOM], MINIATURE, deals=600, precision=0.33, seed=seed) for seed in range(240)]
    assert len({result.deals for result in results}) > 4
    for intervals in ([result.gain_ci for result in results], [result.relative_ci for result in results]):
        above, below = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)
        # 12 expected; 3.4 is the binomial's standard deviation.
        assert 2 <= above + below <= 24 and above <= 16 and below <= 16


# --- processes


def test_workers_change_no_result(tmp_path: Path) -> None:
    network = make_agent(write_checkpoint(tmp_path / "net.zip", Rules.official(4)))
    likeliest = make_agent(network.name, deterministic=True)
    cases: list[tuple[AnyAgent, list[AnyAgent]]] = [
        (RANDOM, [HIGHEST]),
        (make_agent("cautious"), [RANDOM, LOWEST]),
        (network, [network]),
        (likeliest, [HIGHEST]),
        (make_agent("pimc:worlds=2"), [HIGHEST]),
    ]
    with Workers(2) as workers:
        for candidate, opponents in cases:
            terms = Terms(deals=60, games=7 if len(opponents) == 2 else 0, seed=4)
            alone = evaluate_matchup((candidate, opponents), Rules.official(4), terms)
            assert evaluate_matchup((candidate, opponents), Rules.official(4), terms, workers=workers) == alone


def test_precision_is_the_same_with_workers() -> None:
    how = {"deals": 1000, "precision": 0.3}
    alone = evaluate(RANDOM, [RANDOM], MINIATURE, **how)
    assert evaluate(RANDOM, [RANDOM], MINIATURE, workers=2, **how) == alone and 200 < alone.deals < 1000


@pytest.mark.parametrize("agent", [Blend(0.5), Tired(9)])
def test_only_agents_that_their_name_makes_can_go_to_workers(agent: AnyAgent) -> None:
    with pytest.raises(ValueError, match=f"agent '{agent.name}' is not what make_agent makes"):
        evaluate(HIGHEST, [agent], MINIATURE, deals=30, workers=2)


def test_an_agents_error_in_a_worker_is_the_one_without(tmp_path: Path) -> None:
    network = make_agent(write_checkpoint(tmp_path / "net.zip", Rules.official(4)))
    errors = []
    for workers in (1, 2):
        with pytest.raises(CheckpointError, match="trained for other rules") as caught:
            evaluate(network, [RANDOM], MINIATURE, deals=60, workers=workers)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


# --- interruptions


@pytest.mark.parametrize("calls", [0, 1, 100, 350])
def test_an_interrupted_evaluation_goes_on_from_its_file(tmp_path: Path, calls: int) -> None:
    path, how = tmp_path / "results.jsonl", {"deals": 310, "games": 12, "seed": 6}
    with pytest.raises(KeyboardInterrupt):
        evaluate(Tired(calls), [HIGHEST], MINIATURE, results=path, **how)
    kept = len(path.read_text().splitlines()) - 1
    assert (kept > 0) == (calls >= 100)
    path.write_bytes(path.read_bytes() + b'{"job":"random at highe')
    assert evaluate(RANDOM, [HIGHEST], MINIATURE, results=path, **how) == evaluate(RANDOM, [HIGHEST], MINIATURE, **how)
    assert len(path.read_text().splitlines()) == 1 + 13 + 3
    whole = {"deals": 310, "precision": 0.4, "seed": 6}
    assert evaluate(Tired(0), [HIGHEST], MINIATURE, results=path, **whole) == evaluate(
        RANDOM, [HIGHEST], MINIATURE, **whole
    ), "all that precision needs is there too"


def test_rounds_and_games_of_one_number_are_kept_apart(tmp_path: Path) -> None:
    how = {"deals": 5, "games": 5, "results": tmp_path / "results.jsonl"}
    result = evaluate(RANDOM, [HIGHEST], MINIATURE, **how)
    assert result == evaluate(RANDOM, [HIGHEST], MINIATURE, **how) and result.games == result.deals == 5


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"seed": 1}, "seed: 0, not 1"),
        ({"purpose": 1}, "purpose: 2, not 1"),
        ({"rules": Rules.official(4)}, "num_players of rules: 3, not 4"),
        ({"candidate": LOWEST}, "lowest of agents: None"),
    ],
)
def test_another_evaluations_file_is_refused(tmp_path: Path, other: dict[str, Any], says: str) -> None:
    how = {"candidate": RANDOM, "opponents": [HIGHEST], "rules": MINIATURE, "deals": 5}
    evaluate(**how, results=tmp_path / "results.jsonl")
    with pytest.raises(ValueError, match=f"results of another task.*{says}"):
        evaluate(**{**how, **other}, results=tmp_path / "results.jsonl")


# --- several evaluations


def test_both_ways_round() -> None:
    table = [RANDOM, LOWEST, RANDOM]
    matchups = both_ways([(HIGHEST, [RANDOM]), (HIGHEST, table), (HIGHEST, [HIGHEST])])
    assert [(candidate.name, [agent.name for agent in opponents]) for candidate, opponents in matchups] == [
        ("highest", ["random"]),
        ("random", ["highest"]),
        ("highest", ["random", "lowest", "random"]),
        ("lowest", ["highest"]),
        ("highest", ["highest"]),
    ]


def test_a_gain_can_be_had_both_ways_round_and_is_reported_so() -> None:
    """Who is ordered by gain is ordered by nothing: a lone deviator may gain at each table of the other's."""
    [there, back] = both_ways([(LOWEST, [RANDOM])])
    terms = Terms(deals=300)
    there_result, back_result = (evaluate_matchup(matchup, MINIATURE, terms) for matchup in (there, back))
    assert (there_result.candidate, there_result.opponent) == ("lowest", "random")
    assert (back_result.candidate, back_result.opponent) == ("random", "lowest")
    assert there_result == evaluate(LOWEST, [RANDOM], MINIATURE, deals=300)
    assert back_result == evaluate(RANDOM, [LOWEST], MINIATURE, deals=300)


def test_head_to_head_recovers_planted_strengths() -> None:
    """FAULTS 36: each alone at a table of each other; the stronger comes out above in every pair, both ways round."""
    agents, seen = [Blend(0.0), Blend(1.0), Blend(0.5), Blend(1.0)], []
    rank = [0, 2, 1, 2]
    terms = Terms(deals=500, seed=2)
    matrix = head_to_head(agents, Rules.official(4), terms, progress=lambda *at: seen.append(at))
    for row, evaluations in enumerate(matrix):
        for column, found in enumerate(evaluations):
            if row == column:
                assert found is None
                continue
            assert (found.candidate, found.opponent) == (agents[row].name, agents[column].name)
            low, high = found.relative_ci
            expected = np.sign(rank[row] - rank[column])
            assert expected == (low > 0) - (high < 0)
    assert matrix[0][2] == evaluate(agents[0], [agents[2]], Rules.official(4), deals=500, seed=2)
    assert seen == sorted(seen) and seen[-1] == (6000, 6000) and {total for _, total in seen} == {6000}


def test_head_to_head_goes_on_from_a_file(tmp_path: Path) -> None:
    agents: list[AnyAgent] = [RANDOM, HIGHEST, LOWEST]
    terms = Terms(deals=60, games=5)
    whole = head_to_head(agents, MINIATURE, terms)
    with open_results(tmp_path / "r", agents, MINIATURE, terms) as store, pytest.raises(KeyboardInterrupt):
        head_to_head([Tired(30), HIGHEST, LOWEST], MINIATURE, terms, store=store)
    with open_results(tmp_path / "r", agents, MINIATURE, terms) as store:
        assert head_to_head(agents, MINIATURE, terms, store=store) == whole
        assert head_to_head([Tired(0), HIGHEST, LOWEST], MINIATURE, terms, store=store) == whole


# --- who sees all hands


def test_whoever_sees_all_hands_is_refused_and_labelled() -> None:
    for candidate, opponents in ((Seer(), [RANDOM]), (RANDOM, [RANDOM, Seer()])):
        with pytest.raises(ValueError, match="'seer' sees all hands"):
            evaluate(candidate, opponents, MINIATURE, deals=30)
        result = evaluate(candidate, opponents, MINIATURE, deals=30, allow_omniscient=True)
        assert result.omniscient and result.to_dict()["omniscient"] is True
    # What it sees changes nothing but what it sees: cards and luck are those of any agent.
    assert not evaluate(RANDOM, [RANDOM], MINIATURE, deals=30, allow_omniscient=True).omniscient
    blind = evaluate(RANDOM, [HIGHEST], MINIATURE, deals=30).to_dict()
    seeing = evaluate(Seer(), [HIGHEST], MINIATURE, deals=30, allow_omniscient=True).to_dict()
    assert seeing == {**blind, "candidate": "seer", "omniscient": True}


def test_a_config_cannot_have_an_opponent_that_sees_all_hands() -> None:
    with pytest.raises(ValueError, match=r"sees all hands.*allow_omniscient"):
        make_opponents("random+cheat:iterations=5")
    assert len(make_opponents("random+cheat:iterations=5", allow_omniscient=True)) == 2


# --- transcripts


def transcripts_of(path: Path, workers: int) -> tuple[Evaluation, bytes]:
    agents, terms = [RANDOM, HIGHEST], Terms(deals=30, games=6, seed=8)
    with open_results(None, agents, MINIATURE, terms, path) as store, Workers(workers) as processes:
        result = evaluate_matchup((RANDOM, [HIGHEST]), MINIATURE, terms, workers=processes, store=store)
    return result, path.read_bytes()


def test_transcripts_tell_what_the_results_are_made_of(tmp_path: Path) -> None:
    result, content = transcripts_of(tmp_path / "a.jsonl", 1)
    games = read_transcripts(tmp_path / "a.jsonl")
    rounds, whole = [game for game in games if game.episode == "round"], games[30 * 4 :]
    assert len(games) == 30 * 4 + 6 * 3 and all(game.episode == "game" for game in whole)
    points, wins = [], []
    for number, game in enumerate(rounds):
        seats = [seat for seat, name in enumerate(game.agents) if name == "random"]
        assert seats == ([number % 4] if number % 4 < 3 else []), "the candidate's seat, or the control"
        points += [game.rounds[0].points[seat] for seat in seats]
    for game in whole:
        wins.append((game.agents.index("random") in game.winners) / len(game.winners))
    assert result.points == pytest.approx(fmean(points)) and result.wins == pytest.approx(fmean(wins))
    assert len({game.seed for game in rounds}) == 30 and len({game.seed for game in whole}) == 6
    assert transcripts_of(tmp_path / "b.jsonl", 2) == (result, content), "workers write the same"
    assert result == evaluate(RANDOM, [HIGHEST], MINIATURE, deals=30, games=6, seed=8)


def test_rounds_that_were_not_kept_have_no_transcripts() -> None:
    match = Match(RANDOM, [HIGHEST], MINIATURE, 0, REPORT)
    with pytest.raises(ValueError, match="rounds were not kept"):
        next(match.transcripts("round", 0, 1, match.play("round", 0, 1)))
