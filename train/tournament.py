"""Who is strongest? Agents meet at mixed tables, on deals that everybody plays from every seat.

    python train/tournament.py --agents random lowest highest cautious --players 6 --deals 1000 --games 100
    python train/tournament.py --agents highest cautious runs/6p/final.zip --players 6 --workers 2 --out runs/mine

Agents are named as `make_agent` takes them, and ordered by relative points; full games won stand beside. The folder
gets results.json, standings.md and head-to-head.png, and in batches.jsonl all that is played, so that the same command
goes on where it was interrupted. All intervals are 95% confidence intervals over deals (of wins: over games);
`fool_env.agents.mixed` says how.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from fool_env.agents.agent import make_agent
from fool_env.train.command import Bars, Parser, common_rules, output_console, refuse, run_script
from fool_env.train.contest import Plan, Tournament, make_plan, play_tournament
from fool_env.train.standings import (
    EXPLANATION,
    SEAT_EXPLANATION,
    draw_head_to_head,
    markdown,
    rich_table,
    seat_words,
    standings_words,
)

_PROGRAM = "fool-tournament"

# --- the command line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    return run_script(_PROGRAM, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> int:
    plan = _plan(options)
    folder = options.out or Path("runs") / f"tournament-{plan.rules.num_players}p"
    folder.mkdir(parents=True, exist_ok=True)
    with Bars() as bars:
        tournament = play_tournament(plan, folder=folder, workers=options.workers, progress=bars.show)
    code = 0
    try:
        save(tournament, folder)
    except OSError as error:
        code = refuse(_PROGRAM, error)
    _print(tournament)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_PROGRAM,
        description="Order agents by what they score at mixed tables, where everybody plays every deal in every seat.",
        epilog="Agents: random, lowest, highest, cautious, pimc:worlds=8, pretrained:6p, or a checkpoint's path, such "
        "as runs/6p/final.zip.",
        allow_abbrev=False,
    )
    parser.add_argument("--agents", nargs="+", required=True, metavar="AGENT", help="two or more, in any order")
    parser.add_argument("--players", type=int, metavar="N", help="4 to 8, official rules (default: the checkpoints')")
    parser.add_argument("--deals", type=int, default=300, help="deals, each played once a seat (default: 300)")
    parser.add_argument("--games", type=int, default=0, help="full games, each played once a seat (default: 0)")
    parser.add_argument(
        "--pair-deals",
        type=int,
        default=50,
        help="deals for one agent at a table of another, for each two; 0 for no head-to-head matrix (default: 50)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the deals and of all choices by lot (default: 0)")
    parser.add_argument("--workers", type=int, default=1, help="processes; results do not depend on it (default: 1)")
    parser.add_argument(
        "--allow-omniscient",
        action="store_true",
        help="let agents play that see all hands, without a rank (default: refuse them)",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the results (default: runs/tournament-Np)")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    """The tournament that the options set.

    Raises:
        ValueError, OSError: an option is wrong, or an agent cannot be had.
    """
    if options.workers < 1:
        raise ValueError(f"--workers {options.workers}: at least 1 is needed")
    return make_plan(
        options.agents,
        common_rules([make_agent(agent) for agent in options.agents], options.players),
        deals=options.deals,
        games=options.games,
        pair_deals=options.pair_deals,
        seed=options.seed,
        allow_omniscient=options.allow_omniscient,
    )


# --- the results


def save(tournament: Tournament, folder: Path) -> None:
    """Write results.json, standings.md and, if there are pairs, head-to-head.png."""
    (folder / "results.json").write_text(json.dumps(tournament.to_dict(), indent=2) + "\n")
    (folder / "standings.md").write_text(f"{page(tournament, '#')}\n{explanation()}")
    if tournament.pairs is not None:
        names = [standing.agent for standing in tournament.standings]
        title = f"{tournament.plan.rules.num_players} players, {tournament.plan.pair_deals:,} deals in every seat"
        draw_head_to_head(folder / "head-to-head.png", names, tournament.pairs, title)


def page(tournament: Tournament, heading: str) -> str:
    """The results as Markdown under a heading, "#" or "##"."""
    parts = [
        f"{heading} {tournament.plan.rules.num_players} players",
        tournament.plan.in_words(),
        markdown(standings_words(tournament.standings, tournament.bounds)),
        SEAT_EXPLANATION,
        markdown(seat_words(tournament.seats)),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def explanation() -> str:
    """What the columns mean, as a list in Markdown."""
    return "".join(f"- {line}\n" for line in EXPLANATION)


def _print(tournament: Tournament) -> None:
    console = output_console()
    console.print(tournament.plan.in_words(), highlight=False)
    console.print(rich_table(standings_words(tournament.standings, tournament.bounds)))
    for line in EXPLANATION:
        console.print(line, highlight=False)
    console.print()
    console.print(SEAT_EXPLANATION, highlight=False)
    console.print(rich_table(seat_words(tournament.seats)))


if __name__ == "__main__":
    sys.exit(main())
