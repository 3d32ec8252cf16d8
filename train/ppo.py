"""Train a network to play FOOL by self-play.

    python train/ppo.py --config configs/6p.yaml
    python train/ppo.py --config configs/6p.yaml --seed 2 --name 6p-seed2 --ppo.learning_rate 5e-4
    python train/ppo.py --resume runs/6p
    torchrun --nproc-per-node=4 train/ppo.py --config configs/6p.yaml     four processes, see distributed.py

A run leaves a folder, `runs/6p`: config.yaml, progress.csv, TensorBoard events, train.log, checkpoints, ladder.json
(strength against fixed opponents), curves.png, and final.zip, the trained agent. Ctrl-C saves; a resumed run goes on
exactly as if it had never stopped, also after a crash, from the last checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from types import FrameType

# Before torch is imported, which reads it once: threads that wait for a busy core should sleep, not spin.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch as th
from rich.console import Console
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.utils import LinearSchedule

from fool_env import FoolVectorEnv
from fool_env.agents.agent import AgentError
from fool_env.agents.arena import TRAINING, make_opponents
from fool_env.agents.neural import CheckpointError
from fool_env.rng import derive
from fool_env.train.checkpoint import checkpoint_name, latest_checkpoint, load_checkpoint, save_checkpoint, write_whole
from fool_env.train.compute import available_cores
from fool_env.train.config import ConfigError, TrainConfig, load_config, parse_config, save_config
from fool_env.train.distributed import Ranks, RanksError
from fool_env.train.ladder import Ladder, in_one_line
from fool_env.train.report import Events, ProgressCsv, Reporter, draw_curves, duration, read_rows
from fool_env.train.selfplay import COLUMNS, SelfPlayPPO, Trunk
from fool_env.train.vec_env import SelfPlayVecEnv

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when trained to the end, 130 when interrupted and saved, 2 when it could not begin.

    Of several processes, all return when the last is done; 1 when one lost the others.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        ranks = Ranks.join()
        config, checkpoint = ranks.lead(lambda: open_run(arguments))
        code = train(config, checkpoint, ranks)
        ranks.leave()
        return code
    except (ConfigError, CheckpointError, RanksError) as error:
        print(f"fool-train: error: {error}", file=sys.stderr)
        return EXIT_FAILED if isinstance(error, RanksError) else EXIT_USAGE


def open_run(arguments: Sequence[str]) -> tuple[TrainConfig, Path | None]:
    """The config of a new run, in a new folder; or an interrupted run's, with its last checkpoint.

    Raises:
        ConfigError: the folder of a new run exists, or that of an old one holds no run; or as `parse_config`.
    """
    if any(argument.split("=")[0] == "--resume" for argument in arguments):
        return resume_run(arguments)
    config = parse_config(arguments)
    check_opponents(config)
    if config.folder.exists():
        raise ConfigError(
            f"{config.folder} exists already: go on with it by --resume {config.folder}, or choose another --name"
        )
    config.folder.mkdir(parents=True)
    save_config(config, config.folder / "config.yaml")
    return config, None


def check_opponents(config: TrainConfig) -> None:
    """Refuse opponents that cannot be had or that play by other rules, before hours are spent.

    Raises:
        ConfigError: the message names the opponent.
    """
    rules = config.table.make_rules()
    for opponent in config.evaluation.opponents:
        try:
            agents = make_opponents(opponent)
        except (AgentError, OSError, ValueError) as error:
            raise ConfigError(f"evaluation.opponents: {error}") from None
        for agent in agents:
            learnt = getattr(agent, "rules", rules)
            if learnt != rules:
                raise ConfigError(f"evaluation.opponents: {agent.name} was trained for {learnt}, not for {rules}")


def resume_run(arguments: Sequence[str]) -> tuple[TrainConfig, Path]:
    """An interrupted run's config and last checkpoint.

    Raises:
        ConfigError: there is no such run, or other options were given.
    """
    options = [part for argument in arguments for part in argument.split("=", 1)]
    if len(options) != 2 or options[0] != "--resume":
        raise ConfigError("--resume FOLDER takes no other option: the run goes on with its own config.yaml")
    folder = Path(options[1])
    if not (folder / "config.yaml").exists():
        raise ConfigError(f"{folder} is not the folder of a run: it has no config.yaml")
    checkpoint = latest_checkpoint(folder / "checkpoints")
    if checkpoint is None:
        raise ConfigError(f"{folder} has no checkpoint to go on from: remove it and start the run again")
    config = load_config(folder / "config.yaml")
    # The folder may have been moved or renamed since.
    config.runs, config.name = str(folder.resolve().parent), folder.resolve().name
    return config, checkpoint


def make_model(config: TrainConfig, ranks: Ranks | None = None) -> SelfPlayPPO:
    """A learner at its tables, as the config has them."""
    table, ppo, ranks = config.table, config.ppo, ranks or Ranks()
    tables = FoolVectorEnv(
        table.num_tables,
        table.make_rules(),
        table.episode,
        table.reward,
        # Deals that no evaluation deals.
        seed=ranks.seed(int(derive(np.uint64(config.seed), TRAINING))),
    )
    return SelfPlayPPO(
        "MlpPolicy",
        SelfPlayVecEnv(tables),
        learning_rate=LinearSchedule(ppo.learning_rate, ppo.final_learning_rate, 1.0),
        n_steps=ppo.steps,
        batch_size=ppo.minibatch,
        n_epochs=ppo.epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip_range,
        ent_coef=LinearSchedule(ppo.entropy, ppo.final_entropy, 1.0),
        vf_coef=ppo.value_weight,
        max_grad_norm=ppo.max_grad_norm,
        reward_scale=ppo.reward_scale,
        precision=config.precision,
        shards=config.shards,
        threads=config.threads or max(1, available_cores() // ranks.local_size),
        ranks=ranks,
        policy_kwargs={
            "features_extractor_class": Trunk,
            "features_extractor_kwargs": asdict(config.network),
            "net_arch": [],  # None would add two more towers
            "optimizer_kwargs": {"eps": 1e-5, "fused": True},
        },
        seed=config.seed,
        device=ranks.device(config.device),
    )


def train(config: TrainConfig, checkpoint: Path | None, ranks: Ranks) -> int:
    """Train a run to its end, from the beginning or from a checkpoint; returns the exit code."""
    folder = config.folder
    model = make_model(config, ranks)
    seconds_before = 0.0 if checkpoint is None else load_checkpoint(checkpoint, model)
    ladder = Ladder(folder / "ladder.json", config, model.num_timesteps)
    writers: list[KVWriter] = []
    if ranks.is_first:
        writers = [
            ProgressCsv(folder / "progress.csv", COLUMNS, model.num_timesteps),
            Events(folder / "tensorboard", model.num_timesteps),
        ]
    logger = Logger(str(folder), writers)
    model.set_logger(logger)
    per_iteration = config.steps_per_iteration * ranks.size
    start = time.perf_counter()

    def seconds() -> float:
        return seconds_before + time.perf_counter() - start

    def save() -> Path:
        path = folder / "checkpoints" / checkpoint_name(model.num_timesteps)
        save_checkpoint(path, model, config, seconds())
        return path

    # The other ranks go through the same, silently, since they have a part in every iteration and every checkpoint.
    log = folder / "train.log" if ranks.is_first else Path(os.devnull)
    console = Console() if ranks.is_first else Console(quiet=True, force_terminal=False)
    with closing(logger), Reporter(log, console) as reporter, Interrupt(ranks.size == 1) as interrupt:

        def show(line: str) -> None:
            reporter.show(line)
            if interrupt.requested:
                raise KeyboardInterrupt

        try:
            for line in banner(config, model, checkpoint):
                reporter.say(line)
            if checkpoint is None:
                save()  # so that a run can be resumed however early it is killed
            standing = in_one_line(ladder.history[-1]["results"]) if ladder.history else ""
            for iteration in model.iterations(config.total_steps - model.num_timesteps, reset_num_timesteps=False):
                line = progress_line(config, model, seconds())
                if ranks.is_first and is_due(config.evaluation.every, per_iteration, model.num_timesteps):
                    standing = in_one_line(ladder.climb(model, reporter.show))
                    reporter.say(f"{line} | {standing}")
                reporter.show(f"{line} | {standing}")
                model.dump_logs(iteration)
                stop = ranks.any(interrupt.requested)
                if is_due(config.checkpoint_every, per_iteration, model.num_timesteps) or stop:
                    save()
                if stop:
                    raise KeyboardInterrupt
            saved, final = save(), folder / "final.zip"
            if not ranks.is_first:
                return 0
            write_whole(final, saved.read_bytes())
            reporter.say(
                f"Trained in {duration(seconds())}. Points a round at each opponent's table (gain over its own):"
            )
            reporter.say(in_one_line(ladder.report(model, str(final), show)))
        except KeyboardInterrupt:
            command = "python" if ranks.size == 1 else f"torchrun (as before, {ranks.size} processes)"
            reporter.say(f"Interrupted. Go on from the last checkpoint with: {command} train/ppo.py --resume {folder}")
            return EXIT_INTERRUPTED
        draw_curves(folder / "curves.png", read_rows(folder / "progress.csv"), ladder.history)
        reporter.say(f"The agent is {final}. Measure it with: python train/evaluate.py --checkpoint {final}")
    return 0


class Interrupt:
    """Ctrl-C and SIGTERM ask for an end after the iteration; a second one ends at once.

    Args:
        in_a_hurry: False for several processes: as soon as one has ended torchrun signals the others, which may not
            have written the checkpoint yet.
    """

    def __init__(self, in_a_hurry: bool = True) -> None:
        self.in_a_hurry = in_a_hurry
        self.requested = False

    def __enter__(self) -> Interrupt:
        self._before = {number: signal.signal(number, self._request) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested and self.in_a_hurry:
            raise KeyboardInterrupt
        self.requested = True


def is_due(every: int, per_iteration: int, steps: int) -> bool:
    """Whether something that happens every so many plays happens after the iteration that ends at `steps`."""
    return every > 0 and steps // every > (steps - per_iteration) // every


def banner(config: TrainConfig, model: SelfPlayPPO, checkpoint: Path | None) -> list[str]:
    """What is being trained, and what follows from the config."""
    table = config.table
    rules = table.make_rules()
    parameters = sum(parameter.numel() for parameter in model.policy.parameters())
    size = model.ranks.size
    per_iteration = config.steps_per_iteration * size
    iterations = -(-config.total_steps // per_iteration)
    precision = "bfloat16" if model.compute.bfloat16 else "float32"
    return [
        f"{config.folder}: {rules.num_players} players, {rules.num_cards} cards, {rules.num_fools} Fool"
        f"{'s' * (rules.num_fools > 1)}, {table.episode}s, reward {table.reward}, seed {config.seed}",
        f"{f'{size} processes x ' if size > 1 else ''}{table.num_tables:,} tables x {config.ppo.steps} plays = "
        f"{per_iteration:,} steps an iteration, {iterations:,} iterations = {iterations * per_iteration:,} steps",
        f"network {config.network.hidden}, {parameters:,} parameters, {precision} on {model.device}, "
        f"{model.compute.threads} threads{' each' if size > 1 else ''}; torch {th.__version__}",
        *([] if checkpoint is None else [f"resumed from {checkpoint} at {model.num_timesteps:,} steps"]),
    ]


def progress_line(config: TrainConfig, model: SelfPlayPPO, seconds: float) -> str:
    """Where the run stands, from what the iteration logged."""
    logged = model.logger.name_to_value
    left = max(config.total_steps - model.num_timesteps, 0) / logged["time/fps"]
    return (
        f"{model.num_timesteps:,} of {config.total_steps:,} steps, {logged['time/fps'] / 1e3:.0f}k/s, "
        f"{duration(seconds)}, {duration(left)} left | entropy {logged['train/relative_entropy']:.0%}, "
        f"values explain {logged['train/explained_variance']:.0%}"
    )


if __name__ == "__main__":
    sys.exit(main())
