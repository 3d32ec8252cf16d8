"""ToyTables: a game with a vector env's interface, in which nobody is paid on their own turn unless it is the last.

Each seat acts twice an episode, in an order drawn anew for every half. It sees a signal, and earns 1 for answering
with the action of that number, but is paid when the next seat plays. Whoever credits the seat that plays at the time
of payment learns noise. Some plays are forced, so that a seat's decisions are not a fixed number of steps apart.
"""

from __future__ import annotations

import numpy as np

NUM_SEATS = 6
NUM_ACTIONS = 83
OBSERVATION_SIZE = 356
NUM_SIGNALS = 5


class ToyTables:
    def __init__(self, num_tables: int, seed: int = 0) -> None:
        self.num_tables = num_tables
        self.rng = np.random.default_rng(seed)
        self.observations = np.zeros((num_tables, OBSERVATION_SIZE), np.float32)
        self.masks = np.zeros((num_tables, NUM_ACTIONS), np.int8)
        self.players = np.zeros(num_tables, np.int64)
        self.rewards = np.zeros((num_tables, 8), np.float32)
        self.dones = np.zeros(num_tables, np.bool_)
        self.signals = np.zeros(num_tables, np.int64)
        self.order = np.zeros((num_tables, 2 * NUM_SEATS), np.int64)
        self.turns = np.zeros(num_tables, np.int64)
        self.owed = np.zeros((num_tables, 8), np.float32)
        self.reset()

    def reset(self) -> None:
        for table in range(self.num_tables):
            self._start(table)

    def step(self, actions: np.ndarray) -> None:
        assert self.masks[np.arange(self.num_tables), actions].all(), "an illegal action was played"
        for table, action in enumerate(actions):
            self.rewards[table] = self.owed[table]
            self.owed[table] = 0
            earned = float(action == self.signals[table])
            self.turns[table] += 1
            self.dones[table] = self.turns[table] == 2 * NUM_SEATS
            if self.dones[table]:
                self.rewards[table, self.players[table]] += earned
                self._start(table)
            else:
                self.owed[table, self.players[table]] = earned
                self._deal(table)

    def _start(self, table: int) -> None:
        self.turns[table] = 0
        self.order[table] = np.concatenate([self.rng.permutation(NUM_SEATS), self.rng.permutation(NUM_SEATS)])
        self._deal(table)

    def _deal(self, table: int) -> None:
        self.players[table] = self.order[table, self.turns[table]]
        self.signals[table] = self.rng.integers(NUM_SIGNALS)
        self.observations[table] = 0
        self.observations[table, self.signals[table]] = 1
        self.masks[table] = 0
        forced = self.rng.random() < 0.2
        legal = [self.signals[table]] if forced else [*range(NUM_SIGNALS), self.rng.integers(NUM_SIGNALS, NUM_ACTIONS)]
        self.masks[table, legal] = 1
