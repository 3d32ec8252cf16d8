"""The rules of FOOL, clause by clause: each test is named after the clause that it checks.

Here the cards and the play, R1-R11; the end, the score and what a player may know, R12-R17, in test_rules_end.py.

Deals are made by hand and as small as the clause allows; `table` makes the deck out of the cards dealt.
Clauses marked [default] fill what the published summaries leave open.
"""

from __future__ import annotations

import random

import pytest
from deals import COLOURS, last_trick, legal, play, play_out_round, table
from variants import PRESETS

from fool_env import Game, Rules
from fool_env.cards import CARD_NAMES, card_name, parse_card

# --- Cards


def test_r1_the_whole_deck_has_88_cards() -> None:
    """Green 2-27, red 2-23, yellow 2-21, blue 2-15 and six 1s; with 8 players all are in play."""
    dealt = [card for hand in Game(Rules.official(8), seed=1).hands for card in hand]
    coloured = [f"{c}{r}" for c, top in zip(COLOURS, (27, 23, 21, 15), strict=True) for r in range(2, top + 1)]
    assert sorted(dealt) == sorted(coloured + ["1"] * 6)
    assert len(dealt) == 88


@pytest.mark.parametrize(
    ("players", "green", "red", "yellow", "blue", "ones", "cards", "each", "fools"),
    [
        (4, 17, 13, 11, 8, 3, 48, 12, 1),
        (5, 20, 16, 14, 10, 4, 60, 12, 1),
        (6, 23, 19, 17, 12, 5, 72, 12, 1),
        (7, 26, 22, 20, 14, 6, 84, 12, 2),
        (8, 27, 23, 21, 15, 6, 88, 11, 2),
    ],
)
def test_r2_cards_in_play(
    players: int, green: int, red: int, yellow: int, blue: int, ones: int, cards: int, each: int, fools: int
) -> None:
    """[default] The deck shrinks with the players, and the highest ranks leave first."""
    rules = Rules.official(players)
    assert (rules.num_cards, rules.hand_size, rules.num_fools) == (cards, each, fools)
    tops = zip(COLOURS, (green, red, yellow, blue), strict=True)
    in_play = [f"{c}{r}" for c, top in tops for r in range(2, top + 1)] + ["1"] * ones
    assert [card_name(action) for action in rules.deck] == in_play
    hands = Game(rules, seed=players).hands
    assert sorted(card for hand in hands for card in hand) == sorted(in_play)
    assert [len(hand) for hand in hands] == [each] * players


@pytest.mark.parametrize(
    ("name", "action"),
    [("G2", 0), ("G27", 25), ("R2", 26), ("R23", 47), ("Y2", 48), ("Y21", 67), ("B2", 68), ("B15", 81), ("1", 82)],
)
def test_r3_notation(name: str, action: int) -> None:
    """A card is its colour letter and rank, the wild is "1"; the colours' actions follow one another."""
    assert card_name(action) == name
    assert parse_card(name) == parse_card(action) == action
    assert len(CARD_NAMES) == 83


@pytest.mark.parametrize("players", range(4, 9))
def test_r3_actions_are_the_same_for_every_number_of_players(players: int) -> None:
    game = Game(Rules.official(players), seed=3)
    assert game.legal_actions() == sorted({parse_card(card) for card in game.hands[game.player]})


def test_r3_all_1s_of_a_hand_are_one_action() -> None:
    assert table("1 1", "G2 G3", "G4 G5").legal_actions() == [82]


# --- Play


@pytest.mark.parametrize("preset", PRESETS)
def test_r4_the_whole_deck_is_dealt_evenly(preset: str) -> None:
    rules = PRESETS[preset]
    hands = Game(rules, seed=4).hands
    assert sorted(card for hand in hands for card in hand) == sorted(card_name(action) for action in rules.deck)
    assert [len(hand) for hand in hands] == [rules.hand_size] * rules.num_players


def test_r4_the_deck_is_shuffled() -> None:
    """Over 30 deals every seat holds the lowest card of the deck at some time, and the highest."""
    for card in ("G2", "G17"):
        holders = {
            seat
            for seed in range(30)
            for seat, hand in enumerate(Game(Rules.official(4), seed=seed).hands)
            if card in hand
        }
        assert holders == {0, 1, 2, 3}


def test_r4_seats_play_in_ascending_order_wrapping() -> None:
    game = table("G2 G6", "G3 G7", "G4 G8", "G5 G9", dealer=1)
    order = []
    for card in ("G4", "G5", "G2", "G3"):
        order.append(game.player)
        game.play(card)
    assert order == [2, 3, 0, 1]


def test_r4_the_first_dealer_is_random() -> None:
    """[default]"""
    assert {Game(Rules.official(4), seed=seed).dealer for seed in range(40)} == {0, 1, 2, 3}


def test_r4_the_deal_passes_left() -> None:
    """[default]"""
    game = table("G2", "G3", "G4", dealer=1)
    dealers = [game.dealer]
    for _ in range(3):
        play_out_round(game, random.Random(0)).next_round()
        dealers.append(game.dealer)
    assert dealers == [1, 2, 0, 1]


def test_r4_a_round_starts_with_the_discs_in_the_middle() -> None:
    """[default] The Fool of a round's last trick takes part in the first trick of the next round."""
    game = play(table("G2", "G3", "G4"), "G2 G3 G4")
    assert last_trick(game) == (2, (0,))
    game.next_round([["G4"], ["G3"], ["G2"]])
    assert game.fools == ()
    play(game, "G3 G2 G4")
    assert [seat for seat, _ in game.last_trick.plays] == [1, 2, 0]


@pytest.mark.parametrize(("dealer", "leader"), [(0, 1), (1, 2), (2, 0)])
def test_r5_the_player_left_of_the_dealer_leads_the_first_trick(dealer: int, leader: int) -> None:
    game = table("G2", "G3", "G4", dealer=dealer)
    assert game.leader == game.player == leader


def test_r5_the_winner_of_a_trick_leads_the_next() -> None:
    game = play(table("G2 G5 R3", "G3 G4 R2", "R4 1 1"), "G2 G4 1")
    assert last_trick(game)[0] == game.leader == game.player == 1


def test_r5_any_card_may_be_led() -> None:
    assert legal(table("G2 R3 1", "G3 G4 R2", "G5 R4 1")) == "G2 R3 1"


def test_r6_the_lead_colour_is_that_of_the_first_coloured_card() -> None:
    game = table("G2 G5 R3", "G3 G4 R2", "R4 1 1")
    assert game.lead_colour is None
    for card in ("R3", "R2", "1"):
        game.play(card)
        assert game.lead_colour == (None if card == "1" else "R")  # the third card ends the trick


def test_r6_who_holds_the_lead_colour_plays_it_or_a_1() -> None:
    assert legal(play(table("G2 G5 1", "G3 G4 R2", "R3 R4 1"), "G2")) == "G3 G4"
    assert legal(play(table("G2 G5 R3", "G3 R2 1", "G4 R4 1"), "G2")) == "G3 1"


def test_r6_who_holds_no_card_of_the_lead_colour_may_play_any() -> None:
    assert legal(play(table("G2 G4 1", "G3 G5 R2", "R3 R4 1"), "G2 G3")) == "R3 R4 1"


def test_r6_a_1_never_counts_as_holding_the_colour() -> None:
    """Whose only way to follow is a 1 may play any card."""
    assert legal(play(table("G2 G5 R3", "R2 R4 1", "G3 G4 1"), "G2")) == "R2 R4 1"


def test_r6_an_off_colour_card_does_not_change_the_lead_colour() -> None:
    game = play(table("G2 G4", "R2 R3", "G3 R4"), "G2 R2")
    assert game.lead_colour == "G"
    assert legal(game) == "G3"


def test_r7_a_1_may_always_be_played_and_need_never_be_while_another_card_is_legal() -> None:
    game = table("G2 R3 1", "G3 R2 1", "G4 G5 R4")
    assert legal(game) == "G2 R3 1"  # leading
    assert legal(play(game, "G2")) == "G3 1"  # following
    game = play(table("G2 G4 R3", "R2 R4 1", "G3 G5 1"), "G2")
    assert legal(game) == "R2 R4 1"  # void


def test_r7_who_holds_nothing_but_1s_plays_one() -> None:
    assert legal(play(table("G2 G3", "1 1", "G4 G5"), "G2")) == "1"


def test_r7_after_led_1s_the_colour_is_open_until_the_first_coloured_card_sets_it() -> None:
    deal = ("G2 G3 1", "G4 R2 1", "G5 R3 R4")
    game = play(table(*deal), "1")
    assert game.lead_colour is None
    assert legal(game) == "G4 R2 1"
    play(game, "1")
    assert game.lead_colour is None
    assert legal(game) == "G5 R3 R4"

    game = play(table(*deal), "1 R2")
    assert game.lead_colour == "R"
    assert legal(game) == "R3 R4"


def test_r7_a_1_is_the_lowest_card_of_the_lead_colour() -> None:
    """It loses to the 2, also when it was led before the colour was known."""
    assert last_trick(play(table("G2 R3", "1 R2", "G3 R4"), "G2 1 G3")) == (2, (1,))
    assert last_trick(play(table("1 R3", "G2 R2", "G3 R4"), "1 G2 G3")) == (2, (0,))


def test_r7_a_1_is_never_off_colour() -> None:
    """A red 4 behind green is the worse card, although 4 is the higher rank."""
    assert last_trick(play(table("G2 G3", "1 R2", "R3 R4"), "G2 1 R4")) == (0, (2,))


def test_r8_the_highest_card_of_the_lead_colour_wins() -> None:
    assert last_trick(play(table("G3 R2", "G4 R3", "G2 R4"), "G3 G4 G2"))[0] == 1


def test_r8_a_higher_card_off_colour_does_not_win() -> None:
    assert last_trick(play(table("G2 R2", "G3 R3", "R4 R5"), "G2 G3 R5"))[0] == 1


def test_r8_a_trick_of_nothing_but_1s_is_won_by_the_1_played_first() -> None:
    """[default]"""
    game = play(table("1 G2", "1 G3", "1 G4", dealer=0), "1 1 1")
    assert last_trick(game)[0] == game.leader == 1


def test_r9_worst_card_is_the_lowest_off_colour_card() -> None:
    """Not a higher off-colour card, and not a lower card that follows."""
    assert last_trick(play(table("G2 G3", "R3 R4", "R2 R5", "G4 G5"), "G2 R4 R5 G4"))[1] == (1,)
    assert last_trick(play(table("G2 G3", "R2 R5", "R3 R4", "G4 G5"), "G2 R5 R4 G4"))[1] == (2,)


def test_r9_off_colour_is_judged_by_the_colour_that_was_set_after_led_1s() -> None:
    assert last_trick(play(table("1 G2", "R2 R3", "G3 G4"), "1 R2 G4")) == (1, (2,))


def test_r9_among_equal_off_colour_cards_the_worst_is_the_one_played_last() -> None:
    """Whatever their colours are."""
    assert last_trick(play(table("G2 G3", "R2 R3", "Y2 Y3", "G4 G5"), "G2 R3 Y3 G4"))[1] == (2,)
    assert last_trick(play(table("G2 G3", "Y2 Y3", "R2 R3", "G4 G5"), "G2 Y3 R3 G4"))[1] == (2,)


def test_r9_otherwise_the_worst_card_is_the_lowest_of_the_lead_colour() -> None:
    assert last_trick(play(table("G3 R2", "G2 R3", "G4 R4"), "G3 G2 G4"))[1] == (1,)


def test_r9_among_1s_the_worst_is_the_one_played_last() -> None:
    """[default]"""
    assert last_trick(play(table("G2 G4", "1 R2", "1 R3", "G3 R4"), "G2 1 1 G3"))[1] == (2,)
    assert last_trick(play(table("1 G4", "1 R2", "G2 R3", "G3 R4"), "1 1 G2 G3"))[1] == (1,)
    assert last_trick(play(table("1 G2", "1 G3", "1 G4"), "1 1 1")) == (0, (2,))


def test_r10_the_fool_sits_out_the_next_trick() -> None:
    game = play(table("G2 G5 R3", "G3 G4 R2", "R4 1 1"), "G5 G4 R4")
    assert game.fools == last_trick(game)[1] == (2,)
    play(game, "G2 G3")
    assert game.last_trick.plays == [(0, "G2"), (1, "G3")]


def test_r10_two_discs_the_two_lowest_off_colour_cards() -> None:
    game = table("G2 G4", "R2 R6", "R3 R5", "R4 R7", "G3 G5", num_fools=2)
    assert last_trick(play(game, "G2 R6 R3 R4 G3")) == (4, (2, 3))


def test_r10_two_discs_one_off_colour_card_then_the_lowest_of_the_lead_colour() -> None:
    """[default] R9's order simply goes on."""
    game = table("G3 G8", "G2 R2", "R3 R4", "G4 G5", "G6 G7", num_fools=2)
    assert last_trick(play(game, "G3 G2 R4 G4 G6")) == (4, (1, 2))


def test_r10_two_discs_without_off_colour_cards_the_two_lowest_of_the_lead_colour() -> None:
    """[default]"""
    game = table("G5 R2", "G3 R3", "G4 R4", "G2 R5", "G6 R6", num_fools=2)
    assert last_trick(play(game, "G5 G3 G4 G2 G6")) == (4, (1, 3))


def test_r10_two_discs_among_equals_those_played_last() -> None:
    """[default] Off-colour cards of one rank, and 1s."""
    off_colour = ("G2 G3", "R2 R3", "Y2 Y3", "B2 B3", "G4 G5")
    assert last_trick(play(table(*off_colour, num_fools=2), "G2 R3 Y3 B3 G4"))[1] == (2, 3)
    assert last_trick(play(table(*off_colour, num_fools=2), "G2 R2 Y3 B3 G4"))[1] == (1, 3)
    three_1s = table("G2 G3", "1 R2", "1 R3", "1 R4", "G4 G5", num_fools=2)
    assert last_trick(play(three_1s, "G2 1 1 1 G4"))[1] == (2, 3)
    nothing_but_1s = table("1 G2", "1 G3", "1 G4", "1 G5", "1 G6", num_fools=2)
    assert last_trick(play(nothing_but_1s, "1 1 1 1 1")) == (0, (3, 4))


def test_r10_three_discs() -> None:
    """Two off-colour cards and then the 1; all three sit out the next trick."""
    game = table("G2 G3", "G4 G5", "R2 R3", "1 R4", "G6 G7", "R5 R6", "G8 G9", num_fools=3)
    play(game, "G3 G4 R3 1 G6 R5 G8")
    assert last_trick(game) == (6, (2, 3, 5))
    play(game, "G9 G2 G5 G7")
    assert [seat for seat, _ in game.last_trick.plays] == [6, 0, 1, 4]
    assert last_trick(game) == (6, (0, 1, 4))


def test_r11_after_one_trick_the_fool_takes_part_again() -> None:
    game = play(table("G2 G5 R3", "G3 G4 R2", "R4 1 1"), "G5 G4 R4")
    assert game.fools == (2,)
    play(game, "G2 G3")
    assert game.fools == (0,)
    play(game, "R2 1")
    assert [seat for seat, _ in game.last_trick.plays] == [1, 2]


@pytest.mark.parametrize(
    "rules", [Rules.miniature(), Rules.official(5), Rules.official(8), Rules(7, (15, 15, 15, 12), 3, 3)]
)
def test_r11_nobody_is_the_fool_twice_running_and_no_winner_is_a_fool(rules: Rules) -> None:
    rng = random.Random(11)
    for seed in range(5):
        game = Game(rules, seed=seed)
        fools_before: tuple[int, ...] = ()
        while not game.round_over:
            trick_before = game.last_trick
            game.play(rng.choice(game.legal_actions()))
            if game.last_trick != trick_before:
                winner, fools = last_trick(game)
                assert winner not in fools
                assert not set(fools) & set(fools_before)
                fools_before = fools
