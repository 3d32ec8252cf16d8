"""`ismcts` and `cheat` against a slow implementation of the same search: every node of the tree, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from positions import position, view_of
from search_reference import Node, Search, under

from fool_env import Game
from fool_env.agents import search
from fool_env.agents.agent import make_agent
from fool_env.agents.ismcts import Tree
from fool_env.agents.rollouts import sample_rounds
from fool_env.agents.search import CheatAgent, IsmctsAgent
from fool_env.determinization import sample_worlds
from fool_env.state import GAME

SEED = np.uint64(5)
NO_LIMIT = 10**9


def tree_of(bot: IsmctsAgent | CheatAgent, games: np.ndarray) -> tuple[int, Tree]:
    """What it chooses at the last of these tables, and the tree that it has grown for it."""
    tree = bot._new_tree()
    chosen = bot._search(games, np.full(len(games), SEED), tree)
    return int(chosen[-1]), tree


def reference(game: Game, bot: IsmctsAgent | CheatAgent, max_nodes: int = NO_LIMIT) -> Search:
    """The same search, done slowly."""
    view, win = view_of(game), bot._heading == "win"
    sample = sample_rounds(game.rules, bot._rollout) if win else np.zeros((1, 8), np.int64)
    rollout, priors = search.ROLLOUTS[bot._rollout], bot._priors(view)[0].tolist()
    slow = Search(game, bot._c * (1 if win else 10), rollout, bot._heading, priors, sample, max_nodes)
    records = [game.record] * bot._iterations
    if not bot._cheats:
        records = list(sample_worlds(view, SEED, bot._iterations))
    for number, record in enumerate(records):
        slow.grow(record, under(SEED, number))
    return slow


def check_node(tree: Tree, number: int, node: Node) -> int:
    """A node and all below it are equal; returns how many they are."""
    assert tree.visits[number] == node.visits
    assert tree.totals[number].tolist() == node.totals
    size, child = 1, int(tree.children[number])
    for action, expected in reversed(node.children.items()):
        assert tree.actions[child] == action
        assert tree.available[child] == expected.available
        size += check_node(tree, child, expected)
        child = int(tree.siblings[child])
    assert child == -1
    return size


def check(game: Game, agent: str, max_nodes: int = NO_LIMIT) -> int:
    bot = make_agent(agent)
    assert isinstance(bot, (IsmctsAgent, CheatAgent))
    elsewhere = position("official_6", 3, 2)
    records = [it.record if bot._cheats else view_of(it)[0] for it in (elsewhere, game)]
    chosen, tree = tree_of(bot, np.array(records, GAME))
    slow = reference(game, bot, max_nodes)
    size = check_node(tree, 0, slow.root)
    assert chosen == slow.chosen()
    return size


POSITIONS = [("official_6", 1, 2), ("official_8", 4, 40), ("official_4", 6, 38), ("foppen_1995_3", 2, 27)]


@pytest.mark.parametrize(("preset", "seed", "plays"), POSITIONS)
@pytest.mark.parametrize(
    "agent",
    [
        "ismcts:iterations=60",
        "ismcts:iterations=60,prior=0,c=2,rollout=random,objective=relative",
        "ismcts:iterations=40,rollout=cautious,prior=1,c=0.1",
        "cheat:iterations=60,rollout=random",
        "ismcts:iterations=4,objective=relative",
    ],
)
def test_every_node_is_that_of_a_slow_search(agent: str, preset: str, seed: int, plays: int) -> None:
    iterations = int(agent.partition("iterations=")[2].partition(",")[0])
    assert min(9, iterations + 1) <= check(position(preset, seed, plays), agent) <= iterations + 1


@pytest.mark.parametrize("agent", ["ismcts:iterations=60,objective=win", "cheat:iterations=60,objective=win,prior=50"])
@pytest.mark.parametrize(("preset", "seed", "plays"), [("official_5", 1, 128), ("miniature", 2, 4)])
def test_every_node_is_that_of_a_slow_search_for_wins(agent: str, preset: str, seed: int, plays: int) -> None:
    game = position(preset, seed, plays)
    game._games["scores"][0, :3] = (-60, -72, -30)
    game._games["tens"][0, :3] = (2, 1, 5)
    check(game, agent)


@pytest.mark.parametrize("agent", ["ismcts:iterations=900", "cheat:iterations=900,c=3,rollout=random"])
def test_a_search_goes_to_the_end_of_the_round(agent: str) -> None:
    """Few cards are left, so iterations end within the tree, and add no node."""
    game = position("foppen_1995_3", 5, 45)
    assert 10 < check(game, agent) < 800


@pytest.mark.parametrize("nodes", [2, 12, 30])
def test_a_full_tree_goes_on_counting(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_NODES", nodes)
    assert check(position("official_6", 1, 2), "ismcts:iterations=80", nodes) == nodes


def test_estimates_are_those_of_the_root() -> None:
    game, bot = position("official_6", 1, 0), make_agent("ismcts:iterations=7")
    assert isinstance(bot, IsmctsAgent)
    found, root = bot.estimates(view_of(game), SEED), reference(game, bot).root
    visits = [root.children[action].visits if action in root.children else 0 for action in game.legal_actions()]
    assert found["visits"].tolist() == visits
    assert min(visits) == 0
    assert (np.isnan(found["points"]) == (found["visits"] == 0)).all()
    for action, points in zip(game.legal_actions(), found["points"].tolist(), strict=True):
        if action in root.children:
            assert points == root.children[action].totals[game.player] / root.children[action].visits
