"""The rules of FOOL, clause by clause, continued from test_rules.py: R12-R17.

DEAL and PLAYS are one round of the miniature, told in deals.py.
"""

from __future__ import annotations

import random

import pytest
from deals import COLOURS, DEAL, PLAYS, last_trick, passed_left, play, play_out_round, table

from fool_env import Game, Rules
from fool_env.cards import card_name

# --- End and score


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
