"""The networks of training as Stable-Baselines3 builds them, and a critic that sees every hand.

In training the value of a decision may rest on what no player knows, all hands: that takes luck out of the advantages,
and the policy, which sees its own view alone, learns faster from them. (Pinto et al. 2018, "Asymmetric actor critic
for image-based robot learning"; for card games Li et al. 2020, "Suphx", and Yang et al. 2022, "PerfectDou".)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, cast

import numpy as np
import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from fool_env.agents.network import Cards, CardTrunk, make_trunk, start_with_card_values, start_without_totals
from fool_env.cards import NUM_ACTIONS
from fool_env.rules import MAX_PLAYERS

HANDS_SIZE: Final = (MAX_PLAYERS - 1) * NUM_ACTIONS
"""Numbers that say what the other seats hold, absent ones too, so that one critic serves any table."""

WIDTHS: Final = (256, 128)
"""Of the hidden layers of the critic that sees every hand."""


class Trunk(BaseFeaturesExtractor):
    """The layers that policy and value share, as SB3's features extractor; see `fool_env.agents.network`."""

    def __init__(self, observation_space: spaces.Box, kind: str = "facts", hidden: Sequence[int] = (256, 256)) -> None:
        layers, features = make_trunk(int(np.prod(observation_space.shape)), kind, hidden)
        super().__init__(observation_space, features)
        self.layers = layers

    def forward(self, observations: th.Tensor, cards: Cards | None = None) -> th.Tensor:
        """float32[rows, K] -> [rows, features]; `cards` spares a `CardTrunk` looking up what it knows of them."""
        features: th.Tensor = self.layers(observations) if cards is None else self.layers(observations, cards)
        return features


class FullCritic(nn.Module):
    """The value of a decision from the policy's features and the hands of all others.

    Args:
        features: how many numbers come out of the layers that policy and critic share.
        hands: how many say what the others hold.
    """

    def __init__(self, features: int, hands: int = HANDS_SIZE) -> None:
        super().__init__()
        self.of_features = nn.Linear(features, WIDTHS[0])
        self.of_hands = nn.Linear(hands, WIDTHS[0], bias=False)
        self.layers = nn.Sequential(
            nn.ReLU(inplace=True), nn.Linear(*WIDTHS), nn.ReLU(inplace=True), nn.Linear(WIDTHS[1], 1)
        )

    def forward(self, features: th.Tensor, hands: th.Tensor | None = None) -> th.Tensor:
        """float32[rows, features], uint8[rows, hands] -> float32[rows, 1].

        Raises:
            ValueError: without hands.
        """
        if hands is None:
            raise ValueError("this network's values need the hands of all seats (network.critic: full)")
        values: th.Tensor = self.layers(self.of_features(features) + self.of_hands(hands.to(features.dtype)))
        return values


class SelfPlayPolicy(MaskableActorCriticPolicy):
    """Stable-Baselines3's masked policy, whose critic sees what its own seat sees ("view") or every hand ("full")."""

    def __init__(self, *args: Any, critic: Literal["view", "full"] = "view", **kwargs: Any) -> None:
        self.critic = critic
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        trunk = getattr(self.features_extractor, "layers", None)
        if isinstance(trunk, CardTrunk):  # after SB3 has initialised all layers in its own way
            start_with_card_values(trunk, cast(nn.Linear, self.action_net))
        if trunk is not None:
            start_without_totals(trunk)
        if self.critic == "full":
            self.value_net = FullCritic(self.mlp_extractor.latent_dim_vf)  # type: ignore[assignment]
            self.optimizer = self.optimizer_class(
                self.parameters(),
                lr=lr_schedule(1),  # type: ignore[call-arg]  # any optimizer but the base class takes it
                **self.optimizer_kwargs,
            )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "critic": self.critic}
