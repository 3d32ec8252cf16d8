"""How strong is an agent? It plays the same deals in every seat against one opponent after another.

    python train/evaluate.py --checkpoint runs/6p/final.zip --opponents random highest cautious --deals 1000
    python train/evaluate.py --agent cautious --players 6 --opponents highest random+lowest --games 200
    python train/evaluate.py --agent pimc:worlds=32 --players 6 --opponents highest --precision 0.3 --workers 2

Agents are named as `make_agent` takes them; "a+b+c" is a mixed table, its agents taking the other seats in turn.
All intervals are 95% confidence intervals over deals (of wins: over games); `fool_env.agents.arena` says how.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from fool_env import Rules
from fool_env.agents.agent import AnyAgent, OmniscientAgent, make_agent
from fool_env.agents.arena import (
    MIN_DEALS,
    Evaluation,
    Matchup,
    Terms,
    both_ways,
    evaluate_matchup,
    make_opponents,
    open_results,
)
from fool_env.agents.batches import BatchFile, checkpoint_digests
from fool_env.agents.intervals import Interval
from fool_env.agents.workers import Workers
from fool_env.train.command import INTERRUPTED, Bars, Parser, common_rules, output_console, refuse
from fool_env.train.provenance import source_commit

OPPONENTS = ["random", "highest", "cautious"]
_PROGRAM = "fool-evaluate"
_NONE = "-"
_CAPTION = """\
points: a round's; relative: minus the mean of the other seats'; gain: minus the
opponent's own at that seat and deal. ± is half of a 95% confidence interval."""
_BOUND = """
*: an agent at this table sees all hands: bounds, not strengths."""


@dataclass(frozen=True)
class Task:
    """What to evaluate, checked."""

    candidate: AnyAgent
    matchups: list[Matchup]
    rules: Rules
    terms: Terms
    deterministic: bool
    workers: int
    results: Path | None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    try:
        return _run(argv)
    except KeyboardInterrupt:  # before or after the play
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    results: list[Evaluation] = []
    code = 0
    with contextlib.ExitStack() as stack:
        try:
            options = _parser().parse_args(argv)
            task = _task(options)
            store = stack.enter_context(_open_store(task, options.transcripts))
        except (ValueError, OSError) as error:
            return refuse(_PROGRAM, error)
        try:
            _evaluate_all(task, store, results)
        except KeyboardInterrupt:
            code = INTERRUPTED
            print(_interruption(task, len(results)), file=sys.stderr)
        except OSError as error:  # a full disk, or a worker process that died
            code = refuse(_PROGRAM, error)
    if results:
        _print_table(task, results)
        try:
            if options.json is not None:
                options.json.write_text(json.dumps(_report(task, results), indent=2) + "\n")
            if options.plot is not None:
                _plot(task, results, options.plot)
        except OSError as error:
            return refuse(_PROGRAM, error)
    return code


# --- the command line


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_PROGRAM,
        description="Evaluate an agent: it plays the same deals in every seat, against one opponent after another.",
        epilog="Agents: random, lowest, highest, cautious, pimc:worlds=32, ismcts:iterations=1000, pretrained:6p, ..., "
        "or a checkpoint's path, such as runs/6p/final.zip.",
        allow_abbrev=False,
    )
    candidate = parser.add_mutually_exclusive_group(required=True)
    candidate.add_argument("--checkpoint", metavar="FILE", help="the trained agent to evaluate, at the rules it learnt")
    candidate.add_argument("--agent", metavar="AGENT", help="any agent to evaluate, by name")
    parser.add_argument(
        "--opponents",
        nargs="+",
        default=OPPONENTS,
        metavar="AGENT",
        help="who fills the other seats, one table after another; a+b+c is a mixed table, seated in turn, "
        f"without a gain (default: {' '.join(OPPONENTS)})",
    )
    parser.add_argument(
        "--both-ways",
        action="store_true",
        help="also each opponent alone at a table of the agent (default: the agent alone at each opponent's)",
    )
    parser.add_argument("--players", type=int, metavar="N", help="4 to 8, official rules (default: the checkpoint's)")
    parser.add_argument("--deals", type=int, default=1000, help="deals, each played once a seat (default: 1000)")
    parser.add_argument("--games", type=int, default=0, help="full games, each played once a seat (default: 0)")
    parser.add_argument(
        "--precision",
        type=float,
        metavar="POINTS",
        help="play fewer deals, if the intervals of relative points and gain are within so many points of the mean "
        f"before, but at least {MIN_DEALS} (default: play all deals)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the deals and of all choices by lot (default: 0)")
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="trained agents play their likeliest card (default: they sample)",
    )
    parser.add_argument(
        "--allow-omniscient",
        action="store_true",
        help="let agents play that see all hands, such as cheat: what they reach is an upper bound on what search "
        "can reach, not a strength (default: refuse them)",
    )
    _add_files(parser)
    return parser


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that play, for the same results (default: 1)"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="keep what is played as JSON lines; the same command goes on from there (default: do not)",
    )
    parser.add_argument(
        "--transcripts", type=Path, metavar="FILE", help="write every game played as JSON lines (default: do not)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON (default: do not)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the results as PNG (default: do not)")


def _task(options: argparse.Namespace) -> Task:
    """The task that the options set.

    Raises:
        ValueError, OSError: an option is wrong, or an agent cannot be had.
    """
    _check_numbers(options)
    _check_paths([options.json, options.plot, options.results, options.transcripts])
    if options.checkpoint is not None and not options.checkpoint.endswith(".zip"):
        raise ValueError(f"--checkpoint {options.checkpoint}: is no .zip; other agents are named by --agent")
    candidate = make_agent(options.checkpoint or options.agent, options.deterministic)
    # Whether those that see all hands may play is asked below, so that the message names the option.
    tables = [make_opponents(spec, options.deterministic, allow_omniscient=True) for spec in options.opponents]
    agents = [candidate, *(agent for opponents in tables for agent in opponents)]
    for agent in agents:
        if isinstance(agent, OmniscientAgent) and not options.allow_omniscient:
            raise ValueError(
                f"{agent.name} sees all hands, so its results are an upper bound, not a strength: "
                "--allow-omniscient lets it play"
            )
    matchups: list[Matchup] = [(candidate, opponents) for opponents in tables]
    return Task(
        candidate,
        both_ways(matchups) if options.both_ways else matchups,
        common_rules(agents, options.players),
        Terms(
            deals=options.deals,
            games=options.games,
            precision=options.precision,
            seed=options.seed,
            allow_omniscient=options.allow_omniscient,
        ),
        options.deterministic,
        options.workers,
        options.results,
    )


def _check_numbers(options: argparse.Namespace) -> None:
    if options.deals < 1:
        raise ValueError(f"--deals {options.deals}: at least 1 is needed")
    if options.games < 0:
        raise ValueError(f"--games {options.games}: cannot be negative")
    if options.precision is not None and not options.precision > 0:
        raise ValueError(f"--precision {options.precision}: has to be above 0")
    if options.workers < 1:
        raise ValueError(f"--workers {options.workers}: at least 1 is needed")


def _check_paths(paths: Sequence[Path | None]) -> None:
    written: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        if path.is_dir() or not path.parent.is_dir():
            raise ValueError(f"{path}: {'is a folder' if path.is_dir() else f'there is no folder {path.parent}'}")
        if path.resolve() in written:
            raise ValueError(f"{path}: two files of one name")
        written.add(path.resolve())


# --- the work


def _open_store(task: Task, transcripts: Path | None) -> BatchFile:
    agents = [agent for candidate, opponents in task.matchups for agent in (candidate, *opponents)]
    return open_results(task.results, agents, task.rules, task.terms, transcripts)


def _evaluate_all(task: Task, store: BatchFile, results: list[Evaluation]) -> None:
    """Append the result of each matchup, showing progress on a terminal."""
    with Bars() as bars, Workers(task.workers) as workers:
        for candidate, opponents in task.matchups:
            alone = "" if candidate is task.candidate else f"{candidate.name} "
            show = partial(bars.show, f"{alone}against " + "+".join(agent.name for agent in opponents))
            results.append(
                evaluate_matchup(
                    (candidate, opponents), task.rules, task.terms, workers=workers, store=store, progress=show
                )
            )


def _interruption(task: Task, finished: int) -> str:
    how = (
        f"; the same command goes on from {task.results}"
        if task.results
        else "; with --results FILE the next run would go on from here"
    )
    return f"interrupted: {finished} of {len(task.matchups)} tables finished{how}"


# --- the results


def _report(task: Task, results: list[Evaluation]) -> dict[str, Any]:
    agents = [agent for candidate, opponents in task.matchups for agent in (candidate, *opponents)]
    return {
        "agent": task.candidate.name,
        "files": {name: digest for agent in agents for name, digest in checkpoint_digests(agent.name).items()},
        "players": task.rules.num_players,
        "rules": task.rules.to_dict(),
        "deals": task.terms.deals,
        "games": task.terms.games,
        "precision": task.terms.precision,
        "seed": task.terms.seed,
        "sampling": not (task.deterministic or _is_greedy(task.candidate)),
        "commit": source_commit(),
        "results": [result.to_dict() for result in results],
    }


def _heading(task: Task) -> str:
    terms, players = task.terms, task.rules.num_players
    games = f" and {terms.games:,} games (1/n of the wins: {1 / players:.1%})" if terms.games else ""
    deals = f"{terms.deals:,} deals"
    if terms.precision is not None:
        deals = f"up to {deals}, enough for ±{terms.precision:g},"
    choice = "play their likeliest card" if task.deterministic else "sample"
    if not task.deterministic and _is_greedy(task.candidate):
        choice += ", but for this one, which was trained to be greedy"
    return (
        f"{task.candidate.name} at tables of {players}: {deals}{games}, each played in every seat; "
        f"seed {terms.seed}; trained agents {choice}"
    )


def _is_greedy(agent: AnyAgent) -> bool:
    return bool(getattr(agent, "deterministic", False))


def _names(result: Evaluation) -> tuple[str, str]:
    """Who sits alone, and against whom; a star marks bounds."""
    return result.candidate, result.opponent + (" *" if result.omniscient else "")


def _print_table(task: Task, results: list[Evaluation]) -> None:
    console = output_console()
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    names = ["against"] if _one_way(task) else ["alone", "against"]
    for heading in names:
        table.add_column(heading, overflow="fold")
    more = [*(("deals",) if task.terms.precision is not None else ()), *(("wins", "place") if task.terms.games else ())]
    for heading in ("points", "relative", "gain", "+10", "Fool", *more):
        table.add_column(heading, justify="right", no_wrap=heading not in ("gain", "wins"))
    for result in results:
        cells = [
            _with_interval(result.points, result.points_ci, "{:+.2f}", "{:.2f}"),
            _with_interval(result.relative, result.relative_ci, "{:+.2f}", "{:.2f}"),
            _with_interval(result.gain, result.gain_ci, "{:+.2f}", "{:.2f}"),
            f"{result.tens:.1%}",
            f"{result.fool:.1%}",
        ]
        if task.terms.precision is not None:
            cells.append(f"{result.deals:,}")
        if result.placement is not None:
            cells += [_with_interval(result.wins, result.wins_ci, "{:.1%}", "{:.1%}"), f"{result.placement:.2f}"]
        table.add_row(*_names(result)[-len(names) :], *cells)
    console.print(_heading(task), highlight=False)
    console.print(table)
    console.print(_CAPTION + (_BOUND if any(result.omniscient for result in results) else ""), highlight=False)


def _one_way(task: Task) -> bool:
    return all(candidate is task.candidate for candidate, _ in task.matchups)


def _with_interval(mean: float | None, interval: Interval | None, mean_format: str, half_format: str) -> str:
    """ "-3.52 ±0.31", the half-width behind the mean."""
    if mean is None:
        return _NONE
    text = mean_format.format(mean)
    return text if interval is None else f"{text} ±{half_format.format((interval[1] - interval[0]) / 2)}"


def _plot(task: Task, results: list[Evaluation], path: Path) -> None:
    """Draw points, relative and gain against each opponent, with their intervals."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    figure = Figure(figsize=(2.5 + 1.5 * len(results), 4.5), layout="constrained")
    axes = figure.subplots()
    one_way = _one_way(task)
    axes.axhline(0, color="grey", linewidth=0.8)
    for number, name in enumerate(("points", "relative", "gain")):
        for place, result in enumerate(results):
            values = result.to_dict()
            mean, interval = values[name], values[f"{name}_ci"]
            if mean is None:
                continue
            half = 0.0 if interval is None else (interval[1] - interval[0]) / 2
            axes.errorbar(
                place + 0.15 * (number - 1), mean, yerr=half, fmt="os^"[number], color=f"C{number}", capsize=4
            )
        axes.errorbar([], [], yerr=[], fmt="os^"[number], color=f"C{number}", capsize=4, label=name)
    axes.set_xticks(range(len(results)), ["\nagainst ".join(_names(result)[one_way:]) for result in results])
    axes.set_xlim(-0.5, len(results) - 0.5)
    if one_way:
        axes.set_xlabel("against")
    axes.set_ylabel("points a round, 95% CI")
    axes.set_title(f"{task.candidate.name}, {task.rules.num_players} players, {task.terms.deals:,} deals", wrap=True)
    axes.legend()
    figure.savefig(path, dpi=150, format="png")


if __name__ == "__main__":
    sys.exit(main())
