"""The networks: a multilayer trunk that policy and value share, and, for FOOL, a view of each card beside it.

A plain trunk has to find out for each of 83 cards by itself what makes a card safe, through hidden layers that all
cards share. `CardTrunk` tells it: it takes some facts about every card held (`facts.py`: how many unseen cards are
higher, whether it would win or be the Fool as the trick stands, ...) and lets the last hidden layer weigh them, with
the same weights for all cards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch as th
from torch import nn

from fool_env.cards import NUM_ACTIONS
from fool_env.observation import OBSERVATION, OBSERVATION_SIZE

from .facts import FACTS, card_facts

_SB3_TRUNK = "features_extractor.layers."  # Stable-Baselines3's name for the shared layers, which it lists thrice


def make_layers(inputs: int, hidden: Sequence[int]) -> nn.Sequential:
    """A linear layer and a ReLU for each width in `hidden`."""
    layers: list[nn.Module] = []
    for size, next_size in pairwise((inputs, *hidden)):
        layers += [nn.Linear(size, next_size), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class CardTrunk(nn.Module):
    """Hidden layers, and for each card held one number: its facts, weighed by what the last hidden layer says.

    See `start_with_card_values` for how training begins.
    """

    def __init__(self, hidden: Sequence[int]) -> None:
        super().__init__()
        self.layers = make_layers(OBSERVATION_SIZE, hidden)
        self.weights = nn.Linear(hidden[-1], len(FACTS))

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """float32[rows, OBSERVATION_SIZE] -> [rows, hidden[-1] + 83]."""
        hidden = self.layers(observations)
        device = observations.device
        rows, actions, facts = (th.from_numpy(array).to(device) for array in card_facts(observations.cpu().numpy()))
        with th.autocast(device.type, enabled=False):  # bfloat16 cannot tell ranks and counts apart
            hidden = hidden.float()
            weights = self.weights(hidden).index_select(0, rows)
            values = hidden.new_zeros(len(hidden) * NUM_ACTIONS)
            values = values.scatter(0, rows * NUM_ACTIONS + actions, (facts * weights).sum(1))
        return th.cat([hidden, values.view(-1, NUM_ACTIONS)], dim=1)


def make_trunk(observation_size: int, hidden: Sequence[int], card_facts: bool) -> tuple[nn.Module, int]:
    """The layers that policy and value share, and how many numbers come out of them."""
    if card_facts:
        return CardTrunk(hidden), hidden[-1] + NUM_ACTIONS
    return make_layers(observation_size, hidden), hidden[-1]


@th.no_grad()
def start_with_card_values(trunk: CardTrunk, action_net: nn.Linear) -> None:
    """Let the card values begin at 0, and a policy head on the trunk begin with them as its logits."""
    nn.init.zeros_(trunk.weights.weight)
    nn.init.zeros_(trunk.weights.bias)
    action_net.weight[:, -NUM_ACTIONS:] = th.eye(NUM_ACTIONS)


@th.no_grad()
def start_without_totals(trunk: nn.Module) -> None:
    """Let what is 0 in single rounds, totals and that they matter, begin without effect on a trunk.

    Single rounds never move these weights. So whoever has learnt on them plays whole games alike from the first.
    """
    kept = np.ones(1, OBSERVATION)
    for name in ("score", "tens", "totals_matter"):
        kept[name] = 0
    for layer in trunk.modules():
        if isinstance(layer, nn.Linear) and layer.in_features == OBSERVATION_SIZE:
            layer.weight *= th.from_numpy(kept.view(np.float32)).to(layer.weight.device)


class PolicyNetwork(nn.Module):
    """Trunk and policy head of a trained network."""

    def __init__(self, hidden: Sequence[int], card_facts: bool) -> None:
        super().__init__()
        self.trunk, features = make_trunk(OBSERVATION_SIZE, hidden, card_facts)
        self.action_net = nn.Linear(features, NUM_ACTIONS)

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """float32[rows, OBSERVATION_SIZE] -> logits float32[rows, 83], illegal actions' among them."""
        logits: th.Tensor = self.action_net(self.trunk(observations))
        return logits

    @classmethod
    def from_policy(cls, hidden: Sequence[int], card_facts: bool, state: Mapping[str, th.Tensor]) -> PolicyNetwork:
        """The network out of the state of a Stable-Baselines3 policy on such a trunk, its tensors copied."""
        network = cls(hidden, card_facts).requires_grad_(False)
        wanted = {
            name.replace(_SB3_TRUNK, "trunk."): tensor
            for name, tensor in state.items()
            if name.startswith((_SB3_TRUNK, "action_net."))
        }
        network.load_state_dict(wanted)
        return network
