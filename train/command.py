"""What the command lines of the scripts share: one line for every mistake, common rules, and a bar on a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, NoReturn

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fool_env import Rules
from fool_env.agents.agent import AnyAgent

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130

FILE_WIDTH: Final = 160
"""Of a table that goes to a file or a pipe, which have no width of their own."""


class Parser(argparse.ArgumentParser):
    """Raises where argparse would print its usage and exit, so that every mistake ends in one line and `main`."""

    def error(self, message: str) -> NoReturn:
        """Raise ValueError with argparse's message."""
        raise ValueError(f"{message}; --help lists the options")


def refuse(program: str, error: Exception) -> int:
    """Say in one line what was wrong; returns the exit code."""
    print(f"{program}: error: {' '.join(str(error).split())}", file=sys.stderr)
    return BAD_INPUT


def run_script(
    program: str, run: Callable[[], int], interrupted: str = "interrupted; the same command goes on from here"
) -> int:
    """What a script's `main` returns: what `run` does, or 2 after bad input, 130 after Ctrl-C, said in one line."""
    try:
        return run()
    except (ValueError, OSError) as error:
        return refuse(program, error)
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return INTERRUPTED


def common_rules(agents: Sequence[AnyAgent], players: int | None) -> Rules:
    """The rules that trained agents learnt, all the same, or else the official ones for the players.

    Raises:
        ValueError: two have learnt no rules in common, or not for so many players; or it is not said how many.
    """
    learnt: list[tuple[str, Sequence[Rules]]] = [
        (agent.name, agent.rules) for agent in agents if hasattr(agent, "rules")
    ]
    if not learnt:
        if players is None:
            raise ValueError("--players is needed, as no checkpoint says how many")
        return Rules.official(players)
    for name, rules in learnt:
        if players is not None and all(players != table.num_players for table in rules):
            raise ValueError(f"--players {players}: {name} was trained for {_numbers(rules)}")
    first, common = learnt[0][0], [table for table in learnt[0][1] if players in (None, table.num_players)]
    for other, rules in learnt:
        shared = [table for table in common if table in rules]
        if not shared:
            raise ValueError(
                f"{first} and {other} were trained with different rules: {_listed(common)} and {_listed(rules)}"
            )
        common = shared
    if len(common) > 1:
        raise ValueError(f"--players is needed: {first} was trained for {_numbers(common)}")
    return common[0]


def _numbers(rules: Sequence[Rules]) -> str:
    return " or ".join(str(table.num_players) for table in rules)


def _listed(rules: Sequence[Rules]) -> str:
    return ", ".join(map(str, rules))


def output_console() -> Console:
    """Standard output, as wide as the terminal, or as a file is to be."""
    console = Console()
    return console if console.is_terminal else Console(width=FILE_WIDTH)


class Bars:
    """A bar for each thing that takes its time, on standard error if that is a terminal; otherwise nothing."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._rows: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()

    def show(self, what: str, done: float, total: int) -> None:
        """How much of something is done."""
        if what not in self._rows:
            self._rows[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._rows[what], completed=int(done))
