"""Many tables at once, an agent for each seat: who waits is asked in batches, and every card is checked.

A decision's seed is derived from its table's stream, its seat and its move: a result depends neither on how many
tables are played at once nor on their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import NUM_CARDS
from fool_env.engine import hide, is_legal, next_round, play, start_game
from fool_env.errors import IllegalActionError
from fool_env.render import illegal_action_message
from fool_env.rng import derive
from fool_env.rules import MAX_PLAYERS, Rules
from fool_env.state import GAME, Record, new_games

from .agent import AnyAgent, OmniscientAgent

TableProgress = Callable[[float], None]
"""Called with the share of the tables' cards that is played, 0 to 1."""


@dataclass(frozen=True)
class Finished:
    """Tables that were played to their end.

    Attributes:
        games: the finished records, GAME (T,).
        moves: decisions of each agent, int64 (A,).
        cpu_seconds: this process's CPU time in each agent's choices, float64 (A,).
        rounds: every finished round's last record in the order they ended, GAME (R,); None unless asked for.
        round_tables: the table of each of these, int64 (R,); None unless asked for.
    """

    games: np.ndarray
    moves: np.ndarray
    cpu_seconds: np.ndarray
    rounds: np.ndarray | None = None
    round_tables: np.ndarray | None = None


def play_tables(
    agents: Sequence[AnyAgent],
    rules: Rules,
    episode: str,
    seating: np.ndarray,
    deal_seeds: np.ndarray,
    streams: np.ndarray,
    *,
    allow_omniscient: bool = False,
    keep_rounds: bool = False,
    progress: TableProgress | None = None,
    table_name: Callable[[int], str] = "table {}".format,
) -> Finished:
    """Play T tables to the end of their episode.

    Args:
        agents: A agents, which may sit at many tables and seats.
        episode: "round" or "game".
        seating: int8 (T, 8), the number of the agent in each seat; seats beyond the last player are not looked at.
        deal_seeds: uint64 (T,), the luck of each table's cards: equal seeds are equal deals.
        streams: uint64 (T,), from which the seeds of each table's decisions are derived.
        allow_omniscient: let agents play that see all hands.
        keep_rounds: return every round's last record too.
        table_name: what errors call a table, given its number.

    Raises:
        IllegalActionError: an agent chose an illegal card; the message names the agent, table and seat.
        ValueError: there are no tables or no such agents, shapes differ, an agent's actions have a wrong shape or
            type, or an agent sees all hands and that is not allowed.
    """
    _check(agents, rules, seating, deal_seeds, streams, allow_omniscient)
    games = new_games([rules], episode).repeat(len(seating))
    _deal(games, np.ascontiguousarray(deal_seeds))
    table_set = _Tables(agents, games, np.ascontiguousarray(seating), np.ascontiguousarray(streams), table_name)
    cards = len(games) * rules.num_cards
    rounds: list[np.ndarray] | None = [] if keep_rounds else None
    round_tables: list[np.ndarray] = []
    while True:
        played = _count_waiting(games, table_set.seating, rules.num_cards, table_set.waiting)
        if progress is not None:
            progress(played / cards)
        if not table_set.waiting.any():
            break
        ended = table_set.step()
        if rounds is not None:
            rounds.append(games[ended])
            round_tables.append(ended.copy())
        _next_rounds(games, ended)
    if rounds is None:
        return Finished(games, table_set.moves, table_set.cpu_seconds)
    return Finished(games, table_set.moves, table_set.cpu_seconds, np.concatenate(rounds), np.concatenate(round_tables))


def check_omniscient(agents: Sequence[AnyAgent], allow_omniscient: bool) -> None:
    """Refuse agents that see all hands where that is not allowed.

    Raises:
        ValueError: the message names the agent.
    """
    for agent in agents:
        if isinstance(agent, OmniscientAgent) and not allow_omniscient:
            raise ValueError(
                f"agent {agent.name!r} sees all hands: what it reaches is an upper bound, not a strength, "
                "and has to be asked for (allow_omniscient)"
            )


def _check(
    agents: Sequence[AnyAgent],
    rules: Rules,
    seating: np.ndarray,
    deal_seeds: np.ndarray,
    streams: np.ndarray,
    allow_omniscient: bool,
) -> None:
    check_omniscient(agents, allow_omniscient)
    tables = len(seating)
    for name, array, dtype, shape in (
        ("seating", seating, np.int8, (tables, MAX_PLAYERS)),
        ("deal_seeds", deal_seeds, np.uint64, (tables,)),
        ("streams", streams, np.uint64, (tables,)),
    ):
        if tables == 0 or array.dtype != dtype or array.shape != shape:
            raise ValueError(
                f"{name}: {array.dtype} of shape {array.shape} is not {np.dtype(dtype)} of {shape}, T at least 1"
            )
    seated = seating[:, : rules.num_players]
    if seated.min() < 0 or seated.max() >= len(agents):
        raise ValueError(f"seating: {seated.min()} to {seated.max()} are not within 0 to {len(agents) - 1}, the agents")


class _Tables:
    """The tables in play, and the arrays that every step fills anew."""

    def __init__(
        self,
        agents: Sequence[AnyAgent],
        games: np.ndarray,
        seating: np.ndarray,
        streams: np.ndarray,
        table_name: Callable[[int], str],
    ) -> None:
        self.seating = seating
        self.waiting = np.zeros(len(agents), np.int64)  # tables that wait for each agent
        self.moves = np.zeros(len(agents), np.int64)
        self.cpu_seconds = np.zeros(len(agents))
        self._agents = agents
        self._games = games
        self._streams = streams
        self._table_name = table_name
        self._tables = np.empty(len(games), np.int64)
        self._ended = np.empty(len(games), np.int64)
        self._seeds = np.empty(len(games), np.uint64)
        self._views = np.empty(len(games), GAME)

    def step(self) -> np.ndarray:
        """One card at every table that waits for the agent that most wait for: so few seats make large batches too.

        Returns:
            The tables whose round has ended, int64 (K,).
        """
        number = int(self.waiting.argmax())
        agent = self._agents[number]
        omniscient = isinstance(agent, OmniscientAgent)
        size = _gather(
            self._games, self.seating, number, self._streams, omniscient, self._tables, self._views, self._seeds
        )
        tables = self._tables[:size]
        start = time.process_time()
        actions = ask(agent, self._games, tables, self._views[:size], self._seeds[:size], self._table_name)
        self.cpu_seconds[number] += time.process_time() - start
        self.moves[number] += size
        ended = _play(self._games, tables, actions, self._ended)
        return self._ended[:ended]


def ask(
    agent: AnyAgent,
    games: np.ndarray,
    tables: np.ndarray,
    views: np.ndarray,
    seeds: np.ndarray,
    table_name: Callable[[int], str] = "table {}".format,
) -> np.ndarray:
    """An agent's choices at some tables, checked.

    Args:
        agent: whose turn it is there.
        games: GAME (T,), the records of all tables.
        tables: int64 (k,), numbers of tables.
        views: GAME (k,), what the agent sees of each.
        seeds: uint64 (k,), the luck of each choice.
        table_name: what errors call a table, given its number.

    Returns:
        The actions, int64 (k,).

    Raises:
        IllegalActionError: one is illegal; the message names the agent, table and seat.
        ValueError: they have a wrong shape or type.
    """
    choose = agent.act_on_records if isinstance(agent, OmniscientAgent) else agent.act
    actions = np.asarray(choose(views, seeds))
    if actions.shape != views.shape or not np.issubdtype(actions.dtype, np.integer):
        raise ValueError(
            f"agent {agent.name!r}: actions are {actions.dtype} of shape {actions.shape}, "
            f"not integers of shape {views.shape}"
        )
    actions = np.ascontiguousarray(actions, np.int64)
    illegal = first_illegal(games, tables, actions)
    if illegal >= 0:
        table = int(tables[illegal])
        raise IllegalActionError(
            f"agent {agent.name!r}, {table_name(table)}, seat {views['player'][illegal]}: "
            f"{illegal_action_message(games[table], int(actions[illegal]))}"
        )
    return actions


@kernel
def _deal(games: np.ndarray, deal_seeds: np.ndarray) -> None:
    for table in range(len(games)):
        start_game(games[table], deal_seeds[table])


@kernel
def _count_waiting(games: np.ndarray, seating: np.ndarray, num_cards: int, waiting: np.ndarray) -> int:
    """Count the tables that wait for each agent; returns how many cards are played, a finished table's all."""
    waiting[:] = 0
    played = 0
    for table in range(len(games)):
        game = games[table]
        if game.game_over:
            played += num_cards
        else:
            if game.one_round:  # how long a full game will be, nobody knows
                played += np.int64(game.num_plays)
            waiting[seating[table, game.player]] += 1
    return played


@kernel
def _gather(
    games: np.ndarray,
    seating: np.ndarray,
    agent: int,
    streams: np.ndarray,
    omniscient: bool,
    tables: np.ndarray,
    views: np.ndarray,
    seeds: np.ndarray,
) -> int:
    """Collect the tables that wait for an agent: their numbers, what it may see of them, and a seed each."""
    size = 0
    for table in range(len(games)):
        game = games[table]
        if game.game_over or seating[table, game.player] != agent:
            continue
        tables[size] = table
        views[size] = game
        if not omniscient:
            hide(views[size], game.player)
        seeds[size] = decision_seed(game, streams[table])
        size += 1
    return size


@kernel
def decision_seed(game: Record, stream: np.uint64) -> np.uint64:
    """The luck of the choice that a table waits for, derived from its stream, the seat to act and its move."""
    move = np.int64(game.num_rounds) * NUM_CARDS + np.int64(game.num_plays)
    return derive(derive(stream, game.player), move)


@kernel
def first_illegal(games: np.ndarray, tables: np.ndarray, actions: np.ndarray) -> int:
    """The first of some tables, as an index into them, at which the action is illegal, or -1."""
    for i in range(len(tables)):
        if not is_legal(games[tables[i]], actions[i]):
            return i
    return -1


@kernel
def _play(games: np.ndarray, tables: np.ndarray, actions: np.ndarray, ended: np.ndarray) -> int:
    """Play a card at each table; `ended` is filled with those whose round is over, their number is returned."""
    count = 0
    for i in range(len(tables)):
        game = games[tables[i]]
        play(game, actions[i])
        if game.round_over:
            ended[count] = tables[i]
            count += 1
    return count


@kernel
def _next_rounds(games: np.ndarray, ended: np.ndarray) -> None:
    for i in range(len(ended)):
        if not games[ended[i]].game_over:
            next_round(games[ended[i]])
