"""Who sits where at the tables of an opponent pool."""

from __future__ import annotations

import numpy as np
import pytest

from fool_env.train.seating import LEARNER, draw_tables, fill_seeds, seat_opponents


@pytest.mark.parametrize("players", [3, 4, 5, 6, 7, 8])
def test_each_seat_is_the_learners_equally_often_and_members_are_drawn_by_weight(players):
    tables, members = np.arange(50), np.array([0, 3, 5])
    occupants = np.zeros((50, 8), np.int64)
    seats, drawn = np.zeros((50, 8)), np.zeros(6)
    for episode in range(20 * players):
        episodes = np.full(50, episode)
        cumulative = np.array([0.2, 0.2, 1.0])  # 0, 5 and never 3
        seat_opponents(tables, np.full(50, players), episodes, np.uint64(3), members, cumulative, occupants)
        seats += occupants == LEARNER
        drawn += np.bincount(occupants[occupants != LEARNER], minlength=6)
    assert (seats[:, :players] == 20).all() and (seats[:, players:] == 20 * players).all()
    assert drawn[[1, 2, 3, 4]].sum() == 0
    share, count = drawn[0] / drawn.sum(), drawn.sum()
    assert count == 50 * 20 * players * (players - 1)
    assert abs(share - 0.2) < 4 * (0.2 * 0.8 / count) ** 0.5
    # Neither all tables alike nor one episode like the next.
    assert len(np.unique(occupants[:, :players], axis=0)) > 5


def test_seats_of_one_episode_are_drawn_independently():
    occupants = np.zeros((2000, 8), np.int64)
    tables = np.arange(2000)
    half = np.array([0.5, 1.0])
    seat_opponents(tables, np.full(2000, 3), np.zeros(2000, np.int64), np.uint64(0), np.arange(2), half, occupants)
    pairs = np.sort(occupants[:, :3], axis=1)[:, 1:].sum(axis=1)
    assert abs((pairs == 1).mean() - 0.5) < 0.05


def test_tables_are_drawn_by_lot():
    drawn = draw_tables(1000, 300, np.uint64(1))
    assert len(set(drawn)) == 300 and (np.diff(drawn) > 0).all()
    assert abs(drawn.mean() - 500) < 60 and 100 < (drawn % 2).sum() < 200
    assert (drawn != draw_tables(1000, 300, np.uint64(2))).any()
    np.testing.assert_array_equal(draw_tables(10, 10, np.uint64(1)), np.arange(10))


def test_the_luck_of_a_choice_is_of_its_table_and_play_alone():
    def luck(tables: list[int], play: int, seed: int = 1) -> list[int]:
        seeds = np.zeros(len(tables), np.uint64)
        fill_seeds(np.array(tables), play, np.uint64(seed), seeds)
        return seeds.tolist()

    first, second, third = luck([5, 7, 9], 3)
    assert luck([9, 5], 3) == [third, first] and luck([7], 3) == [second]
    others = luck([5, 7, 9], 4) + luck([5, 7, 9], 3, seed=2)
    assert len({first, second, third, *others}) == 9
