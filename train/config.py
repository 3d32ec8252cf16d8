"""What a training run is told: dataclasses, filled from YAML files and the command line; unknown keys are refused.

python train/ppo.py --config configs/6p.yaml --ppo.learning_rate 5e-4 --seed 2
"""

from __future__ import annotations

import argparse
import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import yaml
from jsonargparse import ArgumentParser

from fool_env.errors import RulesError
from fool_env.rules import Rules


@dataclass
class TableConfig:
    """The tables that the network plays at.

    Attributes:
        num_players: seats at each table; the official rules for so many, unless `rules` says otherwise. Several numbers
            are taken in turn by the tables, and one network learns to play at all of them.
        rules: fields of `Rules` that differ from the official ones; all of them for tables that have none.
        episode: what is played: "round" (single rounds) or "game" (whole games).
        reward: "points" of a round, "relative" to the mean of the other seats, or "win" of a game.
        rounds_first: plays, over all tables, for which single rounds are played for relative points, before whole games
            are played for `reward`: from the next iteration on. Games take twelve times as long to show an outcome.
        num_tables: tables that are played side by side; in each process, where several train together.
    """

    num_players: int | list[int] = 6
    rules: dict[str, Any] | None = None
    episode: Literal["round", "game"] = "round"
    reward: Literal["points", "relative", "win"] = "relative"
    rounds_first: int = 0
    num_tables: int = 1024

    def make_rules(self) -> list[Rules]:
        """The rules of the tables, for each number of players one.

        Raises:
            RulesError: they are none, a number comes twice, or `rules` and `num_players` disagree.
        """
        numbers = self.num_players if isinstance(self.num_players, list) else [self.num_players]
        if not numbers or len(set(numbers)) < len(numbers):
            raise RulesError(f"table.num_players: {numbers} are not one or more different numbers")
        return [self._rules_for(number) for number in numbers]

    def _rules_for(self, num_players: int) -> Rules:
        if self.rules is None:
            return Rules.official(num_players)
        if self.rules.get("num_players", num_players) != num_players:
            raise RulesError(
                f"table.num_players is {self.num_players}, table.rules.num_players {self.rules['num_players']}: "
                "they disagree"
            )
        official = Rules.official(num_players).to_dict() if 4 <= num_players <= 8 else {}
        return Rules.from_dict({**official, "num_players": num_players, **self.rules})


@dataclass
class NetworkConfig:
    """The network.

    Attributes:
        kind: "mlp", hidden layers; "facts", whose last layer weighs some facts about each card held, such as how many
            unseen cards are higher.
        hidden: widths of the hidden layers, which policy and value share.
        critic: what the value sees in training: the seat's "view", or the "full" table, all hands. The policy sees its
            view alone, always.
    """

    kind: Literal["mlp", "facts"] = "facts"
    hidden: list[int] = field(default_factory=lambda: [256, 256])
    critic: Literal["view", "full"] = "view"


@dataclass
class PPOConfig:
    """How the network learns.

    Attributes:
        steps: plays at each table in a rollout.
        minibatch: decisions in a minibatch, at most; in each process, where several train together.
        epochs: passes over each rollout.
        learning_rate, final_learning_rate: of Adam, falling linearly from the first to the last.
        entropy, final_entropy: weight of the entropy, likewise.
        average_kl: weight of the divergence from an average of the policy over its iterations, 0 for none.
        average_decay: what is left of that average at each iteration.
        clip_range: how far the ratio of new to old probability may stray from 1 before it earns nothing more.
        gamma: discount from one of a seat's decisions to its next.
        gae_lambda: how far advantages trust returns (1) over values (0).
        value_weight: weight of the value's squared error.
        max_grad_norm: gradients longer than this are shortened to it.
        reward_scale: multiplies rewards, so that values are of the order of 1; null for 0.05 of points and relative
            points, and 2 of wins.
    """

    steps: int = 64
    minibatch: int = 4096
    epochs: int = 2
    learning_rate: float = 1e-3
    final_learning_rate: float = 0.0
    entropy: float = 0.02
    final_entropy: float = 0.002
    average_kl: float = 0.0
    average_decay: float = 0.95
    clip_range: float = 0.2
    gamma: float = 1.0
    gae_lambda: float = 0.95
    value_weight: float = 0.5
    max_grad_norm: float = 0.5
    reward_scale: float | None = None


@dataclass
class PoolConfig:
    """Opponents at some of the tables: the network as it was before, and other agents; see `fool_env.train.pool`.

    Attributes:
        share: of the tables at which one seat learns and the others are opponents'; 0 for self-play alone.
        every: plays between snapshots of the network, 0 for none.
        size: snapshots that are kept, at most.
        sampling: how opponents are drawn: "uniform" (all alike) or "hard" (the harder ones more often).
        members: further opponents, `make_agent` strings.
    """

    share: float = 0.0
    every: int = 2_000_000
    size: int = 8
    sampling: Literal["uniform", "hard"] = "uniform"
    members: list[str] = field(default_factory=list)


@dataclass
class EvaluationConfig:
    """How the network is measured against other agents, on deals that it never trains on.

    Attributes:
        opponents: `make_agent` strings; "a+b" is a table of several.
        every: plays between evaluations on the way, 0 for none.
        deals: deals for each evaluation on the way.
        games: full games for each evaluation on the way, 0 for none.
        final_deals: deals for the report at the end.
        final_games: full games for the report at the end, 0 for none.
    """

    opponents: list[str] = field(default_factory=lambda: ["random", "highest", "cautious"])
    every: int = 2_000_000
    deals: int = 200
    games: int = 0
    final_deals: int = 2000
    final_games: int = 200


Self = TypeVar("Self", bound="RunConfig")


@dataclass
class RunConfig(ABC):
    """A training run, whatever its method.

    Attributes:
        name: the run's folder within `runs`.
        runs: where run folders lie.
        seed: of everything random in the run.
        total_steps: plays until the end, over all tables of all processes; so are the two `every`.
        checkpoint_every: plays between checkpoints.
        table: the tables.
        network: the network.
        evaluation: how it is measured.
        device: "cpu", "cuda" (several processes of a machine: each its own GPU) or "auto".
        precision: "float32", "bfloat16" or "auto", the faster one.
        shards: parts into which batches are cut for threads, so as many as there are cores; results depend on it, in
            the last bits, and not on the number of threads.
        threads: threads that compute the parts, at most `shards`; null for as many as there are cores for each process.
    """

    program: ClassVar[str]
    """The console script that trains such runs."""
    script: ClassVar[str]
    """The same as a file of the checkout."""
    description: ClassVar[str]
    method: ClassVar[str]
    """What a checkpoint calls it."""
    distributed: ClassVar[bool] = False
    """Whether several processes may train together."""
    choice: ClassVar[str]
    """How its agents choose: they "sample" from the network's probabilities, or are "greedy"."""

    name: str = "run"
    runs: str = "runs"
    seed: int = 0
    total_steps: int = 40_000_000
    checkpoint_every: int = 4_000_000
    table: TableConfig = field(default_factory=TableConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
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
    @abstractmethod
    def steps_per_iteration(self) -> int:
        """Plays in one rollout, over all tables of one process."""

    @property
    def reward_scale(self) -> float | None:
        """What rewards are multiplied by, None for what suits the reward."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """All values by name, nested as in YAML."""
        return asdict(self)

    @classmethod
    def from_dict(cls: type[Self], values: dict[str, Any]) -> Self:
        """The config from what `to_dict` gives."""
        sections = {
            name: type(default)(**values[name]) for name, default in vars(cls()).items() if _is_section(default)
        }
        return cls(**{**values, **sections})

    def check(self) -> None:
        """Refuse what cannot be trained.

        Raises:
            ValueError: the message names the key.
        """
        for key, value in _leaves(self).items():
            if isinstance(value, (int, float)) and value < _LOWEST.get(key, 1 if isinstance(value, int) else 0):
                raise ValueError(f"{key}: {value} is too small")
        if len(self.table.make_rules()) > self.table.num_tables:
            raise ValueError(f"table.num_tables: {self.table.num_tables} are fewer than the numbers of players")
        if self.table.reward == "win" and self.table.episode == "round":
            raise ValueError("table.reward: 'win' is paid at the end of a game, so it needs table.episode: game")
        self._check_rounds_first()
        if not self.network.hidden or min(self.network.hidden) < 1:
            raise ValueError(f"network.hidden: {self.network.hidden} is not one or more widths")
        if Path(self.name).name != self.name or self.name in ("", ".", ".."):
            raise ValueError(f"name: {self.name!r} is no folder's name")

    def _check_rounds_first(self) -> None:
        first = self.table.rounds_first
        if first and self.table.episode == "round":
            raise ValueError("table.rounds_first: is of use before whole games, so it needs table.episode: game")
        if first and -(-first // self.steps_per_iteration) * self.steps_per_iteration >= self.total_steps:
            raise ValueError(f"table.rounds_first: {first:,} of {self.total_steps:,} plays leave none for games")


@dataclass
class TrainConfig(RunConfig):
    """A run of self-play PPO.

    Attributes:
        init: a checkpoint whose policy the run starts from, and whose values if it has learnt for the same; null for a
            new network.
        ppo: how the network learns.
        pool: whom it meets besides itself.
    """

    program = "fool-train"
    script = "train/ppo.py"
    description = "Train a network to play FOOL by self-play PPO."
    method = "ppo"
    distributed = True
    choice = "sample"

    init: str | None = None
    ppo: PPOConfig = field(default_factory=PPOConfig)
    pool: PoolConfig = field(default_factory=PoolConfig)

    @property
    def steps_per_iteration(self) -> int:
        """Plays in one rollout, over all tables of one process."""
        return self.table.num_tables * self.ppo.steps

    @property
    def reward_scale(self) -> float | None:
        """What rewards are multiplied by, None for what suits the reward."""
        return self.ppo.reward_scale

    def check(self) -> None:
        """Refuse what cannot be trained.

        Raises:
            ValueError: the message names the key.
        """
        super().check()
        if self.ppo.average_decay >= 1:
            raise ValueError(f"ppo.average_decay: {self.ppo.average_decay} is not below 1")
        for name in ("gamma", "gae_lambda", "clip_range"):
            if not 0 < getattr(self.ppo, name) <= 1:
                raise ValueError(f"ppo.{name}: {getattr(self.ppo, name)} is not within 0 (excluded) to 1")
        if self.pool.share > 1:
            raise ValueError(f"pool.share: {self.pool.share} is not within 0 to 1")
        if self.pool.share > 0 and round(self.pool.share * self.table.num_tables) == 0:
            raise ValueError(f"pool.share: {self.pool.share} of {self.table.num_tables} tables is none")
        if self.pool.share > 0 and self.pool.every == 0 and not self.pool.members:
            raise ValueError("pool.share: there are neither snapshots (pool.every) nor pool.members to play against")


Config = TypeVar("Config", bound=RunConfig)

# The lowest values of numbers; those not listed are at least 1 if whole, at least 0 if not.
_LOWEST = {
    "seed": 0,
    "table.rounds_first": 0,
    "pool.every": 0,
    "evaluation.every": 0,
    "evaluation.games": 0,
    "evaluation.final_games": 0,
}


class ConfigError(ValueError):
    """A run cannot be started as told; the message says which key or file is wrong."""


def parse_config(arguments: Sequence[str]) -> TrainConfig:
    """The config of a PPO run; see `parse_run_config`."""
    return parse_run_config(TrainConfig, arguments)


def load_config(path: Path) -> TrainConfig:
    """The config of a PPO run's folder."""
    return load_run_config(TrainConfig, path)


def parse_run_config(kind: type[Config], arguments: Sequence[str]) -> Config:
    """The config that the command line, and the YAML files that it names, describe; later ones win.

    `--config 6p.yaml` also finds the files that come with this package.

    Raises:
        ConfigError: a key is unknown (the message has the nearest one that is), or a value is not allowed.
        SystemExit: after `--help`.
    """
    parser = make_parser(kind)
    located = [_locate(argument, before) for before, argument in zip(["", *arguments], arguments, strict=False)]
    try:
        values = parser.parse_args(located).as_dict()
    except argparse.ArgumentError as error:
        raise ConfigError(str(error) + _suggestion(kind, str(error))) from None
    del values["config"], values["resume"]
    config = kind.from_dict(values)
    try:
        config.check()
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return config


def load_run_config(kind: type[Config], path: Path) -> Config:
    """The config of a run folder."""
    return parse_run_config(kind, ["--config", str(path)])


def save_config(config: RunConfig, path: Path) -> None:
    """Write every value of a config, defaults too, so that `load_run_config` gives the same."""
    path.write_text(yaml.safe_dump(config.to_dict(), sort_keys=False))


def make_parser(kind: type[RunConfig]) -> ArgumentParser:
    """The command line of a training script; it raises `argparse.ArgumentError`."""
    parser = ArgumentParser(
        prog=kind.program,
        description=kind.description,
        exit_on_error=False,
        allow_abbrev=False,  # a misspelt key that starts like a right one would be taken for it
    )
    parser.add_argument("--config", action="config", help="a YAML file of the options below")
    parser.add_argument("--resume", metavar="FOLDER", help="go on with an interrupted run; takes no other option")
    parser.add_class_arguments(kind)
    return parser


def _locate(argument: str, before: str) -> str:
    """The value of `--config` as it stands, or the file of that name that comes with the package."""
    prefix = "--config="
    if before != "--config" and not argument.startswith(prefix):
        return argument
    prefix = prefix if argument.startswith(prefix) else ""
    packaged = resources.files("fool_env.configs") / Path(argument.removeprefix(prefix)).name
    return argument if Path(argument.removeprefix(prefix)).exists() or not packaged.is_file() else f"{prefix}{packaged}"


def _is_section(value: object) -> bool:
    """Whether a value of a config is made of several."""
    return is_dataclass(value)


def _leaves(config: Any, prefix: str = "") -> dict[str, Any]:
    """The values of a config and its sections by dotted key."""
    leaves: dict[str, Any] = {}
    for leaf in fields(config):
        value = getattr(config, leaf.name)
        key = f"{prefix}{leaf.name}"
        leaves |= _leaves(value, f"{key}.") if _is_section(value) else {key: value}
    return leaves


def _suggestion(kind: type[RunConfig], message: str) -> str:
    """The known key nearest to an unknown one that an error message complains about."""
    keys = list(_leaves(kind()))
    complaint = re.search(
        r"(?:Group '(?P<group>[\w.]+)' .*)?(?:[Oo]ption '|unrecognized arguments: --)(?P<key>[\w.]+)", message
    )
    if complaint is None:
        return ""
    key = ".".join(filter(None, (complaint["group"], complaint["key"])))
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    near = near or [known for known in keys if known.split(".")[-1] == key.split(".")[-1]]
    return f"; do you mean {near[0]}?" if near else ""
