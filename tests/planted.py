"""Agents of a strength that is known beforehand."""

from __future__ import annotations

import numpy as np

from fool_env.agents.agent import make_agent

HIGHEST, RANDOM = make_agent("highest"), make_agent("random")


class Blend:
    """Plays the highest card with a given probability, else any: planted strengths."""

    def __init__(self, skill: float) -> None:
        self.name = f"blend {skill:.0%}"
        self._skill = skill

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        skilled = (seeds >> np.uint64(40)) < self._skill * 2**24
        return np.where(skilled, HIGHEST.act(views, seeds), RANDOM.act(views, ~seeds))
