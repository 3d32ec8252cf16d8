"""The networks: a multilayer trunk that policy and value share, and, for FOOL, a view of each card beside it.

A plain trunk has to find out for each of 83 cards by itself what makes a card safe, through hidden layers that all
cards share. `CardTrunk` tells it: it computes some facts about every card from the observation (how many unseen cards
are higher, whether it would win or be the Fool as the trick stands) and lets the hidden layer weigh them, with the
same weights for all cards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import torch as th
from torch import nn

from fool_env.cards import ACTION_COLOUR, ACTION_RANK, MAX_RANK, NUM_ACTIONS, NUM_COLOURS
from fool_env.observation import OBSERVATION, OBSERVATION_SIZE
from fool_env.rules import MAX_FOOLS, MAX_PLAYERS

_SB3_TRUNK = "features_extractor.layers."  # Stable-Baselines3's name for the shared layers, which it lists thrice
_FOLLOWS = 32.0  # more than any rank: a card of the lead colour is better than any other (R9)
_NO_LIMIT = 2 * _FOLLOWS


def make_layers(inputs: int, hidden: Sequence[int]) -> nn.Sequential:
    """A linear layer and a ReLU for each width in `hidden`."""
    layers: list[nn.Module] = []
    for size, next_size in pairwise((inputs, *hidden)):
        layers += [nn.Linear(size, next_size), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class CardFacts(nn.Module):
    """What can be said of each card from an observation alone; it has no parameters.

    Counts are in tens of cards, ranks in units of the highest.
    """

    NAMES: Final = (
        "rank",
        "unseen_above",  # unseen cards of its colour that are higher
        "unseen",  # of its colour
        "own_above",  # own cards of its colour that are higher
        "own",  # of its colour
        "follows",  # of the lead colour, or a 1, or the colour is open
        "wins",  # it would win the trick as it stands (R8)
        "fool",  # it would be a Fool of the trick as it stands (R9, R10)
        "safe",  # exp(-unseen_above), steep
        "safe_and_wins",
        "highest",  # exp(-unseen_above), very steep: nearly 1 for a colour's highest card, else nearly 0
        "discarded_above",  # unseen_above if it does not follow
    )

    above: th.Tensor
    alike: th.Tensor
    of_colour: th.Tensor
    ranks: th.Tensor
    wild: th.Tensor

    def __init__(self) -> None:
        super().__init__()
        colours, ranks = th.from_numpy(ACTION_COLOUR).long(), th.from_numpy(ACTION_RANK).float()
        alike = (colours[:, None] == colours) & (colours >= 0)
        buffers = {
            "above": (alike & (ranks[:, None] > ranks)).float() / 10,  # [card counted, card described]
            "alike": alike.float() / 10,
            "of_colour": (colours == th.arange(NUM_COLOURS)[:, None]).float(),
            "ranks": ranks,
            "wild": (colours < 0).float(),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)

    @th.no_grad()
    def forward(self, observations: th.Tensor) -> th.Tensor:
        """float32[rows, OBSERVATION_SIZE] -> float32[rows, 83, len(NAMES)]."""
        field = {name: observations[:, _floats(name)] for name in _FIELDS_READ}
        hand = field["hand"].clamp(max=1.0)
        unseen_above, unseen = field["unseen"] @ self.above, field["unseen"] @ self.alike
        lead, is_open = field["lead_colour"][:, :NUM_COLOURS], field["lead_colour"][:, NUM_COLOURS:]
        follows = lead @ self.of_colour + self.wild + is_open * (1 - self.wild)
        best, worst = self._limits(field, lead)
        key = self.ranks + _FOLLOWS * follows
        wins = (key > best).float()
        safe = th.exp(-3 * unseen_above)
        return th.stack(
            [
                (self.ranks / MAX_RANK).expand_as(hand),
                unseen_above,
                unseen,
                hand @ self.above,
                hand @ self.alike,
                follows,
                wins,
                (key <= worst).float(),
                safe,
                safe * wins,
                th.exp(-10 * unseen_above),
                unseen_above * (1 - follows),
            ],
            dim=-1,
        )

    @staticmethod
    def _limits(field: dict[str, th.Tensor], lead: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """The key of the best card of the trick, and that up to which a card played now makes a Fool: [rows, 1] each.

        Keys order cards as `engine.trick_key` does, without the order of play.
        """
        colours = field["trick_colour"].reshape(-1, MAX_PLAYERS, NUM_COLOURS)
        follows = (colours * lead.unsqueeze(1)).sum(-1) + field["trick_is_one"]
        keys = (field["trick_rank"] * MAX_RANK).round() + _FOLLOWS * follows
        best = (field["trick_wins"] * keys).sum(-1, keepdim=True)
        fools = field["trick_fool"]
        # With fewer cards in the trick than there are discs, any card is among the worst.
        spared = fools.sum(-1, keepdim=True) > field["num_fools"] * MAX_FOOLS - 0.5
        return best, th.where(spared, (fools * keys).amax(-1, keepdim=True), _NO_LIMIT)


_FIELDS_READ = (
    *("hand", "unseen", "lead_colour", "num_fools"),
    *("trick_colour", "trick_is_one", "trick_rank", "trick_wins", "trick_fool"),
)


def _floats(field: str) -> slice:
    """Where a field lies in a flat observation."""
    fields = OBSERVATION.fields
    assert fields is not None  # a structured dtype has fields
    dtype, offset = fields[field][:2]
    return slice(offset // 4, (offset + dtype.itemsize) // 4)


class CardTrunk(nn.Module):
    """Hidden layers, and for each card one number: its facts, weighed by what the last hidden layer says.

    See `start_with_card_values` for how training begins.
    """

    def __init__(self, hidden: Sequence[int]) -> None:
        super().__init__()
        self.layers = make_layers(OBSERVATION_SIZE, hidden)
        self.facts = CardFacts()
        self.weights = nn.Linear(hidden[-1], len(CardFacts.NAMES))

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """float32[rows, OBSERVATION_SIZE] -> [rows, hidden[-1] + 83]."""
        hidden = self.layers(observations)
        with th.autocast(observations.device.type, enabled=False):  # bfloat16 cannot tell ranks and counts apart
            facts = self.facts(observations)
            values = th.bmm(facts, self.weights(hidden.float()).unsqueeze(-1)).squeeze(-1)
        return th.cat([hidden.float(), values], dim=-1)


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
