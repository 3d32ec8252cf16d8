"""A match: a candidate in every seat of a table of opponents, on the same deals, and what is counted there."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fool_env._jit import kernel
from fool_env.rng import checked_seed, derive
from fool_env.rules import MAX_PLAYERS, Rules
from fool_env.state import EPISODES
from fool_env.transcript import Transcript, write_transcripts

from .agent import AnyAgent, OmniscientAgent, make_agent, recipe
from .tables import Finished, TableProgress, check_omniscient, play_tables
from .workers import Batch

MIXED: Final = "+"
"""Between the names of a mixed table's agents."""

_CANDIDATE: Final = 0


class Match:
    """A candidate and its opponents, one table's rules, and the seed and purpose from which all luck derives.

    It is pickled with its agents' names, and unpickled with agents made anew.

    Args:
        purpose: TRAINING, SELECTION, REPORT or BENCHMARK of the arena.
        allow_omniscient: let agents play that see all hands.

    Raises:
        ValueError: there is no opponent, or a seed is none, or an agent sees all hands and that is not allowed.
    """

    def __init__(
        self,
        candidate: AnyAgent,
        opponents: Sequence[AnyAgent],
        rules: Rules,
        seed: int,
        purpose: int,
        allow_omniscient: bool = False,
    ) -> None:
        if not opponents:
            raise ValueError("opponents: at least one is needed")
        self.rules = rules
        self.agents = (candidate, *opponents)
        self.candidate = candidate.name
        self.opponent = MIXED.join(agent.name for agent in opponents)
        self._terms = (rules, seed, purpose, allow_omniscient)
        self._allow_omniscient = allow_omniscient
        self._seeds = {
            episode: _derive(_derive(checked_seed(seed), purpose), index) for index, episode in enumerate(EPISODES)
        }
        check_omniscient(self.agents, allow_omniscient)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_anew, ([recipe(agent) for agent in self.agents], *self._terms)

    @property
    def omniscient(self) -> bool:
        """Does any of its agents see all hands?"""
        return any(isinstance(agent, OmniscientAgent) for agent in self.agents)

    def arms(self, episode: str) -> int:
        """Tables for each deal: one for each seat of the candidate, and for rounds against one opponent a control."""
        return self.rules.num_players + (episode == "round" and len(self.agents) == 2)

    def seating(self, episode: str, first: int, count: int) -> np.ndarray:
        """Who sits where: int8 (count, arms, 8), 0 for the candidate, k for opponent k; see `arena.evaluate`."""
        num_players = self.rules.num_players
        deal = np.arange(first, first + count)[:, None, None]
        arm = np.arange(self.arms(episode))[:, None]
        seat = np.arange(MAX_PLAYERS)
        left_of_candidate = (seat - arm - 1) % num_players
        opponent = 1 + (left_of_candidate + deal) % (len(self.agents) - 1)
        # Arm n, the control, has the candidate in no seat.
        return np.where((seat == arm) & (seat < num_players), _CANDIDATE, opponent).astype(np.int8)

    def play(
        self,
        episode: str,
        first: int,
        count: int,
        progress: TableProgress | None = None,
        keep_rounds: bool = False,
    ) -> Finished:
        """Play deals number `first` to `first + count - 1` to their end.

        Returns:
            Their tables, deal by deal: arm k has the candidate in seat k, arm n is the control.

        Raises:
            IllegalActionError, ValueError: as `play_tables`; the message names the deal and the arm.
        """
        arms = self.arms(episode)
        deal_seeds, streams = self._luck(episode, first, count)
        return play_tables(
            self.agents,
            self.rules,
            episode,
            self.seating(episode, first, count).reshape(-1, MAX_PLAYERS),
            deal_seeds,
            streams,
            allow_omniscient=self._allow_omniscient,
            keep_rounds=keep_rounds,
            progress=progress,
            table_name=lambda table: f"{episode} {first + table // arms}, arm {table % arms}",
        )

    def transcripts(self, episode: str, first: int, count: int, finished: Finished) -> Iterator[Transcript]:
        """The transcripts of what was played from deal number `first` on, its rounds kept, table by table."""
        if finished.rounds is None or finished.round_tables is None:
            raise ValueError("finished: its rounds were not kept")
        deal_seeds, _ = self._luck(episode, first, count)
        seating = self.seating(episode, first, count).reshape(-1, MAX_PLAYERS)[:, : self.rules.num_players]
        for table, seed in enumerate(deal_seeds):
            names = [self.agents[agent].name for agent in seating[table]]
            yield Transcript.from_rounds(finished.rounds[finished.round_tables == table], int(seed), names)

    def _luck(self, episode: str, first: int, count: int) -> np.ndarray:
        """The seeds of tables' deals and of their decisions: uint64 (2, count * arms)."""
        seeds = np.empty((2, count * self.arms(episode)), np.uint64)
        _derive_seeds(self._seeds[episode], first, self.arms(episode), seeds)
        return seeds


def _made_anew(recipes: list[tuple[str, bool]], rules: Rules, seed: int, purpose: int, allow_omniscient: bool) -> Match:
    candidate, *opponents = (make_agent(*recipe) for recipe in recipes)
    return Match(candidate, opponents, rules, seed, purpose, allow_omniscient)


@dataclass(frozen=True)
class MatchJob:
    """A match's rounds, or its full games, as batches of whole numbers.

    Rounds: `own`, `others`, `tens`, `fool` and `tricks`, each (count,), are the candidate's points, the others', the
    rounds with an empty hand, the tricks as Fool and the tricks played, summed over its seats; `control`, (count,),
    the points of the control's seats, where there is one. Games: `better` and `equal`, (count, seats), are how many
    totals were above the candidate's and how many the same, its own among them. And `moves`, (agents,). If asked for,
    there are transcripts of all tables.
    """

    match: Match
    episode: str
    transcripts: bool = False

    @property
    def name(self) -> str:
        """The job's own among those of one task."""
        return f"{self.match.candidate} at {self.match.opponent}: {self.episode}s"

    def play(self, first: int, count: int, progress: TableProgress | None = None) -> Batch:
        """Play deals number `first` to `first + count - 1`.

        Raises:
            IllegalActionError, ValueError: as `Match.play`.
        """
        finished = self.match.play(self.episode, first, count, progress, keep_rounds=self.transcripts)
        games = finished.games.reshape(count, -1)
        counts = _count_round(games) if self.episode == "round" else _count_game(games)
        text = io.StringIO()
        if self.transcripts:
            write_transcripts(text, self.match.transcripts(self.episode, first, count, finished))
        return Batch(first, count, {**counts, "moves": finished.moves}, finished.cpu_seconds, text.getvalue())


def _count_round(finished: np.ndarray) -> dict[str, np.ndarray]:
    num_players = int(finished["num_players"][0, 0])
    seats = np.arange(num_players)
    points = finished["points"][:, :, :num_players].astype(np.int64)  # (deals, arm, seat)
    own = points[:, seats, seats].sum(axis=1)
    counts = {
        "own": own,
        "others": points[:, seats].sum(axis=(1, 2)) - own,
        "tens": finished["tens"][:, seats, seats].sum(axis=1, dtype=np.int64),
        "fool": finished["times_fool"][:, seats, seats].sum(axis=1, dtype=np.int64),
        "tricks": finished["num_tricks"][:, seats].sum(axis=1, dtype=np.int64),
    }
    if finished.shape[1] > num_players:
        counts["control"] = points[:, num_players].sum(axis=1)
    return counts


def _count_game(finished: np.ndarray) -> dict[str, np.ndarray]:
    num_players = int(finished["num_players"][0, 0])
    seats = np.arange(num_players)
    scores = finished["scores"][:, :, :num_players]  # (games, arm, seat)
    own = scores[:, seats, seats][:, :, None]
    return {"better": (scores > own).sum(axis=2), "equal": (scores == own).sum(axis=2)}


def _derive(seed: np.uint64, index: int) -> np.uint64:
    return np.uint64(derive(seed, index))  # compiled, it returns a Python int, which it would not take again


@kernel
def _derive_seeds(seed: np.uint64, first: int, arms: int, seeds: np.ndarray) -> None:
    """The seeds of deal after deal, the arms of a deal dealt alike, each with decisions of its own."""
    for table in range(seeds.shape[1]):
        seeds[0, table] = derive(seed, first + table // arms)
        # The cards hang under index 0.
        seeds[1, table] = derive(seeds[0, table], 1 + table % arms)
