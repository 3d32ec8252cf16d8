"""What an agent is, and `make_agent`: from a name, as configs and command lines have it, to the agent."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from .scripted import CautiousAgent, HighestAgent, LowestAgent, RandomAgent
from .search import CheatAgent, IsmctsAgent, PimcAgent
from .shipped import SHIPPED_PREFIX, shipped_names, shipped_path

if TYPE_CHECKING:
    from .neural import NeuralAgent


@runtime_checkable
class Agent(Protocol):
    """Whatever chooses cards; batched, so that a network and a rule look alike.

    A choice depends on its view and its seed alone, not on the batch that it is made in.
    """

    @property
    def name(self) -> str:
        """The agent's `make_agent` string."""

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Choose a legal card for the seat to act in each view.

        Args:
            views: GAME of shape (B,), each the view of its seat to act (`views["player"]`).
            seeds: uint64 of shape (B,), the luck of each choice.

        Returns:
            The actions, int64 of shape (B,).
        """


@runtime_checkable
class OmniscientAgent(Protocol):
    """Whatever chooses cards knowing all hands and the luck to come: an upper bound, not an opponent.

    Only the arena plays with it, and only where it is asked for. A choice depends on its record and seed alone.
    """

    @property
    def name(self) -> str:
        """The agent's `make_agent` string."""

    @property
    def omniscient(self) -> Literal[True]:
        """Says so."""

    def act_on_records(self, games: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Choose a legal card for the seat to act in each record.

        Args:
            games: GAME of shape (B,), full records, which it leaves as they are.
            seeds: uint64 of shape (B,), the luck of each choice.

        Returns:
            The actions, int64 of shape (B,).
        """


AnyAgent: TypeAlias = Agent | OmniscientAgent


class AgentError(ValueError):
    """There is no such agent, or it has no such option; the message says what there is."""


def _make_pimc(
    worlds: int = 0,
    rollout: str = "",
    objective: str = "points",
    prior: float = 2.0,
    budget_ms: float = 0.0,
    policy: str = "",
) -> PimcAgent:
    network = _load_trained(policy) if policy else None
    return PimcAgent(worlds, rollout, objective, prior, budget_ms, network)


# Each factory's keyword parameters are the agent's options, and an option is of the type of its default.
_FACTORIES: Final[dict[str, Callable[..., AnyAgent]]] = {
    "random": RandomAgent,
    "lowest": LowestAgent,
    "highest": HighestAgent,
    "cautious": CautiousAgent,
    "pimc": _make_pimc,
    "ismcts": IsmctsAgent,
    "cheat": CheatAgent,
}
_CHECKPOINT_SUFFIX = ".zip"


def make_agent(spec: str, deterministic: bool = False) -> AnyAgent:
    """The agent that a string names.

    Args:
        spec: "random", "lowest", "highest" or "cautious"; `name:option=value,option=value` where the agent has
            options; "pretrained:6p", a trained agent that comes with this package; or the path of a trained agent's
            checkpoint, "runs/6p/final.zip".
        deterministic: a trained agent plays its likeliest card instead of a sampled one; the others take no notice.

    Raises:
        AgentError: there is no such agent or option; or it is a trained one, and PyTorch is not installed.
        OSError, ValueError: the checkpoint cannot be read.
    """
    if spec.startswith(SHIPPED_PREFIX):
        return _load_trained(spec, deterministic)
    name, _, options = spec.partition(":")
    factory = _FACTORIES.get(name)
    if factory is None and spec.endswith(_CHECKPOINT_SUFFIX):
        return _load_trained(spec, deterministic)
    if factory is None:
        kinds = [*_FACTORIES, SHIPPED_PREFIX + "NAME"]
        raise AgentError(
            f'there is no agent "{name}"{_nearest(name, kinds)}; agents are {", ".join(kinds)}, '
            f'and checkpoints by path, such as "runs/6p/final{_CHECKPOINT_SUFFIX}"'
        )
    values = _parse_options(name, options, inspect.signature(factory).parameters)
    try:
        return factory(**values)
    except ValueError as error:
        raise AgentError(f'agent "{spec}": {error}') from None


def recipe(agent: AnyAgent) -> tuple[str, bool]:
    """What `make_agent` takes to make this agent anew, for another process.

    Raises:
        ValueError: its name does not make it.
    """
    deterministic = bool(getattr(agent, "deterministic", False))
    try:
        made = make_agent(agent.name, deterministic)
    except (OSError, ValueError):
        made = None
    if type(made) is not type(agent):
        raise ValueError(
            f"agent {agent.name!r} is not what make_agent makes of that name, so only one process can play it"
        )
    return agent.name, deterministic


def _load_trained(spec: str, deterministic: bool = False) -> NeuralAgent:
    """The trained agent that comes with this package, or that lies in a file.

    Raises:
        AgentError, OSError, ValueError: as `make_agent`.
    """
    path: str | Path = spec
    if spec.startswith(SHIPPED_PREFIX):
        name, there = spec.removeprefix(SHIPPED_PREFIX), shipped_names()
        if name not in there:
            have = f"there are {', '.join(there)}" if there else "this installation has none"
            raise AgentError(f'there is no pretrained agent "{name}"{_nearest(name, there)}; {have}')
        path = shipped_path(name)
    try:
        from .neural import load_agent  # brings in torch, which the other agents do without
    except ModuleNotFoundError as error:
        raise AgentError(
            f'agent "{spec}" is a trained network, which needs PyTorch ({error}): pip install "fool-env[train]"'
        ) from None
    agent = load_agent(path, deterministic=deterministic)
    agent.name = spec
    return agent


def _parse_options(name: str, options: str, parameters: Any) -> dict[str, Any]:
    """The values of "option=value,option=value", each of the type of its parameter's default."""
    values: dict[str, Any] = {}
    for option in options.split(",") if options else []:
        key, equals, text = option.partition("=")
        if key not in parameters:
            has = f"its options are {', '.join(parameters)}" if parameters else "it takes none"
            raise AgentError(f'agent "{name}" has no option "{key}"{_nearest(key, parameters)}; {has}')
        if not equals or key in values:
            raise AgentError(f'agent "{name}": write each option once, as {key}=value, not "{options}"')
        kind = type(parameters[key].default)
        try:
            values[key] = kind(text)
        except ValueError:
            raise AgentError(f'agent "{name}": {key}={text} is not {kind.__name__}') from None
    return values


def _nearest(word: str, words: Any) -> str:
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f' (do you mean "{near[0]}"?)' if near else ""
