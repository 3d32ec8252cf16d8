"""What a run plays when, single rounds or whole games, and the weights that it starts from."""

from __future__ import annotations

from dataclasses import asdict
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch as th
from torch import nn

from fool_env import FoolVectorEnv
from fool_env.agents.arena import TRAINING
from fool_env.agents.network import PolicyNetwork, start_without_totals
from fool_env.agents.neural import CheckpointError, read_description, read_weights
from fool_env.agents.scripted import HighestAgent
from fool_env.rng import derive
from fool_env.train.config import RunConfig, TrainConfig
from fool_env.train.distributed import Ranks
from fool_env.train.selfplay import SelfPlayPPO

REWARD_SCALES: Final = {"points": 0.05, "relative": 0.05, "win": 2.0}
"""What rewards are multiplied by unless `ppo.reward_scale` says otherwise, so that values are of the order of 1."""

SPREAD: Final = 2000
"""Plays by which tables are played apart, some three games: later ones then end at all times."""


_TRUNK, _POLICY, _VALUES = "features_extractor.", "action_net.", "value_net."  # of the names of weights


class Stage(NamedTuple):
    """What is played, and what for."""

    episode: str
    reward: str
    reward_scale: float

    def __str__(self) -> str:
        return f"{self.episode}s, reward {self.reward} x {self.reward_scale:g}"


def stage_at(config: RunConfig, steps: int) -> Stage:
    """The stage of the iteration that begins after so many plays."""
    table = config.table
    rounds = steps < table.rounds_first
    episode, reward = ("round", "relative") if rounds else (table.episode, table.reward)
    scale = config.reward_scale
    return Stage(episode, reward, REWARD_SCALES[reward] if scale is None else scale)


def make_tables(config: RunConfig, stage: Stage, ranks: Ranks | None = None) -> FoolVectorEnv:
    """The tables of a stage, dealt as no evaluation deals.

    Games that all begin together would all end together: the first rollouts would pay nobody, later ones teach what
    matters at one time of a game. So they are played apart, by `highest`, before anybody learns.
    """
    table = config.table
    seed = (ranks or Ranks()).seed(int(derive(np.uint64(config.seed), TRAINING)))
    rules = list(islice(cycle(table.make_rules()), table.num_tables))
    tables = FoolVectorEnv(table.num_tables, rules, stage.episode, stage.reward, seed)
    if stage.episode == "game":
        bot = HighestAgent()
        for _ in range(SPREAD):
            tables.step(bot.act(tables.views, tables.seeds))
    return tables


def change_stage(config: TrainConfig, model: SelfPlayPPO) -> str:
    """After an iteration: if the next one is of another stage, change the tables; returns what there is to say."""
    before = stage_at(config, model.num_timesteps - config.steps_per_iteration * model.ranks.size)
    stage = stage_at(config, model.num_timesteps)
    if stage == before:
        return ""
    tables = make_tables(config, stage, model.ranks)
    model.change_tables(tables, stage.reward_scale)
    start_values(config, model, stage)
    return f"{model.num_timesteps:,} steps: from here on {stage}; values begin anew"


@th.no_grad()
def start_values(config: TrainConfig, model: SelfPlayPPO, stage: Stage) -> None:
    """Let values begin anew, for a network that has learnt those of another reward.

    Values of round points would be taken for chances to win, and advantages be wrong until they are unlearnt. Those
    that say the same of all positions are right on the average, and leave credit to what is paid.
    """
    *_, last = (layer for layer in model.policy.value_net.modules() if isinstance(layer, nn.Linear))
    chance = float(np.mean([1 / rules.num_players for rules in config.table.make_rules()]))
    nn.init.zeros_(last.weight)
    nn.init.constant_(last.bias, stage.reward_scale * chance if stage.reward == "win" else 0.0)


def read_init(config: TrainConfig) -> tuple[dict[str, Any], dict[str, th.Tensor]]:
    """What the checkpoint that a run starts from says of itself, and its weights, of which the policy's fit.

    Raises:
        CheckpointError: it is none, of another network, or trained on whole games where the run plays single rounds.
    """
    path, network = Path(config.init or ""), config.network
    description, weights = read_description(path), read_weights(path)
    try:
        PolicyNetwork.from_policy(network.kind, network.hidden, weights)
    except (RuntimeError, AttributeError, TypeError):
        raise CheckpointError(
            f"init: {path} holds a network {description.get('network')}, and this run trains {asdict(network)}"
        ) from None
    if description.get("episode") == "game" and stage_at(config, 0).episode == "round":
        raise CheckpointError(f"init: {path} was trained on whole games, and this run begins with single rounds")
    return description, weights


def start_from(config: TrainConfig, model: SelfPlayPPO) -> str:
    """Give a new learner the weights of `config.init`; its optimizer is fresh. Returns what there is to say.

    Raises:
        CheckpointError: as `read_init`.
    """
    description, weights = read_init(config)
    stage, policy = stage_at(config, 0), model.policy
    own = policy.state_dict()
    learnt = tuple(description.get(name) for name in Stage._fields)
    fits = all(name in weights and weights[name].shape == own[name].shape for name in own if name.startswith(_VALUES))
    fits = fits and learnt == stage and description.get("method") == config.method
    wanted = (_TRUNK, _POLICY, _VALUES) if fits else (_TRUNK, _POLICY)
    policy.load_state_dict({name: weights[name] for name in own if name.startswith(wanted)}, strict=False)
    if description.get("episode") == "round":
        start_without_totals(policy.features_extractor)
    model.start_average()
    model.steps_before = description.get("steps", 0) + description.get("steps_before", 0)
    if not fits:
        start_values(config, model, stage)
    what = "policy and values" if fits else f"policy, without its values, from {learnt[0]}s for {learnt[1]}"
    return f"starts from the {what} of {config.init} ({description.get('steps', 0):,} steps)"
