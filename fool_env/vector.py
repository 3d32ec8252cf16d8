"""FoolVectorEnv: many tables at once, every seat a learner, all arrays filled in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._jit import kernel, prefetch
from .cards import NUM_ACTIONS
from .engine import hide, is_legal, legal_mask, next_round, play, start_game
from .errors import IllegalActionError, RulesError
from .observation import OBSERVATION, OBSERVATION_SIZE, encode_hands, encode_into
from .render import illegal_action_message
from .rewards import pay, reward_code
from .rng import checked_seed, derive
from .rules import MAX_PLAYERS, Rules
from .state import GAME, GAME_VERSION, Record, checked_episode, copy_games, new_games, rules_of

_BLOCK = 256
_FLOATS_IN_LINE = 16  # of the cache


@kernel
def _start_episode(game: Record, table: int, episode: int, master: np.uint64) -> np.uint64:
    """Start a table's episode of this number, and return its seed."""
    seed = derive(derive(master, table), episode)
    start_game(game, seed)
    return seed


@kernel
def _reset(games: np.ndarray, master: np.uint64, episodes: np.ndarray, seeds: np.ndarray) -> None:
    for table in range(len(games)):
        seeds[table] = _start_episode(games[table], table, episodes[table], master)


@kernel
def _observe(
    games: np.ndarray, players: np.ndarray, masks: np.ndarray, observations: np.ndarray, rows: np.ndarray
) -> None:
    # The rows of many tables do not fit into the cache, and writing them is half of the work: fetch the next one now.
    floats = rows.reshape(-1)
    for table in range(len(games)):
        if table + 1 < len(games):
            for i in range((table + 1) * OBSERVATION_SIZE, (table + 2) * OBSERVATION_SIZE, _FLOATS_IN_LINE):
                prefetch(floats, i)
        game = games[table]
        players[table] = game.player
        legal_mask(game, masks[table])
        encode_into(game, game.player, observations[table], rows[table])


@kernel
def _play(
    games: np.ndarray,
    actions: np.ndarray,
    first_table: int,
    reward: int,
    master: np.uint64,
    episodes: np.ndarray,
    seeds: np.ndarray,
    rewards: np.ndarray,
    dones: np.ndarray,
) -> None:
    for i in range(len(games)):
        game = games[i]
        play(game, actions[i])
        pay(game, reward, rewards[i])
        dones[i] = game.game_over
        if game.game_over:
            episodes[i] += 1
            seeds[i] = _start_episode(game, first_table + i, episodes[i], master)
        elif game.round_over:
            next_round(game)


@kernel
def _step(
    games: np.ndarray,
    actions: np.ndarray,
    reward: int,
    master: np.uint64,
    episodes: np.ndarray,
    seeds: np.ndarray,
    rewards: np.ndarray,
    dones: np.ndarray,
    players: np.ndarray,
    masks: np.ndarray,
    observations: np.ndarray,
    rows: np.ndarray,
) -> int:
    """Play and observe; or, if an action is illegal, do nothing and return its table instead of -1."""
    for table in range(len(games)):
        if not is_legal(games[table], actions[table]):
            return table
    # Two short loops over tables that stay in the cache are faster than one long one.
    for start in range(0, len(games), _BLOCK):
        block = slice(start, min(start + _BLOCK, len(games)))
        _play(
            games[block],
            actions[block],
            start,
            reward,
            master,
            episodes[block],
            seeds[block],
            rewards[block],
            dones[block],
        )
        _observe(games[block], players[block], masks[block], observations[block], rows[block])
    return -1


@kernel
def _encode_all_hands(games: np.ndarray, tables: np.ndarray, hands: np.ndarray) -> None:
    for i in range(len(tables)):
        game = games[tables[i]]
        encode_hands(game, game.player, hands[i])


@kernel
def _hide_others(games: np.ndarray) -> None:
    for table in range(len(games)):
        hide(games[table], games[table].player)


class FoolVectorEnv:
    """Many tables that step together; whoever is to act at each table acts.

    The arrays below are the same objects for the env's life, and **each `reset` and `step` overwrites them**: copy
    what must outlive the next call. A table whose round or game ends is dealt the next one in the same step: then
    `rewards` and `dones` are of the play just made, and observation, mask and player belong to what comes next.
    Episodes end by the rules alone and are never truncated, so nothing needs a final observation to bootstrap from.

    Everything at table i depends on `seed`, i and the actions at table i; the number of tables plays no part.
    Kernels release the GIL: envs in several Python threads run side by side.

    Args:
        num_tables: T, the number of tables.
        rules: the rules of every table, or a list of them, one for each table (they may differ in players).
        episode: "game" (R14), or "round": every episode is a first round, totals do not matter.
        reward: "points", "relative" or "win" (see `fool_env.rewards`).
        seed: 0 to 2**64 - 1; None takes one from the operating system.

    Attributes:
        observations: float32 (T, OBSERVATION_SIZE), what the seat to act sees.
        masks: int8 (T, 83), 1 for each of its legal actions; every row has at least one.
        players: int64 (T,), the seat to act.
        rewards: float32 (T, 8), what the last step paid to each absolute seat; absent seats get 0.
        dones: bool (T,), whether the last step ended the episode, for all seats at once.
        seeds: uint64 (T,), the seed of each current episode: `Game(rules, int(seeds[i]), episode)` replays it.

    Raises:
        RulesError: rules that are none, or not one for each table.
        ValueError: an episode, reward or seed that is none, or fewer than one table.
    """

    def __init__(
        self,
        num_tables: int,
        rules: Rules | Sequence[Rules],
        episode: str = "game",
        reward: str = "points",
        seed: int | None = 0,
    ) -> None:
        if num_tables < 1:
            raise ValueError(f"num_tables: {num_tables} is not at least 1")
        tables = [rules] * num_tables if isinstance(rules, Rules) else list(rules or ())
        if not all(isinstance(table_rules, Rules) for table_rules in tables):
            raise RulesError(f"rules: {rules!r} are neither Rules nor a list of them; Rules.official(6) makes some")
        if len(tables) != num_tables:
            raise RulesError(f"rules: {num_tables} tables need as many Rules, not {len(tables)}")
        self.num_tables = num_tables
        self.rules = tuple(tables)
        self.episode = checked_episode(episode)
        self.reward = reward
        self._reward_code = reward_code(reward, episode)
        self._master = checked_seed(seed)
        self._games = new_games(tables, episode)
        self._episodes = np.full(num_tables, -1, np.int64)
        self._fields = np.zeros(num_tables, OBSERVATION)
        self.observations = self._fields.view(np.float32).reshape(num_tables, OBSERVATION_SIZE)
        self.masks = np.zeros((num_tables, NUM_ACTIONS), np.int8)
        self.players = np.zeros(num_tables, np.int64)
        self.rewards = np.zeros((num_tables, MAX_PLAYERS), np.float32)
        self.dones = np.zeros(num_tables, np.bool_)
        self.seeds = np.zeros(num_tables, np.uint64)
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Start an episode at every table: the first of the seed given, or without one the table's next."""
        if seed is not None:
            self._master = checked_seed(seed)
            self._episodes[:] = -1
        self._episodes += 1
        _reset(self._games, self._master, self._episodes, self.seeds)
        self.rewards[:] = 0
        self.dones[:] = False
        self._observe()

    def step(self, actions: np.ndarray) -> None:
        """Play one card at every table.

        Args:
            actions: integers of shape (T,), for `players`.

        Raises:
            IllegalActionError: an action is illegal; no table has changed.
            ValueError: the shape or dtype is wrong.
        """
        actions = np.asarray(actions)
        if actions.shape != (self.num_tables,) or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions: {actions.dtype} of shape {actions.shape} are not integers of shape ({self.num_tables},)"
            )
        actions = np.ascontiguousarray(actions, np.int64)
        table = _step(
            self._games,
            actions,
            self._reward_code,
            self._master,
            self._episodes,
            self.seeds,
            self.rewards,
            self.dones,
            self.players,
            self.masks,
            self._fields,
            self.observations,
        )
        if table >= 0:
            message = illegal_action_message(self._games[table], int(actions[table]))
            raise IllegalActionError(f"table {table}: {message}")

    @property
    def views(self) -> np.ndarray:
        """The view of each table's seat to act, for agents: GAME of shape (T,), a copy."""
        views = copy_games(self._games)
        _hide_others(views)
        return views

    def views_of(self, tables: np.ndarray) -> np.ndarray:
        """The same of some tables only, at their price.

        Args:
            tables: int64 of shape (k,), numbers of tables.

        Returns:
            GAME of shape (k,), a copy.

        Raises:
            IndexError: there is no such table.
        """
        words = self._games.view(np.uint64).reshape(self.num_tables, -1)  # see copy_games
        views: np.ndarray = words[tables].view(GAME)[:, 0]
        _hide_others(views)
        return views

    @property
    def games(self) -> np.ndarray:
        """Every table's full record, all hands shown: GAME of shape (T,), a copy."""
        return copy_games(self._games)

    def hands_of(self, tables: np.ndarray) -> np.ndarray:
        """Every hand at some tables, the hand of the seat to act first: what a critic may know and a player may not.

        Args:
            tables: int64 (n,).

        Returns:
            float32 (n, 8, 83), like the field `hand` of an observation for each relative seat.
        """
        hands = np.empty((len(tables), MAX_PLAYERS, NUM_ACTIONS), np.float32)
        _encode_all_hands(self._games, tables, hands)
        return hands

    def state_dict(self) -> dict[str, np.ndarray]:
        """All that the env needs to go on from here, as arrays that `np.savez` takes without pickling."""
        return {
            "version": np.array(GAME_VERSION),
            "master": np.array(self._master),
            "episodes": self._episodes.copy(),
            "seeds": self.seeds.copy(),
            "games": self._games.view(np.uint8).reshape(self.num_tables, GAME.itemsize).copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` saved.

        Raises:
            ValueError: saved by another version, or by an env of other tables or rules.
        """
        if int(state["version"]) != GAME_VERSION:
            raise ValueError(f"the saved tables have version {state['version']}, this one reads {GAME_VERSION}")
        if state["games"].shape != (self.num_tables, GAME.itemsize):
            raise ValueError(f"{len(state['games'])} tables were saved, this env has {self.num_tables}")
        games = np.ascontiguousarray(state["games"]).view(GAME)[:, 0]
        for table, rules in enumerate(self.rules):
            if rules_of(games[table]) != rules:
                raise ValueError(f"table {table} was saved with other rules: {rules_of(games[table])}, not {rules}")
        if (games["one_round"] != (self.episode == "round")).any():
            raise ValueError(f"the tables were saved with another episode, not {self.episode!r}")
        self._games[:] = games
        self._master = np.uint64(state["master"])
        self._episodes[:] = state["episodes"]
        self.seeds[:] = state["seeds"]
        self.rewards[:] = 0
        self.dones[:] = False
        self._observe()

    def _observe(self) -> None:
        _observe(self._games, self.players, self.masks, self._fields, self.observations)
