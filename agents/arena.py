"""The arena: how strong is an agent? The same deals with the candidate in every seat, and intervals over deals.

One deal is played n times, the candidate in another seat each time (n *arms*), and once by the opponent alone, as
control. So good cards, and good places at the table, cancel out. Within one deal the tables go alike up to where the
agents differ; the deal is the unit of all statistics. Full games are rotated in the same way, without a control.

All luck is derived from (seed, purpose, episode, deal) for the cards and from (that, arm, seat, move) for a decision:
a result depends neither on how many tables are played at once nor on their order, nor on the processes that play,
and decisions in different arms are independent even of one and the same agent.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from fool_env.rng import checked_seed
from fool_env.rules import Rules

from .agent import AnyAgent, make_agent
from .batches import BATCH_DEALS, BATCH_GAMES, BatchFile, describe_task, run_batches
from .intervals import Interval, half_width, mean_interval
from .match import MIXED, Match, MatchJob
from .tables import check_omniscient
from .workers import Batch, Workers

TRAINING: Final = 0
SELECTION: Final = 1
REPORT: Final = 2
BENCHMARK: Final = 3
"""What deals are for. Those of different purposes differ, whatever the seeds: a checkpoint that was chosen for its
luck with the deals of selection gains nothing by it in a report, nor what reports praised in the benchmark's tasks."""

MIN_DEALS: Final = 200
"""Deals that are played before an interval is trusted to be narrow."""

Progress = Callable[[float, int], None]
"""Called with the deals and games done, in fractions, and their total."""

Matchup: TypeAlias = tuple[AnyAgent, Sequence[AnyAgent]]
"""A candidate, and the opponents that fill the other seats."""


@dataclass(frozen=True)
class Terms:
    """On what terms agents are compared.

    Attributes:
        deals: rounds' deals, each played n times, and once more as control against a single opponent.
        games: full games' seeds, each played n times.
        precision: play no more rounds once the 95% intervals of relative points, and of the gain where there is one,
            are this narrow: at most so many points to either side of the mean. It is looked at after each batch of
            BATCH_DEALS deals, from MIN_DEALS deals on; `deals` is then the most that are played. None plays them all.
        seed: 0 to 2**64 - 1; equal seeds of one purpose are equal deals.
        purpose: TRAINING, SELECTION, REPORT or BENCHMARK.
        allow_omniscient: let agents play that see all hands: what these reach is an upper bound, not a strength.

    Raises:
        ValueError: fewer than one deal, negative games, a precision that is not above 0, or a seed that is none.
    """

    deals: int = 1000
    games: int = 0
    precision: float | None = None
    seed: int = 0
    purpose: int = REPORT
    allow_omniscient: bool = False

    def __post_init__(self) -> None:
        if self.deals < 1 or self.games < 0:
            raise ValueError(f"deals: {self.deals} (1 or more), games: {self.games} (0 or more)")
        if self.precision is not None and not self.precision > 0:
            raise ValueError(f"precision: {self.precision} points is not above 0")
        checked_seed(self.seed)


@dataclass(frozen=True)
class Evaluation:
    """A candidate's results against one opponent, or one mixed table; intervals are [low, high] at 95%.

    Attributes:
        candidate: the candidate's name.
        opponent: the opponent's name; "a+b+c" for a mixed table.
        omniscient: an agent at the table sees all hands, so these results are bounds, not strengths.
        deals: how many deals were played, each in every seat.
        points: mean points a round (R13).
        relative: mean of the points minus the mean of the other seats'.
        gain: mean of the points minus the opponent's own at the same seat and deal, at a table without the candidate;
            None at a mixed table.
        tens: share of rounds in which the candidate scored for an empty hand.
        fool: share of the tricks of its rounds whose Fool it was.
        games: how many full games were played, each in every seat.
        wins: mean share of won full games, 1/k where k share the win (R15), to be held against 1/n; None without games.
        placement: mean place in full games, 1 to n, equal totals sharing theirs; None without games.
    """

    candidate: str
    opponent: str
    omniscient: bool
    deals: int
    points: float
    points_ci: Interval | None
    relative: float
    relative_ci: Interval | None
    gain: float | None
    gain_ci: Interval | None
    tens: float
    fool: float
    games: int
    wins: float | None
    wins_ci: Interval | None
    placement: float | None

    def to_dict(self) -> dict[str, Any]:
        """One entry of an evaluation's JSON: every field, intervals as lists."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def evaluate(
    candidate: AnyAgent,
    opponents: Sequence[AnyAgent],
    rules: Rules,
    *,
    deals: int = 1000,
    games: int = 0,
    precision: float | None = None,
    seed: int = 0,
    purpose: int = REPORT,
    allow_omniscient: bool = False,
    workers: int = 1,
    results: str | Path | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Play a candidate in every seat against one opponent, or at a mixed table of several.

    At a mixed table the opponents take the other seats in turn, starting to the candidate's left, and over and over
    if they are fewer than the seats; who comes first moves on by one from deal to deal.

    Args:
        deals, games, precision, seed, purpose, allow_omniscient: see `Terms`.
        workers: processes that play; results do not depend on it. With 2 or more, agents are made anew by their
            names, and the caller's script keeps what it does under `if __name__ == "__main__":`.
        results: a file of the batches that are finished: a run that was interrupted goes on from it.

    Raises:
        IllegalActionError: an agent chose an illegal card; the message names the agent and the table.
        ValueError: as `Terms`; there is no opponent, an agent sees all hands and that is not allowed, or its name does
            not make it and there are to be workers; fewer than one worker; the file holds results of another task.
        OSError: the file cannot be read or written, or a worker process died.
    """
    terms = Terms(deals, games, precision, seed, purpose, allow_omniscient)
    with contextlib.ExitStack() as stack:
        processes = stack.enter_context(Workers(workers))
        store = (
            None
            if results is None
            else stack.enter_context(open_results(results, [candidate, *opponents], rules, terms))
        )
        return evaluate_matchup((candidate, opponents), rules, terms, workers=processes, store=store, progress=progress)


def evaluate_matchup(
    matchup: Matchup,
    rules: Rules,
    terms: Terms,
    *,
    workers: Workers | None = None,
    store: BatchFile | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """`evaluate`, with workers and a file that several matchups may share.

    Raises:
        IllegalActionError, OSError, ValueError: as `evaluate`.
    """
    match = Match(*matchup, rules, terms.seed, terms.purpose, terms.allow_omniscient)
    rounds = round_means(_played(match, "round", terms, workers, store, progress), rules.num_players)
    games = _played(match, "game", terms, workers, store, progress) if terms.games else None
    return _summary(match, rounds, games)


def gains_by_deal(
    candidate: AnyAgent,
    opponent: AnyAgent,
    rules: Rules,
    terms: Terms,
    *,
    workers: Workers | None = None,
    store: BatchFile | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """The gain of a lone candidate at the opponent's table in each deal, to be compared deal by deal.

    Returns:
        float64 (deals,); the mean is the gain of `evaluate`.

    Raises:
        IllegalActionError, OSError, ValueError: as `evaluate`.
    """
    match = Match(candidate, [opponent], rules, terms.seed, terms.purpose, terms.allow_omniscient)
    return round_means(_played(match, "round", terms, workers, store, progress), rules.num_players)[:, GAIN]


def head_to_head(
    agents: Sequence[AnyAgent],
    rules: Rules,
    terms: Terms,
    *,
    workers: Workers | None = None,
    store: BatchFile | None = None,
    progress: Progress | None = None,
) -> list[list[Evaluation | None]]:
    """Every agent alone at a table of every other.

    Args:
        terms: those of each of the k * (k - 1) evaluations.
        store: see `open_results`.
        progress: called with the deals and games done of all evaluations together.

    Returns:
        The matrix of the evaluations: in row i and column k that of a lone agents[i] at a table of agents[k]; None
        on the diagonal.

    Raises:
        IllegalActionError, OSError, ValueError: as `evaluate`.
    """
    each = terms.deals + terms.games
    total, done_before = each * len(agents) * (len(agents) - 1), 0

    def show(done: float, _: int) -> None:
        if progress is not None:
            progress(done_before + done, total)

    matrix: list[list[Evaluation | None]] = [[None] * len(agents) for _ in agents]
    for row, column in itertools.permutations(range(len(agents)), 2):
        matchup = agents[row], [agents[column]]
        matrix[row][column] = evaluate_matchup(matchup, rules, terms, workers=workers, store=store, progress=show)
        done_before += each
    return matrix


def both_ways(matchups: Iterable[Matchup]) -> list[Matchup]:
    """Each matchup, and behind it those with an opponent alone at a table of the candidate; none comes twice."""
    found: dict[tuple[str, ...], Matchup] = {}
    for candidate, opponents in matchups:
        for matchup in ((candidate, opponents), *((opponent, [candidate]) for opponent in opponents)):
            found.setdefault((matchup[0].name, *(agent.name for agent in matchup[1])), matchup)
    return list(found.values())


def open_results(
    path: str | Path | None,
    agents: Iterable[AnyAgent],
    rules: Rules,
    terms: Terms,
    transcripts: str | Path | None = None,
) -> BatchFile:
    """The file that keeps the finished batches of evaluations among these agents, for a run that may be interrupted.

    How many deals and games, and how precise, may differ from one run to the next.

    Args:
        path: the file; None keeps only transcripts.
        transcripts: a file for every game played, see `fool_env.transcript`.

    Raises:
        OSError, ValueError: as `BatchFile`.
    """
    batches = {"deals": BATCH_DEALS, "games": BATCH_GAMES}
    task = describe_task(agents, rules, terms.seed, purpose=terms.purpose, batches=batches)
    return BatchFile(path, task, transcripts)


def make_opponents(spec: str, deterministic: bool = False, allow_omniscient: bool = False) -> list[AnyAgent]:
    """The agents of "a", or of the mixed table "a+b+c", each a `make_agent` string.

    Raises:
        AgentError, OSError, ValueError: as `make_agent`; or one sees all hands and that is not allowed.
    """
    agents = [make_agent(name, deterministic) for name in spec.split(MIXED)]
    check_omniscient(agents, allow_omniscient)
    return agents


# --- the play


def _played(
    match: Match,
    episode: str,
    terms: Terms,
    workers: Workers | None,
    store: BatchFile | None,
    progress: Progress | None,
) -> dict[str, np.ndarray]:
    """What is counted in all rounds, or all games, of a match."""
    rounds = episode == "round"
    total, size, before = (terms.deals, BATCH_DEALS, 0) if rounds else (terms.games, BATCH_GAMES, terms.deals)

    def show(done: float) -> None:
        if progress is not None:
            progress(before + done, terms.deals + terms.games)

    job = MatchJob(match, episode, transcripts=store is not None and store.wants_transcripts)
    enough = None if terms.precision is None or not rounds else _is_precise(terms.precision, match.rules.num_players)
    batches = run_batches(job, total, size, workers=workers, store=store, name=job.name, enough=enough, progress=show)
    show(total)  # as if all had been played, where fewer were enough
    return joined(batches)


# --- the statistics

_POINTS, RELATIVE, GAIN, _TENS, _FOOL, _TRICKS = range(6)


def joined(batches: Sequence[Batch]) -> dict[str, np.ndarray]:
    """The results of batches in their order, as one."""
    return {name: np.concatenate([batch.results[name] for batch in batches]) for name in batches[0].results}


def win_shares(counts: dict[str, np.ndarray]) -> np.ndarray:
    """The candidate's share of games, 1/k where k share a win (R15), from a `MatchJob` of games: float64 (games,)."""
    return ((counts["better"] == 0) / counts["equal"]).mean(axis=1)


def round_means(counts: dict[str, np.ndarray], num_players: int) -> np.ndarray:
    """The candidate's means over its seats, a row for each deal: float64 (deals, 6); gain is NaN without control.

    Columns RELATIVE and GAIN are relative points and gain.

    Args:
        counts: the results of a `MatchJob` of rounds.
    """
    own, others = counts["own"], counts["others"]
    means = np.empty((len(own), 6))
    # Whole numbers up to one division, so that equal play comes out as exactly equal.
    means[:, _POINTS] = own / num_players
    means[:, RELATIVE] = ((num_players - 1) * own - others) / (num_players * (num_players - 1))
    means[:, GAIN] = (own - counts["control"]) / num_players if "control" in counts else np.nan
    for column, name in ((_TENS, "tens"), (_FOOL, "fool"), (_TRICKS, "tricks")):
        means[:, column] = counts[name] / num_players
    return means


def _is_precise(precision: float, num_players: int) -> Callable[[Sequence[Batch]], bool]:
    """Are the intervals of relative points and gain narrow enough, and deals enough that one can tell?"""

    def enough(batches: Sequence[Batch]) -> bool:
        if sum(batch.count for batch in batches) < MIN_DEALS:
            return False
        means = round_means(joined(batches), num_players)
        return all(half_width(means[:, k]) <= precision for k in (RELATIVE, GAIN) if not np.isnan(means[0, k]))

    return enough


def _summary(match: Match, rounds: np.ndarray, games: dict[str, np.ndarray] | None) -> Evaluation:
    points, points_ci = mean_interval(rounds[:, _POINTS])
    relative, relative_ci = mean_interval(rounds[:, RELATIVE])
    gain, gain_ci = (None, None) if np.isnan(rounds[0, GAIN]) else mean_interval(rounds[:, GAIN])
    wins, wins_ci, placement = None, None, None
    if games is not None:
        better, equal = games["better"], games["equal"]
        wins, wins_ci = mean_interval(win_shares(games))
        placement = float((1 + better + (equal - 1) / 2).mean(axis=1).mean())
    return Evaluation(
        candidate=match.candidate,
        opponent=match.opponent,
        omniscient=match.omniscient,
        deals=len(rounds),
        points=points,
        points_ci=points_ci,
        relative=relative,
        relative_ci=relative_ci,
        gain=gain,
        gain_ci=gain_ci,
        tens=float(rounds[:, _TENS].mean()),
        fool=float(rounds[:, _FOOL].sum() / rounds[:, _TRICKS].sum()),
        games=0 if games is None else len(games["better"]),
        wins=wins,
        wins_ci=wins_ci,
        placement=placement,
    )
