"""What a seat sees: every field against a slow recomputation, nothing hidden shown, the same from every chair."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest
from deals import play, table
from reference import Referee, deck_of, lead_colour, trick_winner, worst_first
from variants import PRESETS, random_rules

from fool_env import FoolVectorEnv, Game, Rules, fool_v0
from fool_env.cards import CARD_NAMES, NUM_ACTIONS, WILD
from fool_env.observation import (
    OBSERVATION,
    OBSERVATION_SIZE,
    OBSERVATION_VERSION,
    describe,
    encode,
    field_table,
    history,
    observation_space,
)
from fool_env.state import GAME

COLOURS = "GRYB"
SPACE = observation_space()
ACTIONS = {card: action for action, card in enumerate(CARD_NAMES)}


def counts(cards: list[str]) -> np.ndarray:
    """Cards counted by action."""
    return np.bincount([ACTIONS[card] for card in cards], minlength=NUM_ACTIONS)


def expected_row(referee: Referee, viewer: int, episode: str) -> np.ndarray:
    """The observation by the words of `field_table()`, from the referee, which is an independent implementation."""
    rules = referee.rules
    n = rules.num_players
    seats = [(viewer + i) % n for i in range(n)]
    row = np.zeros(OBSERVATION_SIZE, np.float32)
    fields = row.view(OBSERVATION)[0]
    played = [card for trick in [*referee.tricks, referee.trick] for _, card in trick]
    fields["hand"] = counts(referee.hands[viewer])
    fields["unseen"] = counts(deck_of(rules)) - counts(played) - counts(referee.hands[viewer])
    order = [seat for seat, _ in referee.trick]
    worst = [seat for seat, _ in worst_first(referee.trick)[: rules.num_fools]]
    for place, (seat, card) in enumerate(referee.trick):
        i = seats.index(seat)
        fields["trick_played"][i] = 1
        fields["trick_is_one"][i] = card == "1"
        if card != "1":
            fields["trick_colour"][i, COLOURS.index(card[0])] = 1
        fields["trick_rank"][i] = (1 if card == "1" else int(card[1:])) / 27
        fields["trick_order"][i] = (place + 1) / 8
        fields["trick_wins"][i] = seat == trick_winner(referee.trick)
        fields["trick_fool"][i] = seat in worst
    for i, seat in enumerate(seats):
        fields["present"][i] = 1
        fields["sits_out"][i] = seat in referee.sitting_out
        fields["hand_size"][i] = len(referee.hands[seat]) / 12
        fields["void"][i] = [(seat, colour) in referee.voids for colour in COLOURS]
        fields["score"][i] = referee.scores[seat] / 80
        fields["tens"][i] = referee.tens[seat] / 6
        fields["leads"][i] = seat == referee.leader
        fields["deals"][i] = seat == referee.dealer
        still_to_play = not referee.round_over and seat not in referee.sitting_out and seat not in order
        fields["plays_after"][i] = still_to_play and seat != viewer
    lead = lead_colour(referee.trick)
    fields["lead_colour"][4 if lead is None else COLOURS.index(lead)] = 1
    fields["num_players"] = n / 8
    fields["num_fools"] = rules.num_fools / 3
    fields["totals_matter"] = episode == "game"
    return row


def check_seats(game: Game, referee: Referee, episode: str, seats: list[int]) -> None:
    rows = encode(np.array([game.view(seat) for seat in seats]))
    assert rows.shape == (len(seats), OBSERVATION_SIZE) and rows.dtype == np.float32
    for seat, row in zip(seats, rows, strict=True):
        assert SPACE.contains(row)
        expected = expected_row(referee, seat, episode)
        if not np.abs(row - expected).max() < 1e-5:
            wrong = [name for name in OBSERVATION.names if not np.allclose(field(row, name), field(expected, name))]
            raise AssertionError(f"{wrong} from seat {seat} of {game.rules}\n{game.full_table()}")


def field(row: np.ndarray, name: str) -> np.ndarray:
    """One named field of a flat observation."""
    return np.asarray(row.view(OBSERVATION)[name][0])


def play_and_check(rules: Rules, rng: random.Random, plays: int, episode: str = "game") -> None:
    game = Game(rules, seed=rng.randrange(2**64), episode=episode)
    referee = Referee(rules, game.hands, game.dealer)
    everybody = list(range(rules.num_players))
    check_seats(game, referee, episode, everybody)
    for _ in range(plays):
        check_seats(game, referee, episode, [referee.player, rng.choice(everybody)])
        card = rng.choice(referee.legal())
        game.play(card)
        referee.play(card)
        if game.round_over:
            check_seats(game, referee, episode, everybody)
            if game.game_over:
                return
            game.next_round()
            referee.next_round(game.hands)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_field_under_each_preset(preset: str) -> None:
    rng = random.Random(preset)
    play_and_check(PRESETS[preset], rng, plays=120)
    play_and_check(PRESETS[preset], rng, plays=90, episode="round")


@pytest.mark.parametrize("num_players", range(3, 9))
def test_every_field_under_random_rules(num_players: int) -> None:
    rng = random.Random(num_players)
    for _ in range(12):
        play_and_check(random_rules(rng.randint, num_players), rng, plays=25)


def test_the_ends_of_every_range_are_within_the_declared_bounds() -> None:
    """The largest hands, ranks, totals and counts that any rules allow; totals are set, as no test plays so long."""
    rules = Rules(3, (27, 23, 21, 14), 6, 1, empty_hand_points=100, one_penalty=50, losing_total=-1000, winning_tens=50)
    game = Game(rules, seed=0)
    view = game.view(game.player)
    view["hand_sizes"] = 30
    for score, tens in ((-999 - 30 * 50, 0), (50 * 100, 50)):
        view["scores"], view["tens"] = score, tens
        assert SPACE.contains(encode(view)[0])
    for num_ones in range(7):
        ones = Rules(3, (1, 1, 1, 1 + (12 - num_ones)), num_ones, 1)
        assert all(SPACE.contains(encode(Game(ones, seed=seed).view(0))[0]) for seed in range(20))
    for card in ("G27", "R23", "Y21", "B15", "G2", "1"):
        ranked = Game(Rules.official(8), seed=0)
        seat = next(seat for seat, hand in enumerate(ranked.hands) if card in hand)
        ranked.redeal(ranked.hands, (seat - 1) % 8)
        ranked.play(card)
        assert all(SPACE.contains(encode(ranked.view(seat))[0]) for seat in range(8))


def test_one_size_and_one_space_for_every_table() -> None:
    spaces = set()
    for rules in [*PRESETS.values(), Rules(3, (27, 23, 21, 14), 6, 1)]:
        assert encode(Game(rules, seed=0).view(0)).shape == (1, OBSERVATION_SIZE)
        env = fool_v0.raw_env(rules=rules)
        spaces |= {str(env.observation_space(agent)) for agent in env.possible_agents}
    assert len(spaces) == 1
    assert SPACE.shape == (OBSERVATION_SIZE,)


# --- nothing hidden is shown (FAULTS 42)


def with_other_luck(game: Game, viewer: int, rng: random.Random) -> Game:
    """The game as it would be had the cards that `viewer` does not see been dealt otherwise, and the next deals too."""
    twin = game.clone()
    record = twin._games[0]  # the one place where hands can be changed in the middle of a round
    others = [seat for seat in range(len(game.scores)) if seat != viewer]
    hidden = [card for seat in others for card in game.hands[seat]]
    rng.shuffle(hidden)
    for seat in others:
        hand = [ACTIONS[hidden.pop()] for _ in game.hands[seat]]
        record["ones"][seat] = hand.count(WILD)
        for colour, cards in enumerate(np.split(np.isin(range(WILD), hand), [26, 48, 68])):
            record["hands"][seat, colour] = sum(1 << int(i) for i in np.flatnonzero(cards))
    record["rng"] ^= np.uint64(rng.randrange(1, 2**64))
    return twin


def random_position(rules: Rules, rng: random.Random) -> Game:
    """A position of a round, perhaps its end."""
    game = Game(rules, seed=rng.randrange(2**64))
    for _ in range(rng.randrange(rules.num_cards)):
        if game.round_over:
            break
        game.play(rng.choice(game.legal_actions()))
    return game


def shown_by_aec(game: Game, seat: int) -> tuple[object, ...]:
    """All that the AEC env tells the agent of one seat."""
    env = fool_v0.raw_env(rules=game.rules, render_mode="ansi")
    env.reset(seed=0)
    env.game = game
    env._select(env.agents[0], game.player)
    agent = env.possible_agents[seat]
    observation = env.observe(agent)
    shown = (observation["observation"].tobytes(), observation["action_mask"].tobytes())
    info = {name: value.tobytes() for name, value in env.infos[agent].items()}
    rendered = env.render() if game.player == seat else None
    return *shown, info, rendered, env.agent_selection


@pytest.mark.parametrize("preset", PRESETS)
def test_hidden_cards_change_nothing_that_a_seat_is_shown(preset: str) -> None:
    rng = random.Random(preset)
    changed = 0
    for _ in range(25):
        game = random_position(PRESETS[preset], rng)
        seat = rng.randrange(len(game.scores))
        if game.player is not None and rng.random() < 0.5:
            seat = game.player
        twin = with_other_luck(game, seat, rng)
        changed += twin.hands != game.hands
        assert twin.view(seat).tobytes() == game.view(seat).tobytes()
        assert encode(twin.view(seat)).tobytes() == encode(game.view(seat)).tobytes()
        assert history(twin.view(seat)).tobytes() == history(game.view(seat)).tobytes()
        assert shown_by_aec(twin, seat) == shown_by_aec(game, seat)
        if game.player == seat:
            assert twin.legal_actions() == game.legal_actions()
            assert str(twin) == str(game)
    assert changed > 10  # else the test would say nothing


def test_hidden_cards_change_nothing_that_the_vector_env_shows() -> None:
    rng = random.Random(0)
    rules = [preset for preset in PRESETS.values() for _ in range(3)]
    env, twin = (FoolVectorEnv(len(rules), rules, seed=3) for _ in range(2))
    for _ in range(40):
        env.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in env.masks]))
        state = env.state_dict()
        records = state["games"].view(GAME)[:, 0]
        for i, seat in enumerate(env.players):
            game = Game(rules[i], seed=0)
            game._games[0] = records[i]
            records[i] = with_other_luck(game, int(seat), rng).record
        twin.load_state_dict(state)
        assert twin.games.tobytes() != env.games.tobytes()
        for name in ("observations", "masks", "players", "views"):
            assert getattr(twin, name).tobytes() == getattr(env, name).tobytes(), name


def test_a_view_holds_no_other_hand_and_no_luck() -> None:
    game = Game(Rules.official(6), seed=1)
    for seat in range(6):
        view = game.view(seat)
        others = [other for other in range(8) if other != seat]
        assert not view["hands"][others].any() and not view["ones"][others].any() and view["rng"] == 0
        assert view["viewer"] == seat


# --- the same from every chair (FAULTS 43)


@pytest.mark.parametrize("num_players", range(3, 9))
def test_turning_the_table_turns_nothing_that_is_seen(num_players: int) -> None:
    rng = random.Random(num_players)
    for turn in range(1, num_players):
        rules = random_rules(rng.randint, num_players)
        game = Game(rules, seed=turn)

        def turned(hands: list[list[str]], by: int = turn) -> list[list[str]]:
            return hands[-by:] + hands[:-by]

        other = Game.from_deal(rules, turned(game.hands), (game.dealer + turn) % num_players)
        for _ in range(60):
            mine = np.array([game.view(seat) for seat in range(num_players)])
            theirs = np.array([other.view((seat + turn) % num_players) for seat in range(num_players)])
            assert encode(mine).tobytes() == encode(theirs).tobytes()
            assert history(mine).tobytes() == history(theirs).tobytes()
            assert game.legal_actions() == other.legal_actions()
            if game.game_over:
                break
            if game.round_over:
                game.next_round()
                other.next_round(turned(game.hands))
                continue
            action = rng.choice(game.legal_actions())
            game.play(action)
            other.play(action)


# --- one observation, whoever gives it


@pytest.mark.parametrize("episode", ["game", "round"])
@pytest.mark.parametrize("num_players", range(4, 9))
def test_view_aec_and_vector_env_give_the_same_bytes(num_players: int, episode: str) -> None:
    rng = random.Random(num_players)
    vector = FoolVectorEnv(1, Rules.official(num_players), episode, seed=num_players)
    aec = fool_v0.raw_env(num_players=num_players, episode=episode)
    aec.reset(seed=int(vector.seeds[0]))
    while aec.agents and not aec.terminations[aec.agent_selection]:
        assert aec.agent_selection == f"player_{vector.players[0]}"
        rows = encode(np.array([aec.game.view(seat) for seat in range(num_players)]))
        for agent, row in zip(aec.agents, rows, strict=True):
            assert aec.observe(agent)["observation"].tobytes() == row.tobytes()
        own = aec.observe(aec.agent_selection)
        assert vector.observations[0].tobytes() == own["observation"].tobytes() == encode(vector.views)[0].tobytes()
        assert vector.masks[0].tobytes() == own["action_mask"].tobytes()
        action = rng.choice(np.flatnonzero(own["action_mask"]))
        aec.step(action)
        vector.step(np.array([action]))
    assert vector.dones[0]


def test_encode_takes_one_view_or_many_and_no_full_record() -> None:
    game = Game(Rules.official(5), seed=2)
    views = np.array([game.view(seat) for seat in range(5)])
    assert encode(views).tobytes() == b"".join(encode(view).tobytes() for view in views)
    assert encode(views[::2]).tobytes() == encode(views)[::2].tobytes()
    before = views.tobytes()
    encode(views)
    history(views)
    assert views.tobytes() == before
    for function in (encode, history):
        assert len(function(views[:0])) == 0
        with pytest.raises(ValueError, match="view"):
            function(game.record)


# --- history


@pytest.mark.parametrize("preset", PRESETS)
def test_history_is_the_round_in_order_with_relative_seats(preset: str) -> None:
    rng = random.Random(preset)
    for _ in range(10):
        game = random_position(PRESETS[preset], rng)
        n = len(game.scores)
        for viewer in range(n):
            plays = history(game.view(viewer))
            assert plays.shape == (1, 88, 2) and plays.dtype == np.int16
            size = len(game.history)
            seen = [((seat + viewer) % n, CARD_NAMES[action]) for seat, action in plays[0, :size]]
            assert seen == game.history
            assert ((plays[0, :size, 0] >= 0) & (plays[0, :size, 0] < n)).all()
            assert (plays[0, size:] == -1).all()


def test_history_starts_anew_with_each_round() -> None:
    game = Game(Rules.official(4), seed=0)
    while not game.round_over:
        game.play(game.legal_actions()[0])
    assert (history(game.view(0))[0, :, 0] >= 0).sum() == len(game.history) > 0
    game.next_round()
    assert (history(game.view(0)) == -1).all()


# --- the fields and their words


def test_offsets_and_shapes_of_the_table_are_those_of_the_dtype() -> None:
    head, rule, *rows = [line.strip("| ").split(" | ") for line in field_table().splitlines()]
    assert head == ["field", "offset", "shape", "range", "meaning"] and len(rule) == 1
    marked = np.arange(OBSERVATION_SIZE, dtype=np.float32)
    fields = marked.view(OBSERVATION)[0]
    expected_offset = 0
    for (name, offset, shape, limits, meaning), field in zip(rows, OBSERVATION.names, strict=True):
        values = np.atleast_1d(fields[field])
        assert name == f"`{field}`" and meaning
        assert int(offset) == expected_offset == values.flat[0]
        assert shape == str(values.shape)
        low, high = map(float, limits.split(" to "))
        where = slice(expected_offset, expected_offset + values.size)
        np.testing.assert_allclose(SPACE.low[where], low, rtol=1e-3)
        np.testing.assert_allclose(SPACE.high[where], high, rtol=1e-3)
        expected_offset += values.size
    assert expected_offset == OBSERVATION_SIZE == SPACE.shape[0]


def test_a_change_of_what_is_observed_comes_with_a_new_version() -> None:
    """Checkpoints name the version: raise OBSERVATION_VERSION and add its digest when this fails."""
    digest = hashlib.sha256(str([(name, *OBSERVATION.fields[name]) for name in OBSERVATION.names]).encode())
    for num_players in range(4, 9):
        game = Game(Rules.official(num_players), seed=num_players)
        for i in range(100):
            if game.round_over:
                game.next_round()
            legal = game.legal_actions()
            row = encode(game.view(game.player))[0]
            digest.update((row.astype(np.float64) * 1000).round().astype(np.int64).tobytes())
            game.play(legal[i % len(legal)])
    assert digest.hexdigest()[:16] == {1: "2ce4e244e47a4cf3"}[OBSERVATION_VERSION]


def test_describe_says_what_the_seat_to_act_sees() -> None:
    game = table("G5 1 R3", "R2 G3 Y2", "G2 G4 B2", "Y3 B3 R4", dealer=1)
    play(game, "G4 Y3")
    assert describe(encode(game.view(0))[0]).splitlines() == [
        "4 players, 1 Fool, a whole game; lead colour: green",
        "hand: G5 R3 1",
        "unseen: G2 G3 R2 R4 Y2 B2 B3",
        "you: 3 cards, total 0, 0 tens",
        "seat +1: 3 cards, total 0, 0 tens, deals, still to play",
        "seat +2: 2 cards, total 0, 0 tens, played G4 as number 1, wins so far, leads",
        "seat +3: 2 cards, total 0, 0 tens, played Y3 as number 2, Fool so far, void in green",
    ]


def test_describe_says_who_sits_out_and_what_a_1_is() -> None:
    game = table("G5 1 R3", "R2 G3 Y2", "G2 G4 B2", "Y3 B3 R4", dealer=1)
    play(game, "G4 Y3 1 G3")
    assert describe(encode(game.view(3))[0]).splitlines() == [
        "4 players, 1 Fool, a whole game; lead colour: open",
        "hand: R4 B3",
        "unseen: G2 G5 R2 R3 Y2 B2",
        "you: 2 cards, total 0, 0 tens, sits out, void in green",
        "seat +1: 2 cards, total 0, 0 tens, still to play",
        "seat +2: 2 cards, total 0, 0 tens, deals, still to play",
        "seat +3: 2 cards, total 0, 0 tens, leads, still to play",
    ]
    ones = table("1 1", "1 G2", "R2 R3", num_fools=1)
    play(ones, "1")
    lines = describe(encode(ones.view(1))[0]).splitlines()
    assert lines[1:3] == ["hand: G2 1", "unseen: R2 R3 1"]
    assert lines[-1] == "seat +2: 1 cards, total 0, 0 tens, played 1 as number 1, wins so far, Fool so far, leads"


def test_describe_says_totals_and_the_kind_of_episode() -> None:
    game = Game(Rules.official(7), seed=0, episode="game")
    while not game.round_over:
        game.play(game.legal_actions()[-1])
    game.next_round()
    lines = describe(encode(game.view(2))[0]).splitlines()
    assert lines[0].startswith("7 players, 2 Fools, a whole game")
    for i, line in enumerate(lines[3:]):
        seat = (2 + i) % 7
        assert f"total {game.scores[seat]}, {game.tens[seat]} tens" in line
    one_round = Game(Rules.official(4), seed=0, episode="round")
    assert "one round" in describe(encode(one_round.view(0))[0])


def test_describe_refuses_another_shape() -> None:
    with pytest.raises(ValueError, match=rf"\(3,\).*{OBSERVATION_SIZE}"):
        describe(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="shape"):
        describe(np.zeros((1, OBSERVATION_SIZE), np.float32))
