"""The networks: a multilayer trunk that policy and value share, and, for FOOL, a view of each card beside it.

A plain trunk has to find out for each of 83 cards by itself what makes a card safe, through hidden layers that all
cards share. `CardTrunk` tells it: it takes some facts about every card held (`facts.py`: how many unseen cards are
higher, whether it would win or be the Fool as the trick stands, ...) and lets the last hidden layer weigh them, with
the same weights for all cards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import torch as th
from torch import nn

from fool_env.cards import NUM_ACTIONS
from fool_env.observation import OBSERVATION, OBSERVATION_SIZE

from .facts import FACTS, card_facts

KINDS: Final = ("mlp", "facts")
"""The hidden layers alone, or with the facts of each card held, which the last of them weighs."""

_SB3_TRUNK = "features_extractor.layers."  # Stable-Baselines3's name for the shared layers, which it lists thrice


def make_layers(inputs: int, hidden: Sequence[int]) -> nn.Sequential:
    """A linear layer and a ReLU for each width in `hidden`."""
    layers: list[nn.Module] = []
    for size, next_size in pairwise((inputs, *hidden)):
        layers += [nn.Linear(size, next_size), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class Cards(NamedTuple):
    """What is known of the cards held; see `card_facts`."""

    actions: th.Tensor  # uint8[rows, cards], NUM_ACTIONS where a row holds fewer
    facts: th.Tensor  # float32[rows, cards, facts], 0 there


class CardTrunk(nn.Module):
    """Hidden layers, and for each card held one number: its facts, weighed by what the last hidden layer says.

    Args:
        hidden: widths of the hidden layers.

    See `start_with_card_values` for how training begins.
    """

    def __init__(self, hidden: Sequence[int]) -> None:
        super().__init__()
        self.layers = make_layers(OBSERVATION_SIZE, hidden)
        self.weights = nn.Linear(hidden[-1], len(FACTS))

    def forward(self, observations: th.Tensor, cards: Cards | None = None) -> th.Tensor:
        """A row of features for each row.

        Args:
            observations: float32[rows, OBSERVATION_SIZE].
            cards: what `card_facts` says of them; None to look it up here, on the CPU.

        Returns:
            float32[rows, hidden[-1] + 83].
        """
        hidden = self.layers(observations)
        device = observations.device
        if cards is None:
            cards = Cards(*(th.from_numpy(array).to(device) for array in card_facts(observations.cpu().numpy())))
        actions, facts = cards
        with th.autocast(device.type, enabled=False):  # bfloat16 cannot tell ranks and counts apart
            hidden = hidden.float()
            scores = th.bmm(facts, self.weights(hidden).unsqueeze(2)).squeeze(2)
            # Where there is no card, to a column of its own, which is dropped.
            values = hidden.new_zeros((len(hidden), NUM_ACTIONS + 1)).scatter(1, actions.long(), scores)
        return th.cat([hidden, values[:, :NUM_ACTIONS]], dim=1)


def make_trunk(observation_size: int, kind: str, hidden: Sequence[int]) -> tuple[nn.Module, int]:
    """The layers that policy and value share, of one of the KINDS, and how many numbers come out of them."""
    if kind == "mlp":
        return make_layers(observation_size, hidden), hidden[-1]
    return CardTrunk(hidden), hidden[-1] + NUM_ACTIONS


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

    def __init__(self, kind: str, hidden: Sequence[int]) -> None:
        super().__init__()
        self.trunk, features = make_trunk(OBSERVATION_SIZE, kind, hidden)
        self.action_net = nn.Linear(features, NUM_ACTIONS)

    def forward(self, observations: th.Tensor, cards: Cards | None = None) -> th.Tensor:
        """float32[rows, OBSERVATION_SIZE] -> logits float32[rows, 83], illegal actions' among them."""
        features = self.trunk(observations) if cards is None else self.trunk(observations, cards)
        logits: th.Tensor = self.action_net(features)
        return logits

    @classmethod
    def from_policy(cls, kind: str, hidden: Sequence[int], state: Mapping[str, th.Tensor]) -> PolicyNetwork:
        """The network out of the state of a Stable-Baselines3 policy on such a trunk, its tensors copied."""
        network = cls(kind, hidden).requires_grad_(False)
        wanted = policy_tensors(state).items()
        network.load_state_dict({name.replace(_SB3_TRUNK, "trunk."): tensor for name, tensor in wanted})
        return network


def policy_tensors(state: Mapping[str, th.Tensor]) -> dict[str, th.Tensor]:
    """What of a Stable-Baselines3 policy's state chooses cards: trunk and policy head, each once."""
    return {name: tensor for name, tensor in state.items() if name.startswith((_SB3_TRUNK, "action_net."))}
