"""Do agents play each other as well as themselves? Those of one recipe and several seeds, at mixed tables in pairs.

    python train/cross_play.py --agents runs/6p-seed{0,1,2,3,4}/final.zip --deals 300 --workers 2

Each agent sits alone at a table of each other, and each two share tables half and half; beside that stands what each
scores at a table of its own, on the same deals. As long as all are about as strong, what one of a pair has more the
other has less, and it cancels out in the mean over all pairs: what is left is what strangers lose, because the others
play by conventions that they do not know. Intervals are 95% confidence intervals over deals, for just these agents.

The folder gets cross-play.json, cross-play.md and cross-play.png, and in batches.jsonl all that is played, so that the
same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from fool_env import Rules
from fool_env.agents.agent import AnyAgent, make_agent
from fool_env.agents.arena import GAIN, RELATIVE, Terms, joined, open_results, round_means
from fool_env.agents.batches import BATCH_DEALS, BatchFile, run_batches
from fool_env.agents.intervals import mean_interval
from fool_env.agents.match import Match, MatchJob
from fool_env.agents.mixed import Estimate, MixedTables
from fool_env.agents.tables import check_omniscient
from fool_env.agents.workers import Job, Workers
from fool_env.train.checkpoint import write_whole
from fool_env.train.command import Bars, Parser, common_rules, output_console, run_script
from fool_env.train.provenance import machine, source_commit
from fool_env.train.standings import Words, draw_heat_map, markdown, plus_minus, rich_table

_PROGRAM: Final = "cross-play"
_CHECKPOINT: Final = "/final.zip"

MEASURES: Final = {
    "relative": "one at a table of the other: points minus the mean of the others'",
    "gain": "one at a table of the other: points minus the other's own there",
    "shared": "a seat's points at tables half and half minus those at tables of each alone",
}
"""What is measured of each pair, in points a round. 0 in the mean of all pairs: they play as well with each other."""

HALVES: Final = {
    "ahead": "a seat's points of the one minus those of the other",
    "best": "rounds in which the one has the best points, shared ones in parts",
}
"""What is measured of who is the stronger of a pair at tables half and half: chance is 0, and 1/2."""


@dataclass(frozen=True)
class CrossPlay:
    """What came of it.

    Attributes:
        agents: by name.
        rules: of every table.
        terms: deals and seed.
        own: a seat's points at a table of each agent alone.
        pairs: by measure, the estimate of each ordered pair; "shared" is the same both ways.
        means: by measure, the estimate of the mean over all pairs.
        halves: by measure, the estimate of each pair at tables half and half, the one named first being "the one".
    """

    agents: tuple[str, ...]
    rules: Rules
    terms: Terms
    own: dict[str, Estimate]
    pairs: dict[str, dict[tuple[str, str], Estimate]]
    means: dict[str, Estimate]
    halves: dict[str, dict[tuple[str, str], Estimate]]

    def to_dict(self) -> dict[str, Any]:
        """Its JSON."""
        return {
            "players": self.rules.num_players,
            "rules": self.rules.to_dict(),
            "deals": self.terms.deals,
            "seed": self.terms.seed,
            "commit": source_commit(),
            "machine": machine(),
            "own": [{"agent": name, **_as_json(estimate)} for name, estimate in self.own.items()],
            **{
                measure: {
                    "mean": _as_json(self.means[measure]),
                    "pairs": [{"one": one, "other": other, **_as_json(each)} for (one, other), each in pairs.items()],
                }
                for measure, pairs in self.pairs.items()
            },
            "halves": [
                {"one": one, "other": other, **_as_json(ahead, "ahead"), **_as_json(best, "best")}
                for ((one, other), ahead), best in zip(
                    self.halves["ahead"].items(), self.halves["best"].values(), strict=True
                )
            ],
        }


def play_pairs(
    agents: Sequence[AnyAgent],
    rules: Rules,
    terms: Terms,
    *,
    workers: Workers | None = None,
    store: BatchFile | None = None,
    progress: Callable[[float, int], None] | None = None,
) -> CrossPlay:
    """Play all pairs of agents of different names, on the same deals.

    Args:
        terms: their deals, seed and purpose.
        store: see `open_results`.
        progress: called with the deals done of all pairs, and their total.

    Raises:
        IllegalActionError, OSError, ValueError: as `evaluate`; or fewer than two agents, or two of one name.
    """
    names = [agent.name for agent in agents]
    if len(agents) < 2 or len(set(names)) < len(names):
        raise ValueError(f"agents: {', '.join(names)}; two or more of different names are needed")
    check_omniscient(agents, allow_omniscient=False)
    halves = list(itertools.combinations(range(len(agents)), 2))
    total, done_before = 3 * len(halves) * terms.deals, 0

    def played(job: Job, name: str) -> dict[str, np.ndarray]:
        nonlocal done_before

        def show(done: float) -> None:
            if progress is not None:
                progress(done_before + done, total)

        batches = run_batches(job, terms.deals, BATCH_DEALS, workers=workers, store=store, name=name, progress=show)
        done_before += terms.deals
        return joined(batches)

    series: dict[str, dict[tuple[str, str], np.ndarray]] = {measure: {} for measure in MEASURES}
    own: dict[str, np.ndarray] = {}
    halved: dict[str, dict[tuple[str, str], np.ndarray]] = {measure: {} for measure in HALVES}
    for one, other in itertools.permutations(range(len(agents)), 2):
        job = MatchJob(Match(agents[one], [agents[other]], rules, terms.seed, terms.purpose), "round")
        counts = played(job, job.name)
        means = round_means(counts, rules.num_players)
        series["relative"][names[one], names[other]] = means[:, RELATIVE]
        series["gain"][names[one], names[other]] = means[:, GAIN]
        own[names[other]] = counts["control"] / rules.num_players
    for pair in halves:
        one_name, other_name = (names[k] for k in pair)
        tables = MixedTables([agents[k] for k in pair], rules, "round", terms.seed, purpose=terms.purpose)
        results = played(tables, f"{one_name} and {other_name}: half and half")["results"]
        shared = results.mean(axis=(1, 2)) - (own[one_name] + own[other_name]) / 2
        series["shared"][one_name, other_name] = series["shared"][other_name, one_name] = shared
        ahead, best = _split(results, tables.seating(0, terms.deals) == 0)
        halved["ahead"][one_name, other_name], halved["best"][one_name, other_name] = ahead, best
    return CrossPlay(
        tuple(names),
        rules,
        terms,
        {name: mean_interval(own[name]) for name in names},
        {measure: {pair: mean_interval(each) for pair, each in pairs.items()} for measure, pairs in series.items()},
        # The deals are the same for all pairs, so that a deal's mean over these is one of the units.
        {measure: mean_interval(np.mean(list(pairs.values()), axis=0)) for measure, pairs in series.items()},
        {measure: {pair: mean_interval(each) for pair, each in pairs.items()} for measure, pairs in halved.items()},
    )


def _split(results: np.ndarray, ones: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each deal at tables half and half: how far the one's seats are ahead, and how often one has the best points.

    Args:
        results: int64 (deals, arms, seats), the points.
        ones: bool of the same shape, where the one sits.
    """
    ahead = results.mean(axis=(1, 2), where=ones) - results.mean(axis=(1, 2), where=~ones)
    best = results == results.max(axis=2, keepdims=True)
    return ahead, ((best & ones).sum(axis=2) / best.sum(axis=2)).mean(axis=1)


# --- the command line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code: 0, 2 for bad input, 130 if interrupted."""
    return run_script(_PROGRAM, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> int:
    if options.workers < 1:
        raise ValueError(f"--workers {options.workers}: at least 1 is needed")
    agents = [make_agent(name) for name in options.agents]
    rules = common_rules(agents, options.players)
    terms = Terms(deals=options.deals, seed=options.seed)
    folder = options.out or Path("runs") / f"cross-play-{rules.num_players}p"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        bars = stack.enter_context(Bars())
        workers = stack.enter_context(Workers(options.workers))
        store = stack.enter_context(open_results(folder / "batches.jsonl", agents, rules, Terms(seed=terms.seed)))

        def show(done: float, total: int) -> None:
            bars.show("pairs", done, total)

        result = play_pairs(agents, rules, terms, workers=workers, store=store, progress=show)
    save(result, folder)
    console = output_console()
    console.print(_heading(result), highlight=False)
    console.print(rich_table(words(result)))
    console.print(f"Of each pair: {folder / 'cross-play.png'}", highlight=False)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_PROGRAM,
        description="Do agents play each other as well as themselves? Each two of them at mixed tables.",
        allow_abbrev=False,
    )
    parser.add_argument("--agents", nargs="+", required=True, metavar="AGENT", help="two or more, as make_agent's")
    parser.add_argument("--players", type=int, metavar="N", help="4 to 8, official rules (default: the checkpoints')")
    parser.add_argument("--deals", type=int, default=300, help="deals, each played in every seat (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the deals and of all choices by lot (default: 0)")
    parser.add_argument("--workers", type=int, default=1, help="processes; results do not depend on it (default: 1)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the results (default: runs/cross-play-Np)")
    return parser


# --- the results


def save(result: CrossPlay, folder: Path) -> None:
    """Write cross-play.json, cross-play.md and cross-play.png."""
    write_whole(folder / "cross-play.json", (json.dumps(result.to_dict(), indent=2) + "\n").encode())
    write_whole(folder / "cross-play.md", f"{_heading(result)}\n\n{markdown(words(result))}".encode())
    draw(result, folder / "cross-play.png")


def words(result: CrossPlay) -> Words:
    """The means over all pairs as a table, and the smallest and the largest of the pairs."""
    rows = []
    for measure, meaning in MEASURES.items():
        pairs = [mean for mean, _ in result.pairs[measure].values()]
        rows.append([meaning, plus_minus(result.means[measure], "+.2f"), f"{min(pairs):+.2f} to {max(pairs):+.2f}"])
    for name, estimate in result.own.items():
        rows.append([f"a seat's points at a table of {_short(name)} alone", plus_minus(estimate, "+.2f"), ""])
    if len(result.agents) == 2:  # of more, no line says it; the JSON has all
        [(pair, ahead)], [best] = result.halves["ahead"].items(), result.halves["best"].values()
        one, other = map(_short, pair)
        rows.append([f"half and half: a seat of {one} minus one of {other}", plus_minus(ahead, "+.2f"), ""])
        rows.append([f"half and half: rounds in which {one} has the best points", plus_minus(best, ".1%"), ""])
    return ["points a round", "mean over all pairs", "of the pairs"], rows


def draw(result: CrossPlay, path: Path) -> None:
    """Draw a matrix of the pairs for each measure."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    names = [_short(name) for name in result.agents]
    size = 3.5 + 0.75 * len(names)
    figure = Figure(figsize=(len(MEASURES) * size, size), layout="constrained")
    for axes, (measure, meaning) in zip(figure.subplots(1, len(MEASURES)), MEASURES.items(), strict=True):
        pairs = {(_short(one), _short(other)): each for (one, other), each in result.pairs[measure].items()}
        draw_heat_map(axes, names, pairs, "points a round")
        axes.set(xlabel="the other", ylabel="one")
        axes.set_title(
            f"{measure}: {meaning}\nmean of all pairs {plus_minus(result.means[measure], '+.2f')}", wrap=True
        )
    figure.suptitle(_heading(result))
    figure.savefig(path, dpi=150, format="png")


def _heading(result: CrossPlay) -> str:
    return (
        f"{len(result.agents)} agents in pairs at tables of {result.rules.num_players}: {result.terms.deals:,} deals, "
        f"each played in every seat; seed {result.terms.seed}; ± is half of a 95% confidence interval over deals"
    )


def _short(name: str) -> str:
    return name.removesuffix(_CHECKPOINT)


def _as_json(estimate: Estimate, of: str = "points") -> dict[str, Any]:
    mean, interval = estimate
    return {of: mean, f"{of}_ci": None if interval is None else list(interval)}


if __name__ == "__main__":
    sys.exit(main())
