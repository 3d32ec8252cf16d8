"""A training run, whatever its method: its folder, its checkpoints, its strength on the way, and Ctrl-C.

A run leaves a folder, `runs/6p`: config.yaml, progress.csv, TensorBoard events, train.log, checkpoints, ladder.json
(strength against fixed opponents), curves.png, and final.zip, the trained agent. Ctrl-C saves; a resumed run goes on
exactly as if it had never stopped, also after a crash, from the last checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

import torch as th
from rich.console import Console
from stable_baselines3.common.logger import KVWriter, Logger

from fool_env import Rules
from fool_env.agents.agent import AgentError, AnyAgent
from fool_env.agents.arena import make_opponents
from fool_env.agents.neural import CheckpointError, read_description
from fool_env.train.checkpoint import (
    Learner,
    checkpoint_name,
    latest_checkpoint,
    load_checkpoint,
    remove_leftovers,
    save_checkpoint,
    write_whole,
)
from fool_env.train.config import (
    Config,
    ConfigError,
    RunConfig,
    TrainConfig,
    load_run_config,
    parse_run_config,
    save_config,
)
from fool_env.train.distributed import Ranks, RanksError
from fool_env.train.ladder import Ladder, in_lines
from fool_env.train.pool import make_member
from fool_env.train.report import Events, ProgressCsv, Reporter, draw_curves, duration, read_rows
from fool_env.train.stages import read_init, stage_at

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130

Model = TypeVar("Model", bound=Learner)


def main(kind: type[Config], train: Callable[[Config, Path | None], int], arguments: Sequence[str]) -> int:
    """A training command: 0 when trained to the end, 130 when interrupted and saved, 2 when it could not begin.

    Of several processes all return when the last is done; 1 when one has lost the others.

    Args:
        kind: of config, which says what the command is called.
        train: trains a run from the beginning, or from a checkpoint.
        arguments: of the command.
    """
    try:
        ranks = Ranks.join()
        config, checkpoint = ranks.lead(lambda: open_run(kind, arguments, ranks.size))
        code = train(config, checkpoint)
        ranks.leave()
        return code
    except (ConfigError, CheckpointError, RanksError) as error:
        print(f"{kind.program}: error: {error}", file=sys.stderr)
        return EXIT_FAILED if isinstance(error, RanksError) else EXIT_USAGE
    finally:
        Ranks.hang_up()


def open_run(kind: type[Config], arguments: Sequence[str], processes: int = 1) -> tuple[Config, Path | None]:
    """The config of a new run, in a new folder; or an interrupted run's, with its last checkpoint.

    Raises:
        ConfigError: the folder of a new run exists, or that of an old one holds no run; several processes are to train
            with a method that one trains with; or as `parse_run_config`.
        CheckpointError: the run is to start from a checkpoint that does not fit.
    """
    if processes > 1 and not kind.distributed:
        raise ConfigError(f"{kind.script} trains in one process, and these are {processes}: start it without torchrun")
    if any(argument.split("=")[0] == "--resume" for argument in arguments):
        return resume_run(kind, arguments)
    config = parse_run_config(kind, arguments)
    check_opponents(config)
    if isinstance(config, TrainConfig) and config.init is not None:
        read_init(config)
    if config.folder.exists():
        raise ConfigError(
            f"{config.folder} exists already: go on with it by --resume {config.folder}, or choose another --name"
        )
    begun = config.folder.with_name(f".{config.name}.tmp")  # so that a run's folder always holds its config
    begun.mkdir(parents=True, exist_ok=True)
    save_config(config, begun / "config.yaml")
    begun.rename(config.folder)
    return config, None


def check_opponents(config: RunConfig) -> None:
    """Refuse opponents that cannot be had or that play by other rules, before hours are spent.

    Raises:
        ConfigError: the message names the opponent.
    """
    for opponent in config.evaluation.opponents:
        check_agents("evaluation.opponents", make_opponents, opponent, config)
    for member in config.pool.members if isinstance(config, TrainConfig) else ():
        check_agents("pool.members", lambda name: [make_member(name)], member, config)


def check_agents(key: str, make: Callable[[str], Sequence[AnyAgent]], name: str, config: RunConfig) -> None:
    """Refuse what a key of the config names, if no agents come of it that can sit at the tables of the run.

    Raises:
        ConfigError: the message names the key and the agent.
    """
    tables = config.table.make_rules()
    try:
        agents = make(name)
    except (AgentError, OSError, ValueError) as error:
        raise ConfigError(f"{key}: {error}") from None
    for agent in agents:
        learnt: Sequence[Rules] = getattr(agent, "rules", tables)
        for rules in tables:
            if rules not in learnt:
                known = [table for table in learnt if table.num_players == rules.num_players] or learnt
                raise ConfigError(f"{key}: {agent.name} was trained for {', '.join(map(str, known))}, not for {rules}")


def resume_run(kind: type[Config], arguments: Sequence[str]) -> tuple[Config, Path | None]:
    """An interrupted run's config and last checkpoint; None if it was killed before the first, and so begins anew.

    Raises:
        ConfigError: there is no such run, it is of another method, or other options were given.
        CheckpointError: its last checkpoint is none.
    """
    options = [part for argument in arguments for part in argument.split("=", 1)]
    if len(options) != 2 or options[0] != "--resume":
        raise ConfigError("--resume FOLDER takes no other option: the run goes on with its own config.yaml")
    folder = Path(options[1])
    if not (folder / "config.yaml").exists():
        raise ConfigError(f"{folder} is not the folder of a run: it has no config.yaml")
    checkpoint = latest_checkpoint(folder / "checkpoints")
    method = kind.method if checkpoint is None else read_description(checkpoint)["method"]
    if method != kind.method:
        raise ConfigError(f"{folder} is a run of the method {method}, and {kind.script} goes on with {kind.method}")
    config = load_run_config(kind, folder / "config.yaml")
    # The folder may have been moved or renamed since.
    config.runs, config.name = str(folder.resolve().parent), folder.resolve().name
    remove_leftovers(folder)
    return config, checkpoint


def train(
    config: Config,
    model: Model,
    checkpoint: Path | None,
    columns: Sequence[str],
    progress_line: Callable[[Config, Model, float], str],
    begin: Callable[[], str] = str,
    between: Callable[[], str] = str,
) -> int:
    """Train a run to its end, from the beginning or from a checkpoint; returns the exit code.

    Args:
        config: of the run.
        model: made from it, and so far untrained.
        checkpoint: where to go on.
        columns: all that an iteration logs, for progress.csv.
        progress_line: the line of progress from config, model and the seconds that the run has taken.
        begin: what is done before a new run's first iteration.
        between: what is done after each iteration; both return what there is to say.
    """
    folder, ranks = config.folder, model.ranks
    seconds_before = 0.0 if checkpoint is None else load_checkpoint(checkpoint, model)
    origin = begin() if checkpoint is None else ""
    ladder = Ladder(folder / "ladder.json", config, model.num_timesteps)
    writers: list[KVWriter] = []
    if ranks.is_first:
        writers.append(ProgressCsv(folder / "progress.csv", columns, model.num_timesteps))
        writers.append(Events(folder / "tensorboard", model.num_timesteps))
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
            for line in filter(None, [*banner(config, model, checkpoint), origin]):
                reporter.say(line)
            if checkpoint is None:
                save()  # so that a run can be resumed however early it is killed
            standing = in_lines(ladder.history[-1]["results"]) if ladder.history else []
            for iteration in model.iterations(config.total_steps - model.num_timesteps, reset_num_timesteps=False):
                line = progress_line(config, model, seconds())
                if change := between():
                    reporter.say(change)
                if ranks.is_first and is_due(config.evaluation.every, per_iteration, model.num_timesteps):
                    standing = in_lines(ladder.climb(model, reporter.show))
                    for part in beside(line, standing):
                        reporter.say(part)
                reporter.show(" | ".join([line, *standing]))
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
                f"Trained in {duration(seconds())}. Points a round at each opponent's table (gain over its own, games):"
            )
            for part in in_lines(ladder.report(model, str(final), show)):
                reporter.say(part)
        except KeyboardInterrupt:
            start_by = "python" if ranks.size == 1 else f"torchrun (as before, {ranks.size} processes)"
            again = f"{start_by} {config.script} --resume {folder}"
            reporter.say(f"Interrupted. Go on from the last checkpoint with: {again}")
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


def beside(line: str, standing: Sequence[str]) -> list[str]:
    """The line of progress and what follows it: in the same line if that is one."""
    return [f"{line} | {standing[0]}"] if len(standing) == 1 else [line, *standing]


def is_due(every: int, per_iteration: int, steps: int) -> bool:
    """Whether something that happens every so many plays happens after the iteration that ends at `steps`."""
    return every > 0 and steps // every > (steps - per_iteration) // every


def banner(config: RunConfig, model: Learner, checkpoint: Path | None) -> list[str]:
    """What is being trained, and what follows from the config."""
    table, stage = config.table, stage_at(config, model.num_timesteps)
    parameters = sum(parameter.numel() for parameter in model.policy.parameters())
    size, plays = model.ranks.size, config.steps_per_iteration // table.num_tables
    steps = config.steps_per_iteration * size
    iterations = -(-config.total_steps // steps)
    precision = "bfloat16" if model.compute.bfloat16 else "float32"
    return [
        f"{config.folder}: {_at_tables(table.make_rules())}, {stage}, seed {config.seed}",
        *([f"whole games after {table.rounds_first:,} steps"] if model.num_timesteps < table.rounds_first else []),
        f"{f'{size} processes x ' if size > 1 else ''}{table.num_tables:,} tables x {plays} plays = {steps:,} steps an "
        f"iteration, {iterations:,} iterations = {iterations * steps:,} steps",
        f"network {config.network.kind} {config.network.hidden}, critic sees {config.network.critic}, "
        f"{parameters:,} parameters, {precision} on {model.device}, "
        f"{model.compute.threads} threads{' each' if size > 1 else ''}; torch {th.__version__}",
        *([] if checkpoint is None else [f"resumed from {checkpoint} at {model.num_timesteps:,} steps"]),
    ]


def _at_tables(tables: Sequence[Rules]) -> str:
    if len(tables) > 1:
        return f"{', '.join(str(rules.num_players) for rules in tables)} players"
    (rules,) = tables
    fools = f"{rules.num_fools} Fool{'s' * (rules.num_fools > 1)}"
    return f"{rules.num_players} players, {rules.num_cards} cards, {fools}"


def progress(config: RunConfig, model: Learner, seconds: float) -> str:
    """Where a run stands, from what the iteration logged."""
    logged = model.logger.name_to_value
    left = max(config.total_steps - model.num_timesteps, 0) / logged["time/fps"]
    return (
        f"{model.num_timesteps:,} of {config.total_steps:,} steps, {logged['time/fps'] / 1e3:.0f}k/s, "
        f"{duration(seconds)}, {duration(left)} left"
    )
