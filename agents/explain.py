"""Why does an agent play as it does? For one position, what it thinks of each legal card, and what the card risks.

    from fool_env.agents.explain import explain
    print(explain(make_agent("cautious"), game.view(game.player), seed=0))

The estimates are the agent's own, if it has a method `estimates`. The risk is the same for all agents: the share of
the deals that the view allows in which the card makes its seat a Fool of this trick (R9, R10), while all that play
after it in the trick play like `cautious`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import CARD_NAMES, NUM_ACTIONS
from fool_env.determinization import sample_worlds
from fool_env.engine import legal_actions, play
from fool_env.render import table_text
from fool_env.rng import checked_seed, derive
from fool_env.state import GAME, NOBODY

from .agent import AnyAgent, OmniscientAgent
from .cautious import choose_cautious

WORLDS: Final = 2000
"""Deals for the risk of a card, which is then ± 2.2% at the most (95%)."""


@dataclass(frozen=True)
class Explanation:
    """An agent before a choice; arrays have an entry for each legal action, ascending.

    Attributes:
        agent: its name.
        view: the GAME record that it sees.
        seed: the luck of its choice.
        chosen: the action that it chooses.
        actions: int64 (k,).
        estimates: its own, heading -> float64 (k,); empty if it makes none.
        fool: float64 (k,), the risk to become a Fool of this trick.
        worlds: the deals that `fool` is a mean over.
    """

    agent: str
    view: np.void
    seed: int
    chosen: int
    actions: np.ndarray
    estimates: dict[str, np.ndarray]
    fool: np.ndarray
    worlds: int

    @property
    def ranking(self) -> np.ndarray:
        """The legal actions' places in the arrays, by the first estimate from the best down, else ascending."""
        if not self.estimates:
            return np.arange(len(self.actions))
        return np.argsort(-next(iter(self.estimates.values())), kind="stable")

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: the cards in the order of `ranking`, each with its estimates, None for none, and its risk."""
        cards = [
            {
                "card": CARD_NAMES[self.actions[i]],
                "chosen": bool(self.actions[i] == self.chosen),
                "estimates": {
                    heading: None if np.isnan(column[i]) else float(column[i])
                    for heading, column in self.estimates.items()
                },
                "fool": float(self.fool[i]),
            }
            for i in self.ranking
        ]
        return {
            "agent": self.agent,
            "seat": int(self.view["player"]),
            "seed": self.seed,
            "worlds": self.worlds,
            "cards": cards,
        }

    def __str__(self) -> str:
        """The table as the seat sees it, then its legal cards, the chosen one marked."""
        columns = [
            ["", *(">" if action == self.chosen else "" for action in self.actions[self.ranking])],
            ["card", *(CARD_NAMES[action] for action in self.actions[self.ranking])],
            *([heading, *_cells(heading, values[self.ranking])] for heading, values in self.estimates.items()),
            ["Fool", *(f"{risk:.1%}" for risk in self.fool[self.ranking])],
        ]
        widths = [max(map(len, column)) for column in columns]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in zip(*columns, strict=True)]
        choice = f"{self.agent} plays {CARD_NAMES[self.chosen]} (decision seed {self.seed})"
        risk = f"Fool: of this trick, in so many of {self.worlds:,} deals, if the others play like cautious"
        return "\n".join([table_text(self.view), "", choice, *lines, risk])


def _cells(heading: str, values: np.ndarray) -> list[str]:
    if heading == "probability":
        number = "{:.1%}"
    elif heading == "visits":
        number = "{:,.0f}"
    else:
        digits = 2 if np.nanmax(np.abs(values), initial=0.0) >= 1 else 3  # points, or chances to win
        number = f"{{:{'' if heading.startswith('±') else '+'}.{digits}f}}"
    return ["-" if np.isnan(value) else number.format(value) for value in values]


def explain(agent: AnyAgent, view: np.void, seed: int, worlds: int = WORLDS) -> Explanation:
    """What an agent thinks of each legal card in one position, and what each card risks.

    Args:
        agent: any that chooses from a view.
        view: a GAME record, as `game.view(game.player)` makes it.
        seed: 0 to 2**64 - 1: the luck of the agent's choice, and of the deals drawn.
        worlds: how many deals to draw; all cards are tried in the same ones.

    Raises:
        ValueError: the agent sees all hands; the view is not that of a seat to act; fewer than one world; no seed.
    """
    if isinstance(agent, OmniscientAgent):
        raise ValueError(f"{agent.name} sees all hands: there is no view by which its choice could be explained")
    if view["player"] == NOBODY or view["viewer"] != view["player"]:
        raise ValueError("view: not that of a seat that is to act")
    if worlds < 1:
        raise ValueError(f"worlds: {worlds}, at least 1 is needed")
    luck, views = checked_seed(seed), np.array([view], GAME)
    actions = np.empty(NUM_ACTIONS, np.int64)
    actions = actions[: _legal_actions(views, actions)]
    estimates = agent.estimates(views, luck) if hasattr(agent, "estimates") else {}
    [chosen] = agent.act(views, np.array([luck]))
    times_fool = np.zeros(len(actions), np.int64)
    # Deals of the agent's own seed could be those that it has in mind itself.
    _count_fools(sample_worlds(views, np.uint64(derive(luck, 0)), worlds), actions, np.empty(1, GAME), times_fool)
    return Explanation(agent.name, views[0], int(luck), int(chosen), actions, estimates, times_fool / worlds, worlds)


@kernel
def _legal_actions(views: np.ndarray, actions: np.ndarray) -> int:
    return legal_actions(views[0], actions)


@kernel
def _count_fools(worlds: np.ndarray, actions: np.ndarray, games: np.ndarray, times_fool: np.ndarray) -> None:
    """Count into int64[k] the worlds in which each action makes its seat a Fool of the trick; `games` is to work in."""
    seat, trick = worlds[0].player, worlds[0].num_tricks
    for i in range(len(actions)):
        for k in range(len(worlds)):
            games[0] = worlds[k]
            game = games[0]
            play(game, actions[i])
            while game.num_tricks == trick:
                play(game, choose_cautious(game, np.uint64(0)))
            times_fool[i] += (game.fools >> seat) & 1
