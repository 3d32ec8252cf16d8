"""The networks: what they are told about each card, against the game itself."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch as th
from variants import PRESETS

from fool_env import Game
from fool_env._jit import kernel
from fool_env.agents.cautious import chances, look_out
from fool_env.agents.facts import FACTS, card_facts
from fool_env.agents.network import KINDS, CardTrunk, PolicyNetwork, make_trunk, start_with_card_values
from fool_env.cards import ACTION_COLOUR, ACTION_RANK, MAX_RANK, NUM_ACTIONS, WILD, parse_card
from fool_env.observation import OBSERVATION_SIZE


def positions(preset: str, count: int) -> list[Game]:
    """Random positions, one in each game."""
    games = []
    for seed in range(count):
        rng = random.Random(seed)
        game = Game(PRESETS[preset], seed=seed, episode="round")
        for _ in range(rng.randrange(PRESETS[preset].num_cards)):
            if game.clone().round_over:
                break
            before = game.clone()
            game.play(rng.choice(game.legal_actions()))
            if game.round_over:
                game = before
                break
        games.append(game)
    return games


def facts_of(games: list[Game]) -> np.ndarray:
    """float32 (games, 83, facts), each from the seat to act; NaN for cards that it does not hold."""
    observations = np.stack([game.observation(game.player) for game in games])
    actions, facts = card_facts(observations)
    by_action = np.full((len(games), NUM_ACTIONS + 1, len(FACTS)), np.nan, np.float32)
    np.put_along_axis(by_action, actions[..., None].astype(int), facts, axis=1)
    return by_action[:, :NUM_ACTIONS]


@kernel
def chances_of(views: np.ndarray, action: int) -> tuple[float, float]:
    """What `cautious` reckons a card's chances to be."""
    return chances(views[0], action, look_out(views[0]))


def fact(facts: np.ndarray, name: str) -> np.ndarray:
    return facts[..., FACTS.index(name)]


@pytest.mark.parametrize("preset", PRESETS)
def test_wins_and_fool_are_what_playing_the_card_does(preset: str) -> None:
    games = positions(preset, 60)
    facts = facts_of(games)
    for game, wins, fool in zip(games, fact(facts, "wins"), fact(facts, "fool"), strict=True):
        seat = game.player
        for action in game.legal_actions():
            after = game.clone()
            after.play(action)
            if after.trick:
                record = after.record
                assert bool(wins[action]) == (record["best_seat"] == seat)
                assert bool(fool[action]) == (seat in record["worst_seats"][: record["num_fools"]])
            else:
                trick = after.last_trick
                assert trick is not None
                assert bool(wins[action]) == (trick.winner == seat)
                assert bool(fool[action]) == (seat in trick.fools)


@pytest.mark.parametrize("preset", PRESETS)
def test_counts_are_those_of_the_hands(preset: str) -> None:
    games = positions(preset, 20)
    facts = facts_of(games)
    for i, game in enumerate(games):
        own = [card for card in game.hands[game.player] if card != "1"]
        others = [card for s, hand in enumerate(game.hands) if s != game.player for card in hand if card != "1"]
        for action in map(parse_card, own):
            colour, rank = "GRYB"[ACTION_COLOUR[action]], ACTION_RANK[action]

            def count(cards: list[str], above: int, colour: str = colour) -> float:
                return sum(card[0] == colour and int(card[1:]) > above for card in cards) / 10

            expected = {
                "rank": rank / MAX_RANK,
                "unseen_above": count(others, rank),
                "unseen": count(others, 0),
                "own_above": count(own, rank),
                "own": count(own, 0),
                "follows": game.lead_colour in (None, colour),
            }
            for name, value in expected.items():
                assert fact(facts, name)[i, action] == pytest.approx(float(value), abs=1e-6), (name, action)
        assert fact(facts, "follows")[i, WILD] == 1 or "1" not in game.hands[game.player]
        assert np.isfinite(fact(facts, "rank")[i]).sum() == len(set(game.hands[game.player]))


@pytest.mark.parametrize("preset", PRESETS)
def test_chances_are_those_that_cautious_reckons_with(preset: str) -> None:
    games = positions(preset, 30)
    facts = facts_of(games)
    for i, game in enumerate(games):
        view = np.array([game.view(game.player)])
        for action in game.legal_actions():
            if action == WILD and game.lead_colour is None:
                continue  # of a 1 on an open colour the facts say less
            fool, win = chances_of(view, action)
            assert fact(facts, "fool_chance")[i, action] == pytest.approx(fool, abs=1e-5)
            assert fact(facts, "win_chance")[i, action] == pytest.approx(win, abs=1e-5)


def test_policy_begins_with_card_values_as_logits() -> None:
    trunk, features = make_trunk(OBSERVATION_SIZE, "facts", [16])
    assert isinstance(trunk, CardTrunk)
    head = th.nn.Linear(features, NUM_ACTIONS)
    th.nn.init.zeros_(head.weight)
    th.nn.init.zeros_(head.bias)
    start_with_card_values(trunk, head)
    observations = th.from_numpy(np.stack([game.observation(game.player) for game in positions("official_6", 5)]))
    assert not head(trunk(observations)).any()
    rank = FACTS.index("rank")
    with th.no_grad():
        trunk.weights.bias[rank] = 2.0
    ranks = th.from_numpy(ACTION_RANK).float() / MAX_RANK
    held = observations[:, :NUM_ACTIONS] > 0
    th.testing.assert_close(head(trunk(observations)), 2 * ranks * held)


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_hold_no_constants(kind: str) -> None:
    names = set(PolicyNetwork(kind, [16]).state_dict())
    assert all(name.endswith(("weight", "bias")) for name in names)
