"""LEADERBOARD.md: how the agents that come with this project fare at tables of 4, 6 and 8, and at the benchmark.

    python train/leaderboard.py

One tournament for each number of players, and the benchmark's tasks, as `configs/leaderboard.yaml` has it. What is
played lies in `runs/leaderboard/<digest>`, the digest being that of the sources that play: so the same command goes on
where it was interrupted, and never with what other sources played. `standings.md` is there as soon as a table is
finished.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from fool_env import Rules
from fool_env.agents.agent import make_agent
from fool_env.agents.workers import Workers
from fool_env.train.benchmark import PROTOCOL, section
from fool_env.train.command import Bars, Parser, run_script
from fool_env.train.contest import Plan, Tournament, make_plan, play_tournament
from fool_env.train.provenance import machine, players_digest, source_commit, usable_cores
from fool_env.train.tasks import Score, Task, check_entry, find_tasks, score
from fool_env.train.tournament import explanation, page, save

_PROGRAM = "leaderboard"
_NUMBERS = ("deals", "games", "pair_deals", "seed")
_OTHERS = ("agents", "allow_omniscient")
_TABLES = "tables"
_MORE = "more_agents"
_TASKS = "tasks"
_PLAYERS = (4, 5, 6, 7, 8)
_INTRODUCTION = """\
# Leaderboard

Every agent that comes with fool-env, at mixed tables: for each deal a line-up is drawn by lot, each agent as often as
the others, and plays the deal in every seat. The order is by points relative to the others at the table.
`python train/leaderboard.py` writes this file; `configs/leaderboard.yaml` says what it plays."""
_BENCHMARK = """\
## Benchmark tasks

Named tasks that never change, for agents of anybody's. `python train/benchmark.py --task TASK --agent AGENT` makes a
row; ± is half of a 95% confidence interval over deals (of wins: over games)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    return run_script(_PROGRAM, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> int:
    if options.workers < 1:
        raise ValueError(f"--workers {options.workers}: at least 1 is needed")
    commit = source_commit()
    plans, entries = load_plans(options.config), load_entries(options.config)
    tournaments = [_play(plan, options.runs / players_digest(), options.workers) for plan in plans]
    scores = [(task, _score(task, agents, options.runs, options.workers)) for task, agents in entries]
    options.out.write_text(leaderboard(tournaments, scores, commit))
    print(f"wrote {options.out}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_PROGRAM, description="Play the tournaments of LEADERBOARD.md and write it.", allow_abbrev=False
    )
    packaged = Path(str(resources.files("fool_env.configs") / "leaderboard.yaml"))
    parser.add_argument(
        "--config", type=Path, default=packaged, metavar="FILE", help="what to play (default: configs/leaderboard.yaml)"
    )
    parser.add_argument(
        "--workers", type=int, default=usable_cores(), help="processes (default: as many as there are cores)"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path("runs/leaderboard"),
        metavar="FOLDER",
        help="for what is played (default: runs/leaderboard)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("LEADERBOARD.md"), metavar="FILE", help="(default: LEADERBOARD.md)"
    )
    return parser


def load_plans(path: Path) -> list[Plan]:
    """The tournaments of a config file, one for each number of players under `tables`.

    A table has the keys agents, deals, games, pair_deals, seed and allow_omniscient, as `make_plan` has them; what
    stands beside `tables` holds for all of them. Its `more_agents` come on top of the agents.

    Raises:
        OSError: there is no such file.
        ValueError: a key is unknown or missing, or as `make_plan`; the message names the file.
    """
    with _named(path):
        config = _config(path)
        shared = {key: value for key, value in config.items() if key not in (_TABLES, _TASKS)}
        return [
            _plan(players, shared | _section(table, f"{_TABLES}.{players}", (*_NUMBERS, *_OTHERS, _MORE)))
            for players, table in _section(config.get(_TABLES), _TABLES, _PLAYERS).items()
        ]


def load_entries(path: Path) -> list[tuple[Task, list[str]]]:
    """The benchmark's tasks under `tasks` of a config file, and the agents that are scored on each.

    Raises:
        OSError: there is no such file.
        ValueError: there is no such task or agent, or one that was not trained for it; the message names the file.
    """
    with _named(path):
        entries = []
        for name, agents in _config(path).get(_TASKS, {}).items():
            [task] = find_tasks([name])
            for spec in _names(agents, f"{_TASKS}.{name}"):
                check_entry(make_agent(spec), task)
            entries.append((task, agents))
        return entries


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors name the file that they are about."""
    try:
        yield
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def _config(path: Path) -> dict[Any, Any]:
    return _section(yaml.safe_load(path.read_text()), "the file", (*_NUMBERS, *_OTHERS, _TABLES, _TASKS))


def _section(values: Any, name: str, known: Sequence[Any]) -> dict[Any, Any]:
    """A mapping that has only known keys."""
    if not isinstance(values, dict) or not values:
        raise ValueError(f"{name}: {values!r} is not keys and values")
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), [str(each) for each in known], n=1, cutoff=0.5)
            raise ValueError(f"{name}: there is no key {key!r}" + (f"; do you mean {near[0]}?" if near else ""))
    return values


def _plan(players: int, options: dict[str, Any]) -> Plan:
    for key in _NUMBERS:
        if type(options.get(key, 0)) is not int:
            raise ValueError(f"{_TABLES}.{players}: {key}: {options[key]!r} is not a whole number")
    agents = _names(options.pop("agents", None), f"{_TABLES}.{players}: agents")
    more = options.pop(_MORE, [])
    agents = [*agents, *(_names(more, f"{_TABLES}.{players}: {_MORE}") if more else [])]
    return make_plan(agents, Rules.official(players), **options)


def _names(agents: Any, where: str) -> list[str]:
    if not isinstance(agents, list) or not all(isinstance(agent, str) for agent in agents):
        raise ValueError(f"{where}: {agents!r} is not a list of names")
    return agents


def _play(plan: Plan, folder: Path, workers: int) -> Tournament:
    """Play a tournament or what is missing of it, say what is finished, and leave its results in its folder."""
    players = plan.rules.num_players
    folder = folder / f"{players}p"
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    finished: set[str] = set()

    def show(what: str, done: float, total: int) -> None:
        bars.show(what, done, total)
        if done == total and what not in finished:
            finished.add(what)
            seconds = round(time.perf_counter() - start)
            print(f"{players} players, {what}: {total:,} done after {timedelta(seconds=seconds)}", flush=True)

    with Bars() as bars:
        tournament = play_tournament(plan, folder=folder, workers=workers, progress=show)
    save(tournament, folder)
    return tournament


def _score(task: Task, agents: Sequence[str], folder: Path, workers: int) -> list[Score]:
    """Score agents on a task, or play what is missing of it, and say which are finished."""
    start = time.perf_counter()
    scores = []
    with Bars() as bars, Workers(workers) as processes:
        for spec in agents:

            def show(opponent: str, done: float, total: int, spec: str = spec) -> None:
                bars.show(f"{task.name}: {spec} at {opponent}", done, total)

            scores.append(score(task, spec, folder=folder, workers=processes, progress=show))
            seconds = round(time.perf_counter() - start)
            print(f"{task.name}: {spec} scored after {timedelta(seconds=seconds)}", flush=True)
    return scores


def leaderboard(
    tournaments: Sequence[Tournament], scores: Sequence[tuple[Task, list[Score]]], commit: str | None
) -> str:
    """LEADERBOARD.md."""
    made_by = machine()
    versions = ", ".join(f"{name} {made_by[name]}" for name in made_by if name != "cpu")
    facts = f"Commit {commit or 'unknown'}; {versions}; CPU times on one core of {made_by['cpu']}."
    parts = [_INTRODUCTION, facts, explanation().strip()]
    parts += [page(tournament, "##").strip() for tournament in tournaments]
    if scores:
        parts += [_BENCHMARK, "\n".join(f"- {line}" for line in PROTOCOL)]
        parts += [section(task, reached).strip() for task, reached in scores]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
