"""Small deals by hand: games written as strings of cards, for tests that read like an example at the table."""

from __future__ import annotations

import random

from fool_env import Game, Rules
from fool_env.cards import card_name

COLOURS = "GRYB"

# One round of the miniature: G5 G4 R4 (Fool: seat 2), G2 G3 (Fool: seat 0), R2 1 (Fool: seat 2).
# Seat 1 goes out; seat 0 still holds R3 and seat 2 a 1.
DEAL = ("G2 G5 R3", "G3 G4 R2", "R4 1 1")
PLAYS = "G5 G4 R4 G2 G3 R2 1"


def table(*hands: str, dealer: int | None = None, num_fools: int = 1, **fields: int) -> Game:
    """A game from hands like "G2 R3 1", one for each seat; seat 0 leads unless a dealer is named."""
    dealt = [hand.split() for hand in hands]
    cards = [card for hand in dealt for card in hand]
    highest_rank = tuple(max([int(card[1:]) for card in cards if card[0] == c], default=1) for c in COLOURS)
    rules = Rules(len(hands), highest_rank, cards.count("1"), num_fools, **fields)
    return Game.from_deal(rules, dealt, len(hands) - 1 if dealer is None else dealer, seed=0)


def play(game: Game, cards: str) -> Game:
    """Play cards like "G2 1 R3" in turn."""
    for card in cards.split():
        game.play(card)
    return game


def legal(game: Game) -> str:
    """The legal cards by name, in order: "G2 R3 1"."""
    return " ".join(card_name(action) for action in game.legal_actions())


def last_trick(game: Game) -> tuple[int, tuple[int, ...]]:
    """Who won the last trick, and its Fools."""
    return game.last_trick.winner, tuple(game.last_trick.fools)


def play_out_round(game: Game, rng: random.Random) -> Game:
    """Play any legal cards to the end of the round."""
    while not game.round_over:
        game.play(rng.choice(game.legal_actions()))
    return game


def passed_left(deal: tuple[str, ...]) -> list[list[str]]:
    """The same deal for the next round: each hand goes to the seat on the left, as the lead does."""
    return [hand.split() for hand in (deal[-1], *deal[:-1])]
