"""What holds in every game, whatever the rules: properties over random valid `Rules`, deals and plays."""

from __future__ import annotations

import copy
import os
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variants import random_rules

from fool_env import Game, IllegalActionError, Rules
from fool_env.cards import CARD_NAMES, WILD, card_name

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
EXAMPLES = settings(max_examples=10 if JIT_OFF else 40)

SEEDS = st.integers(0, 2**64 - 1)
LUCK = st.randoms(use_true_random=False)


@st.composite
def any_rules(draw: Callable[..., int]) -> Rules:
    return random_rules(lambda low, high: draw(st.integers(low, high)))


def random_plays(game: Game, luck: random.Random, most: int = 10_000) -> Iterator[int]:
    """Play at random to the end of the game, yielding each action before it is played; rounds follow by themselves."""
    for _ in range(most):
        if game.round_over:
            if game.game_over:
                return
            game.next_round()
        action = luck.choice(game.legal_actions())
        yield action
        game.play(action)


def played_for_a_while(rules: Rules, seed: int, luck: random.Random) -> Game:
    """A game somewhere on its way, a seat to act."""
    game = Game(rules, seed)
    for _ in random_plays(game, luck, most=luck.randint(0, 3 * rules.num_cards)):
        pass
    if game.game_over:
        return Game(rules, seed)
    if game.round_over:
        game.next_round()
    return game


def penalty(hand: list[str], rules: Rules) -> int:
    return sum(rules.one_penalty if card == "1" else int(card[1:]) for card in hand)


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_cards_are_conserved(rules: Rules, seed: int, luck: random.Random) -> None:
    """At every moment of a round, hands and plays together are the deck."""
    game = Game(rules, seed)
    deck = Counter(card_name(action) for action in rules.deck)
    for _ in random_plays(game, luck, most=rules.num_cards):
        held = Counter(card for hand in game.hands for card in hand)
        assert held + Counter(card for _, card in game.history) == deck
        assert [len(hand) for hand in game.hands] == game.view(0)["hand_sizes"][: rules.num_players].tolist()


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_whoever_is_to_act_has_a_legal_action_out_of_the_hand(rules: Rules, seed: int, luck: random.Random) -> None:
    game = Game(rules, seed)
    for _ in random_plays(game, luck, most=300):
        assert game.player is not None and game.player not in game.fools
        legal = game.legal_actions()
        assert legal and legal == sorted(set(legal))
        assert {card_name(action) for action in legal} <= set(game.hands[game.player])


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_games_end(rules: Rules, seed: int, luck: random.Random) -> None:
    game = Game(rules, seed)
    for _ in random_plays(game, luck, most=20_000):
        pass
    assert game.round_over and game.game_over
    assert min(game.scores) <= rules.losing_total or max(game.tens) >= rules.winning_tens
    assert {game.scores[seat] for seat in game.winners} == {max(game.scores)}


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_discs_move_on(rules: Rules, seed: int, luck: random.Random) -> None:
    """No seat is a Fool twice running, no winner is one, and every trick hands out all the discs."""
    game = Game(rules, seed)
    fools: tuple[int, ...] = ()
    while not game.round_over:
        tricks = len(game.history) - len(game.trick)
        game.play(luck.choice(game.legal_actions()))
        if len(game.history) - len(game.trick) > tricks:
            assert game.last_trick is not None
            assert len(game.last_trick.fools) == rules.num_fools
            assert game.last_trick.winner not in game.last_trick.fools
            assert not set(game.last_trick.fools) & set(fools)
            fools = game.last_trick.fools


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_points_are_those_of_the_hands(rules: Rules, seed: int, luck: random.Random) -> None:
    game = Game(rules, seed)
    for _ in random_plays(game, luck, most=2_000):
        pass
    if not game.round_over:
        return
    assert any(not hand for hand in game.hands)
    for seat, hand in enumerate(game.hands):
        if hand:
            assert game.points[seat] == -penalty(hand, rules)
        else:
            assert game.points[seat] == (0 if seat in game.fools else rules.empty_hand_points)


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_totals_are_the_sums_of_the_rounds(rules: Rules, seed: int, luck: random.Random) -> None:
    game = Game(rules, seed)
    totals = [0] * rules.num_players
    rounds = 0
    while not game.game_over and rounds < 20:
        while not game.round_over:
            game.play(luck.choice(game.legal_actions()))
        totals = [total + points for total, points in zip(totals, game.points, strict=True)]
        rounds += 1
        assert (game.scores, game.num_rounds) == (totals, rounds)
        if not game.game_over:
            game.next_round()


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_copies_go_on_identically(rules: Rules, seed: int, luck: random.Random) -> None:
    """Through the next rounds' deals too; and playing one does not touch the others."""
    game = played_for_a_while(rules, seed, luck)
    before = game.to_bytes()
    copies = [
        game.clone(),
        copy.copy(game),
        copy.deepcopy(game),
        pickle.loads(pickle.dumps(game)),
        Game.from_bytes(game.to_bytes()),
    ]
    untouched = game.clone()
    for _ in range(200):
        if game.game_over:
            break
        if game.round_over:
            for each in (game, *copies):
                each.next_round()
        else:
            action = luck.choice(game.legal_actions())
            for each in (game, *copies):
                each.play(action)
        assert {each.to_bytes() for each in copies} == {game.to_bytes()}
        assert all(each == game and each.rules == rules for each in copies)
    assert untouched.to_bytes() == before


# --- Who may know what


def with_hidden_cards_dealt_anew(game: Game, viewer: int, luck: random.Random) -> Game:
    """The same game, but with the cards that `viewer` does not see in other hands, and other luck to come.

    Nobody can tell the two apart, so long as the sizes of the hands stay. Shown voids are left out of account on
    purpose: a view must not depend on the hidden cards at all.
    """
    others = [seat for seat in range(game.rules.num_players) if seat != viewer]
    hidden = [card for seat in others for card in game.hands[seat]]
    luck.shuffle(hidden)
    other = game.clone()
    record = other._games[0]
    record["rng"] = luck.getrandbits(64)
    for seat in others:
        record["hands"][seat] = 0
        record["ones"][seat] = 0
        for card in [hidden.pop() for _ in game.hands[seat]]:
            if card == "1":
                record["ones"][seat] += 1
            else:
                record["hands"][seat]["GRYB".index(card[0])] |= np.uint32(1 << int(card[1:]) - 2)
    return other


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_a_view_reveals_nothing_hidden(rules: Rules, seed: int, luck: random.Random) -> None:
    game = played_for_a_while(rules, seed, luck)
    for viewer in range(rules.num_players):
        other = with_hidden_cards_dealt_anew(game, viewer, luck)
        assert sorted(map(len, other.hands)) == sorted(map(len, game.hands))
        assert other.view(viewer).tobytes() == game.view(viewer).tobytes()
        if viewer == game.player:
            assert str(other) == str(game)
            assert other.legal_actions() == game.legal_actions()


def test_the_test_above_deals_other_hands() -> None:
    game = Game(Rules.official(6), seed=0)
    other = with_hidden_cards_dealt_anew(game, 2, random.Random(0))
    assert other.hands[2] == game.hands[2]
    assert all(other.hands[seat] != game.hands[seat] for seat in (0, 1, 3, 4, 5))
    assert Counter(chain.from_iterable(other.hands)) == Counter(chain.from_iterable(game.hands))
    assert other.view(1).tobytes() != game.view(1).tobytes()


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_shown_voids_are_true(rules: Rules, seed: int, luck: random.Random) -> None:
    game = Game(rules, seed)
    for _ in random_plays(game, luck, most=300):
        voids = game.view(0)["voids"]
        for seat, hand in enumerate(game.hands):
            held = {card[0] for card in hand if card != "1"}
            assert not any(voids[seat] >> "GRYB".index(letter) & 1 for letter in held)


@EXAMPLES
@given(any_rules(), SEEDS, LUCK, st.integers(1, 7))
def test_all_seats_are_alike(rules: Rules, seed: int, luck: random.Random, turn: int) -> None:
    """Turn the table by some seats: the same cards then do the same, turned."""
    players = rules.num_players
    turn %= players

    def turned(by_seat: list[int]) -> list[int]:
        return by_seat[-turn:] + by_seat[:-turn] if turn else by_seat

    game = Game(rules, seed)
    other = Game.from_deal(rules, turned(game.hands), (game.dealer + turn) % players)  # type: ignore[arg-type, type-var]
    while not game.round_over:
        assert other.player == (game.player + turn) % players  # type: ignore[operator]
        assert other.legal_actions() == game.legal_actions()
        action = luck.choice(game.legal_actions())
        game.play(action)
        other.play(action)
        assert sorted(other.fools) == sorted((fool + turn) % players for fool in game.fools)
    assert other.round_over and other.game_over == game.game_over
    for name in ("points", "scores", "tens"):
        assert getattr(other, name) == turned(getattr(game, name))


@EXAMPLES
@given(any_rules(), SEEDS, LUCK)
def test_illegal_plays_change_nothing(rules: Rules, seed: int, luck: random.Random) -> None:
    game = played_for_a_while(rules, seed, luck)
    before, legal = game.to_bytes(), set(game.legal_actions())
    for action in [-1, *range(len(CARD_NAMES)), WILD + 1, 10**30]:
        if action not in legal:
            with pytest.raises(IllegalActionError):
                game.play(action)
    assert game.to_bytes() == before
