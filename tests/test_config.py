"""The configuration of training runs: what is written is what is meant, or is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fool_env import Rules
from fool_env.train.config import ConfigError, TrainConfig, load_config, parse_config, save_config

FOLDER = Path(__file__).parent.parent / "configs"
CONFIGS = sorted(set(FOLDER.glob("*.yaml")) - {FOLDER / "leaderboard.yaml", FOLDER / "tasks.yaml"})  # not of training


def parse(tmp_path: Path, text: str, *arguments: str) -> TrainConfig:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return parse_config(["--config", str(path), *arguments])


def test_the_command_line_wins_over_the_file_and_the_file_over_defaults(tmp_path):
    config = parse(tmp_path, "seed: 5\nppo:\n  learning_rate: 1e-4\n  epochs: 3\n", "--ppo.epochs", "7")
    assert (config.seed, config.ppo.learning_rate, config.ppo.epochs) == (5, 1e-4, 7)
    assert config.ppo.minibatch == TrainConfig().ppo.minibatch


@pytest.mark.parametrize(
    ("text", "wrong", "meant"),
    [
        ("ppo:\n  learning_rat: 1e-3\n", "learning_rat", "ppo.learning_rate"),
        ("totalsteps: 5\n", "totalsteps", "total_steps"),
        ("learning_rate: 1e-3\n", "learning_rate", "ppo.learning_rate"),
        ("tabel:\n  num_players: 4\n", "tabel.num_players", "table.num_players"),
        ("evaluation:\n  deal: 4\n", "deal", "evaluation.deals"),
    ],
)
def test_a_misspelt_key_is_refused_and_the_right_one_named(tmp_path, text, wrong, meant):
    with pytest.raises(ConfigError, match=f"{wrong}'.*do you mean {meant}"):
        parse(tmp_path, text)


@pytest.mark.parametrize("argument", ["--ppo.learning_rat", "--ppo.learning_rates", "--learning_rate"])
def test_a_misspelt_option_is_refused_even_if_it_begins_like_one(argument):
    with pytest.raises(ConfigError, match=r"do you mean ppo\.learning_rate"):
        parse_config([argument, "1e-3"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ppo.epochs", "many"], r"ppo\.epochs"),
        (["--ppo.epochs", "1.5"], r"ppo\.epochs"),
        (["--ppo.epochs", "0"], r"ppo\.epochs: 0 is too small"),
        (["--ppo.gamma", "1.01"], r"ppo\.gamma"),
        (["--ppo.entropy", "-0.1"], r"ppo\.entropy"),
        (["--seed", "-1"], "seed"),
        (["--threads", "0"], "threads"),
        (["--precision", "float16"], "precision"),
        (["--table.num_players", "9"], "num_players"),
        (["--table.reward", "win"], r"table\.reward: 'win'"),
        (["--table.rules", "{num_fool: 1}"], "num_fool"),
        (["--table.rules", "{num_players: 5}"], "disagree"),
        (["--table.num_players", "3"], "num_players: 3 is not within 4 to 8"),
        (["--table.num_players", "[4, 9]"], "num_players: 9 is not within 4 to 8"),
        (["--table.num_players", "[4, 5, 4]"], r"table\.num_players: \[4, 5, 4\] are not one or more different"),
        (["--table.num_players", "[]"], r"table\.num_players: \[\] are not one or more different"),
        (["--table.num_players", "[4, many]"], r"table\.num_players"),
        (["--table.num_players", "[4, 5]", "--table.num_tables", "1"], r"table\.num_tables: 1 are fewer than"),
        (["--table.num_players", "[4, 5]", "--table.rules", "{num_players: 5}"], "disagree"),
        (["--network.hidden", "[]"], r"network\.hidden"),
        (["--name", "a/b"], "name"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["stray"], "stray"),
    ],
)
def test_what_cannot_be_trained_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(arguments)


def test_rules_may_differ_from_the_official_ones(tmp_path):
    assert parse(tmp_path, "table:\n  num_players: 5\n").table.make_rules() == [Rules.official(5)]
    config = parse(tmp_path, "table:\n  num_players: 5\n  rules: {num_fools: 2, losing_total: -40}\n")
    (rules,) = config.table.make_rules()
    assert (rules.num_fools, rules.losing_total, rules.num_cards) == (2, -40, 60)
    config = parse(tmp_path, "table:\n  num_players: [8, 4]\n  rules: {losing_total: -40}\n")
    eight, four = config.table.make_rules()
    assert eight == dataclasses.replace(Rules.official(8), losing_total=-40)
    assert four == dataclasses.replace(Rules.official(4), losing_total=-40)
    miniature = Rules.miniature()
    config = parse(tmp_path, f"table:\n  num_players: 3\n  rules: {miniature.to_dict()}\n")
    assert config.table.make_rules() == [miniature]


def test_a_saved_config_is_the_same_when_loaded(tmp_path):
    text = "table:\n  num_players: [7, 8]\n  rules: {num_fools: 2}\n"
    config = parse(tmp_path, text, "--evaluation.opponents", "[highest+random]")
    save_config(config, tmp_path / "saved.yaml")
    assert load_config(tmp_path / "saved.yaml") == config
    assert TrainConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configs_of_the_project_are_valid_and_named_after_their_files(path):
    config = parse_config(["--config", str(path)])
    assert config.name == path.stem
    if path.stem[0].isdigit():
        assert config.table.make_rules() == [Rules.official(int(path.stem[0]))]


def test_configs_of_the_project_are_found_wherever_one_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_config(["--config", "configs/6p.yaml"]).name == "6p"
    assert parse_config(["--config=8p.yaml"]).name == "8p"
    (tmp_path / "8p.yaml").write_text("name: mine\n")
    assert parse_config(["--config=8p.yaml"]).name == "mine"
