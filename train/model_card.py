"""A model card: what a shipped agent is, how it came about and how it fares. Every number comes out of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from fool_env import Rules
from fool_env.train.standings import Words, markdown, plus_minus

_PRIVATE: Final = ("name", "runs")  # of the run's folder
_PLACES: Final = "alone", "at a table of"


def public_description(says: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint says about itself, without the name of its run and without folders of its machine."""
    config = {key: _public(value) for key, value in says["config"].items() if key not in _PRIVATE}
    return {**says, "config": config}


def _public(value: Any) -> Any:
    """A value of a config, of a checkpoint's path the last two parts."""
    if isinstance(value, dict):
        return {key: _public(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_public(inner) for inner in value]
    return "/".join(Path(value).parts[-2:]) if isinstance(value, str) and value.endswith(".zip") else value


def model_card(
    name: str,
    says: Mapping[str, Any],
    rules: Sequence[Rules],
    seconds: float,
    digests: Mapping[str, str],
    sampling: bool,
    reports: Sequence[Mapping[str, Any]],
) -> str:
    """The card, Markdown.

    Args:
        name: the agent's `make_agent` string.
        says: its checkpoint's `fool.json`.
        rules: of the tables that it was trained at.
        seconds: that its run took.
        digests: SHA-256 of its files, by what they are.
        sampling: whether it samples its cards.
        reports: as `train/evaluate.py` writes them, each on this agent.
    """
    config = yaml.safe_dump(public_description(says)["config"], sort_keys=False, default_flow_style=None, width=100)
    parts = [
        f"# {name}",
        f'A network that plays FOOL at tables of {_tables(rules)}, trained by self-play: `make_agent("{name}")`.',
        "Made by `train/publish.py` from the run's own checkpoint; not to be edited.",
        "## How it came about",
        markdown((["", ""], _origin(says, seconds, digests))),
        f"```yaml\n{config}```",
        "## How it fares",
        "points: a round's; relative: minus the mean of the other seats'; gain: minus the opponent's own at that seat "
        "and deal. ± is half of a 95% confidence interval over deals (of wins: over games). Every deal and game is "
        "played in every seat.",
        *(part for report in reports for part in _results(name, report)),
        "## What it is not",
        "".join(f"- {line}\n" for line in _limits(says, rules, sampling)),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _tables(rules: Sequence[Rules]) -> str:
    return ", ".join(str(one.num_players) for one in rules) + (
        " (official rules)" if all(_is_official(one) for one in rules) else " (rules of its own)"
    )


def _is_official(rules: Rules) -> bool:
    return 4 <= rules.num_players <= 8 and rules == Rules.official(rules.num_players)


def _origin(says: Mapping[str, Any], seconds: float, digests: Mapping[str, str]) -> list[list[str]]:
    before, machine = says.get("steps_before", 0), says.get("hardware")
    hardware = (
        "not recorded"
        if machine is None
        else f"{machine['cores']} core{'s' * (machine['cores'] != 1)} of {machine['cpu']}; {machine['device']}"
    )
    return [
        ["plays", f"{says['steps']:,}"],
        *([["plays before, of the network that it started from", f"{before:,}"]] if before else []),
        ["time", f"{seconds / 3600:.2f} hours{', without those before' if before else ''}"],
        ["hardware", hardware],
        ["training seed", str(says["seed"])],
        ["network", ", ".join(f"{key}: {value}" for key, value in says["network"].items())],
        ["commit", says["commit"] or "unknown"],
        ["packages", ", ".join(f"{package} {version}" for package, version in says["packages"].items())],
        *([what, f"SHA-256 {digest}"] for what, digest in digests.items()),
    ]


def _results(name: str, report: Mapping[str, Any]) -> list[str]:
    """A table of results, and what was played."""
    chance = f"; games won by chance: {1 / report['players']:.1%}" if report["games"] else ""
    return [
        f"### {report['players']} players",
        f"Deals of reports, seed {report['seed']}{chance}; played by commit {report['commit'] or 'unknown'}.",
        markdown(_words(name, report["agent"], report["results"])),
    ]


def _words(name: str, agent: str, results: Sequence[Mapping[str, Any]]) -> Words:
    by_games = any(result["games"] for result in results)
    headings = [*_PLACES, "deals", "points", "relative", "gain", *(["games", "won", "mean place"] if by_games else [])]
    rows = []
    for result in results:
        sides = [name if side == agent else side for side in (result["candidate"], result["opponent"])]
        row = [*sides, f"{result['deals']:,}"]
        row += [_cell(result, column, "+.2f") for column in ("points", "relative", "gain")]
        row += [f"{result['games']:,}", _cell(result, "wins", ".1%"), f"{result['placement']:.2f}"] if by_games else []
        rows.append(row)
    return headings, rows


def _cell(result: Mapping[str, Any], column: str, form: str) -> str:
    return "-" if result[column] is None else plus_minus((result[column], result[f"{column}_ci"]), form)


def _limits(says: Mapping[str, Any], rules: Sequence[Rules], sampling: bool) -> list[str]:
    """What is not to be expected of it."""
    rounds = says["episode"] == "round"
    return [
        f"It plays at tables of {_tables(rules)} and refuses all others.",
        *(
            ["It has seen single rounds only: in whole games it is shown no totals and does not play for the win."]
            if rounds
            else []
        ),
        "Its results are those of sampled cards; its likeliest ones (`deterministic=True`) are not measured here."
        if sampling
        else "It always plays the card that it holds for the best: whoever knows it can foresee its play.",
        "It is one run of one training seed: nothing is said of how other seeds fare.",
        "It is not an equilibrium. It was measured against the agents above and nobody else; one that is trained "
        "against it can do better, and how people fare at its table is not known.",
        f"It reads observations of version {says['observation_version']} and a checkpoint of format {says['format']}, "
        "and versions of fool-env that have others refuse it.",
    ]
