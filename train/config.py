"""What a training run is told: dataclasses, filled from YAML files and the command line; unknown keys are refused.

python train/ppo.py --config configs/6p.yaml --ppo.learning_rate 5e-4 --seed 2
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from jsonargparse import ArgumentParser

from fool_env.errors import RulesError
from fool_env.rules import Rules


@dataclass
class TableConfig:
    """The tables that the network plays at.

    Attributes:
        num_players: seats at each table; the official rules for so many, unless `rules` says otherwise.
        rules: fields of `Rules` that differ from the official ones; all of them for tables that have none.
        episode: what is played: "round" (single rounds) or "game" (whole games).
        reward: "points" of a round, "relative" to the mean of the other seats, or "win" of a game.
        num_tables: tables that are played side by side; in each process, where several train together.
    """

    num_players: int = 6
    rules: dict[str, Any] | None = None
    episode: Literal["round", "game"] = "round"
    reward: Literal["points", "relative", "win"] = "relative"
    num_tables: int = 1024

    def make_rules(self) -> Rules:
        """The rules of the tables.

        Raises:
            RulesError: they are none, or `rules` and `num_players` disagree.
        """
        if self.rules is None:
            return Rules.official(self.num_players)
        if self.rules.get("num_players", self.num_players) != self.num_players:
            raise RulesError(
                f"table.num_players is {self.num_players}, table.rules.num_players {self.rules['num_players']}: "
                "they disagree"
            )
        official = Rules.official(self.num_players).to_dict() if 4 <= self.num_players <= 8 else {}
        return Rules.from_dict({**official, "num_players": self.num_players, **self.rules})


@dataclass
class NetworkConfig:
    """The network.

    Attributes:
        hidden: widths of the hidden layers, which policy and value share.
        card_facts: whether the policy is told some facts about each card, such as how many unseen cards are higher.
    """

    hidden: list[int] = field(default_factory=lambda: [256, 256])
    card_facts: bool = True


@dataclass
class PPOConfig:
    """How the network learns.

    Attributes:
        steps: plays at each table in a rollout.
        minibatch: decisions in a minibatch, at most; in each process, where several train together.
        epochs: passes over each rollout.
        learning_rate, final_learning_rate: of Adam, falling linearly from the first to the last.
        entropy, final_entropy: weight of the entropy, likewise.
        clip_range: how far the ratio of new to old probability may stray from 1 before it earns nothing more.
        gamma: discount from one of a seat's decisions to its next.
        gae_lambda: how far advantages trust returns (1) over values (0).
        value_weight: weight of the value's squared error.
        max_grad_norm: gradients longer than this are shortened to it.
        reward_scale: multiplies rewards, so that values are of the order of 1.
    """

    steps: int = 64
    minibatch: int = 4096
    epochs: int = 2
    learning_rate: float = 1e-3
    final_learning_rate: float = 0.0
    entropy: float = 0.02
    final_entropy: float = 0.002
    clip_range: float = 0.2
    gamma: float = 1.0
    gae_lambda: float = 0.95
    value_weight: float = 0.5
    max_grad_norm: float = 0.5
    reward_scale: float = 0.05


@dataclass
class EvaluationConfig:
    """How the network is measured against other agents, on deals that it never trains on.

    Attributes:
        opponents: `make_agent` strings; "a+b" is a table of several.
        every: plays between evaluations on the way, 0 for none.
        deals: deals for each evaluation on the way.
        final_deals: deals for the report at the end.
        final_games: full games for the report at the end, 0 for none.
    """

    opponents: list[str] = field(default_factory=lambda: ["random", "highest", "cautious"])
    every: int = 2_000_000
    deals: int = 200
    final_deals: int = 2000
    final_games: int = 200


@dataclass
class TrainConfig:
    """A training run.

    Attributes:
        name: the run's folder within `runs`.
        runs: where run folders lie.
        seed: of everything random in the run.
        total_steps: plays until the end, over all tables of all processes; so are the two `every`.
        checkpoint_every: plays between checkpoints.
        table: the tables.
        network: the network.
        ppo: how it learns.
        evaluation: how it is measured.
        device: "cpu", "cuda" (several processes of a machine: each its own GPU) or "auto".
        precision: "float32", "bfloat16" or "auto", the faster one.
        shards: parts into which batches are cut for threads, so as many as there are cores; results depend on it, in
            the last bits, and not on the number of threads.
        threads: threads that compute the parts, at most `shards`; null for as many as there are cores for each process.
    """

    name: str = "run"
    runs: str = "runs"
    seed: int = 0
    total_steps: int = 40_000_000
    checkpoint_every: int = 4_000_000
    table: TableConfig = field(default_factory=TableConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    shards: int = 2
    threads: int | None = None

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.runs) / self.name

    @property
    def steps_per_iteration(self) -> int:
        """Plays in one rollout, over all tables of one process."""
        return self.table.num_tables * self.ppo.steps

    def to_dict(self) -> dict[str, Any]:
        """All values by name, nested as in YAML."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainConfig:
        """The config from what `to_dict` gives."""
        sections = {name: section(**values[name]) for name, section in _SECTIONS.items()}
        return cls(**{**values, **sections})

    def check(self) -> None:
        """Refuse what cannot be trained.

        Raises:
            ValueError: the message names the key.
        """
        for key, value in _leaves(self.to_dict()).items():
            if isinstance(value, (int, float)) and value < _LOWEST.get(key, 1 if isinstance(value, int) else 0):
                raise ValueError(f"{key}: {value} is too small")
        self.table.make_rules()
        if self.table.reward == "win" and self.table.episode == "round":
            raise ValueError("table.reward: 'win' is paid at the end of a game, so it needs table.episode: game")
        if not self.network.hidden or min(self.network.hidden) < 1:
            raise ValueError(f"network.hidden: {self.network.hidden} is not one or more widths")
        for name in ("gamma", "gae_lambda", "clip_range"):
            if not 0 < getattr(self.ppo, name) <= 1:
                raise ValueError(f"ppo.{name}: {getattr(self.ppo, name)} is not within 0 (excluded) to 1")
        if Path(self.name).name != self.name or self.name in ("", ".", ".."):
            raise ValueError(f"name: {self.name!r} is no folder's name")


_SECTIONS = {"table": TableConfig, "network": NetworkConfig, "ppo": PPOConfig, "evaluation": EvaluationConfig}
# The lowest values of numbers; those not listed are at least 1 if whole, at least 0 if not.
_LOWEST = {"seed": 0, "evaluation.every": 0, "evaluation.final_games": 0}


class ConfigError(ValueError):
    """A run cannot be started as told; the message says which key or file is wrong."""


def parse_config(arguments: Sequence[str]) -> TrainConfig:
    """The config that the command line, and the YAML files that it names, describe; later ones win.

    `--config 6p.yaml` also finds the files that come with this package.

    Raises:
        ConfigError: a key is unknown (the message has the nearest one that is), or a value is not allowed.
        SystemExit: after `--help`.
    """
    parser = make_parser()
    located = [_locate(argument, before) for before, argument in zip(["", *arguments], arguments, strict=False)]
    try:
        values = parser.parse_args(located).as_dict()
    except argparse.ArgumentError as error:
        raise ConfigError(str(error) + _suggestion(str(error))) from None
    del values["config"], values["resume"]
    config = TrainConfig.from_dict(values)
    try:
        config.check()
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return config


def load_config(path: Path) -> TrainConfig:
    """The config of a run folder."""
    return parse_config(["--config", str(path)])


def save_config(config: TrainConfig, path: Path) -> None:
    """Write every value of a config, defaults too, so that `load_config` gives the same."""
    path.write_text(yaml.safe_dump(config.to_dict(), sort_keys=False))


def make_parser() -> ArgumentParser:
    """The command line of `train/ppo.py`; it raises `argparse.ArgumentError`."""
    parser = ArgumentParser(
        prog="fool-train",
        description="Train a network to play FOOL by self-play PPO.",
        exit_on_error=False,
        allow_abbrev=False,  # a misspelt key that starts like a right one would be taken for it
    )
    parser.add_argument("--config", action="config", help="a YAML file of the options below")
    parser.add_argument("--resume", metavar="FOLDER", help="go on with an interrupted run; takes no other option")
    parser.add_class_arguments(TrainConfig)
    return parser


def _locate(argument: str, before: str) -> str:
    """The value of `--config` as it stands, or the file of that name that comes with the package."""
    prefix = "--config="
    if before != "--config" and not argument.startswith(prefix):
        return argument
    prefix = prefix if argument.startswith(prefix) else ""
    packaged = resources.files("fool_env.configs") / Path(argument.removeprefix(prefix)).name
    return argument if Path(argument.removeprefix(prefix)).exists() or not packaged.is_file() else f"{prefix}{packaged}"


def _leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted key."""
    leaves: dict[str, Any] = {}
    for name, value in values.items():
        leaves |= _leaves(value, f"{prefix}{name}.") if f"{prefix}{name}" in _SECTIONS else {f"{prefix}{name}": value}
    return leaves


def _suggestion(message: str) -> str:
    """The known key nearest to an unknown one that an error message complains about."""
    keys = list(_leaves(TrainConfig().to_dict()))
    complaint = re.search(
        r"(?:Group '(?P<group>[\w.]+)' .*)?(?:[Oo]ption '|unrecognized arguments: --)(?P<key>[\w.]+)", message
    )
    if complaint is None:
        return ""
    key = ".".join(filter(None, (complaint["group"], complaint["key"])))
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    near = near or [known for known in keys if known.split(".")[-1] == key.split(".")[-1]]
    return f"; do you mean {near[0]}?" if near else ""
