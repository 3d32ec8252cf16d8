"""How fast the search agents are: one command, with machine, versions and medians.

    python benchmarks/search.py            about a minute
    python benchmarks/search.py --quick    some seconds, noisier

Positions are those of rounds that `highest` plays in all seats, so as many of the beginning as of the end, and moves
without a choice among them, as in play. One core, CPU time, the median of repeats with the least and the greatest.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from environment import print_machine, show

from fool_env import FoolVectorEnv, Rules
from fool_env.agents.agent import make_agent
from fool_env.determinization import sample_worlds
from fool_env.state import copy_games

NUM_TABLES = 64
SEED = 1

# What to time, and the fewest milliseconds a decision that it should stay under, at 4, 6 and 8 players.
AGENTS = {
    "pimc:worlds=32": None,
    "pimc:worlds=128": {6: 3.0},
    "pimc:worlds=32,rollout=cautious": None,
    "ismcts:iterations=1000": None,
}


def positions(players: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Views of the seat to act at many tables, and a seed each."""
    env, bot = FoolVectorEnv(NUM_TABLES, Rules.official(players), episode="round", seed=SEED), make_agent("highest")
    views = []
    for _ in range(steps):
        views.append(copy_games(env.views))
        env.step(bot.act(views[-1], env.seeds))
    together = np.concatenate(views)
    return together, np.arange(len(together), dtype=np.uint64)


def cpu_seconds(run: Callable[[], object], repeats: int) -> list[float]:
    run()  # compiles
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return times


def bench_worlds(players: int, repeats: int) -> None:
    views, seeds = positions(players, 60)
    for count in (64, 1):
        some = range(0, len(views), 7)
        times = cpu_seconds(lambda: [sample_worlds(views[i : i + 1], seeds[i], count) for i in some], repeats)  # noqa: B023 - used at once
        per_world = [1e6 * seconds / len(some) / count for seconds in times]
        show(f"a world, {count} from each view", per_world, "us", target=2 if count == 64 else None)


def bench_rollouts(players: int, repeats: int) -> None:
    """Rollouts as `pimc` does them: worlds, copies and the first play included."""
    views, seeds = positions(players, 60)
    for rollout in ("highest", "random", "cautious"):
        agent = make_agent(f"pimc:worlds={2 if rollout == 'cautious' else 32},rollout={rollout}")
        priors = agent._priors(views)
        choices = np.isfinite(priors).sum(axis=1)
        rollouts = choices[choices > 1].sum() * agent._worlds
        times = cpu_seconds(lambda: agent._search(views, seeds, priors), repeats)  # noqa: B023 - used at once
        target = 170 if rollout == "highest" and players == 6 else None
        show(f"rollouts, {rollout}", [rollouts / seconds for seconds in times], "k/s", 1e3, target=target)
    agent = make_agent("ismcts:iterations=1000")
    iterations = 1000 * (choices > 1).sum()
    times = cpu_seconds(lambda: agent.act(views, seeds), repeats)
    target = 60 if players == 6 else None
    show("ismcts iterations", [iterations / seconds for seconds in times], "k/s", 1e3, target=target)


def bench_decisions(players: int, repeats: int) -> None:
    views, seeds = positions(players, 60)
    for name, targets in AGENTS.items():
        agent = make_agent(name)
        some = slice(0, None, 20 if "cautious" in name else 1)
        times = cpu_seconds(lambda: agent.act(views[some], seeds[some]), repeats)  # noqa: B023 - used at once
        per_move = [1e3 * seconds / len(views[some]) for seconds in times]
        show(f"a move of {name}", per_move, "ms", target=(targets or {}).get(players))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the search agents' speed on one core.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, 6 players only")
    quick = parser.parse_args().quick
    print_machine()
    for players in (6,) if quick else (6, 4, 8):
        print(f"\n{players} players")
        repeats = 3 if quick else 5
        bench_worlds(players, repeats)
        bench_rollouts(players, repeats)
        bench_decisions(players, repeats)


if __name__ == "__main__":
    main()
