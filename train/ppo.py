"""Train a network to play FOOL by self-play.

    python train/ppo.py --config configs/6p.yaml
    python train/ppo.py --config configs/6p.yaml --seed 2 --name 6p-seed2 --ppo.learning_rate 5e-4
    python train/ppo.py --resume runs/6p

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

import torch as th
from rich.console import Console
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.utils import LinearSchedule

from fool_env.agents.agent import AgentError
from fool_env.agents.arena import make_opponents
from fool_env.agents.neural import CheckpointError, read_description
from fool_env.train.checkpoint import checkpoint_name, latest_checkpoint, load_checkpoint, save_checkpoint, write_whole
from fool_env.train.config import ConfigError, TrainConfig, load_config, parse_config, save_config
from fool_env.train.ladder import Ladder, in_one_line
from fool_env.train.report import Events, ProgressCsv, Reporter, draw_curves, duration, read_rows
from fool_env.train.selfplay import COLUMNS, SelfPlayPPO, Trunk
from fool_env.train.stages import change_stage, make_tables, read_init, stage_at, start_from
from fool_env.train.vec_env import SelfPlayVecEnv

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when trained to the end, 130 when interrupted and saved, 2 when it could not begin."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        config, checkpoint = open_run(arguments)
        return train(config, checkpoint)
    except (ConfigError, CheckpointError) as error:
        print(f"fool-train: error: {error}", file=sys.stderr)
        return EXIT_USAGE


def open_run(arguments: Sequence[str]) -> tuple[TrainConfig, Path | None]:
    """The config of a new run, in a new folder; or an interrupted run's, with its last checkpoint.

    Raises:
        ConfigError: the folder of a new run exists, or that of an old one holds no run; or as `parse_config`.
        CheckpointError: the run is to start from a checkpoint that does not fit.
    """
    if any(argument.split("=")[0] == "--resume" for argument in arguments):
        return resume_run(arguments)
    config = parse_config(arguments)
    check_opponents(config)
    if config.init is not None:
        read_init(config)
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


def make_model(config: TrainConfig, steps: int = 0) -> SelfPlayPPO:
    """An untrained learner, at the tables that the config has after so many plays."""
    ppo, stage = config.ppo, stage_at(config, steps)
    return SelfPlayPPO(
        "MlpPolicy",
        SelfPlayVecEnv(make_tables(config, stage)),
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
        reward_scale=stage.reward_scale,
        precision=config.precision,
        shards=config.shards,
        threads=config.threads,
        policy_kwargs={
            "features_extractor_class": Trunk,
            "features_extractor_kwargs": asdict(config.network),
            "net_arch": [],  # None would add two more towers
            "optimizer_kwargs": {"eps": 1e-5, "fused": True},
        },
        seed=config.seed,
        device=config.device,
    )


def train(config: TrainConfig, checkpoint: Path | None) -> int:
    """Train a run to its end, from the beginning or from a checkpoint; returns the exit code."""
    folder = config.folder
    model = make_model(config, 0 if checkpoint is None else read_description(checkpoint)["steps"])
    seconds_before = 0.0 if checkpoint is None else load_checkpoint(checkpoint, model)
    origin = start_from(config, model) if checkpoint is None and config.init is not None else ""
    ladder = Ladder(folder / "ladder.json", config, model.num_timesteps)
    rows = ProgressCsv(folder / "progress.csv", COLUMNS, model.num_timesteps)
    logger = Logger(str(folder), [rows, Events(folder / "tensorboard", model.num_timesteps)])
    model.set_logger(logger)
    start = time.perf_counter()

    def seconds() -> float:
        return seconds_before + time.perf_counter() - start

    def save() -> Path:
        path = folder / "checkpoints" / checkpoint_name(model.num_timesteps)
        save_checkpoint(path, model, config, seconds())
        return path

    with closing(logger), Reporter(folder / "train.log", Console()) as reporter, Interrupt() as interrupt:

        def show(line: str) -> None:
            reporter.show(line)
            if interrupt.requested:
                raise KeyboardInterrupt

        try:
            for line in filter(None, [*banner(config, model, checkpoint), origin]):
                reporter.say(line)
            if checkpoint is None:
                save()  # so that a run can be resumed however early it is killed
            standing = in_one_line(ladder.history[-1]["results"]) if ladder.history else ""
            for iteration in model.iterations(config.total_steps - model.num_timesteps, reset_num_timesteps=False):
                line = progress_line(config, model, seconds())
                if change := change_stage(config, model):
                    reporter.say(change)
                if is_due(config.evaluation.every, config, model.num_timesteps):
                    standing = in_one_line(ladder.climb(model, reporter.show))
                    reporter.say(f"{line} | {standing}")
                reporter.show(f"{line} | {standing}")
                model.dump_logs(iteration)
                if is_due(config.checkpoint_every, config, model.num_timesteps) or interrupt.requested:
                    save()
                if interrupt.requested:
                    raise KeyboardInterrupt
            final = folder / "final.zip"
            write_whole(final, save().read_bytes())
            reporter.say(
                f"Trained in {duration(seconds())}. Points a round at each opponent's table (gain over its own):"
            )
            reporter.say(in_one_line(ladder.report(model, str(final), show)))
        except KeyboardInterrupt:
            reporter.say(f"Interrupted. Go on from the last checkpoint with: python train/ppo.py --resume {folder}")
            return EXIT_INTERRUPTED
        draw_curves(folder / "curves.png", read_rows(folder / "progress.csv"), ladder.history)
        reporter.say(f"The agent is {final}. Measure it with: python train/evaluate.py --checkpoint {final}")
    return 0


class Interrupt:
    """Ctrl-C and SIGTERM ask for an end after the iteration; a second one ends at once."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Interrupt:
        self._before = {number: signal.signal(number, self._request) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


def is_due(every: int, config: TrainConfig, steps: int) -> bool:
    """Whether something that happens every so many plays happens after the iteration that ends at `steps`."""
    return every > 0 and steps // every > (steps - config.steps_per_iteration) // every


def banner(config: TrainConfig, model: SelfPlayPPO, checkpoint: Path | None) -> list[str]:
    """What is being trained, and what follows from the config."""
    table, stage = config.table, stage_at(config, model.num_timesteps)
    rules = table.make_rules()
    parameters = sum(parameter.numel() for parameter in model.policy.parameters())
    iterations = -(-config.total_steps // config.steps_per_iteration)
    precision = "bfloat16" if model.compute.bfloat16 else "float32"
    return [
        f"{config.folder}: {rules.num_players} players, {rules.num_cards} cards, {rules.num_fools} Fool"
        f"{'s' * (rules.num_fools > 1)}, {stage}, seed {config.seed}",
        *([f"whole games after {table.rounds_first:,} steps"] if model.num_timesteps < table.rounds_first else []),
        f"{table.num_tables:,} tables x {config.ppo.steps} plays = {config.steps_per_iteration:,} steps an iteration, "
        f"{iterations:,} iterations = {iterations * config.steps_per_iteration:,} steps",
        f"network {config.network.hidden}, {parameters:,} parameters, {precision} on {model.device}, "
        f"{model.compute.threads} threads; torch {th.__version__}",
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
