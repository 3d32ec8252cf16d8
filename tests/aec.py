"""What the tests of the AEC env share: steps, a game under way, and all that an env shows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from pettingzoo import AECEnv

from fool_env import fool_v0

MAKERS = [fool_v0.env, fool_v0.raw_env]
OFFICIAL = range(4, 9)


def step_at_random(env: AECEnv, rng: random.Random) -> None:
    """A legal card, or None for an agent whose episode is over."""
    observation, _, terminated, truncated, _ = env.last()
    legal = np.flatnonzero(observation["action_mask"])
    env.step(None if terminated or truncated else int(rng.choice(legal)))


def midgame(make: Callable[..., AECEnv] = fool_v0.env, seed: int = 0, steps: int = 40, **kwargs: Any) -> AECEnv:
    env = make(**kwargs)
    env.reset(seed=seed)
    rng = random.Random(seed)
    for _ in range(steps):
        step_at_random(env, rng)
    return env


def snapshot(env: AECEnv) -> tuple[object, ...]:
    """All that an env shows: to every agent, and as a whole."""
    raw = env.unwrapped
    observations = [
        (observed["observation"].tobytes(), observed["action_mask"].tobytes())
        for observed in map(env.observe, env.possible_agents)
    ]
    infos = {agent: info["action_mask"].tobytes() for agent, info in env.infos.items()}
    ends = (dict(env.terminations), dict(env.truncations), list(env.agents), env.agent_selection)
    payments = (dict(env.rewards), dict(raw._cumulative_rewards))
    return observations, infos, *ends, *payments, env.state().tobytes(), raw.game.to_bytes()


def play_on(env: AECEnv, seed: int) -> list[tuple[object, ...]]:
    """Play to the end and past it, and all that was shown on the way."""
    rng = random.Random(seed)
    shown = []
    while env.agents:
        step_at_random(env, rng)
        shown.append((*snapshot(env), env.render() if env.unwrapped.render_mode == "ansi" else None))
    return shown
