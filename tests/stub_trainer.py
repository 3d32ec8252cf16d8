"""In place of training: a trainer that leaves in no time what a run leaves, or ends as the test has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_checkpoint

from fool_env.train import run_process
from fool_env.train.config import TrainConfig, load_config, parse_config, save_config

TINY = """
name: tiny
total_steps: 1200
checkpoint_every: 400
threads: 1
table: {num_players: 4, num_tables: 16}
network: {kind: mlp, hidden: [8]}
ppo: {steps: 25, minibatch: 256}
evaluation: {opponents: [highest, random+lowest], every: 400, deals: 4, final_deals: 5, final_games: 2}
"""


def evaluation(opponent: str, gain: float | None, relative: float) -> dict[str, Any]:
    """An entry of a ladder; gain and relative points have intervals of 0.5 to either side."""
    return {
        "table": opponent,
        "opponent": opponent,
        "gain": gain,
        "gain_ci": None if gain is None else [gain - 0.5, gain + 0.5],
        "relative": relative,
        "relative_ci": [relative - 0.5, relative + 0.5],
        "wins": 0.25,
        "wins_ci": [0.2, 0.3],
    }


class StubTrainer:
    """Takes the place of `run_process.train`.

    Attributes:
        begun, resumed: names of the runs, in order.
        configs: of these, by name.
        codes: exit codes of the trainings to come, 0 once they are used up. Other than 0, they leave one checkpoint.
        gains: at a table of the first opponent, on the way (three points) and in the report, from a run's config.
        during: called in the middle of each training, after the points on the way.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun: list[str] = []
        self.resumed: list[str] = []
        self.configs: dict[str, TrainConfig] = {}
        self.codes: list[int] = []
        self.gains: Callable[[TrainConfig], float] = lambda config: float(config.seed)
        self.during: Callable[[TrainConfig], None] = lambda config: None
        (folder / "tiny.yaml").write_text(TINY)

    def arguments(self, *more: str) -> list[str]:
        return ["--config", str(self.folder / "tiny.yaml"), "--runs", str(self.folder / "runs"), *more]

    def train(
        self, script: str, arguments: Sequence[str], lock: int | None = None, stop: Callable[[], bool] = lambda: False
    ) -> int:
        if arguments[0] == "--resume":
            folder = Path(arguments[1])
            config = load_config(folder / "config.yaml")
            self.resumed.append(folder.name)
        else:
            config = parse_config(arguments)
            folder = config.folder
            folder.mkdir(parents=True)
            save_config(config, folder / "config.yaml")
            self.begun.append(folder.name)
        self.configs[folder.name] = config
        checkpoint = folder / "checkpoints" / "000000000000.zip"
        checkpoint.parent.mkdir(exist_ok=True)
        write_checkpoint(checkpoint, config.table.make_rules())
        gain = self.gains(config)
        history = [
            {"steps": steps, "results": self._results(gain * share)}
            for steps, share in ((400, 0.5), (800, 0.75), (1200, 1))
        ]
        self._write(folder, history, [])
        self.during(config)
        code = self.codes.pop(0) if self.codes else 130 if stop() else 0
        if code == 0:
            write_checkpoint(folder / "final.zip", config.table.make_rules())
            self._write(folder, history, self._results(gain))
        return code

    def _results(self, gain: float) -> list[dict[str, Any]]:
        return [evaluation("highest", gain, gain - 1), evaluation("random+lowest", None, gain + 1)]

    def _write(self, folder: Path, history: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
        (folder / "ladder.json").write_text(json.dumps({"results": results, "history": history}))


def stubbed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> StubTrainer:
    """A stub in place of training, with a config in a folder."""
    trainer = StubTrainer(folder)
    monkeypatch.setattr(run_process, "train", trainer.train)
    return trainer
