"""Tables at which one seat learns and agents hold the others: they play on until it is the learner's turn again.

Scripted agents play within the kernel; any others, networks and search, are asked in batches over all tables that wait
for them. What happens at a table depends on its seed and the learner's actions there, not on the other tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import NUM_ACTIONS
from fool_env.engine import held_penalty, hide, is_legal, legal_mask, next_round, play, start_game
from fool_env.observation import OBSERVATION, OBSERVATION_SIZE, encode_into
from fool_env.rewards import WIN, pay, reward_code
from fool_env.rng import below, derive, output
from fool_env.rules import MAX_PLAYERS, Rules
from fool_env.state import GAME, Record, new_games

from .agent import Agent, OmniscientAgent, make_agent
from .cautious import choose_cautious
from .scripted import (
    CautiousAgent,
    HighestAgent,
    LowestAgent,
    RandomAgent,
    choose_highest,
    choose_lowest,
    choose_random,
)
from .tables import ask, decision_seed, first_illegal

ANY_SEAT: Final = -1
NOBODY_WAITED_FOR: Final = -1

_RANDOM, _LOWEST, _HIGHEST, _CAUTIOUS = range(4)
_SCRIPTED: Final[dict[type, int]] = {
    RandomAgent: _RANDOM,
    LowestAgent: _LOWEST,
    HighestAgent: _HIGHEST,
    CautiousAgent: _CAUTIOUS,
}
_FIRST_AGENT: Final = 8
"""From here on, a kind of player is the number of an agent that is no kernel."""

# Numbers of seeds below a table's own, beyond those of its episodes.
_SEAT_LUCK = 1 << 40
_OTHERS_LUCK = 1 << 41


class LearnerTables:
    """T tables with one learner each.

    The arrays below are the same objects for the life of the tables, and `start` and `play` overwrite them.

    Args:
        num_tables: T.
        rules: of all tables.
        episode: "game" (R14) or "round".
        reward: "points", "relative" or "win" (see `fool_env.rewards`).
        opponents: an agent, or its `make_agent` string, that holds all other seats; or one for each, from the
            learner's left neighbour on.
        seat: the learner's; None for one by lot, and the next one in each further episode.

    Attributes:
        games: GAME (T,), the records.
        seats: int64 (T,), the learner's seat.
        seeds: uint64 (T,), the seed of each episode: `Game(rules, int(seeds[i]), episode)` deals the same.
        observations: float32 (T, OBSERVATION_SIZE), what the learner sees, or saw last.
        masks: int8 (T, 83), its legal actions; all zero where the episode is over.
        rewards: float64 (T,), what it was paid from its last decision on.
        over: bool (T,), whether the episode is over.
        illegal: bool (T,), whether it ended with an illegal action.

    Raises:
        RulesError: no rules.
        AgentError, OSError, ValueError: there is no such episode, reward, seat or opponent; not as many opponents as
            other seats; or one that sees all hands.
    """

    def __init__(
        self,
        num_tables: int,
        rules: Rules,
        episode: str,
        reward: str,
        opponents: str | Agent | Sequence[str | Agent],
        seat: int | None,
    ) -> None:
        self.rules = rules
        self.opponents = make_others(opponents, rules)
        self._reward_code = reward_code(reward, episode)
        self._seat = _checked_seat(seat, rules)
        self._agents, self._kinds = _kinds_of(self.opponents)
        self.games = new_games([rules], episode).repeat(num_tables)
        self.seats = np.zeros(num_tables, np.int64)
        self.seeds = np.zeros(num_tables, np.uint64)
        self._fields = np.zeros(num_tables, OBSERVATION)
        self.observations = self._fields.view(np.float32).reshape(num_tables, OBSERVATION_SIZE)
        self.masks = np.zeros((num_tables, NUM_ACTIONS), np.int8)
        self.rewards = np.zeros(num_tables)
        self.over = np.zeros(num_tables, np.bool_)
        self.illegal = np.zeros(num_tables, np.bool_)
        self._masters = np.zeros(num_tables, np.uint64)
        self._episodes = np.full(num_tables, -1, np.int64)
        self._waited_for = np.zeros(num_tables, np.int64)
        self._paid = np.zeros(MAX_PLAYERS, np.float32)
        # Of the tables that wait for an agent.
        self._tables = np.empty(num_tables, np.int64)
        self._views = np.empty(num_tables, GAME)
        self._luck = np.empty(num_tables, np.uint64)

    def seed(self, masters: np.ndarray) -> None:
        """Let each table's next episode be that of a seed, uint64 (T,), and further ones follow from it."""
        self._masters[:] = masters
        self._episodes[:] = -1

    def start(self, tables: np.ndarray, game: np.void | None = None) -> None:
        """Begin the next episodes of some tables.

        Args:
            tables: int64 (k,), their numbers.
            game: a record to begin with, in place of the one that the seed deals, at all of them.
        """
        self._episodes[tables] += 1
        _deal(self.games, tables, self._masters, self._episodes, self._seat, self.seats, self.seeds)
        if game is not None:
            self.games[tables] = game
        self.rewards[tables] = 0.0
        self.illegal[tables] = False
        self._play_on(tables)

    def next_seed(self, table: int) -> int:
        """The seed of a table's next episode."""
        return int(episode_seed(self._masters[table], self._episodes[table] + 1))

    def view(self, table: int) -> np.void:
        """What the learner may know of a table, a GAME record."""
        view = self.games[table : table + 1].copy()
        _hide(view, self.seats[table])
        return view[0]

    def first_illegal(self, actions: np.ndarray) -> int:
        """The first table at which an action, int64 (T,), is illegal, or -1."""
        return int(first_illegal(self.games, np.arange(len(self.games)), actions))

    def play(self, actions: np.ndarray) -> None:
        """Play the learner's card at every table, none of which may be over, and go on to its next turn.

        An illegal action ends the episode at the cost of the cards held, a game to win at the loss of it.

        Args:
            actions: int64 (T,).
        """
        _play(self.games, actions, self._reward_code, self.seats, self._paid, self.rewards, self.illegal)
        self._play_on(np.arange(len(self.games)))

    def _play_on(self, tables: np.ndarray) -> None:
        """Let the others play at some tables, until everywhere it is the learner's turn or over; then observe."""
        kinds, waited_for = self._kinds, self._waited_for
        waited_for[:] = NOBODY_WAITED_FOR
        arguments = self.seats, self.seeds, kinds, self._reward_code, self._paid, self.illegal, self.rewards, waited_for
        _others_play(self.games, tables, *arguments)
        while self._agents:
            waiting = np.bincount(waited_for + 1, minlength=len(self._agents) + 1)[1:]
            number = int(waiting.argmax())
            size = int(waiting[number])
            if size == 0:
                break
            asked, views, luck = self._tables[:size], self._views[:size], self._luck[:size]
            _gather(self.games, waited_for, number, self.seeds, asked, views, luck)
            actions = ask(self._agents[number], self.games, asked, views, luck)
            _play_at(self.games, asked, actions, self._reward_code, self.seats, self._paid, self.rewards)
            _others_play(self.games, asked, *arguments)
        _observe(self.games, tables, self.seats, self.illegal, self.over, self.masks, self._fields, self.observations)


def make_others(opponents: str | Agent | Sequence[str | Agent], rules: Rules) -> tuple[Agent, ...]:
    """An agent for each seat but the learner's, from its left neighbour on.

    Raises:
        AgentError, OSError, ValueError: see `LearnerTables`.
    """
    others = rules.num_players - 1
    given = [opponents] * others if isinstance(opponents, (str, Agent)) else list(opponents)
    if len(given) != others:
        raise ValueError(f"opponents: {len(given)} are given for {others} other seats; one alone takes them all")
    made = {one: make_agent(one) for one in given if isinstance(one, str)}
    agents = []
    for one in given:
        agent = made[one] if isinstance(one, str) else one
        if isinstance(agent, OmniscientAgent) or not isinstance(agent, Agent):
            why = "sees all hands" if isinstance(agent, OmniscientAgent) else "is no agent: it has no act(views, seeds)"
            raise ValueError(f"opponents: {getattr(agent, 'name', agent)!r} {why}")
        agents.append(agent)
    return tuple(agents)


def _kinds_of(opponents: Sequence[Agent]) -> tuple[list[Agent], np.ndarray]:
    """The different agents that are no kernels, and who plays at each seat from the learner's left on: int64 (8,)."""
    agents: list[Agent] = []
    kinds = np.zeros(MAX_PLAYERS, np.int64)
    for place, agent in enumerate(opponents, start=1):
        code = _SCRIPTED.get(type(agent))
        if code is None:
            if agent not in agents:
                agents.append(agent)
            code = _FIRST_AGENT + agents.index(agent)
        kinds[place] = code
    return agents, kinds


def _checked_seat(seat: int | None, rules: Rules) -> int:
    if seat is None:
        return ANY_SEAT
    if isinstance(seat, bool) or not isinstance(seat, (int, np.integer)) or not 0 <= seat < rules.num_players:
        raise ValueError(f'seat: {seat!r} is neither "random" nor one of 0 to {rules.num_players - 1}')
    return int(seat)


# --- kernels


@kernel
def episode_seed(master: np.uint64, episode: int) -> np.uint64:
    """The seed of a table's episode of this number: the first is the table's own."""
    return master if episode == 0 else derive(master, episode)


@kernel
def _deal(
    games: np.ndarray,
    tables: np.ndarray,
    masters: np.ndarray,
    episodes: np.ndarray,
    seat: int,
    seats: np.ndarray,
    seeds: np.ndarray,
) -> None:
    for table in tables:
        game, master = games[table], masters[table]
        seeds[table] = episode_seed(master, episodes[table])
        start_game(game, seeds[table])
        seats[table] = seat
        if seat == ANY_SEAT:
            lot = below(output(derive(master, _SEAT_LUCK)), game.num_players)
            seats[table] = (lot + episodes[table]) % game.num_players


@kernel
def _play(
    games: np.ndarray,
    actions: np.ndarray,
    reward: int,
    seats: np.ndarray,
    paid: np.ndarray,
    rewards: np.ndarray,
    illegal: np.ndarray,
) -> None:
    for table in range(len(games)):
        game = games[table]
        rewards[table] = 0.0
        if is_legal(game, actions[table]):
            rewards[table] = _lay(game, actions[table], seats[table], reward, paid)
        else:
            illegal[table] = True
            rewards[table] = 0.0 if reward == WIN else -held_penalty(game, seats[table])


@kernel
def _play_at(
    games: np.ndarray,
    tables: np.ndarray,
    actions: np.ndarray,
    reward: int,
    seats: np.ndarray,
    paid: np.ndarray,
    rewards: np.ndarray,
) -> None:
    for i in range(len(tables)):
        table = tables[i]
        rewards[table] += _lay(games[table], actions[i], seats[table], reward, paid)


@kernel
def _lay(game: Record, action: int, seat: int, reward: int, paid: np.ndarray) -> float:
    """Play a card, deal again if the round is over, and return what that pays to a seat."""
    play(game, action)
    if not game.round_over:
        return 0.0
    pay(game, reward, paid)
    if not game.game_over:
        next_round(game)
    return paid[seat]


@kernel
def _others_play(
    games: np.ndarray,
    tables: np.ndarray,
    seats: np.ndarray,
    seeds: np.ndarray,
    kinds: np.ndarray,
    reward: int,
    paid: np.ndarray,
    illegal: np.ndarray,
    rewards: np.ndarray,
    waited_for: np.ndarray,
) -> None:
    """Let kernels play for their seats; `waited_for` is the number of the agent that a table then waits for, or -1."""
    for table in tables:
        waited_for[table] = NOBODY_WAITED_FOR
        game, seat = games[table], seats[table]
        while not (game.game_over or illegal[table] or game.player == seat):
            kind = kinds[(game.player - seat) % game.num_players]
            if kind >= _FIRST_AGENT:
                waited_for[table] = kind - _FIRST_AGENT
                break
            rewards[table] += _lay(game, _choose(game, kind, seeds[table]), seat, reward, paid)


@kernel
def _choose(game: Record, kind: int, seed: np.uint64) -> int:
    """What a scripted agent plays; given a record it chooses as from its view."""
    if kind == _HIGHEST:
        return choose_highest(game, seed)
    if kind == _CAUTIOUS:
        return choose_cautious(game, seed)
    if kind == _LOWEST:
        return choose_lowest(game, seed)
    return choose_random(game, decision_seed(game, derive(seed, _OTHERS_LUCK)))


@kernel
def _gather(
    games: np.ndarray,
    waited_for: np.ndarray,
    agent: int,
    seeds: np.ndarray,
    tables: np.ndarray,
    views: np.ndarray,
    luck: np.ndarray,
) -> None:
    """Collect the tables that wait for an agent: their numbers, what it may see of them, and a seed each."""
    size = 0
    for table in range(len(games)):
        if waited_for[table] == agent:
            tables[size] = table
            views[size] = games[table]
            hide(views[size], games[table].player)
            luck[size] = decision_seed(games[table], derive(seeds[table], _OTHERS_LUCK))
            size += 1


@kernel
def _hide(games: np.ndarray, seat: int) -> None:
    hide(games[0], seat)


@kernel
def _observe(
    games: np.ndarray,
    tables: np.ndarray,
    seats: np.ndarray,
    illegal: np.ndarray,
    over: np.ndarray,
    masks: np.ndarray,
    observations: np.ndarray,
    rows: np.ndarray,
) -> None:
    for table in tables:
        game = games[table]
        over[table] = game.game_over or illegal[table]
        if over[table]:
            masks[table] = 0
        else:
            legal_mask(game, masks[table])
        encode_into(game, seats[table], observations[table], rows[table])
