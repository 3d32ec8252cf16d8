"""Explanations: estimates that say what the agent does, risks that are right, positions that are the ones asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from deals import DEAL, PLAYS, play, table
from transcripts import played
from variants import PRESETS

from fool_env import Game, Rules
from fool_env.agents.__main__ import main
from fool_env.agents.agent import make_agent
from fool_env.agents.explain import Explanation, explain
from fool_env.agents.network import PolicyNetwork
from fool_env.agents.neural import CheckpointError, NeuralAgent
from fool_env.cards import CARD_NAMES, parse_card
from fool_env.determinization import sample_worlds
from fool_env.observation import encode
from fool_env.render import table_text
from fool_env.rng import derive
from fool_env.state import GAME
from fool_env.transcript import Transcript, read_transcripts, write_transcripts

SEED = np.uint64(0)


def positions(rules: Rules, moves: int, seed: int = 0) -> list[Game]:
    """The game at each of its first plays."""
    return [game for game in played(Game(rules, seed), moves, seed)[1] if not game.game_over][:moves]


def view_of(game: Game) -> np.ndarray:
    """GAME (1,): what the seat to act sees."""
    assert game.player is not None
    return np.array([game.view(game.player)], GAME)


def explained(game: Game, agent: str = "highest", **options: int) -> Explanation:
    return explain(make_agent(agent), view_of(game)[0], seed=0, **options)


def fool(game: Game, **options: int) -> dict[str, float]:
    """The risk of each legal card."""
    explanation = explained(game, **options)
    return dict(zip([CARD_NAMES[action] for action in explanation.actions], explanation.fool.tolist(), strict=True))


# --- estimates


@pytest.mark.parametrize("preset", PRESETS)
def test_cautious_plays_what_it_values_most(preset: str) -> None:
    agent = make_agent("cautious")
    for game in positions(PRESETS[preset], 300):
        legal = game.legal_actions()
        [(heading, values)] = agent.estimates(view_of(game), SEED).items()
        assert heading == "value" and values.dtype == np.float64 and values.shape == (len(legal),)
        assert np.isfinite(values).all()
        assert agent.act(view_of(game), np.array([SEED]))[0] == legal[values.argmax()]


def test_cautious_values_what_a_card_costs_if_the_round_ends_with_the_trick() -> None:
    game = play(table("G2 R4 R5", "G3 R2 R3", "G4 G5 R6"), "G2 G3 G4 G5 R2 R6")  # seat 2 has played its last card
    assert make_agent("cautious").estimates(view_of(game), SEED)["value"].tolist() == [4.0, 5.0]


def a_network(rules: Rules, **options: Any) -> NeuralAgent:
    """Untrained, with likings that are strong enough to be seen."""
    th.manual_seed(0)
    network = PolicyNetwork("mlp", [32]).requires_grad_(False)
    network.action_net.weight *= 10
    return NeuralAgent(network, [rules], **options)


@pytest.mark.parametrize("num_players", [4, 8])
def test_a_network_plays_as_often_as_it_says(num_players: int) -> None:
    agent = a_network(Rules.official(num_players))
    draws = 2000
    for game in played(Game(agent.rules[0], 0, "round"), 30)[1][::7]:
        legal = game.legal_actions()
        with th.no_grad():
            logits = agent.network(th.from_numpy(encode(view_of(game))))[0, legal]
        [(heading, chances)] = agent.estimates(view_of(game), SEED).items()
        assert heading == "probability" and chances.dtype == np.float64 and chances.shape == (len(legal),)
        assert chances == pytest.approx(th.softmax(logits.double(), dim=0).numpy(), abs=1e-4)
        actions = agent.act(view_of(game).repeat(draws), np.arange(draws, dtype=np.uint64))
        shares = np.array([(actions == action).mean() for action in legal])
        assert np.abs(shares - chances).max() < 5 * np.sqrt(0.25 / draws)
        likeliest = a_network(agent.rules[0], deterministic=True)
        assert likeliest.act(view_of(game), np.array([SEED]))[0] == legal[chances.argmax()]


def test_a_network_explains_no_other_rules() -> None:
    with pytest.raises(CheckpointError, match="trained for other rules"):
        explain(a_network(Rules.official(4)), view_of(Game(Rules.official(5), 0))[0], seed=0)


def test_estimates_are_of_the_seat_to_act() -> None:
    game = Game(Rules.official(4), 0)
    other = np.array([game.view((game.player + 1) % 4)], GAME)
    with pytest.raises(ValueError, match="not the view of a seat that is to act"):
        make_agent("cautious").estimates(other, SEED)


# --- the risk to become the Fool


def test_a_lone_card_that_is_the_worst_or_is_not() -> None:
    assert fool(table("G2", "G3", "G4")) == {"G2": 1.0}
    assert fool(table("G3", "G2", "G4")) == {"G3": 0.0}


def test_two_fools() -> None:
    for card, risk in (("G2", 1.0), ("G3", 1.0), ("G4", 0.0)):
        others = sorted({"G2", "G3", "G4", "G5", "G6"} - {card})
        assert fool(table(card, *others, num_fools=2)) == {card: risk}


def test_a_risk_that_can_be_counted() -> None:
    """G2 is the worst card if both others follow: if each holds one of the two green cards, 4 of the 6 deals."""
    risks = fool(table("G2 G5", "G3 R2", "G4 R3"), worlds=20_000)
    assert risks["G5"] == 0.0
    assert abs(risks["G2"] - 2 / 3) < 5 * np.sqrt(2 / 9 / 20_000)


def test_a_shown_void_counts() -> None:
    """Seat 1 has shown to hold no green card, so G4 is in the hand of seat 2, which has to follow with it."""
    game = play(table("G2 G5 R6", "R2 R3 R4", "G3 G4 R5"), "G5 R2 G3")
    assert fool(game) == {"G2": 1.0, "R6": 0.0}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_last_to_play_knows_its_risk(preset: str) -> None:
    checked = 0
    for game in positions(PRESETS[preset], 250):
        if len(game.trick) + 1 < game.rules.num_players - len(game.fools):
            continue
        seat = game.player
        for card, risk in fool(game, worlds=7).items():
            after = game.clone()
            after.play(card)
            assert risk == float(seat in after.fools)
            checked += 1
    assert checked > 20


def test_the_risk_is_a_count_over_worlds_in_which_the_others_play_like_cautious() -> None:
    cautious = make_agent("cautious")
    for game in positions(Rules.official(7), 60)[::6]:
        view, seat = view_of(game), game.player
        worlds = sample_worlds(view, np.uint64(derive(np.uint64(0), 0)), 40)
        for card, risk in fool(game, worlds=40).items():
            times = 0
            for world in worlds:
                after = game.clone()
                after._set(np.array([world], GAME))
                after.play(card)
                while len(after.trick) > 0 and not after.round_over:
                    after.play(int(cautious.act(view_of(after), np.array([SEED]))[0]))
                times += seat in after.fools
            assert risk == times / 40


# --- the whole explanation


@pytest.mark.parametrize("agent", ["random", "lowest", "highest", "cautious"])
def test_the_chosen_card_is_the_one_that_the_agent_plays(agent: str) -> None:
    game = positions(Rules.official(6), 20)[-1]
    for seed in range(10):
        explanation = explain(make_agent(agent), view_of(game)[0], seed, worlds=1)
        assert explanation.chosen == make_agent(agent).act(view_of(game), np.array([seed], np.uint64))[0]
        assert explanation.actions.tolist() == game.legal_actions()
        [chosen] = [card["card"] for card in explanation.to_dict()["cards"] if card["chosen"]]
        assert chosen == CARD_NAMES[explanation.chosen]
        [marked] = [line for line in str(explanation).split("decision seed")[1].splitlines() if line.startswith(">")]
        assert marked.split()[1] == chosen


@pytest.mark.parametrize("agent", ["pimc:worlds=8", "ismcts:iterations=200", "pimc:worlds=4,objective=win"])
def test_search_agents_play_the_card_at_the_top(agent: str) -> None:
    for game in positions(Rules.official(5), 50)[::5]:
        explanation = explained(game, agent, worlds=1)
        for values in explanation.estimates.values():
            assert values.dtype == np.float64 and values.shape == explanation.actions.shape
        assert explanation.chosen == explanation.actions[explanation.ranking[0]]
        assert all(heading in str(explanation) for heading in explanation.estimates)


@pytest.mark.parametrize("agent", ["random", "highest", "cautious"])
def test_hidden_cards_do_not_matter(agent: str) -> None:
    rng = np.random.default_rng(0)
    for game in positions(Rules.official(6), 72)[::9]:
        other = game.resample(game.player, rng)
        assert other.hands != game.hands
        assert explained(game, agent, worlds=100).to_dict() == explained(other, agent, worlds=100).to_dict()


class Told:
    """Plays G3, and has columns of all kinds for three cards."""

    name = "told"

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return np.full(len(views), parse_card("G3"))

    def estimates(self, view: np.ndarray, seed: np.uint64) -> dict[str, np.ndarray]:
        return {
            "visits": np.array([2000.0, 7.0, 2000.0]),
            "points": np.array([1.236, np.nan, 0.0]),
            "± 95%": np.array([0.1, 0.25, 3.0]),
            "win": np.array([0.1236, -0.5, 0.0]),
            "probability": np.array([0.5, 0.25, 0.25]),
        }


def test_as_text_and_as_json() -> None:
    """Sorted by the first column; of equals, the lower action first."""
    game = play(table("G4 R2 R3", "G5 R4 1", "G2 G3 G6"), "G4 G5")
    explanation = explain(Told(), game.view(2), seed=3)
    assert (
        str(explanation)
        == table_text(game.view(2))
        + """

told plays G3 (decision seed 3)
   card  visits  points  ± 95%     win  probability    Fool
     G2   2,000   +1.24   0.10  +0.124        50.0%  100.0%
     G6   2,000   +0.00   3.00  +0.000        25.0%    0.0%
>    G3       7       -   0.25  -0.500        25.0%  100.0%
Fool: of this trick, in so many of 2,000 deals, if the others play like cautious"""
    )
    told = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    cards = told.pop("cards")
    assert told == {"agent": "told", "seat": 2, "seed": 3, "worlds": 2000}
    assert [card["card"] for card in cards] == ["G2", "G6", "G3"]
    assert cards[2] == {
        "card": "G3",
        "chosen": True,
        "estimates": {"visits": 7.0, "points": None, "± 95%": 0.25, "win": -0.5, "probability": 0.25},
        "fool": 1.0,
    }


def test_what_cannot_be_explained() -> None:
    game = table(*DEAL)
    with pytest.raises(ValueError, match=r"cheat.* sees all hands"):
        explain(make_agent("cheat"), view_of(game)[0], seed=0)
    for record in (game.record, game.view(1)):
        with pytest.raises(ValueError, match="view: not that of a seat that is to act"):
            explain(make_agent("highest"), record, seed=0)
    with pytest.raises(ValueError, match="worlds: 0"):
        explain(make_agent("highest"), game.view(0), seed=0, worlds=0)
    with pytest.raises(ValueError, match="seed: -1"):
        explain(make_agent("highest"), game.view(0), seed=-1)


# --- the command


@pytest.fixture
def games_file(tmp_path: Path) -> Path:
    """A finished game, one in its second round, and one between two rounds."""
    finished = Transcript.from_rounds(played(Game(Rules.miniature(), 1))[0], 1, ["ann", "bob", "cat"])
    under_way = Transcript.from_rounds(played(Game(Rules.official(4), 2), 60)[0], 2)
    between = play(table(*DEAL), PLAYS)
    write_transcripts(
        tmp_path / "games.jsonl", [finished, under_way, Transcript.from_rounds(np.array([between.record], GAME))]
    )
    return tmp_path / "games.jsonl"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["explain", *map(str, arguments)])
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("number", "move", "at"),
    [
        (None, None, -1),
        (0, 0, 0),
        (0, 5, 5),
        (1, None, 60),
        (1, 60, 60),
        (1, 59, 59),
        (1, 47, 47),
        (2, None, 6),
        (2, 0, 0),
    ],
)
def test_positions_of_a_transcript(
    number: int | None, move: int | None, at: int, games_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript = read_transcripts(games_file)[number or 0]
    at = at if at >= 0 else transcript.num_plays - 1
    options = [*([] if number is None else ["--game", number]), *([] if move is None else ["--move", move])]
    code, out, err = run(capsys, "--agent", "cautious", "--transcript", games_file, *options)
    assert (code, err) == (0, "")
    origin, explanation = out.split("\n\n", 1)
    assert explanation == f"{explained(transcript.game_at(at), 'cautious')}\n"
    said = f"{games_file}, game {number or 0}, move {at}"
    if at < transcript.num_plays:
        seat, card = [play for one in transcript.rounds for play in one.plays][at]
        said += f": seat {seat}{'' if number else f' ({transcript.agents[seat]})'} played {card}"
    assert origin == said


@pytest.mark.parametrize("move", [None, 0, 13, 100])
def test_positions_of_a_seed(move: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    game = Game(Rules.official(5), 7)
    for _ in range(move or 0):
        game.play(int(make_agent("highest").act(view_of(game), np.array([SEED]))[0]))
        if game.round_over:
            game.next_round()
    options = [] if move is None else ["--move", move]
    code, out, err = run(capsys, "--agent", "random", "--players", 5, "--seed", 7, "--decision", 4, *options)
    assert (code, err) == (0, "")
    explanation = explain(make_agent("random"), view_of(game)[0], seed=4)
    assert out == f"seed 7, after {move or 0} plays of highest in every seat\n\n{explanation}\n"


def test_json_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--agent", "cautious", "--players", 4, "--json")
    assert code == 0
    assert json.loads(out) == explained(Game(Rules.official(4), 0), "cautious").to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--players", 4], "--agent"),
        (["--agent", "cautius", "--players", 4], 'no agent "cautius" (do you mean "cautious"?)'),
        (["--agent", "cheat", "--players", 4], "sees all hands"),
        (["--agent", "nowhere.zip", "--players", 4], "nowhere.zip"),
        (["--agent", "highest"], "--transcript, or --players and --seed are needed"),
        (["--agent", "highest", "--players", 9], "num_players: 9 is not within 4 to 8"),
        (["--agent", "highest", "--players", 4, "--seed", -1], "seed: -1"),
        (["--agent", "highest", "--players", 4, "--decision", -1], "seed: -1"),
        (["--agent", "highest", "--players", 4, "--move", -1], "--move -1: cannot be negative"),
        (["--agent", "highest", "--players", 4, "--move", 10_000], "--move 10000: the game of seed 0 is over after"),
        (["--agent", "highest", "--players", 4, "--moves", 1], "unrecognized arguments: --moves"),
        (["--agent", "highest", "--players", 4, "--move", "x"], "--move"),
        (["--agent", "highest", "--players", 4, "--game", 0], "--game: only a transcript has several"),
        (["--agent", "highest", "--transcript", "nowhere"], "nowhere"),
        (["--agent", "highest", "--transcript", "FILE", "--players", 4], "a transcript has its own"),
        (["--agent", "highest", "--transcript", "FILE", "--game", 3], "--game 3: FILE has 3 games, numbered from 0"),
        (["--agent", "highest", "--transcript", "FILE", "--game", -1], "--game -1: "),
        (["--agent", "highest", "--transcript", "FILE", "--game", 1, "--move", 61], "move 61: this game has"),
        (["--agent", "highest", "--transcript", "FILE", "--game", 2, "--move", 7], "move 7: the round is over"),
        (["--agent", "highest", "--transcript", "FILE", "--move", "END"], "the game is over, no seat is to act"),
        (["--agent", "highest", "--transcript", "BROKEN"], "BROKEN, line 2: not JSON"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    options: list[object], message: str, games_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text(games_file.read_text(encoding="utf-8")[:400], encoding="utf-8")
    names = {"FILE": games_file, "BROKEN": broken, "END": read_transcripts(games_file)[0].num_plays}
    code, out, err = run(capsys, *(names.get(str(option), option) for option in options))
    assert (code, out) == (2, "")
    for name, value in names.items():
        message = message.replace(name, str(value))
    assert err.startswith("python -m fool_env.agents: error: ") and message in err and err.count("\n") == 1


def test_no_command_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().err


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fool_env.agents.__main__.explain", interrupt)
    assert run(capsys, "--agent", "highest", "--players", 4) == (130, "", "")


def test_from_the_shell() -> None:
    command = [sys.executable, "-m", "fool_env.agents", "explain", "--agent", "highest", "--players"]
    result = subprocess.run([*command, "4"], capture_output=True, text=True, check=False)
    assert result.returncode == 0 and "highest plays" in result.stdout and result.stderr == ""
    result = subprocess.run([*command, "2"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
