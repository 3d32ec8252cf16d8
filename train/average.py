"""AveragePolicy: a moving average of the policy's weights, to which an update may keep it close.

A policy that may not run away from its own past changes its mind more slowly, and in games without a dominant strategy
circles less: the penalty is the divergence from the average to be paid at each decision (Sokota et al. 2023, "A unified
approach to reinforcement learning, quantal response equilibria, and two-player zero-sum games").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch as th

from fool_env.agents.network import PolicyNetwork
from fool_env.train.compute import Shards
from fool_env.train.decisions import Decisions
from fool_env.train.policy import masked_softmax

_PIECE: Final = 2048  # rows that a thread computes at a time


class AveragePolicy:
    """The weights that a policy had, averaged: the last update counts 1 - decay, those before less and less.

    Args:
        network: the policy as it is now, a copy that becomes the average.
        decay: what is left of the average at each update.
    """

    def __init__(self, network: PolicyNetwork, decay: float) -> None:
        self.network = network
        self.decay = decay

    @th.no_grad()
    def update(self, network: PolicyNetwork) -> None:
        """Take in the policy as an iteration has left it."""
        for mine, theirs in zip(self.network.parameters(), network.parameters(), strict=True):
            mine.lerp_(theirs.to(mine.device), 1 - self.decay)

    def log_probs(self, decisions: Decisions, compute: Shards) -> th.Tensor:
        """Its log-probabilities, float32[rows, actions]; meaningless where illegal."""

        def of_piece(start: int) -> th.Tensor:
            piece = decisions.part(slice(start, start + _PIECE))
            with th.no_grad():
                return masked_softmax(self.network(piece.observations, piece.cards).float(), piece.masks)[1]

        return th.cat(compute.map(of_piece, range(0, len(decisions.masks), _PIECE)))

    def state_dict(self) -> dict[str, np.ndarray]:
        """Its weights, by name."""
        return {name: tensor.cpu().numpy() for name, tensor in self.network.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from such weights."""
        self.network.load_state_dict({name: th.from_numpy(array) for name, array in state.items()})
