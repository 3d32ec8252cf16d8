"""A second, slow implementation of the search agents: Game objects, dicts and lists, one world after another.

It shares with the agents how worlds are drawn, how seeds are derived and what the scripted rules play; those have tests
of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log, sqrt

import numpy as np
from positions import view_of

from fool_env import Game
from fool_env.agents.agent import make_agent
from fool_env.determinization import sample_worlds
from fool_env.rng import advance, below, derive, output
from fool_env.state import GAME

FUTURES = 16  # games played on in scores, where the chance to win counts


def under(seed: int, *path: int) -> np.uint64:
    """The seed that hangs under another, by the numbers on the way."""
    for number in path:
        seed = int(derive(np.uint64(seed), number))
    return np.uint64(seed)


def after(luck: np.uint64) -> np.uint64:
    return np.uint64(advance(np.uint64(luck)))


def number_below(luck: np.uint64, bound: int) -> int:
    return int(below(np.uint64(output(luck)), bound))


def as_world(game: Game, record: np.void) -> Game:
    world = game.clone()
    world._games[:] = np.array([record], GAME)
    return world


def choice(world: Game, rollout: str, luck: np.uint64) -> int:
    return int(make_agent(rollout).act(view_of(world), np.array([luck], np.uint64))[0])


def play_on(world: Game, rollout: str, luck: np.uint64) -> Game:
    """To the end of the round."""
    while not world.round_over:
        luck = after(luck)
        world.play(choice(world, rollout, luck))
    return world


def worth(world: Game, objective: str, sample: np.ndarray, luck: np.uint64) -> list[float]:
    """What the end of a round is worth to each seat."""
    n, points = world.rules.num_players, world.points
    if objective == "points":
        return [float(own) for own in points]
    if objective == "relative":
        return [(n * float(own) - sum(points)) / (n - 1) for own in points]
    shares, futures = [0.0] * n, 1 if world.game_over else FUTURES
    for _ in range(futures):
        scores, tens, over = world.scores, world.tens, world.game_over
        while not over:
            luck = after(luck)
            round_points = sample[number_below(luck, len(sample))].tolist()[:n]
            scores = [total + more for total, more in zip(scores, round_points, strict=True)]
            tens = [
                count + (more == world.rules.empty_hand_points) for count, more in zip(tens, round_points, strict=True)
            ]
            over = min(scores) <= world.rules.losing_total or max(tens) >= world.rules.winning_tens
        winners = [seat for seat in range(n) if scores[seat] == max(scores)]
        for seat in winners:
            shares[seat] += 1 / len(winners) / futures
    return shares


def pimc_values(
    game: Game, seed: np.uint64, count: int, rollout: str, objective: str, sample: np.ndarray
) -> np.ndarray:
    """What each legal card is worth to the seat to act in each world: float64 (cards, worlds)."""
    worlds = sample_worlds(view_of(game), seed, count)
    values = np.empty((len(game.legal_actions()), count))
    for number in range(count):
        for k, action in enumerate(game.legal_actions()):
            world = as_world(game, worlds[number])
            world.play(action)
            play_on(world, rollout, under(seed, number, 2))
            values[k, number] = worth(world, objective, sample, under(seed, number, 3))[game.player]
    return values


@dataclass
class Node:
    """A sequence of plays; its children by play, the first tried first."""

    children: dict[int, Node] = field(default_factory=dict)
    visits: int = 0
    available: int = 0
    totals: list[float] = field(default_factory=lambda: [0.0] * 8)

    def size(self) -> int:
        return 1 + sum(child.size() for child in self.children.values())


@dataclass
class Search:
    """ISMCTS on one position, to be grown world by world."""

    game: Game
    c: float
    """In points, or in wins where these count."""
    rollout: str
    objective: str
    priors: Sequence[float]
    """By action, added to the mean values at the root."""
    sample: np.ndarray
    max_nodes: int
    root: Node = field(default_factory=Node)

    def grow(self, record: np.void, world_seed: np.uint64) -> None:
        world = as_world(self.game, record)
        path = self.descend(world, under(world_seed, 2))
        play_on(world, self.rollout, under(world_seed, 3))
        values = worth(world, self.objective, self.sample, under(world_seed, 4))
        for node in path:
            node.visits += 1
            for seat, value in enumerate(values):
                node.totals[seat] += value

    def descend(self, world: Game, luck: np.uint64) -> list[Node]:
        """Play down the tree and one step beyond it; the nodes on the way."""
        path = [self.root]
        while not world.round_over:
            node, legal, seat = path[-1], world.legal_actions(), world.player
            known = [action for action in reversed(node.children) if action in legal]
            for action in known:
                node.children[action].available += 1
            untried = [action for action in legal if action not in node.children]
            if untried:
                action = choice(world, self.rollout, luck := after(luck))
                if action not in untried:
                    action = untried[number_below(after(luck), len(untried))]
                world.play(action)
                if self.root.size() < self.max_nodes:
                    node.children[action] = Node(available=1)
                    path.append(node.children[action])
                break
            bounds = [self.bound(node.children[action], seat) for action in known]
            if node is self.root:
                bounds = [bound + self.priors[action] for bound, action in zip(bounds, known, strict=True)]
            action = known[bounds.index(max(bounds))]
            world.play(action)
            path.append(node.children[action])
        return path

    def bound(self, node: Node, seat: int) -> float:
        return node.totals[seat] / node.visits + self.c * sqrt(log(node.available) / node.visits)

    def chosen(self) -> int:
        """Visited most; of equals the better one, of equals the one tried last."""
        seat = self.game.player
        assert seat is not None

        def rank(action: int) -> tuple[int, float]:
            node = self.root.children[action]
            return node.visits, node.totals[seat] / node.visits + self.priors[action]

        return max(reversed(self.root.children), key=rank)
