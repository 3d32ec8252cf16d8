"""A study: Optuna looks for values of some keys of a training config with which training ends strongest.

Each trial is a run in the study's folder, and its value is the strength of the trained agent on the deals of
selection, which no report uses. The lock of its run says whether a trial is being trained: one whose process was
killed is taken up again, by whoever asks next, and goes on from its last checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.trial import FrozenTrial, TrialState

from fool_env.agents.arena import SELECTION, Evaluation, evaluate, make_opponents
from fool_env.agents.neural import load_agent
from fool_env.rng import derive
from fool_env.train.config import ConfigError, RunConfig, parse_run_config
from fool_env.train.run import Interrupt, check_opponents
from fool_env.train.run_process import (
    METHODS,
    Run,
    RunError,
    finish,
    first_difference,
    held,
    lock_of,
    plan_run,
    what_is_trained,
)
from fool_env.train.seeds import against, measure_of

STORAGE: Final = "study.db"
MOST_TRIES: Final = 3
"""Of a trial whose training is killed by a signal, as for want of memory."""

DEALS: Final = 1000
"""Of selection, on which each trained agent is measured."""

_SEED: Final = 0  # equal deals for all trials
_RESERVED: Final = ("name", "runs", "config", "resume")
# Attributes that Optuna keeps with a trial, or with the study.
_TASK, _RUN, _TRIES = "task", "run", "tries"
ERROR: Final = "error"
INTERVAL: Final = "interval"
_FORMS: Final = "log:LOW:HIGH, uniform:LOW:HIGH or choice:A|B|C"


@dataclass(frozen=True)
class StudyPlan:
    """What a study looks for.

    Attributes:
        name: its folder within the config's `runs`.
        method: of training.
        arguments: of the method's script, that all trials share.
        config: what these say.
        search: the distributions of the keys that are searched.
        opponent: against whom strength is measured: the gain, or relative points if it is a mixed table.
        deals: of selection.
    """

    name: str
    method: str
    arguments: tuple[str, ...]
    config: RunConfig
    search: dict[str, BaseDistribution]
    opponent: str
    deals: int

    @property
    def folder(self) -> Path:
        """The study's folder."""
        return Path(self.config.runs) / self.name

    def task(self) -> dict[str, Any]:
        """All that decides what a trial's value means, as JSON has it."""
        search = {key: distribution_to_json(distribution) for key, distribution in self.search.items()}
        config = what_is_trained(self.config)
        return {"config": config, "search": search, "opponent": self.opponent, "deals": self.deals}

    def with_values(self, values: Mapping[str, Any]) -> list[str]:
        """The arguments, with values of the searched keys."""
        return [*self.arguments, *(f"--{key}={value}" for key, value in values.items())]

    def run_folder(self, name: str) -> Path:
        """The folder of a trial's run."""
        return self.folder / name

    def plan_run(self, name: str, values: Mapping[str, Any]) -> Run:
        """A trial's run.

        Raises:
            ConfigError: the values do not go together.
        """
        return plan_run(self.method, [*self.with_values(values), "--runs", str(self.folder), "--name", name])


def plan_study(
    name: str,
    method: str,
    configs: Sequence[str],
    search: Sequence[str],
    opponent: str | None = None,
    deals: int = DEALS,
    training: Sequence[str] = (),
) -> StudyPlan:
    """The study of one config.

    Args:
        search: see `parse_search`.
        opponent: one of the config's `evaluation.opponents`; None for the last of them.
        training: further arguments of the method's script.

    Raises:
        ValueError: an argument is wrong.
    """
    if len(configs) != 1:
        raise ValueError(f"--study has one --config, not {len(configs)}")
    if Path(name).name != name or name in ("", ".", ".."):
        raise ValueError(f"--study {name}: is no folder's name")
    if deals < 1:
        raise ValueError(f"--deals {deals}: at least 1 is needed")
    arguments = ("--config", configs[0], *training)
    config = parse_run_config(METHODS[method], arguments)
    check_opponents(config)
    if len(config.table.make_rules()) > 1:
        raise ValueError(f"table.num_players: {config.table.num_players}: a study measures at tables of one size")
    known = config.evaluation.opponents
    if not known or opponent not in (None, *known):
        raise ValueError(f"--opponent {opponent}: is none of evaluation.opponents, which are {', '.join(known)}")
    distributions = parse_search(search, method, arguments)
    return StudyPlan(name, method, arguments, config, distributions, opponent or known[-1], deals)


# --- what is searched


def parse_search(texts: Sequence[str], method: str, arguments: Sequence[str]) -> dict[str, BaseDistribution]:
    """The distributions of the keys that "key=log:1e-4:3e-3" and the like name.

    "uniform" and "log" take whole numbers where the key does; the values of "choice" are as on the command line.

    Args:
        method: of training.
        arguments: of its script, to which the keys are added.

    Raises:
        ValueError: a text is none of the forms, a key is unknown or named twice, or a value is not allowed.
    """
    found: dict[str, BaseDistribution] = {}
    for text in texts:
        key, equals, spec = text.partition("=")
        kind, colon, rest = spec.partition(":")
        if not equals or not colon or kind not in ("log", "uniform", "choice"):
            raise ValueError(f"--search {text}: write KEY={_FORMS}")
        if key in found or key in _RESERVED or key.startswith("evaluation."):
            why = "is named twice" if key in found else "cannot be searched: it changes no training"
            raise ValueError(f"--search {text}: {key} {why}")
        try:
            found[key] = _distribution(key, kind, rest, METHODS[method], arguments)
        except ConfigError as error:
            raise ValueError(f"--search {text}: {error}") from None
    return found


def _distribution(
    key: str, kind: str, rest: str, config: type[RunConfig], arguments: Sequence[str]
) -> BaseDistribution:
    values = rest.split("|" if kind == "choice" else ":")
    if len(values) < 2 or len(set(values)) < len(values) or (kind != "choice" and len(values) != 2):
        raise ConfigError(f"{rest} is not what {kind} takes; write {_FORMS}")
    configs = [parse_run_config(config, [*arguments, f"--{key}={value}"]).to_dict() for value in values]
    if kind == "choice":
        return CategoricalDistribution(values)
    low, high = (_value_at(each, key) for each in configs)
    if type(low) is not type(high) or type(low) not in (int, float):
        raise ConfigError(f"{key} is not a number; write choice:A|B|C")
    if not low < high or (kind == "log" and low <= 0):
        raise ConfigError(f"{low} to {high} is no range" + (" above 0" if kind == "log" else ""))
    return (IntDistribution if isinstance(low, int) else FloatDistribution)(low, high, log=kind == "log")


def _value_at(values: dict[str, Any], key: str) -> Any:
    for name in key.split("."):
        values = values[name]
    return values


# --- the trials


@contextlib.contextmanager
def open_study(plan: StudyPlan, pruning: bool) -> Iterator[optuna.Study]:
    """The study in its folder, made if it is not there.

    Raises:
        ValueError: the folder holds another study, or something else.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    evaluations = plan.config.total_steps // plan.config.evaluation.every if plan.config.evaluation.every else 0
    pruner = optuna.pruners.MedianPruner(n_warmup_steps=evaluations // 4) if pruning else optuna.pruners.NopPruner()
    with held(lock_of(plan.folder), wait=True):
        plan.folder.mkdir(parents=True, exist_ok=True)
        if any(plan.folder.iterdir()) and not (plan.folder / STORAGE).exists():
            raise ValueError(f"{plan.folder} exists and is not the folder of a study: choose another --study")
        storage = optuna.storages.RDBStorage(
            f"sqlite:///{plan.folder / STORAGE}", engine_kwargs={"connect_args": {"timeout": 60}}
        )
        study = optuna.create_study(
            storage=storage, study_name=plan.name, pruner=pruner, direction="maximize", load_if_exists=True
        )
        if _TASK not in study.user_attrs:
            study.set_user_attr(_TASK, plan.task())
    try:
        other = first_difference(study.user_attrs[_TASK], json.loads(json.dumps(plan.task())))
        if other is not None:
            raise ValueError(f"{plan.folder} is another study ({other}): choose another --study")
        yield study
    finally:
        storage.remove_session()
        storage.engine.dispose()


class Trials:
    """The trials of a study, claimed one after another; other processes may claim some of them.

    Args:
        total: trials of the study, whoever trains them; those that were interrupted or killed are not counted.
        interrupt: asks for an end.
    """

    def __init__(self, study: optuna.Study, plan: StudyPlan, total: int, interrupt: Interrupt) -> None:
        self.study = study
        self.plan = plan
        self.total = total
        self.interrupt = interrupt

    def go_on(self) -> bool:
        """Claim a trial and bring it to its end; False if there is none left to claim.

        Raises:
            KeyboardInterrupt: an end was asked for; the trial can be taken up again.
        """
        with contextlib.ExitStack() as stack:
            claimed = self._claim(stack)
            if claimed is None:
                return False
            trial, name, lock = claimed
            print(f"{name}: " + ", ".join(f"{key}={value}" for key, value in trial.params.items()), flush=True)
            try:
                self._finish(trial, self.plan.plan_run(name, trial.params), lock)
            except RunError as error:
                print(f"{name}: {error}", file=sys.stderr)
                tries = trial.user_attrs.get(_TRIES, 1)
                if error.killed and tries < MOST_TRIES:
                    trial.set_user_attr(_TRIES, tries + 1)  # it still counts as running, so that it is taken up again
                else:
                    self._fail(trial, str(error))
            except ConfigError as error:
                print(f"{name}: {error}", file=sys.stderr)
                self._fail(trial, str(error))
        return True

    def _claim(self, stack: contextlib.ExitStack) -> tuple[optuna.Trial, str, int] | None:
        """A trial to be trained, the name of its run, and the lock on that."""
        with held(lock_of(self.plan.folder), wait=True):
            self._take_up_killed()
            trials = self.study.get_trials(deepcopy=False)
            waiting = any(trial.state == TrialState.WAITING for trial in trials)
            if not waiting and sum(map(_counts, trials)) >= self.total:
                return None
            # A seed for each trial, or whoever resumes or helps would draw what was drawn before.
            seed = int(derive(np.uint64(self.plan.config.seed), len(trials))) % 2**32
            self.study.sampler = optuna.samplers.TPESampler(seed=seed)
            trial = self.study.ask(self.plan.search)
            name = run_name(trial)
            lock = stack.enter_context(held(lock_of(self.plan.run_folder(name))))
            assert lock is not None, f"{name} is being trained, and was to be claimed"
            return trial, name, lock

    def _take_up_killed(self) -> None:
        """Trials that count as running and that nobody trains are to be run again, with the folders they have."""
        for trial in self.study.get_trials(states=(TrialState.RUNNING,)):
            name = run_name(trial)
            with held(lock_of(self.plan.run_folder(name))) as lock:
                if lock is not None:
                    self.study.tell(trial.number, state=TrialState.FAIL)
                    self.study.enqueue_trial(trial.params, user_attrs={**trial.user_attrs, _RUN: name})

    def _finish(self, trial: optuna.Trial, run: Run, lock: int) -> None:
        watch = _Watch(trial, run, self.plan.opponent, self.interrupt)
        if not finish(run, lock, watch):
            if not watch.pruned:
                raise KeyboardInterrupt
            self.study.tell(trial, state=TrialState.PRUNED)
            print(f"{run.folder.name}: pruned", flush=True)
            return
        result = self._measure(run).to_dict()
        measure = measure_of(result)
        trial.set_user_attr(INTERVAL, result[f"{measure}_ci"])
        self.study.tell(trial, result[measure])
        print(f"{run.folder.name}: {measure} {result[measure]:+.2f} at a table of {result['opponent']}", flush=True)

    def _measure(self, run: Run) -> Evaluation:
        def check(done: float, total: int) -> None:
            if self.interrupt.requested:
                raise KeyboardInterrupt

        (rules,) = run.config.table.make_rules()
        return evaluate(
            load_agent(str(run.final)),
            make_opponents(self.plan.opponent),
            rules,
            deals=self.plan.deals,
            seed=_SEED,
            purpose=SELECTION,
            progress=check,
        )

    def _fail(self, trial: optuna.Trial, error: str) -> None:
        trial.set_user_attr(ERROR, error)
        self.study.tell(trial, state=TrialState.FAIL)


class _Watch:
    """Told to Optuna: what a run's ladder says on the way. It asks for an end if that is not enough, or on Ctrl-C."""

    def __init__(self, trial: optuna.Trial, run: Run, opponent: str, interrupt: Interrupt) -> None:
        self.pruned = False
        self._trial = trial
        self._run = run
        self._opponent = opponent
        self._interrupt = interrupt
        self._seen = 0

    def __call__(self) -> bool:
        for entry in self._run.ladder()["history"][self._seen :]:
            result = against(entry["results"], self._opponent)
            self._trial.report(result[measure_of(result)], step=self._seen)
            self._seen += 1
            self.pruned = self.pruned or self._trial.should_prune()
        return self.pruned or self._interrupt.requested


def run_name(trial: optuna.Trial | FrozenTrial) -> str:
    """The folder of a trial's run: that of the trial whose place it took, or else its own."""
    return str(trial.user_attrs.get(_RUN, f"trial-{trial.number:04d}"))


def _counts(trial: FrozenTrial) -> bool:
    """Is a trial one of those asked for? Not if it was interrupted or killed, as another took its place."""
    return trial.state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING) or ERROR in trial.user_attrs
