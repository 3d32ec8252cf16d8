"""What a run shows: progress.csv, TensorBoard events, a log, one line of progress, and curves.png."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text
from stable_baselines3.common.logger import KVWriter, TensorBoardOutputFormat
from torch.utils.tensorboard import SummaryWriter

from fool_env.train.checkpoint import write_whole

STEPS = "time/total_timesteps"


class ProgressCsv(KVWriter):
    """A row for each iteration, in fixed columns.

    Unlike Stable-Baselines3's writer it goes on with a file: rows of later steps than `steps`, and one that a killed
    process left unfinished, are dropped, because the resumed run will write them again.
    """

    def __init__(self, path: Path, columns: Sequence[str], steps: int) -> None:
        rows = [row for row in read_rows(path) if int(row[STEPS]) <= steps] if path.exists() else []
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(path, text.getvalue().encode())
        self._file = path.open("a", newline="")
        self._writer = csv.DictWriter(self._file, columns, lineterminator="\n")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a row; a key that is no column is an error."""
        self._writer.writerow(key_values)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_rows(path: Path) -> list[dict[str, str]]:
    """The whole rows of a progress.csv."""
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if None not in row.values()]


class Events(TensorBoardOutputFormat):
    """TensorBoard events; those of later steps, which the resumed run will write again, are hidden."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.writer = SummaryWriter(str(folder), purge_step=steps + 1 if steps else None)
        self._is_closed = False


class Reporter:
    """The terminal and `train.log`: lines that stay, and below them one that moves where there is a terminal."""

    def __init__(self, log: Path, console: Console) -> None:
        self._console = console
        self._log = log.open("a")
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Reporter:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._log.close()

    def say(self, line: str) -> None:
        """A line that stays."""
        self._console.print(Text(line), soft_wrap=True)
        self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")
        self._log.flush()

    def show(self, line: str) -> None:
        """The line that moves, cut to the terminal's width."""
        if self._live is not None:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)


def duration(seconds: float) -> str:
    """Seconds as "1:02:03" or "2:03"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def draw_curves(path: Path, rows: Sequence[dict[str, str]], history: Sequence[dict[str, Any]]) -> None:
    """Draw curves.png: strength against each opponent, exploration, explained variance, speed, all over steps.

    Args:
        path: the picture.
        rows: of progress.csv.
        history: of ladder.json.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    strength, exploration, variance, speed = figure.subplots(2, 2).flat
    for table in dict.fromkeys(result["table"] for entry in history for result in entry["results"]):
        points = [
            (entry["steps"] / 1e6, result["relative"], result["relative_ci"])
            for entry in history
            for result in entry["results"]
            if result["table"] == table
        ]
        millions, relative, intervals = zip(*points, strict=True)
        (line,) = strength.plot(millions, relative, label=f"table of {table}")
        bands = [interval or [value, value] for value, interval in zip(relative, intervals, strict=True)]
        low, high = zip(*bands, strict=True)
        strength.fill_between(millions, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    strength.axhline(0, color="grey", linewidth=0.8)
    strength.set(title="Points a round relative to the other seats", ylabel="points")
    if history:
        strength.legend()
    entropy = (exploration, "train/relative_entropy", "Entropy of decisions, % of log(legal actions)", 100)
    epsilon = (exploration, "train/epsilon", "Decisions left to chance, %", 100)
    for axes, key, title, scale in (
        epsilon if rows and epsilon[1] in rows[0] else entropy,
        (variance, "train/explained_variance", "Variance of returns that values explain, %", 100),
        (speed, "time/fps", "Speed, thousands of steps a second", 1e-3),
    ):
        values = [(int(row[STEPS]) / 1e6, float(row[key]) * scale) for row in rows if row[key]]
        axes.plot(*zip(*values, strict=True))
        axes.set(title=title, ylim=(0, None))
    for axes in (variance, speed):
        axes.set_xlabel("million steps")
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    write_whole(path, image.getvalue())
