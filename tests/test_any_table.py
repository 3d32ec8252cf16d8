"""One network for tables of several sizes: how it is trained, what it plays at, and what it says about itself."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch as th
from checkpoints import write_checkpoint
from learners import make_learner

from fool_env import FoolVectorEnv, Rules
from fool_env.agents import __main__ as agents_main
from fool_env.agents.agent import make_agent
from fool_env.agents.neural import CheckpointError, NeuralAgent, load_agent, read_description
from fool_env.agents.search import PimcAgent
from fool_env.train import evaluate, ppo, tournament
from fool_env.train.buffer import NO_ROW
from fool_env.train.command import common_rules
from fool_env.train.config import parse_config
from fool_env.train.distributed import Ranks
from fool_env.train.losses import standardised
from fool_env.train.stages import make_tables, stage_at

SIZES = [4, 6, 7]
TABLES = [Rules.official(players) for players in SIZES]
TINY = f"""
name: tiny
total_steps: 1500
table: {{num_players: {SIZES}, num_tables: 20}}
network: {{kind: mlp, hidden: [8]}}
ppo: {{steps: 25, minibatch: 256}}
evaluation: {{opponents: [highest, random+lowest], every: 1000, deals: 3, games: 1, final_deals: 4, final_games: 2}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "tiny.yaml").write_text(TINY)
    assert ppo.main(["--config", str(folder / "tiny.yaml"), "--runs", str(folder)]) == 0
    return folder / "tiny"


@pytest.fixture
def final(run) -> str:
    return str(run / "final.zip")


# --- training


def test_tables_take_the_numbers_of_players_in_turn():
    config = parse_config(["--table.num_players", "[4, 6, 7]", "--table.num_tables", "8"])
    tables = make_tables(config, stage_at(config, 0))
    assert [rules.num_players for rules in tables.rules] == [4, 6, 7, 4, 6, 7, 4, 6]


def test_each_seat_of_each_table_is_credited_with_its_own_score():
    rules = [TABLES[table % 3] for table in range(9)]
    native = FoolVectorEnv(9, rules, "round", "relative", seed=4)
    learner = make_learner(native, n_steps=200, gae_lambda=1.0)
    th.nn.init.zeros_(learner.policy.value_net.weight)
    next(learner.iterations(1, reset_num_timesteps=False))
    buffer = learner.rollout_buffer
    for table in range(9):
        ends = np.flatnonzero(buffer.dones[:, table])
        assert len(ends) >= 2
        for start, end in itertools.pairwise([0, *(ends + 1)]):
            paid = buffer.rewards[end - 1, table]
            assert paid.any() and not paid[rules[table].num_players :].any()
            rows, players = buffer.rows[start:end, table], buffer.players[start:end, table]
            decided = rows != NO_ROW
            np.testing.assert_allclose(buffer.advantages[rows[decided]], paid[players[decided]], atol=1e-4)


def test_advantages_are_measured_beside_those_at_tables_of_as_many():
    standard = standardised(th.tensor([1.0, 3.0, 100.0, 5.0, 300.0, 700.0]), th.tensor([4, 4, 8, 4, 8, 8]) / 8, Ranks())
    expected = th.tensor([-1.2247, 0.0, -1.0690, 1.2247, -0.2673, 1.3363])
    th.testing.assert_close(standard, expected, atol=1e-4, rtol=0)

    native = FoolVectorEnv(12, [Rules.official(4), Rules.official(8)] * 6, "round", "points", seed=4)
    learner = make_learner(native, n_steps=100)
    learner.train = lambda: None
    next(learner.iterations(1))
    rows, buffer = learner.rollout_buffer.trainable, learner.rollout_buffer
    table_of = np.full(buffer.size, -1)
    for step_rows in buffer.rows:
        table_of[step_rows[step_rows != NO_ROW]] = np.flatnonzero(step_rows != NO_ROW)
    found = learner._targets(rows).advantages.numpy()
    for parity in (0, 1):
        of_size = found[[row for row in rows if table_of[row] % 2 == parity]]
        assert len(of_size) > 100
        assert of_size.mean() == pytest.approx(0, abs=1e-4) and of_size.std() == pytest.approx(1, abs=1e-4)
    assert (buffer.advantages[rows] > 0).any()


def test_a_run_says_how_it_fares_at_each_number_of_players(run):
    log = re.sub(r"^\S+ \S+ ", "", (run / "train.log").read_text(), flags=re.M).splitlines()
    assert "4, 6, 7 players, rounds, reward relative" in log[0]
    number = r"[+-]\d+\.\d"
    table = rf"highest {number} \({number}, \d+% won\), random\+lowest {number} \(\d+% won\)"
    assert [line[:10] for line in log if re.fullmatch(rf"\d players: {table}", line)] == [
        f"{players} players:"[:10] for players in SIZES * 2
    ]
    ladder = json.loads((run / "ladder.json").read_text())
    places = [(players, opponent) for players in SIZES for opponent in ("highest", "random+lowest")]
    for results, games in ((ladder["history"][0]["results"], 1), (ladder["results"], 2)):
        assert [(result["players"], result["opponent"]) for result in results] == places
        assert [result["table"] for result in results] == [f"{opponent}, {n} players" for n, opponent in places]
        assert {result["games"] for result in results} == {games}
    assert [Rules.from_dict(rules) for rules in ladder["rules"]] == TABLES
    assert [Rules.from_dict(rules) for rules in read_description(run / "final.zip")["rules"]] == TABLES
    assert (run / "curves.png").exists()


def test_an_opponent_that_knows_not_all_tables_is_refused(tmp_path, capsys):
    path = write_checkpoint(tmp_path / "two.zip", TABLES[:2])
    (tmp_path / "tiny.yaml").write_text(TINY)
    assert ppo.main(["--config", str(tmp_path / "tiny.yaml"), "--evaluation.opponents", f"[{path}]"]) == 2
    error = capsys.readouterr().err
    assert f"evaluation.opponents: {path} was trained for " in error and f"not for {TABLES[2]}" in error


# --- the agent


def views_of(*tables: Rules) -> np.ndarray:
    return FoolVectorEnv(len(tables), tables, "round", seed=2).views


def test_it_plays_at_its_tables_and_refuses_others(final):
    agent = load_agent(final)
    assert agent.rules == tuple(TABLES)
    views = views_of(*TABLES, *TABLES)
    together = agent.act(views, np.arange(6, dtype=np.uint64))
    alone = [agent.act(views[i : i + 1], np.array([i], np.uint64))[0] for i in range(6)]
    np.testing.assert_array_equal(together, alone)
    with pytest.raises(CheckpointError, match="other rules: num_players 4 or 6 or 7, but at this table it is 5"):
        agent.act(views_of(*TABLES, Rules.official(5)), np.zeros(4, np.uint64))
    with pytest.raises(CheckpointError, match=r"other rules: highest_rank .*, but at this table it is"):
        agent.act(views_of(Rules.foppen_1995(6)), np.zeros(1, np.uint64))
    for rules in ([], [TABLES[0], TABLES[0]], [Rules.official(6), Rules.foppen_1995(6)]):
        with pytest.raises(ValueError, match="one or more different numbers of players"):
            NeuralAgent(agent.network, rules)


def test_which_table_is_meant_is_asked_where_it_is_not_clear(tmp_path, final):
    every, two = make_agent(final), make_agent(write_checkpoint(tmp_path / "two.zip", [TABLES[1], Rules.official(8)]))
    one, bot = make_agent(write_checkpoint(tmp_path / "one.zip", TABLES[2])), make_agent("highest")
    assert common_rules([bot, every], 4) == TABLES[0]
    assert common_rules([every, two], None) == common_rules([two, bot, every], 6) == TABLES[1]
    assert common_rules([one, every], None) == TABLES[2]
    for agents, players, message in (
        ([bot, every], None, f"--players is needed: {every.name} was trained for 4 or 6 or 7"),
        ([bot, every], 5, f"--players 5: {every.name} was trained for 4 or 6 or 7"),
        ([every, two], 4, f"--players 4: {two.name} was trained for 6 or 8"),
        ([two, one], None, f"{two.name} and {one.name} were trained with different rules"),
        ([every, two, one], None, f"{every.name} and {one.name} were trained with different rules"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            common_rules(agents, players)


def test_search_on_top_of_it_knows_the_same_tables(final):
    bot = make_agent(f"pimc:worlds=2,policy={final}")
    assert isinstance(bot, PimcAgent) and bot.rules == tuple(TABLES)
    assert len(bot.act(views_of(*TABLES), np.zeros(3, np.uint64))) == 3


def test_the_commands_take_it_to_any_of_its_tables(tmp_path, capsys, final):
    report = tmp_path / "report.json"
    options = ["--checkpoint", final, "--opponents", "highest", "--deals", "3"]
    assert evaluate.main([*options, "--players", "7", "--json", str(report)]) == 0
    assert json.loads(report.read_text())["players"] == 7
    assert evaluate.main(options) == 2
    assert "--players is needed" in capsys.readouterr().err
    folder = tmp_path / "contest"
    agents = ["--agents", final, "highest", "lowest", "random"]
    sizes = ["--players", "4", "--deals", "4", "--games", "0", "--pair-deals", "0"]
    assert tournament.main([*agents, *sizes, "--out", str(folder)]) == 0
    assert agents_main.main(["explain", "--agent", final, "--players", "6", "--move", "3"]) == 0
    assert "FOOL, 6 players" in capsys.readouterr().out
    assert agents_main.main(["explain", "--agent", final]) == 2
