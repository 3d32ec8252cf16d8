"""The engine against the referee of `reference.py`: random plays, compared card by card.

FOOL_STATES sets how many states are compared (the default takes seconds); release checks use 1,000,000.
"""

from __future__ import annotations

import os
import random

import pytest
from reference import Referee, deck_of
from variants import PRESETS, random_rules

from fool_env import Game, Rules
from fool_env.cards import CARD_NAMES

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
STATES = int(os.environ.get("FOOL_STATES", 5_000 if JIT_OFF else 200_000))


def deal(rules: Rules, rng: random.Random) -> list[list[str]]:
    """The referee's own deal, so that the engine's dealing is not needed here."""
    deck = deck_of(rules)
    rng.shuffle(deck)
    return [deck[seat :: rules.num_players] for seat in range(rules.num_players)]


def check_trick(game: Game, referee: Referee) -> None:
    """What changes with a trick: its outcome, the hands, who sits out."""
    assert game.hands == referee.hands
    assert game.leader == referee.leader
    assert list(game.fools) == referee.sitting_out
    assert (game.last_trick.winner, list(game.last_trick.fools)) == (referee.winner, referee.sitting_out)
    assert list(game.last_trick.plays) == referee.tricks[-1]
    view = game.view(0)
    shown = {(seat, "GRYB"[c]) for seat in range(8) for c in range(4) if int(view["voids"][seat]) >> c & 1}
    assert shown == referee.voids


def check_round(game: Game, referee: Referee) -> None:
    """What a finished round leaves behind."""
    assert (list(game.points), list(game.scores), list(game.tens)) == (referee.points, referee.scores, referee.tens)
    assert game.game_over == referee.game_over
    if game.game_over:
        assert list(game.winners) == referee.winners


def play_and_compare(rules: Rules, rng: random.Random, most: int) -> int:
    """Play one random game, or `most` plays of it, through both; the number of states compared."""
    hands, dealer = deal(rules, rng), rng.randrange(rules.num_players)
    game, referee = Game.from_deal(rules, hands, dealer), Referee(rules, hands, dealer)
    for states in range(1, most + 1):
        actions, legal = game.legal_actions(), referee.legal()
        assert game.player == referee.player
        assert [CARD_NAMES[action] for action in actions] == legal
        choice = rng.randrange(len(legal))
        game.play(actions[choice])
        referee.play(legal[choice])
        assert game.round_over == referee.round_over
        if not referee.trick:
            check_trick(game, referee)
        if referee.round_over:
            check_round(game, referee)
            if referee.game_over:
                return states
            hands = deal(rules, rng)
            game.next_round(hands)
            referee.next_round(hands)
            assert game.dealer == referee.dealer
    return most


@pytest.mark.parametrize("preset", PRESETS)
def test_the_engine_agrees_with_the_referee_under_each_preset(preset: str) -> None:
    rng = random.Random(1)
    states = 0
    while states < STATES // 2 // len(PRESETS):
        states += play_and_compare(PRESETS[preset], rng, most=STATES)


@pytest.mark.parametrize("num_players", range(3, 9))
def test_the_engine_agrees_with_the_referee_under_random_rules(num_players: int) -> None:
    rng = random.Random(num_players)
    states = 0
    while states < STATES // 2 // 6:
        states += play_and_compare(random_rules(rng.randint, num_players), rng, most=200)


def test_the_engine_agrees_with_the_referee_in_the_longest_games() -> None:
    """Totals far below and above what official games reach: 50 scores of 100, or -1000."""
    rng = random.Random(2)
    tops = [
        Rules(3, (27, 23, 21, 14), 6, 1, 100, 50, -1000, 50),
        Rules(8, (9, 1, 1, 1), 0, 3, 100, 50, -1000, 50),
        Rules(3, (1, 1, 1, 1), 6, 1, 1, 50, -1000, 50),
    ]
    for rules in tops:
        play_and_compare(rules, rng, most=10_000)
