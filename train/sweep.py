"""Studies: one config with several seeds, or Optuna's search for the best values of some of its keys.

    python train/sweep.py --config configs/6p.yaml --seeds 0 1 2 3 4
    python train/sweep.py --config mine.yaml yours.yaml --seeds 0 1 2 --total_steps 6000000
    python train/sweep.py --config configs/6p.yaml --study rates --trials 20 --total_steps 6000000 \\
        --search ppo.learning_rate=log:1e-4:3e-3 "network.hidden=choice:[256,256]|[512,256]"

Every other option is one of `train/ppo.py`, for all runs. Each run is a folder as that script leaves it. The same
command goes on where it was interrupted, and the runs that are finished stay as they are; given in several terminals,
it trains several runs at once. Ctrl-C saves the run that is being trained. `--method dmc` trains with `train/dmc.py`.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fool_env.train.checkpoint import write_whole
from fool_env.train.command import Parser, output_console, run_script
from fool_env.train.config import RunConfig, TrainConfig, parse_run_config
from fool_env.train.provenance import machine, source_commit
from fool_env.train.run import Interrupt
from fool_env.train.run_process import METHODS, POLL_SECONDS, Run, RunError, finish, held, plan_run
from fool_env.train.standings import markdown, rich_table

if TYPE_CHECKING:
    from fool_env.train.seeds import SeedResults

_PROGRAM: Final = "fool-sweep"
INCOMPLETE: Final = 1
_TRIALS: Final = 20
_GOES_WITH: Final = {
    **dict.fromkeys(("trials", "search", "opponent", "deals", "no_pruning"), "study"),
    "out": "seeds",
}

# --- the command line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 1 if a seed's run is missing, 2 for bad input, 130 if interrupted."""

    def run() -> int:
        with Interrupt() as interrupt:
            return _run(sys.argv[1:] if argv is None else argv, interrupt)

    return run_script(_PROGRAM, run)


def _run(argv: Sequence[str], interrupt: Interrupt) -> int:
    parser = _parser()
    options, training = parser.parse_known_args(argv)
    _check_others(parser, training)
    for name, mode in _GOES_WITH.items():
        if getattr(options, name) is not None and getattr(options, mode) is None:
            raise ValueError(f"--{name.replace('_', '-')} goes with --{mode}")
    for package in ("optuna", "scipy"):
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"{package} is missing: pip install 'fool-env[train,studies]'")
    if options.seeds is not None:
        plans = plan_seeds(options.method, options.config, options.seeds, training)
        return run_seeds(plans, options.out, interrupt)
    return run_study(options, training, interrupt)


def _check_others(parser: argparse.ArgumentParser, training: Sequence[str]) -> None:
    """Refuse what would be taken for an option of training and is a misspelt one of this script."""
    for argument in training:
        key = argument.split("=")[0]
        if key == "--resume":
            raise ValueError("--resume: the same command goes on by itself")
        if key.startswith("--") and "." not in key and key.removeprefix("--") not in vars(TrainConfig()):
            near = difflib.get_close_matches(key, parser._option_string_actions, n=1, cutoff=0.7)
            if near:
                raise ValueError(f"there is no option {key}; do you mean {near[0]}?")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_PROGRAM,
        description="Train a config with several seeds, or look for the best values of some of its keys.",
        epilog="All other options are those of the method's script, for every run.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config", nargs="+", action="extend", required=True, metavar="FILE", help="training configs; one for a study"
    )
    parser.add_argument(
        "--method",
        nargs="+",
        choices=METHODS,
        default=[TrainConfig.method],
        help="how to train, one for all configs or one for each (default: ppo)",
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument(
        "--seeds", nargs="+", type=int, metavar="K", help="train each config with each of these seeds, as NAME-seedK"
    )
    mode.add_argument("--study", metavar="NAME", help="look for the best values of the keys of --search, in runs/NAME")
    parser.add_argument("--trials", type=int, metavar="N", help="runs of the study, all together (default: 20)")
    parser.add_argument(
        "--search",
        nargs="+",
        action="extend",
        metavar="KEY=RANGE",
        help="keys of the config and where to look: log:LOW:HIGH, uniform:LOW:HIGH or choice:A|B|C",
    )
    parser.add_argument(
        "--opponent", metavar="AGENT", help="strength is the gain at its table (default: the last that a run meets)"
    )
    parser.add_argument("--deals", type=int, help="of selection, to measure each trained agent on (default: 1000)")
    parser.add_argument(
        "--no-pruning",
        action="store_true",
        default=None,
        help="train every trial to its end (default: not those that fall below the median of the others)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="for figure and tables of --seeds (default: runs/NAME-seeds)"
    )
    return parser


# --- several seeds


@dataclass(frozen=True)
class SeedPlan:
    """A config and its runs, by seed."""

    config: RunConfig
    runs: dict[int, Run]


def plan_seeds(
    methods: Sequence[str], configs: Sequence[str], seeds: Sequence[int], training: Sequence[str]
) -> list[SeedPlan]:
    """The runs of each config with each seed.

    Args:
        methods: of training, one for all configs or one for each.
        configs: files.
        training: further arguments of the methods' scripts.

    Raises:
        ValueError: as `plan_run`; a seed or a config's name comes twice; or there would be no curve to draw.
    """
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"--seeds {' '.join(map(str, seeds))}: each may come once")
    if any(argument.split("=")[0] == "--seed" for argument in training):
        raise ValueError("--seed: the seeds are those of --seeds")
    if len(methods) not in (1, len(configs)):
        raise ValueError(f"--method {' '.join(methods)}: one for all configs, or one for each of the {len(configs)}")
    plans: list[SeedPlan] = []
    for number, file in enumerate(configs):
        method, arguments = methods[number % len(methods)], ["--config", file, *training]
        config = parse_run_config(METHODS[method], arguments)
        if config.name in (plan.config.name for plan in plans):
            raise ValueError(f"--config: two configs are named {config.name}; give them different names in their files")
        if not 0 < config.evaluation.every <= config.total_steps:
            raise ValueError(
                f"evaluation.every: {config.evaluation.every} gives no learning curve in {config.total_steps} plays"
            )
        runs = {
            seed: plan_run(method, [*arguments, "--name", f"{config.name}-seed{seed}", "--seed", str(seed)])
            for seed in seeds
        }
        plans.append(SeedPlan(config, runs))
    return plans


def run_seeds(plans: Sequence[SeedPlan], out: Path | None, interrupt: Interrupt) -> int:
    """Train what is not trained yet, then compare; returns the exit code."""
    from fool_env.train.seeds import SeedResults

    # Seed by seed, so that whoever interrupts can compare configs on the seeds that are there.
    train_all([plan.runs[seed] for seed in plans[0].runs for plan in plans], interrupt)
    results = []
    missing = 0
    for plan in plans:
        ladders = {seed: run.ladder() for seed, run in plan.runs.items() if run.finished}
        missing += len(plan.runs) - len(ladders)
        if ladders:
            results.append(SeedResults(plan.config.name, ladders))
    if results:
        names = "-vs-".join(plan.config.name for plan in plans)
        save_seeds(results, out or Path(plans[0].config.runs) / f"{names}-seeds")
    return INCOMPLETE if missing else 0


def train_all(runs: Sequence[Run], interrupt: Interrupt) -> None:
    """Train runs one after another, those that another process trains last; what fails is said and left.

    Raises:
        KeyboardInterrupt: an end was asked for.
    """
    waiting = list(runs)
    while waiting:
        busy = []
        for run in waiting:
            with held(run.lock) as lock:
                if lock is None:
                    busy.append(run)
                    continue
                try:
                    finish(run, lock, lambda: interrupt.requested)
                except RunError as error:
                    print(f"{_PROGRAM}: {error}", file=sys.stderr)
            if interrupt.requested:
                raise KeyboardInterrupt
        if busy == waiting:
            # Others have them all: one that is killed is ours to go on with.
            time.sleep(POLL_SECONDS)
        waiting = busy


def save_seeds(results: Sequence[SeedResults], folder: Path) -> None:
    """Write seeds.json, seeds.md and seeds.png, and print the tables."""
    from fool_env.train.seeds import EXPLANATION, RESAMPLES, compared, difference_words, draw_curves, words

    differences = compared(results)
    made_by = {"commit": source_commit(), "machine": machine(), "resamples": RESAMPLES}
    content = {**made_by, "configs": [each.to_dict() for each in results], "differences": differences}
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "seeds.json", (json.dumps(content, indent=2) + "\n").encode())
    tables = [(each.name, words(each)) for each in results]
    tables += [("Differences", difference_words(differences))] if differences else []
    page = [f"# {title}\n\n{markdown(table)}" for title, table in tables]
    write_whole(folder / "seeds.md", "\n".join([*page, EXPLANATION + "\n"]).encode())
    draw_curves(folder / "seeds.png", results)
    console = output_console()
    for title, table in tables:
        console.print(title, highlight=False)
        console.print(rich_table(table))
    console.print(EXPLANATION, highlight=False)
    console.print(f"Learning curves: {folder / 'seeds.png'}", highlight=False)


# --- a search


def run_study(options: argparse.Namespace, training: Sequence[str], interrupt: Interrupt) -> int:
    """Make or go on with a study; returns the exit code."""
    from fool_env.train.study import DEALS, Trials, open_study, plan_study
    from fool_env.train.study_report import in_words, save_study

    if not options.search:
        raise ValueError("--study needs --search: which keys, and where to look")
    trials = _TRIALS if options.trials is None else options.trials
    if trials < 1:
        raise ValueError(f"--trials {trials}: at least 1 is needed")
    if len(options.method) > 1:
        raise ValueError(f"--method {' '.join(options.method)}: a study has one")
    deals = DEALS if options.deals is None else options.deals
    (method,) = options.method
    plan = plan_study(options.study, method, options.config, options.search, options.opponent, deals, training)
    with open_study(plan, pruning=not options.no_pruning) as study:
        work = Trials(study, plan, trials, interrupt)
        while work.go_on():
            save_study(study, plan)
            if interrupt.requested:
                raise KeyboardInterrupt
        save_study(study, plan)
        for line in in_words(study, plan):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
