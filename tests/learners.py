"""Small learners and tables for the tests of training."""

from __future__ import annotations

import torch as th
from stable_baselines3.common.type_aliases import Schedule

from fool_env import FoolVectorEnv, Rules
from fool_env.train.montecarlo import DeepMonteCarlo, QNetwork
from fool_env.train.networks import SelfPlayPolicy, Trunk
from fool_env.train.selfplay import SelfPlayPPO
from fool_env.train.vec_env import SelfPlayVecEnv


def make_learner(native, hidden=(32,), seed=0, kind="mlp", critic="view", **options) -> SelfPlayPPO:
    policy = {
        "features_extractor_class": Trunk,
        "features_extractor_kwargs": {"kind": kind, "hidden": list(hidden)},
        "critic": critic,
        "net_arch": [],
        "optimizer_kwargs": {"eps": 1e-5, "fused": True},
    }
    settings = {"n_steps": 16, "batch_size": 512, "precision": "float32", **options}
    return SelfPlayPPO(SelfPlayPolicy, SelfPlayVecEnv(native), policy_kwargs=policy, seed=seed, **settings)


def make_q_learner(native, hidden=(32,), seed=0, kind="mlp", sees_hands=False, **options) -> DeepMonteCarlo:
    th.manual_seed(seed)
    sizes = native.observations.shape[1], native.masks.shape[1]
    settings = {"learning_rate": constant(1e-3), "epsilon": constant(0.1), "steps": 16, "minibatch": 512, **options}
    policy = QNetwork(*sizes, kind, list(hidden), sees_hands)
    return DeepMonteCarlo(policy, native, precision="float32", seed=seed, **settings)


def constant(value: float) -> Schedule:
    return lambda progress_remaining: value


def fool_tables(num_players=4, num_tables=8, reward="points", **options) -> FoolVectorEnv:
    return FoolVectorEnv(num_tables, Rules.official(num_players), "round", reward, seed=3, **options)
