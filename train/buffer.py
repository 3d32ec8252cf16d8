"""SeatRollout: the decisions of many seats at many tables, credited seat by seat.

A *decision* is a play of the network's with more than one legal action. Forced plays are carried out without asking
it: no policy gradient can come of them, and in FOOL about a sixth of all plays are forced. A seat's transition runs
from one of its decisions to its next, whoever plays in between, with all reward that it is paid meanwhile.

A decision whose successor has not been seen when the rollout ends stays *open*: it is carried over with the reward
paid since, and trained after the next rollout, against the probability with which it was taken. So every decision is
trained exactly once, however long its seat sat out. Leaving open decisions out would be a few lines shorter but lose
one decision in nine at six players and 64 steps, those before a trick sat out more often than others.
"""

from __future__ import annotations

import numpy as np
import torch as th
from gymnasium import spaces

from fool_env._jit import kernel
from fool_env.rules import MAX_PLAYERS
from fool_env.train.decisions import DERIVED, Decisions, Intake
from fool_env.train.vec_env import NativeTables

NO_ROW = -1
UNDECIDED = -1
_PIECE = 512


@kernel
def find_decisions(
    masks: np.ndarray,
    opponents: np.ndarray,
    first_row: int,
    actions: np.ndarray,
    rows: np.ndarray,
    tables: np.ndarray,
    legal: np.ndarray,
) -> int:
    """Give each table at which the network faces a decision the next row, and play the forced ones.

    Fills `actions` of the forced tables, and UNDECIDED where an opponent (uint8[tables] `opponents`) has a choice;
    `rows` (each table's row, NO_ROW in both cases); and of each new row `tables` (its table) and `legal` (its number
    of legal actions).
    Returns the number of decisions, or -1 - table for a table without any legal action.
    """
    count = 0
    for table in range(len(masks)):
        num_legal = 0
        for action in range(masks.shape[1]):
            num_legal += masks[table, action]
        if num_legal == 0:
            return -1 - table
        if num_legal == 1:
            for action in range(masks.shape[1]):
                if masks[table, action]:
                    actions[table] = action
            rows[table] = NO_ROW
        elif opponents[table]:
            actions[table] = UNDECIDED
            rows[table] = NO_ROW
        else:
            rows[table] = first_row + count
            tables[count] = table
            legal[count] = num_legal
            count += 1
    return count


@kernel
def place_actions(rows: np.ndarray, first_row: int, chosen: np.ndarray, actions: np.ndarray) -> None:
    """Give each table that faces a decision the action chosen in its row."""
    for table in range(len(rows)):
        if rows[table] >= 0:
            actions[table] = chosen[rows[table] - first_row]


# What follows a seat's decision, as known so far on the way back through a rollout.
_SEEN, _REWARD, _VALUE, _ADVANTAGE = range(4)


@kernel
def _credit(
    row: int,
    seat: int,
    after: np.ndarray,
    values: np.ndarray,
    gamma: float,
    gae_lambda: float,
    advantages: np.ndarray,
    complete: np.ndarray,
    open_rows: np.ndarray,
    open_rewards: np.ndarray,
) -> None:
    """Credit the decision in `row` with what came after it, or leave it open if that has not been seen yet."""
    seen = after[seat, _SEEN] > 0.0
    advantage = 0.0
    if seen:
        delta = after[seat, _REWARD] + gamma * after[seat, _VALUE] - values[row]
        advantage = delta + gamma * gae_lambda * after[seat, _ADVANTAGE]
        advantages[row] = advantage
    else:
        open_rows[seat] = row
        open_rewards[seat] = after[seat, _REWARD]
    complete[row] = seen
    after[seat, _SEEN] = 1.0
    after[seat, _REWARD] = 0.0
    after[seat, _VALUE] = values[row]
    after[seat, _ADVANTAGE] = advantage


@kernel
def seat_advantages(
    rows: np.ndarray,
    players: np.ndarray,
    rewards: np.ndarray,
    dones: np.ndarray,
    values: np.ndarray,
    gamma: float,
    gae_lambda: float,
    open_rows: np.ndarray,
    open_rewards: np.ndarray,
    advantages: np.ndarray,
    complete: np.ndarray,
) -> None:
    """Generalised advantage estimation along each seat's own decisions; discounts count these, not others' plays.

    Args:
        rows, players, dones: [steps, tables]; rows are -1 where the play was forced.
        rewards: float32[steps, tables, seats], what each play paid to every seat.
        values: float32[rows], the network's values at the decisions.
        open_rows, open_rewards: [tables, seats], each seat's decision that has no successor yet (-1: none) and the
            reward since: on entry the last rollout's, on return this one's.
        advantages, complete: [rows], filled for the decisions whose successor has been seen.
    """
    steps, tables, seats = rewards.shape
    after = np.zeros((seats, 4), np.float64)
    carried_rows = np.zeros(seats, np.int64)
    carried_rewards = np.zeros(seats, np.float64)
    for table in range(tables):
        after[:] = 0.0
        carried_rows[:] = open_rows[table]
        carried_rewards[:] = open_rewards[table]
        open_rows[table] = NO_ROW
        open_rewards[table] = 0.0
        for step in range(steps - 1, -1, -1):
            if dones[step, table]:
                after[:] = 0.0
                after[:, _SEEN] = 1.0
            for seat in range(seats):
                after[seat, _REWARD] += rewards[step, table, seat]
            row = rows[step, table]
            if row != NO_ROW:
                seat = players[step, table]
                _credit(
                    row,
                    seat,
                    after,
                    values,
                    gamma,
                    gae_lambda,
                    advantages,
                    complete,
                    open_rows[table],
                    open_rewards[table],
                )
        for seat in range(seats):
            row = carried_rows[seat]
            if row != NO_ROW:
                after[seat, _REWARD] += carried_rewards[seat]
                _credit(
                    row,
                    seat,
                    after,
                    values,
                    gamma,
                    gae_lambda,
                    advantages,
                    complete,
                    open_rows[table],
                    open_rewards[table],
                )


class SeatRollout:
    """One rollout of `buffer_size` steps at `n_envs` tables; its memory is allocated at the first use and then kept.

    The constructor takes what Stable-Baselines3 gives a rollout buffer, whether the critic sees all hands, and the
    largest hand, of whose cards the network wants facts (0: it wants none). Decisions lie on `device`; what the credit
    needs besides (players, rewards, dones) stays on the CPU.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Box,
        action_space: spaces.Discrete,
        device: th.device | str = "cpu",
        *,
        gamma: float = 1.0,
        gae_lambda: float = 0.95,
        n_envs: int = 1,
        num_seats: int = MAX_PLAYERS,
        with_hands: bool = False,
        hand_size: int = 0,
    ) -> None:
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self.device = th.device(device)
        self.steps, self.tables, self.seats = buffer_size, n_envs, num_seats
        self._observation_size = int(np.prod(observation_space.shape))
        self._num_actions = int(action_space.n)
        self.capacity = (self.steps + self.seats) * self.tables  # rows
        self._hands_size = (num_seats - 1) * self._num_actions if with_hands else 0
        self._hand_size = hand_size
        self.size = 0  # rows in use, those carried over first
        self.carried = 0  # rows carried over
        self._step = 0
        self._allocated = False

    def _allocate(self) -> None:
        if self._allocated:
            return
        self._allocated = True
        capacity = self.capacity
        sizes = self._observation_size, self._num_actions, self._hands_size, self._hand_size
        self.decisions = Decisions.zeros(capacity, *sizes, self.device)
        self.intake = Intake(self.decisions, self.tables, staged=self.device.type != "cpu")
        self._tables = np.zeros(self.tables, np.int64)  # the table of each new decision
        self.legal = np.zeros(capacity, np.int16)  # the number of legal actions at each decision
        self.advantages = np.zeros(capacity, np.float32)
        self.complete = np.zeros(capacity, np.bool_)
        self.rows = np.zeros((self.steps, self.tables), np.int64)
        self.players = np.zeros((self.steps, self.tables), np.int64)
        self.rewards = np.zeros((self.steps, self.tables, self.seats), np.float32)
        self.dones = np.zeros((self.steps, self.tables), np.bool_)
        self.opponents = np.zeros((self.steps, self.tables), np.uint8)  # 1: the play was none of the network's
        self.open_rows = np.full((self.tables, self.seats), NO_ROW, np.int64)
        self.open_rewards = np.zeros((self.tables, self.seats), np.float64)

    def begin(self) -> None:
        """Start a rollout: the open decisions of the last one move to the first rows, the others are forgotten."""
        self._allocate()
        self._step = 0
        is_open = self.open_rows != NO_ROW
        rows = np.sort(self.open_rows[is_open])
        self.open_rows[is_open] = np.searchsorted(rows, self.open_rows[is_open])
        self.size = self.carried = len(rows)
        self.legal[: self.size] = self.legal[rows]
        # In pieces, which spares large temporaries; rows ascend, so a piece overwrites none that a later one needs.
        start = 0
        for piece in th.split(th.from_numpy(rows).to(self.device), _PIECE):
            for tensor in self.decisions:
                tensor[start : start + len(piece)] = tensor[piece]
            start += len(piece)

    def clear(self) -> None:
        """Forget everything, the open decisions too."""
        self._allocate()
        self.open_rows[:] = NO_ROW
        self.open_rewards[:] = 0.0
        self.begin()

    def add_decisions(self, tables: NativeTables, actions: np.ndarray, opponents: np.ndarray | None = None) -> slice:
        """Find the decisions that the tables face before a step.

        Args:
            tables: the tables.
            actions: int64[tables], receives the forced plays, and UNDECIDED where an opponent has a choice.
            opponents: bool[tables], where somebody else than the network is to act; None for nowhere.

        Returns:
            A row for each, for `take_in` and then for what is decided.

        Raises:
            ValueError: a table has no legal action.
        """
        first, step_rows, legal = self.size, self.rows[self._step], self.legal[self.size : self.size + self.tables]
        step_opponents = self.opponents[self._step]
        step_opponents[:] = 0 if opponents is None else opponents
        count = find_decisions(tables.masks, step_opponents, first, actions, step_rows, self._tables, legal)
        if count < 0:
            raise ValueError(
                f"table {-1 - count} has no legal action: its action mask is all zero, "
                f"although seat {tables.players[-1 - count]} is to act"
            )
        self.players[self._step] = tables.players
        self.size += count
        return slice(first, self.size)

    def take_in(self, tables: NativeTables, rows: slice, first: int) -> None:
        """Let some of the new rows, of which `first` is the first, hold what their tables show."""
        self.intake.take(tables, self._tables[rows.start - first : rows.stop - first], rows)

    def place_actions(self, rows: slice, actions: np.ndarray) -> None:
        """Write the actions chosen in the new rows into int64[tables] `actions`."""
        place_actions(self.rows[self._step], rows.start, self.decisions.actions[rows].cpu().numpy(), actions)

    def add_outcome(self, tables: NativeTables, reward_scale: float) -> None:
        """Take in what the step paid and which episodes it ended."""
        np.multiply(tables.rewards, reward_scale, out=self.rewards[self._step])
        self.dones[self._step] = tables.dones
        self._step += 1

    def finish(self) -> None:
        """Fill `advantages` and `complete`, and note which decisions stay open."""
        seat_advantages(
            self.rows,
            self.players,
            self.rewards,
            self.dones,
            self.decisions.values.cpu().numpy(),
            self.gamma,
            self.gae_lambda,
            self.open_rows,
            self.open_rewards,
            self.advantages,
            self.complete,
        )

    @property
    def trainable(self) -> np.ndarray:
        """The rows whose advantage is known: int64[decisions]."""
        return np.flatnonzero(self.complete[: self.size])

    def state_dict(self) -> dict[str, np.ndarray]:
        """What the next rollout takes over from this one: the open decisions."""
        self.begin()
        rows = slice(0, self.size)
        state = {name: tensor.cpu().numpy() for name, tensor in self._saved(rows).items()}
        return {
            **state,
            "legal": self.legal[rows],
            "open_rows": self.open_rows,
            "open_rewards": self.open_rewards,
        }

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue where `state_dict` was taken."""
        self._allocate()
        self.open_rows[:] = state["open_rows"]
        self.open_rewards[:] = state["open_rewards"]
        rows = slice(0, len(state["legal"]))
        self.legal[rows] = state["legal"]
        for name, tensor in self._saved(rows).items():
            tensor.copy_(th.from_numpy(state[name]))
        self.intake.derive(rows)

    def _saved(self, rows: slice) -> dict[str, th.Tensor]:
        """The columns that a checkpoint holds."""
        return {name: tensor for name, tensor in self.decisions.part(rows)._asdict().items() if name not in DERIVED}
