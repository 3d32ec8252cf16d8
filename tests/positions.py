"""What the tests of the search agents share: positions before a choice, and many decisions at once."""

from __future__ import annotations

import numpy as np
from variants import PRESETS

from fool_env import FoolVectorEnv, Game
from fool_env.agents.agent import make_agent
from fool_env.state import GAME, copy_games


def position(preset: str, seed: int, plays: int, episode: str = "game") -> Game:
    """A game after some random plays, before a choice."""
    game, luck = Game(PRESETS[preset], seed, episode), np.random.default_rng(seed)
    while plays > 0 or len(game.legal_actions()) == 1:
        game.play(int(luck.choice(game.legal_actions())))
        if game.round_over:
            game.next_round()
        plays -= 1
    return game


def view_of(game: Game) -> np.ndarray:
    return np.array([game.view(game.player)], GAME)


def decisions(preset: str, count: int, episode: str = "game") -> tuple[np.ndarray, np.ndarray]:
    """Views from random play at many tables, all moves of a round among them, and a seed for each."""
    env, bot = FoolVectorEnv(count, PRESETS[preset], episode=episode, seed=3), make_agent("random")
    views = copy_games(env.views)
    for step in range(70):
        later = np.arange(count) * 70 // count > step
        views[later] = env.views[later]
        env.step(bot.act(env.views, env.seeds + np.uint64(step)))
    return views, np.arange(count, dtype=np.uint64) + np.uint64(99)
