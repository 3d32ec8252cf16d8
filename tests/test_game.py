"""`Game` as an object: playing by name and by action, rounds, errors, bytes, seeds and text."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from deals import DEAL, PLAYS, play, play_out_round, table

from fool_env import Game, IllegalActionError, Rules, RulesError
from fool_env.cards import parse_card

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


# --- Play


def test_a_card_is_played_by_name_or_by_action() -> None:
    games = [table(*DEAL) for _ in range(3)]
    for card in PLAYS.split():
        games[0].play(card)
        games[1].play(parse_card(card))
        games[2].play(np.int64(parse_card(card)))
    assert games[0] == games[1] == games[2]
    assert len({game.to_bytes() for game in games}) == 1


def test_cards_go_out_as_names_and_actions_as_plain_ints() -> None:
    game = play(table(*DEAL), "G5 G4")
    assert game.hands == [["G2", "R3"], ["G3", "R2"], ["R4", "1", "1"]]
    assert game.trick == game.history == [(0, "G5"), (1, "G4")]
    assert game.lead_colour == "G"
    assert game.legal_actions() == [28, 82]
    assert {type(action) for action in game.legal_actions()} == {int}
    assert {type(seat) for seat in (game.player, game.leader, game.dealer, *game.scores, *game.tens)} == {int}


def test_a_trick_is_followed_from_its_lead_to_the_next() -> None:
    game = table(*DEAL)
    assert (game.player, game.leader, game.fools, game.trick, game.last_trick) == (0, 0, (), [], None)
    play(game, "G5 G4 R4")
    assert (game.player, game.leader, game.fools, game.trick, game.lead_colour) == (0, 0, (2,), [], None)
    assert game.last_trick is not None
    assert game.last_trick.winner == 0
    assert game.last_trick.fools == (2,)
    assert game.last_trick.plays == [(0, "G5"), (1, "G4"), (2, "R4")]


def test_what_the_lists_hold_is_a_copy() -> None:
    game = play(table(*DEAL), "G5 G4 R4 G2")
    before = game.to_bytes()
    for listed in (game.hands, game.hands[0], game.trick, game.history, game.legal_actions(), game.scores, game.tens):
        listed.clear()  # type: ignore[attr-defined]
    game.view(0)["hands"] = 0
    assert game.to_bytes() == before


@pytest.mark.parametrize(
    ("card", "why"),
    [
        ("R4", "hand"),  # another seat holds it
        ("R2", "green"),  # held, but green is led
        ("B8", "hand"),  # not in this deck
        ("G5", "hand"),  # played before
        ("1", "hand"),  # another seat holds both
    ],
)
def test_an_illegal_play_names_card_hand_and_legal_cards_and_changes_nothing(card: str, why: str) -> None:
    game = play(table(*DEAL), "G5")
    before = game.to_bytes()
    for action in (card, parse_card(card)):
        with pytest.raises(IllegalActionError) as error:
            game.play(action)
        message = str(error.value)
        assert message.startswith(f"{card} ") and why in message
        assert "G3 G4 R2" in message, "the hand"
        assert message.endswith("G3 G4"), "the legal cards"
        assert isinstance(error.value, ValueError)
    assert game.to_bytes() == before


@pytest.mark.parametrize("action", [-1, 83, 2**63, -(2**70), np.int64(83)])
def test_an_action_out_of_range_is_illegal_and_changes_nothing(action: int) -> None:
    game = table(*DEAL)
    before = game.to_bytes()
    with pytest.raises(IllegalActionError, match=str(action)):
        game.play(action)
    assert game.to_bytes() == before


@pytest.mark.parametrize("card", ["G28", "X1", "", "G 2", 1.0, None, True, ["G2"]])
def test_what_is_no_card_at_all_is_refused_and_changes_nothing(card: Any) -> None:
    game = table(*DEAL)
    before = game.to_bytes()
    with pytest.raises(RulesError, match="card"):
        game.play(card)
    assert game.to_bytes() == before


# --- Rounds


def test_between_rounds_nobody_is_to_act() -> None:
    game = play(table(*DEAL), PLAYS)
    assert game.round_over and not game.game_over
    assert game.player is None and game.legal_actions() == []
    assert game.winners == ()
    before = game.to_bytes()
    for card in ("R3", 82):
        with pytest.raises(IllegalActionError, match="over"):
            game.play(card)
    assert game.to_bytes() == before


def test_the_next_round_keeps_totals_and_forgets_the_rest() -> None:
    game = play(table(*DEAL), PLAYS)
    game.next_round()
    assert not game.round_over and game.points == [-3, 10, -5]
    assert (game.scores, game.tens) == ([-3, 10, -5], [0, 1, 0])
    assert (game.dealer, game.leader, game.player) == (0, 1, 1)
    assert (game.fools, game.trick, game.history, game.last_trick, game.lead_colour) == ((), [], [], None, None)
    assert [len(hand) for hand in game.hands] == [3, 3, 3]


def test_the_next_round_takes_given_hands() -> None:
    game = play(table(*DEAL), PLAYS)
    game.next_round([["1", "1", "G2"], [1, 2, 3], ["R4", "R2", "R3"]])
    assert game.hands == [["G2", "1", "1"], ["G3", "G4", "G5"], ["R2", "R3", "R4"]]


def test_a_round_is_dealt_over_only_before_its_first_card() -> None:
    game = table(*DEAL)
    game.redeal([hand.split() for hand in (DEAL[1], DEAL[2], DEAL[0])], dealer=1)
    assert (game.dealer, game.player) == (1, 2)
    assert game.hands == [["G3", "G4", "R2"], ["R4", "1", "1"], ["G2", "G5", "R3"]]
    for cards in ("G5", PLAYS):  # within the round, and after it
        game = play(table(*DEAL), cards)
        before = game.to_bytes()
        with pytest.raises(RulesError, match="redeal"):
            game.redeal([hand.split() for hand in DEAL], dealer=1)
        assert game.to_bytes() == before


def test_no_next_round_before_the_rounds_end_or_after_the_games() -> None:
    game = play(table(*DEAL, losing_total=-5), PLAYS.removesuffix(" 1"))
    with pytest.raises(ValueError, match="not over"):
        game.next_round()
    play(game, "1")
    assert game.game_over
    before = game.to_bytes()
    with pytest.raises(ValueError, match="game is over"):
        game.next_round()
    with pytest.raises(IllegalActionError, match="over"):
        game.play("R3")
    assert game.to_bytes() == before


def test_an_episode_of_one_round_is_over_after_it() -> None:
    game = play_out_round(Game(Rules.official(6), seed=1, episode="round"), random.Random(1))
    assert game.game_over
    with pytest.raises(ValueError, match="over"):
        game.next_round()
    with pytest.raises(ValueError, match="episode"):
        Game(Rules.official(6), seed=1, episode="match")


# --- Seeds


def test_the_same_seed_deals_the_same_game() -> None:
    one, other = (Game(Rules.official(5), seed=9) for _ in range(2))
    luck = random.Random(9)
    while not one.game_over:
        if one.round_over:
            one.next_round()
            other.next_round()
        action = luck.choice(one.legal_actions())
        one.play(action)
        other.play(action)
        assert one.hands == other.hands
    assert one == other


def test_the_deals_of_a_seed_are_pinned() -> None:
    """Anybody's seeds must go on meaning the same games: other deals for a seed need a new fool_v1."""
    game = Game(Rules.miniature(), seed=1)
    assert (game.dealer, game.hands) == (0, [["G3", "1", "1"], ["G5", "R2", "R4"], ["G2", "G4", "R3"]])
    play_out_round(game, random.Random(0)).next_round()
    assert (game.dealer, game.hands) == (1, [["G5", "R3", "R4"], ["G2", "G4", "R2"], ["G3", "1", "1"]])

    game = Game(Rules.miniature(), seed=2**64 - 1)
    assert (game.dealer, game.hands) == (0, [["G4", "R3", "1"], ["G3", "G5", "R2"], ["G2", "R4", "1"]])

    game = Game(Rules.official(6), seed=2024)
    assert game.dealer == 1
    assert [" ".join(hand) for hand in game.hands] == [
        "G2 G11 G18 G21 R5 R9 R14 R17 R19 Y6 B8 B9",
        "G19 G23 R4 R11 R13 R18 Y3 Y10 Y13 Y15 Y17 1",
        "G4 G5 G12 G17 Y4 Y11 B2 B4 B10 B11 1 1",
        "G3 G8 G13 G20 R2 R10 R12 R15 Y2 Y5 Y12 B3",
        "G7 G10 G22 R3 R6 R8 R16 Y9 Y14 Y16 B6 1",
        "G6 G9 G14 G15 G16 R7 Y7 Y8 B5 B7 B12 1",
    ]


def test_other_seeds_deal_other_games() -> None:
    games = [Game(Rules.official(6), seed=seed) for seed in [*range(20), 2**32, 2**63, 2**64 - 1]]
    assert len({str(game.hands) for game in games}) == len(games)
    assert len({game.dealer for game in games}) > 3


def test_without_a_seed_every_game_is_another() -> None:
    assert len({str(Game(Rules.official(6)).hands) for _ in range(20)}) == 20


def test_the_rounds_of_a_game_are_dealt_anew() -> None:
    game = Game(Rules.official(4), seed=2)
    deals = [game.hands]
    while not play_out_round(game, random.Random(2)).game_over:
        game.next_round()
        deals.append(game.hands)
    assert len({str(deal) for deal in deals}) == len(deals) > 2


def test_deals_do_not_depend_on_how_the_round_before_was_played() -> None:
    games = [Game(Rules.official(4), seed=3) for _ in range(2)]
    for luck, game in enumerate(games):
        play_out_round(game, random.Random(luck)).next_round()
    assert games[0].scores != games[1].scores
    assert games[0].hands == games[1].hands


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True, "7"])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed"):
        Game(Rules.miniature(), seed=seed)


def test_every_card_comes_to_every_seat_about_equally_often() -> None:
    """3,000 deals of the miniature: a third each, give or take 6 standard deviations; likewise the dealer."""
    deals = 300 if JIT_OFF else 3_000
    counts: Counter[tuple[int, str]] = Counter()
    for seed in range(deals):
        game = Game(Rules.miniature(), seed=seed)
        counts[game.dealer, "dealer"] += 1
        counts.update((seat, card) for seat, hand in enumerate(game.hands) for card in set(hand) - {"1"})
    margin = 6 * (deals * 1 / 3 * 2 / 3) ** 0.5
    assert len(counts) == 3 * 8
    assert all(abs(count - deals / 3) < margin for count in counts.values())


# --- Bytes


def test_bytes_bring_the_game_back() -> None:
    game = play(table(*DEAL), "G5 G4")
    back = Game.from_bytes(game.to_bytes())
    assert back == game and back.rules == game.rules and back.legal_actions() == game.legal_actions()
    play(back, "R4")
    assert game.trick == [(0, "G5"), (1, "G4")]


def test_bytes_that_are_no_game_are_refused() -> None:
    good = Game(Rules.official(4), seed=1).to_bytes()
    damaged = bytearray(good)
    damaged[len(good) // 2] ^= 1
    for wrong in (b"", b"garbage", bytes(len(good)), good[:-1], good[:7], good + b"\0", bytes(damaged)):
        with pytest.raises(ValueError, match="game"):
            Game.from_bytes(wrong)


def test_bytes_of_another_version_are_refused_with_both_versions_named(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = Game(Rules.official(4), seed=1).to_bytes()
    monkeypatch.setattr("fool_env.game.GAME_VERSION", 987)
    with pytest.raises(ValueError, match=r"version \d+.*987"):
        Game.from_bytes(saved)


def test_a_clone_goes_its_own_way() -> None:
    game = table(*DEAL)
    clone = game.clone()
    play(clone, "G5")
    assert game.trick == [] and clone.trick == [(0, "G5")]
    assert game != clone


# --- Views and text


@pytest.mark.parametrize("seat", [-1, 3, 8, 1.0, True, None])
def test_there_is_no_view_of_a_seat_that_does_not_exist(seat: Any) -> None:
    with pytest.raises(ValueError, match="seat"):
        table(*DEAL).view(seat)


def test_the_text_shows_the_hand_of_the_seat_to_act_and_no_other() -> None:
    game = play(table(*DEAL), "G5")
    text = str(game)
    for card in ("G3", "G4", "R2", "G5"):  # its own hand, and the card on the table
        assert card in text
    for card in ("G2", "R3", "R4"):  # in other hands
        assert card not in text
    for card in ("G2", "R3", "R4"):
        assert card in game.full_table()


def test_the_text_reads_well_at_every_moment() -> None:
    """Between rounds, after the game, with Fools and voids on show: no exception, one line for each seat."""
    for rules in (Rules.official(4), Rules.official(8), Rules.miniature()):
        game = Game(rules, seed=1)
        luck = random.Random(1)
        while not game.game_over:
            assert len(str(game).splitlines()) >= rules.num_players
            if game.round_over:
                game.next_round()
            else:
                game.play(luck.choice(game.legal_actions()))
        assert "over" in str(game) and "over" in repr(game)


def test_a_game_needs_rules() -> None:
    for wrong in (6, None, "official", {"num_players": 6}):
        with pytest.raises(RulesError, match="rules"):
            Game(wrong)  # type: ignore[arg-type]
