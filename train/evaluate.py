"""How strong is an agent? It plays the same deals in every seat against one opponent after another.

    python train/evaluate.py --checkpoint runs/6p/final.zip --opponents random highest cautious --deals 1000
    python train/evaluate.py --agent cautious --players 6 --opponents highest random+lowest --games 200

Agents are named as `make_agent` takes them; "a+b+c" is a mixed table, its agents taking the other seats in turn.
All intervals are 95% confidence intervals over deals (of wins: over games); `fool_env.agents.arena` says how.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from fool_env import Rules
from fool_env.agents.agent import AnyAgent, make_agent
from fool_env.agents.arena import Evaluation, evaluate, make_opponents
from fool_env.agents.intervals import Interval
from fool_env.rng import checked_seed
from fool_env.train.provenance import source_commit

OPPONENTS = ["random", "highest", "cautious"]
_BAD_INPUT = 2
_INTERRUPTED = 130
_NONE = "-"
_FILE_WIDTH = 120  # of a table that goes to a file or a pipe, which have no width of their own
_CAPTION = """\
points: a round's; relative: minus the mean of the other seats'; gain: minus the
opponent's own at that seat and deal. ± is half of a 95% confidence interval."""


@dataclass(frozen=True)
class Task:
    """What to evaluate, checked."""

    candidate: AnyAgent
    opponents: list[list[AnyAgent]]
    rules: Rules
    deals: int
    games: int
    seed: int
    deterministic: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    try:
        options = _parser().parse_args(argv)
        task = _task(options)
    except (ValueError, OSError) as error:
        return _refuse(error)

    results: list[Evaluation] = []
    interrupted = False
    try:
        _evaluate_all(task, results)
    except KeyboardInterrupt:
        interrupted = True
        print(f"interrupted: {len(results)} of {len(task.opponents)} opponents finished", file=sys.stderr)
    if results:
        _print_table(task, results)
        try:
            if options.json is not None:
                options.json.write_text(json.dumps(_report(task, results), indent=2) + "\n")
            if options.plot is not None:
                _plot(task, results, options.plot)
        except OSError as error:
            return _refuse(error)
    return _INTERRUPTED if interrupted else 0


# --- the command line


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would print its usage and exit, so that every mistake ends in one line and `main`."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; --help lists the options")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fool-evaluate",
        description="Evaluate an agent: it plays the same deals in every seat, against one opponent after another.",
        epilog="Agents: random, lowest, highest, cautious, or a checkpoint's path, such as runs/6p/final.zip.",
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
    parser.add_argument("--players", type=int, metavar="N", help="4 to 8, official rules (default: the checkpoint's)")
    parser.add_argument("--deals", type=int, default=1000, help="deals, each played once a seat (default: 1000)")
    parser.add_argument("--games", type=int, default=0, help="full games, each played once a seat (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="of the deals and of all choices by lot (default: 0)")
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="trained agents play their likeliest card (default: they sample)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON (default: do not)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the results as PNG (default: do not)")
    return parser


def _task(options: argparse.Namespace) -> Task:
    """The task that the options set.

    Raises:
        ValueError, OSError: an option is wrong, or an agent cannot be had.
    """
    if options.deals < 1:
        raise ValueError(f"--deals {options.deals}: at least 1 is needed")
    if options.games < 0:
        raise ValueError(f"--games {options.games}: cannot be negative")
    seed = int(checked_seed(options.seed))
    for path in (options.json, options.plot):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise ValueError(f"{path}: {'is a folder' if path.is_dir() else f'there is no folder {path.parent}'}")
    if options.checkpoint is not None and not options.checkpoint.endswith(".zip"):
        raise ValueError(f"--checkpoint {options.checkpoint}: is no .zip; other agents are named by --agent")
    candidate = make_agent(options.checkpoint or options.agent, options.deterministic)
    opponents = [make_opponents(spec, options.deterministic) for spec in options.opponents]
    agents = [candidate, *(agent for table in opponents for agent in table)]
    rules = _common_rules(agents, options.players)
    return Task(candidate, opponents, rules, options.deals, options.games, seed, options.deterministic)


def _common_rules(agents: list[AnyAgent], players: int | None) -> Rules:
    """The rules that trained agents learnt, all the same, or else the official ones for the players."""
    learnt = [(agent.name, agent.rules) for agent in agents if hasattr(agent, "rules")]
    if not learnt:
        if players is None:
            raise ValueError("--players is needed, as no checkpoint says how many")
        return Rules.official(players)
    first, rules = learnt[0]
    if players is not None and players != rules.num_players:
        raise ValueError(f"--players {players}: {first} was trained for {rules.num_players}")
    for other, other_rules in learnt:
        if other_rules != rules:
            raise ValueError(f"{first} and {other} were trained with different rules: {rules} and {other_rules}")
    return rules


def _refuse(error: Exception) -> int:
    print(f"fool-evaluate: error: {' '.join(str(error).split())}", file=sys.stderr)
    return _BAD_INPUT


# --- the work


def _evaluate_all(task: Task, results: list[Evaluation]) -> None:
    """Append the result against each opponent, showing progress on a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        for opponents in task.opponents:
            row = bar.add_task("against " + "+".join(agent.name for agent in opponents), total=task.deals + task.games)

            def show(done: float, total: int, row: TaskID = row) -> None:
                bar.update(row, completed=int(done), total=total)

            evaluation = evaluate(
                task.candidate,
                opponents,
                task.rules,
                deals=task.deals,
                games=task.games,
                seed=task.seed,
                progress=show,
            )
            results.append(evaluation)


# --- the results


def _report(task: Task, results: list[Evaluation]) -> dict[str, Any]:
    return {
        "agent": task.candidate.name,
        "players": task.rules.num_players,
        "rules": task.rules.to_dict(),
        "deals": task.deals,
        "games": task.games,
        "seed": task.seed,
        "sampling": not task.deterministic,
        "commit": source_commit(),
        "results": [result.to_dict() for result in results],
    }


def _heading(task: Task) -> str:
    players = task.rules.num_players
    games = f" and {task.games:,} games (1/n of the wins: {1 / players:.1%})" if task.games else ""
    choice = "play their likeliest card" if task.deterministic else "sample"
    return (
        f"{task.candidate.name} at tables of {players}: {task.deals:,} deals{games}, each played in every seat; "
        f"seed {task.seed}; trained agents {choice}"
    )


def _print_table(task: Task, results: list[Evaluation]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_FILE_WIDTH)
    table = Table(caption=_CAPTION, box=box.SIMPLE_HEAD, caption_justify="left", collapse_padding=True, pad_edge=False)
    table.add_column("against", overflow="fold")
    for heading in ("points", "relative", "gain", "+10", "Fool", *(("wins", "place") if task.games else ())):
        table.add_column(heading, justify="right", no_wrap=heading not in ("gain", "wins"))
    for result in results:
        cells = [
            _with_interval(result.points, result.points_ci, "{:+.2f}", "{:.2f}"),
            _with_interval(result.relative, result.relative_ci, "{:+.2f}", "{:.2f}"),
            _with_interval(result.gain, result.gain_ci, "{:+.2f}", "{:.2f}"),
            f"{result.tens:.1%}",
            f"{result.fool:.1%}",
        ]
        if result.placement is not None:
            cells += [_with_interval(result.wins, result.wins_ci, "{:.1%}", "{:.1%}"), f"{result.placement:.2f}"]
        table.add_row(result.opponent, *cells)
    console.print(_heading(task), highlight=False)
    console.print(table)


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
    axes.set_xticks(range(len(results)), [result.opponent for result in results])
    axes.set_xlim(-0.5, len(results) - 0.5)
    axes.set_xlabel("against")
    axes.set_ylabel("points a round, 95% CI")
    axes.set_title(f"{task.candidate.name}, {task.rules.num_players} players, {task.deals:,} deals", wrap=True)
    axes.legend()
    figure.savefig(path, dpi=150, format="png")


if __name__ == "__main__":
    sys.exit(main())
