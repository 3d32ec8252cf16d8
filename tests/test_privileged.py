"""The critic that sees every hand, and the average policy: what they know, and what they never tell the policy."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from learners import fool_tables, make_learner

from fool_env import FoolVectorEnv, Rules
from fool_env.agents.neural import load_agent
from fool_env.cards import ACTION_COLOUR, ACTION_RANK, NUM_ACTIONS, WILD
from fool_env.observation import OBSERVATION
from fool_env.rules import MAX_PLAYERS
from fool_env.train import ppo
from fool_env.train.networks import HANDS_SIZE, FullCritic
from fool_env.train.policy import divergence


def played_tables(num_players: int, plays: int = 20) -> FoolVectorEnv:
    tables = fool_tables(num_players, 32)
    rng = np.random.default_rng(4)
    for _ in range(plays):
        tables.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in tables.masks]))
    return tables


@pytest.mark.parametrize("num_players", [4, 6, 8])
def test_hands_are_those_of_the_seats_in_order_from_the_seat_to_act(num_players):
    tables = played_tables(num_players)
    chosen = np.array([30, 3, 3, 17])
    hands = tables.hands_of(chosen)
    assert hands.shape == (4, MAX_PLAYERS, NUM_ACTIONS) and hands.dtype == np.float32
    for row, table in zip(hands, chosen, strict=True):
        game = tables.games[table]
        for i in range(MAX_PLAYERS):
            seat = (game["player"] + i) % num_players
            held = [
                game["hands"][seat, ACTION_COLOUR[action]] >> (ACTION_RANK[action] - 2) & 1 for action in range(WILD)
            ]
            wanted = [*held, game["ones"][seat]] if i < num_players else [0] * NUM_ACTIONS
            np.testing.assert_array_equal(row[i], wanted)
    np.testing.assert_array_equal(hands[:, 0], tables.observations[chosen].view(OBSERVATION)["hand"][:, 0])


@pytest.fixture(scope="module")
def learner():
    learner = make_learner(fool_tables(6, 64), kind="facts", critic="full", n_steps=40)
    next(learner.iterations(1))
    return learner


def test_the_buffer_holds_the_others_hands(learner):
    decisions = learner.rollout_buffer.decisions
    rows = th.from_numpy(learner.rollout_buffer.trainable)
    hands = decisions.hands[rows].view(len(rows), MAX_PLAYERS - 1, NUM_ACTIONS)
    assert decisions.hands.shape[1] == HANDS_SIZE and decisions.hands.dtype == th.uint8
    fields = decisions.observations[rows].numpy().view(OBSERVATION)[:, 0]
    unseen = np.rint(fields["unseen"])
    np.testing.assert_array_equal(hands.sum(1).numpy(), unseen)  # at six players the deck is dealt whole
    assert not hands[:, 5:].any()


def test_values_depend_on_hidden_cards_and_the_policy_does_not(learner):
    decisions = learner.rollout_buffer.decisions
    observations, hands = decisions.observations[:300], decisions.hands[:300]
    logits, values = learner.network(observations, hands)
    others = hands.view(300, MAX_PLAYERS - 1, NUM_ACTIONS)[:, [1, 0, 2, 3, 4, 5, 6]].reshape(300, -1)
    same_logits, other_values = learner.network(observations, others)
    assert th.equal(logits, same_logits)
    assert ((values - other_values).abs() > 1e-3).float().mean() > 0.9


def test_a_critic_learns_what_only_hidden_cards_tell():
    """Whether the next seat holds more blue cards than the one after it, from a view that says nothing of it."""
    th.manual_seed(0)
    critic = FullCritic(features=4)
    optimizer = th.optim.Adam(critic.parameters(), 1e-3)
    hands = (th.rand(2000, MAX_PLAYERS - 1, NUM_ACTIONS) < 0.15).to(th.uint8)
    blue = th.from_numpy(ACTION_COLOUR == 3)
    wanted = (hands[:, 0, blue].sum(1) > hands[:, 1, blue].sum(1)).float()
    for _ in range(60):
        loss = (critic(th.ones(2000, 4), hands.flatten(1)).squeeze(1) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.05 < wanted.var()


def test_values_without_hands_are_refused(learner):
    with pytest.raises(ValueError, match="hands of all seats"):
        learner.policy.predict_values(learner.rollout_buffer.decisions.observations[:1])


@pytest.mark.parametrize("kind", ["mlp", "facts"])
def test_the_policy_of_a_checkpoint_runs_without_its_critic(tmp_path, kind):
    from sb3_contrib import MaskablePPO

    arguments = ["--name", "run", "--runs", str(tmp_path), "--total_steps", "100", "--table.num_tables", "8"]
    arguments += ["--ppo.steps", "16", "--network.hidden", "[16]", "--network.critic", "full", "--network.kind", kind]
    arguments += [
        "--evaluation.opponents",
        "[lowest]",
        "--evaluation.final_deals",
        "2",
        "--evaluation.final_games",
        "0",
    ]
    assert ppo.main(arguments) == 0
    final = tmp_path / "run" / "final.zip"
    tables = FoolVectorEnv(50, Rules.official(6), "round")
    agent = load_agent(final, deterministic=True)
    assert not [name for name in agent.network.state_dict() if "value" in name or "hands" in name]
    actions = agent.act(tables.views, np.zeros(50, np.uint64))
    predicted, _ = MaskablePPO.load(final, device="cpu").predict(
        tables.observations, deterministic=True, action_masks=tables.masks.astype(bool)
    )
    np.testing.assert_array_equal(actions, predicted)


# --- the average policy


def test_divergence_is_that_of_torch_with_its_gradient():
    th.manual_seed(0)
    logits = (2 * th.randn(200, 83, dtype=th.float64)).requires_grad_()
    masks = th.rand(200, 83) < 0.1
    masks[:, 7] = True
    other = th.distributions.Categorical(logits=th.randn(200, 83, dtype=th.float64).masked_fill(~masks, -1e30))
    weights = th.randn(200, dtype=th.float64)
    ours = divergence(logits, masks, other.logits)
    theirs = th.distributions.kl_divergence(
        th.distributions.Categorical(logits=logits.masked_fill(~masks, -1e30)), other
    )
    th.testing.assert_close(ours, theirs)
    (gradient,) = th.autograd.grad((weights * ours).sum(), logits)
    p = th.softmax(logits.masked_fill(~masks, -th.inf), -1)
    kl = (p * (p.clamp_min(1e-300).log() - other.logits).masked_fill(~masks, 0.0)).sum(-1)
    (expected,) = th.autograd.grad((weights * kl).sum(), logits)
    th.testing.assert_close(gradient, expected)
    assert (gradient[~masks] == 0).all()


def test_the_average_policy_follows_slowly():
    learner = make_learner(fool_tables(4, 32), kind="facts", average_kl=0.1, average_decay=0.75, learning_rate=1e-2)
    wanted = {name: tensor.clone() for name, tensor in learner.policy_network().state_dict().items()}
    iterations = learner.iterations(10**6)
    for _ in range(4):
        next(iterations)
        for name, tensor in learner.policy_network().state_dict().items():
            wanted[name] = 0.75 * wanted[name] + 0.25 * tensor
    for name, tensor in learner.average.network.state_dict().items():
        th.testing.assert_close(tensor, wanted[name])
    assert learner.logger.name_to_value["train/average_kl"] > 0


def test_the_average_policy_holds_the_policy_back():
    moved = {}
    for weight in (1e-6, 10.0):
        learner = make_learner(fool_tables(4, 64), average_kl=weight, average_decay=0.99, learning_rate=3e-3)
        for _ in learner.iterations(64 * 16 * 15):
            moved[weight] = learner.logger.name_to_value["train/average_kl"]
    assert moved[10.0] < moved[1e-6] / 3
