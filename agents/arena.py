"""The arena: how strong is an agent? The same deals with the candidate in every seat, and intervals over deals.

One deal is played n times, the candidate in another seat each time (n *arms*), and once by the opponent alone, as
control. So good cards, and good places at the table, cancel out. Within one deal the tables go alike up to where the
agents differ; the deal is the unit of all statistics. Full games are rotated in the same way, without a control.

All luck is derived from (seed, purpose, episode, deal) for the cards and from (that, arm, seat, move) for a decision:
a result depends neither on how many tables are played at once nor on their order, and decisions in different arms
are independent even of one and the same agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from fool_env._jit import kernel
from fool_env.rng import checked_seed, derive
from fool_env.rules import MAX_PLAYERS, Rules
from fool_env.state import EPISODES

from .agent import AnyAgent, make_agent
from .intervals import Interval, mean_interval
from .tables import Finished, TableProgress, play_tables

TRAINING: Final = 0
SELECTION: Final = 1
REPORT: Final = 2
"""What deals are for. Those of different purposes differ, whatever the seeds: a checkpoint that was chosen for its
luck with the deals of selection gains nothing by it in a report."""

MAX_TABLES: Final = 8192
"""Tables that step together: enough for batches of thousands, few enough for the cache."""

Progress = Callable[[float, int], None]
"""Called with the deals and games done, in fractions, and their total."""

_CANDIDATE: Final = 0
_MIXED: Final = "+"


@dataclass(frozen=True)
class Evaluation:
    """A candidate's results against one opponent, or one mixed table; intervals are [low, high] at 95%.

    Attributes:
        opponent: the opponent's name; "a+b+c" for a mixed table.
        points: mean points a round (R13).
        relative: mean of the points minus the mean of the other seats'.
        gain: mean of the points minus the opponent's own at the same seat and deal, at a table without the candidate;
            None at a mixed table.
        tens: share of rounds in which the candidate scored for an empty hand.
        fool: share of the tricks of its rounds whose Fool it was.
        wins: mean share of won full games, 1/k where k share the win (R15), to be held against 1/n; None without games.
        placement: mean place in full games, 1 to n, equal totals sharing theirs; None without games.
    """

    opponent: str
    points: float
    points_ci: Interval | None
    relative: float
    relative_ci: Interval | None
    gain: float | None
    gain_ci: Interval | None
    tens: float
    fool: float
    wins: float | None
    wins_ci: Interval | None
    placement: float | None

    def to_dict(self) -> dict[str, Any]:
        """One entry of an evaluation's JSON: every field but the placement, intervals as lists."""
        values = asdict(self)
        del values["placement"]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def evaluate(
    candidate: AnyAgent,
    opponents: Sequence[AnyAgent],
    rules: Rules,
    *,
    deals: int = 1000,
    games: int = 0,
    seed: int = 0,
    purpose: int = REPORT,
    progress: Progress | None = None,
    max_tables: int = MAX_TABLES,
) -> Evaluation:
    """Play a candidate in every seat against one opponent, or at a mixed table of several.

    At a mixed table the opponents take the other seats in turn, starting to the candidate's left, and over and over
    if they are fewer than the seats; who comes first moves on by one from deal to deal.

    Args:
        deals: rounds' deals, each played n times, and once more as control against a single opponent.
        games: full games' seeds, each played n times.
        seed: 0 to 2**64 - 1; equal seeds of one purpose are equal deals.
        purpose: TRAINING, SELECTION or REPORT.
        max_tables: how many tables step together (results do not depend on it).

    Raises:
        IllegalActionError: an agent chose an illegal card; the message names the agent and the table.
        ValueError: fewer than one deal, negative games, no opponent, or a seed that is none.
    """
    if deals < 1 or games < 0 or max_tables < 1:
        raise ValueError(f"deals: {deals}, max_tables: {max_tables} (1 or more), games: {games} (0 or more)")
    match = Match(candidate, opponents, rules, seed, purpose)

    def in_blocks(episode: str, total: int, done_before: int) -> Iterator[np.ndarray]:
        size = max(1, max_tables // match.arms(episode))
        for first in range(0, total, size):
            done = done_before + first
            report = (
                None
                if progress is None
                else lambda share, done=done, n=min(size, total - first): progress(done + n * share, deals + games)
            )
            count = min(size, total - first)
            finished = match.play(episode, first, count, report)
            yield finished.games.reshape(count, -1)

    rounds = np.concatenate([_round_results(finished) for finished in in_blocks("round", deals, 0)])
    wins = np.concatenate([_game_results(finished) for finished in in_blocks("game", games, deals)] or [_NO_GAMES])
    return _summary(match.opponent, rounds, wins)


def make_opponents(spec: str, deterministic: bool = False) -> list[AnyAgent]:
    """The agents of "a", or of the mixed table "a+b+c", each a `make_agent` string.

    Raises:
        AgentError, OSError, ValueError: as `make_agent`.
    """
    return [make_agent(name, deterministic) for name in spec.split(_MIXED)]


class Match:
    """A candidate and its opponents, one table's rules, and the seed and purpose from which all luck derives.

    Raises:
        ValueError: there is no opponent, or a seed is none.
    """

    def __init__(
        self,
        candidate: AnyAgent,
        opponents: Sequence[AnyAgent],
        rules: Rules,
        seed: int = 0,
        purpose: int = REPORT,
        allow_omniscient: bool = False,
    ) -> None:
        if not opponents:
            raise ValueError("opponents: at least one is needed")
        self.rules = rules
        self.allow_omniscient = allow_omniscient
        self.opponent = _MIXED.join(agent.name for agent in opponents)
        self._agents = (candidate, *opponents)
        self._seeds = {
            episode: _derive(_derive(checked_seed(seed), purpose), index) for index, episode in enumerate(EPISODES)
        }

    def arms(self, episode: str) -> int:
        """Tables for each deal: one for each seat of the candidate, and for rounds against one opponent a control."""
        return self.rules.num_players + (episode == "round" and len(self._agents) == 2)

    def seating(self, episode: str, first: int, count: int) -> np.ndarray:
        """Who sits where: int8 (count, arms, 8), 0 for the candidate, k for opponent k; see `evaluate`."""
        num_players = self.rules.num_players
        deal = np.arange(first, first + count)[:, None, None]
        arm = np.arange(self.arms(episode))[:, None]
        seat = np.arange(MAX_PLAYERS)
        left_of_candidate = (seat - arm - 1) % num_players
        opponent = 1 + (left_of_candidate + deal) % (len(self._agents) - 1)
        # Arm n, the control, has the candidate in no seat.
        return np.where((seat == arm) & (seat < num_players), _CANDIDATE, opponent).astype(np.int8)

    def play(self, episode: str, first: int, count: int, progress: TableProgress | None = None) -> Finished:
        """Play deals number `first` to `first + count - 1` to their end.

        Returns:
            Their tables, deal by deal: arm k has the candidate in seat k, arm n is the control.
        """
        arms = self.arms(episode)
        deal_seeds, streams = np.empty((2, count * arms), np.uint64)
        _derive_seeds(self._seeds[episode], first, arms, deal_seeds, streams)
        return play_tables(
            self._agents,
            self.rules,
            episode,
            self.seating(episode, first, count).reshape(-1, MAX_PLAYERS),
            deal_seeds,
            streams,
            allow_omniscient=self.allow_omniscient,
            progress=progress,
            table_name=lambda table: f"{episode} {first + table // arms}, arm {table % arms}",
        )


def _derive(seed: np.uint64, index: int) -> np.uint64:
    return np.uint64(derive(seed, index))  # compiled, it returns a Python int, which it would not take again


@kernel
def _derive_seeds(seed: np.uint64, first: int, arms: int, deal_seeds: np.ndarray, streams: np.ndarray) -> None:
    """The seeds of deal after deal, the arms of a deal dealt alike, each with a stream of its own."""
    for table in range(len(streams)):
        deal_seeds[table] = derive(seed, first + table // arms)
        # The cards hang under index 0.
        streams[table] = derive(deal_seeds[table], 1 + table % arms)


# --- the statistics

_POINTS, _RELATIVE, _GAIN, _TENS, _FOOL, _TRICKS = range(6)
_WINS, _PLACEMENT = range(2)
_NO_GAMES = np.empty((0, 2))


def _round_results(finished: np.ndarray) -> np.ndarray:
    """The candidate's means over its seats, a row for each deal: float64 (deals, 6); gain is NaN without control."""
    num_players = int(finished["num_players"][0, 0])
    seats = np.arange(num_players)
    # Whole numbers up to one division, so that equal play comes out as exactly equal.
    points = finished["points"][:, :, :num_players].astype(np.int64)  # (deals, arm, seat)
    own = points[:, seats, seats].sum(axis=1)
    others = points[:, seats].sum(axis=(1, 2)) - own
    control = points[:, num_players:].sum(axis=(1, 2))
    has_control = finished.shape[1] > num_players
    results = np.empty((len(finished), 6))
    results[:, _POINTS] = own / num_players
    results[:, _RELATIVE] = ((num_players - 1) * own - others) / (num_players * (num_players - 1))
    results[:, _GAIN] = (own - control) / num_players if has_control else np.nan
    results[:, _TENS] = finished["tens"][:, seats, seats].mean(axis=1)
    results[:, _FOOL] = finished["times_fool"][:, seats, seats].mean(axis=1)
    results[:, _TRICKS] = finished["num_tricks"][:, seats].mean(axis=1)
    return results


def _game_results(finished: np.ndarray) -> np.ndarray:
    """The candidate's means over its seats, a row for each game's seed: float64 (games, 2)."""
    num_players = int(finished["num_players"][0, 0])
    seats = np.arange(num_players)
    scores = finished["scores"][:, :, :num_players]  # (games, arm, seat)
    own = scores[:, seats, seats][:, :, None]
    better, equal = (scores > own).sum(axis=2), (scores == own).sum(axis=2)
    results = np.empty((len(finished), 2))
    results[:, _WINS] = ((better == 0) / equal).mean(axis=1)
    results[:, _PLACEMENT] = (1 + better + (equal - 1) / 2).mean(axis=1)
    return results


def _summary(opponent: str, rounds: np.ndarray, games: np.ndarray) -> Evaluation:
    points, points_ci = mean_interval(rounds[:, _POINTS])
    relative, relative_ci = mean_interval(rounds[:, _RELATIVE])
    gain, gain_ci = (None, None) if np.isnan(rounds[0, _GAIN]) else mean_interval(rounds[:, _GAIN])
    wins, wins_ci = mean_interval(games[:, _WINS]) if len(games) else (None, None)
    return Evaluation(
        opponent=opponent,
        points=points,
        points_ci=points_ci,
        relative=relative,
        relative_ci=relative_ci,
        gain=gain,
        gain_ci=gain_ci,
        tens=float(rounds[:, _TENS].mean()),
        fool=float(rounds[:, _FOOL].sum() / rounds[:, _TRICKS].sum()),
        wins=wins,
        wins_ci=wins_ci,
        placement=float(games[:, _PLACEMENT].mean()) if len(games) else None,
    )
