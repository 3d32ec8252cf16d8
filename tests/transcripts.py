"""What the tests of transcripts share: games played at random, and transcripts as text."""

from __future__ import annotations

import io
import random

import numpy as np

from fool_env import Game
from fool_env.state import GAME
from fool_env.transcript import Transcript, read_transcripts, write_transcripts


def played(game: Game, moves: int | None = None, seed: int = 0) -> tuple[np.ndarray, list[Game]]:
    """Play any legal cards; the records of the rounds, and the game before each play and after the last."""
    rng = random.Random(seed)
    records, states = [], [game.clone()]
    while not game.game_over and moves != len(states) - 1:
        game.play(rng.choice(game.legal_actions()))
        if game.round_over:
            records.append(game.record)
            if not game.game_over:
                game.next_round()
        states.append(game.clone())
    if not game.game_over:
        records.append(game.record)
    return np.array(records, GAME), states


def text_of(*transcripts: Transcript) -> str:
    stream = io.StringIO()
    write_transcripts(stream, transcripts)
    return stream.getvalue()


def read(text: str) -> list[Transcript]:
    return read_transcripts(io.StringIO(text))
