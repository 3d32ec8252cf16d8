"""The trick-taking card game FOOL as a reinforcement-learning environment."""

from . import fool_v0
from .errors import IllegalActionError, RulesError
from .game import Game
from .rules import Rules
from .vector import FoolVectorEnv

__all__ = ["FoolVectorEnv", "Game", "IllegalActionError", "Rules", "RulesError", "fool_v0"]
