"""Self-play PPO: whose reward is whose, what is trained, and that it learns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch as th
from learners import fool_tables, make_learner
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import LinearSchedule
from toy import NUM_SIGNALS, ToyTables

from fool_env import Game
from fool_env.train.buffer import NO_ROW, seat_advantages
from fool_env.train.compute import Shards, available_cores
from fool_env.train.policy import log_prob_and_entropy, masked_softmax, sample

# --- whose reward is whose


@pytest.mark.parametrize("num_players", [4, 5, 6, 7, 8])
def test_each_seat_is_credited_with_its_own_score(num_players):
    """With lambda and gamma 1 and values 0, the return of a seat's first decision is its score of the round."""
    native = fool_tables(num_players)
    learner = make_learner(native, n_steps=3 * native.rules[0].num_cards, gae_lambda=1.0)
    th.nn.init.zeros_(learner.policy.value_net.weight)
    seeds = native.seeds.copy()
    next(learner.iterations(1, reset_num_timesteps=False))
    buffer = learner.rollout_buffer
    episodes = np.zeros(native.num_tables, int)
    for table in range(native.num_tables):
        ends = np.flatnonzero(buffer.dones[:, table])
        assert len(ends) >= 2
        for start, end in itertools.pairwise([0, *(ends + 1)]):
            episodes[table] += 1
            paid = buffer.rewards[start:end, table].sum(0)
            returns = np.zeros(8)
            for seat in range(num_players):
                own = (buffer.players[start:end, table] == seat) & (buffer.rows[start:end, table] != NO_ROW)
                first = buffer.rows[start:end, table][own][0]
                assert buffer.complete[first]
                returns[seat] = buffer.advantages[first]
            np.testing.assert_allclose(returns, paid, atol=1e-5)
            if start == 0:  # the referee's own scores, from the same deal and plays
                np.testing.assert_array_equal(paid[:num_players], replay(native, seeds[table], buffer, table, end))


def replay(native, seed, buffer, table, plays) -> list[int]:
    """The points of the first round at a table, by the scalar game."""
    game = Game(native.rules[table], int(seed), "round")
    for step in range(plays):
        assert game.player == buffer.players[step, table]
        row = buffer.rows[step, table]
        legal = game.legal_actions()
        assert (row == NO_ROW) == (len(legal) == 1)
        game.play(legal[0] if row == NO_ROW else int(buffer.decisions.actions[row]))
    return game.points


def reference_advantages(log, gamma, gae_lambda):
    """Per-seat GAE the slow way. `log` is of one table, whole, a dict for each play; returns {play: advantage}."""
    advantages = {}
    for seat in range(8):
        after = None  # value and advantage of the seat's next decision, and what it is paid until then
        paid = 0.0
        for number, play in reversed(list(enumerate(log))):
            if play["done"]:
                after, paid = (0.0, 0.0), 0.0
            paid += play["rewards"][seat]
            if play["seat"] != seat or not play["decision"]:
                continue
            if after is not None:
                delta = paid + gamma * after[0] - play["value"]
                advantages[number] = delta + gamma * gae_lambda * after[1]
            after = (play["value"], advantages.get(number, 0.0))
            paid = 0.0
    return advantages


def test_advantages_are_those_of_a_slow_reference_across_rollouts():
    """Random plays, ends, forced plays and rewards; decisions left open are finished by a later rollout."""
    rng = np.random.default_rng(0)
    steps, tables, seats, gamma, gae_lambda = 7, 5, 8, 0.9, 0.8
    open_rows = np.full((tables, seats), NO_ROW)
    open_rewards = np.zeros((tables, seats))
    open_values = np.zeros((tables, seats), np.float32)
    finished = 0
    for _ in range(30):
        players = rng.integers(4, size=(steps, tables))
        decision = rng.random((steps, tables)) < 0.7
        dones = rng.random((steps, tables)) < 0.08
        rewards = rng.normal(size=(steps, tables, seats)).astype(np.float32)
        carried = np.argwhere(open_rows != NO_ROW)
        open_rows[open_rows != NO_ROW] = np.arange(len(carried))
        rows = np.full((steps, tables), NO_ROW)
        rows[decision] = np.arange(decision.sum()) + len(carried)
        size = len(carried) + decision.sum()
        values = rng.normal(size=size).astype(np.float32)
        values[: len(carried)] = open_values[tuple(carried.T)]

        logs = []
        for table in range(tables):
            seats_of_old = [seat for owner, seat in carried if owner == table]
            old = [play_of(seat, True, values[open_rows[table, seat]], False) for seat in seats_of_old]
            for play, seat in zip(old, seats_of_old, strict=True):
                play["rewards"][seat] = open_rewards[table, seat]
                play["row"] = open_rows[table, seat]
            new = [
                play_of(
                    players[t, table], decision[t, table], values[rows[t, table]], dones[t, table], rewards[t, table]
                )
                | {"row": rows[t, table]}
                for t in range(steps)
            ]
            logs.append(old + new)

        advantages, complete = np.zeros(size, np.float32), np.zeros(size, np.bool_)
        seat_advantages(
            *(rows, players, rewards, dones, values, gamma, gae_lambda, open_rows, open_rewards, advantages, complete)
        )
        expected = {
            log[number]["row"]: advantage
            for log in logs
            for number, advantage in reference_advantages(log, gamma, gae_lambda).items()
        }
        assert sorted(expected) == np.flatnonzero(complete).tolist()
        np.testing.assert_allclose(advantages[complete], [expected[row] for row in sorted(expected)], atol=1e-4)
        finished += complete[: len(carried)].sum()
        still_open = open_rows != NO_ROW
        open_values[still_open] = values[open_rows[still_open]]
        assert still_open.sum() == size - complete.sum()
    assert finished > 100


def play_of(seat, decision, value, done, rewards=None) -> dict:
    rewards = np.zeros(8) if rewards is None else rewards
    return {"seat": seat, "decision": decision, "value": float(value), "done": done, "rewards": rewards}


def test_every_decision_is_trained_exactly_once():
    native = ToyTables(6)
    learner = make_learner(native, n_steps=9)
    buffer = learner.rollout_buffer
    # A number for each decision, where the network does not look for anything.
    numbers = itertools.count(1)
    dealt = native._deal

    def deal_with_number(table: int) -> None:
        dealt(table)
        native.observations[table, -1] = next(numbers)

    native._deal = deal_with_number
    native.reset()
    seen, trained = [], []
    for _ in learner.iterations(9 * 6 * 20 - 54):
        observed = buffer.decisions.observations[:, -1].numpy()
        seen += observed[buffer.carried : buffer.size].tolist()
        trained += observed[buffer.trainable].tolist()
    still_open = observed[buffer.open_rows[buffer.open_rows != NO_ROW]].tolist()
    assert len(still_open) > 5
    assert sorted(trained + still_open) == sorted(seen)
    assert len(set(trained)) == len(trained)


# --- what is trained


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("kind", "critic"), [("mlp", "view"), ("facts", "full")])
def test_before_the_first_optimizer_step_every_probability_ratio_is_one(precision, kind, critic):
    tables = fool_tables(6, 64)
    learner = make_learner(tables, hidden=(64, 64), kind=kind, critic=critic, precision=precision, n_steps=48)
    th.nn.init.normal_(learner.policy.action_net.weight, std=0.3)  # far from uniform
    learner.train = lambda: None
    next(learner.iterations(1))
    buffer = learner.rollout_buffer
    rows = th.from_numpy(buffer.trainable)
    assert len(rows) > 1000
    decisions = buffer.decisions
    differences = []
    for part in rows[th.randperm(len(rows))].split(300):  # other parts than the rollout's
        logits, values = learner.network(decisions.observations[part], decisions.hands[part])
        log_probs, _ = log_prob_and_entropy(logits, decisions.masks[part], decisions.actions[part])
        differences.append((log_probs - decisions.log_probs[part]).exp() - 1)
        assert th.allclose(values, decisions.values[part], atol=1e-4)
    assert th.cat(differences).abs().max() < 1e-5
    losses = learner.losses(rows, learner._targets(rows.numpy()))
    assert abs(losses[5]) < 1e-3 and losses[6] == 0  # approx_kl, clip_fraction


def test_carried_decisions_keep_the_probability_of_the_policy_that_acted():
    learner = make_learner(fool_tables(6, 16), n_steps=20, learning_rate=1e-2)
    buffer = learner.rollout_buffer
    iterations = learner.iterations(10**6)
    next(iterations)
    rows = buffer.open_rows[buffer.open_rows != NO_ROW]
    before = {decision_key(buffer, row): float(buffer.decisions.log_probs[row]) for row in rows}
    next(iterations)
    assert buffer.carried == len(before) > 50
    after = {decision_key(buffer, row): float(buffer.decisions.log_probs[row]) for row in range(buffer.carried)}
    assert after == before


def decision_key(buffer, row) -> tuple:
    return buffer.decisions.observations[row].numpy().tobytes(), int(buffer.decisions.actions[row])


def test_the_update_lowers_the_loss_that_it_reports_and_stays_finite():
    learner = make_learner(fool_tables(4, 32), n_steps=32)
    for _ in learner.iterations(32 * 32 * 5):
        logged = learner.logger.name_to_value
        assert np.isfinite(list(logged.values())).all()
        assert 0 < logged["train/relative_entropy"] <= 1.0001
        assert 0.05 < logged["rollout/forced_plays"] < 0.5


def test_gradients_equal_automatic_ones():
    th.manual_seed(0)
    logits = (3 * th.randn(200, 83, dtype=th.float64)).requires_grad_()
    masks = th.rand(200, 83) < 0.1
    masks[:, 7] = True
    actions = masks.float().multinomial(1).squeeze(1)
    weights = th.randn(2, 200, dtype=th.float64)
    log_probs, entropy = log_prob_and_entropy(logits, masks, actions)
    (ours,) = th.autograd.grad((weights[0] * log_probs + weights[1] * entropy).sum(), logits)

    distribution = th.distributions.Categorical(logits=logits.masked_fill(~masks, -1e30))
    th.testing.assert_close(log_probs, distribution.log_prob(actions))
    plogp = th.where(masks, distribution.probs * distribution.logits, 0.0)
    (theirs,) = th.autograd.grad(
        (weights[0] * distribution.log_prob(actions) - weights[1] * plogp.sum(-1)).sum(), logits
    )
    th.testing.assert_close(ours, theirs)
    assert (ours[~masks] == 0).all()


def test_illegal_actions_have_probability_zero_and_are_never_sampled():
    """Ten million samples, with logits to +-10,000 where illegal ones are the highest (FAULTS 16)."""
    generator = th.Generator().manual_seed(0)
    rows = 100_000
    masks = th.rand(rows, 83, generator=generator) < 0.06
    masks[th.arange(rows), th.randint(83, (rows,), generator=generator)] = True
    index = th.arange(rows)
    for scale in (0.0, 1.0, 30.0, 1e4):
        logits = scale * (2 * th.rand(rows, 83, generator=generator) - 1)
        logits[~masks] += scale
        probabilities, _ = masked_softmax(logits, masks)
        assert (probabilities[~masks] == 0).all()
        assert th.isfinite(probabilities).all()
        for _ in range(25):
            actions = sample(probabilities, th.rand(rows, generator=generator))
            assert masks[index, actions].all()
        for extreme in (0.0, 1 - 2**-24):
            assert masks[index, sample(probabilities, th.full((rows,), extreme))].all()


def test_sampling_follows_the_probabilities():
    probabilities = th.tensor([[0.1, 0.0, 0.6, 0.3]])
    actions = sample(probabilities.expand(200_000, 4), th.rand(200_000, generator=th.Generator().manual_seed(1)))
    shares = th.bincount(actions, minlength=4) / 200_000
    th.testing.assert_close(shares, probabilities[0], atol=0.005, rtol=0)


def test_a_mask_without_a_legal_action_raises():
    native = ToyTables(4)
    learner = make_learner(native)
    step = native.step

    def spoil(actions: np.ndarray) -> None:
        step(actions)
        native.masks[2] = 0

    native.step = spoil
    with pytest.raises(ValueError, match=r"table 2 has no legal action.*seat"):
        learner.learn(1)


# --- that it learns, and what results depend on


def test_a_game_that_pays_on_another_seats_turn_is_learnt():
    assert accuracy_after_training(seat_shift=0) > 0.9


def test_it_is_not_learnt_if_rewards_go_to_the_wrong_seat():
    """The same with every play ascribed to the next seat: the test above does tell."""
    assert accuracy_after_training(seat_shift=1) < 0.5


def accuracy_after_training(seat_shift: int) -> float:
    """The share of right answers among the last rollout's decisions."""
    native = ToyTables(64, seed=1)
    learner = make_learner(
        native, n_steps=24, batch_size=256, n_epochs=4, learning_rate=LinearSchedule(1e-2, 0.0, 1.0), ent_coef=0.0
    )

    class Shift(BaseCallback):
        def _on_step(self) -> bool:
            players = learner.rollout_buffer.players
            step = learner.rollout_buffer._step - 1
            players[step] = (players[step] + seat_shift) % 6
            return True

    learner.learn(24 * 64 * 20, callback=Shift())
    buffer = learner.rollout_buffer
    fresh = slice(buffer.carried, buffer.size)
    answers = buffer.decisions.actions[fresh]
    signals = buffer.decisions.observations[fresh, :NUM_SIGNALS].argmax(1)
    return float((answers == signals).float().mean())


def test_results_depend_on_the_seed_and_not_on_the_number_of_threads():
    """The whole training, bit by bit, over 10,000 steps (FAULTS 31)."""

    def run(seed: int, threads: int) -> tuple:
        learner = make_learner(
            fool_tables(6, 64), hidden=(64, 64), kind="facts", seed=seed, threads=threads, n_steps=40
        )
        played = []
        for _ in learner.iterations(40 * 64 * 4):
            played.append(learner.rollout_buffer.decisions.actions[: learner.rollout_buffer.size].clone())
        return th.cat(played), learner.policy.action_net.weight.detach()

    one, two, other = run(1, threads=1), run(1, threads=2), run(2, threads=2)
    assert all(th.equal(a, b) for a, b in zip(one, two, strict=True))
    assert not th.equal(two[1], other[1])


def test_first_weights_do_not_depend_on_the_number_of_threads_of_an_operation():
    """Which is that of the machine's cores, unless OMP_NUM_THREADS says otherwise, as torchrun has it do."""
    before, weights = th.get_num_threads(), []
    try:
        for threads in (1, 2):
            th.set_num_threads(threads)
            weights.append(make_learner(fool_tables(6)).policy.features_extractor.layers[0].weight)
            assert th.get_num_threads() == threads
    finally:
        th.set_num_threads(before)
    assert th.equal(*weights)


def test_threads_do_not_oversubscribe_the_machine():
    """As many as there are cores, at most one for each shard, and one within each operation (FAULTS 55)."""
    shards = Shards(4, None, th.device("cpu"), "auto")
    assert shards.threads == min(4, available_cores())
    assert set(shards.map(lambda _: th.get_num_threads(), [0] * 8)) == {1}
    assert Shards(4, 3, th.device("cpu"), "float32").threads == 3
    with pytest.raises(ValueError, match="precision"):
        Shards(4, 3, th.device("cpu"), "float16")


def test_a_batch_is_cut_without_gaps():
    shards = Shards(4, 1, th.device("cpu"), "float32")
    for rows in (slice(5, 5), slice(5, 7), slice(0, 103)):
        parts = shards.slices(rows)
        assert [row for part in parts for row in range(part.start, part.stop)] == list(range(rows.start, rows.stop))
