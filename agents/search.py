"""Search agents: deal the hidden cards anew, play the worlds on by a scripted rule, and choose what fared best.

`pimc` (`pimc.py`) tries every legal card in the same worlds, `ismcts` (`ismcts.py`) grows a tree over the plays to
come, and `cheat` does so on the true hands. All of them add to what the worlds say, in points, what `cautious` makes of
a card, `prior` times: a few dozen worlds leave much to luck, and rollouts have bad habits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

from fool_env.cards import NUM_ACTIONS
from fool_env.engine import legal_mask_of
from fool_env.rules import Rules
from fool_env.state import GAME, NOBODY, rules_of

from .ismcts import MAX_NODES, Tree, make_tree, search_trees
from .pimc import search_worlds
from .policy_rollouts import Policy, search_policy_worlds
from .rollouts import NO_SAMPLE, OBJECTIVES, ROLLOUTS, WIN, WIN_PER_POINT, fill_priors, sample_rounds
from .scripted import check_views

_DEFAULT_WORLDS: Final = 32
_DEFAULT_ROLLOUT: Final = "highest"
_DEFAULT_PRIOR: Final = 2.0
_DEFAULT_C: Final = 0.7
_BLOCK: Final = 4  # worlds between two looks at the clock
_POINTS_PER_LOG: Final = 0.5  # what a factor of e in a policy's probability is worth, for `prior`
_LEAST_PROBABILITY: Final = 0.01  # below which a policy's cards are not tried
_NORMAL_QUANTILE: Final = 1.96


class SearchAgent:
    """What the search agents share; see the module.

    Args:
        name: the agent's `make_agent` string.
        rollout: the rule by which all seats play the worlds to the end of the round: "random", "highest", "cautious".
        objective: what to aim at: "points" or "relative" of the round, or "win", to win the game from its totals.
        prior: the weight of what `cautious` makes of a card; 0 leaves it out.

    Raises:
        ValueError: there is no such rollout or objective.
    """

    def __init__(self, name: str, rollout: str, objective: str, prior: float) -> None:
        self.name = name
        self._rollout = _index("rollout", rollout, ROLLOUTS)
        self._objective = _index("objective", objective, OBJECTIVES)
        self._heading = objective
        self._prior = prior
        self._samples: dict[Rules, np.ndarray] = {}

    def _by_rules(self, games: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The rows of tables with the same rules, and the sample of rounds that values their ends."""
        if self._objective != WIN:
            yield np.arange(len(games)), NO_SAMPLE
            return
        rows_of: dict[Rules, list[int]] = {}
        for row, game in enumerate(games):
            rows_of.setdefault(rules_of(game), []).append(row)
        for rules, rows in rows_of.items():
            if rules not in self._samples:
                self._samples[rules] = sample_rounds(rules, self._rollout)
            yield np.array(rows), self._samples[rules]

    def _priors(self, games: np.ndarray) -> np.ndarray:
        priors = np.empty((len(games), NUM_ACTIONS))
        fill_priors(games, self._objective, self._prior, priors)
        return priors


class PimcAgent(SearchAgent):
    """`pimc`: plays each legal card in the same worlds; see `SearchAgent` for the other arguments.

    Args:
        worlds: how many; 32 unless there is a budget.
        rollout: "highest" unless there is a policy.
        budget_ms: milliseconds for a decision, in the place of `worlds`. Its moves then depend on the clock, and are
            not reproducible.
        policy: a trained network. It plays the rollouts unless `rollout` says otherwise, it takes the place of
            `cautious` in what `prior` weighs (half the logarithm of its probability, as points), and cards that it
            plays in less than 1% of such positions are not tried.

    Raises:
        ValueError: both worlds and a budget, or either negative; there is no such rollout or objective.
    """

    def __init__(
        self,
        worlds: int = 0,
        rollout: str = "",
        objective: str = "points",
        prior: float = _DEFAULT_PRIOR,
        budget_ms: float = 0.0,
        policy: Policy | None = None,
    ) -> None:
        if worlds < 0 or budget_ms < 0 or (worlds > 0 and budget_ms > 0):
            raise ValueError(f"worlds={worlds}, budget_ms={budget_ms}: either the one or the other, and more than 0")
        self._worlds = 0 if budget_ms else worlds or _DEFAULT_WORLDS
        self._budget = budget_ms / 1000
        size: dict[str, float] = {"budget_ms": budget_ms} if budget_ms else {"worlds": self._worlds}
        name = _name("pimc", size, rollout or _DEFAULT_ROLLOUT, objective, prior)
        super().__init__(name, rollout or _DEFAULT_ROLLOUT, objective, prior)
        self._policy = policy
        self._policy_plays = policy is not None and not rollout
        if policy is not None:
            self.rules = policy.rules
            self.name = ",".join(
                [name, *([f"rollout={rollout}"] if rollout == _DEFAULT_ROLLOUT else []), f"policy={policy.name}"]
            )

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Choose a legal card for the seat to act in each view: GAME (B,), uint64 (B,) -> int64 (B,).

        Raises:
            ValueError: as `check_views`.
        """
        check_views(views, seeds)
        size = 1 if self._budget else len(views)  # a budget is for one decision
        actions = np.empty(len(views), np.int64)
        for start in range(0, len(views), size or 1):
            some = slice(start, start + size)
            priors = self._priors(views[some])
            sums, played = self._search(views[some], seeds[some], priors)
            actions[some] = (sums[:, 0] / played + priors).argmax(axis=1)
        return actions

    def estimates(self, view: np.ndarray, seed: np.uint64) -> dict[str, np.ndarray]:
        """For each legal action: the score that decides, its mean over the worlds, and half of its 95% interval.

        Args:
            view: GAME of shape (1,).

        Returns:
            Columns by heading, each float64 (k,) for the legal actions, ascending; -inf and NaN for those not tried,
            NaN for one without alternative, for which no world is played.
        """
        seeds = np.array([seed], np.uint64)
        check_views(view, seeds)
        priors = self._priors(view)
        sums, played = self._search(view, seeds, priors)
        tried = np.isfinite(priors[0])
        searched = tried & (tried.sum() > 1)
        means, squares = np.where(searched, sums[0] / played, np.nan)
        halves = _NORMAL_QUANTILE * np.sqrt(np.maximum(squares - means**2, 0.0) / played)
        scores = priors[0] + np.where(searched, means, 0.0)
        legal = legal_mask_of(view[0]) == 1
        return {"score": scores[legal], self._heading: means[legal], "± 95%": halves[legal]}

    def _priors(self, views: np.ndarray) -> np.ndarray:
        if self._policy is None:
            return super()._priors(views)
        probabilities = self._policy.probabilities(views)
        tried = probabilities >= _LEAST_PROBABILITY  # never none: the likeliest of 83 cards has more
        scale = self._prior * _POINTS_PER_LOG * (WIN_PER_POINT if self._objective == WIN else 1.0)
        return np.where(tried, scale * np.log(np.where(tried, probabilities, 1.0)), -np.inf)

    def _search(self, views: np.ndarray, seeds: np.ndarray, priors: np.ndarray) -> tuple[np.ndarray, int]:
        """The sums of values and squares, float64 (B, 2, 83), and over how many worlds they go."""
        sums, space = np.zeros((len(views), 2, NUM_ACTIONS)), np.zeros(2, GAME)
        candidates = np.isfinite(priors)
        candidates[candidates.sum(axis=1) == 1] = False  # no choice, no search
        block = _BLOCK if self._budget else self._worlds
        end, played = time.perf_counter() + self._budget, 0
        while played == 0 or (self._budget and time.perf_counter() < end):
            for rows, sample in self._by_rules(views):
                world = views[rows], seeds[rows], candidates[rows], played, block
                some = np.zeros((len(rows), 2, NUM_ACTIONS))
                if self._policy is not None and self._policy_plays:
                    search_policy_worlds(self._policy, *world, self._objective, sample, some)
                else:
                    search_worlds(*world, self._rollout, self._objective, sample, space, some)
                sums[rows] += some
            played += block
        return sums, played


class _TreeAgent(SearchAgent):
    """Grows a tree over the plays to come; see `SearchAgent` for the other arguments.

    Args:
        iterations: how many worlds, each descending the tree once and then played to the end.
        c: the weight of exploration; a unit of it is 10 points, or a win.

    Raises:
        ValueError: no iterations, or a negative weight.
    """

    _kind: str
    _cheats: bool
    _usual_rollout = _DEFAULT_ROLLOUT

    def __init__(
        self,
        iterations: int = 1000,
        rollout: str = _DEFAULT_ROLLOUT,
        objective: str = "points",
        prior: float = _DEFAULT_PRIOR,
        c: float = _DEFAULT_C,
    ) -> None:
        if iterations < 1 or c < 0:
            raise ValueError(f"iterations={iterations}, c={c}: at least 1 iteration, and c not negative")
        size: dict[str, float] = {"iterations": iterations} if c == _DEFAULT_C else {"iterations": iterations, "c": c}
        name = _name(self._kind, size, rollout, objective, prior, self._usual_rollout)
        super().__init__(name, rollout, objective, prior)
        self._iterations, self._c = iterations, c

    def _new_tree(self) -> Tree:
        return make_tree(min(self._iterations + 1, MAX_NODES))

    def _search(self, games: np.ndarray, seeds: np.ndarray, tree: Tree) -> np.ndarray:
        actions = np.empty(len(games), np.int64)
        for rows, sample in self._by_rules(games):
            chosen = np.empty(len(rows), np.int64)
            search_trees(
                games[rows],
                seeds[rows],
                self._cheats,
                self._iterations,
                self._c,
                self._rollout,
                self._objective,
                self._priors(games[rows]),
                sample,
                tree,
                chosen,
            )
            actions[rows] = chosen
        return actions


class IsmctsAgent(_TreeAgent):
    """`ismcts`: a new determinization at each iteration; see `_TreeAgent` for the arguments."""

    _kind = "ismcts"
    _cheats = False

    def act(self, views: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Choose a legal card for the seat to act in each view: GAME (B,), uint64 (B,) -> int64 (B,).

        Raises:
            ValueError: as `check_views`.
        """
        check_views(views, seeds)
        return self._search(views, seeds, self._new_tree())

    def estimates(self, view: np.ndarray, seed: np.uint64) -> dict[str, np.ndarray]:
        """For each legal action: how often the tree's root tried it, which decides, and what came of it.

        Args:
            view: GAME of shape (1,).

        Returns:
            Columns by heading, each float64 (k,) for the legal actions, ascending; NaN where there was no visit.
        """
        seeds = np.array([seed], np.uint64)
        check_views(view, seeds)
        tree = self._new_tree()
        self._search(view, seeds, tree)
        visits, totals = np.zeros(NUM_ACTIONS), np.zeros(NUM_ACTIONS)
        node = int(tree.children[0])
        while node > 0:
            visits[tree.actions[node]] = tree.visits[node]
            totals[tree.actions[node]] = tree.totals[node, view["player"][0]]
            node = int(tree.siblings[node])
        (priors,) = self._priors(view)
        legal = legal_mask_of(view[0]) == 1
        means = np.divide(totals, visits, out=np.full(NUM_ACTIONS, np.nan), where=visits > 0)
        return {"visits": visits[legal], "score": (means + priors)[legal], self._heading: means[legal]}


class CheatAgent(_TreeAgent):
    """`cheat`: the same search on the true hands, with luck of its own: an upper bound, not an opponent.

    It fares best with few iterations: deep in the tree the others are taken to see all hands as well.
    """

    _kind = "cheat"
    _cheats = True
    _usual_rollout = "cautious"

    def __init__(
        self,
        iterations: int = 30,
        rollout: str = _usual_rollout,
        objective: str = "points",
        prior: float = _DEFAULT_PRIOR,
        c: float = _DEFAULT_C,
    ) -> None:
        super().__init__(iterations, rollout, objective, prior, c)

    @property
    def omniscient(self) -> Literal[True]:
        """It sees all hands."""
        return True

    def act_on_records(self, games: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Choose a legal card for the seat to act in each full record: GAME (B,), uint64 (B,) -> int64 (B,).

        Raises:
            ValueError: a record is a view, or its round is over; or the shapes differ.
        """
        if games.shape != seeds.shape or games.ndim != 1:
            raise ValueError(f"games and seeds: shapes {games.shape} and {seeds.shape} are not one (B,)")
        wrong = np.flatnonzero((games["player"] == NOBODY) | (games["viewer"] != NOBODY))
        if wrong.size:
            raise ValueError(f"games: number {wrong[0]} is not the full record of a round in play")
        return self._search(games, seeds, self._new_tree())


def _index(option: str, value: str, values: tuple[str, ...]) -> int:
    if value not in values:
        raise ValueError(f"{option}={value} is none of {', '.join(values)}")
    return values.index(value)


def _name(
    kind: str,
    size: dict[str, float],
    rollout: str,
    objective: str,
    prior: float,
    usual_rollout: str = _DEFAULT_ROLLOUT,
) -> str:
    """The agent's string: its size, and the other options where they are not as usual."""
    options = [f"{option}={value:g}" for option, value in size.items()]
    options += [f"rollout={rollout}"] if rollout != usual_rollout else []
    options += [f"objective={objective}"] if objective != "points" else []
    options += [f"prior={prior:g}"] if prior != _DEFAULT_PRIOR else []
    return f"{kind}:{','.join(options)}"
