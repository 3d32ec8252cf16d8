"""Trained agents: a checkpoint's network as an agent, read without unpickling and without Stable-Baselines3.

A checkpoint is the zip that `fool_env.train` writes. Only its `fool.json` and the tensors of its `policy.pth` are
read, the latter with `weights_only=True`, so a stranger's checkpoint cannot run code.
"""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch as th

from fool_env._jit import kernel
from fool_env.cards import NUM_ACTIONS
from fool_env.engine import legal_mask, legal_mask_of
from fool_env.errors import RulesError
from fool_env.observation import OBSERVATION_SIZE, OBSERVATION_VERSION, encode
from fool_env.rng import output
from fool_env.rules import MAX_PLAYERS, Rules
from fool_env.state import EPISODES, GAME, copy_games, new_games

from .inference import RowNetwork
from .network import KINDS, PolicyNetwork

CHECKPOINT_FORMAT: Final = 2
"""Changes whenever the meaning of what `fool.json` says does."""

SAMPLE: Final = "sample"
GREEDY: Final = "greedy"
CHOICES: Final = (SAMPLE, GREEDY)
"""How a trained agent chooses: by the network's probabilities, or the card of its highest output."""

DESCRIPTION_FILE: Final = "fool.json"
WEIGHTS_FILE: Final = "policy.pth"


class CheckpointError(ValueError):
    """A file is no checkpoint that can be played here; the message says why."""


@kernel
def _legal_masks(views: np.ndarray, masks: np.ndarray) -> None:
    for i in range(len(views)):
        legal_mask(views[i], masks[i])


@kernel
def _choose(logits: np.ndarray, masks: np.ndarray, seeds: np.ndarray, deterministic: bool, actions: np.ndarray) -> None:
    """The likeliest legal action of each row, or one sampled by inversion with the row's seed."""
    for i in range(len(actions)):
        best = -1
        for action in range(logits.shape[1]):
            if masks[i, action] and (best < 0 or logits[i, action] > logits[i, best]):
                best = action
        actions[i] = best
        if deterministic:
            continue
        total = 0.0
        for action in range(logits.shape[1]):
            if masks[i, action]:
                total += np.exp(np.float64(logits[i, action]) - np.float64(logits[i, best]))
        left = np.float64(output(seeds[i]) >> np.uint64(11)) * 2.0**-53 * total
        for action in range(logits.shape[1]):
            if masks[i, action]:
                left -= np.exp(np.float64(logits[i, action]) - np.float64(logits[i, best]))
                if left < 0.0:
                    actions[i] = action
                    break


class NeuralAgent:
    """A network that plays; a choice depends on its view and its seed alone.

    Args:
        network: whose weights it plays with, as they are now; see `load`.
        rules: those that it was trained for, for each number of players one; it plays at no other table.
        episode: what it was trained on last. A network trained on single rounds has never seen totals, so it is shown
            none when it plays whole games; one trained on whole games is shown a single round as a game's first.
        name: its `make_agent` string.
        deterministic: play the likeliest card instead of sampling.

    Raises:
        ValueError: there are no rules, or several for one number of players.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        rules: Sequence[Rules],
        episode: str = "round",
        name: str = "network",
        deterministic: bool = False,
    ) -> None:
        self.network = network
        self.rules = tuple(rules)
        self.episode = episode
        self.name = name
        self.deterministic = deterministic
        self._logits_of = RowNetwork(network)
        if not rules or len({table.num_players for table in rules}) < len(rules):
            raise ValueError(f"rules: {list(rules)} are not those of one or more different numbers of players")
        self._learnt = np.zeros(MAX_PLAYERS + 1, GAME)  # by number of players
        for table, record in zip(rules, new_games(list(rules)), strict=True):
            self._learnt[table.num_players] = record

    def load(self, weights: Mapping[str, np.ndarray]) -> None:
        """Play on with other weights: those of a `network.state_dict()`, as arrays."""
        self.network.load_state_dict({name: th.from_numpy(array) for name, array in weights.items()})
        self._logits_of = RowNetwork(self.network)

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Choose a legal card for the seat to act in each view: GAME (B,), uint64 (B,) -> int64 (B,).

        Raises:
            CheckpointError: a table has other rules than the network was trained for.
        """
        self._check_rules(views)
        masks = np.zeros((len(views), NUM_ACTIONS), np.int8)
        _legal_masks(views, masks)
        actions: np.ndarray = masks.argmax(axis=1)
        free = np.flatnonzero(np.count_nonzero(masks, axis=1) > 1)  # forced plays need no network
        chosen = np.empty(len(free), np.int64)
        _choose(self._logits(views[free]), masks[free], seeds[free], self.deterministic, chosen)
        actions[free] = chosen
        return actions

    def estimates(self, view: np.ndarray, seed: np.uint64) -> dict[str, np.ndarray]:
        """How likely it is to play each legal action when it samples: "probability".

        Args:
            view: GAME of shape (1,), the view of its seat to act.
            seed: without effect: the network gives the same for the same view.

        Returns:
            float64 of shape (k,) for the k legal actions, ascending.

        Raises:
            CheckpointError: the table has other rules than the network was trained for.
        """
        (probabilities,) = self.probabilities(view)
        return {"probability": probabilities[legal_mask_of(view[0]) == 1]}

    def probabilities(self, views: np.ndarray) -> np.ndarray:
        """How likely it is to play each action when it samples: GAME (B,) -> float64 (B, 83), 0 for illegal ones.

        Raises:
            CheckpointError: a table has other rules than the network was trained for.
        """
        self._check_rules(views)
        masks = np.zeros((len(views), NUM_ACTIONS), np.int8)
        _legal_masks(views, masks)
        logits = np.where(masks, self._logits(views).astype(np.float64), -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def _logits(self, views: np.ndarray) -> np.ndarray:
        views = copy_games(views)
        if self.episode == "round":
            views["scores"] = 0
            views["tens"] = 0
        views["one_round"] = self.episode == "round"
        return self._logits_of(encode(views))

    def _check_rules(self, views: np.ndarray) -> None:
        for name in Rules.__dataclass_fields__:  # num_players comes first
            learnt = self._learnt[name][views["num_players"]]
            wrong = views[name] != learnt
            if wrong.any():
                row = int(np.argmax(wrong.reshape(len(views), -1).any(axis=1)))
                numbers = " or ".join(str(table.num_players) for table in self.rules)
                raise CheckpointError(
                    f"{self.name} was trained for other rules: {name} "
                    f"{numbers if name == 'num_players' else learnt[row]}, but at this table it is {views[row][name]}"
                )


def read_description(path: str | Path) -> dict[str, Any]:
    """What a checkpoint says about itself, its `fool.json`.

    Raises:
        CheckpointError: the file is missing, damaged, no checkpoint, or one that this version cannot play.
    """
    text = _read(path, DESCRIPTION_FILE)
    try:
        description = json.loads(text)
        found = (description["format"], description["observation_version"], description["observation_size"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: its {DESCRIPTION_FILE} does not say what it should: {error!r}") from None
    here = (CHECKPOINT_FORMAT, OBSERVATION_VERSION, OBSERVATION_SIZE)
    for what, theirs, ours in zip(
        ("checkpoint format", "observation version", "observation size"), found, here, strict=True
    ):
        if theirs != ours:
            raise CheckpointError(f"{path} has {what} {theirs}, this version of fool_env has {ours}")
    return description


def read_weights(path: str | Path) -> dict[str, th.Tensor]:
    """The tensors of a checkpoint's policy by name, on the CPU; nothing is unpickled.

    Raises:
        CheckpointError: there are none, or something else is with them.
    """
    weights = _read(path, WEIGHTS_FILE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles that are refused all the same
            state: dict[str, th.Tensor] = th.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(
            f"{path}: its {WEIGHTS_FILE} holds something else than tensors, perhaps code, and is not loaded ({reason})"
        ) from None
    return state


def load_agent(path: str | Path, deterministic: bool = False) -> NeuralAgent:
    """The agent in a checkpoint, on the CPU.

    Args:
        path: the checkpoint.
        deterministic: play the likeliest card; so does, without being told, whoever was trained to choose greedily.

    Raises:
        CheckpointError: as `read_description`; or its weights are not plain tensors that fit the network it describes.
    """
    description = read_description(path)
    state = read_weights(path)
    try:
        rules = [Rules.from_dict(table) for table in description["rules"]]
        hidden, episode = list(map(int, description["network"]["hidden"])), description["episode"]
        kind = description["network"]["kind"]
        choice = description.get("choice", SAMPLE)
        if kind not in KINDS:
            raise ValueError(f"there is no network {kind!r}")
        if episode not in EPISODES:
            raise ValueError(f"there is no episode {episode!r}")
        if choice not in CHOICES:
            raise ValueError(f"there is no choice {choice!r}")
    except (RulesError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: its {DESCRIPTION_FILE} does not say what it should: {error!r}") from None
    try:
        network = PolicyNetwork.from_policy(kind, hidden, state)
    except (RuntimeError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{path}: its weights do not fit hidden layers {hidden}: {error}") from None
    try:
        return NeuralAgent(network, rules, episode, str(path), deterministic or choice == GREEDY)
    except ValueError as error:
        raise CheckpointError(f"{path}: its {DESCRIPTION_FILE} does not say what it should: {error!r}") from None


def _read(path: str | Path, member: str) -> bytes:
    """One file of a checkpoint."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(member)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file") from None
    except KeyError:
        raise CheckpointError(
            f"{path} has no {member}: it is no checkpoint of fool_env's trainer, or a truncated one"
        ) from None
    except (zipfile.BadZipFile, EOFError) as error:
        raise CheckpointError(f"{path} is not a zip file, or a damaged one ({error}): no checkpoint") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from None
