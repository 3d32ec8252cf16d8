"""What a tournament shows: standings and seats as tables of words, for the terminal and for files, and a heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from rich import box
from rich.table import Table

from fool_env.agents.mixed import Estimate
from fool_env.train.ratings import REPLICATES

UPPER_BOUND: Final = "upper bound: sees all hands"
AGENT: Final = "agent"
_NONE: Final = "-"

EXPLANATION: Final = (
    "points: a round's; relative: minus the mean of the other seats', which orders the agents. ± is half of a 95% "
    "confidence interval over deals (of wins: over games).",
    "places: how often first, second, ... last; equal totals share their places. rating: OpenSkill's (Plackett-Luce, "
    f"25 to begin with) by these places, rated anew in each of {REPLICATES} bootstrap samples of whole deals or games: "
    "their mean, and in brackets their middle 95%. Its own sigma would depend on the order of the tables.",
    "CPU a move: the process's CPU time for the agent's choices, forced ones too, in the batches that came up.",
)
SEAT_EXPLANATION: Final = (
    "Points a round by seat, whoever sits there; relative: minus the mean of the other seats'. The dealer is drawn by "
    "lot, so seats by number should not differ; counted from the dealer (0) to the left they may: seat 1 leads."
)


@dataclass(frozen=True)
class Standing:
    """An agent's results at mixed tables; estimates are a mean and its 95% confidence interval.

    Attributes:
        agent: its name.
        deals: in which it sat, each played n times.
        points: a round's.
        relative: a round's minus the mean of the other seats'.
        games: full games in which it sat, each played n times.
        wins: share of full games won, to be held against 1/n; None without games.
        places: shares of first, second and so on places, of full games, or else of rounds.
        rating: OpenSkill's, with its bootstrapped interval; None for one that sees all hands.
        cpu_seconds: process CPU time a move.
    """

    agent: str
    deals: int
    points: Estimate
    relative: Estimate
    games: int
    wins: Estimate | None
    places: list[float]
    rating: Estimate | None
    cpu_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """One entry of a tournament's JSON; `name_ci` beside `name` is its interval [low, high]."""
        return _flat(asdict(self))


@dataclass(frozen=True)
class SeatRow:
    """What a seat is worth whoever sits there: points a round, and minus the mean of the other seats'.

    Attributes:
        place: the seat's number, or how many places to the left of the dealer.
        points, relative: of that seat.
        points_from_dealer, relative_from_dealer: of the seat that many places to the left of the dealer.
    """

    place: int
    points: Estimate
    relative: Estimate
    points_from_dealer: Estimate
    relative_from_dealer: Estimate

    def to_dict(self) -> dict[str, Any]:
        """One entry of a tournament's JSON, likewise."""
        return _flat(asdict(self))


Words: TypeAlias = tuple[list[str], list[list[str]]]
"""A table: headings and rows."""


def in_order(standings: Sequence[Standing]) -> list[Standing]:
    """Best first: by relative points at mixed tables; those that are equal to the last digit by name."""
    return sorted(standings, key=lambda standing: (-standing.relative[0], standing.agent))


def standings_words(standings: Sequence[Standing], bounds: Sequence[Standing]) -> Words:
    """The standings in the order given, and below them, without a rank, those that see all hands."""
    by_games = standings[0].wins is not None
    headings = ["", AGENT, "points", "relative", *(["games won"] if by_games else [])]
    headings += [f"places in {'games' if by_games else 'rounds'}, %", "rating", "CPU a move"]
    rows = []
    for rank, standing in enumerate([*standings, *bounds]):
        honest = rank < len(standings)
        row = [str(rank + 1) if honest else "", standing.agent + ("" if honest else f" ({UPPER_BOUND})")]
        row += [plus_minus(standing.points, "+.2f"), plus_minus(standing.relative, "+.2f")]
        row += [plus_minus(standing.wins, ".1%")] if standing.wins is not None else []
        row += [" ".join(f"{share * 100:.0f}" for share in standing.places), _range(standing.rating)]
        rows.append([*row, duration(standing.cpu_seconds)])
    return headings, rows


def seat_words(seats: Sequence[SeatRow]) -> Words:
    """What each seat is worth."""
    headings = ["", "points of this seat", "relative", "points this far left of the dealer", "relative"]
    return headings, [
        [
            str(row.place),
            *(
                plus_minus(value, "+.2f")
                for value in (row.points, row.relative, row.points_from_dealer, row.relative_from_dealer)
            ),
        ]
        for row in seats
    ]


def rich_table(words: Words) -> Table:
    """For the terminal."""
    headings, rows = words
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading == AGENT else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def markdown(words: Words) -> str:
    """For a file."""
    headings, rows = words
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def draw_head_to_head(path: Path, names: Sequence[str], pairs: Mapping[tuple[str, str], Estimate], title: str) -> None:
    """Draw the heat map: a row for the one, a column for those that take the other seats."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    size = 2.5 + 0.75 * len(names)
    figure = Figure(figsize=(size + 1, size), layout="constrained")
    axes = figure.subplots()
    draw_heat_map(axes, names, pairs, "points a round minus the mean of the others'")
    axes.set(xlabel="all other seats", ylabel="one seat", title=title)
    figure.savefig(path, dpi=150, format="png")


def draw_heat_map(axes: Any, names: Sequence[str], pairs: Mapping[tuple[str, str], Estimate], label: str) -> None:
    """Draw a matrix of estimates into Matplotlib's axes: rows for the first of a pair, columns for the second."""
    cells = [[pairs.get((one, others)) for others in names] for one in names]
    means = np.array([[np.nan if cell is None else cell[0] for cell in row] for row in cells])
    limit = max(np.nanmax(np.abs(means)), 1e-9)
    image = axes.imshow(means, cmap="RdBu", vmin=-limit, vmax=limit)
    for row, column in np.argwhere(~np.isnan(means)):
        text = plus_minus(pairs[names[row], names[column]], "+.1f").replace(" ", "\n")
        colour = "black" if abs(means[row, column]) < 0.6 * limit else "white"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    axes.figure.colorbar(image, label=label, shrink=0.8)


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Estimates as two entries; only an estimate can be None."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or isinstance(value, tuple):
            mean, interval = (None, None) if value is None else value
            flat |= {name: mean, f"{name}_ci": None if interval is None else list(interval)}
        else:
            flat[name] = value
    return flat


def plus_minus(estimate: Estimate, form: str) -> str:
    """ "-3.52 ±0.31", the half-width behind the mean."""
    mean, interval = estimate
    text = format(mean, form)
    return text if interval is None else f"{text} ±{format((interval[1] - interval[0]) / 2, form.removeprefix('+'))}"


def _range(estimate: Estimate | None) -> str:
    """ "25.1 (24.2 to 26.3)"."""
    if estimate is None:
        return _NONE
    mean, interval = estimate
    return f"{mean:.1f}" if interval is None else f"{mean:.1f} ({interval[0]:.1f} to {interval[1]:.1f})"


def duration(seconds: float) -> str:
    """ "2.5 µs", "31 ms"."""
    value, unit = (seconds * 1e3, "ms") if seconds >= 1e-3 else (seconds * 1e6, "µs")
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
