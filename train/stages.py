"""What a run plays, single rounds and then whole games, and the checkpoint whose weights it starts from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import numpy as np
import torch as th

from fool_env import FoolVectorEnv
from fool_env.agents.arena import TRAINING
from fool_env.agents.network import PolicyNetwork, policy_tensors, without_totals
from fool_env.agents.neural import CheckpointError, read_description, read_weights
from fool_env.agents.scripted import HighestAgent
from fool_env.rng import derive
from fool_env.train.checkpoint import Learner
from fool_env.train.config import RunConfig, Stage

SPREAD: Final = 2000
"""Plays by which tables are played apart, some three games: later ones then end at all times."""


def make_tables(config: RunConfig, steps: int = 0) -> FoolVectorEnv:
    """The tables of a run after so many plays, with deals that no evaluation deals.

    Games that all begin together would all end together: the first rollouts would pay nobody, later ones show one time
    of a game alone. So they are played apart, by `highest`, before anybody learns.
    """
    table, stage = config.table, config.stage_at(steps)
    seed = int(derive(np.uint64(config.seed), TRAINING))
    tables = FoolVectorEnv(table.num_tables, table.make_rules(), stage.episode, stage.reward, seed=seed)
    if stage.episode == "game":
        bot = HighestAgent()
        for _ in range(SPREAD):
            tables.step(bot.act(tables.views, tables.seeds))
    return tables


def change_stage(config: RunConfig, model: Learner, steps: int) -> str:
    """Put a learner at the tables that the run has after so many plays; returns what there is to say.

    Its values begin anew: those of points would be taken for chances to win, and all advantages be wrong until they
    are unlearnt. Values that are the same everywhere leave credit to what is paid, and are right on the average.
    """
    stage = config.stage_at(steps)
    model.change_tables(make_tables(config, steps), stage.reward_scale)
    model.start_values(_mean_value(config, stage))
    return f"{steps:,} steps: from here on {stage}; values begin anew"


def _mean_value(config: RunConfig, stage: Stage) -> float:
    """What a seat gets on the average."""
    return stage.reward_scale / config.table.make_rules().num_players if stage.reward == "win" else 0.0


def read_init(config: RunConfig) -> tuple[dict[str, Any], dict[str, th.Tensor]]:
    """What the checkpoint that a run starts from says of itself, and its weights.

    Raises:
        CheckpointError: it is none, of another network, or trained on whole games where the run plays single rounds.
    """
    path, network = str(config.init), config.network
    description, weights = read_description(path), read_weights(path)
    try:
        PolicyNetwork.from_policy(network.kind, network.hidden, weights)
    except (RuntimeError, AttributeError, TypeError):
        raise CheckpointError(
            f"init: {path} holds a network {description.get('network')}, and this run trains {asdict(network)}"
        ) from None
    if description.get("episode") == "game" and config.stage_at(0).episode == "round":
        raise CheckpointError(f"init: {path} was trained on whole games, and this run begins with single rounds")
    return description, weights


def start_from(config: RunConfig, model: Learner) -> str:
    """Give a new learner the weights of `config.init`; its optimizer is fresh. Returns what there is to say.

    Values are taken over if they are of such a critic, and have been learnt for the same episodes and reward.

    Raises:
        CheckpointError: as `read_init`.
    """
    description, weights = read_init(config)
    stage = config.stage_at(0)
    policy = policy_tensors(weights)
    if description.get("episode") == "round":
        policy = {name: without_totals(tensor) for name, tensor in policy.items()}
    rest = {name: tensor for name, tensor in model.policy.state_dict().items() if name.startswith("value_net.")}
    same = tuple(description.get(name) for name in Stage._fields) == stage
    if same and all(name in weights and weights[name].shape == tensor.shape for name, tensor in rest.items()):
        model.load_weights({**policy, **{name: weights[name] for name in rest}})
        what = "policy and values"
    else:
        model.load_weights(policy)
        model.start_values(_mean_value(config, stage))
        what = "policy alone, not from the values,"
    return f"starts from the {what} of {config.init} ({description.get('steps', 0):,} steps)"
