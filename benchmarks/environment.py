"""How fast the environment is: one command, with machine, versions and medians.

    python benchmarks/environment.py            about two minutes
    python benchmarks/environment.py --quick    about half a minute, noisier

Each figure is the median of repeats, the least and the greatest beside it; what is compared is measured in turns in the
same run. Everything runs on one core, and time is CPU time, so that a neighbour who takes the core is not counted. One
who shares its caches still is: the targets are for an idle machine, and the load is printed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from fool_env import FoolVectorEnv, Game, Rules, fool_v0
from fool_env._jit import kernel
from fool_env.cards import NUM_ACTIONS, WILD
from fool_env.engine import action_bits, legal_hand, next_round, play, start_game
from fool_env.observation import OBSERVATION_SIZE
from fool_env.rng import advance, below, output

NUM_TABLES = 256
MANY_TABLES = 65_536
PLAYERS = 6

# --- a random legal choice, which counts in the figures: a set of actions as bits, of which one is drawn

_1, _2, _4, _8, _56 = (np.uint64(number) for number in (1, 2, 4, 8, 56))
_GATHER = np.uint64(0x0102040810204080)  # times eight bytes of 0 or 1: these as the eight bits of the highest byte
_PAIRS, _QUADS, _BYTES = (np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F))
_ONES = np.uint64(0x0101010101010101)
_HIGH_ACTIONS = NUM_ACTIONS - 64
_HIGH_BYTES = 64 + _HIGH_ACTIONS // 8 * 8


@kernel
def count_bits(bits):
    bits = bits - ((bits >> _1) & _PAIRS)
    bits = (bits & _QUADS) + ((bits >> _2) & _QUADS)
    bits = (bits + (bits >> _4)) & _BYTES
    return np.int64((bits * _ONES) >> _56)


@kernel
def draw(low, high, random_bits):
    """One of the actions in a set (bits 0-63 and 64-82), each as likely."""
    num_low = count_bits(low)
    which = below(random_bits, num_low + count_bits(high))
    bits, first = low, 0
    if which >= num_low:
        bits, first, which = high, 64, which - num_low
    for _ in range(which):
        bits &= bits - _1
    return first + count_bits((bits & (~bits + _1)) - _1)


@kernel
def eight_flags(mask, start):
    """Eight flags of a mask as the bits of a number."""
    flags = np.uint64(0)
    for i in range(8):
        flags |= np.uint64(mask[start + i]) << np.uint64(8 * i)
    return (flags * _GATHER) >> _56


@kernel
def choose(masks, state, actions):
    """Fill `actions` with a random legal action of each row of uint8[T, 83]; the generator's next state."""
    for table in range(len(masks)):
        mask = masks[table]
        low, high = np.uint64(0), np.uint64(0)
        for start in range(0, 64, 8):
            low |= eight_flags(mask, start) << np.uint64(start)
        for start in range(64, _HIGH_BYTES, 8):
            high |= eight_flags(mask, start) << np.uint64(start - 64)
        for action in range(_HIGH_BYTES, NUM_ACTIONS):
            high |= np.uint64(mask[action]) << np.uint64(action - 64)
        state = advance(state)
        actions[table] = draw(low, high, output(state))
    return state


@kernel
def play_out(games, num_plays, state):
    """Bare plays: no mask, no observation; a random legal card at each table in turn."""
    for _ in range(num_plays):
        for table in range(len(games)):
            game = games[table]
            low, high = action_bits(legal_hand(game, 0), legal_hand(game, 1), legal_hand(game, 2), legal_hand(game, 3))
            if game.ones[game.player] > 0:
                high |= _1 << np.uint64(WILD - 64)
            state = advance(state)
            play(game, draw(low, high, output(state)))
            if game.game_over:
                start_game(game, output(state))
            elif game.round_over:
                next_round(game)
    return state


# --- measuring and printing


def rate(run: Callable[[], int]) -> float:
    """Steps per second of CPU time of one run, which says how many steps it made."""
    start = time.process_time()
    steps = run()
    return steps / (time.process_time() - start)


def measure(repeats: int, *runs: Callable[[], int]) -> list[list[float]]:
    """The rates of several runs, taken in turns so that they meet the same neighbours; one turn of each warms up."""
    for run in runs:
        run()
    turns = [[rate(run) for run in runs] for _ in range(repeats)]
    return [list(rates) for rates in zip(*turns, strict=True)]


def show(what: str, values: list[float], unit: str, scale: float = 1.0, target: float | None = None) -> None:
    scaled = sorted(value / scale for value in values)
    line = f"  {what:<46}{statistics.median(scaled):9.2f} {unit:<10}({scaled[0]:.2f} to {scaled[-1]:.2f})"
    if target is not None:
        line += f"  target {target:g}"
    print(line, flush=True)


def print_machine() -> None:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        cpu = models[0].partition(":")[2].strip() if models else cpu
    print(f"{cpu}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}")
    packages = ("fool-env", "numpy", "numba", "gymnasium", "pettingzoo")
    print(f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages))
    if hasattr(os, "getloadavg"):
        print(f"load average before the start: {os.getloadavg()[0]:.1f} (the targets are for an idle machine)")
    print(f"K = {OBSERVATION_SIZE} floats an observation, {NUM_ACTIONS} actions")


# --- the vector env


class VectorRun:
    """Random legal choice + step + mask + observation, the same env going on from run to run."""

    def __init__(self, num_tables: int, num_players: int, steps: int) -> None:
        self.env = FoolVectorEnv(num_tables, Rules.official(num_players))
        self.masks = self.env.masks.view(np.uint8)
        self.actions = np.zeros(num_tables, np.int64)
        self.state = np.uint64(1)
        self.steps = max(1, steps // num_tables)
        for _ in range(100):  # from the first trick, in which all tables start, to all kinds of positions
            self.step()

    def step(self) -> None:
        """Choose and play at every table."""
        self.state = np.uint64(choose(self.masks, self.state, self.actions))
        self.env.step(self.actions)

    def __call__(self) -> int:
        """Many steps; how many plays these were."""
        for _ in range(self.steps):
            self.step()
        return self.steps * self.env.num_tables


def bench_vector(repeats: int, steps: int) -> None:
    print(f"\nVector env, {PLAYERS} players, one core: random legal choice + step + mask + float32 observation")
    few, many = VectorRun(NUM_TABLES, PLAYERS, steps), VectorRun(MANY_TABLES, PLAYERS, steps)
    rates, many_rates = measure(repeats, few, many)
    env = few.env
    written = sum(array.nbytes for array in (env.observations, env.masks, env.players, env.rewards, env.dones))
    show(f"{NUM_TABLES} tables", rates, "M steps/s", 1e6, target=4)
    show("  written", [value * written / env.num_tables for value in rates], "GB/s", 1e9)
    show(f"{MANY_TABLES:,} tables", many_rates, "M steps/s", 1e6)
    ratios = [a / b for a, b in zip(rates, many_rates, strict=True)]
    show(f"cost of a step, {MANY_TABLES:,} tables / {NUM_TABLES}", ratios, "times", target=1.3)
    four, eight = measure(repeats, VectorRun(NUM_TABLES, 4, steps), VectorRun(NUM_TABLES, 8, steps))
    show("cost of a step, 8 players / 4", [a / b for a, b in zip(four, eight, strict=True)], "times", target=1.3)


def bench_bare(repeats: int, steps: int) -> None:
    print(f"\nBare plays, {PLAYERS} players, one core: random legal choice + play, no mask, no observation")
    games = FoolVectorEnv(NUM_TABLES, Rules.official(PLAYERS)).games
    plays = max(1, steps // NUM_TABLES)

    def run() -> int:
        play_out(games, plays, np.uint64(7))
        return plays * NUM_TABLES

    show("plays", measure(repeats, run)[0], "M plays/s", 1e6, target=8)


# --- Fool-v0, one seat of the table


class LearnerRun:
    """Random legal cards of one seat at every table, and what the others play until its next turn."""

    def __init__(self, opponents: str, copy: bool, steps: int) -> None:
        kwargs = {"num_players": PLAYERS, "opponents": opponents, "copy": copy}
        self.env = gymnasium.make_vec("fool_env:Fool-v0", NUM_TABLES, vectorization_mode="vector_entry_point", **kwargs)
        self.masks = self.env.reset(seed=0)[1]["action_mask"]
        self.actions = np.zeros(NUM_TABLES, np.int64)
        self.state = np.uint64(1)
        self.steps = max(1, steps // NUM_TABLES)

    def __call__(self) -> int:
        """Many steps; how many decisions of the learners these were."""
        for _ in range(self.steps):
            self.state = np.uint64(choose(self.masks.view(np.uint8), self.state, self.actions))
            self.masks = self.env.step(self.actions)[-1]["action_mask"]
        return self.steps * NUM_TABLES


def bench_learner(repeats: int, steps: int) -> None:
    print(f"\nFool-v0 made by make_vec, {NUM_TABLES} tables of {PLAYERS}, one core: a learner's random decisions")
    runs = [
        LearnerRun("highest", False, steps),
        LearnerRun("highest", True, steps),
        LearnerRun("cautious", False, steps),
    ]
    fast, copied, cautious = measure(repeats, *runs)
    show("among highest, copy=False", fast, "M decisions/s", 1e6, target=1)
    show("among highest", copied, "M decisions/s", 1e6)
    show("among cautious, copy=False", cautious, "M decisions/s", 1e6)


# --- memory

MEMORY = f"""
import json
from pathlib import Path
from fool_env import FoolVectorEnv, Rules

def resident(which):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))

def first_legal(env):
    return env.masks.argmax(axis=1)

small = FoolVectorEnv(1, Rules.official({PLAYERS}))
small.step(first_legal(small))
before = resident("VmRSS")
env = FoolVectorEnv({MANY_TABLES}, Rules.official({PLAYERS}))
for _ in range(3):
    env.step(first_legal(env))
views = env.views
print(json.dumps([before, resident("VmHWM"), env.observations.nbytes]))
"""


def bench_memory() -> None:
    print(f"\nMemory of a process with {MANY_TABLES:,} tables, and a copy of their views")
    if not Path("/proc/self/status").exists():
        print("  not measured: this system has no /proc")
        return
    before, peak, observations = in_new_process(MEMORY)
    show("resident at its peak", [peak], "MiB", 2**20, target=1024)
    show("  of which before the tables were made", [before], "MiB", 2**20)
    show("  of which observations", [observations], "MiB", 2**20)


def in_new_process(code: str, **environment: str) -> Any:
    """Run code in a fresh interpreter, and return what it prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the measured process failed:\n{done.stderr}")
    return json.loads(done.stdout)


# --- Game from Python


def game_run(steps: int, observe: bool) -> Callable[[], int]:
    numbers = [random.Random(0).randrange(2**30) for _ in range(steps)]

    def run() -> int:
        game = Game(Rules.official(PLAYERS), seed=0)
        for number in numbers:
            legal = game.legal_actions()
            if not legal:
                if game.game_over:
                    game = Game(Rules.official(PLAYERS), seed=number)
                else:
                    game.next_round()
                legal = game.legal_actions()
            if observe:
                assert game.player is not None
                game.observation(game.player)
                game.action_mask()
            game.play(legal[number % len(legal)])
        return steps

    return run


def bench_game(repeats: int, steps: int) -> None:
    print(f"\nGame from Python, {PLAYERS} players: legal_actions() + play(), deals included")
    bare, observed = measure(repeats, game_run(steps, observe=False), game_run(steps, observe=True))
    show("Game", bare, "k steps/s", 1e3, target=200)
    show("Game with observation and mask", observed, "k steps/s", 1e3, target=130)


# --- the AEC env


def aec_run(env: Any, steps: int, shares: dict[str, float] | None = None) -> Callable[[], int]:
    """The usual loop, `last()` and a masked sample; seconds spent in each call are added to `shares`."""
    env.reset(seed=0)
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(i)

    def run() -> int:
        for _ in range(steps):
            observation, _, terminated, truncated, _ = env.last()
            over = terminated or truncated
            action = None if over else env.action_space(env.agent_selection).sample(observation["action_mask"])
            env.step(action)
            if not env.agents:
                env.reset()
        return steps

    def run_and_time() -> int:
        clock = time.process_time
        for _ in range(steps):
            start = clock()
            observation, _, terminated, truncated, _ = env.last()
            seen = clock()
            over = terminated or truncated
            action = None if over else env.action_space(env.agent_selection).sample(observation["action_mask"])
            chosen = clock()
            env.step(action)
            stepped = clock()
            for call, seconds in (("last()", seen - start), ("sample", chosen - seen), ("step()", stepped - chosen)):
                shares[call] += seconds
            if not env.agents:
                env.reset()
        return steps

    return run if shares is None else run_and_time


def bench_aec(repeats: int, steps: int) -> None:
    print(f"\nPettingZoo AEC, {PLAYERS} players: last() + masked sample + step()")
    raw, wrapped = measure(repeats, aec_run(fool_v0.raw_env(), steps), aec_run(fool_v0.env(), steps))
    show("raw_env", raw, "k steps/s", 1e3, target=50)
    show("env", wrapped, "k steps/s", 1e3, target=20)
    for name, env in (("raw_env", fool_v0.raw_env()), ("env", fool_v0.env())):
        shares = dict.fromkeys(("last()", "sample", "step()"), 0.0)
        aec_run(env, steps, shares)()
        total = sum(shares.values())
        times = ", ".join(f"{call} {1e6 * s / steps:.1f} us ({s / total:.0%})" for call, s in shares.items())
        print(f"  where the time goes in {name}: {times}")
    for name in ("tictactoe_v3", "leduc_holdem_v4"):
        try:
            other = importlib.import_module(f"pettingzoo.classic.{name}")
        except ImportError:
            print(f"  PettingZoo's {name}: not installed (pip install 'pettingzoo[classic]')")
            continue
        their_raw, theirs = measure(repeats, aec_run(other.raw_env(), steps), aec_run(other.env(), steps))
        show(f"PettingZoo's {name}, raw_env", their_raw, "k steps/s", 1e3)
        show(f"PettingZoo's {name}, env", theirs, "k steps/s", 1e3)


# --- compilation and start

START = f"""
import json, time

def now():
    return time.process_time(), time.perf_counter()

times = [(0.0, time.perf_counter())]  # CPU time counts from the start of the process
from fool_env import FoolVectorEnv, Rules, fool_v0
times.append(now())
vector = FoolVectorEnv({NUM_TABLES}, Rules.official({PLAYERS}))
vector.step(vector.masks.argmax(axis=1))
times.append(now())
aec = fool_v0.env(num_players={PLAYERS})
aec.reset(seed=0)
aec.step(int(aec.last()[0]["action_mask"].argmax()))
times.append(now())
print(json.dumps(times))
"""


def bench_start(repeats: int) -> None:
    print("\nStart of a process: import, make a vector env and its first step, make an AEC env and its first step")
    with tempfile.TemporaryDirectory() as empty:
        cold = np.array([in_new_process(START, NUMBA_CACHE_DIR=empty)])
        warm = np.array([in_new_process(START, NUMBA_CACHE_DIR=empty) for _ in range(repeats)])
    for i, clock in enumerate(("CPU", "wall")):
        for what, times, target in (("empty cache: compilation", cold, 15), ("later processes", warm, 1.5)):
            show(f"{what}, {clock}", list(times[:, -1, i] - times[:, 0, i]), "s", target=target)
    for i, part in enumerate(("import", "vector env", "AEC env"), start=1):
        show(f"  {part}, CPU", list(warm[:, i, 0] - warm[:, i - 1, 0]), "s")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the environment's speed on one core.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repeats")
    quick = parser.parse_args().quick
    repeats, steps = (3, 500_000) if quick else (7, 2_000_000)
    print_machine()
    bench_vector(repeats, steps)
    bench_bare(repeats, steps)
    bench_learner(repeats, steps // 4)
    bench_memory()
    bench_game(repeats, steps // 50)
    bench_aec(repeats, steps // 200)
    bench_start(repeats)


if __name__ == "__main__":
    main()
