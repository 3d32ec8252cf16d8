"""The rules of FOOL, clause by clause: each test is named after the clause (R1-R17) that it checks.

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


# --- End and score

# One round of the miniature, used below: G5 G4 R4 (Fool: seat 2), G2 G3 (Fool: seat 0), R2 1 (Fool: seat 2).
# Seat 1 goes out; seat 0 still holds R3 and seat 2 a 1.
DEAL = ("G2 G5 R3", "G3 G4 R2", "R4 1 1")
PLAYS = "G5 G4 R4 G2 G3 R2 1"


def passed_left(deal: tuple[str, ...]) -> list[list[str]]:
    """The same deal for the next round: each hand goes to the seat on the left, as the lead does."""
    return [hand.split() for hand in (deal[-1], *deal[:-1])]


def test_r12_a_trick_is_played_out_after_a_hand_is_emptied() -> None:
    game = play(table(*DEAL), PLAYS.removesuffix(" 1"))
    assert game.hands[1] == []
    assert not game.round_over and game.player == 2
    assert play(game, "1").round_over
    assert game.player is None and game.legal_actions() == []


def test_r12_the_fool_of_the_last_trick_takes_the_disc() -> None:
    assert last_trick(play(table(*DEAL), PLAYS)) == (1, (2,))


def test_r12_one_trick_may_empty_several_hands() -> None:
    game = play(table("G2", "G3", "G4"), "G2 G3 G4")
    assert game.round_over and game.hands == [[], [], []]


def test_r13_an_empty_hand_scores_10_and_the_others_lose_their_ranks_and_5_for_each_1() -> None:
    game = play(table(*DEAL), PLAYS)
    assert game.hands == [["R3"], [], ["1"]]
    assert list(game.points) == list(game.scores) == [-3, 10, -5]
    assert list(game.tens) == [0, 1, 0]


def test_r13_an_emptied_hand_scores_0_if_its_owner_is_a_fool_of_the_last_trick() -> None:
    game = play(table("G2", "G3", "G4"), "G2 G3 G4")
    assert list(game.points) == list(game.scores) == [0, 10, 10]
    assert list(game.tens) == [0, 1, 1]
    two_discs = play(table("G2", "G3", "R2", "G5", "G4", num_fools=2), "G2 G3 R2 G5 G4")
    assert list(two_discs.points) == [0, 10, 0, 10, 10]


def test_r13_a_fool_who_still_holds_cards_loses_them_like_anyone_else() -> None:
    game = play(table(*DEAL), PLAYS)
    assert last_trick(game)[1] == (2,)
    assert game.hands[2] == ["1"] and game.points[2] == -5


def test_r13_the_points_of_a_variant() -> None:
    game = play(table(*DEAL, empty_hand_points=7, one_penalty=0), PLAYS)
    assert list(game.points) == [-3, 7, 0]
    assert list(game.tens) == [0, 1, 0]


def test_r13_totals_add_up_over_the_rounds() -> None:
    game = play(table(*DEAL), PLAYS)
    game.next_round(passed_left(DEAL))
    play(game, PLAYS)
    assert list(game.points) == [-5, -3, 10]
    assert list(game.scores) == [-8, 7, 5]
    assert list(game.tens) == [0, 1, 1]


@pytest.mark.parametrize(("losing_total", "ends"), [(-4, True), (-5, True), (-6, False)])
def test_r14_the_game_ends_once_a_total_is_the_losing_total_or_less(losing_total: int, ends: bool) -> None:
    """Seat 2 stands at -5."""
    assert play(table(*DEAL, losing_total=losing_total), PLAYS).game_over is ends


@pytest.mark.parametrize(("losing_total", "ends"), [(-7, True), (-8, True), (-9, False)])
def test_r14_the_total_counts_not_the_round(losing_total: int, ends: bool) -> None:
    """Seat 0 loses 3 and then 5."""
    game = play(table(*DEAL, losing_total=losing_total), PLAYS)
    assert not game.game_over
    game.next_round(passed_left(DEAL))
    assert play(game, PLAYS).game_over is ends


@pytest.mark.parametrize("winning_tens", [1, 2, 6])
def test_r14_the_game_ends_once_a_seat_has_scored_for_an_empty_hand_often_enough(winning_tens: int) -> None:
    """Seats 1 and 2 score in every round; seat 0 empties its hand too, but as the Fool, which does not count."""
    game = table("G2", "G3", "G4", winning_tens=winning_tens)
    for rounds in range(1, winning_tens + 1):
        play_out_round(game, random.Random(0))
        assert list(game.tens) == [0, rounds, rounds]
        assert game.game_over is (rounds == winning_tens)
        if not game.game_over:
            game.next_round([["G2"], ["G3"], ["G4"]])


def test_r14_the_official_ends() -> None:
    for rules in (*map(Rules.official, range(4, 9)), *map(Rules.foppen_1995, range(3, 7)), Rules.miniature()):
        assert (rules.losing_total, rules.winning_tens) == (-80, 6)
        assert (rules.empty_hand_points, rules.one_penalty) == (10, 5)


def test_r15_the_highest_total_wins() -> None:
    game = play(table(*DEAL, losing_total=-5), PLAYS)
    assert list(game.scores) == [-3, 10, -5]
    assert list(game.winners) == [1]


def test_r15_the_seat_that_ended_the_game_by_emptied_hands_need_not_win() -> None:
    """In the first round the only emptied hand is the Fool's; the second ends the game by seat 2's first score."""
    game = table("R3 R4 1", "G2 G5 R2", "G3 G4 1", winning_tens=1, empty_hand_points=1)
    play(game, "R3 R2 G4 R4 G5 1 G3")
    assert list(game.points) == [0, -2, -5] and list(game.tens) == [0, 0, 0]
    game.next_round([["G2", "G4", "R2"], ["R4", "1", "1"], ["G3", "G5", "R3"]])
    play(game, "R4 R3 R2 1 G3 G5 G4")
    assert list(game.scores) == [-2, -7, -4] and list(game.tens) == [0, 0, 1]
    assert game.game_over and list(game.winners) == [0]


def test_r15_equal_totals_share_the_win() -> None:
    """[default]"""
    game = play(table("G2", "G3", "G4", winning_tens=1), "G2 G3 G4")
    assert list(game.scores) == [0, 10, 10]
    assert list(game.winners) == [1, 2]


# --- What a player may know


def shown_voids(game: Game, seat: int) -> str:
    """The colours that every view says this seat has shown to be void in: "GR"."""
    shown = {int(game.view(viewer)["voids"][seat]) for viewer in range(game.rules.num_players)}
    assert len(shown) == 1, "every seat has seen the same"
    bits = shown.pop()
    return "".join(letter for colour, letter in enumerate(COLOURS) if bits >> colour & 1)


def test_r16_what_is_public_is_in_every_view() -> None:
    """The deck in play, the dealer, the plays in order, the trick, the Fools, the hand sizes, totals and counts."""
    game = play(table(*DEAL, dealer=2), PLAYS)
    game.next_round(passed_left(DEAL))
    play(game, "G5 G4 R4 G2")
    for seat in range(3):
        view = game.view(seat)
        assert (list(view["highest_rank"]), view["num_ones"], view["num_players"]) == ([5, 4, 1, 1], 2, 3)
        assert (view["dealer"], view["leader"], view["player"]) == (0, 1, 2)
        plays = zip(view["history_seats"], view["history_actions"], strict=True)
        named = [(int(who), card_name(int(action))) for who, action in list(plays)[: view["num_plays"]]]
        assert named == [(1, "G5"), (2, "G4"), (0, "R4"), (1, "G2")]
        assert (view["trick_start"], view["trick_size"], view["fools"]) == (3, 2, 1 << 0)
        assert list(view["hand_sizes"][:3]) == [2, 1, 2]
        assert list(view["scores"][:3]) == [-3, 10, -5]
        assert list(view["tens"][:3]) == [0, 1, 0]


def test_r16_who_plays_off_colour_shows_a_void() -> None:
    game = play(table(*DEAL), "G5 G4 R4")
    assert [shown_voids(game, seat) for seat in range(3)] == ["", "", "G"]


def test_r16_a_1_shows_no_void() -> None:
    """Neither of who follows with it although void, nor of who could have followed."""
    game = play(table("G2 G3", "1 R2", "G4 R3"), "G2 1 G4")
    assert [shown_voids(game, seat) for seat in range(3)] == ["", "", ""]


def test_r16_the_card_that_sets_the_colour_shows_no_void_and_the_next_one_may() -> None:
    game = play(table("1 G2", "R2 R3", "G3 G4"), "1 R2")
    assert [shown_voids(game, seat) for seat in range(3)] == ["", "", ""]
    play(game, "G4")
    assert [shown_voids(game, seat) for seat in range(3)] == ["", "", "R"]


def test_r16_a_shown_void_lasts_for_the_rest_of_the_round_only() -> None:
    game = play(table(*DEAL), "G5 G4 R4")
    for cards in ("G2 G3", "R2 1"):
        play(game, cards)
        assert shown_voids(game, 2) == "G"
    game.next_round()
    assert [shown_voids(game, seat) for seat in range(3)] == ["", "", ""]


def test_r17_a_seat_sees_its_own_hand_and_no_other() -> None:
    game = table("G2 G5 R3", "G3 1 R2", "R4 G4 1")
    masks = {0: ([0b1001, 0b010, 0, 0], 0), 1: ([0b0010, 0b001, 0, 0], 1), 2: ([0b0100, 0b100, 0, 0], 1)}
    for viewer in range(3):
        view = game.view(viewer)
        for seat, (coloured, ones) in masks.items():
            assert list(view["hands"][seat]) == (coloured if seat == viewer else [0, 0, 0, 0])
            assert view["ones"][seat] == (ones if seat == viewer else 0)


def test_r17_a_view_does_not_tell_the_deals_to_come() -> None:
    """The generator's state would: two games that differ in it alone look the same."""
    games = [table(*DEAL) for _ in range(2)]
    views = [Game.from_deal(game.rules, game.hands, 2).view(0).tobytes() for game in games]
    assert views[0] == views[1]
    assert games[0].view(0)["rng"] == 0


def test_r17_a_played_card_is_public() -> None:
    game = play(table(*DEAL), "G5")
    assert game.view(2)["played"][0] == 0b1000
    assert game.trick == [(0, "G5")]
