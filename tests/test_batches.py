"""Batches, in worker processes or not: in order, stopped early, kept in a file, and nothing left behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fool_env import Rules
from fool_env.agents.agent import make_agent
from fool_env.agents.batches import BatchFile, describe_task, run_batches
from fool_env.agents.tables import TableProgress
from fool_env.agents.workers import Batch, Workers

TASK = {"format": 1, "seed": 3, "rules": {"num_players": 4}}


class PickyError(Exception):
    """Cannot be unpickled: its constructor takes more than it passes on."""

    def __init__(self, deal: int, why: str) -> None:
        super().__init__(f"deal {deal}: {why}")


@dataclass(frozen=True)
class Squares:
    """Squares its deals' numbers. `log`: a line for each batch begun; `trouble`: what deal 20 does."""

    log: str
    trouble: str = ""
    seconds: float = 0.0
    endless_from: int = 1000

    def play(self, first: int, count: int, progress: TableProgress | None = None) -> Batch:
        with open(self.log, "a") as file:
            file.write(f"{first} {os.getpid()}\n")
        if first <= 20 < first + count:
            self._trouble()
        # The first batch takes longer, so that the second is there before it.
        seconds = 60 if first >= self.endless_from else self.seconds + (0.3 if first == 0 and self.seconds else 0)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.02)
            if progress is not None:
                progress(0.5)
        deals = np.arange(first, first + count)
        return Batch(first, count, {"squares": deals**2, "pair": np.stack([deals, -deals], 1)}, np.array([0.25]))

    def _trouble(self) -> None:
        if self.trouble == "error":
            raise LookupError("deal 20 is lost")
        if self.trouble == "picky":
            raise PickyError(20, "it cannot be pickled")
        if self.trouble == "death":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trouble == "deaf":
            time.sleep(60)

    def begun(self) -> list[int]:
        return sorted(int(line.split()[0]) for line in Path(self.log).read_text().splitlines())

    def processes(self) -> set[int]:
        return {int(line.split()[1]) for line in Path(self.log).read_text().splitlines()}


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path / "log")


def facts(batches: Sequence[Batch]) -> list[tuple[Any, ...]]:
    return [
        (batch.first, batch.count, {name: values.tolist() for name, values in batch.results.items()})
        for batch in batches
    ]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- order and early stopping


def test_batches_come_in_order_and_the_last_is_what_is_left(log: str) -> None:
    batches = run_batches(Squares(log), 23, 10)
    assert [(batch.first, batch.count) for batch in batches] == [(0, 10), (10, 10), (20, 3)]
    assert np.concatenate([batch.results["squares"] for batch in batches]).tolist() == [n * n for n in range(23)]
    assert run_batches(Squares(log), 0, 10) == []


def test_workers_change_nothing_though_they_finish_in_another_order(log: str) -> None:
    job = Squares(log, seconds=0.01)
    alone = facts(run_batches(job, 47, 5))
    with Workers(2) as workers:
        assert facts(run_batches(job, 47, 5, workers=workers)) == alone
        assert facts(run_batches(job, 33, 5, workers=workers)) == facts(run_batches(Squares(log), 33, 5))
    assert len(job.processes()) == 3, "one was this process, the others played the rest, all of it"


def test_enough_is_asked_after_each_batch_in_order(log: str) -> None:
    job = Squares(log, seconds=0.01)
    for count in (1, 2):
        asked: list[list[int]] = []

        def enough(batches: Sequence[Batch], asked: list[list[int]] = asked) -> bool:
            asked.append([batch.first for batch in batches])
            return len(batches) == 3

        with Workers(count) as workers:
            batches = run_batches(job, 100, 10, workers=workers, enough=enough)
        assert [batch.first for batch in batches] == [0, 10, 20]
        assert asked == [[0], [0, 10], [0, 10, 20]]


def test_who_is_no_longer_needed_stops_at_once_and_serves_the_next(log: str) -> None:
    start = time.monotonic()
    with Workers(2) as workers:
        run_batches(Squares(log, seconds=1.5), 20, 10, workers=workers)
        assert len(Squares(log).processes()) == 2, "both are there"
        endless = Squares(log, seconds=0.01, endless_from=10)
        assert len(run_batches(endless, 100, 10, workers=workers, enough=lambda batches: True)) == 1
        with pytest.raises(ZeroDivisionError):
            run_batches(Squares(log, endless_from=0), 20, 10, workers=workers, progress=lambda done: 1 / 0)
        Path(log).unlink()
        job = Squares(log, seconds=0.1)
        assert facts(run_batches(job, 50, 5, workers=workers)) == facts(run_batches(Squares(f"{log}2"), 50, 5))
        assert len(job.processes()) == 2
    assert time.monotonic() - start < 30


def test_progress_is_told_in_deals_with_workers_and_without(log: str) -> None:
    for count in (1, 2):
        seen: list[float] = []
        with Workers(count) as workers:
            run_batches(Squares(log, seconds=0.15), 25, 10, workers=workers, progress=seen.append)
        assert 0 < seen[0] < 10 and seen == sorted(seen)
        assert count == 1 or seen[-1] == 25


# --- what goes wrong in a worker


@pytest.mark.parametrize(("trouble", "kind"), [("error", LookupError), ("picky", RuntimeError)])
def test_a_workers_error_comes_out_here_when_its_turn_comes(log: str, trouble: str, kind: type[Exception]) -> None:
    with Workers(2) as workers:
        played = workers.play(Squares(log, trouble, seconds=0.01), [(n, 10) for n in range(0, 50, 10)])
        assert [next(played).first, next(played).first] == [0, 10]
        with pytest.raises(kind, match="deal 20") as caught:
            next(played)
        assert "in _trouble" in str(caught.value.__cause__), "where it happened"
        assert len(run_batches(Squares(log), 20, 10, workers=workers)) == 2, "the workers go on"
    assert not multiprocessing.active_children()


def test_an_error_beyond_the_stopping_point_is_none(log: str) -> None:
    with Workers(2) as workers:
        job = Squares(log, "error", seconds=0.01)
        assert len(run_batches(job, 100, 10, workers=workers, enough=lambda batches: len(batches) == 2)) == 2


def test_a_workers_death_is_an_error_and_no_hanging(log: str) -> None:
    with Workers(2) as workers, pytest.raises(ChildProcessError, match="exit code -9"):
        run_batches(Squares(log, "death"), 100, 10, workers=workers)
    assert not multiprocessing.active_children()


def test_what_cannot_be_sent_is_an_error(log: str) -> None:
    class Local(Squares):
        pass

    with Workers(2) as workers, pytest.raises(Exception, match="Local"):
        run_batches(Local(log), 10, 10, workers=workers)


def test_no_process_is_started_for_nothing(log: str, tmp_path: Path) -> None:
    with Workers(8) as workers:
        run_batches(Squares(log), 10, 10, workers=workers)
        assert len(multiprocessing.active_children()) == 1, "there was but one batch"
    assert not multiprocessing.active_children()
    with pytest.raises(ValueError, match="workers: 0"):
        Workers(0)


def test_ctrl_c_ends_workers_that_do_not_listen(log: str) -> None:
    start = time.monotonic()

    def interrupt(done: float) -> None:
        if done > 20:  # the third batch, which reports nothing, is being played
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), Workers(2) as workers:
        run_batches(Squares(log, "deaf", seconds=0.2), 100, 10, workers=workers, progress=interrupt)
    assert not multiprocessing.active_children() and time.monotonic() - start < 30


def test_workers_take_no_notice_of_ctrl_c_themselves(log: str) -> None:
    """In a terminal it reaches them too, from their first moment on; it is for the process that started them."""
    finished = threading.Event()

    def interrupt() -> None:
        while not finished.wait(0.05):
            for child in multiprocessing.active_children():
                os.kill(child.pid, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with Workers(2) as workers:
            batches = run_batches(Squares(log, seconds=0.2), 40, 10, workers=workers)
    finally:
        finished.set()
        thread.join()
    assert facts(batches) == facts(run_batches(Squares(log), 40, 10))


# --- the file


def test_the_file_holds_the_task_and_every_batch(log: str, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with BatchFile(path, TASK) as store:
        run_batches(Squares(log), 15, 10, store=store, name="squares")
        first, *rest = lines(path)  # while it is open
    assert first == TASK
    assert [(line["job"], line["first"], line["count"]) for line in rest] == [("squares", 0, 10), ("squares", 10, 5)]
    assert rest[1]["results"]["squares"] == [100, 121, 144, 169, 196] and rest[1]["cpu_seconds"] == [0.25]


@pytest.mark.parametrize("count", [1, 2])
def test_finished_batches_are_not_played_again(log: str, tmp_path: Path, count: int) -> None:
    path = tmp_path / "results.jsonl"
    job = Squares(log)
    whole = facts(run_batches(Squares(str(tmp_path / "other")), 60, 10))
    with BatchFile(path, TASK) as store, pytest.raises(LookupError):
        run_batches(Squares(log, "error"), 60, 10, store=store, name="squares")
    Path(log).unlink()
    seen: list[float] = []
    with BatchFile(path, TASK) as store, Workers(count) as workers:
        batches = run_batches(
            job, 60, 10, workers=workers, store=store, name="squares", progress=None if count == 1 else seen.append
        )
    assert facts(batches) == whole and job.begun() == [20, 30, 40, 50]
    assert not seen or seen[0] >= 20
    assert all(values.dtype == np.int64 for batch in batches for values in batch.results.values())
    with BatchFile(path, TASK) as store:
        assert facts(run_batches(job, 60, 10, store=store, name="squares")) == whole
        assert len(job.begun()) == 4, "all of it was there"
        run_batches(job, 60, 10, store=store, name="other")
        assert len(job.begun()) == 10, "another job's batches are its own"
        run_batches(job, 60, 10, store=store, name="other")
        assert len(job.begun()) == 10, "nor are those that came while the file was open"
        run_batches(job, 75, 10, store=store, name="squares")
        assert job.begun()[-2:] == [60, 70] and len(job.begun()) == 12, "more deals may be asked for later"


def test_early_stopping_is_the_same_from_a_file(log: str, tmp_path: Path) -> None:
    def run(total: int) -> list[Any]:
        with BatchFile(tmp_path / "results.jsonl", TASK) as store:
            return facts(run_batches(Squares(log), total, 10, store=store, enough=lambda found: len(found) == 3))

    assert run(20) == run(100)[:2] and run(100) == facts(run_batches(Squares(log), 30, 10))


@pytest.mark.parametrize("torn", [1, 5, 40, 1000])
def test_a_torn_last_line_is_dropped(log: str, tmp_path: Path, torn: int) -> None:
    path, whole = tmp_path / "results.jsonl", tmp_path / "whole.jsonl"
    with BatchFile(whole, TASK) as store:
        expected = facts(run_batches(Squares(log), 60, 10, store=store))
    path.write_bytes(whole.read_bytes()[:-torn])
    with BatchFile(path, TASK) as store:
        assert facts(run_batches(Squares(log), 60, 10, store=store)) == expected
    assert path.read_bytes() == whole.read_bytes()


def test_a_torn_first_line_is_written_anew_but_no_strangers_file(log: str, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"format":1,"se')
    with BatchFile(path, TASK) as store:
        run_batches(Squares(log), 10, 10, store=store)
    assert len(lines(path)) == 2
    for content in ("notes without a line's end", "my notes\n", '{"my": "JSON"}\n', "[1, 2]\n", "\n", '{"format":1,"x'):
        path.write_text(content)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            BatchFile(path, TASK)
        assert path.read_text() == content


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({**TASK, "seed": 4}, "seed: 3, not 4"),
        ({**TASK, "rules": {"num_players": 5}}, "num_players of rules: 4, not 5"),
        ({**TASK, "rules": {"num_players": 4, "num_fools": 1}}, "num_fools of rules: None, not 1"),
        ({"format": 1, "seed": 3}, "rules: {'num_players': 4}, not None"),
        ({**TASK, "format": 2}, "format: 1, not 2"),
    ],
)
def test_another_tasks_file_is_refused_with_what_differs(tmp_path: Path, task: dict[str, Any], says: str) -> None:
    path = tmp_path / "results.jsonl"
    BatchFile(path, TASK).__exit__(None, None, None)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"results.jsonl holds results of another task.*{says}"):
        BatchFile(path, task)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"job": "a", "first": 0, "count": 1, "results": 3}', '{"results": {"a": ["x"]}}', "\x00"]
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(f"{json.dumps(TASK)}\n{line}\n")
    with pytest.raises(ValueError, match=r"results.jsonl, line 2: it is no"):
        BatchFile(path, TASK)


def test_a_task_is_known_by_all_that_decides_about_results(tmp_path: Path) -> None:
    checkpoint = tmp_path / "final.zip"
    checkpoint.write_bytes(b"weights")

    class Trained:
        name = str(checkpoint)
        deterministic = False

    class Searching(Trained):
        name = f"pimc:worlds=3,policy={checkpoint}"

    agents, rules = [make_agent("random"), Trained(), Searching()], Rules.official(4)
    task = describe_task(agents, rules, 5, purpose=2)
    assert json.loads(json.dumps(task))["rules"] == json.loads(json.dumps(rules.to_dict()))
    assert task["seed"] == 5 and task["purpose"] == 2 and task["fool_env"]
    assert list(task["agents"]) == ["random", Trained.name, Searching.name]
    checkpoint.write_bytes(b"other weights")
    other = describe_task(agents, rules, 5, purpose=2)
    assert task["agents"]["random"] == other["agents"]["random"]
    assert all(task["agents"][agent.name] != other["agents"][agent.name] for agent in (Trained, Searching))
    Trained.deterministic = True
    assert describe_task(agents, rules, 5, purpose=2) != other


# --- transcripts beside it


@dataclass(frozen=True)
class Telling(Squares):
    def play(self, first: int, count: int, progress: TableProgress | None = None) -> Batch:
        batch = super().play(first, count, progress)
        return Batch(first, count, batch.results, batch.cpu_seconds, f"played {first}\n")


def test_transcripts_go_on_where_the_batches_do(log: str, tmp_path: Path) -> None:
    path, told = tmp_path / "results.jsonl", tmp_path / "games.jsonl"
    with BatchFile(path, TASK, told) as store, pytest.raises(LookupError):
        run_batches(Telling(log, "error"), 40, 10, store=store)
    assert told.read_text() == "played 0\nplayed 10\n"
    with told.open("a") as file:
        file.write("a game whose batch was not finished\n")
    with BatchFile(path, TASK, told) as store:
        run_batches(Telling(log), 40, 10, store=store)
    assert told.read_text() == "played 0\nplayed 10\nplayed 20\nplayed 30\n"


def test_transcripts_without_results_are_written_anew(log: str, tmp_path: Path) -> None:
    told = tmp_path / "games.jsonl"
    for total in (30, 20):
        with BatchFile(None, TASK, told) as store:
            run_batches(Telling(log), total, 10, store=store)
    assert told.read_text() == "played 0\nplayed 10\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["games.jsonl", "log"]


def test_missing_transcripts_are_noticed(log: str, tmp_path: Path) -> None:
    path, told = tmp_path / "results.jsonl", tmp_path / "games.jsonl"
    with BatchFile(path, TASK) as store:
        assert not store.wants_transcripts
        run_batches(Telling(log), 20, 10, store=store)
    with pytest.raises(ValueError, match=r"games\.jsonl lacks games whose results are in .*results\.jsonl"):
        BatchFile(path, TASK, told)
    path.unlink()
    with BatchFile(path, TASK, told) as store:
        run_batches(Telling(log), 20, 10, store=store)
    told.write_text("played 0\n")
    with pytest.raises(ValueError, match="lacks games"):
        BatchFile(path, TASK, told)
