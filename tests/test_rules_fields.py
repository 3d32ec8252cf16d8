"""Rules as data: the presets, each field's range, and how a wrong field, card or deal is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fool_env import Game, Rules, RulesError

VALID: dict[str, Any] = {
    "num_players": 4,
    "highest_rank": (17, 13, 11, 8),
    "num_ones": 3,
    "num_fools": 1,
    "empty_hand_points": 10,
    "one_penalty": 5,
    "losing_total": -80,
    "winning_tens": 6,
}


# --- Presets


@pytest.mark.parametrize(("players", "each"), [(3, 20), (4, 15), (5, 12), (6, 10)])
def test_foppen_1995_deals_the_60_cards_of_five_players(players: int, each: int) -> None:
    rules = Rules.foppen_1995(players)
    assert rules.highest_rank == Rules.official(5).highest_rank and rules.num_ones == 4
    assert (rules.num_cards, rules.hand_size, rules.num_fools) == (60, each, 1)


def test_the_miniature_is_three_players_with_three_cards_each() -> None:
    rules = Rules.miniature()
    assert (rules.num_players, rules.hand_size, rules.num_fools) == (3, 3, 1)
    assert rules.highest_rank == (5, 4, 1, 1) and rules.num_ones == 2


@pytest.mark.parametrize(("preset", "players"), [("official", (3, 9, 0)), ("foppen_1995", (2, 7))])
def test_presets_refuse_other_numbers_of_players(preset: str, players: tuple[int, ...]) -> None:
    for number in players:
        with pytest.raises(RulesError, match=rf"num_players.*{number}"):
            getattr(Rules, preset)(number)


@pytest.mark.parametrize("wrong", [4.0, True, "4", None])
def test_presets_refuse_what_is_not_a_whole_number(wrong: Any) -> None:
    for preset in (Rules.official, Rules.foppen_1995):
        with pytest.raises(RulesError, match="num_players"):
            preset(wrong)


# --- Fields


@pytest.mark.parametrize(
    ("field", "lowest", "highest"),
    [("empty_hand_points", 1, 100), ("one_penalty", 0, 50), ("losing_total", -1000, -1), ("winning_tens", 1, 50)],
)
def test_a_field_has_both_ends_of_its_range_and_nothing_beyond(field: str, lowest: int, highest: int) -> None:
    for value in (lowest, highest):
        assert getattr(Rules(**{**VALID, field: value}), field) == value
    for value in (lowest - 1, highest + 1):
        with pytest.raises(RulesError, match=rf"{field}.*{value}"):
            Rules(**{**VALID, field: value})


def test_num_players_is_3_to_8() -> None:
    for players in range(3, 9):
        assert Rules(players, (1 + players, 1, 1, 1), 0, 1).hand_size == 1
    for players in (-3, 0, 1, 2, 9):
        with pytest.raises(RulesError, match=rf"num_players.*{players}"):
            Rules(players, (1 + abs(players), 1, 1, 1), 0, 1)


def test_num_ones_is_0_to_6() -> None:
    for ones in range(7):
        assert Rules(3, (13 - ones, 1, 1, 1), ones, 1).num_cards == 12
    for ones in (-1, 7):
        with pytest.raises(RulesError, match=f"num_ones.*{ones}"):
            Rules(3, (13 - ones, 1, 1, 1), ones, 1)


@pytest.mark.parametrize(("players", "most"), [(3, 1), (4, 1), (5, 2), (6, 2), (7, 3), (8, 3)])
def test_num_fools_leaves_more_than_as_many_players_in(players: int, most: int) -> None:
    """`num_players >= 2 * num_fools + 1`, else the winner of a trick could be its Fool."""
    for fools in range(1, most + 1):
        assert Rules(players, (1 + players, 1, 1, 1), 0, fools).num_fools == fools
    for fools in (-1, 0, most + 1):
        with pytest.raises(RulesError, match=f"num_fools.*{fools}"):
            Rules(players, (1 + players, 1, 1, 1), 0, fools)


@pytest.mark.parametrize(
    ("index", "colour", "top"), [(0, "green", 27), (1, "red", 23), (2, "yellow", 21), (3, "blue", 15)]
)
def test_highest_rank_is_1_or_2_up_to_the_printed_cards(index: int, colour: str, top: int) -> None:
    def with_top(rank: int) -> Rules:
        """Three players with one colour, and 1s to deal out evenly."""
        ranks = [1, 1, 1, 1]
        ranks[index] = rank
        return Rules(3, tuple(ranks), 3 - (rank - 1) % 3, 1)

    for rank in range(1, top + 1):
        assert with_top(rank).highest_rank[index] == rank
    for rank in (0, -1, top + 1):
        with pytest.raises(RulesError, match=rf"highest_rank.*{colour}.*{rank}"):
            with_top(rank)


@pytest.mark.parametrize("wrong", [(17, 13, 11), (17, 13, 11, 8, 2), 17, "GRYB", None, {}])
def test_highest_rank_is_four_ranks(wrong: Any) -> None:
    with pytest.raises(RulesError, match="highest_rank"):
        Rules(**{**VALID, "highest_rank": wrong})


@pytest.mark.parametrize("field", [name for name in VALID if name != "highest_rank"])
@pytest.mark.parametrize("wrong", [True, 4.0, "4", None, np.float64(4), np.True_])
def test_a_field_of_the_wrong_type_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(RulesError, match=field):
        Rules(**{**VALID, field: wrong})


@pytest.mark.parametrize("wrong", [True, 17.0, "17", None])
def test_a_rank_of_the_wrong_type_is_refused(wrong: Any) -> None:
    with pytest.raises(RulesError, match=r"highest_rank.*green"):
        Rules(**{**VALID, "highest_rank": (wrong, 13, 11, 8)})


def test_numpy_integers_and_lists_are_taken_and_become_plain() -> None:
    rules = Rules(**{**VALID, "num_players": np.int64(4), "highest_rank": np.array([17, 13, 11, 8])})
    assert rules == Rules(**VALID) == Rules(**{**VALID, "highest_rank": [17, 13, 11, 8]})
    assert type(rules.num_players) is int and {type(rank) for rank in rules.highest_rank} == {int}
    assert hash(rules) == hash(Rules(**VALID))


def test_the_deck_must_deal_out_evenly() -> None:
    with pytest.raises(RulesError, match=r"47 cards.*4 players"):
        Rules(**{**VALID, "num_ones": 2})


def test_hands_have_1_to_30_cards() -> None:
    assert Rules(3, (27, 23, 21, 15), 5, 1).hand_size == 29
    assert Rules(3, (4, 1, 1, 1), 0, 1).hand_size == 1
    with pytest.raises(RulesError, match="0 cards"):
        Rules(3, (1, 1, 1, 1), 0, 1)


def test_a_deck_may_lack_colours_or_coloured_cards() -> None:
    assert Rules(3, (1, 1, 1, 15), 1, 1).num_cards == 15
    assert Game(Rules(3, (1, 1, 1, 1), 6, 1), seed=0).hands == [["1", "1"]] * 3


def test_rules_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Rules(**VALID).num_players = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    "rules", [Rules.official(8), Rules.miniature(), Rules(7, (15, 15, 15, 12), 3, 3, 1, 0, -1000, 50)]
)
def test_rules_survive_json(rules: Rules) -> None:
    assert Rules.from_dict(json.loads(json.dumps(rules.to_dict()))) == rules


def test_unknown_and_missing_fields_are_named() -> None:
    with pytest.raises(RulesError, match="num_player"):
        Rules.from_dict({**VALID, "num_player": 4})
    with pytest.raises(RulesError, match="num_ones"):
        Rules.from_dict({name: value for name, value in VALID.items() if name != "num_ones"})


# --- Deals

HANDS = [["G2", "G5", "R3"], ["G3", "G4", "R2"], ["R4", "1", "1"]]


def deal(*hands: list[Any], dealer: Any = 2) -> Game:
    return Game.from_deal(Rules.miniature(), list(hands), dealer, seed=0)


def test_a_deal_by_names_by_ids_or_by_both() -> None:
    by_name = deal(*HANDS)
    by_id = deal([0, 3, 27], [1, 2, 26], [28, 82, 82])
    mixed = deal([0, "G5", np.int64(27)], ["G3", 2, "R2"], [28, "1", 82])
    assert by_name.to_bytes() == by_id.to_bytes() == mixed.to_bytes()
    assert by_name.hands == HANDS


@pytest.mark.parametrize(
    "wrong", ["G28", "G1", "G0", "X5", "", "G", "5", "2", "11", "G-2", "G2.0", 83, -1, 1.0, True, None]
)
def test_a_card_that_does_not_exist_is_named(wrong: Any) -> None:
    with pytest.raises(RulesError) as error:
        deal(["G2", "G5", wrong], HANDS[1], HANDS[2])
    assert str(wrong) in str(error.value)


@pytest.mark.parametrize("card", ["G6", "B2", "Y21"])
def test_a_card_that_is_not_in_the_deck_is_named(card: str) -> None:
    with pytest.raises(RulesError, match=card):
        deal(["G2", "G5", card], HANDS[1], HANDS[2])


def test_a_card_dealt_twice_is_named() -> None:
    with pytest.raises(RulesError, match="G2"):
        deal(["G2", "G5", "G2"], HANDS[1], HANDS[2])
    with pytest.raises(RulesError, match="G2"):
        deal(HANDS[0], ["G2", "G4", "R2"], HANDS[2])


def test_too_many_1s_are_named() -> None:
    with pytest.raises(RulesError, match="1"):
        deal(["G2", "G5", "1"], HANDS[1], HANDS[2])


@pytest.mark.parametrize(
    "hands", [HANDS[:2], [*HANDS, ["G2", "G3", "G4"]], [], [["G2", "G5", "R3", "G3"], ["G4", "R2"], HANDS[2]]]
)
def test_a_wrong_number_of_hands_or_cards_is_refused(hands: list[list[str]]) -> None:
    with pytest.raises(RulesError, match="hand"):
        deal(*hands)


@pytest.mark.parametrize("wrong", [3, -1, 1.0, True, "0", None])
def test_a_dealer_who_is_no_seat_is_refused(wrong: Any) -> None:
    with pytest.raises(RulesError, match="dealer"):
        deal(*HANDS, dealer=wrong)


@pytest.mark.parametrize("wrong", ["G2 G5 R3", None, 7, [["G2", "G5", "R3"], None, ["R4", "1", "1"]]])
def test_hands_that_are_no_lists_of_cards_are_refused(wrong: Any) -> None:
    with pytest.raises(RulesError, match="hand"):
        Game.from_deal(Rules.miniature(), wrong, 2)


def test_the_next_round_checks_its_hands_likewise_and_changes_nothing() -> None:
    game = deal(*HANDS)
    for card in ("G5", "G4", "R4", "G2", "G3", "R2", "1"):
        game.play(card)
    before = game.to_bytes()
    with pytest.raises(RulesError, match="G6"):
        game.next_round([["G2", "G5", "G6"], HANDS[1], HANDS[2]])
    assert game.to_bytes() == before
