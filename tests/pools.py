"""Learners with a pool of opponents, and a log of what happens at their tables."""

from __future__ import annotations

import numpy as np
from learners import fool_tables, make_learner

from fool_env.agents.agent import make_agent
from fool_env.agents.neural import NeuralAgent
from fool_env.train.config import PoolConfig
from fool_env.train.pool import Pool
from fool_env.train.selfplay import SelfPlayPPO

BOTS = ("highest", "lowest")


def make_pool_learner(native=None, members=BOTS, share=0.5, every=0, size=3, sampling="uniform", **options):
    """A learner at tables of which some are a pool's; members are agents or their names."""
    native = fool_tables(4, 40) if native is None else native
    learner = make_learner(native, **{"n_steps": 24, **options})
    agents = [make_agent(member) if isinstance(member, str) else member for member in members]

    def freeze() -> NeuralAgent:
        return NeuralAgent(learner.policy_network(), list(dict.fromkeys(native.rules)))

    learner.pool = Pool(native, PoolConfig(share, every, size, sampling), 7, agents, freeze)
    return learner


class Log:
    """What happens at the tables of a learner, play by play."""

    def __init__(self, learner: SelfPlayPPO) -> None:
        self.pool, self.native = learner.pool, learner.tables
        self.plays: list[dict] = []
        step = self.native.step

        def record(actions: np.ndarray) -> None:
            before = {
                "views": self.native.views,
                "masks": self.native.masks.copy(),
                "players": self.native.players.copy(),
                "occupants": self.pool.occupants.copy(),
                "actions": actions.copy(),
                "rows": learner.rollout_buffer.rows[learner.rollout_buffer._step].copy(),
            }
            step(actions)
            after = {"rewards": self.native.rewards.copy(), "dones": self.native.dones.copy()}
            self.plays.append(before | after)

        self.native.step = record


def play(learner: SelfPlayPPO, iterations: int) -> Log:
    log = Log(learner)
    steps = learner.num_timesteps + iterations * learner.n_steps * learner.tables.num_tables
    for _ in learner.iterations(steps - learner.num_timesteps, reset_num_timesteps=False):
        pass
    return log
