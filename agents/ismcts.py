"""Information-set Monte Carlo tree search for many players, a kernel on one view.

After Cowling, Powley and Whitehouse (2012), "Information Set Monte Carlo Tree Search": one tree for all worlds, a new
determinization at each iteration, and at each node only the plays that are legal in it, of which those that were
available more often are explored more. Every play is public, so a node is a sequence of plays, the same for all seats.
Each seat does the best for itself: a node keeps a value for every seat.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import NUM_ACTIONS, NUM_CARDS
from fool_env.determinization import draw_world, hidden_cards
from fool_env.engine import hide, legal_actions, legal_mask, play
from fool_env.rng import advance, below, derive, output
from fool_env.rules import MAX_PLAYERS
from fool_env.state import GAME, Record

from .rollouts import WIN, choose, fill_results, roll_out

MAX_NODES: Final = 1 << 18
"""Nodes of a tree, 24 MiB in all; a full tree goes on counting and grows no further."""

_NONE = np.int32(-1)
_POINTS_SCALE = 10.0  # points that weigh as much as one unit of exploration


class Tree(NamedTuple):
    """The nodes, as arrays, and space to work in; node 0 is the view."""

    actions: np.ndarray
    """The play that leads to each node: int64 (nodes,)."""
    children: np.ndarray
    """Its first child, -1 if it has none: int32 (nodes,)."""
    siblings: np.ndarray
    """The next child of its parent, likewise: int32 (nodes,)."""
    visits: np.ndarray
    """How often it was visited: int64 (nodes,)."""
    available: np.ndarray
    """How often it could have been: int64 (nodes,)."""
    totals: np.ndarray
    """What its visits were worth to each seat: float64 (nodes, 8)."""
    path: np.ndarray
    """The nodes of one iteration: int64 (cards + 1,)."""
    mask: np.ndarray
    """Legal plays: int8 (83,)."""
    values: np.ndarray
    """What the end of a round is worth to each seat: float64 (8,)."""
    world: np.ndarray
    """The game as it may be: GAME (1,)."""


def make_tree(nodes: int) -> Tree:
    """Space for so many nodes."""
    return Tree(
        actions=np.zeros(nodes, np.int64),
        children=np.zeros(nodes, np.int32),
        siblings=np.zeros(nodes, np.int32),
        visits=np.zeros(nodes, np.int64),
        available=np.zeros(nodes, np.int64),
        totals=np.zeros((nodes, MAX_PLAYERS)),
        path=np.zeros(NUM_CARDS + 1, np.int64),
        mask=np.zeros(NUM_ACTIONS, np.int8),
        values=np.zeros(MAX_PLAYERS),
        world=np.zeros(1, GAME),
    )


@kernel
def _grow(
    view: Record,
    seed: np.uint64,
    cheat: bool,
    iterations: int,
    c: float,
    rollout: int,
    objective: int,
    priors: np.ndarray,
    sample: np.ndarray,
    tree: Tree,
) -> None:
    """Grow the tree of a view by so many iterations.

    Args:
        cheat: the record is a full one, and its hands are the true ones, not to be dealt anew.
        c: the weight of exploration; a unit of it is 10 points, or a win.
        priors: float64 (83,), added to the mean value of each play at the root.
    """
    world = tree.world[0]
    tree.world[0] = view
    hide(world, view.player)
    hidden = hidden_cards(world)
    scale = 1.0 if objective == WIN else _POINTS_SCALE
    _add_node(tree, 0, 0, _NONE)
    size = 1
    for iteration in range(iterations):
        world_seed = derive(seed, iteration)
        tree.world[0] = view
        if cheat:
            world.rng = derive(world_seed, 0)
        else:
            draw_world(hidden, world_seed, world)
        size, depth = _descend(tree, size, world, c * scale, rollout, priors, derive(world_seed, 2))
        roll_out(world, rollout, derive(world_seed, 3))
        fill_results(world, objective, sample, derive(world_seed, 4), tree.values)
        for i in range(depth):
            tree.visits[tree.path[i]] += 1
            for seat in range(view.num_players):
                tree.totals[tree.path[i], seat] += tree.values[seat]


@kernel
def _add_node(tree: Tree, node: int, action: int, sibling: int) -> None:
    tree.actions[node] = action
    tree.children[node] = _NONE
    tree.siblings[node] = sibling
    tree.visits[node] = 0
    tree.available[node] = 0
    tree.totals[node] = 0.0


@kernel
def _descend(
    tree: Tree, size: int, world: Record, c: float, rollout: int, priors: np.ndarray, luck: np.uint64
) -> tuple[int, int]:
    """Play down the tree and one step beyond it; returns the nodes that the tree has, and those of the path."""
    tree.path[0] = 0
    depth = 1
    while not world.round_over:
        parent = tree.path[depth - 1]
        legal_mask(world, tree.mask)
        best = _best_child(tree, parent, world.player, c, priors, depth == 1)
        untried = tree.mask.sum()
        if untried > 0:
            luck = advance(luck)
            action = _choose_untried(tree.mask, untried, world, rollout, luck)
            play(world, action)
            if size < len(tree.actions):
                _add_node(tree, size, action, tree.children[parent])
                tree.children[parent] = size
                tree.available[size] = 1
                tree.path[depth] = size
                size, depth = size + 1, depth + 1
            break
        play(world, tree.actions[best])
        tree.path[depth] = best
        depth += 1
    return size, depth


@kernel
def _best_child(tree: Tree, parent: int, seat: int, c: float, priors: np.ndarray, is_root: bool) -> int:
    """The legal child of the highest upper confidence bound for the seat to act; clears in the mask what was tried."""
    best, best_bound = np.int64(-1), -np.inf
    node = np.int64(tree.children[parent])
    while node >= 0:
        action = tree.actions[node]
        if tree.mask[action]:
            tree.mask[action] = 0
            tree.available[node] += 1
            visits = tree.visits[node]
            bound = tree.totals[node, seat] / visits + c * np.sqrt(np.log(tree.available[node]) / visits)
            if is_root:
                bound += priors[action]
            if bound > best_bound:
                best, best_bound = node, bound
        node = np.int64(tree.siblings[node])
    return best


@kernel
def _choose_untried(mask: np.ndarray, count: int, world: Record, rollout: int, luck: np.uint64) -> int:
    """What the rollouts' rule would play, if that is untried; else any of the untried."""
    action = choose(world, rollout, luck)
    if mask[action]:
        return action
    skip = below(output(advance(luck)), count)
    for action in range(NUM_ACTIONS):
        if mask[action]:
            if skip == 0:
                return action
            skip -= 1
    return -1


@kernel
def _most_visited(tree: Tree, priors: np.ndarray, seat: int) -> int:
    """The play at the root that was visited most; of equals the one of the higher value."""
    best, best_visits, best_value = np.int64(-1), np.int64(-1), 0.0
    node = np.int64(tree.children[0])
    while node >= 0:
        visits = tree.visits[node]
        value = tree.totals[node, seat] / visits + priors[tree.actions[node]]
        if visits > best_visits or (visits == best_visits and value > best_value):
            best, best_visits, best_value = tree.actions[node], visits, value
        node = np.int64(tree.siblings[node])
    return best


@kernel
def search_trees(
    games: np.ndarray,
    seeds: np.ndarray,
    cheat: bool,
    iterations: int,
    c: float,
    rollout: int,
    objective: int,
    priors: np.ndarray,
    sample: np.ndarray,
    tree: Tree,
    chosen: np.ndarray,
) -> None:
    """Choose a card for each view, or for each full record if `cheat`; the tree of the last one stays.

    Args:
        games: GAME (B,).
        priors: float64 (B, 83), see `rollouts.fill_priors`.
        chosen: int64 (B,).
    """
    actions = np.empty(NUM_ACTIONS, np.int64)
    for i in range(len(games)):
        if legal_actions(games[i], actions) > 1:
            _grow(games[i], seeds[i], cheat, iterations, c, rollout, objective, priors[i], sample, tree)
            chosen[i] = _most_visited(tree, priors[i], games[i].player)
        else:
            chosen[i] = actions[0]
