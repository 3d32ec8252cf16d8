"""The benchmark's tasks: what they are, how they are played, and what a score is.

A score is the mean over a task's opponents of what an agent reaches alone at a table of each: points a round minus the
mean of the other seats' (0: as good as they), or the share of full games that it wins (chance: 1/n). All opponents are
met on the same deals, so the interval is one over deals, or games, of the mean over opponents.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from fool_env import Rules
from fool_env.agents.agent import AnyAgent, OmniscientAgent, make_agent
from fool_env.agents.arena import BENCHMARK, RELATIVE, joined, make_opponents, round_means, win_shares
from fool_env.agents.batches import (
    BATCH_DEALS,
    BATCH_GAMES,
    BatchFile,
    checkpoint_digests,
    checkpoint_files,
    describe_task,
    run_batches,
)
from fool_env.agents.intervals import Interval, mean_interval
from fool_env.agents.match import Match, MatchJob
from fool_env.agents.workers import Workers
from fool_env.train.provenance import machine, players_digest, source_commit

TASKS = Path(str(resources.files("fool_env.configs") / "tasks.yaml"))
ALL: Final = "all"

OVERSHOOT: Final = 1.01
"""By how much training may exceed a budget: its last rollout is a whole one."""

Progress = Callable[[str, float, int], None]
"""Called with who is being played against, how many deals or games are done, and of how many."""


@dataclass(frozen=True)
class Task:
    """A task of the benchmark; see `configs/tasks.yaml` for its fields."""

    name: str
    players: int
    episode: str
    opponents: tuple[str, ...]
    count: int
    seed: int
    budgets: tuple[int, ...]

    @property
    def rules(self) -> Rules:
        """The official ones."""
        return Rules.official(self.players)

    @property
    def unit(self) -> str:
        """What `count` counts."""
        return "deals" if self.episode == "round" else "games"

    @property
    def chance(self) -> float:
        """The score of an agent that is as good as its opponents."""
        return 0.0 if self.episode == "round" else 1 / self.players

    def budget(self, plays: int | None) -> str:
        """The smallest budget that so many plays of training keep to, in words."""
        if plays == 0:
            return "no training"
        within = [budget for budget in self.budgets if plays is not None and plays <= budget * OVERSHOOT]
        return f"{within[0] / 1e6:g} M" if within else "unlimited"

    def in_words(self) -> str:
        """What is played, and what is counted."""
        score = (
            "points a round minus the mean of the other seats'"
            if self.episode == "round"
            else f"share of games won (chance: {self.chance:.1%})"
        )
        return (
            f"{self.players} players, official rules; {self.count:,} {self.unit} in every seat, alone at a table of "
            f"each of {', '.join(self.opponents)}; seed {self.seed} of the benchmark's deals. The score: {score}, the "
            "mean over these tables."
        )


@dataclass(frozen=True)
class Score:
    """What an agent reached at a task.

    Attributes:
        task: the task's name.
        agent: the agent's name.
        files: the SHA-256 of the trained networks in it.
        sampling: trained agents sample their cards.
        plays: of training, over all tables; None if a checkpoint does not say.
        budget: the task's budget that they keep to.
        count: deals or games that were played against each opponent: the task's, or this is no score of the task.
        score, score_ci: the mean over opponents, and its 95% confidence interval.
        opponents, scores, scores_ci: against each.
        cpu_seconds: the process's CPU time a move.
    """

    task: str
    agent: str
    files: dict[str, str]
    sampling: bool
    plays: int | None
    budget: str
    count: int
    score: float
    score_ci: Interval | None
    opponents: tuple[str, ...]
    scores: tuple[float, ...]
    scores_ci: tuple[Interval | None, ...]
    cpu_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """A JSON object, which says by which sources and on what machine it was made."""
        return {**asdict(self), "commit": source_commit(), "machine": machine()}


def load_tasks() -> dict[str, Task]:
    """All tasks by name."""
    says: dict[str, dict[str, Any]] = yaml.safe_load(TASKS.read_text())
    return {
        name: Task(**{**task, "name": name, **{key: tuple(task[key]) for key in ("opponents", "budgets")}})
        for name, task in says.items()
    }


def find_tasks(names: Sequence[str]) -> list[Task]:
    """Tasks by name, "fool-6p-round-v1", or the newest version, "fool-6p-round"; "all" has the newest of all.

    Raises:
        ValueError: there is no such task.
    """
    tasks = load_tasks()
    newest = {re.sub(r"-v\d+$", "", task.name): task for task in sorted(tasks.values(), key=_version)}
    for name in names:
        if name != ALL and name not in tasks and name not in newest:
            raise ValueError(f"there is no task {name!r}; tasks are {', '.join(newest)}, or {ALL}")
    found = [newest.values() if name == ALL else [tasks.get(name) or newest[name]] for name in names]
    return list({task.name: task for some in found for task in some}.values())


def _version(task: Task) -> int:
    return int(task.name.rpartition("-v")[2])


def can_play(agent: AnyAgent, task: Task) -> bool:
    """Was it trained at such tables, if it was trained?"""
    return task.rules in getattr(agent, "rules", [task.rules])


def check_entry(agent: AnyAgent, task: Task) -> None:
    """Refuse an agent that cannot have a score at a task.

    Raises:
        ValueError: the message says why.
    """
    if isinstance(agent, OmniscientAgent):
        raise ValueError(f"{agent.name} sees all hands: what it reaches is an upper bound, not a score")
    if not can_play(agent, task):
        raise ValueError(f"{agent.name} was not trained for {task.name}, which has tables of {task.players}")


def plays_of_training(agent: AnyAgent) -> int | None:
    """The plays that the networks in an agent were trained with, over all tables; None if a checkpoint does not say.

    Raises:
        OSError, ValueError: a checkpoint cannot be read.
    """
    files = checkpoint_files(agent.name)
    if not files:
        return 0
    from fool_env.agents.neural import read_description  # brings in torch

    plays = [_plays(read_description(path)) for path in files.values()]
    known = [number for number in plays if number is not None]
    return sum(known) if len(known) == len(plays) else None


def _plays(says: Mapping[str, Any]) -> int | None:
    """Those of a network and of the one that it started from, from what its checkpoint says."""
    started = says.get("config", {}).get("init") is not None
    if "steps" not in says or (started and "steps_before" not in says):
        return None
    return int(says["steps"] + says.get("steps_before", 0))


def score(
    task: Task,
    spec: str,
    *,
    deterministic: bool = False,
    count: int | None = None,
    folder: Path | None = None,
    workers: Workers | None = None,
    progress: Progress | None = None,
) -> Score:
    """Play an agent at a task.

    Args:
        spec: the agent, a `make_agent` string.
        deterministic: trained agents play their likeliest card.
        count: only so many deals or games, from the first on; None for the task's own.
        folder: where what is played is kept, apart for different sources, tasks and agents: the same call goes on from
            there. None keeps nothing.

    Raises:
        AgentError, OSError, ValueError: the agent cannot be had or cannot play at the task, or as `run_batches`.
    """
    agent = make_agent(spec, deterministic)
    check_entry(agent, task)
    batches_of = _play(task, agent, task.count if count is None else count, folder, workers, progress)
    values = np.array([batches.values for batches in batches_of])
    mean, interval = mean_interval(values.mean(axis=0))
    each = [mean_interval(row) for row in values]
    plays = plays_of_training(agent)
    return Score(
        task=task.name,
        agent=agent.name,
        files=checkpoint_digests(agent.name),
        sampling=not getattr(agent, "deterministic", False),
        plays=plays,
        budget=task.budget(plays),
        count=values.shape[1],
        score=mean,
        score_ci=interval,
        opponents=task.opponents,
        scores=tuple(mean for mean, _ in each),
        scores_ci=tuple(interval for _, interval in each),
        cpu_seconds=sum(one.cpu_seconds for one in batches_of) / sum(one.moves for one in batches_of),
    )


@dataclass(frozen=True)
class _Played:
    """Against one opponent: float64 (deals,) or (games,), and the agent's CPU time and moves."""

    values: np.ndarray
    cpu_seconds: float
    moves: int


def _play(
    task: Task, agent: AnyAgent, count: int, folder: Path | None, workers: Workers | None, progress: Progress | None
) -> list[_Played]:
    tables = [make_opponents(spec) for spec in task.opponents]
    everybody = [agent, *(opponent for table in tables for opponent in table)]
    is_round = task.episode == "round"
    batch_size = BATCH_DEALS if is_round else BATCH_GAMES
    says = describe_task(everybody, task.rules, task.seed, purpose=BENCHMARK, task=task.name, batch=batch_size)
    played = []
    with _store(folder, task, says) as store:
        for table in tables:
            job = MatchJob(Match(agent, table, task.rules, task.seed, BENCHMARK), task.episode)

            def show(done: float, job: MatchJob = job) -> None:
                if progress is not None:
                    progress(job.match.opponent, done, count)

            batches = run_batches(job, count, batch_size, workers=workers, store=store, name=job.name, progress=show)
            counts = joined(batches)
            values = round_means(counts, task.players)[:, RELATIVE] if is_round else win_shares(counts)
            moves = [int(batch.results["moves"][0]) for batch in batches]
            played.append(_Played(values, sum(float(batch.cpu_seconds[0]) for batch in batches), sum(moves)))
    return played


def _store(folder: Path | None, task: Task, says: dict[str, Any]) -> BatchFile:
    """The file of an agent's batches at a task: named after all that decides them, so nothing else is ever in it."""
    if folder is None:
        return BatchFile(None, says)
    digest = hashlib.sha256(json.dumps(says).encode()).hexdigest()[:12]
    path = folder / players_digest() / task.name / f"{digest}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return BatchFile(path, says)
