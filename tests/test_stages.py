"""What a run plays when, and what it starts from: whole games, a curriculum, a checkpoint's weights."""

from __future__ import annotations

import io
import itertools
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch as th
from learners import make_learner
from run_folders import assert_same_run, contents

from fool_env import FoolVectorEnv, Rules
from fool_env.agents.neural import load_agent, read_description
from fool_env.observation import OBSERVATION, OBSERVATION_SIZE, encode, first_float
from fool_env.train import ppo
from fool_env.train.buffer import NO_ROW
from fool_env.train.config import ConfigError, TrainConfig, parse_config
from fool_env.train.ladder import agent_of
from fool_env.train.networks import HANDS_SIZE
from fool_env.train.stages import change_stage, make_tables, stage_at, start_from

TINY = """
name: tiny
total_steps: 1600
checkpoint_every: 200
table: {num_players: 4, num_tables: 8, episode: game, reward: win, rounds_first: 700}
network: {hidden: [8]}
ppo: {steps: 25, minibatch: 256}
evaluation: {opponents: [highest], every: 0, deals: 4, final_deals: 4, final_games: 2}
"""


def command(folder: Path, *arguments: str) -> list[str]:
    (folder / "tiny.yaml").write_text(TINY)
    return ["--config", str(folder / "tiny.yaml"), "--runs", str(folder), *arguments]


def parse(folder: Path, *arguments: str) -> TrainConfig:
    return parse_config(command(folder, *arguments))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run over rounds and then games that was never interrupted; the games begin at 800 plays."""
    folder = tmp_path_factory.mktemp("finished")
    assert ppo.main(command(folder)) == 0
    return folder / "tiny"


# --- whole games


def test_totals_reach_the_observation_and_a_win_pays_its_share_at_the_end_alone():
    tables = FoolVectorEnv(40, Rules.official(4), "game", "win", seed=1)
    fields = tables.observations.view(OBSERVATION)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(900):
        games, seats = tables.games, np.arange(4)
        relative = (tables.players[:, None] + seats) % 4
        scores, tens = (np.take_along_axis(games[name], relative, 1) for name in ("scores", "tens"))
        np.testing.assert_allclose(fields["score"][:, 0, :4], scores / 80, rtol=1e-6)
        np.testing.assert_allclose(fields["tens"][:, 0, :4], tens / 6, rtol=1e-6)
        assert (fields["totals_matter"] == 1).all()
        tables.step((tables.masks * rng.random(tables.masks.shape)).argmax(1))
        np.testing.assert_allclose(tables.rewards.sum(1), tables.dones)
        ends += tables.dones.sum()
    assert ends > 20


def test_a_win_is_credited_to_the_seat_that_won_over_all_rounds_of_the_game():
    """With lambda and gamma 1 and values 0, every decision's return is what its seat got of the game it was made in."""
    native = FoolVectorEnv(6, Rules.official(4), "game", "win", seed=5)
    learner = make_learner(native, n_steps=900, gae_lambda=1.0, reward_scale=2.0)
    th.nn.init.zeros_(learner.policy.value_net.weight)
    next(learner.iterations(1, reset_num_timesteps=False))
    buffer = learner.rollout_buffer
    games = 0
    for table in range(native.num_tables):
        ends = np.flatnonzero(buffer.dones[:, table])
        for start, end in itertools.pairwise([0, *(ends + 1)]):
            games += 1
            paid = buffer.rewards[end - 1, table]
            assert paid.sum() == pytest.approx(2) and not buffer.rewards[start : end - 1, table].any()
            assert end - start > 2 * native.rules[0].num_cards - 20  # rounds, not one
            rows, players = buffer.rows[start:end, table], buffer.players[start:end, table]
            decided = rows != NO_ROW
            np.testing.assert_allclose(buffer.advantages[rows[decided]], paid[players[decided]], atol=1e-5)
    assert games > 6


def test_games_do_not_begin_and_end_together(tmp_path):
    config = parse(tmp_path, "--table.num_tables", "60")
    games = make_tables(config, stage_at(config, 800)).games
    assert len(set(games["num_rounds"].tolist())) > 5
    assert 5 < (games["num_rounds"] < 4).sum() < 40
    assert not games["one_round"].any()
    rounds = make_tables(config, stage_at(config, 0)).games
    assert rounds["one_round"].all() and not rounds["num_plays"].any()


# --- the curriculum


def test_the_stage_changes_between_iterations(tmp_path):
    config = parse(tmp_path)
    assert [stage_at(config, steps) for steps in (0, 600)] == [("round", "relative", 0.05)] * 2
    assert [stage_at(config, steps) for steps in (800, 1600)] == [("game", "win", 2.0)] * 2
    assert stage_at(parse(tmp_path, "--ppo.reward_scale", "0.5"), 800) == ("game", "win", 0.5)
    assert stage_at(parse(tmp_path, "--table.reward", "points"), 800) == ("game", "points", 0.05)


def test_a_network_plays_on_as_before_when_the_games_begin(tmp_path):
    config = parse(tmp_path)
    model = ppo.make_model(config)
    iterations = model.iterations(1600, reset_num_timesteps=False)
    for _ in range(3):
        next(iterations)
        assert not change_stage(config, model)
    next(iterations)
    as_rounds, agent = ppo.make_model(config), agent_of(model, config)
    as_rounds.set_parameters(model.get_parameters())
    assert (model.rollout_buffer.open_rows != NO_ROW).any()
    assert "800 steps: from here on games, reward win x 2" in change_stage(config, model)
    assert not (model.rollout_buffer.open_rows != NO_ROW).any()
    views = model.tables.views
    assert agent.episode == "game" and views["scores"].any()
    agent.episode = "round"  # which shows it no totals
    logits, values = model.network(th.from_numpy(encode(views)), th.zeros((len(views), 0)))
    np.testing.assert_allclose(logits.detach().numpy(), agent._logits(views)[: len(views)], atol=1e-5)
    np.testing.assert_allclose(values.detach().numpy(), 2 / 4)  # a fourth of the wins
    next(iterations)
    assert model.rollout_buffer.rewards.any() == model.rollout_buffer.dones.any()
    assert not change_stage(config, model)


def test_a_run_says_when_its_games_begin_and_its_checkpoints_what_they_were_trained_on(finished):
    log = (finished / "train.log").read_text()
    assert "rounds, reward relative x 0.05" in log and "whole games after 700 steps" in log
    assert log.count("800 steps: from here on games, reward win x 2") == 1
    for path in (finished / "checkpoints").iterdir():
        description = read_description(path)
        expected = ("round", "relative", 0.05) if int(path.stem) < 800 else ("game", "win", 2.0)
        assert tuple(description[name] for name in ("episode", "reward", "reward_scale")) == expected
        assert load_agent(path).episode == expected[0]


@pytest.mark.parametrize("stop_after", [3, 4, 6])
def test_a_run_resumed_before_at_or_after_the_change_equals_one_that_never_stopped(
    finished, tmp_path, monkeypatch, stop_after
):
    show = ppo.progress_line

    def interrupt(config, model, seconds):
        if model.iteration == stop_after:
            raise KeyboardInterrupt  # without saving: on from the last checkpoint
        return show(config, model, seconds)

    monkeypatch.setattr(ppo, "progress_line", interrupt)
    assert ppo.main(command(tmp_path)) == 130
    monkeypatch.undo()
    assert ppo.main(["--resume", str(tmp_path / "tiny")]) == 0
    assert_same_run(finished, tmp_path / "tiny")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table.episode", "round", "--table.reward", "points"], r"table\.rounds_first: .* needs table\.episode"),
        (["--table.rounds_first", "1401"], r"table\.rounds_first: 1,401 of 1,600 plays leave none for games"),
        (["--table.rounds_first", "-1"], r"table\.rounds_first: -1 is too small"),
    ],
)
def test_a_curriculum_that_leads_nowhere_is_refused(tmp_path, arguments, message):
    with pytest.raises(ConfigError, match=message):
        parse(tmp_path, *arguments)


# --- from a checkpoint's weights


def start(folder: Path, init: Path, *arguments: str) -> tuple[ppo.SelfPlayPPO, str]:
    config = parse(folder, "--init", str(init), *arguments)
    model = ppo.make_model(config)
    return model, start_from(config, model)


def test_a_run_starts_from_a_checkpoint_with_values_that_mean_the_same(finished, tmp_path):
    source = finished / "final.zip"
    weights = contents(source)["policy.pth"]
    model, line = start(tmp_path, source, "--table.rounds_first", "0", "--table.num_players", "5")
    assert f"policy and values of {source} (1,600 steps)" in line
    assert all(th.equal(tensor, weights[name]) for name, tensor in model.policy.state_dict().items())
    assert not model.policy.optimizer.state

    model, line = start(tmp_path, source, "--table.rounds_first", "0", "--table.reward", "relative")
    assert f"policy, without its values, from games for win of {source}" in line
    state = model.policy.state_dict()
    assert not state["value_net.weight"].any() and not state["value_net.bias"].any()
    assert all(th.equal(tensor, weights[name]) for name, tensor in state.items() if "value_net" not in name)


def test_a_critic_of_another_kind_begins_anew_and_the_average_policy_with_the_policy(finished, tmp_path):
    source = finished / "final.zip"
    options = ("--table.rounds_first", "0", "--network.critic", "full", "--ppo.average_kl", "0.1")
    model, line = start(tmp_path, source, *options)
    assert f"policy, without its values, from games for win of {source}" in line
    observations = th.from_numpy(model.tables.observations)
    logits, values = model.network(observations, th.ones((len(observations), HANDS_SIZE), dtype=th.uint8))
    np.testing.assert_allclose(values.detach().numpy(), 2 / 4)
    np.testing.assert_allclose(model.average.network(observations).numpy(), logits.detach().numpy(), atol=1e-5)


def test_a_run_of_games_starts_as_a_checkpoint_of_rounds_plays_them(finished, tmp_path):
    """Even if the weights of totals are not 0, and what they are means nothing."""
    source = tmp_path / "rounds.zip"
    with zipfile.ZipFile(finished / "checkpoints" / f"{600:012d}.zip") as old, zipfile.ZipFile(source, "w") as new:
        weights = th.load(io.BytesIO(old.read("policy.pth")), weights_only=True)
        for tensor in weights.values():
            if tensor.shape[1:] == (OBSERVATION_SIZE,):
                tensor[:, first_float("score")] = 3.0
        saved = io.BytesIO()
        th.save(weights, saved)
        new.writestr("fool.json", old.read("fool.json"))
        new.writestr("policy.pth", saved.getvalue())
    model, _ = start(tmp_path, source, "--table.rounds_first", "0")
    views = model.tables.views
    logits, values = model.network(th.from_numpy(encode(views)), th.zeros((len(views), 0)))
    agent = load_agent(source)
    assert agent.episode == "round" and views["scores"].any()
    np.testing.assert_allclose(logits.detach().numpy(), agent._logits(views)[: len(views)], atol=1e-5)
    np.testing.assert_allclose(values.detach().numpy(), 2 / 4)


def test_a_run_says_what_it_started_from_and_is_resumed_without_it(finished, tmp_path):
    source = tmp_path / "source.zip"
    source.write_bytes((finished / "final.zip").read_bytes())
    assert ppo.main(command(tmp_path, "--table.rounds_first", "0", "--total_steps", "400", "--init", str(source))) == 0
    run = tmp_path / "tiny"
    assert f"starts from the policy and values of {source}" in (run / "train.log").read_text()
    first = contents(run / "checkpoints" / f"{0:012d}.zip")["policy.pth"]
    assert all(th.equal(tensor, contents(source)["policy.pth"][name]) for name, tensor in first.items())
    source.unlink()
    assert ppo.main(["--resume", str(run)]) == 0
    said = [contents(path)["fool.json"] for path in (run / "checkpoints" / f"{0:012d}.zip", run / "final.zip")]
    assert [says["steps_before"] for says in said] == [1600, 1600]
    assert start(tmp_path, run / "final.zip", "--table.rounds_first", "0")[0].steps_before == 1600 + 400


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--network.hidden", "[9]"], r"init: .*final\.zip holds a network .*\[8\].* this run trains .*\[9\]"),
        (["--network.hidden", "[8, 8]"], r"this run trains .*\[8, 8\]"),
        (["--table.rounds_first", "300"], r"init: .* was trained on whole games, .* begins with single rounds"),
        (["--init", "nowhere.zip"], "nowhere.zip: there is no such file"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_before_the_run_begins(
    finished, tmp_path, capsys, arguments, message
):
    run = command(tmp_path, "--table.rounds_first", "0", "--init", str(finished / "final.zip"), *arguments)
    assert ppo.main(run) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)
    assert not (tmp_path / "tiny").exists()
