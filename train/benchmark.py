"""The benchmark: named tasks on which anybody's agents can be compared.

    python train/benchmark.py --list
    python train/benchmark.py --task fool-6p-round --agent pretrained:6p --workers 2
    python train/benchmark.py --task all --agent runs/6p/final.zip
    python train/benchmark.py --task fool-6p-round --run runs/6p

A task (`configs/tasks.yaml`) is rules, an episode, opponents, deals that nothing else deals, and budgets of training;
it never changes. `fool_env.train.tasks` says what a score is, `--list` what an agent may have done to earn one. What is
played is kept in `runs/benchmark`, so the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fool_env.agents.agent import make_agent
from fool_env.agents.workers import Workers
from fool_env.train.command import Bars, Parser, output_console, run_script
from fool_env.train.standings import AGENT, Words, duration, markdown, plus_minus, rich_table
from fool_env.train.tasks import ALL, Score, Task, can_play, find_tasks, load_tasks, score

PROTOCOL: Final = (
    "Training: on any deals but the benchmark's, which fool-env's trainers never deal (`BENCHMARK` in "
    "`fool_env.agents.arena`). All plays count, over all tables: forced ones too, and those of a network that was "
    "started from.",
    "Checkpoints and options are chosen on other deals, as `train/evaluate.py` and a run's ladder have them: the best "
    "of several by its score has no score.",
    "Agents see what a seat may see, and none sees all hands. Plays that search imagines are no training; CPU time a "
    "move stands beside.",
)
_PROGRAM: Final = "fool-benchmark"
_SCORES: Final = {"round": "points a round minus the others' mean", "game": "share of games won"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    return run_script(_PROGRAM, lambda: _run(_parser().parse_args(argv)))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_PROGRAM,
        description="Score an agent on the benchmark's tasks, and print its rows for LEADERBOARD.md.",
        epilog="Agents: highest, cautious, pimc:worlds=32, pretrained:6p, ..., or a checkpoint's path.",
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="explain all tasks")
    what.add_argument("--agent", metavar="AGENT", help="who is scored")
    what.add_argument(
        "--run", type=Path, metavar="FOLDER", help="score all checkpoints of a run, and draw them over steps there"
    )
    parser.add_argument(
        "--task", nargs="+", metavar="TASK", help="tasks by name, or all: those that the agent was trained for"
    )
    parser.add_argument(
        "--deterministic", action="store_true", help="trained agents play their likeliest card (default: they sample)"
    )
    parser.add_argument(
        "--count",
        type=int,
        metavar="N",
        help="play only N deals or games, the first ones: a look, no score (default: the task's)",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes that play (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores as JSON (default: do not)")
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path("runs/benchmark"),
        metavar="FOLDER",
        help="for what is played (default: runs/benchmark)",
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.list:
        _print_tasks(list(load_tasks().values()))
        return 0
    if not options.task:
        raise ValueError("--task is needed; --list lists them")
    if options.count is not None and options.count < 1:
        raise ValueError(f"--count {options.count}: at least 1 is needed")
    if options.json is not None and not options.json.parent.is_dir():
        raise ValueError(f"--json {options.json}: there is no folder {options.json.parent}")
    specs = [options.agent] if options.run is None else [str(path) for path in _checkpoints(options.run)]
    tasks = _playable(find_tasks(options.task), specs[-1], ALL in options.task)
    scores: list[Score] = []
    with Workers(options.workers) as workers, Bars() as bars:
        for task in tasks:
            found = []
            for spec in specs:
                found.append(_score(task, spec, options, workers, bars))
                scores.append(found[-1])
                if options.json is not None:
                    options.json.write_text(json.dumps([one.to_dict() for one in scores], indent=2) + "\n")
            _print_scores(task, found)
            if options.run is not None:
                _write_curve(options.run / task.name, task, found)
    return 0


def _score(task: Task, spec: str, options: argparse.Namespace, workers: Workers, bars: Bars) -> Score:
    def show(opponent: str, done: float, total: int) -> None:
        bars.show(f"{task.name}: {spec} at {opponent}", done, total)

    return score(
        task,
        spec,
        deterministic=options.deterministic,
        count=options.count,
        folder=options.runs,
        workers=workers,
        progress=show,
    )


def _playable(tasks: list[Task], spec: str, choose: bool) -> list[Task]:
    """The tasks, or those that an agent can play."""
    if not choose:
        return tasks
    agent = make_agent(spec)
    playable = [task for task in tasks if can_play(agent, task)]
    if not playable:
        raise ValueError(f"{agent.name} was trained for none of the tasks")
    return playable


# --- the results


def _print_tasks(tasks: Sequence[Task]) -> None:
    console = output_console()
    headings = [
        "task",
        "players",
        "played",
        "at tables of",
        "score, mean over these tables",
        "budgets, plays of training",
    ]
    rows = [
        [
            task.name,
            str(task.players),
            f"{task.count:,} {task.unit}",
            ", ".join(task.opponents),
            _SCORES[task.episode],
            ", ".join([f"{budget / 1e6:g} M" for budget in task.budgets] + ["unlimited"]),
        ]
        for task in tasks
    ]
    console.print(rich_table((headings, rows)))
    for line in (*PROTOCOL, "A name without its version, such as fool-6p-round, is the newest of that name."):
        console.print(f"- {line}", highlight=False)


def _print_scores(task: Task, scores: Sequence[Score]) -> None:
    console = output_console()
    console.print(f"{task.name}: {task.in_words()}", highlight=False)
    console.print(rich_table(score_words(task, scores)))
    if scores[0].count == task.count:
        console.print("For LEADERBOARD.md:", highlight=False)
        print(markdown(score_words(task, scores)).split("\n", 2)[2])
    else:
        console.print(f"{scores[0].count:,} {task.unit} instead of {task.count:,}: a look, no score.", highlight=False)


def score_words(task: Task, scores: Sequence[Score]) -> Words:
    """A row for each agent, best first if there are several; it says what it was trained with."""
    form = "+.2f" if task.episode == "round" else ".1%"
    headings = [AGENT, "plays of training", "budget", "score", *(f"at {name}" for name in task.opponents), "CPU a move"]
    rows = []
    for one in scores:
        name = one.agent + ("" if one.sampling else " (likeliest cards)")
        plays = "unknown" if one.plays is None else f"{one.plays / 1e6:.1f} M" if one.plays else "-"
        row = [name, plays, one.budget, plus_minus((one.score, one.score_ci), form)]
        row += [plus_minus(each, form) for each in zip(one.scores, one.scores_ci, strict=True)]
        rows.append([*row, duration(one.cpu_seconds)])
    return headings, rows


def section(task: Task, scores: Sequence[Score]) -> str:
    """A task in LEADERBOARD.md: what it is, and who reached what, best first."""
    ranked = sorted(scores, key=lambda one: (-one.score, one.agent))
    return f"### {task.name}\n\n{task.in_words()}\n\n{markdown(score_words(task, ranked))}"


# --- curves


def _checkpoints(run: Path) -> list[Path]:
    """A run's checkpoints, by steps.

    Raises:
        ValueError: there are none.
    """
    found = sorted((run / "checkpoints").glob("*.zip"))
    if not found:
        raise ValueError(f"{run} is not the folder of a run: there is no checkpoint in {run / 'checkpoints'}")
    return found


def _write_curve(path: Path, task: Task, scores: Sequence[Score]) -> None:
    """Write scores over plays of training as CSV and PNG: runs/6p/fool-6p-round-v1.csv and .png."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["plays", "count", "score", "low", "high", *task.opponents])
    for one in scores:
        writer.writerow([one.plays, one.count, one.score, *(one.score_ci or ("", "")), *one.scores])
    path.with_name(f"{path.name}.csv").write_text(text.getvalue())
    _draw_curve(path.with_name(f"{path.name}.png"), task, scores)


def _draw_curve(path: Path, task: Task, scores: Sequence[Score]) -> None:
    from matplotlib.figure import Figure  # slow to import, and needed only here

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    millions = [(one.plays or 0) / 1e6 for one in scores]
    low, high = zip(*((one.score_ci or (one.score, one.score)) for one in scores), strict=True)
    axes.plot(millions, [one.score for one in scores], color="black", label="score, 95% CI")
    axes.fill_between(millions, low, high, color="black", alpha=0.2, linewidth=0)
    for number, opponent in enumerate(task.opponents):
        axes.plot(millions, [one.scores[number] for one in scores], linewidth=0.8, label=f"at {opponent}")
    axes.axhline(task.chance, color="grey", linewidth=0.8)
    title = f"{task.name}, {scores[0].count:,} {task.unit}"
    axes.set(title=title, xlabel="million plays of training", ylabel=_SCORES[task.episode])
    axes.legend()
    figure.savefig(path, dpi=120, format="png")


if __name__ == "__main__":
    sys.exit(main())
