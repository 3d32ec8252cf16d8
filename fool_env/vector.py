"""FoolVectorEnv: many tables at once, every seat a learner, all arrays filled in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._jit import kernel
from .cards import NUM_ACTIONS
from .engine import hide, is_legal, legal_mask, next_round, play, start_game
from .errors import IllegalActionError

from .observation import OBSERVATION, OBSERVATION_SIZE, encode_into
from .rewards import pay, reward_code
from .rng import checked_seed, derive
from .rules import MAX_PLAYERS, Rules
from .state import GAME, new_games, rules_of


@kernel
def _reset(games, seeds, episodes, master):
    for i in range(len(games)):
        episodes[i] = 0
        seeds[i] = derive(derive(master, i), 0)
        start_game(games[i], seeds[i])


@kernel
def _first_illegal(games, actions):
    for i in range(len(games)):
        if not is_legal(games[i], actions[i]):
            return i
    return -1


@kernel
def _step(games, actions, seeds, episodes, master, reward, rewards, dones, players, masks, observations, rows):
    for i in range(len(games)):
        game = games[i]
        play(game, actions[i])
        pay(game, reward, rewards[i])
        dones[i] = game.game_over
        if game.game_over:
            episodes[i] += 1
            seeds[i] = derive(derive(master, i), episodes[i])
            start_game(game, seeds[i])
        elif game.round_over:
            next_round(game)
        players[i] = game.player
        legal_mask(game, masks[i])
        encode_into(game, game.player, observations[i], rows[i])


@kernel
def _observe(games, players, masks, observations, rows):
    for i in range(len(games)):
        players[i] = games[i].player
        legal_mask(games[i], masks[i])
        encode_into(games[i], games[i].player, observations[i], rows[i])


@kernel
def _hide_others(games):
    for i in range(len(games)):
        hide(games[i], games[i].player)


class FoolVectorEnv:
    def __init__(self, num_tables, rules, episode="game", reward="points", seed=0):
        self.games = new_games([rules] * num_tables, episode)
        self._reward = reward_code(reward, episode)
        self._master = checked_seed(seed)
        T = num_tables
        self._fields = np.zeros(T, OBSERVATION)
        self.observations = self._fields.view(np.float32).reshape(T, OBSERVATION_SIZE)
        self.masks = np.zeros((T, NUM_ACTIONS), np.int8)
        self.players = np.zeros(T, np.int64)
        self.rewards = np.zeros((T, MAX_PLAYERS), np.float32)
        self.dones = np.zeros(T, np.bool_)
        self.seeds = np.zeros(T, np.uint64)
        self._episodes = np.zeros(T, np.int64)

    def reset(self):
        _reset(self.games, self.seeds, self._episodes, self._master)
        _observe(self.games, self.players, self.masks, self._fields, self.observations)

    def step(self, actions):
        i = _first_illegal(self.games, actions)
        if i >= 0:
            raise IllegalActionError("x")
        _step(self.games, actions, self.seeds, self._episodes, self._master, self._reward, self.rewards, self.dones,
              self.players, self.masks, self._fields, self.observations)
