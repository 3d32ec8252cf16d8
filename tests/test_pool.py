"""The opponent pool: who sits where, what is learnt from whom, who is drawn, and that a resumed run is the same run."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch as th
from learners import fool_tables, make_learner
from planted import Blend
from pools import BOTS, Log, make_pool_learner, play

from fool_env import FoolVectorEnv, Rules
from fool_env.agents.agent import make_agent
from fool_env.agents.arena import BENCHMARK, REPORT, SELECTION, TRAINING
from fool_env.agents.neural import NeuralAgent
from fool_env.train import ppo
from fool_env.train.buffer import NO_ROW
from fool_env.train.config import ConfigError, parse_config
from fool_env.train.distributed import RANKS
from fool_env.train.pool import POOL, Edges, most_crowded
from fool_env.train.seating import LEARNER
from fool_env.train.selfplay import SelfPlayPPO


@pytest.fixture(scope="module")
def played() -> tuple[SelfPlayPPO, Log]:
    """A pool of two scripted agents and snapshots, over 20 iterations."""
    learner = make_pool_learner(fool_tables(4, 40), every=2000)
    return learner, play(learner, 20)


# --- what is learnt from whom


def test_opponents_have_no_rows_and_the_learner_has_all_of_its_own(played):
    learner, log = played
    opponents = 0
    for step in log.plays:
        tables = np.arange(40)
        theirs = step["occupants"][tables, step["players"]] != LEARNER
        choice = step["masks"].sum(1) > 1
        np.testing.assert_array_equal(step["rows"] != NO_ROW, choice & ~theirs)
        opponents += theirs.sum()
    pool_plays = len(log.plays) * len(learner.pool.tables)
    assert 0.7 < opponents / pool_plays < 0.8  # three seats of four
    buffer = learner.rollout_buffer
    np.testing.assert_array_equal(buffer.opponents[-1], theirs)
    assert learner.logger.name_to_value["rollout/forced_plays"] == pytest.approx(
        (buffer.rows[buffer.opponents == 0] == NO_ROW).mean()
    )


def test_opponents_play_what_their_agents_play(played):
    _, log = played
    agents = [make_agent(name) for name in BOTS]
    checked = 0
    for step in log.plays:
        who = step["occupants"][np.arange(40), step["players"]]
        for member, agent in enumerate(agents):
            theirs = who == member
            np.testing.assert_array_equal(
                step["actions"][theirs], agent.act(step["views"][theirs], np.zeros(theirs.sum(), np.uint64))
            )
            checked += theirs.sum()
    assert checked > 2000


def test_credit_of_the_learner_is_untouched_by_whoever_plays_beside_it(played):
    """Every trained decision is one of a learner's seat, and its return what that seat is paid."""
    learner = make_pool_learner(share=1.0, n_steps=150, gae_lambda=1.0)
    th.nn.init.zeros_(learner.policy.value_net.weight)
    log = play(learner, 1)
    buffer = learner.rollout_buffer
    first_ends = 0
    for table in range(40):
        end = int(np.flatnonzero(buffer.dones[:, table])[0])
        occupants = log.plays[0]["occupants"][table]
        seat = int(np.flatnonzero(occupants[:4] == LEARNER)[0])
        rows = buffer.rows[: end + 1, table]
        rows = rows[rows != NO_ROW]
        paid = sum(log.plays[step]["rewards"][table, seat] for step in range(end + 1))
        if len(rows):
            assert buffer.complete[rows].all()
            assert buffer.advantages[rows[0]] == pytest.approx(paid, abs=1e-5)
            first_ends += 1
    assert first_ends > 30


# --- who sits where


def test_occupants_stay_for_an_episode_and_only_the_tables_of_the_pool_have_any(played):
    learner, log = played
    others = np.setdiff1d(np.arange(40), learner.pool.tables)
    assert len(learner.pool.tables) == 20
    changes = 0
    for before, after in zip(log.plays, log.plays[1:], strict=False):
        same = (before["occupants"] == after["occupants"]).all(axis=1)
        assert same[~before["dones"]].all()
        changes += (~same).sum()
        assert (after["occupants"][others] == LEARNER).all()
        assert ((after["occupants"][learner.pool.tables, :4] == LEARNER).sum(axis=1) == 1).all()
        assert (after["occupants"][:, 4:] == LEARNER).all()
    assert changes > 100


def test_tables_may_differ_in_players():
    rules = [Rules.official(4 + i % 5) for i in range(40)]
    learner = make_pool_learner(FoolVectorEnv(40, rules, "round", "relative", seed=1), share=1.0)
    log = play(learner, 4)
    players = np.array([r.num_players for r in rules])
    occupants = log.plays[-1]["occupants"]
    assert ((occupants != LEARNER).sum(axis=1) == players - 1).all()
    assert abs(learner.pool.edges.means).max() > 0


def test_without_members_the_tables_of_the_pool_are_like_all_others():
    """Until the first snapshot the run is that of plain self-play, bit by bit."""
    plain = make_learner(fool_tables(4, 40), n_steps=24)
    pooled = make_pool_learner(fool_tables(4, 40), members=(), every=5 * 40 * 24)
    for iteration in zip(
        plain.iterations(6 * 960, reset_num_timesteps=False),
        pooled.iterations(6 * 960, reset_num_timesteps=False),
        strict=True,
    ):
        same = th.equal(plain.policy.action_net.weight, pooled.policy.action_net.weight)
        assert same == (iteration[0] < 6)  # the first episodes with a snapshot begin in the sixth iteration
        assert pooled.logger.name_to_value["pool/members"] == (iteration[0] >= 5)
    assert not any(name.startswith("pool/") for name in plain.run_state())


# --- snapshots


def test_a_snapshot_is_the_network_as_it_was():
    learner = make_pool_learner(members=(), every=960, learning_rate=1e-2)
    iterations = learner.iterations(10**6, reset_num_timesteps=False)
    next(iterations)
    before = learner.policy_network().state_dict()
    next(iterations)
    frozen = learner.pool._agents[0].network.state_dict()
    assert all(th.equal(before[name], frozen[name]) for name in before)
    assert not th.equal(before["action_net.weight"], learner.policy.action_net.weight)
    assert not any(parameter.requires_grad for parameter in learner.pool._agents[0].network.parameters())


def test_snapshots_are_bounded_and_stay_for_the_end_of_their_episodes():
    learner = make_pool_learner(fool_tables(4, 10), share=1.0, every=1, size=3, n_steps=10)
    log = Log(learner)
    waited = 0
    for iteration in learner.iterations(60 * 100, reset_num_timesteps=False):
        pool = learner.pool
        held = [agent for agent in pool._agents[2:] if agent is not None]
        assert len(held) <= 3
        taken = sum(name.startswith("pool/snapshots/") for name in learner.run_state())
        assert taken == len(held) * len(learner.policy_network().state_dict())
        seated = set(np.unique(pool.occupants)) - {LEARNER}
        assert all(pool._agents[member] is not None for member in seated)
        if pool._leaving >= 0:
            assert pool._leaving in seated and pool._leaving not in pool.members
            waited += 1
        elif iteration >= 3:
            assert pool._taken.max() == learner.num_timesteps  # taken as soon as there was room
    assert waited > 10
    assert len({tuple(play["occupants"].max(axis=0)) for play in log.plays}) > 1


def test_a_new_snapshot_does_not_inherit_the_edge_of_the_one_before():
    learner = make_pool_learner(members=(), share=1.0, every=960, size=1, n_steps=24, learning_rate=0.0)
    iterations = learner.iterations(10**6, reset_num_timesteps=False)
    next(iterations)
    learner.pool.edges.means[0] = 50.0
    while learner.pool._taken[0] == 960:
        next(iterations)
    assert learner.pool.edges.means[0] == 0


def test_snapshots_kept_are_spread_over_the_run():
    taken = np.arange(1, 9) * 10
    for now in range(90, 5000, 10):
        taken[most_crowded(taken, now)] = now
        gaps = np.diff([0, *np.sort(taken)])
        assert taken.max() == now
        assert gaps.max() <= 2.2 * now / 8
    assert most_crowded(np.array([10, 40, 42, 60]), 100) == 2


# --- who is drawn


def test_edges_are_running_means():
    edges = Edges(2)
    edges.add(np.array([0, 0]), np.array([3.0, 5.0]))
    np.testing.assert_allclose(edges.means, [8 / 102, 0])  # 100 results of 0 to begin with
    for _ in range(400):
        edges.add(np.full(50, 1), np.full(50, -2.0))
    np.testing.assert_allclose(edges.means, [8 / 102, -2], atol=1e-3)
    assert edges.seen.tolist() == [102, 1000]
    np.testing.assert_allclose(np.sqrt(edges.square[0]), 2, atol=1e-3)
    edges.forget(1)
    assert edges.means[1] == 0 and edges.seen[1] == 100


def test_harder_members_are_drawn_more_often_and_none_never():
    edges = Edges(3)
    edges.means[:] = [-1.0, 0.0, 8.0]
    edges.square[:] = 100.0, 1000
    weights = edges.weights(np.arange(3))
    assert weights.sum() == pytest.approx(1)
    assert (weights[0] - 0.1 / 3) / (weights[1] - 0.1 / 3) == pytest.approx(np.e)
    assert weights[2] == pytest.approx(0.1 / 3, abs=1e-3)
    assert edges.weights(np.array([2])) == pytest.approx([1.0])
    np.testing.assert_allclose(Edges(4).weights(np.arange(4)), 0.25)  # nothing known yet


@pytest.fixture(scope="module")
def rated() -> tuple[SelfPlayPPO, Log]:
    """A learner that does not learn, beside agents of planted strength, itself among them."""
    strong, weak = Blend(1.0), Blend(0.0)
    learner = make_pool_learner(
        fool_tables(4, 100, "relative"),
        [strong, weak],
        share=1.0,
        every=100 * 50,
        size=1,
        sampling="hard",
        learning_rate=0.0,
        n_steps=50,
    )
    return learner, play(learner, 25)


def test_planted_strengths_are_recovered(rated):
    """The harder agent has the lower edge, and the learner is as good as itself."""
    learner, _ = rated
    strong, weak, itself = learner.pool.edges.means
    assert strong < itself - 5 and strong < weak - 5
    assert abs(itself) < 1.5
    assert 5 < np.sqrt(learner.pool.edges.square[0]) < 40


def test_hard_sampling_prefers_the_harder(rated):
    _, log = rated
    occupants = log.plays[-1]["occupants"]
    late = np.bincount(occupants[occupants != LEARNER], minlength=3)
    assert late[0] > 3 * max(late[1], late[2]) and late[1:].sum() > 0


@pytest.mark.parametrize("reward", ["points", "relative"])
def test_results_are_relative_points_whatever_is_paid(reward):
    """Edges, and what is logged, against a slow count of the same episodes."""
    learner = make_pool_learner(fool_tables(5, 40, reward), share=0.5, learning_rate=0.0, n_steps=60)
    log = play(learner, 1)
    totals, edges, logged = np.zeros((40, 8)), {0: [], 1: []}, []
    for step in log.plays:
        totals += step["rewards"]
        for table in np.flatnonzero(step["dones"]):
            who = step["occupants"][table][:5]
            points = totals[table][:5] if reward == "points" else totals[table][:5] * 4 / 5  # up to a constant
            relative = points - (points.sum() - points) / 4
            totals[table] = 0
            if (who == LEARNER).all():
                continue
            own = relative[who == LEARNER][0]
            logged.append(own)
            for seat in np.flatnonzero(who != LEARNER):
                edges[who[seat]].append(own - relative[seat])
    assert len(logged) > 10
    for member, results in edges.items():
        assert learner.pool.edges.means[member] == pytest.approx(sum(results) / (100 + len(results)), abs=1e-6)
    assert learner.logger.name_to_value["pool/learner_relative"] == pytest.approx(np.mean(logged), abs=1e-6)


# --- the same run


def states(learner: SelfPlayPPO) -> dict[str, np.ndarray]:
    weights = {name: tensor.numpy() for name, tensor in learner.policy.state_dict().items()}
    return learner.run_state() | weights


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_results_do_not_depend_on_the_number_of_threads():
    def run(threads: int) -> dict[str, np.ndarray]:
        learner = make_pool_learner(
            fool_tables(6, 64), every=3000, sampling="hard", share=0.7, threads=threads, n_steps=24, kind="facts"
        )
        play(learner, 8)
        assert len(learner.pool.members) >= 4
        return states(learner)

    assert_same(run(1), run(2))


@pytest.mark.parametrize(("stop", "episode"), [(1, "round"), (4, "round"), (9, "round"), (3, "game")])
def test_a_resumed_pool_has_the_same_future(stop, episode):
    """Seats, episodes half played and half paid, ratings, snapshots, and one that is about to leave."""

    def make() -> SelfPlayPPO:
        native = FoolVectorEnv(40, Rules.miniature() if episode == "game" else Rules.official(4), episode, seed=3)
        return make_pool_learner(native, every=1000, size=2, sampling="hard")

    learner, resumed = make(), make()
    play(learner, stop)
    assert episode == "game" or (learner.pool._leaving >= 0) == (stop == 4)
    file = io.BytesIO()
    np.savez(file, **learner.run_state())
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        resumed.load_run_state(dict(saved))
    resumed.set_parameters(copy.deepcopy(learner.get_parameters()))
    assert_same(states(learner), states(resumed))
    play(learner, 6)
    play(resumed, 6)
    assert_same(states(learner), states(resumed))


def test_no_luck_is_used_twice():
    assert len({TRAINING, SELECTION, REPORT, BENCHMARK, RANKS, POOL}) == 6


def test_a_snapshot_stays_one_of_rounds_when_the_run_has_come_to_games():
    learner, resumed = (make_pool_learner(members=(), every=960) for _ in range(2))
    play(learner, 1)
    resumed.pool._freeze = lambda: NeuralAgent(learner.policy_network(), [Rules.official(4)], "game")
    resumed.load_run_state(learner.run_state())
    assert resumed.pool._agents[0].episode == "round"


# --- runs

CONFIG = {
    "total_steps": "3000",
    "table.num_players": "4",
    "table.num_tables": "40",
    "network.hidden": "[16]",
    "ppo.steps": "25",
    "evaluation.opponents": "[highest]",
    "evaluation.every": "0",
    "evaluation.final_deals": "2",
    "evaluation.final_games": "0",
    "pool.share": "0.5",
    "pool.every": "1000",
    "pool.members": "[highest]",
}


def arguments(folder, **options: str) -> list[str]:
    values = CONFIG | {"runs": str(folder)} | {key.replace("__", "."): value for key, value in options.items()}
    return [part for key, value in values.items() for part in (f"--{key}", value)]


def test_a_run_may_have_a_pool_and_meet_its_own_earlier_checkpoint(tmp_path):
    assert ppo.main(arguments(tmp_path)) == 0
    rows = (tmp_path / "run" / "progress.csv").read_text().splitlines()
    column = rows[0].split(",").index("pool/members")
    assert [row.split(",")[column] for row in rows[1:]] == ["2", "3", "4"]
    member = str(tmp_path / "run" / "final.zip")
    assert ppo.main(arguments(tmp_path, name="second", total_steps="1000", pool__members=f"[{member}, lowest]")) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool.share": "1.5"}, r"pool\.share: 1\.5 is not within 0 to 1"),
        ({"pool.share": "-0.5"}, r"pool\.share: -0\.5 is too small"),
        ({"pool.share": "0.001"}, r"pool\.share: 0\.001 of 40 tables is none"),
        ({"pool.size": "0"}, r"pool\.size: 0 is too small"),
        ({"pool.every": "0", "pool.members": "[]"}, r"pool\.share: there are neither snapshots"),
        ({"pool.sampling": "easy"}, r"pool\.sampling"),
        ({"pool.shar": "1"}, r"do you mean pool\.share"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(arguments(tmp_path, **options))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("[higest]", 'pool.members: there is no agent "higest" (do you mean "highest"?)'),
        ("[highest+lowest]", 'pool.members: there is no agent "highest+lowest"'),
        ("[lost.zip]", "pool.members: lost.zip: there is no such file"),
        ("[cheat]", 'pool.members: agent "cheat" sees all hands'),
    ],
)
def test_members_that_cannot_be_had_are_refused_at_once(tmp_path, capsys, members, message):
    assert ppo.main(arguments(tmp_path, pool__members=members)) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
