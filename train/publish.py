"""Make a shipped agent of a run: a small file of what plays, and a model card that says how it came about.

    python train/publish.py --checkpoint runs/6p/final.zip --name 6p --workers 2
    python train/publish.py --checkpoint runs/6p/final.zip --name 6p --results runs/6p/against-bots.json

Writes `agents/pretrained/6p.zip` and `6p.md`: `make_agent("pretrained:6p")` is there from then on. Everything in the
card is read from the checkpoint, or measured here on the deals of reports, each agent alone at a table of the other, or
taken from the JSON of `train/evaluate.py`, if that was on this very agent. What is measured is kept in `runs/publish`,
so the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import torch as th

from fool_env import Rules
from fool_env.agents.arena import Terms, both_ways, evaluate_matchup, make_opponents, open_results
from fool_env.agents.batches import checkpoint_digests
from fool_env.agents.network import policy_tensors
from fool_env.agents.neural import DESCRIPTION_FILE, WEIGHTS_FILE, NeuralAgent, load_agent, read_description
from fool_env.agents.shipped import SHIPPED_PREFIX, shipped_path
from fool_env.agents.workers import Workers
from fool_env.train.checkpoint import training_seconds, write_whole
from fool_env.train.command import Bars, Parser, run_script
from fool_env.train.model_card import model_card, public_description
from fool_env.train.provenance import players_digest, source_commit

MOST_BYTES: Final = 2_000_000
"""Of a shipped agent's file."""

OPPONENTS: Final = ["highest", "cautious", "pimc:worlds=32", "pimc:worlds=128"]
_PROGRAM: Final = "publish"
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can hold: equal agents are equal files


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    interrupted = "interrupted, nothing published; the same command goes on from here"
    return run_script(_PROGRAM, lambda: _run(_parser().parse_args(argv)), interrupted)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_PROGRAM, description="Make a shipped agent, and its model card, of a checkpoint.", allow_abbrev=False
    )
    parser.add_argument("--checkpoint", required=True, type=Path, metavar="FILE", help="a run's, with all that it says")
    parser.add_argument("--name", required=True, help="6p makes pretrained:6p")
    parser.add_argument(
        "--results",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="the JSON of train/evaluate.py for this checkpoint (default: measure it)",
    )
    parser.add_argument(
        "--opponents", nargs="+", default=OPPONENTS, metavar="AGENT", help=f"(default: {' '.join(OPPONENTS)})"
    )
    parser.add_argument("--deals", type=int, default=2000, help="deals, each played once a seat (default: 2000)")
    parser.add_argument("--games", type=int, default=200, help="full games, each played once a seat (default: 200)")
    parser.add_argument("--workers", type=int, default=1, help="processes; results do not depend on it (default: 1)")
    return parser


def _run(options: argparse.Namespace) -> int:
    target = shipped_path(options.name)
    agent = load_agent(options.checkpoint)
    content = slim(options.checkpoint)
    digests = {
        "checkpoint of the run": hashlib.sha256(options.checkpoint.read_bytes()).hexdigest(),
        target.name: hashlib.sha256(content).hexdigest(),
    }
    seconds = training_seconds(options.checkpoint)
    sampling = not agent.deterministic
    reports = [_read_report(path, digests.values(), sampling) for path in options.results] or [
        _measure(agent, rules, options) for rules in agent.rules
    ]
    says = read_description(options.checkpoint)
    card = model_card(SHIPPED_PREFIX + options.name, says, agent.rules, seconds, digests, sampling, reports)
    write_whole(target, content)
    write_whole(target.with_suffix(".md"), card.encode())
    print(f"wrote {target}, {len(content):,} bytes, and {target.with_suffix('.md').name}")
    return 0


# --- the file


def slim(checkpoint: Path) -> bytes:
    """The zip of what a checkpoint needs to play, and no more; equal agents give equal bytes.

    Args:
        checkpoint: one that `load_agent` reads.

    Raises:
        ValueError: it would be too large to be shipped.
    """
    description = json.dumps(public_description(read_description(checkpoint)), indent=2)
    with zipfile.ZipFile(checkpoint) as archive:
        state = th.load(io.BytesIO(archive.read(WEIGHTS_FILE)), map_location="cpu", weights_only=True)
    # Cloned, because a view would bring all that it is a view of.
    tensors = {name: tensor.clone() for name, tensor in sorted(policy_tensors(state).items())}
    weights, buffer = io.BytesIO(), io.BytesIO()
    th.save(tensors, weights)
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in ((DESCRIPTION_FILE, description.encode()), (WEIGHTS_FILE, weights.getvalue())):
            archive.writestr(zipfile.ZipInfo(name, _NO_TIME), content, zipfile.ZIP_DEFLATED, compresslevel=9)
    if buffer.tell() > MOST_BYTES:
        raise ValueError(f"{checkpoint}: what plays takes {buffer.tell():,} bytes, of {MOST_BYTES:,} at most")
    return buffer.getvalue()


# --- the results


def _read_report(path: Path, digests: Collection[str], sampling: bool) -> dict[str, Any]:
    """The report of `train/evaluate.py` in a file, if it is on an agent with one of these SHA-256.

    Raises:
        OSError, ValueError: it is not.
    """
    try:
        report = json.loads(path.read_text())
        agent, digest = report["agent"], report["files"][report["agent"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no report of train/evaluate.py on a trained agent ({error!r})") from None
    if digest not in digests:
        raise ValueError(f"{path} is a report on another checkpoint, {agent}, whose SHA-256 was {digest}")
    if sampling and not report["sampling"]:
        raise ValueError(f"{path} is a report on {agent} with --deterministic, and it is shipped to sample")
    return report


def _measure(agent: NeuralAgent, rules: Rules, options: argparse.Namespace) -> dict[str, Any]:
    """Such a report, played now or earlier by the same sources."""
    terms = Terms(options.deals, options.games)
    matchups = both_ways((agent, make_opponents(spec)) for spec in options.opponents)
    digest = next(iter(checkpoint_digests(agent.name).values()))
    folder = Path("runs") / "publish" / players_digest()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{options.name}-{rules.num_players}p-{digest[:12]}.jsonl"
    results = []
    agents = [one for candidate, opponents in matchups for one in (candidate, *opponents)]
    with open_results(path, agents, rules, terms) as store, Workers(options.workers) as workers, Bars() as bars:
        for candidate, opponents in matchups:
            what = f"{candidate.name} against {'+'.join(opponent.name for opponent in opponents)}"

            def show(done: float, total: int, what: str = what) -> None:
                bars.show(what, done, total)

            results.append(
                evaluate_matchup(
                    (candidate, opponents), rules, terms, workers=workers, store=store, progress=show
                ).to_dict()
            )
    return {
        "agent": agent.name,
        "players": rules.num_players,
        "deals": terms.deals,
        "games": terms.games,
        "seed": terms.seed,
        "commit": source_commit(),
        "results": results,
    }


if __name__ == "__main__":
    sys.exit(main())
