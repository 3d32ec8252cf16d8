"""A config trained with several seeds: interquartile means, and intervals that say what other seeds might have brought.

The interquartile mean (IQM) leaves out the best and the worst quarter of the seeds, whole seeds only: of five, one at
each end; of three, none. Its 95% interval is a percentile bootstrap over seeds, stratified by config (Agarwal et al.
2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice"). All seeds are measured on the same
deals, so the luck of those is in no interval over seeds: it is in the intervals over deals that each seed has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy import stats

from fool_env.agents.intervals import Interval
from fool_env.train.standings import Words, plus_minus

RESAMPLES: Final = 9999
_QUARTER: Final = 0.25
_BATCH: Final = 1000  # resamples at a time, to bound the memory
_BOOTSTRAP_SEED: Final = 0
MEASURES: Final = ("gain", "relative", "wins")


def interquartile_mean(scores: np.ndarray, axis: int = -1) -> Any:
    """The mean without the best and the worst quarter along an axis: float64[...]."""
    return stats.trim_mean(scores, _QUARTER, axis=axis)


def seed_intervals(scores: np.ndarray) -> np.ndarray | None:
    """95% intervals of the interquartile means over seeds.

    Args:
        scores: float64[seeds, points].

    Returns:
        Lower and upper ends, float64[2, points]; None for a single seed.
    """
    return None if len(scores) < 2 else _bootstrap((scores,), interquartile_mean)


def difference(scores: np.ndarray, reference: np.ndarray) -> tuple[float, Interval | None]:
    """How much the interquartile mean over one config's seeds is above another's, with its 95% interval.

    Args:
        scores, reference: float64[seeds] each; their seeds are drawn independently of one another.
    """

    def above(one: np.ndarray, other: np.ndarray, axis: int = -1) -> Any:
        return interquartile_mean(one, axis) - interquartile_mean(other, axis)

    mean = float(above(scores, reference))
    if min(len(scores), len(reference)) < 2:
        return mean, None
    low, high = _bootstrap((scores[:, None], reference[:, None]), above)[:, 0]
    return mean, (float(low), float(high))


def _bootstrap(samples: tuple[np.ndarray, ...], statistic: Any) -> np.ndarray:
    result = stats.bootstrap(
        samples,
        statistic,
        n_resamples=RESAMPLES,
        batch=_BATCH,
        vectorized=True,
        axis=0,
        method="percentile",
        rng=np.random.default_rng(_BOOTSTRAP_SEED),
    )
    return np.stack(result.confidence_interval)


# --- what several seeds of a config came to


@dataclass(frozen=True)
class Curve:
    """Strength at a table of one opponent on the way, on the deals of selection.

    Attributes:
        measure: "gain", or "relative" at a mixed table, which has no gain.
        steps: plays, int64[points].
        scores: float64[seeds, points].
    """

    measure: str
    steps: np.ndarray
    scores: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Its JSON."""
        intervals = seed_intervals(self.scores)
        return {
            "measure": self.measure,
            "steps": self.steps.tolist(),
            "seeds": self.scores.tolist(),
            "iqm": interquartile_mean(self.scores, 0).tolist(),
            "iqm_ci": None if intervals is None else intervals.T.tolist(),
        }


class SeedResults:
    """What several seeds of one config came to.

    Args:
        name: the config's.
        ladders: the content of the finished runs' ladder.json, by seed.
    """

    def __init__(self, name: str, ladders: Mapping[int, dict[str, Any]]) -> None:
        self.name = name
        self.ladders = dict(sorted(ladders.items()))
        first = next(iter(self.ladders.values()))
        self.opponents: list[str] = [result["table"] for result in first["results"]]

    def curve(self, opponent: str) -> Curve:
        """Strength against one opponent on the way."""
        histories = [ladder["history"] for ladder in self.ladders.values()]
        entries = [[against(entry["results"], opponent) for entry in history] for history in histories]
        measure = measure_of(entries[0][0])
        return Curve(
            measure,
            np.array([entry["steps"] for entry in histories[0]]),
            np.array([[result[measure] for result in row] for row in entries]),
        )

    def final(self, opponent: str) -> dict[int, dict[str, Any]]:
        """Each seed's report against one opponent, as its ladder.json has it."""
        return {seed: against(ladder["results"], opponent) for seed, ladder in self.ladders.items()}

    def scores(self, opponent: str, measure: str) -> np.ndarray | None:
        """A measure of the reports: float64[seeds]; None if they do not have it."""
        values = [result[measure] for result in self.final(opponent).values()]
        return None if None in values else np.array(values)

    def estimate(self, opponent: str, measure: str) -> tuple[float, Interval | None] | None:
        """The interquartile mean of a measure over seeds, with its interval; None if the reports do not have it."""
        scores = self.scores(opponent, measure)
        if scores is None:
            return None
        intervals = seed_intervals(scores[:, None])
        mean = float(interquartile_mean(scores))
        return mean, None if intervals is None else (float(intervals[0, 0]), float(intervals[1, 0]))

    def to_dict(self) -> dict[str, Any]:
        """Its JSON."""
        return {
            "name": self.name,
            "seeds": list(self.ladders),
            "opponents": {
                opponent: {
                    "curve": self.curve(opponent).to_dict(),
                    "final": list(self.final(opponent).values()),
                    **{measure: _as_json(self.estimate(opponent, measure)) for measure in MEASURES},
                }
                for opponent in self.opponents
            },
        }


def measure_of(result: Mapping[str, Any]) -> str:
    """What strength is called in an evaluation: the gain, or relative points where there is no gain."""
    return "relative" if result["gain"] is None else "gain"


def compared(results: Sequence[SeedResults]) -> list[dict[str, Any]]:
    """How much each config after the first is above the first, in each measure, as JSON."""
    reference, *others = results
    found = []
    for other in others:
        for opponent in other.opponents:
            for measure in MEASURES if opponent in reference.opponents else ():
                scores, base = other.scores(opponent, measure), reference.scores(opponent, measure)
                if scores is not None and base is not None:
                    about = {"name": other.name, "minus": reference.name, "opponent": opponent, "measure": measure}
                    found.append({**about, **_as_json(difference(scores, base))})
    return found


def against(results: Sequence[dict[str, Any]], opponent: str) -> dict[str, Any]:
    """The evaluation at the tables of one opponent among those of a ladder."""
    return next(result for result in results if result["table"] == opponent)


def _as_json(estimate: tuple[float, Interval | None] | None) -> dict[str, Any]:
    mean, interval = (None, None) if estimate is None else estimate
    return {"iqm": mean, "iqm_ci": None if interval is None else list(interval)}


# --- in words and in a picture

EXPLANATION: Final = (
    "gain: points a round minus the opponent's own at that seat and deal; relative: minus the mean of the other "
    "seats'; won: of full games. Behind ±, half of a 95% confidence interval over deals (of won: over games). IQM: the "
    "mean without the best and the worst quarter of the seeds, in brackets its 95% bootstrap interval over seeds."
)


def words(results: SeedResults) -> Words:
    """The reports of all seeds and their interquartile means as a table."""
    columns = [
        (opponent, measure)
        for opponent in results.opponents
        for measure in MEASURES
        if results.scores(opponent, measure) is not None
    ]
    headings = ["seed", *(_heading(*column) for column in columns)]
    rows = []
    for seed in results.ladders:
        row = [results.final(opponent)[seed] for opponent, _ in columns]
        cells = [
            plus_minus((result[measure], result[f"{measure}_ci"]), _form(measure))
            for result, (_, measure) in zip(row, columns, strict=True)
        ]
        rows.append([str(seed), *cells])
    rows.append(["IQM", *(_bracketed(results, opponent, measure) for opponent, measure in columns)])
    return headings, rows


def difference_words(differences: Sequence[Mapping[str, Any]]) -> Words:
    """What `compared` found as a table."""
    rows = []
    for found in differences:
        form = "+" + _form(found["measure"]).removeprefix("+")
        what = _heading(found["opponent"], found["measure"])
        rows.append([f"{found['name']} - {found['minus']}", what, _range(found["iqm"], found["iqm_ci"], form)])
    return ["configs", "measure", "difference of the IQMs"], rows


def _heading(opponent: str, measure: str) -> str:
    return f"{'won' if measure == 'wins' else measure} at {opponent}"


def _form(measure: str) -> str:
    return ".1%" if measure == "wins" else "+.2f"


def _bracketed(results: SeedResults, opponent: str, measure: str) -> str:
    estimate = results.estimate(opponent, measure)
    assert estimate is not None
    return _range(*estimate, _form(measure))


def _range(mean: float, interval: Sequence[float] | None, form: str) -> str:
    """ "+4.61 [+4.55, +4.70]"."""
    text = format(mean, form)
    return text if interval is None else f"{text} [{', '.join(format(end, form) for end in interval)}]"


def draw_curves(path: Path, results: Sequence[SeedResults]) -> None:
    """Draw a panel for each opponent, in it a line for each config: interquartile mean, interval, and single seeds."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    opponents = list(dict.fromkeys(opponent for each in results for opponent in each.opponents))
    figure = Figure(figsize=(1 + 4.5 * len(opponents), 4.5), layout="constrained")
    panels = figure.subplots(1, len(opponents), squeeze=False)[0]
    for axes, opponent in zip(panels, opponents, strict=True):
        for number, each in enumerate(results):
            if opponent not in each.opponents:
                continue
            curve = each.curve(opponent)
            millions, colour = curve.steps / 1e6, f"C{number}"
            label = f"{each.name}, {len(each.ladders)} seed{'s' * (len(each.ladders) > 1)}"
            axes.plot(millions, interquartile_mean(curve.scores, 0), color=colour, label=label)
            axes.plot(millions, curve.scores.T, color=colour, alpha=0.3, linewidth=0.6)
            intervals = seed_intervals(curve.scores)
            if intervals is not None:
                axes.fill_between(millions, *intervals, color=colour, alpha=0.2, linewidth=0)
            axes.set(
                title=f"at a table of {opponent}", xlabel="million plays", ylabel=f"{curve.measure}, points a round"
            )
        axes.axhline(0, color="grey", linewidth=0.8)
    panels[0].legend()
    figure.suptitle("Interquartile mean over seeds, 95% bootstrap interval; thin lines: single seeds")
    figure.savefig(path, dpi=150, format="png")
