"""Gymnasium's "Fool-v0": a table at which one seat learns and agents hold the others; and many of them at once.

    gymnasium.make("fool_env:Fool-v0", num_players=6, opponents="cautious")
    gymnasium.make_vec("fool_env:Fool-v0", num_envs=1024, vectorization_mode="vector_entry_point", opponents="highest")

A step is one card of the learner's and whatever the others play until its next one; the reward is what it was paid in
between. Table i of the vector env, reset with seed s, is the single env reset with seed s + i, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from fool_env.cards import NUM_ACTIONS
from fool_env.errors import IllegalActionError
from fool_env.game import Game
from fool_env.observation import observation_space
from fool_env.render import RENDER_MODES, checked_render_mode, illegal_action_message, table_text
from fool_env.rng import SEED_LIMIT, checked_seed
from fool_env.rules import Rules, chosen_rules

from .agent import Agent
from .learner_tables import LearnerTables

Opponents: TypeAlias = str | Agent | Sequence[str | Agent]
IllegalAction: TypeAlias = Literal["terminate", "raise"]

_ILLEGAL_ACTION: Final = ("terminate", "raise")
_ONLY = np.zeros(1, np.int64)


def _make_tables(
    num_tables: int,
    num_players: int | None,
    rules: Rules | None,
    opponents: Opponents,
    seat: int | str,
    episode: str,
    reward: str,
    illegal_action: str,
) -> LearnerTables:
    if illegal_action not in _ILLEGAL_ACTION:
        raise ValueError(f"illegal_action: {illegal_action!r} is neither {' nor '.join(map(repr, _ILLEGAL_ACTION))}")
    if isinstance(seat, str) and seat != "random":
        raise ValueError(f'seat: {seat!r} is neither "random" nor a number')
    number = None if isinstance(seat, str) else seat
    return LearnerTables(num_tables, chosen_rules(num_players, rules), episode, reward, opponents, number)


class FoolEnv(gymnasium.Env[np.ndarray, int]):
    """One table, one learner. Observations are flat, float32 (OBSERVATION_SIZE,); see `fool_env.observation`.

    `info` has "action_mask" (int8 (83,), all zeros once the episode is over), "seat" (the learner's), "seed" (of the
    episode: `Game(env.unwrapped.rules, seed, episode)` deals the same) and "illegal_action" (whether one ended it).

    Args:
        num_players: seats at the table, 4 to 8 for the official rules; 6 unless `rules` say otherwise.
        opponents: an agent or its `make_agent` string for all other seats, or one for each, from the learner's left
            neighbour on.
        seat: the learner's seat, or "random": one by lot, and from episode to episode the next.
        rules: any `Rules`; official ones for `num_players` if not given.
        episode: "game" (R14) or "round".
        reward: "points" of a round as it ends (R13), "relative" (these minus the mean of the other seats'), or "win"
            (1/k to each of k winners as the game ends, R15).
        illegal_action: "terminate" ends the episode at the cost of the cards held (of a game to win: without the win);
            "raise" raises `IllegalActionError` and changes nothing.
        render_mode: "human" prints the table as the learner sees it, "ansi" returns it; None renders nothing.

    Raises:
        RulesError: `num_players` and `rules` disagree, or there are no official rules for `num_players`.
        AgentError, OSError, ValueError: any other argument is none.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 1}  # noqa: RUF012 - Gymnasium's way

    def __init__(
        self,
        num_players: int | None = None,
        opponents: Opponents = "cautious",
        seat: int | str = "random",
        rules: Rules | None = None,
        episode: str = "game",
        reward: str = "points",
        illegal_action: IllegalAction = "terminate",
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = checked_render_mode(render_mode)
        self._tables = _make_tables(1, num_players, rules, opponents, seat, episode, reward, illegal_action)
        self._raises = illegal_action == "raise"
        self._episode = episode
        self._in_play = self._seeded = False
        self.rules = self._tables.rules
        self.observation_space = observation_space()
        self.action_space = spaces.Discrete(NUM_ACTIONS)  # type: ignore[assignment]  # gymnasium's stubs: of NumPy's ints

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode: of this seed, or the next of those that follow from the last seed given.

        Args:
            seed: 0 to 2**64 - 1.
            options: "hands" (cards for each seat, as names or ids) and "dealer" (a seat) replace those that the seed
                gives, for the first round; other keys are left alone.

        Raises:
            RulesError: the hands are not a deal of the rules' deck, or there is no such dealer.
        """
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            master = self.np_random.integers(SEED_LIMIT, dtype=np.uint64) if seed is None else checked_seed(seed)
            self._tables.seed(np.array([master], np.uint64))
            self._seeded = True
        self._tables.start(_ONLY, self._dealt(options or {}))
        self._in_play = True
        if self.render_mode == "human":
            self.render()
        return self._tables.observations[0].copy(), self._info()

    def _dealt(self, options: dict[str, Any]) -> np.void | None:
        """The record that options ask for."""
        if not {"hands", "dealer"} & options.keys():
            return None
        game = Game(self.rules, self._tables.next_seed(0), self._episode)
        game.redeal(options.get("hands", game.hands), options.get("dealer", game.dealer))
        return game.record

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play a card, and let the others play until the learner's next turn.

        Raises:
            IllegalActionError: the rules forbid the card now, and `illegal_action` is "raise"; nothing has changed.
            gymnasium.error.ResetNeeded: no episode is in play.
        """
        if not self._in_play:
            raise gymnasium.error.ResetNeeded("step: no episode is in play; call reset()")
        tables = self._tables
        actions = np.array([action], np.int64)
        if self._raises and tables.first_illegal(actions) >= 0:
            raise IllegalActionError(illegal_action_message(tables.games[0], int(action)))
        tables.play(actions)
        self._in_play = not tables.over[0]
        if self.render_mode == "human":
            self.render()
        return tables.observations[0].copy(), float(tables.rewards[0]), bool(tables.over[0]), False, self._info()

    def action_masks(self) -> np.ndarray:
        """The learner's legal actions as sb3-contrib asks for them: bool (83,)."""
        return self._tables.masks[0].astype(np.bool_)

    def render(self) -> str | None:
        """The table as the learner sees it: printed in mode "human", returned in mode "ansi"."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() does nothing without a render_mode: make(..., render_mode="human") prints')
            return None
        text = table_text(self._tables.view(0))
        if self.render_mode == "ansi":
            return text
        print(text, end="\n\n")
        return None

    def _info(self) -> dict[str, Any]:
        tables = self._tables
        return {
            "action_mask": tables.masks[0].copy(),
            "seat": int(tables.seats[0]),
            "seed": tables.seeds[0],  # NumPy's, as Python's would not fit into the int64 that SyncVectorEnv makes of it
            "illegal_action": bool(tables.illegal[0]),
        }


class FoolSingleAgentVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many tables with one learner each, step by step together; "Fool-v0" for `gymnasium.make_vec`.

    A table whose episode ends starts the next one in the same step: then `infos["final_obs"]` and `infos["final_info"]`
    have what the learner saw at the end. Each info is an array over tables.

    Args:
        num_envs: how many tables.
        copy: return copies; else the observations, rewards, terminations and masks returned are overwritten by the next
            call, which saves a third of the time.
        The others: those of `FoolEnv`.

    Raises:
        As `FoolEnv`.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - Gymnasium's way

    def __init__(
        self,
        num_envs: int = 1,
        num_players: int | None = None,
        opponents: Opponents = "cautious",
        seat: int | str = "random",
        rules: Rules | None = None,
        episode: str = "game",
        reward: str = "points",
        illegal_action: IllegalAction = "terminate",
        copy: bool = True,
        render_mode: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs: {num_envs} is not at least 1")
        if render_mode is not None:
            raise ValueError(f"render_mode: {render_mode!r}: many tables are not rendered; make one Fool-v0 for that")
        self._tables = _make_tables(num_envs, num_players, rules, opponents, seat, episode, reward, illegal_action)
        self._raises = illegal_action == "raise"
        self._copy = copy
        self._seeded = False
        self.rules = self._tables.rules
        self.num_envs = num_envs
        self.single_observation_space = observation_space()
        self.single_action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._all = np.arange(num_envs)
        self._ended = np.zeros(num_envs, np.bool_)
        self._rewards = np.zeros(num_envs)
        self._present = np.ones(num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode at every table.

        Args:
            seed: table i starts the episode of seed + i, or of the i-th of several seeds; without one, the next of
                those that follow from the last seeds given.
            options: none.

        Raises:
            ValueError: not as many seeds as tables, or options.
        """
        if options:
            raise ValueError(f"options: {sorted(options)} are for one table, Fool-v0 without vectorization")
        super().reset(seed=seed if isinstance(seed, int) else None)
        if seed is not None or not self._seeded:
            self._tables.seed(self._masters(seed))
            self._seeded = True
        self._tables.start(self._all)
        return self._returned(self._tables.observations), self._infos()

    def _masters(self, seed: int | Sequence[int] | None) -> np.ndarray:
        if seed is None:
            return self.np_random.integers(SEED_LIMIT, size=self.num_envs, dtype=np.uint64)
        seeds = [seed + table for table in range(self.num_envs)] if isinstance(seed, (int, np.integer)) else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed: {len(seeds)} seeds are given for {self.num_envs} tables")
        return np.array([checked_seed(one) for one in seeds], np.uint64)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play a card at every table, and let the others play until the learners' next turns.

        Args:
            actions: integers of shape (num_envs,).

        Raises:
            IllegalActionError: a card is illegal, and `illegal_action` is "raise"; no table has changed.
            ValueError: the shape or dtype is wrong.
        """
        tables = self._tables
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions: {actions.dtype} of shape {actions.shape} are not integers of shape ({self.num_envs},)"
            )
        if not self._seeded:
            raise gymnasium.error.ResetNeeded("step: no episode is in play; call reset()")
        actions = np.ascontiguousarray(actions, np.int64)
        table = tables.first_illegal(actions) if self._raises else -1
        if table >= 0:
            message = illegal_action_message(tables.games[table], int(actions[table]))
            raise IllegalActionError(f"table {table}: {message}")
        tables.play(actions)
        self._ended[:], self._rewards[:] = tables.over, tables.rewards
        final = self._final_infos(np.flatnonzero(self._ended))
        return (
            self._returned(tables.observations),
            self._returned(self._rewards),
            self._returned(self._ended),
            np.zeros(self.num_envs, np.bool_),
            self._infos() | final,
        )

    def action_masks(self) -> np.ndarray:
        """Each learner's legal actions: bool (num_envs, 83)."""
        return self._tables.masks.astype(np.bool_)

    def _final_infos(self, ended: np.ndarray) -> dict[str, Any]:
        """What the learners of ended episodes saw last, in Gymnasium's form; then their next episodes begin."""
        if len(ended) == 0:
            return {}
        observations = np.full(self.num_envs, None, object)
        observations[ended] = list(self._tables.observations[ended])
        over = self._ended.copy()
        infos = self._infos()
        final = {key: np.zeros_like(values) for key, values in infos.items()}
        for key, values in infos.items():
            final[key][ended] = values[ended]
        self._tables.start(ended)
        return {"final_obs": observations, "_final_obs": over, "final_info": final, "_final_info": over.copy()}

    def _infos(self) -> dict[str, Any]:
        tables = self._tables
        infos: dict[str, np.ndarray] = {
            "action_mask": tables.masks,
            "seat": tables.seats,
            "seed": tables.seeds,
            "illegal_action": tables.illegal,
        }
        arrays = {key: self._returned(values) for key, values in infos.items()}
        return arrays | {f"_{key}": self._present.copy() for key in infos}

    def _returned(self, array: np.ndarray) -> np.ndarray:
        return array.copy() if self._copy else array
