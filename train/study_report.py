"""What a study leaves: study.csv, study.png and best.yaml in its folder, and some words about the best trial."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import Any, Final

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from fool_env.train.checkpoint import write_whole
from fool_env.train.config import parse_run_config, save_config
from fool_env.train.report import duration
from fool_env.train.study import ERROR, INTERVAL, StudyPlan, run_name

_COLUMNS: Final = ("trial", "state", "value", "low", "high", "time", "run", "error")


def save_study(study: optuna.Study, plan: StudyPlan) -> None:
    """Write study.csv, study.png and, if a trial is complete, best.yaml: the config with the best trial's values."""
    trials = study.get_trials(deepcopy=False)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*_COLUMNS, *plan.search], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_row(trial) for trial in trials)
    write_whole(plan.folder / "study.csv", text.getvalue().encode())
    _draw(trials, plan)
    best = best_trial(study)
    if best is not None:
        name = f"{plan.name}-best"
        config = parse_run_config(type(plan.config), [*plan.with_values(best.params), "--name", name])
        save_config(config, plan.folder / "best.yaml")


def best_trial(study: optuna.Study) -> FrozenTrial | None:
    """The complete trial of the highest value, None without one."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return max(complete, key=_value, default=None)


def in_words(study: optuna.Study, plan: StudyPlan) -> list[str]:
    """How the trials ended, and what is to be said of the best one."""
    trials = study.get_trials(deepcopy=False)
    ends = Counter(trial.state.name.lower() for trial in trials)
    lines = [f"{plan.folder}: trials: {', '.join(f'{number} {end}' for end, number in ends.items())}"]
    best = best_trial(study)
    if best is None:
        return lines
    file = plan.folder / "best.yaml"
    low, high = best.user_attrs[INTERVAL] or (best.value, best.value)
    return [
        *lines,
        f"Best: trial {best.number}, {best.value:+.2f} [{low:+.2f}, {high:+.2f}] at a table of {plan.opponent} "
        f"({plan.deals:,} deals of selection, 95% interval over deals), with",
        *(f"  {key}: {value}" for key, value in best.params.items()),
        f"Its config is {file}. It was chosen for its value, which flatters it. For other seeds and other deals:",
        f"  python train/sweep.py --method {plan.method} --config {file} --seeds 0 1 2 3 4",
    ]


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None
    return trial.value


def _last_value(trial: FrozenTrial) -> float:
    assert trial.last_step is not None, "a trial is pruned by what it reported"
    return trial.intermediate_values[trial.last_step]


def _row(trial: FrozenTrial) -> dict[str, Any]:
    low, high = trial.user_attrs.get(INTERVAL) or (None, None)
    return {
        "trial": trial.number,
        "state": trial.state.name.lower(),
        "value": trial.value,
        "low": low,
        "high": high,
        "time": "" if trial.duration is None else duration(trial.duration.total_seconds()),
        "run": run_name(trial),
        "error": trial.user_attrs.get(ERROR),
        **trial.params,
    }


def _draw(trials: list[FrozenTrial], plan: StudyPlan) -> None:
    """Draw the values in the order of the trials, and over each searched key."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    figure = Figure(figsize=(4 + 3 * len(plan.search), 3.5), layout="constrained")
    panels = figure.subplots(1, 1 + len(plan.search), sharey=True)
    complete = [(trial, trial.value) for trial in trials if trial.state == TrialState.COMPLETE]
    pruned = [(trial, _last_value(trial)) for trial in trials if trial.state == TrialState.PRUNED]
    for axes, key in zip(panels, [None, *plan.search], strict=True):
        for some, marker, label in ((complete, "o", "complete"), (pruned, "x", "pruned, last value")):
            places = [trial.number if key is None else trial.params[key] for trial, _ in some]
            axes.scatter(places, [value for _, value in some], marker=marker, label=label)
        axes.set_xlabel("trial" if key is None else key)
        distribution = None if key is None else plan.search[key]
        if getattr(distribution, "log", False) and (complete or pruned):
            axes.set_xscale("log")
        if isinstance(distribution, CategoricalDistribution):
            axes.tick_params(axis="x", labelrotation=30)
    panels[0].set_ylabel(f"at a table of {plan.opponent}, points a round")
    panels[0].legend()
    figure.suptitle(f"{plan.name}: value of each trial on {plan.deals:,} deals of selection")
    image = io.BytesIO()
    figure.savefig(image, dpi=150, format="png")
    write_whole(plan.folder / "study.png", image.getvalue())
