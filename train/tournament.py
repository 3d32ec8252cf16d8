"""Who is strongest? Agents meet at mixed tables, on deals that everybody plays from every seat.

    python train/tournament.py --agents random lowest highest cautious --players 6 --deals 1000 --games 100
    python train/tournament.py --agents highest cautious runs/6p/final.zip --players 6 --workers 2 --out runs/mine

Agents are named as `make_agent` takes them, and ordered by relative points; full games won stand beside. The folder
gets results.json, standings.md and head-to-head.png, and in `*.jsonl` all that is played, so that the same command goes
on where it was interrupted. All intervals are 95% confidence intervals over deals (of wins: over games);
`fool_env.agents.mixed` says how.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from fool_env import Rules
from fool_env.agents.agent import AnyAgent, OmniscientAgent, make_agent
from fool_env.agents.batches import BatchFile, describe_task, run_batches
from fool_env.agents.intervals import Interval
from fool_env.agents.mixed import Estimate, MixedResults, MixedTables
from fool_env.agents.workers import Batch, Job, Workers
from fool_env.rng import checked_seed
from fool_env.train.command import INTERRUPTED, Bars, Parser, common_rules, output_console, refuse
from fool_env.train.provenance import machine, source_commit
from fool_env.train.ratings import REPLICATES, REPLICATES_PER_BATCH, Bootstrap, intervals
from fool_env.train.standings import (
    EXPLANATION,
    SEAT_EXPLANATION,
    HeadToHead,
    SeatRow,
    Standing,
    draw_head_to_head,
    in_order,
    markdown,
    rich_table,
    seat_words,
    standings_words,
)

Progress = Callable[[str, float, int], None]
"""Called with what is being played, how much of it is done, and how much there is."""

DEALS_PER_BATCH: Final = 12
GAMES_PER_BATCH: Final = 2
"""With search agents a batch takes up to a minute, and an interruption costs no more."""

BATCHES: Final = "batches.jsonl"


@dataclass(frozen=True)
class Plan:
    """A tournament that can be played; agents are strings, or objects that play in this process only.

    Attributes:
        field: agents by name, in the order of their names.
        bounds: agents that see all hands, likewise.
        rules: of every table.
        deals: rounds' deals at mixed tables, each played n times.
        games: full games at mixed tables, each played n times.
        pair_deals: deals of each ordered pair, one against n - 1 of the other; 0 for no head-to-head matrix.
        seed: 0 to 2**64 - 1.
    """

    field: dict[str, str | AnyAgent]
    bounds: dict[str, str | AnyAgent]
    rules: Rules
    deals: int
    games: int
    pair_deals: int
    seed: int

    def task(self) -> dict[str, Any]:
        """What the file of batches is about; more deals or games of the same agents go on with it."""
        names = [*self.field, *self.bounds]
        return describe_task(names, self.rules, self.seed, tournament=list(self.field), upper_bounds=list(self.bounds))

    def in_words(self) -> str:
        """How much was played, and what to hold wins against."""
        players = self.rules.num_players
        games = f" and {self.games:,} games (wins by chance: {1 / players:.1%})" if self.games else ""
        return (
            f"{len(self.field)} agents at mixed tables of {players}: {self.deals:,} deals{games}, each played "
            f"by a line-up drawn by lot, in every seat; seed {self.seed}"
        )


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

    Raises:
        AgentError, OSError: an agent cannot be had.
        ValueError: fewer than two agents, one twice, one that sees all hands and is not allowed to, so few deals or
            games that somebody would sit in none, or a seed that is none.
    """
    made = [(make_agent(agent) if isinstance(agent, str) else agent, agent) for agent in agents]
    named = sorted(((agent.name, agent, spec) for agent, spec in made), key=lambda entry: entry[0])
    for (name, *_), (other, *_) in pairwise(named):
        if name == other:
            raise ValueError(f"agents: {name} is named twice")
    bounds = {name: spec for name, agent, spec in named if isinstance(agent, OmniscientAgent)}
    field = {name: spec for name, _, spec in named if name not in bounds}
    if bounds and not allow_omniscient:
        raise ValueError(
            f"agents: {next(iter(bounds))} sees all hands: what it reaches is an upper bound, not a strength; "
            "allow-omniscient lets it play without a rank"
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
        pairs: one against n - 1 of another, in the order of the standings; None if not asked for.
    """

    plan: Plan
    standings: list[Standing]
    bounds: list[Standing]
    seats: list[SeatRow]
    pairs: HeadToHead | None

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
            "head_to_head": self.pairs,
        }


def play_tournament(
    plan: Plan, *, folder: Path | None = None, workers: int = 1, progress: Progress | None = None
) -> Tournament:
    """Play a tournament, or what is missing of it in a folder.

    An agent that sees all hands meets the field at tables of its own, so that it changes nobody else's results.

    Args:
        folder: where all that is played is kept, batch by batch; None to keep nothing.
        workers: processes; results do not depend on it, but for CPU times.

    Raises:
        IllegalActionError, ValueError: an agent misbehaves, or the folder holds another tournament.
        KeyboardInterrupt: on Ctrl-C; what was finished is in the folder.
    """
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Workers(workers))
        store = None if folder is None else stack.enter_context(BatchFile(folder / BATCHES, plan.task()))
        stages = _Stages(plan, pool, store, progress)
        rounds, games = stages.tables("round", plan.deals), stages.games(plan.games)
        ratings = stages.ratings(games or rounds)
        # As many deals as each of the field sits in.
        share = min(plan.rules.num_players / len(plan.field), 1)
        bounds = [
            _standing(
                name,
                len(plan.field),
                stages.tables("round", ceil(share * plan.deals), name),
                stages.games(ceil(share * plan.games), name),
            )
            for name in plan.bounds
        ]
    standings = [_standing(name, number, rounds, games, ratings[number]) for number, name in enumerate(plan.field)]
    return Tournament(plan, in_order(standings), bounds, _seats(rounds), None)


class _Played(NamedTuple):
    """What came of deals or games at mixed tables."""

    results: MixedResults
    dealers: np.ndarray
    moves: np.ndarray
    cpu_seconds: np.ndarray


class _Stages:
    """Plays the parts of a tournament, as far as the store does not have them."""

    def __init__(self, plan: Plan, workers: Workers, store: BatchFile | None, progress: Progress | None) -> None:
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
        batches = self._run(what, job, count, DEALS_PER_BATCH if episode == "round" else GAMES_PER_BATCH, self._store)
        return _Played(
            MixedResults(job.seating(0, count), np.concatenate([batch.results["results"] for batch in batches])),
            np.concatenate([batch.results["dealers"] for batch in batches]),
            np.sum([batch.results["moves"] for batch in batches], axis=0),
            np.sum([batch.cpu_seconds for batch in batches], axis=0),
        )

    def games(self, count: int, guest: str | None = None) -> _Played | None:
        """Games likewise, if there are to be any."""
        return self.tables("game", count, guest) if count else None

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


def _seats(rounds: _Played) -> list[SeatRow]:
    absolute = rounds.results.by_seat(np.zeros_like(rounds.dealers))
    left_of_dealer = rounds.results.by_seat(rounds.dealers)
    return [SeatRow(place, *absolute[place], *left_of_dealer[place]) for place in range(len(absolute))]


# --- the command line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    try:
        options = _parser().parse_args(argv)
        plan = _plan(options)
        folder = options.out or Path("runs") / f"tournament-{plan.rules.num_players}p"
        folder.mkdir(parents=True, exist_ok=True)
        with Bars() as bars:
            tournament = play_tournament(plan, folder=folder, workers=options.workers, progress=bars.show)
        save(tournament, folder)
    except (ValueError, OSError) as error:
        return refuse("fool-tournament", error)
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on with what is in {folder}", file=sys.stderr)
        return INTERRUPTED
    _print(tournament, folder)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="fool-tournament",
        description="Order agents by what they score at mixed tables, where everybody plays every deal in every seat.",
        epilog="Agents: random, lowest, highest, cautious, pimc:worlds=8, or a checkpoint's path, such as "
        "runs/6p/final.zip.",
        allow_abbrev=False,
    )
    parser.add_argument("--agents", nargs="+", required=True, metavar="AGENT", help="two or more, in any order")
    parser.add_argument("--players", type=int, metavar="N", help="4 to 8, official rules (default: the checkpoints')")
    parser.add_argument("--deals", type=int, default=300, help="deals, each played once a seat (default: 300)")
    parser.add_argument("--games", type=int, default=0, help="full games, each played once a seat (default: 0)")
    parser.add_argument(
        "--pair-deals",
        type=int,
        default=50,
        help="deals for one agent at a table of another, for each two; 0 for no head-to-head matrix (default: 50)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the deals and of all choices by lot (default: 0)")
    parser.add_argument("--workers", type=int, default=1, help="processes; results do not depend on it (default: 1)")
    parser.add_argument(
        "--allow-omniscient",
        action="store_true",
        help="let agents play that see all hands, without a rank (default: refuse them)",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the results (default: runs/tournament-Np)")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    """The tournament that the options set.

    Raises:
        ValueError, OSError: an option is wrong, or an agent cannot be had.
    """
    if options.workers < 1:
        raise ValueError(f"--workers {options.workers}: at least 1 is needed")
    return make_plan(
        options.agents,
        common_rules([make_agent(agent) for agent in options.agents], options.players),
        deals=options.deals,
        games=options.games,
        pair_deals=options.pair_deals,
        seed=options.seed,
        allow_omniscient=options.allow_omniscient,
    )


# --- the results


def save(tournament: Tournament, folder: Path) -> None:
    """Write results.json, standings.md and, if there are pairs, head-to-head.png."""
    (folder / "results.json").write_text(json.dumps(tournament.to_dict(), indent=2) + "\n")
    (folder / "standings.md").write_text(page(tournament, "#"))
    if tournament.pairs is not None:
        names = [standing.agent for standing in tournament.standings]
        title = f"{tournament.plan.rules.num_players} players, {tournament.plan.pair_deals:,} deals in every seat"
        draw_head_to_head(folder / "head-to-head.png", names, tournament.pairs, title)


def page(tournament: Tournament, heading: str) -> str:
    """The results as Markdown under a heading, "#" or "##"."""
    parts = [
        f"{heading} {tournament.plan.rules.num_players} players",
        tournament.plan.in_words(),
        markdown(standings_words(tournament.standings, tournament.bounds)),
        SEAT_EXPLANATION,
        markdown(seat_words(tournament.seats)),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _print(tournament: Tournament, folder: Path) -> None:
    console = output_console()
    console.print(tournament.plan.in_words(), highlight=False)
    console.print(rich_table(standings_words(tournament.standings, tournament.bounds)))
    for line in EXPLANATION:
        console.print(line, highlight=False)
    console.print()
    console.print(SEAT_EXPLANATION, highlight=False)
    console.print(rich_table(seat_words(tournament.seats)))
    console.print(f"All of it is in {folder}.", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
