"""How much can a single player gain at a table of an agent by playing best against it? At least what training finds.

    python train/best_response.py --against runs/6p/final.zip
    python train/best_response.py --against cautious --players 6 --steps 20_000_000 --seeds 0 1 2
    python train/best_response.py --compare runs/against-A/best_response.json runs/against-B/best_response.json

One seat learns by PPO, from scratch, while the frozen agent holds all others. What the trained network then gains over
the agent's own points, at the same seats and on deals that nobody has trained on, is a **lower bound on the agent's
exploitability by a single deviator**: a better response may gain more. Larger is worse for the agent, and only gains
of equal budgets can be compared. Every other option is one of `train/ppo.py`.

Each seed is a run in a folder of its own, as `train/ppo.py` leaves it; best_response.json beside them has the results.
The same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from fool_env import Rules
from fool_env.agents.agent import AnyAgent, make_agent
from fool_env.agents.arena import Terms, gains_by_deal
from fool_env.agents.intervals import mean_interval
from fool_env.train.checkpoint import write_whole
from fool_env.train.command import Bars, Parser, common_rules, output_console, refuse, run_script
from fool_env.train.config import parse_config
from fool_env.train.pool import make_member
from fool_env.train.provenance import source_commit
from fool_env.train.run import Interrupt, check_agents
from fool_env.train.run_process import Run, RunError, finish, held, plan_run
from fool_env.train.standings import Words, plus_minus, rich_table

FAILED: Final = 1
RESULTS: Final = "best_response.json"
MEANING: Final = (
    "gain: points a round of a lone best response minus the agent's own at that seat and deal, a lower bound on the "
    "agent's exploitability by a single deviator: larger is worse for the agent. Behind ±, half of a 95% confidence "
    "interval over deals; other seeds, or more plays, may find a better response."
)
_PROGRAM: Final = "fool-best-response"
_STEPS: Final = 10_000_000
_MINIBATCH: Final = 1024  # a fifth of the decisions of self-play come together in a rollout
_RESERVED: Final = {
    "seed": "the seeds are those of --seeds",
    "total_steps": "the plays of each run are those of --steps",
    "pool": "the agent is the only opponent",
    "resume": "the same command goes on where it was interrupted",
}
_BUDGET: Final = ("rules", "steps", "deals", "deal_seed")


@dataclass(frozen=True)
class Plan:
    """Best responses to train and to measure.

    Attributes:
        against: the agent.
        rules: of the tables.
        folder: of all runs and their results.
        runs: by seed.
        terms: on which each is measured.
    """

    against: AnyAgent
    rules: Rules
    folder: Path
    runs: dict[int, Run]
    terms: Terms


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 1 if a run failed, 2 for bad input, 130 if interrupted."""
    try:
        return run_script(_PROGRAM, lambda: _run(argv))
    except RunError as error:
        refuse(_PROGRAM, error)
        return FAILED


def _run(argv: Sequence[str] | None) -> int:
    options, training = _parser().parse_known_args(argv)
    if options.compare is not None:
        show_difference(*(read_results(path) for path in options.compare))
        return 0
    with Interrupt() as interrupt:
        run_plan(make_plan(options, training), interrupt)
    return 0


# --- the command line


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_PROGRAM,
        description="Train one seat against an agent in all others, and measure what it gains over the agent's own "
        "points: a lower bound on the agent's exploitability by a single deviator.",
        epilog="All other options are those of fool-train, for every run.",
        allow_abbrev=False,
    )
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--against", metavar="AGENT", help="who holds the other seats: any agent, or a checkpoint's path")
    task.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar="FILE",
        help=f"show the difference between two agents, from the {RESULTS} of equal budgets",
    )
    parser.add_argument("--players", type=int, metavar="N", help="4 to 8, official rules (default: those it learnt)")
    parser.add_argument("--steps", type=int, default=_STEPS, help=f"plays of each run (default: {_STEPS:,})")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0], metavar="K", help="a run with each of these seeds (default: 0)"
    )
    parser.add_argument(
        "--deals", type=int, default=2000, help="deals to measure on, each played in every seat (default: 2000)"
    )
    parser.add_argument("--deal-seed", type=int, default=0, metavar="S", help="of these deals (default: 0)")
    parser.add_argument("--name", help="the folder within runs (default: against-AGENT)")
    return parser


def make_plan(options: argparse.Namespace, training: Sequence[str]) -> Plan:
    """What the options ask for.

    Args:
        options: of the command line.
        training: further arguments, those of `train/ppo.py`.

    Raises:
        ValueError, OSError: an option is wrong, the agent cannot be had, or a run's folder holds another run.
    """
    for argument in training:
        key = argument.removeprefix("--").split("=")[0].split(".")[0]
        if argument.startswith("--") and key in _RESERVED:
            raise ValueError(f"{argument.split('=')[0]}: {_RESERVED[key]}")
    if len(set(options.seeds)) < len(options.seeds):
        raise ValueError(f"--seeds {' '.join(map(str, options.seeds))}: each may come once")
    agent = make_member(options.against)
    arguments = [f"--ppo.minibatch={_MINIBATCH}", *_table_arguments(agent, options.players, training), *training]
    config = parse_config(arguments)
    check_agents("--against", lambda _: [agent], agent.name, config)
    rules = config.table.make_rules()
    if len(rules) > 1:
        raise ValueError(f"table.num_players: {config.table.num_players}: gains are measured at tables of one size")
    folder = Path(config.runs) / (options.name or f"against-{re.sub(r'[^A-Za-z0-9.]+', '-', agent.name).strip('-')}")
    others = json.dumps([agent.name])
    arguments += ["--pool.share=1", "--pool.every=0", f"--pool.members={others}", f"--total_steps={options.steps}"]
    # The report of each run is no more than its progress: all are measured together in the end.
    arguments += [f"--evaluation.opponents={others}", f"--evaluation.final_deals={config.evaluation.deals}"]
    arguments += ["--evaluation.final_games=0", f"--runs={folder}"]
    runs = {seed: plan_run("ppo", [*arguments, f"--seed={seed}", f"--name=seed{seed}"]) for seed in options.seeds}
    terms = Terms(deals=options.deals, seed=options.deal_seed)
    return Plan(agent, rules[0], folder, runs, terms)


def _table_arguments(agent: AnyAgent, players: int | None, training: Sequence[str]) -> list[str]:
    """Where the agent plays, unless the training's own arguments say so."""
    if players is None and any(argument.startswith(("--config", "--table.")) for argument in training):
        return []
    rules = common_rules([agent], players)
    arguments = [f"--table.num_players={rules.num_players}"]
    if not 4 <= rules.num_players <= 8 or rules != Rules.official(rules.num_players):
        arguments.append(f"--table.rules={json.dumps(rules.to_dict())}")
    return arguments


# --- the work


def run_plan(plan: Plan, interrupt: Interrupt) -> None:
    """Train what is not trained yet, measure, write the results and show them.

    Raises:
        RunError: a run ended with an error.
        ValueError: another process trains one of the runs.
        KeyboardInterrupt: an end was asked for.
    """
    for run in plan.runs.values():
        with held(run.lock) as lock:
            if lock is None:
                raise ValueError(f"{run.folder} is being trained by another process")
            try:
                finished = finish(run, lock, lambda: interrupt.requested)
            except RunError:
                if not interrupt.requested:  # else it was told to end before it could listen
                    raise
                finished = False
            if not finished:
                raise KeyboardInterrupt
    gains = []
    with Bars() as bars:
        for seed, run in plan.runs.items():
            gains.append(_measure(plan, run, partial(bars.show, f"measuring seed {seed}"), interrupt))
    results = describe(plan, np.array(gains))
    write_whole(plan.folder / RESULTS, (json.dumps(results, indent=2) + "\n").encode())
    show_results(results)


def _measure(plan: Plan, run: Run, show: Any, interrupt: Interrupt) -> np.ndarray:
    """The gain of a run's network in each deal: float64 (deals,)."""

    def progress(done: float, total: int) -> None:
        show(done, total)
        if interrupt.requested:
            raise KeyboardInterrupt

    return gains_by_deal(make_agent(str(run.final)), plan.against, plan.rules, plan.terms, progress=progress)


def describe(plan: Plan, gains: np.ndarray) -> dict[str, Any]:
    """What best_response.json holds.

    Args:
        plan: what was asked for.
        gains: float64 (seeds, deals).
    """
    by_deal = gains.mean(axis=0)
    mean, interval = mean_interval(by_deal)
    by_seed = []
    for (seed, run), own in zip(plan.runs.items(), gains, strict=True):
        gain, gain_ci = mean_interval(own)
        by_seed.append({"seed": seed, "checkpoint": str(run.final), "gain": gain, "gain_ci": gain_ci})
    return {
        "against": plan.against.name,
        "meaning": MEANING,
        "players": plan.rules.num_players,
        "rules": plan.rules.to_dict(),
        "steps": next(iter(plan.runs.values())).config.total_steps,
        "deals": plan.terms.deals,
        "deal_seed": plan.terms.seed,
        "gain": mean,
        "gain_ci": interval,
        "by_seed": by_seed,
        "commit": source_commit(),
        "gain_by_deal": by_deal.tolist(),  # mean over seeds; pairs with that of another agent
    }


# --- the results


def show_results(results: dict[str, Any]) -> None:
    """Print each seed's gain, and their mean."""
    rows = [[f"seed {one['seed']}", plus_minus((one["gain"], one["gain_ci"]), "+.2f")] for one in results["by_seed"]]
    rows += [["mean", plus_minus((results["gain"], results["gain_ci"]), "+.2f")]] if len(rows) > 1 else []
    heading = (
        f"Best responses to {results['against']} at tables of {results['players']}: {results['steps']:,} plays each; "
        f"{results['deals']:,} deals of seed {results['deal_seed']}"
    )
    _show(heading, (["best response", "gain"], rows))


def show_difference(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Print how much more can be gained against one agent than against another.

    Raises:
        ValueError: their best responses had different budgets, or were measured on different deals.
    """
    for key, mine, theirs in [
        *((key, one[key], other[key]) for key in _BUDGET),
        ("seeds", len(one["by_seed"]), len(other["by_seed"])),
    ]:
        if mine != theirs:
            raise ValueError(f"--compare: {key} differ ({mine} and {theirs}), so the gains cannot be compared")
    difference = mean_interval(np.array(one["gain_by_deal"]) - np.array(other["gain_by_deal"]))
    rows = [[each["against"], plus_minus((each["gain"], each["gain_ci"]), "+.2f")] for each in (one, other)]
    rows.append(["difference, deal by deal", plus_minus(difference, "+.2f")])
    seeds = f"{len(one['by_seed'])} seed{'s' * (len(one['by_seed']) > 1)}"
    _show(f"Best responses of {one['steps']:,} plays, mean of {seeds} each", (["against", "gain"], rows))


def read_results(path: Path) -> dict[str, Any]:
    """What a best_response.json holds.

    Raises:
        ValueError, OSError: it cannot be read, or is something else.
    """
    try:
        results: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is no {RESULTS}: {error}") from None
    if not isinstance(results, dict) or "gain_by_deal" not in results:
        raise ValueError(f"{path} is no {RESULTS}: it has no gain_by_deal")
    return results


def _show(heading: str, words: Words) -> None:
    console = output_console()
    console.print(heading, highlight=False)
    console.print(rich_table(words))
    console.print(MEANING, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
