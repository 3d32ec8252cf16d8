"""Why does an agent play as it does? A position, and what the agent thinks of each legal card.

python -m fool_env.agents explain --agent cautious --transcript game.jsonl --move 12
python -m fool_env.agents explain --agent runs/6p/final.zip --players 6 --seed 1 --move 12
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from fool_env import Game, Rules
from fool_env.rng import checked_seed
from fool_env.transcript import read_transcripts

from .agent import AnyAgent, make_agent
from .explain import explain
from .scripted import HighestAgent

_BAD_INPUT = 2
_INTERRUPTED = 130
_PROGRAM = "python -m fool_env.agents"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    try:
        options = _parser().parse_args(argv)
        agent = make_agent(options.agent)
        game, origin = _from_transcript(options) if options.transcript is not None else _from_seed(options, agent)
        if game.player is None:
            raise ValueError(f"{origin}: the {'game' if game.game_over else 'round'} is over, no seat is to act")
        explanation = explain(agent, game.view(game.player), options.decision)
    except (ValueError, OSError) as error:
        print(f"{_PROGRAM}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return _BAD_INPUT
    except KeyboardInterrupt:
        return _INTERRUPTED
    print(json.dumps(explanation.to_dict(), indent=2) if options.json else f"{origin}\n\n{explanation}")
    return 0


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would print its usage and exit, so that every mistake ends in one line and `main`."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; --help lists the options")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=_PROGRAM, description="Tools for agents.", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser(
        "explain",
        help="show what an agent thinks of each legal card",
        description="Show a position as the seat to act sees it, and for each legal card what the agent thinks of it "
        "and how likely it makes the seat a Fool of this trick; > marks the card that the agent plays.",
        epilog="The position is one of a transcript, or of a game that is dealt from a seed and played by highest.",
        allow_abbrev=False,
    )
    command.add_argument(
        "--agent", required=True, metavar="AGENT", help="any agent by name, or a checkpoint's path, such as final.zip"
    )
    command.add_argument("--transcript", type=Path, metavar="FILE", help="games as JSON lines")
    command.add_argument("--game", type=int, metavar="K", help="which game of the file, from 0 (default: 0)")
    command.add_argument("--players", type=int, metavar="N", help="without a transcript: 4 to 8, official rules")
    command.add_argument("--seed", type=int, metavar="S", help="without a transcript: of the deals (default: 0)")
    command.add_argument(
        "--move",
        type=int,
        metavar="N",
        help="the position after N plays of the game (default: a transcript's last decision; 0 from a seed)",
    )
    command.add_argument("--decision", type=int, default=0, metavar="S", help="the seed of the choice (default: 0)")
    command.add_argument("--json", action="store_true", help="print the cards as JSON (default: a table)")
    return parser


def _from_transcript(options: argparse.Namespace) -> tuple[Game, str]:
    """The position that the options name, and a line that says which it is."""
    if options.players is not None or options.seed is not None:
        raise ValueError("--players, --seed: a transcript has its own")
    transcripts = read_transcripts(options.transcript)
    number = 0 if options.game is None else options.game
    if not 0 <= number < len(transcripts):
        raise ValueError(f"--game {number}: {options.transcript} has {len(transcripts)} games, numbered from 0")
    transcript = transcripts[number]
    plays = [play for one in transcript.rounds for play in one.plays]
    move = options.move
    if move is None:
        pending = transcript.rounds[-1].points is None
        move = len(plays) if pending else len(plays) - 1
    game = transcript.game_at(move)
    origin = f"{options.transcript}, game {number}, move {move}"
    if move == len(plays):
        return game, origin
    seat, card = plays[move]
    player = f"seat {seat}" if transcript.agents is None else f"seat {seat} ({transcript.agents[seat]})"
    return game, f"{origin}: {player} played {card}"


def _from_seed(options: argparse.Namespace, agent: AnyAgent) -> tuple[Game, str]:
    """The position after `highest` has played in every seat, and a line that says so."""
    if options.game is not None:
        raise ValueError("--game: only a transcript has several")
    rules: Sequence[Rules] = getattr(agent, "rules", ())  # those that a trained agent learnt
    if options.players is not None:
        rules = [Rules.official(options.players)]
    if len(rules) != 1:
        raise ValueError("--transcript, or --players and --seed are needed: they say which position")
    seed, move = 0 if options.seed is None else options.seed, 0 if options.move is None else options.move
    if move < 0:
        raise ValueError(f"--move {move}: cannot be negative")
    game, highest = Game(rules[0], int(checked_seed(seed))), HighestAgent()
    for played in range(move):
        if game.player is None:
            raise ValueError(f"--move {move}: the game of seed {seed} is over after {played} plays")
        view = np.array([game.view(game.player)])
        game.play(highest.act(view, np.zeros(1, np.uint64))[0])
        if game.round_over and not game.game_over:
            game.next_round()
    return game, f"seed {seed}, after {move} plays of highest in every seat"


if __name__ == "__main__":
    sys.exit(main())
