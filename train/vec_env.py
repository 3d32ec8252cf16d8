"""SelfPlayVecEnv: a native vector environment in Stable-Baselines3's clothes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from fool_env.interop.sb3 import MaskedVecEnv


class NativeTables(Protocol):
    """What `FoolVectorEnv` has and self-play needs; `reset` and `step` overwrite the arrays."""

    observations: np.ndarray  # float32 (tables, K), of the seat to act
    masks: np.ndarray  # int8 (tables, actions), at least one 1 in each row
    players: np.ndarray  # int64 (tables,), the seat to act
    rewards: np.ndarray  # float32 (tables, seats), what the last step paid to each seat
    dones: np.ndarray  # bool (tables,), whether the last step ended the episode, for all seats

    def reset(self) -> None:
        """Start an episode at every table."""

    def step(self, actions: np.ndarray) -> None:
        """Play int64 (tables,) actions."""

    def hands_of(self, tables: np.ndarray) -> np.ndarray:
        """Every hand at int64 (n,) tables, that of the seat to act first, for critics: float32 (n, seats, actions)."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything that the future depends on."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from such a state."""


class SelfPlayVecEnv(MaskedVecEnv):
    """Native tables as Stable-Baselines3 wants to see them.

    `SelfPlayPPO` reads `native` in place. The methods serve stock algorithms, with copies, and with the reward that a
    play paid to whoever played it: all that is left of self-play in an interface that knows one agent.
    """

    def __init__(self, native: NativeTables) -> None:
        self.native = native
        num_tables, observation_size = native.observations.shape
        super().__init__(
            num_tables,
            spaces.Box(-np.inf, np.inf, (observation_size,), np.float32),
            spaces.Discrete(native.masks.shape[1]),
        )
        self._infos: list[dict[str, Any]] = [{} for _ in range(num_tables)]

    def reset(self) -> np.ndarray:
        """Start anew at all tables: float32 (tables, K)."""
        self.native.reset()
        return self.native.observations.copy()

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions, int64 (tables,)."""
        movers = self.native.players.copy()
        self.native.step(np.ascontiguousarray(actions, np.int64))
        self._rewards = self.native.rewards[np.arange(self.num_envs), movers]

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """The outcome of the actions taken."""
        return self.native.observations.copy(), self._rewards, self.native.dones.copy(), self._infos

    def action_masks(self) -> np.ndarray:
        """The legal actions of the seats to act: bool (tables, actions)."""
        return self.native.masks.astype(np.bool_)
