"""A tournament: who plays what, and what comes of it.

The field meets at mixed tables. An agent that sees all hands meets it at tables of its own, so that it changes nobody
else's results, and has no rank: what it reaches is an upper bound.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from fool_env import Rules
from fool_env.agents.agent import AnyAgent, OmniscientAgent, make_agent
from fool_env.agents.arena import Terms, head_to_head, open_results
from fool_env.agents.batches import BATCH_DEALS, BATCH_GAMES, BatchFile, run_batches
from fool_env.agents.intervals import Interval
from fool_env.agents.mixed import Estimate, MixedResults, MixedTables
from fool_env.agents.workers import Batch, Job, Workers
from fool_env.rng import checked_seed
from fool_env.train.provenance import machine, source_commit
from fool_env.train.ratings import REPLICATES, REPLICATES_PER_BATCH, Bootstrap, intervals
from fool_env.train.standings import SeatRow, Standing, in_order

Progress = Callable[[str, float, int], None]
"""Called with what is being played, how much of it is done, and how much there is."""

BATCHES: Final = "batches.jsonl"


@dataclass(frozen=True)
class Plan:
    """A tournament that can be played.

    Attributes:
        field: agents by name, in the order of their names.
        bounds: agents that see all hands, likewise.
        rules: of every table.
        deals: rounds' deals at mixed tables, each played n times.
        games: full games at mixed tables, each played n times.
        pair_deals: deals of each ordered pair, one against n - 1 of the other; 0 for no head-to-head matrix.
        seed: 0 to 2**64 - 1.
    """

    field: Mapping[str, AnyAgent]
    bounds: Mapping[str, AnyAgent]
    rules: Rules
    deals: int
    games: int
    pair_deals: int
    seed: int

    def in_words(self) -> str:
        """How much was played, and what to hold wins against."""
        players = self.rules.num_players
        games = f" and {self.games:,} games (wins by chance: {1 / players:.1%})" if self.games else ""
        return (
            f"{len(self.field)} agents at mixed tables of {players}: {self.deals:,} deals{games}, each played in every "
            f"seat by a line-up drawn by lot{'' if self.share == 1 else f', every agent in {self.share:.0%} of them'}; "
            f"seed {self.seed}"
        )

    @property
    def share(self) -> float:
        """Of the deals and games, that in which each of the field sits."""
        return min(self.rules.num_players / len(self.field), 1)


def make_plan(
    agents: Sequence[str | AnyAgent],
    rules: Rules,
    *,
    deals: int = 300,
    games: int = 0,
    pair_deals: int = 50,
    seed: int = 0,
    allow_omniscient: bool = False,
) -> Plan:
    """A tournament; the order in which its agents are named does not matter.

    Args:
        agents: by name, or objects, which can play only in this process unless their name makes them.

    Raises:
        AgentError, OSError: an agent cannot be had.
        ValueError: fewer than two agents, one twice, one that sees all hands and is not allowed to, so few deals or
            games that somebody would sit in none, or a seed that is none.
    """
    named = sorted((make_agent(agent) if isinstance(agent, str) else agent for agent in agents), key=_name)
    for agent, after in pairwise(named):
        if agent.name == after.name:
            raise ValueError(f"agents: {agent.name} is named twice")
    bounds = {agent.name: agent for agent in named if isinstance(agent, OmniscientAgent)}
    field = {agent.name: agent for agent in named if agent.name not in bounds}
    if bounds and not allow_omniscient:
        raise ValueError(
            f"agents: {next(iter(bounds))} sees all hands: what it reaches is an upper bound, not a strength; "
            "allow_omniscient (--allow-omniscient) lets it play without a rank"
        )
    if len(field) < 2:
        raise ValueError(f"agents: {len(field)} to be ordered; at least 2 are needed")
    fewest = -(-len(field) // rules.num_players)
    if deals < fewest or 0 < games < fewest or min(games, pair_deals) < 0:
        raise ValueError(
            f"deals: {deals}, games: {games}, pair_deals: {pair_deals}; {len(field)} agents at tables of "
            f"{rules.num_players} need {fewest} deals or more, as many games or none, and pair_deals of 0 or more"
        )
    return Plan(field, bounds, rules, deals, games, pair_deals, int(checked_seed(seed)))


@dataclass(frozen=True)
class Tournament:
    """What came of a plan.

    Attributes:
        plan: what was played.
        standings: of the field, best first: by relative points at mixed tables.
        bounds: of agents that see all hands, by name.
        seats: what each seat is worth, whoever sits there.
        pairs: relative points of one (the first) alone at a table of another (the second); None if not asked for.
    """

    plan: Plan
    standings: list[Standing]
    bounds: list[Standing]
    seats: list[SeatRow]
    pairs: dict[tuple[str, str], Estimate] | None

    def to_dict(self) -> dict[str, Any]:
        """The tournament's JSON."""
        plan = self.plan
        return {
            "players": plan.rules.num_players,
            "rules": plan.rules.to_dict(),
            "deals": plan.deals,
            "games": plan.games,
            "pair_deals": plan.pair_deals,
            "seed": plan.seed,
            "replicates": REPLICATES,
            "commit": source_commit(),
            "machine": machine(),
            "standings": [standing.to_dict() for standing in self.standings],
            "upper_bounds": [bound.to_dict() for bound in self.bounds],
            "seats": [row.to_dict() for row in self.seats],
            "head_to_head": None
            if self.pairs is None
            else [
                {"agent": one, "at": other, "relative": mean, "relative_ci": interval}
                for (one, other), (mean, interval) in self.pairs.items()
            ],
        }


def play_tournament(
    plan: Plan, *, folder: Path | None = None, workers: int = 1, progress: Progress | None = None
) -> Tournament:
    """Play a tournament, or what is missing of it in a folder.

    Args:
        folder: where all that is played is kept, batch by batch; None to keep nothing.
        workers: processes; results do not depend on it, but for CPU times.

    Raises:
        IllegalActionError, ValueError: an agent misbehaves, or the folder holds another tournament.
        KeyboardInterrupt: on Ctrl-C; what was finished is in the folder.
    """
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Workers(workers))
        path = None if folder is None else folder / BATCHES
        agents = [*plan.field.values(), *plan.bounds.values()]
        # More deals or games of the same agents go on with the same file.
        store = stack.enter_context(open_results(path, agents, plan.rules, Terms(seed=plan.seed)))
        stages = _Stages(plan, pool, store, progress)
        rounds, games = stages.tables("round", plan.deals), stages.games(plan.games)
        ratings = stages.ratings(games or rounds)
        # They sit in as many deals as each of the field.
        bounds = [
            _standing(
                name,
                len(plan.field),
                stages.tables("round", ceil(plan.share * plan.deals), name),
                stages.games(ceil(plan.share * plan.games), name),
            )
            for name in plan.bounds
        ]
        pairs = stages.pairs() if plan.pair_deals else None
    standings = [_standing(name, number, rounds, games, ratings[number]) for number, name in enumerate(plan.field)]
    return Tournament(plan, in_order(standings), bounds, _seats(rounds), pairs)


class _Played(NamedTuple):
    """What came of deals or games at mixed tables."""

    results: MixedResults
    dealers: np.ndarray
    moves: np.ndarray
    cpu_seconds: np.ndarray


class _Stages:
    """Plays the parts of a tournament, as far as the store does not have them."""

    def __init__(self, plan: Plan, workers: Workers, store: BatchFile, progress: Progress | None) -> None:
        self._plan = plan
        self._workers = workers
        self._store = store
        self._progress = progress

    def tables(self, episode: str, count: int, guest: str | None = None) -> _Played:
        """Deals or games of the field, or of the field and one that sees all hands."""
        plan = self._plan
        agents = [*plan.field.values(), *([] if guest is None else [plan.bounds[guest]])]
        job = MixedTables(agents, plan.rules, episode, plan.seed, guest is not None)
        what = f"{episode}s" if guest is None else f"{episode}s with {guest}"
        batches = self._run(what, job, count, BATCH_DEALS if episode == "round" else BATCH_GAMES, self._store)
        return _Played(
            MixedResults(job.seating(0, count), np.concatenate([batch.results["results"] for batch in batches])),
            np.concatenate([batch.results["dealers"] for batch in batches]),
            np.sum([batch.results["moves"] for batch in batches], axis=0),
            np.sum([batch.cpu_seconds for batch in batches], axis=0),
        )

    def games(self, count: int, guest: str | None = None) -> _Played | None:
        """Games likewise, if there are to be any."""
        return self.tables("game", count, guest) if count else None

    def pairs(self) -> dict[tuple[str, str], Estimate]:
        """What each of the field scores, relative to the others, alone at a table of each other."""
        agents = list(self._plan.field.values())
        terms = Terms(deals=self._plan.pair_deals, seed=self._plan.seed)

        def show(done: float, total: int) -> None:
            if self._progress is not None:
                self._progress("head-to-head", done, total)

        matrix = head_to_head(agents, self._plan.rules, terms, workers=self._workers, store=self._store, progress=show)
        return {
            (each.candidate, each.opponent): (each.relative, each.relative_ci)
            for row in matrix
            for each in row
            if each is not None
        }

    def ratings(self, played: _Played) -> list[tuple[float, Interval]]:
        """The field's ratings, by the places at the tables played."""
        job = Bootstrap(len(self._plan.field), played.results.seating, played.results.results, self._plan.seed)
        batches = self._run("ratings", job, REPLICATES, REPLICATES_PER_BATCH, None)
        return intervals(np.concatenate([batch.results["ratings"] for batch in batches]))

    def _run(self, what: str, job: Job, total: int, size: int, store: BatchFile | None) -> list[Batch]:
        def show(done: float) -> None:
            if self._progress is not None:
                self._progress(what, done, total)

        show(0)
        batches = run_batches(job, total, size, workers=self._workers, store=store, name=what, progress=show)
        show(total)
        return batches


def _standing(
    name: str, number: int, rounds: _Played, games: _Played | None, rating: Estimate | None = None
) -> Standing:
    both = [rounds] if games is None else [rounds, games]
    moves = sum(int(played.moves[number]) for played in both)
    return Standing(
        agent=name,
        deals=rounds.results.deals(number),
        points=rounds.results.points(number),
        relative=rounds.results.relative(number),
        games=0 if games is None else games.results.deals(number),
        wins=None if games is None else games.results.wins(number),
        places=both[-1].results.places(number),
        rating=rating,
        cpu_seconds=sum(float(played.cpu_seconds[number]) for played in both) / moves,
    )


def _name(agent: AnyAgent) -> str:
    return agent.name


def _seats(rounds: _Played) -> list[SeatRow]:
    absolute = rounds.results.by_seat(np.zeros_like(rounds.dealers))
    left_of_dealer = rounds.results.by_seat(rounds.dealers)
    return [SeatRow(place, *absolute[place], *left_of_dealer[place]) for place in range(len(absolute))]
