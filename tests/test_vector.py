"""FoolVectorEnv against as many `Game` objects, step by step and bit by bit."""

from __future__ import annotations

import hashlib
import io
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from variants import PRESETS, random_rules

from fool_env import FoolVectorEnv, Game, IllegalActionError, Rules, RulesError
from fool_env.observation import OBSERVATION_SIZE, encode, history
from fool_env.state import GAME

ARRAYS = ("observations", "masks", "players", "rewards", "dones", "seeds")
PAYMENTS = [("game", "points"), ("game", "relative"), ("game", "win"), ("round", "points"), ("round", "relative")]


def choose(masks: np.ndarray, step: int) -> np.ndarray:
    """Legal actions that look random and depend on nothing but table, step and mask."""
    tables = np.arange(len(masks), dtype=np.uint64)
    noise = (tables * np.uint64(2654435761) + np.uint64(step) * np.uint64(40503)) * np.uint64(0x9E3779B97F4A7C15)
    which = (noise >> np.uint64(40)) % masks.sum(axis=1).astype(np.uint64)
    return (masks.cumsum(axis=1) > which[:, None].astype(np.int64)).argmax(axis=1)


def digest(env: FoolVectorEnv, steps: int, tables: slice = slice(None)) -> str:
    """All that some tables of an env show over many steps."""
    total = hashlib.sha256()
    for step in range(steps):
        for name in ARRAYS:
            total.update(getattr(env, name)[tables].tobytes())
        env.step(choose(env.masks, step))
    return total.hexdigest()


def expected_reward(game: Game, reward: str) -> np.ndarray:
    """What the play just made pays to every seat, from the public facts of a `Game`."""
    n = len(game.scores)
    paid = np.zeros(8, np.float32)
    if reward == "win":
        for seat in game.winners:
            paid[seat] = 1 / len(game.winners)
    elif game.round_over:
        points = game.points
        others = [(sum(points) - own) / (n - 1) if reward == "relative" else 0 for own in points]
        paid[:n] = [own - mean for own, mean in zip(points, others, strict=True)]
    return paid


def expected_masks(games: list[Game]) -> np.ndarray:
    masks = np.zeros((len(games), 83), np.int8)
    for mask, game in zip(masks, games, strict=True):
        mask[game.legal_actions()] = 1
    return masks


def tables_of_every_kind() -> list[Rules]:
    """More than one block of tables, neighbours of different rules and numbers of players."""
    rng = random.Random(5)
    rules = list(PRESETS.values()) + [random_rules(rng.randint, players) for players in range(3, 9) for _ in range(10)]
    rng.shuffle(rules)
    assert len(rules) == 70
    return rules


@pytest.mark.parametrize(("episode", "reward"), PAYMENTS)
def test_lock_step_with_games(episode: str, reward: str) -> None:
    """100,000 plays in all: at every table every array is what a `Game` of the same seed says (FAULTS 26)."""
    rules = tables_of_every_kind()
    env = FoolVectorEnv(len(rules), rules, episode, reward, seed=11)

    def new_game(table: int) -> Game:
        return Game(rules[table], seed=int(env.seeds[table]), episode=episode)

    games = [new_game(table) for table in range(env.num_tables)]
    received = np.zeros((len(games), 8))
    episodes = 0
    for step in range(-(-100_000 // len(PAYMENTS) // len(games))):
        views = np.array([game.view(game.player) for game in games])
        assert env.players.tolist() == [game.player for game in games]
        assert env.masks.tobytes() == expected_masks(games).tobytes()
        assert env.observations.tobytes() == encode(views).tobytes()
        if step % 10 == 0:
            assert env.views.tobytes() == views.tobytes()
            assert env.games.tobytes() == np.array([game.record for game in games]).tobytes()
        actions = choose(env.masks, step)
        env.step(actions)
        for table, (game, action) in enumerate(zip(games, actions.tolist(), strict=True)):
            game.play(action)
            assert env.rewards[table].tobytes() == expected_reward(game, reward).tobytes()
            assert env.dones[table] == game.game_over
            received[table] += env.rewards[table]
            if game.game_over:
                if reward == "points":
                    assert received[table, : len(game.scores)].tolist() == game.scores
                assert received[table].sum() == pytest.approx(
                    {"points": sum(game.scores), "win": 1}.get(reward, 0), abs=1e-3
                )
                received[table] = 0
                episodes += 1
                games[table] = new_game(table)
            elif game.round_over:
                game.next_round()
    assert episodes > len(games) // 2


def test_every_number_of_players_ends_whole_games() -> None:
    """Official games to their end: the sums of rewards are the scores of a `Game` replayed from the seed."""
    rules = [Rules.official(players) for players in range(4, 9) for _ in range(2)]
    env = FoolVectorEnv(len(rules), rules, seed=2)
    seeds = env.seeds.copy()
    actions: list[list[int]] = [[] for _ in rules]
    received = np.zeros((len(rules), 8))
    checked = set()
    for step in range(1500):
        chosen = choose(env.masks, step)
        env.step(chosen)
        received += env.rewards
        for table in range(len(rules)):
            actions[table].append(int(chosen[table]))
            if env.dones[table]:
                game = Game(rules[table], seed=int(seeds[table]))
                for action in actions[table]:
                    if game.round_over:
                        game.next_round()
                    game.play(action)
                assert game.game_over
                assert received[table].tolist() == game.scores + [0] * (8 - len(game.scores))
                checked.add(table)
                received[table] = 0
                actions[table] = []
                seeds[table] = env.seeds[table]
    assert checked == set(range(len(rules)))


# --- what a table depends on


@pytest.mark.parametrize("num_tables", [1, 7, 64, 65, 130])
def test_a_table_does_not_depend_on_how_many_there_are(num_tables: int) -> None:
    rules = Rules.official(5)
    shared = slice(0, num_tables)
    few, many = (FoolVectorEnv(tables, rules, episode="round", seed=9) for tables in (num_tables, 200))
    assert digest(few, 150) == digest(many, 150, shared)


def test_envs_in_several_threads_do_as_they_do_alone() -> None:
    """Kernels release the GIL, so these run at the same time (FAULTS 31, 47)."""

    def run(seed: int) -> str:
        return digest(FoolVectorEnv(256, Rules.official(4 + seed), seed=seed), 120)

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, range(4)))
    assert together == [run(seed) for seed in range(4)]


def test_same_seed_same_deals_and_other_seeds_other_deals() -> None:
    def deals(seed: int | None) -> bytes:
        return FoolVectorEnv(3, Rules.official(6), seed=seed).games["hands"].tobytes()

    assert deals(4) == deals(4)
    assert len({deals(seed) for seed in range(20)}) == 20
    assert deals(None) != deals(None)
    first = FoolVectorEnv(2000, Rules.official(6), seed=0)
    assert len({hands.tobytes() for hands in first.games["hands"]}) == 2000
    assert set(first.games["dealer"].tolist()) == set(range(6))


def test_every_episode_of_every_table_has_a_seed_of_its_own() -> None:
    env = FoolVectorEnv(200, Rules.miniature(), episode="round", seed=0)
    seeds = set(env.seeds.tolist())
    started = env.num_tables
    for step in range(60):
        env.step(choose(env.masks, step))
        started += int(env.dones.sum())
        seeds |= set(env.seeds.tolist())
    assert len(seeds) == started > 4 * env.num_tables


def test_reset_with_a_seed_is_a_new_env_of_that_seed() -> None:
    env = FoolVectorEnv(9, Rules.official(4), seed=1)
    digest(env, 100)
    env.reset(seed=6)
    assert not env.rewards.any() and not env.dones.any()
    assert digest(env, 100) == digest(FoolVectorEnv(9, Rules.official(4), seed=6), 100)


def test_reset_alone_goes_on_to_new_deals() -> None:
    """FAULTS 10; what it goes on to depends on the seed."""
    env, other = (FoolVectorEnv(3, Rules.official(6), seed=1) for _ in range(2))
    seen = {env.games["hands"].tobytes()}
    for _ in range(5):
        env.reset()
        other.reset()
        seen.add(env.games["hands"].tobytes())
        assert env.games.tobytes() == other.games.tobytes()
    assert len(seen) == 6
    env.reset(seed=1)
    assert env.games.tobytes() == FoolVectorEnv(3, Rules.official(6), seed=1).games.tobytes()


# --- arrays


def test_arrays_are_the_same_objects_for_life() -> None:
    env = FoolVectorEnv(70, Rules.official(6), episode="round", reward="relative")
    shapes = {
        "observations": (np.float32, (70, OBSERVATION_SIZE)),
        "masks": (np.int8, (70, 83)),
        "players": (np.int64, (70,)),
        "rewards": (np.float32, (70, 8)),
        "dones": (np.bool_, (70,)),
        "seeds": (np.uint64, (70,)),
    }
    arrays = {name: getattr(env, name) for name in ARRAYS}
    assert {name: (array.dtype.type, array.shape) for name, array in arrays.items()} == shapes
    for step in range(100):
        assert env.step(choose(env.masks, step)) is None
    assert env.reset() is None
    env.load_state_dict(env.state_dict())
    for name, array in arrays.items():
        assert getattr(env, name) is array
        assert array.flags.c_contiguous


def test_masks_have_a_legal_action_at_every_step() -> None:
    env = FoolVectorEnv(70, tables_of_every_kind())
    for step in range(200):
        assert env.masks.any(axis=1).all() and set(np.unique(env.masks)) <= {0, 1}
        env.step(choose(env.masks, step))


def test_views_are_those_of_the_seat_to_act_and_copies() -> None:
    env = FoolVectorEnv(70, tables_of_every_kind(), seed=3)
    for step in range(50):
        env.step(choose(env.masks, step))
    views = env.views
    assert views.dtype == GAME and views["viewer"].tolist() == env.players.tolist() == views["player"].tolist()
    assert not views["rng"].any()
    for view in views:
        others = np.arange(8) != view["viewer"]
        assert not view["hands"][others].any() and not view["ones"][others].any()
        assert view["hands"].any() or view["ones"].any()
    assert encode(views).tobytes() == env.observations.tobytes()
    assert history(views).shape == (70, 88, 2)
    before = env.games.tobytes()
    views["hands"] = 0
    env.games["hands"] = 0
    assert env.games.tobytes() == before


def test_views_of_some_tables_are_theirs_and_copies() -> None:
    env = FoolVectorEnv(70, tables_of_every_kind(), seed=3)
    for step in range(50):
        env.step(choose(env.masks, step))
    some = np.array([69, 3, 3, 40])
    assert env.views_of(some).tobytes() == env.views[some].tobytes()
    before = env.games.tobytes()
    env.views_of(some)["hands"] = 0
    assert env.games.tobytes() == before
    none = env.views_of(np.arange(0))
    assert none.shape == (0,) and none.dtype == GAME
    with pytest.raises(IndexError, match="70"):
        env.views_of(np.array([70]))


def test_65536_tables_fit_in_a_gibibyte() -> None:
    """All arrays of the env, and a copy of the records as views (the benchmark measures the process)."""
    env = FoolVectorEnv(65_536, Rules.official(6))
    arrays = {id(a): a for a in vars(env).values() if isinstance(a, np.ndarray) and a.base is None}
    assert env.observations.base is not None  # a view of the fields, which are counted
    total = sum(array.nbytes for array in arrays.values()) + env.views.nbytes
    assert env.observations.nbytes < total < 2**30


# --- saving


@pytest.mark.parametrize(("episode", "reward"), PAYMENTS)
def test_a_loaded_state_goes_on_identically(episode: str, reward: str) -> None:
    rules = tables_of_every_kind()
    env = FoolVectorEnv(len(rules), rules, episode, reward, seed=8)
    digest(env, 77)
    file = io.BytesIO()
    np.savez(file, **env.state_dict())
    file.seek(0)
    other = FoolVectorEnv(len(rules), rules, episode, reward, seed=99)
    digest(other, 31)
    with np.load(file, allow_pickle=False) as saved:
        other.load_state_dict(saved)
    for name in ("observations", "masks", "players", "seeds", "views", "games"):
        assert getattr(other, name).tobytes() == getattr(env, name).tobytes(), name
    assert not other.rewards.any() and not other.dones.any()  # what it paid last was of other games
    for step in range(150):
        for each in (env, other):
            each.step(choose(each.masks, step))
        for name in ARRAYS:
            assert getattr(other, name).tobytes() == getattr(env, name).tobytes(), name


def test_a_saved_state_is_a_copy() -> None:
    env = FoolVectorEnv(3, Rules.miniature(), episode="round")
    state = env.state_dict()
    before = {name: array.tobytes() for name, array in state.items()}
    digest(env, 50)
    assert {name: array.tobytes() for name, array in state.items()} == before
    env.load_state_dict(state)
    digest(env, 50)
    assert {name: array.tobytes() for name, array in state.items()} == before


def test_a_state_of_another_env_is_refused() -> None:
    env = FoolVectorEnv(2, Rules.official(4))
    before = env.state_dict()
    others = {
        "3 tables": FoolVectorEnv(3, Rules.official(4)),
        "table 0.*other rules": FoolVectorEnv(2, Rules.official(5)),
        "episode": FoolVectorEnv(2, Rules.official(4), episode="round"),
    }
    for message, other in others.items():
        with pytest.raises(ValueError, match=message):
            env.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="version 0"):
        env.load_state_dict({**before, "version": np.array(0)})
    assert all(array.tobytes() == before[name].tobytes() for name, array in env.state_dict().items())


# --- errors


def test_an_illegal_action_at_one_table_raises_and_changes_nothing() -> None:
    env = FoolVectorEnv(70, tables_of_every_kind(), seed=4)
    for step in range(40):
        actions = choose(env.masks, step)
        before = [getattr(env, name).tobytes() for name in (*ARRAYS, "games")]
        table = step % 70
        for illegal in (int(np.flatnonzero(env.masks[table] == 0)[step % 20]), -1, 83, 2**62, -(2**62)):
            wrong = actions.copy()
            wrong[table] = illegal
            with pytest.raises(IllegalActionError, match=f"table {table}: .*hand: .*legal: "):
                env.step(wrong)
        assert [getattr(env, name).tobytes() for name in (*ARRAYS, "games")] == before
        env.step(actions)


@pytest.mark.parametrize(
    "actions",
    [np.zeros(3, int), np.zeros((2, 1), int), np.int64(0), np.zeros(2), np.array([True, True]), ["G2", "G3"]],
)
def test_actions_of_another_shape_or_type_are_refused(actions: object) -> None:
    env = FoolVectorEnv(2, Rules.official(4))
    with pytest.raises(ValueError, match=r"^actions: .*\(2,\)"):
        env.step(actions)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_actions_of_every_integer_type(dtype: type) -> None:
    env = FoolVectorEnv(8, Rules.official(6))
    strided = np.repeat(choose(env.masks, 0), 2).astype(dtype)[::2]
    env.step(strided)
    other = FoolVectorEnv(8, Rules.official(6))
    other.step(choose(other.masks, 0).tolist())
    assert env.games.tobytes() == other.games.tobytes()


def test_bad_arguments_are_refused() -> None:
    rules = Rules.official(6)
    for num_tables in (0, -1):
        with pytest.raises(ValueError, match="num_tables"):
            FoolVectorEnv(num_tables, rules)
    for wrong in ([rules], [rules] * 3, ["official", "official"], "6p", None):
        with pytest.raises(RulesError, match="rules"):
            FoolVectorEnv(2, wrong)
    for wrong_seed in (-1, 2**64, 1.5, "7", True):
        with pytest.raises(ValueError, match="seed"):
            FoolVectorEnv(2, rules, seed=wrong_seed)
        with pytest.raises(ValueError, match="seed"):
            FoolVectorEnv(2, rules).reset(seed=wrong_seed)
    with pytest.raises(ValueError, match="episode: 'match'"):
        FoolVectorEnv(2, rules, episode="match")
    with pytest.raises(ValueError, match="reward: 'score'"):
        FoolVectorEnv(2, rules, reward="score")
    with pytest.raises(ValueError, match="win"):
        FoolVectorEnv(2, rules, episode="round", reward="win")
