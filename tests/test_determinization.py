"""Determinization: worlds agree with the view, each as likely as it should be, and tell nothing of the luck to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from math import prod, sqrt

import numpy as np
import pytest
from deals import play, table

from fool_env import FoolVectorEnv, Game, Rules
from fool_env.agents.agent import make_agent
from fool_env.cards import ACTION_COLOUR, NUM_COLOURS
from fool_env.determinization import sample_worlds
from fool_env.state import GAME, NOBODY, copy_games, hand_of

FOUR_COLOURS = Rules(num_players=4, highest_rank=(5, 5, 4, 4), num_ones=2, num_fools=1)
FIVE_PLAYERS = Rules(num_players=5, highest_rank=(5, 5, 4, 4), num_ones=1, num_fools=1)
THREE_COLOURS = Rules(num_players=3, highest_rank=(5, 4, 4, 1), num_ones=2, num_fools=1)
WORLDS = 15_000

Hands = tuple[tuple[int, ...], ...]


def view_of(game: Game, seat: int) -> np.ndarray:
    return np.array([game.view(seat)], GAME)


def position(rules: Rules, seed: int, plays: int) -> Game:
    """A round after some random plays."""
    game, luck = Game(rules, seed, "round"), np.random.default_rng(seed)
    for _ in range(plays):
        game.play(int(luck.choice(game.legal_actions())))
    return game


def lacking(game: Game) -> list[set[int]]:
    """The colours that each seat has shown to lack (R16)."""
    voids = game.record["voids"]
    return [{colour for colour in range(NUM_COLOURS) if voids[seat] >> colour & 1} for seat in range(8)]


def consistent_deals(game: Game, seat: int) -> Counter[Hands]:
    """All hands that the seat may imagine, each with the number of physical deals that look so: by brute force."""
    record = game.record
    others = [other for other in range(record["num_players"]) if other != seat]
    unseen = [card for other in others for card in hand_of(record, other)]
    sizes = [len(hand_of(record, other)) for other in others]
    voids = lacking(game)
    deals: Counter[Hands] = Counter()

    def give(number: int, left: tuple[int, ...], dealt: Hands) -> None:
        if number == len(others):
            deals[dealt] += 1
            return
        for chosen in combinations(left, sizes[number]):
            hand = tuple(sorted(unseen[i] for i in chosen))
            if not {ACTION_COLOUR[card] for card in hand} & voids[others[number]]:
                give(number + 1, tuple(i for i in left if i not in chosen), (*dealt, hand))

    give(0, tuple(range(len(unseen))), ())
    return deals


def positions_to_enumerate() -> Iterator[tuple[str, Game, int]]:
    """Positions of small decks: without voids, and with two seats or more that have shown to lack different colours."""
    yield "miniature, no voids", position(Rules.miniature(), 1, 0), 2
    for rules, plays in ((FOUR_COLOURS, 6), (FOUR_COLOURS, 7), (FIVE_PLAYERS, 7), (FIVE_PLAYERS, 8)):
        for colour in range(NUM_COLOURS):
            games = ((seed, position(rules, seed, plays)) for seed in range(5000))
            seed, game = next((seed, game) for seed, game in games if leaves_a_choice(game, colour))
            yield f"{rules.num_players} players, {plays} plays, seed {seed}", game, game.player


def leaves_a_choice(game: Game, colour: int) -> bool:
    """Do others lack different colours, this one among them, and leave some dozens of deals; of more than one 1?"""
    shown = {frozenset(voids) for other, voids in enumerate(lacking(game)) if other != game.player and voids}
    if len(shown) < 2 or not any(colour in voids for voids in shown):
        return False
    deals = consistent_deals(game, game.player)
    return 40 <= len(deals) <= 400 and (deals.total() > len(deals) or game.rules.num_ones < 2)


CASES = list(positions_to_enumerate())


@pytest.mark.parametrize(("game", "seat"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_physical_deal_is_as_likely(game: Game, seat: int) -> None:
    """Chi-square against the count of all deals; the 1s count as different cards."""
    expected = consistent_deals(game, seat)
    others = [other for other in range(game.rules.num_players) if other != seat]
    worlds = sample_worlds(view_of(game, seat), np.uint64(7), WORLDS)
    drawn = Counter(tuple(tuple(hand_of(world, other)) for other in others) for world in worlds)
    assert drawn.keys() <= expected.keys()
    scale = WORLDS / expected.total()
    chi_square = sum((drawn[hands] - count * scale) ** 2 / (count * scale) for hands, count in expected.items())
    freedom = len(expected) - 1
    assert freedom >= 1
    # Wilson and Hilferty: the cube root is nearly normal.
    z = ((chi_square / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / sqrt(2 / (9 * freedom))
    assert abs(z) < 4


def test_enumeration_counts_physical_deals() -> None:
    """The yardstick itself, by hand: without voids there are as many as a multinomial coefficient says."""
    game = position(Rules.miniature(), 1, 0)
    assert consistent_deals(game, 2).total() == prod(range(1, 7)) // (6 * 6)


def test_worlds_never_fail_nor_contradict_the_view() -> None:
    """Every position of 100,000 random plays at tables of 3 to 8, seen by the seat to act."""
    rules = [Rules.official(n) for n in range(4, 9)] + [Rules.foppen_1995(3), FOUR_COLOURS, THREE_COLOURS]
    tables = FoolVectorEnv(200, [rules[table % len(rules)] for table in range(200)], episode="round", seed=5)
    bot = make_agent("random")
    for _ in range(500):
        views, games = copy_games(tables.views), copy_games(tables.games)
        seeds = tables.seeds.copy()
        worlds = np.concatenate([sample_worlds(views[i : i + 1], seeds[i], 1) for i in range(len(views))])
        check_worlds(worlds, views, games)
        tables.step(bot.act(views, seeds))


def check_worlds(worlds: np.ndarray, views: np.ndarray, games: np.ndarray) -> None:
    rows = np.arange(len(worlds))
    hands = np.bitwise_count(worlds["hands"])
    assert (worlds["hand_sizes"] == games["hand_sizes"]).all()
    assert (hands.sum(axis=2) + worlds["ones"] == worlds["hand_sizes"]).all()
    shown = worlds["voids"][:, :, None] >> np.arange(NUM_COLOURS) & 1
    seen = np.zeros(shown.shape, bool)
    seen[rows, views["viewer"]] = True  # one's own voids need not be remembered
    assert not (hands[(shown == 1) & ~seen]).any()
    # All cards of the game as it is, and nothing twice.
    assert (np.bitwise_or.reduce(worlds["hands"], axis=1) == np.bitwise_or.reduce(games["hands"], axis=1)).all()
    assert (worlds["ones"].sum(axis=1) == games["ones"].sum(axis=1)).all()
    assert (hands.sum(axis=(1, 2)) == np.bitwise_count(games["hands"]).sum(axis=(1, 2))).all()
    # Seen by the same seat it is the same.
    worlds = copy_games(worlds)
    hidden = np.ones(worlds["hand_sizes"].shape, bool)
    hidden[rows, views["viewer"]] = False
    assert (worlds["viewer"] == NOBODY).all()
    worlds["hands"][hidden], worlds["ones"][hidden], worlds["rng"], worlds["viewer"] = 0, 0, 0, views["viewer"]
    assert worlds.tobytes() == views.tobytes()


def test_worlds_depend_on_the_view_and_the_seed_alone() -> None:
    game = position(Rules.official(6), 4, 30)
    other = game.resample(game.player, 99)
    assert other.hands != game.hands
    for seed in (0, 2**64 - 1):
        assert game.resample(game.player, seed) == other.resample(game.player, seed)
    assert game.resample(game.player, 1) != game.resample(game.player, 2)


def test_no_world_knows_the_next_deal() -> None:
    game = Game(Rules.official(6), seed=4)
    worlds = [game.resample(0, seed) for seed in range(20)]
    states = {int(world.record["rng"]) for world in worlds}
    assert len(states) == 20
    assert int(game.record["rng"]) not in states
    luck = np.random.default_rng(0)
    for world in (game, *worlds[:2]):
        while not world.round_over:
            world.play(int(luck.choice(world.legal_actions())))
        world.next_round()
    assert worlds[0].hands != worlds[1].hands != game.hands


def test_resample_takes_a_generator_and_leaves_the_game_as_it_is() -> None:
    game = position(Rules.official(5), 1, 17)
    before = game.to_bytes()
    first, second = (game.resample(3, np.random.default_rng(8)) for _ in range(2))
    generator = np.random.default_rng(8)
    assert first == second == game.resample(3, generator) != game.resample(3, generator)
    assert game.to_bytes() == before
    assert first.hands[3] == game.hands[3]


def test_more_worlds_begin_with_the_same() -> None:
    view = view_of(position(Rules.official(8), 2, 40), 5)
    few, many = (sample_worlds(view, np.uint64(3), count) for count in (3, 50))
    assert many[:3].tobytes() == few.tobytes()
    assert len({world.tobytes() for world in many}) == 50


def test_a_void_can_settle_everything() -> None:
    """Seat 1 discards red on green, so of the two cards that seat 0 does not see, the red one is seat 1's."""
    game = play(table("G2 R2", "R3 R4", "G3 G4"), "G2 R3 G3")
    assert all(game.resample(0, seed).hands == [["R2"], ["R4"], ["G4"]] for seed in range(50))
    assert len({str(game.resample(1, seed).hands) for seed in range(50)}) == 2


def test_finished_rounds_can_be_resampled_too() -> None:
    game = Game(Rules.official(6), seed=2, episode="round")
    while not game.game_over:
        game.play(game.legal_actions()[-1])
    assert (game.resample(0, 1).record["hand_sizes"] == game.record["hand_sizes"]).all()


def test_bad_input_is_refused() -> None:
    game = Game(Rules.official(6), seed=1)
    with pytest.raises(ValueError, match="seat: 6 is no seat"):
        game.resample(6, 1)
    with pytest.raises(ValueError, match="seed: -1"):
        game.resample(0, -1)
    with pytest.raises(ValueError, match="full record"):
        sample_worlds(np.array([game.record], GAME), np.uint64(1), 3)
