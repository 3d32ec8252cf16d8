"""Deep Monte-Carlo: what it aims at, what it may choose, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from learners import constant, fool_tables, make_q_learner
from stable_baselines3.common.utils import LinearSchedule
from toy import NUM_SIGNALS, ToyTables

from fool_env import FoolVectorEnv, Game, Rules
from fool_env.train.montecarlo import epsilon_greedy

# --- what is aimed at


class RandomTables(ToyTables):
    """The toy's signals, with seats, payments and ends all by chance."""

    def step(self, actions: np.ndarray) -> None:
        assert self.masks[np.arange(self.num_tables), actions].all(), "an illegal action was played"
        self.rewards[:] = self.rng.integers(-80, 10, self.rewards.shape) / 4
        self.dones[:] = self.rng.random(self.num_tables) < 0.04
        for table in range(self.num_tables):
            self.turns[table] = self.rng.integers(12)
            self._deal(table)


class Diary:
    """Notes every play at some tables, and which row of the buffer each decision is in."""

    def __init__(self, learner) -> None:
        self.learner, self.tables = learner, learner.tables
        self.plays: list[list[dict]] = [[] for _ in range(len(self.tables.masks))]
        self.decisions: list[dict] = []  # those in the buffer, in the order of its rows
        self.step, self.tables.step = self.tables.step, self.note
        learner.train = lambda rate: None

    def note(self, actions: np.ndarray) -> None:
        players, legal, buffer = self.tables.players.copy(), self.tables.masks.sum(1), self.learner.buffer
        new = buffer.decisions.part(slice(len(self.decisions), buffer.size))
        values, masks, row = self.learner.values(new).detach().numpy(), new.masks.numpy(), 0
        self.step(actions)
        for table, plays in enumerate(self.plays):
            plays.append({"seat": players[table], "rewards": self.tables.rewards[table].copy(), "best": None})
            plays[-1] |= {"done": self.tables.dones[table], "table": table, "number": len(plays) - 1}
            if legal[table] > 1:
                plays[-1]["best"] = max(values[row][action] for action in range(83) if masks[row][action])
                plays[-1]["best_of_all"] = values[row].max()
                self.decisions.append(plays[-1])
                row += 1

    def trained(self) -> list[tuple[dict, np.void]]:
        """The decisions whose target is set, with what the buffer knows; the others wait."""
        buffer = self.learner.buffer
        assert len(self.decisions) == buffer.size
        ledger = buffer.ledger[: buffer.size].copy()
        pairs = [(play, row) for play, row in zip(self.decisions, ledger, strict=True) if row["complete"]]
        self.decisions = [play for play, row in zip(self.decisions, ledger, strict=True) if not row["complete"]]
        return pairs

    def until_the_end(self, play: dict) -> list[dict] | None:
        """The rest of the episode, from a play on; None if it is not over."""
        rest = self.plays[play["table"]][play["number"] :]
        ends = [number for number, later in enumerate(rest) if later["done"]]
        return rest[: ends[0] + 1] if ends else None


def some_tables(kind: str):
    if kind == "random":
        return RandomTables(5)
    if kind == "rounds":
        return fool_tables(6, 4, "relative")
    return FoolVectorEnv(3, Rules.from_dict({**Rules.miniature().to_dict(), "losing_total": -30}), "game", seed=3)


@pytest.mark.parametrize("kind", ["random", "rounds", "games"])
def test_targets_are_what_the_seat_is_paid_until_the_end_of_the_episode(kind):
    """Exactly, over many rollouts shorter than an episode; each decision once, and none before its episode's end."""
    learner = make_q_learner(some_tables(kind), steps=7, epsilon=constant(1.0), reward_scale=0.25)
    diary = Diary(learner)
    done = waited = 0
    for _ in learner.iterations(7 * len(diary.plays) * 50):
        carried = learner.buffer.carried
        pairs = diary.trained()
        for play, row in pairs:
            returns = 0.0
            for later in diary.until_the_end(play):
                returns += 0.25 * float(later["rewards"][play["seat"]])
            assert row["target"] == np.float32(returns)
            assert row["seat"] == play["seat"]
        done += len(pairs)
        waited += carried
        assert all(diary.until_the_end(play) is None for play in diary.decisions)
    assert done > 400 and waited > 300


def test_a_seats_first_target_is_its_score_of_the_round():
    """As the scalar game has it, from the same deal and plays."""
    native = fool_tables(5, 3, "points")
    learner = make_q_learner(native, steps=2 * native.rules[0].num_cards, reward_scale=1.0)
    seeds, first, played = native.seeds.copy(), {}, [[] for _ in range(3)]
    step = native.step

    def note(actions: np.ndarray) -> None:
        for table in np.flatnonzero(native.seeds == seeds):
            played[table].append(int(actions[table]))
        step(actions)

    native.step = note
    next(learner.iterations(1))
    for row in learner.buffer.ledger[: learner.buffer.size]:
        first.setdefault((int(row["episode"]), int(row["seat"])), float(row["target"]))
    for table in range(3):
        game = Game(native.rules[table], int(seeds[table]), "round")
        for action in played[table]:
            game.play(action)
        assert game.round_over
        assert [first[table, seat] for seat in range(5)] == game.points


@pytest.mark.parametrize("td_lambda", [0.0, 0.6])
def test_bootstrapped_targets_take_the_best_legal_action_of_the_seats_next_decision(td_lambda):
    learner = make_q_learner(RandomTables(5), steps=7, td_lambda=td_lambda, epsilon=constant(1.0))
    th.nn.init.normal_(learner.policy.action_net.bias, std=50.0)
    diary = Diary(learner)
    illegal_is_higher = checked = 0
    for _ in learner.iterations(7 * 5 * 40):
        pairs = diary.trained()
        for play, row in pairs:
            rest = diary.until_the_end(play)
            own = [n for n, later in enumerate(rest) if later["seat"] == play["seat"] and later["best"] is not None]
            target = 0.0
            for start, end in reversed(list(zip(own, [*own[1:], None], strict=True))):
                paid = sum(float(later["rewards"][play["seat"]]) for later in rest[start:end])
                later_best = 0.0 if end is None else rest[end]["best"]
                target = paid + (1 - td_lambda) * later_best + td_lambda * target
            assert row["target"] == pytest.approx(target, rel=1e-4, abs=1e-3)
            illegal_is_higher += play["best_of_all"] > play["best"]
        checked += len(pairs)
    assert checked > 500 and illegal_is_higher > 0.8 * checked


def test_every_decision_is_trained_once_an_epoch_on_its_target():
    learner = make_q_learner(ToyTables(6), steps=9, epochs=2, minibatch=20)
    seen: list[int] = []
    update = learner._update

    def note(batch, targets):
        seen.extend(batch.tolist())
        assert th.equal(targets[batch], th.from_numpy(learner.buffer.ledger["target"][batch.numpy()].copy()))
        return update(batch, targets)

    learner._update = note
    for _ in learner.iterations(9 * 6 * 20):
        assert sorted(seen) == sorted(2 * learner.buffer.trainable.tolist())
        assert learner.logger.name_to_value["rollout/decisions"] == len(seen) // 2
        seen.clear()
    assert learner.updates > 20


def test_only_the_action_taken_is_regressed():
    learner = make_q_learner(ToyTables(16), epsilon=constant(1.0))
    next(learner.iterations(1))
    rows = th.from_numpy(learner.buffer.trainable)
    targets = th.from_numpy(learner.buffer.ledger["target"].copy())
    values = learner.values(learner.buffer.decisions.at(rows)).detach()
    expected = sum(
        float(values[i, learner.buffer.decisions.actions[row]] - targets[row]) ** 2 for i, row in enumerate(rows)
    )
    loss = learner.loss(rows, targets)
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    (gradient,) = th.autograd.grad(loss, [learner.policy.action_net.bias])
    taken = set(learner.buffer.decisions.actions[rows].tolist())
    assert set(gradient.nonzero().squeeze(1).tolist()) <= taken


# --- what is chosen


def test_illegal_actions_have_no_chance_and_are_no_maximum():
    generator = th.Generator().manual_seed(0)
    rows = 20_000
    masks = th.rand(rows, 83, generator=generator) < 0.06
    masks[th.arange(rows), th.randint(83, (rows,), generator=generator)] = True
    for scale in (0.0, 1.0, 1e4):
        values = scale * (2 * th.rand(rows, 83, generator=generator) - 1)
        values[~masks] += 3 * scale
        for epsilon in (0.0, 0.3, 1.0):
            probabilities, best = epsilon_greedy(values, masks, epsilon)
            assert (probabilities[~masks] == 0).all()
            th.testing.assert_close(probabilities.sum(1), th.ones(rows))
            assert th.equal(best, th.where(masks, values, -th.inf).amax(1))
            chosen = probabilities.argmax(1)
            if epsilon < 1:
                assert th.equal(values[th.arange(rows), chosen], best)
            share = probabilities[th.arange(rows), chosen]
            th.testing.assert_close(share, 1 - epsilon + epsilon / masks.sum(1))


@pytest.mark.parametrize("epsilon", [0.0, 0.25, 1.0])
def test_so_many_decisions_are_left_to_chance(epsilon):
    """And all that are played are legal, or the tables would raise."""
    learner = make_q_learner(fool_tables(6, 64), steps=48, epsilon=constant(epsilon))
    learner.train = lambda rate: None
    next(learner.iterations(1))
    buffer = learner.buffer
    decisions = buffer.decisions.part(slice(0, buffer.size))
    greedy = th.where(decisions.masks, learner.values(decisions), -th.inf).argmax(1)
    share = (greedy != decisions.actions).float().mean()
    expected = (epsilon * (1 - 1 / decisions.masks.sum(1))).mean()
    assert float(share) == pytest.approx(float(expected), abs=0.03 if epsilon else 1e-9)


def test_schedules_start_at_their_first_value_and_never_pass_the_last():
    schedules = {"epsilon": LinearSchedule(0.5, 0.1, 1.0), "learning_rate": LinearSchedule(1e-2, 0.0, 1.0)}
    learner = make_q_learner(ToyTables(8), **schedules)
    used, collect = [], learner.collect_rollout

    def note(epsilon: float) -> None:
        used.append(epsilon)
        collect(epsilon)

    learner.collect_rollout = note
    rates = []
    for _ in learner.iterations(16 * 8 * 4):
        assert learner.logger.name_to_value["train/epsilon"] == used[-1]
        rates.append(learner.optimizer.param_groups[0]["lr"])
    assert used == pytest.approx([0.5, 0.4, 0.3, 0.2])
    assert rates == pytest.approx([1e-2, 0.75e-2, 0.5e-2, 0.25e-2])


def test_a_mask_without_a_legal_action_raises():
    native = ToyTables(4)
    learner = make_q_learner(native)
    native.masks[2] = 0
    with pytest.raises(ValueError, match=r"table 2 has no legal action.*seat"):
        next(learner.iterations(1))


# --- that it learns, and what results depend on


@pytest.mark.parametrize("td_lambda", [1.0, 0.5])
def test_a_game_that_pays_on_another_seats_turn_is_learnt(td_lambda):
    assert accuracy_after_training(td_lambda=td_lambda) > 0.9


def test_it_is_not_learnt_if_rewards_go_to_the_wrong_seat():
    """The same with every play ascribed to the next seat: the test above does tell."""
    assert accuracy_after_training(seat_shift=1) < 0.5


def accuracy_after_training(seat_shift: int = 0, td_lambda: float = 1.0) -> float:
    """The share of right answers among the last rollout's decisions."""
    native = ToyTables(64, seed=1)
    learner = make_q_learner(
        native,
        learning_rate=LinearSchedule(1e-2, 0.0, 1.0),
        epsilon=LinearSchedule(0.5, 0.0, 1.0),
        steps=24,
        minibatch=256,
        epochs=4,
        td_lambda=td_lambda,
    )
    buffer, add = learner.buffer, learner.buffer.add_decisions

    def shift(tables, actions) -> slice:
        rows = add(tables, actions)
        seats = (buffer.ledger["seat"][rows] + seat_shift) % 6
        buffer.ledger["seat"][rows] = seats
        buffer.ledger["paid"][rows] = buffer._paid[buffer._tables[: len(seats)], seats]
        return rows

    buffer.add_decisions = shift
    for _ in learner.iterations(24 * 64 * 20):
        pass
    fresh = buffer.decisions.part(slice(buffer.carried, buffer.size))
    return float((fresh.actions == fresh.observations[:, :NUM_SIGNALS].argmax(1)).float().mean())


def test_hands_move_all_values_alike_so_that_the_choice_does_without_them():
    learner = make_q_learner(fool_tables(4, 32), kind="facts", sees_hands=True, steps=60)
    for _ in learner.iterations(60 * 32 * 2):
        pass
    decisions = learner.buffer.decisions.part(slice(0, learner.buffer.size))
    others = decisions._replace(hands=decisions.hands.flip(0))
    difference = learner.values(decisions) - learner.values(others)
    assert difference.abs().max() > 1e-3
    th.testing.assert_close(difference, difference[:, :1].expand_as(difference), atol=1e-4, rtol=0)


def test_results_depend_on_the_seed_and_not_on_the_number_of_threads():
    """The whole training, bit by bit, over 10,000 steps."""

    def run(seed: int, threads: int) -> tuple:
        learner = make_q_learner(
            fool_tables(6, 64), hidden=(64, 64), kind="facts", seed=seed, threads=threads, steps=40, sees_hands=True
        )
        played = []
        for _ in learner.iterations(40 * 64 * 4):
            played.append(learner.buffer.decisions.actions[: learner.buffer.size].clone())
        return th.cat(played), learner.policy.action_net.weight.detach()

    one, two, other = run(1, threads=1), run(1, threads=2), run(2, threads=2)
    assert all(th.equal(a, b) for a, b in zip(one, two, strict=True))
    assert not th.equal(two[1], other[1])


def test_memory_does_not_grow_once_what_waits_has_found_its_room():
    learner = make_q_learner(fool_tables(6, 16), steps=20)
    sizes = []
    for _ in learner.iterations(20 * 16 * 30):
        sizes.append(len(learner.buffer.ledger))
        assert len(learner.buffer.decisions.masks) == sizes[-1] >= learner.buffer.size
    assert sizes[-1] == sizes[10] < 20 * 16 * 6
