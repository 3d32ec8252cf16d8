"""Stable-Baselines3: many tables of "Fool-v0", one learner each, as the `VecEnv` that its algorithms take.

    tables = gymnasium.make_vec("fool_env:Fool-v0", 256, vectorization_mode="vector_entry_point", opponents="highest")
    MaskablePPO("MlpPolicy", VecMonitor(SingleAgentVecEnv(tables))).learn(1_000_000)

`train/sb3_maskable.py` is a whole script.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from fool_env.agents.single_agent import FoolSingleAgentVectorEnv

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "fool_env.interop.sb3 needs Stable-Baselines3: pip install 'fool-env[train]'", name=error.name
    ) from error


class MaskedVecEnv(VecEnv):
    """What SB3 asks of a VecEnv whose tables are compiled together: masks, and otherwise no attributes of each table.

    Subclasses have `reset`, `step_async`, `step_wait` and `action_masks`.
    """

    def action_masks(self) -> np.ndarray:
        """The legal actions at each table: bool (tables, actions)."""
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """`action_masks` of every table, bool (actions,) each; there are no other methods."""
        if method_name != "action_masks":
            raise AttributeError(f"{type(self).__name__} has no {method_name}()")
        masks = self.action_masks()
        return [masks[index] for index in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        """Whether the tables have an attribute: sb3-contrib asks for `action_masks`."""
        return attr_name == "action_masks"

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """No table has attributes of its own, but for SB3's question about rendering."""
        if attr_name != "render_mode":
            raise AttributeError(f"{type(self).__name__} has no {attr_name}")
        return [None for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """No table has attributes of its own."""
        raise AttributeError(f"{type(self).__name__} has no {attr_name}")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Tables that are compiled together wear no wrappers."""
        return [False for _ in self._get_indices(indices)]

    def close(self) -> None:
        """Nothing to release."""


class SingleAgentVecEnv(MaskedVecEnv):
    """Tables of `gymnasium.make_vec("fool_env:Fool-v0", ..., vectorization_mode="vector_entry_point")` for SB3.

    Where an episode ends, the table's info has "terminal_observation". Other infos are empty: masks come by
    `env_method("action_masks")`, or all at once by `action_masks()`.

    Args:
        tables: not wrapped by others of Gymnasium's wrappers.

    Raises:
        TypeError: they are something else.
    """

    def __init__(self, tables: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        if not isinstance(tables, FoolSingleAgentVectorEnv):
            raise TypeError(
                f"tables: {type(tables).__name__} is not what gymnasium.make_vec makes of Fool-v0 with "
                'vectorization_mode="vector_entry_point"'
            )
        super().__init__(tables.num_envs, tables.single_observation_space, tables.single_action_space)
        self.tables = tables
        self._nothing: dict[str, Any] = {}

    def reset(self) -> np.ndarray:
        """Start an episode at every table, of the seeds given to `seed()` since: float32 (tables, K)."""
        seeds = None if None in self._seeds else [int(seed) for seed in self._seeds if seed is not None]
        observations, _ = self.tables.reset(seed=seeds)
        self._reset_seeds()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions, int64 (tables,)."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play them: observations, float32 rewards, dones, and an info for each table."""
        observations, rewards, over, _, infos = self.tables.step(self._actions)
        of_tables = [self._nothing] * self.num_envs
        for table in np.flatnonzero(over):
            of_tables[table] = {"terminal_observation": infos["final_obs"][table], "TimeLimit.truncated": False}
        return observations, rewards.astype(np.float32), over, of_tables

    def action_masks(self) -> np.ndarray:
        """Each learner's legal actions: bool (tables, 83)."""
        return self.tables.action_masks()
