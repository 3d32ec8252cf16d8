"""The way of decisions from the tables to the buffer: in one copy where that lies elsewhere, with facts about cards."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from learners import fool_tables, make_learner

from fool_env import FoolVectorEnv, Rules
from fool_env.agents.facts import card_facts, fill_card_facts
from fool_env.cards import NUM_ACTIONS
from fool_env.train.decisions import Decisions, Intake, Staging, largest_hand


def random_columns(rows: int, generator: th.Generator) -> list[th.Tensor]:
    """Of all types and shapes that there are, the bytes of a row no multiple of any type's size."""
    return [
        th.rand(rows, 7, generator=generator),
        th.rand(rows, 3, 5, generator=generator),
        th.rand(rows, 10, generator=generator) < 0.5,
        th.randint(256, (rows, 0), generator=generator, dtype=th.uint8),
        th.randint(256, (rows, 13), generator=generator, dtype=th.uint8),
        th.randint(-9, 9, (rows,), generator=generator),
    ]


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_rows_arrive_as_they_were_written(rows):
    generator = th.Generator().manual_seed(rows)
    columns, sent = random_columns(20, generator), random_columns(rows, generator)
    before = [column.clone() for column in columns]
    staging = Staging(columns, 8)
    for place, column in zip(staging.here(rows), sent, strict=True):
        place.copy_(column)
    staging.send([column[4 : 4 + rows] for column in columns])
    for column, expected, rest in zip(columns, sent, before, strict=True):
        assert th.equal(column[4 : 4 + rows], expected)
        assert th.equal(column[:4], rest[:4]) and th.equal(column[4 + rows :], rest[4 + rows :])


def test_a_step_goes_over_in_one_copy(monkeypatch):
    columns = random_columns(8, th.Generator().manual_seed(0))
    staging = Staging(columns, 8)
    copies = []
    copy = th.Tensor.copy_

    def counted(target: th.Tensor, source: th.Tensor, non_blocking: bool = False) -> th.Tensor:
        if source.untyped_storage().data_ptr() == staging._here.untyped_storage().data_ptr():
            copies.append(source.numel())
        return copy(target, source, non_blocking)

    monkeypatch.setattr(th.Tensor, "copy_", counted)
    staging.send(columns)
    assert copies == [staging._end(8)]


@pytest.mark.parametrize(("kind", "critic"), [("mlp", "view"), ("facts", "full")])
def test_training_by_staging_is_training_without(kind, critic):
    """The way of a GPU's buffer, here on the CPU."""

    def train(staged: bool) -> tuple[Decisions, list[th.Tensor]]:
        learner = make_learner(fool_tables(6, 32), kind=kind, critic=critic, n_steps=40, shards=1, learning_rate=1e-2)
        learner.rollout_buffer.clear()
        decisions = learner.rollout_buffer.decisions
        if staged:
            learner.rollout_buffer.intake = Intake(decisions, 32, staged=True)
        for _ in learner.iterations(3 * 40 * 32):
            pass
        return decisions, learner._parameters

    plain, staged = train(False), train(True)
    for one, other in zip([*plain[0], *plain[1]], [*staged[0], *staged[1]], strict=True):
        assert th.equal(one, other)


def test_the_buffer_holds_the_facts_that_the_network_would_look_up():
    learner = make_learner(fool_tables(6, 32), kind="facts", n_steps=40)
    next(learner.iterations(1))
    buffer = learner.rollout_buffer
    used = buffer.decisions.part(slice(0, buffer.size))
    actions, facts = card_facts(used.observations.numpy())
    width = actions.shape[1]
    assert used.held.shape[1] == largest_hand(learner.tables) == 12 >= width > 10
    np.testing.assert_array_equal(used.held[:, :width], actions)
    np.testing.assert_array_equal(used.facts[:, :width], facts)
    assert (used.held[:, width:] == NUM_ACTIONS).all() and not used.facts[:, width:].any()
    stored = learner.network(used.observations, used.hands, used.cards)
    for one, other in zip(stored, learner.network(used.observations, used.hands), strict=True):
        th.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_hands_at_tables_of_several_sizes_fit():
    rules = [Rules.official(num_players) for num_players in (4, 8)] * 3
    learner = make_learner(FoolVectorEnv(6, rules, "round", "relative", seed=1), kind="facts", n_steps=30)
    assert largest_hand(learner.tables) == max(rules[0].hand_size, rules[1].hand_size)
    next(learner.iterations(1))


def test_more_cards_than_there_is_room_for_are_refused():
    observations = fool_tables(6, 3).observations
    with pytest.raises(ValueError, match="observation 0 holds more than 11 cards"):
        fill_card_facts(observations, np.zeros((3, 11), np.uint8), np.zeros((3, 11, 14), np.float32))


def test_what_a_network_without_facts_keeps_of_cards_is_nothing():
    learner = make_learner(fool_tables(6, 8), kind="mlp")
    next(learner.iterations(1))
    assert learner.rollout_buffer.decisions.facts.numel() == 0 and learner.rollout_buffer.decisions.cards is None
