"""Mixed tables: who sits where, and what the figures are, by hand."""

from __future__ import annotations

from collections import Counter
from math import lcm

import numpy as np
import pytest

from fool_env.agents.intervals import mean_interval
from fool_env.agents.mixed import MixedResults, line_ups, rotations

SEED = np.uint64(7)


@pytest.mark.parametrize(("agents", "seats"), [(2, 6), (4, 6), (5, 4), (6, 6), (11, 8), (8, 4), (3, 3)])
def test_all_agents_sit_equally_often(agents: int, seats: int) -> None:
    block = lcm(agents, seats) // seats
    circles = line_ups(SEED, 0, 3 * block, agents, seats)
    assert circles.shape == (3 * block, seats)
    for deals in range(1, 3 * block + 1):
        counts = np.bincount(circles[:deals].ravel(), minlength=agents)
        assert counts.max() - counts.min() <= 1
        if deals % block == 0:
            assert counts.max() == counts.min()
    for circle in circles:
        at_table = Counter(circle.tolist())
        assert len(at_table) == min(agents, seats)
        assert max(at_table.values()) - min(at_table.values()) <= 1


@pytest.mark.parametrize("agents", [5, 8])
def test_line_ups_are_by_lot(agents: int) -> None:
    """Each pair meets in as many of 1,600 deals as any other, and each sits as often to the left of each."""
    circles = line_ups(SEED, 0, 1600, agents, 4)
    together, left_of = np.zeros((2, agents, agents), int)
    for circle in circles:
        together[np.ix_(circle, circle)] += 1
        left_of[circle, np.roll(circle, -1)] += 1
    apart = ~np.eye(agents, dtype=bool)
    pairs = agents * (agents - 1)
    # Up to 4.5 times the square root of the mean, for 56 numbers that scatter no more than Poisson's.
    assert together[apart] == pytest.approx(1600 * 12 / pairs, abs=4.5 * (1600 * 12 / pairs) ** 0.5)
    assert left_of[apart] == pytest.approx(1600 * 4 / pairs, abs=4.5 * (1600 * 4 / pairs) ** 0.5)
    assert (line_ups(SEED, 0, 20, agents, 4) != line_ups(np.uint64(8), 0, 20, agents, 4)).any()


def test_line_ups_go_on_where_fewer_deals_end() -> None:
    whole = line_ups(SEED, 0, 12, 5, 6)
    assert (np.concatenate([line_ups(SEED, 0, 7, 5, 6), line_ups(SEED, 7, 5, 5, 6)]) == whole).all()


def test_a_guest_takes_one_seat_in_every_deal_and_the_others_the_rest_in_turn() -> None:
    circles = line_ups(SEED, 0, 60, 3, 6, guest=True)
    assert ((circles == 3).sum(axis=1) == 1).all()
    assert np.bincount(circles.ravel()).tolist() == [100, 100, 100, 60]
    assert len(set(circles.argmax(axis=1).tolist())) == 6, "the guest's place in the circle is by lot"


def test_rotations_bring_everybody_to_every_seat_with_the_same_neighbours() -> None:
    seating = rotations(np.array([[4, 0, 2, 1]]))
    assert seating.tolist() == [[[4, 0, 2, 1], [0, 2, 1, 4], [2, 1, 4, 0], [1, 4, 0, 2]]]


# --- figures by hand: agents 0, 1 and 2 at two deals of three seats, then agent 0 twice against agent 1

SEATING = rotations(np.array([[0, 1, 2], [0, 0, 1]]))
RESULTS = np.array([[[10, -2, -8], [10, 10, -5], [0, 0, 0]], [[3, 0, 0], [6, 0, -6], [0, 0, 9]]])


def test_figures_by_hand() -> None:
    """Deal 0: agent 0 has 10 in seat 0, then -5 in seat 2, then 0 in seat 1. Deal 1: seats (0, 1), (0, 2), (1, 2)."""
    assert SEATING.tolist() == [[[0, 1, 2], [1, 2, 0], [2, 0, 1]], [[0, 0, 1], [0, 1, 0], [1, 0, 0]]]
    mixed = MixedResults(SEATING, RESULTS)
    assert [mixed.deals(agent) for agent in range(3)] == [2, 2, 1]
    assert mixed.points(0)[0] == pytest.approx(((10 - 5 + 0) + (3 + 0 + 6 - 6 + 0 + 9)) / 9)
    assert mixed.points(2) == (pytest.approx((-8 + 10 + 0) / 3), None), "one deal has no interval"
    # Minus the mean of the two others: 10 + 5, -5 - 10, 0; then 3 - 0, 0 - 1.5, 6 + 3, -6 - 3, 0 - 4.5, 9 - 0.
    assert mixed.relative(0)[0] == pytest.approx(((15 - 15 + 0) + (3 - 1.5 + 9 - 9 - 4.5 + 9)) / 9)
    # Wins of agent 0: deal 0: yes, no, a third of three; deal 1: yes, no, yes, no, no, yes.
    assert mixed.wins(0)[0] == pytest.approx((1 + 0 + 1 / 3 + 3) / 9)
    # Its places: first, last, a third each; then first; half second, half third; first, last; half each; first.
    assert mixed.places(0) == pytest.approx([(1 + 1 / 3 + 3) / 9, (1 / 3 + 1) / 9, (1 + 1 / 3 + 2) / 9])
    assert sum(mixed.places(1)) == pytest.approx(1)


def test_intervals_are_over_deals() -> None:
    """Agent 1 takes three seats in either deal: its interval is that of the two deals' means."""
    mixed = MixedResults(SEATING, RESULTS)
    means = np.array([(-2 + 10 + 0) / 3, (0 + 0 + 0) / 3])
    assert mixed.points(1) == (pytest.approx(means.mean()), pytest.approx(mean_interval(means)[1]))


def test_intervals_of_agents_that_take_more_seats_in_some_deals_cover_the_truth() -> None:
    """Four agents at tables of six: two sit twice. A deal has luck of its own, so seats are no independent units."""
    rng = np.random.default_rng(4)
    covered = 0
    for seed in range(400):
        seating = rotations(line_ups(np.uint64(seed), 0, 30, 4, 6))
        luck = rng.normal(0, 5, (30, 1, 4)) * np.ones((1, 6, 1))
        results = np.take_along_axis(luck, seating, axis=2) + rng.normal(3, 5, seating.shape)
        _, interval = MixedResults(seating, np.rint(100 * results)).points(seed % 4)
        covered += interval[0] < 300 < interval[1]
    assert covered / 400 == pytest.approx(0.95, abs=0.033), "three standard deviations"


def test_seats_by_hand() -> None:
    mixed = MixedResults(SEATING, RESULTS)
    absolute, left = mixed.by_seat(np.zeros(2, np.int64)), mixed.by_seat(np.array([2, 0]))
    first_deal, second_deal = [20 / 3, 8 / 3, -13 / 3], [9 / 3, 0, 3 / 3]
    assert [points for (points, _), _ in absolute] == pytest.approx(np.mean([first_deal, second_deal], axis=0))
    turned = [first_deal[2], first_deal[0], first_deal[1]]
    assert [points for (points, _), _ in left] == pytest.approx(np.mean([turned, second_deal], axis=0))
    # Relative of seat 0: 10 + 5, 10 - 2.5, 0; 3 - 0, 6 + 3, 0 - 4.5.
    assert absolute[0][1][0] == pytest.approx(((15 + 7.5 + 0) / 3 + (3 + 9 - 4.5) / 3) / 2)
    assert sum(relative for _, (relative, _) in left) == pytest.approx(0)
