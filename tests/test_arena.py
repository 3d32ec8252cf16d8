"""The arena: its figures by hand and against a slow referee, its seeds, and what its intervals promise."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from planted import Blend

from fool_env import Game, IllegalActionError, Rules
from fool_env.agents.agent import Agent, make_agent
from fool_env.agents.arena import BENCHMARK, REPORT, SELECTION, TRAINING, Evaluation, evaluate, make_opponents
from fool_env.agents.intervals import mean_interval, t_quantile
from fool_env.agents.match import Match
from fool_env.cards import NUM_ACTIONS
from fool_env.engine import legal_mask_of
from fool_env.rng import derive
from fool_env.state import EPISODES, GAME

RANDOM, LOWEST, HIGHEST = make_agent("random"), make_agent("lowest"), make_agent("highest")
ONE_CARD = Rules(num_players=3, highest_rank=(4, 1, 1, 1), num_ones=0, num_fools=1, winning_tens=1)
TWO_CARDS = Rules(num_players=3, highest_rank=(4, 4, 1, 1), num_ones=0, num_fools=1)


class Spy:
    """Plays like `random` and keeps all that it was shown."""

    name = "spy"

    def __init__(self) -> None:
        self.views: list[np.ndarray] = []
        self.seeds: list[np.ndarray] = []

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self.views.append(views.copy())
        self.seeds.append(seeds.copy())
        return RANDOM.act(views, seeds)


class Fixed:
    """Returns what it was told to, whatever the view."""

    name = "fixed"

    def __init__(self, actions: object) -> None:
        self._actions = actions

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self._actions, views.shape) if np.ndim(self._actions) == 0 else self._actions


# --- by hand


def test_one_card_each_is_worth_what_the_rules_say_whoever_plays() -> None:
    """G2, G3, G4, one each: the G2 is the Fool's and worth 0, the others score 10 (R9, R13) and share the win (R15)."""
    result = evaluate(HIGHEST, [RANDOM], ONE_CARD, deals=50, games=20)
    assert result == Evaluation(
        candidate="highest",
        opponent="random",
        omniscient=False,
        deals=50,
        points=pytest.approx(20 / 3),
        points_ci=pytest.approx((20 / 3, 20 / 3)),
        relative=0.0,
        relative_ci=(0.0, 0.0),
        gain=0.0,
        gain_ci=(0.0, 0.0),
        tens=pytest.approx(2 / 3),
        fool=pytest.approx(1 / 3),
        games=20,
        wins=pytest.approx(1 / 3),
        wins_ci=pytest.approx((1 / 3, 1 / 3)),
        placement=pytest.approx(2.0),  # two shared first places, 1.5, and a third
    )


def test_two_cards_each_by_hand() -> None:
    """A deal in which `lowest` pays: seat 0 holds G2 G4, seat 1 R2 R4, seat 2 G3 R3, seat 0 leads.

    All `highest`: G4 R4 G3, seat 1 is off colour, the Fool. Seat 0 leads G2, seat 2 plays R3 off colour, is the Fool
    and has emptied its hand: 0. Seat 0: +10. Seat 1 holds R2: -2.
    Seat 0 `lowest`: G2 R4 G3, seat 1 is the Fool, seat 2 wins and leads R3; seat 0 plays G4 off colour: 0, seat 2
    +10, seat 1 -2. So 10 points less, in seat 0.
    Seat 1 `lowest`: G4 R2 G3, seat 1 is the Fool and holds R4: -4, not -2; the rest as in the control.
    Seat 2 `lowest`: it must follow with its one green card: all as in the control.
    Means: points (0 - 4 + 0) / 3; gain (-10 - 2 + 0) / 3; the others' points are (8 + 10 + 8) / 2.
    """
    hands = [["G2", "G4"], ["R2", "R4"], ["G3", "R3"]]
    seed = seed_of_deal(TWO_CARDS, hands, dealer=2)
    result = evaluate(LOWEST, [HIGHEST], TWO_CARDS, deals=1, seed=seed)
    assert result.points == pytest.approx(-4 / 3)
    assert result.gain == pytest.approx(-4)
    assert result.relative == pytest.approx((0 - 4 + 0) / 3 - (8 + 10 + 8) / 2 / 3)
    assert result.tens == 0
    # Tricks as Fool: seat 0 the second, seat 1 the first, seat 2 the second, of two tricks each.
    assert result.fool == pytest.approx(3 / 6)
    assert (result.points_ci, result.relative_ci, result.gain_ci) == (None, None, None)


def seed_of_deal(rules: Rules, hands: list[list[str]], dealer: int) -> int:
    """The seed whose first deal this is."""
    for seed in range(20_000):
        game = Game(rules, deal_seed(seed, "round", 0), "round")
        if game.dealer == dealer and game.hands == hands:
            return seed
    raise AssertionError("no such seed")


# --- against a slow referee


def child(seed: int, index: int) -> int:
    return int(derive(np.uint64(seed), index))


def deal_seed(seed: int, episode: str, deal: int, purpose: int = REPORT) -> int:
    return child(child(child(seed, purpose), EPISODES.index(episode)), deal)


def play_slowly(agents: Sequence[Agent], rules: Rules, episode: str, seed: int, deal: int, arm: int) -> Game:
    """One table, one decision at a time, through Game; an agent for each seat."""
    luck = deal_seed(seed, episode, deal)
    game = Game(rules, luck, episode)
    rounds = 0
    while not game.game_over:
        if game.round_over:
            game.next_round()
            rounds += 1
        seat = game.player
        decision = child(child(child(luck, 1 + arm), seat), 88 * rounds + len(game.history))
        view = np.array([game.view(seat)], GAME)
        game.play(int(agents[seat].act(view, np.array([decision], np.uint64))[0]))
    return game


@pytest.mark.parametrize("players", [4, 7, 8])
def test_rounds_equal_a_slow_referee(players: int) -> None:
    rules, candidate, opponent = Rules.official(players), Blend(0.5), RANDOM
    points, relative, gain = [], [], []
    for deal in range(4):
        control = play_slowly([opponent] * players, rules, "round", 5, deal, players).points
        for seat in range(players):
            agents = [candidate if other == seat else opponent for other in range(players)]
            table = play_slowly(agents, rules, "round", 5, deal, seat).points
            points.append(table[seat])
            relative.append(table[seat] - fmean(table[:seat] + table[seat + 1 :]))
            gain.append(table[seat] - control[seat])
    result = evaluate(candidate, [opponent], rules, deals=4, seed=5)
    assert result.points == pytest.approx(fmean(points))
    assert result.relative == pytest.approx(fmean(relative))
    assert result.gain == pytest.approx(fmean(gain))
    by_deal = np.reshape(gain, (4, players)).mean(axis=1)
    assert result.gain_ci == pytest.approx(mean_interval(by_deal)[1])
    assert result.tens == pytest.approx(fmean(value == rules.empty_hand_points for value in points))


def test_results_of_a_seed_never_change() -> None:
    """Published figures rest on it."""
    result = evaluate(RANDOM, [HIGHEST], Rules.official(6), deals=40, games=4, seed=2)
    sums = [result.points * 240, result.relative * 1200, result.gain * 240, result.tens * 240, result.placement * 24]
    assert sums == pytest.approx([-3677, -14429, -2847, 38, 144])
    assert result.fool == pytest.approx(0.18698381235546746)


def test_games_at_a_mixed_table_equal_a_slow_referee() -> None:
    rules, candidate, others = Rules.miniature(), RANDOM, [HIGHEST, LOWEST]
    wins, places = [], []
    for deal in range(6):
        for seat in range(3):
            agents = [candidate] * 3
            for distance in (1, 2):
                agents[(seat + distance) % 3] = others[(distance - 1 + deal) % 2]
            game = play_slowly(agents, rules, "game", 0, deal, seat)
            wins.append((seat in game.winners) / len(game.winners))
            better = sum(score > game.scores[seat] for score in game.scores)
            places.append(1 + better + (game.scores.count(game.scores[seat]) - 1) / 2)
    result = evaluate(candidate, others, rules, deals=1, games=6)
    assert result.opponent == "highest+lowest"
    assert result.gain is None and result.gain_ci is None
    assert result.wins == pytest.approx(fmean(wins))
    assert result.placement == pytest.approx(fmean(places))
    assert result.wins_ci == pytest.approx(mean_interval(np.reshape(wins, (6, 3)).mean(axis=1))[1])


# --- who sits where, and with what luck


def test_the_candidate_sits_in_every_seat_and_not_in_the_control() -> None:
    seating = Match(HIGHEST, [RANDOM], Rules.official(8), 0, REPORT).seating("round", 0, 3)
    assert seating.shape == (3, 9, 8)
    assert (seating[:, :8] == np.where(np.eye(8), 0, 1)).all()
    assert (seating[:, 8] == 1).all()
    assert Match(HIGHEST, [RANDOM], Rules.official(8), 0, REPORT).arms("game") == 8


def test_a_mixed_table_is_seated_in_turn_from_the_left_and_moves_on_with_the_deal() -> None:
    seating = Match(HIGHEST, [RANDOM, LOWEST, HIGHEST], Rules.official(6), 0, REPORT).seating("round", 7, 2)
    assert seating.shape == (2, 6, 8)
    assert seating[0, 0, :6].tolist() == [0, 2, 3, 1, 2, 3]  # deal 7 starts with opponent 2 of 3
    assert seating[0, 4, :6].tolist() == [3, 1, 2, 3, 0, 2]
    assert seating[1, 0, :6].tolist() == [0, 3, 1, 2, 3, 1]


def test_more_deals_go_on_where_fewer_end() -> None:
    match = Match(Blend(0.3), [RANDOM], Rules.official(4), 3, REPORT)
    whole = match.play("round", 0, 10).games
    assert (whole[6 * 5 :] == match.play("round", 6, 4).games).all()


def test_all_arms_play_the_same_deal() -> None:
    spy = Spy()
    Match(spy, [spy], Rules.official(6), 0, REPORT).play("round", 0, 20)
    first = np.concatenate(spy.views)
    first = first[first["num_plays"] == 0]  # the leader's view of every table before the first card
    hands = {view["hands"].tobytes() + view["ones"].tobytes() for view in first}
    assert len(first) == 7 * 20 and len(hands) == 20


def test_every_decision_has_a_seed_of_its_own_and_purposes_share_none() -> None:
    seeds = []
    for purpose in (TRAINING, SELECTION, REPORT, BENCHMARK):
        spy = Spy()
        evaluate(spy, [spy], Rules.official(4), deals=20, games=5, purpose=purpose)
        seeds.append(np.concatenate(spy.seeds))
    everything = np.concatenate(seeds)
    assert len(np.unique(everything)) == len(everything)


def test_purposes_and_seeds_deal_different_cards() -> None:
    def deals(seed: int, purpose: int) -> set[bytes]:
        spy = Spy()
        Match(spy, [spy], Rules.official(4), seed, purpose).play("round", 0, 50)
        views = np.concatenate(spy.views)
        return {view["hands"].tobytes() for view in views[views["num_plays"] == 0]}

    sets = [deals(seed, purpose) for seed in (0, 1) for purpose in (TRAINING, SELECTION, REPORT, BENCHMARK)]
    assert all(len(dealt) == 50 for dealt in sets)
    assert len(set.union(*sets)) == 8 * 50


# --- what an agent sees, and may do


def test_agents_see_their_view_and_nothing_else() -> None:
    spy = Spy()
    evaluate(spy, [spy], Rules.official(6), deals=5, games=1)
    views = np.concatenate(spy.views)
    assert (views["viewer"] == views["player"]).all()
    assert (views["rng"] == 0).all()
    others = np.arange(8) != views["player"][:, None]
    assert not views["hands"][others].any() and not views["ones"][others].any()


def test_every_choice_is_checked_against_the_mask() -> None:
    """FAULTS 20: no illegal card is ever played in an evaluation; agents that ignore the mask are named."""
    spy = Spy()
    evaluate(spy, [spy], Rules.official(4), deals=3)
    decisions = zip(np.concatenate(spy.views), np.concatenate(spy.seeds), strict=True)
    for view, seed in decisions:
        action = RANDOM.act(np.array([view], GAME), np.array([seed], np.uint64))[0]
        assert legal_mask_of(view)[action] == 1
    with pytest.raises(IllegalActionError, match=r"agent 'fixed', round \d+, arm \d, seat \d: .*hand: .*legal: "):
        evaluate(RANDOM, [Fixed(0)], Rules.official(4), deals=3)
    for nonsense in (-1, NUM_ACTIONS, 10**9):
        with pytest.raises(IllegalActionError, match="fixed"):
            evaluate(Fixed(nonsense), [RANDOM], Rules.official(4), deals=1)


@pytest.mark.parametrize("actions", [np.zeros(1, np.int64), np.zeros((2, 2), np.int64), 0.5, True])
def test_actions_of_a_wrong_shape_or_type_are_refused(actions: object) -> None:
    with pytest.raises(ValueError, match="agent 'fixed': actions are"):
        evaluate(Fixed(actions), [RANDOM], Rules.official(4), deals=2)


@pytest.mark.parametrize(
    "wrong",
    [{"deals": 0}, {"deals": -1}, {"games": -1}, {"workers": 0}, {"precision": 0.0}, {"seed": -1}, {"seed": 0.5}],
)
def test_wrong_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        evaluate(HIGHEST, [RANDOM], Rules.official(4), **{"deals": 1, **wrong})


def test_no_opponent_is_refused() -> None:
    with pytest.raises(ValueError, match="opponents"):
        evaluate(HIGHEST, [], Rules.official(4), deals=1)


def test_make_opponents_reads_mixed_tables() -> None:
    assert [agent.name for agent in make_opponents("highest")] == ["highest"]
    assert [agent.name for agent in make_opponents("random+lowest+random")] == ["random", "lowest", "random"]
    for bad in ("", "random+", "random+nobody"):
        with pytest.raises(ValueError, match="no agent"):
            make_opponents(bad)


def test_progress_rises_from_nothing_to_all() -> None:
    seen: list[tuple[float, int]] = []
    evaluate(RANDOM, [RANDOM], Rules.official(4), deals=40, games=8, progress=lambda *at: seen.append(at))
    done = [at[0] for at in seen]
    assert done[0] == 0 and done[-1] == 48 and done == sorted(done) and len(set(done)) > 20
    assert {total for _, total in seen} == {48}


# --- what the figures mean


def test_planted_strengths_are_recovered_in_order() -> None:
    """FAULTS 36: stochastic bots of known order, against each other and at a mixed table."""
    rules = Rules.official(4)
    weak, middle, strong = Blend(0.0), Blend(0.5), Blend(1.0)
    for better, worse in ((strong, middle), (middle, weak), (strong, weak)):
        up = evaluate(better, [worse], rules, deals=800, games=100)
        down = evaluate(worse, [better], rules, deals=800)
        assert up.gain_ci[0] > 0 and up.relative_ci[0] > 0 and up.wins_ci[0] > 1 / 4
        assert down.gain_ci[1] < 0 and down.relative_ci[1] < 0
    mixed = [evaluate(agent, [weak, middle, strong], rules, deals=800) for agent in (weak, middle, strong)]
    assert mixed[0].relative_ci[1] < mixed[1].relative_ci[0] and mixed[1].relative_ci[1] < mixed[2].relative_ci[0]


@pytest.mark.parametrize("players", [3, 6])
def test_a_stochastic_agent_against_itself_is_zero_within_the_interval(players: int) -> None:
    rules = Rules.foppen_1995(players)
    result = evaluate(RANDOM, [RANDOM], rules, deals=1500, games=200)
    for interval, expected in ((result.gain_ci, 0), (result.relative_ci, 0), (result.wins_ci, 1 / players)):
        assert interval[0] < expected < interval[1]
    assert result.gain_ci[0] < result.gain_ci[1] < 1.5
    assert result.placement == pytest.approx((players + 1) / 2, abs=0.2)


def test_a_deterministic_agent_against_itself_is_exactly_zero() -> None:
    """No rounding may look like a difference: its interval would not hold zero."""
    for players in (3, 6):
        result = evaluate(HIGHEST, [HIGHEST], Rules.foppen_1995(players), deals=200, games=20)
        assert (result.gain, result.gain_ci) == (0.0, (0.0, 0.0))
        assert (result.relative, result.relative_ci) == (0.0, (0.0, 0.0))
        assert result.wins == pytest.approx(1 / players)
        assert result.placement == pytest.approx((players + 1) / 2)


def test_false_promotions_are_as_rare_as_the_intervals_say() -> None:
    """FAULTS 37: equal agents are told apart by a 95% interval in about 5% of 300 evaluations."""
    rules = Rules.official(4)
    results = [evaluate(RANDOM, [RANDOM], rules, deals=25, seed=seed) for seed in range(300)]
    for intervals in ([result.gain_ci for result in results], [result.relative_ci for result in results]):
        above, below = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)
        # 15 expected; 3.8 is the binomial's standard deviation.
        assert 4 <= above + below <= 28 and above <= 18 and below <= 18


@pytest.mark.parametrize(("agent", "rules"), [(LOWEST, Rules.official(8)), (RANDOM, Rules.miniature())])
def test_rotation_cancels_what_a_place_at_the_table_is_worth(agent: Agent, rules: Rules) -> None:
    """FAULTS 38: among identical bots the leader of the first trick does best; a candidate in every seat is at zero."""
    deals, players = 1500, rules.num_players
    control = Match(agent, [agent], rules, 0, REPORT).play("round", 0, deals).games[players :: players + 1]
    leader_first = (control["dealer"][:, None] + 1 + np.arange(players)) % players
    points = np.take_along_axis(control["points"].astype(float), leader_first, axis=1)
    _, leaders_interval = mean_interval(points[:, 0] - points.mean(axis=1))
    assert leaders_interval[0] > 0.25, "the leader has an advantage, which could be mistaken for strength"
    result = evaluate(agent, [agent], rules, deals=deals)
    assert result.relative_ci[0] <= 0 <= result.relative_ci[1] < leaders_interval[0]


def test_duplicate_deals_make_gains_more_exact_than_points_apart() -> None:
    """The control plays the same cards: its luck goes out of the difference."""
    rules = Rules.official(6)
    match = Match(Blend(0.9), [HIGHEST], rules, 0, REPORT)
    finished = match.play("round", 0, 300).games.reshape(300, 7)
    seats = np.arange(6)
    own = finished["points"][:, seats, seats].mean(axis=1)
    control = finished["points"][:, 6, :6].mean(axis=1)
    assert np.var(own - control) < 0.7 * (np.var(own) + np.var(control))


# --- intervals


def test_t_quantiles() -> None:
    table = {1: 12.706, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 10: 2.2281, 30: 2.0423, 100: 1.9840, 10**6: 1.9600}
    for degrees, quantile in table.items():
        assert t_quantile(degrees) == pytest.approx(quantile, rel=2e-3)


@pytest.mark.parametrize("units", [3, 10, 400])
def test_intervals_cover_the_truth_in_95_of_100_cases(units: int) -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(4000):
        low, high = mean_interval(rng.normal(3, 7, units))[1]
        covered += low < 3 < high
    assert covered / 4000 == pytest.approx(0.95, abs=0.012)


def test_intervals_of_skewed_points_cover_the_truth_too() -> None:
    """Points like a round's: mostly losses of every size, at times +10."""
    rng = np.random.default_rng(2)
    truth = 0.2 * 10 + 0.8 * -12
    covered = 0
    for _ in range(2000):
        points = np.where(rng.random(200) < 0.2, 10, -rng.exponential(12, 200))
        low, high = mean_interval(points)[1]
        covered += low < truth < high
    assert covered / 2000 == pytest.approx(0.95, abs=0.02)


def test_one_unit_has_a_mean_and_no_interval() -> None:
    assert mean_interval(np.array([2.5])) == (2.5, None)


def test_the_dictionary_has_the_fields_of_the_json() -> None:
    result = evaluate(HIGHEST, [RANDOM], Rules.official(4), deals=2)
    fields = ["candidate", "opponent", "omniscient", "deals", "points", "points_ci", "relative", "relative_ci"]
    fields += ["gain", "gain_ci", "tens", "fool", "games", "wins", "wins_ci", "placement"]
    assert list(result.to_dict()) == fields
    assert result.to_dict()["points_ci"] == list(result.points_ci)
    assert result.to_dict()["wins"] is None and result.to_dict()["wins_ci"] is None
