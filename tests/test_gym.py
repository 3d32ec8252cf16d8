"""Fool-v0: Gymnasium's and SB3's checkers, the rules of `Game` behind it, and the vector env table by table."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from fool_env import Game, IllegalActionError, Rules, RulesError
from fool_env.agents.agent import Agent, make_agent
from fool_env.agents.learner_tables import _OTHERS_LUCK
from fool_env.agents.scripted import RandomAgent
from fool_env.agents.single_agent import FoolEnv, FoolSingleAgentVectorEnv
from fool_env.cards import NUM_ACTIONS, NUM_CARDS
from fool_env.rng import derive

NATIVE = "vector_entry_point"


class Asked:
    """A scripted agent that is asked in batches like any other."""

    def __init__(self, agent: Agent) -> None:
        self.name, self._agent = agent.name, agent
        self.batches: list[int] = []

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self.batches.append(len(views))
        return self._agent.act(views, seeds)


class Stubborn:
    name = "stubborn"

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return np.full(len(views), NUM_ACTIONS, np.int64)


def some_legal(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (mask * rng.random(mask.shape)).argmax(axis=-1)


# --- the checkers


@pytest.mark.parametrize("episode", ["round", "game"])
@pytest.mark.parametrize("illegal_action", ["terminate"])  # the checkers play blindly
def test_the_checkers_of_gymnasium_and_sb3_have_nothing_to_say(episode: str, illegal_action: str) -> None:
    env = gymnasium.make("fool_env:Fool-v0", episode=episode, illegal_action=illegal_action, render_mode="ansi")
    check_env(env.unwrapped)
    sb3_check_env(env.unwrapped)


def test_it_is_made_by_name() -> None:
    env = gymnasium.make("fool_env:Fool-v0", num_players=8, opponents="highest", seat=3, episode="round")
    _, info = env.reset(seed=5)
    assert info["seat"] == 3 and env.unwrapped.rules == Rules.official(8)  # type: ignore[attr-defined]
    assert env.spec is not None and env.spec.id == "Fool-v0"


# --- one table


@pytest.mark.parametrize(("episode", "reward"), [("round", "relative"), ("game", "points"), ("game", "win")])
def test_it_is_the_game_that_one_could_play_by_hand(episode: str, reward: str) -> None:
    """The others are asked for their views alone; all that the learner is paid between its turns is added up."""
    names = ["cautious", "random", "highest", "lowest", "random"]
    env = FoolEnv(6, names, episode=episode, reward=reward)
    agents, rng = [make_agent(name) for name in names], np.random.default_rng(0)
    seats = set()
    for number in range(4):
        observation, info = env.reset(seed=None if number else 11)
        game, seat, paid = Game(env.rules, int(info["seed"]), episode), info["seat"], 0.0
        seats.add(seat)
        over = False
        while True:
            while not game.game_over and game.player != seat:
                paid += _others_play(game, agents, seat, int(info["seed"]), reward)
            assert observation.tobytes() == game.observation(seat).tobytes()
            assert info["action_mask"].tobytes() == game.action_mask().tobytes()
            assert over == game.game_over
            if over:
                break
            assert env.action_masks().tolist() == game.action_mask().astype(bool).tolist()
            action = int(some_legal(info["action_mask"], rng))
            observation, earned, over, truncated, info = env.step(action)
            paid = _play(game, action, seat, reward)
            while not game.game_over and game.player != seat:
                paid += _others_play(game, agents, seat, int(info["seed"]), reward)
            assert earned == pytest.approx(paid)
            assert not truncated and not info["illegal_action"]
    assert len(seats) == 4, "from episode to episode the next seat"


def _others_play(game: Game, agents: list[Any], seat: int, seed: int, reward: str) -> float:
    player = game.player
    assert player is not None
    view = np.array([game.view(player)])
    move = game.num_rounds * NUM_CARDS + len(game.history)
    luck = np.uint64(seed)
    for number in (_OTHERS_LUCK, player, move):
        luck = np.uint64(derive(luck, number))
    action = agents[(player - seat) % 6 - 1].act(view, np.array([luck], np.uint64))[0]
    return _play(game, action, seat, reward)


def _play(game: Game, action: int, seat: int, reward: str) -> float:
    game.play(action)
    if not game.round_over:
        return 0.0
    points = game.points
    if not game.game_over:
        game.next_round()
    if reward == "win":
        return (seat in game.winners) / len(game.winners) if game.game_over else 0.0
    others = (sum(points) - points[seat]) / (len(points) - 1)
    return points[seat] - (others if reward == "relative" else 0)


def test_an_illegal_action_ends_the_episode_at_the_cost_of_the_hand() -> None:
    for reward, cost in (("points", None), ("win", 0.0)):
        env = FoolEnv(opponents="highest", reward=reward)
        _, info = env.reset(seed=3)
        hand = Game(env.rules, int(info["seed"])).hands[info["seat"]]
        penalty = sum(5 if card == "1" else int(card[1:]) for card in hand)
        illegal = int(np.flatnonzero(info["action_mask"] == 0)[0])
        observation, earned, over, _, info = env.step(illegal)
        assert over and info["illegal_action"] and not info["action_mask"].any()
        assert earned == (-penalty if cost is None else cost)
        assert observation in env.observation_space
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            env.step(illegal)
        assert not env.reset()[1]["illegal_action"]


def test_it_raises_illegal_actions_where_it_is_told_to() -> None:
    env = FoolEnv(illegal_action="raise")
    _, info = env.reset(seed=3)
    illegal = int(np.flatnonzero(info["action_mask"] == 0)[0])
    for wrong in (illegal, -1, NUM_ACTIONS):
        with pytest.raises(IllegalActionError, match="legal"):
            env.step(wrong)
    assert env.action_masks().tolist() == info["action_mask"].astype(bool).tolist(), "nothing has changed"
    env.step(int(info["action_mask"].argmax()))


def test_step_before_reset_says_so() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        FoolEnv().step(0)
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        FoolSingleAgentVectorEnv(2).step(np.zeros(2, np.int64))


def test_a_deal_can_be_asked_for() -> None:
    env = FoolEnv(4, "highest", seat=0, episode="round")
    hands = Game(Rules.official(4), 99).hands
    observation, _ = env.reset(seed=1, options={"hands": hands, "dealer": 3})
    game = Game.from_deal(Rules.official(4), hands, 3, episode="round")
    assert game.player == 0
    assert observation.tobytes() == game.observation(0).tobytes()
    with pytest.raises(RulesError, match="dealer"):
        env.reset(options={"dealer": 4})


def test_rendering_shows_the_learners_hand_alone(capsys: pytest.CaptureFixture[str]) -> None:
    env = FoolEnv(opponents="highest", render_mode="ansi")
    _, info = env.reset(seed=2)
    text = env.render()
    assert text is not None and f"hand of seat {info['seat']}:" in text and text.count("hand of seat") == 1
    human = FoolEnv(opponents="highest", render_mode="human")
    human.reset(seed=2)
    assert capsys.readouterr().out == text + "\n\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opponents": "cautios"}, 'do you mean "cautious"'),
        ({"opponents": ["highest"] * 4}, "4 are given for 5 other seats"),
        ({"opponents": "cheat"}, "sees all hands"),
        ({"opponents": [3] * 5}, "3 is no agent"),
        ({"seat": 6}, 'neither "random" nor one of 0 to 5'),
        ({"seat": "rand"}, 'neither "random" nor a number'),
        ({"episode": "hand"}, "episode"),
        ({"reward": "win", "episode": "round"}, "end of a game"),
        ({"illegal_action": "ignore"}, "illegal_action: 'ignore'"),
        ({"render_mode": "rgb_array"}, "render_mode"),
        ({"num_players": 9}, "num_players"),
        ({"num_players": 5, "rules": Rules.official(6)}, "disagrees"),
    ],
)
def test_what_is_wrong_is_said(arguments: dict[str, Any], message: str) -> None:
    for make in (FoolEnv, FoolSingleAgentVectorEnv):
        with pytest.raises(ValueError, match=message):
            make(**arguments)


# --- many tables


@pytest.mark.parametrize(
    ("opponents", "episode", "reward"),
    [
        ("highest", "round", "relative"),
        (["cautious", "random", "highest", "lowest", "random"], "game", "win"),
        ("random", "game", "points"),
    ],
)
def test_tables_are_single_envs_to_the_bit(opponents: Any, episode: str, reward: str) -> None:
    """Gymnasium's own vectorization of the single env is the reference, illegal actions and infos included."""
    kwargs = {"opponents": opponents, "episode": episode, "reward": reward}
    native = gymnasium.make_vec("fool_env:Fool-v0", num_envs=5, vectorization_mode=NATIVE, **kwargs)
    reference = SyncVectorEnv([lambda: FoolEnv(**kwargs)] * 5, autoreset_mode=AutoresetMode.SAME_STEP)  # type: ignore[arg-type]
    assert native.observation_space == reference.observation_space and native.action_space == reference.action_space
    assert native.metadata["autoreset_mode"] == reference.metadata["autoreset_mode"]
    rng, ends = np.random.default_rng(0), 0
    returned, expected = native.reset(seed=7), reference.reset(seed=7)
    assert data_equivalence(returned, expected, exact=True)
    for step in range(600):
        actions = some_legal(returned[-1]["action_mask"], rng)
        if step % 50 == 49:
            actions[step % 5] = NUM_ACTIONS - 1 - step % 7  # may be illegal
        returned, expected = native.step(actions), reference.step(actions)
        for ours, theirs in zip(returned, expected, strict=True):
            assert data_equivalence(ours, theirs, exact=True)
        ends += returned[2].sum()
    assert ends > 20
    assert data_equivalence(native.reset(seed=[3, 1, 4, 1, 5]), reference.reset(seed=[3, 1, 4, 1, 5]), exact=True)
    assert data_equivalence(native.reset(), reference.reset(), exact=True), "on to the next episodes"


def test_agents_that_are_no_kernels_are_asked_in_batches_and_play_the_same() -> None:
    asked = Asked(RandomAgent())
    envs = [
        FoolSingleAgentVectorEnv(64, opponents=opponents, reward="points")
        for opponents in (["random", "highest", "random", "cautious", "random"],) * 2
    ]
    envs[1] = FoolSingleAgentVectorEnv(64, opponents=[asked, "highest", asked, Asked(make_agent("cautious")), asked])  # type: ignore[arg-type,list-item]
    rng = np.random.default_rng(1)
    returned = [env.reset(seed=0) for env in envs]
    for _ in range(200):
        actions = some_legal(returned[0][-1]["action_mask"], rng)
        returned = [env.step(actions) for env in envs]  # type: ignore[misc]
        assert data_equivalence(*returned, exact=True)
    assert np.mean(asked.batches) > 10


def test_a_table_does_not_depend_on_the_others() -> None:
    few, many = FoolSingleAgentVectorEnv(3, opponents="random"), FoolSingleAgentVectorEnv(50, opponents="random")
    few_returned, many_returned = few.reset(seed=9), many.reset(seed=9)
    for _ in range(100):
        actions = many_returned[-1]["action_mask"].argmax(axis=1)
        few_returned, many_returned = few.step(actions[:3]), many.step(actions)  # type: ignore[assignment]
        assert few_returned[0].tobytes() == many_returned[0][:3].tobytes()


def test_seats_by_lot_are_all_taken_equally_often() -> None:
    env = FoolSingleAgentVectorEnv(200, num_players=4, opponents="highest", episode="round")
    _, infos = env.reset(seed=0)
    first = np.bincount(infos["seat"], minlength=4)
    assert first.min() > 30, "by lot"
    for _ in range(3):
        before, infos = infos["seat"], env.reset()[1]
        assert (infos["seat"] == (before + 1) % 4).all()


def test_arrays_are_copies_unless_asked_otherwise() -> None:
    actions = np.zeros(4, np.int64)
    for copy in (True, False):
        env = FoolSingleAgentVectorEnv(4, opponents="highest", copy=copy)
        first, infos = env.reset(seed=0)
        mask = infos["action_mask"]
        actions = mask.argmax(axis=1)
        second, _, _, _, later = env.step(actions)
        assert np.shares_memory(first, second) != copy and np.shares_memory(mask, later["action_mask"]) != copy


def test_wrong_actions_say_so_and_change_nothing() -> None:
    env = FoolSingleAgentVectorEnv(3, opponents="highest", illegal_action="raise")
    observation, infos = env.reset(seed=0)
    with pytest.raises(ValueError, match=r"not integers of shape \(3,\)"):
        env.step(np.zeros(4, np.int64))
    actions = infos["action_mask"].argmax(axis=1)
    wrong = actions.copy()
    wrong[1] = infos["action_mask"][1].argmin()
    with pytest.raises(IllegalActionError, match="table 1: "):
        env.step(wrong)
    assert env.action_masks().tolist() == infos["action_mask"].astype(bool).tolist()
    assert env.reset(seed=0)[0].tobytes() == observation.tobytes()
    with pytest.raises(ValueError, match="2 seeds are given for 3 tables"):
        env.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="hands"):
        env.reset(options={"hands": []})


def test_an_opponents_illegal_card_names_it() -> None:
    with pytest.raises(IllegalActionError, match="'stubborn', table 0"):
        FoolSingleAgentVectorEnv(2, opponents=Stubborn(), seat=0).reset(seed=0)  # type: ignore[arg-type]


def test_gymnasiums_statistics_of_episodes_add_up() -> None:
    env = RecordEpisodeStatistics(FoolSingleAgentVectorEnv(8, opponents="highest", episode="round"))
    _, infos = env.reset(seed=0)
    total = np.zeros(8)
    for _ in range(100):
        _, rewards, over, _, infos = env.step(infos["action_mask"].argmax(axis=1))
        total += rewards
        for table in np.flatnonzero(over):
            assert infos["episode"]["r"][table] == pytest.approx(total[table])
        total[over] = 0
    assert env.episode_count > 8


def test_trained_opponents_sit_at_all_tables() -> None:
    env = FoolSingleAgentVectorEnv(16, num_players=6, opponents="pretrained:6p", episode="round")
    _, infos = env.reset(seed=0)
    points = []
    for _ in range(60):
        _, rewards, over, _, infos = env.step(infos["action_mask"].argmax(axis=1))
        points.extend(rewards[over])
    assert np.mean(points) < -20, "the lowest card loses to them"
