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

from fool_env.cards import (
    ACTION_COLOUR,
    ACTION_RANK,
    COLOUR_OFFSETS,
    COLOUR_SIZES,
    MAX_RANK,
    NUM_ACTIONS,
    NUM_COLOURS,
    WILD,
)
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

    colours: th.Tensor
    ranks: th.Tensor
    lowest: th.Tensor
    highest: th.Tensor

    def __init__(self) -> None:
        super().__init__()
        colours = th.from_numpy(ACTION_COLOUR).long()
        of_wild = th.tensor([WILD])
        offsets, sizes = th.tensor(COLOUR_OFFSETS), th.tensor(COLOUR_SIZES)
        buffers = {
            "colours": th.where(colours < 0, NUM_COLOURS, colours),  # a wild's is one more
            "ranks": th.from_numpy(ACTION_RANK).float(),
            # The lowest and the highest action of the same colour.
            "lowest": th.cat([offsets.repeat_interleave(sizes), of_wild]),
            "highest": th.cat([(offsets + sizes - 1).repeat_interleave(sizes), of_wild]),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)

    @th.no_grad()
    def forward(self, observations: th.Tensor) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """The facts about every card held, the 1s as one card.

        Args:
            observations: float32[rows, OBSERVATION_SIZE].

        Returns:
            int64[cards held] twice, float32[cards held, len(NAMES)]: the row of each card, its action, its facts.
        """
        field = {name: observations[:, _floats(name)] for name in _FIELDS_READ}
        hand = field["hand"].clamp(max=1.0)
        # Only the cards held, a tenth of the deck: facts about all would take as long as the hidden layers.
        rows, actions = hand.nonzero(as_tuple=True)
        unseen_above, unseen = self._count(field["unseen"], rows, actions)
        own_above, own = self._count(hand, rows, actions)
        lead, is_open = field["lead_colour"][:, :NUM_COLOURS], field["lead_colour"][:, NUM_COLOURS:]
        follows = th.cat([lead + is_open, th.ones_like(is_open)], dim=1)[rows, self.colours[actions]]
        best, worst = self._limits(field, lead)
        ranks = self.ranks[actions]
        key = ranks + _FOLLOWS * follows
        wins = (key > best[rows]).float()
        safe = th.exp(-3 * unseen_above)
        facts = [
            ranks / MAX_RANK,
            unseen_above,
            unseen,
            own_above,
            own,
            follows,
            wins,
            (key <= worst[rows]).float(),
            safe,
            safe * wins,
            th.exp(-10 * unseen_above),
            unseen_above * (1 - follows),
        ]
        return rows, actions, th.stack(facts, dim=1)

    def _count(self, cards: th.Tensor, rows: th.Tensor, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """How many of a set of cards are of the same colour as a card and higher, and how many of the same colour."""
        up_to = cards.cumsum(1)
        up_to_highest = up_to[rows, self.highest[actions]]
        above = up_to_highest - up_to[rows, actions]
        alike = up_to_highest - up_to[rows, self.lowest[actions]] + cards[rows, self.lowest[actions]]
        # A wild is of no colour, its place is behind all colours, and its number is counted in the sum there.
        coloured = (actions != WILD) / 10
        return above * coloured, alike * coloured

    @staticmethod
    def _limits(field: dict[str, th.Tensor], lead: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """The key of the best card of the trick, and that up to which a card played now makes a Fool: [rows] each.

        Keys order cards as `engine.trick_key` does, without the order of play.
        """
        colours = field["trick_colour"].reshape(-1, MAX_PLAYERS, NUM_COLOURS)
        follows = (colours * lead.unsqueeze(1)).sum(-1) + field["trick_is_one"]
        keys = (field["trick_rank"] * MAX_RANK).round() + _FOLLOWS * follows
        best = (field["trick_wins"] * keys).sum(-1)
        fools = field["trick_fool"]
        # With fewer cards in the trick than there are discs, any card is among the worst.
        full = fools.sum(-1) > field["num_fools"].squeeze(1) * MAX_FOOLS - 0.5
        return best, th.where(full, (fools * keys).amax(-1), _NO_LIMIT)


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
    """Hidden layers, and for each card held one number: its facts, weighed by what the last hidden layer says.

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
            rows, actions, facts = self.facts(observations)
            weights = self.weights(hidden.float()).index_select(0, rows)
            values = hidden.new_zeros(len(hidden) * NUM_ACTIONS, dtype=th.float32)
            values = values.scatter(0, rows * NUM_ACTIONS + actions, (facts * weights).sum(1))
        return th.cat([hidden.float(), values.view(-1, NUM_ACTIONS)], dim=1)


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
