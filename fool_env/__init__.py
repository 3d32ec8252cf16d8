"""The trick-taking card game FOOL as a reinforcement-learning environment."""

import gymnasium

from . import fool_v0
from .errors import IllegalActionError, RulesError
from .game import Game
from .rules import Rules
from .vector import FoolVectorEnv

__all__ = ["FoolVectorEnv", "Game", "IllegalActionError", "Rules", "RulesError", "fool_v0"]

# By name, because fool_env itself does without agents.
_SINGLE_AGENT = "fool_env.agents.single_agent"
gymnasium.register(
    "Fool-v0",
    entry_point=f"{_SINGLE_AGENT}:FoolEnv",
    vector_entry_point=f"{_SINGLE_AGENT}:FoolSingleAgentVectorEnv",
)
