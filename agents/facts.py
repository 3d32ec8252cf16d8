"""What can be said of each card held from an observation alone: facts for a network to weigh.

A kernel on the fields of observations; the chances are those that `cautious` reckons with.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import (
    ACTION_COLOUR,
    ACTION_RANK,
    COLOUR_OFFSETS,
    COLOUR_SIZES,
    MAX_RANK,
    NUM_ACTIONS,
    NUM_COLOURS,
    WILD,
    WILD_RANK,
)
from fool_env.observation import OBSERVATION
from fool_env.rules import MAX_FOOLS, MAX_PLAYERS
from fool_env.state import Record

from .cautious import fool_chance

FACTS: Final = (
    "rank",  # in units of the highest
    "unseen_above",  # unseen cards of its colour that are higher, in tens
    "unseen",  # of its colour, in tens
    "own_above",  # own cards of its colour that are higher, in tens
    "own",  # of its colour, in tens
    "follows",  # it is of the lead colour, or a 1, or the colour is open
    "wins",  # it would win the trick as it stands (R8)
    "fool",  # it would be among the Fools of the trick as it stands (R9, R10)
    "safe",  # exp(-3 unseen_above)
    "safe_and_wins",
    "highest",  # exp(-10 unseen_above): 1 for a colour's highest card, else nearly 0
    "discarded_above",  # unseen_above if it does not follow
    "fool_chance",  # of becoming a Fool, if the others play their highest cards
    "win_chance",  # of winning the trick
)

_RANK, _UNSEEN_ABOVE, _UNSEEN, _OWN_ABOVE, _OWN, _FOLLOWS_LEAD, _WINS = range(7)
_FOOL, _SAFE, _SAFE_AND_WINS, _HIGHEST, _DISCARDED_ABOVE, _FOOL_CHANCE, _WIN_CHANCE = range(7, len(FACTS))

_FOLLOWS = np.float32(32.0)  # more than any rank: a card of the lead colour is better than any other (R9)
_RANKS = MAX_RANK + 1


@kernel
def _card_facts(observations: np.ndarray, actions: np.ndarray, facts: np.ndarray) -> int:
    """Fill both arrays; returns -1, or a row that holds more cards than they have room for."""
    above = np.zeros((NUM_COLOURS, _RANKS), np.int64)
    lacks = np.ones((MAX_PLAYERS, NUM_COLOURS))
    room = actions.shape[1]
    for row in range(len(observations)):
        observation = observations[row]
        _count_above(observation, above)
        num_later = _lacks_of_later_seats(observation, lacks)
        lead_colour = NUM_COLOURS
        for colour in range(NUM_COLOURS):
            if observation.lead_colour[colour] > 0:
                lead_colour = colour
        card = 0
        for colour in range(NUM_COLOURS):
            own_above = 0
            first = card
            for action in range(COLOUR_OFFSETS[colour] + COLOUR_SIZES[colour] - 1, COLOUR_OFFSETS[colour] - 1, -1):
                if observation.hand[action] > 0:
                    if card == room:
                        return row
                    actions[row, card] = action
                    _describe_card(
                        observation, action, own_above, lead_colour, above, lacks, num_later, facts[row, card]
                    )
                    own_above += 1
                    card += 1
            for same_colour in range(first, card):
                facts[row, same_colour, _OWN] = own_above / 10
        if observation.hand[WILD] > 0:
            if card == room:
                return row
            actions[row, card] = WILD
            _describe_card(observation, WILD, 0, lead_colour, above, lacks, num_later, facts[row, card])
            facts[row, card, _OWN] = 0.0
            card += 1
        for empty in range(card, room):
            actions[row, empty] = NUM_ACTIONS
            facts[row, empty] = 0.0
    return -1


@kernel
def _describe_card(
    observation: Record,
    action: int,
    own_above: int,
    lead_colour: int,
    above: np.ndarray,
    lacks: np.ndarray,
    num_later: int,
    fact: np.ndarray,
) -> None:
    """Fill in the facts about one card, all but the number of own cards of its colour."""
    colour, rank = np.int64(ACTION_COLOUR[action]), np.int64(ACTION_RANK[action])
    is_open = lead_colour == NUM_COLOURS
    follows = action == WILD or is_open or colour == lead_colour
    unseen_above = 0.0 if action == WILD else above[colour, rank] / 10
    safe = np.exp(-3 * unseen_above)
    key = rank + (_FOLLOWS if follows else np.float32(0.0))
    wins, worse_needed = _standing(observation, key, lead_colour)
    fact[_RANK] = rank / MAX_RANK
    fact[_UNSEEN_ABOVE] = unseen_above
    fact[_UNSEEN] = 0.0 if action == WILD else above[colour, WILD_RANK] / 10
    fact[_OWN_ABOVE] = own_above / 10
    fact[_FOLLOWS_LEAD] = 1.0 if follows else 0.0
    fact[_WINS] = 1.0 if wins else 0.0
    fact[_FOOL] = 1.0 if worse_needed > 0 else 0.0
    fact[_SAFE] = safe
    fact[_SAFE_AND_WINS] = safe if wins else 0.0
    fact[_HIGHEST] = np.exp(-10 * unseen_above)
    fact[_DISCARDED_ABOVE] = 0.0 if follows else unseen_above
    suit = colour if is_open else lead_colour
    if suit < 0:  # a 1 on an open colour: nobody knows which colour it will be, so the chance is taken to be even
        fact[_FOOL_CHANCE] = 0.5 if worse_needed > 0 else 0.0
        fact[_WIN_CHANCE] = 0.0
        return
    higher = (
        _count_higher_of(above, 0, suit, rank, follows),
        _count_higher_of(above, 1, suit, rank, follows),
        _count_higher_of(above, 2, suit, rank, follows),
        _count_higher_of(above, 3, suit, rank, follows),
    )
    fact[_FOOL_CHANCE] = fool_chance(lacks, 0, num_later, higher, worse_needed)
    win = 1.0 if wins else 0.0
    for k in range(num_later):
        win *= lacks[k, suit] ** higher[suit]
    fact[_WIN_CHANCE] = win


@kernel
def _count_higher_of(above: np.ndarray, colour: int, suit: int, rank: int, follows: bool) -> int:
    """Of one colour, the unseen cards that a seat must lack to play a worse one; see `cautious.count_higher`."""
    if follows:
        return above[colour, rank] if colour == suit else np.int64(0)
    return above[colour, WILD_RANK if colour == suit else rank]


@kernel
def _standing(observation: Record, key: float, lead_colour: int) -> tuple[bool, int]:
    """Whether a card would win the trick as it stands, and how many worse ones would have to follow to spare it a disc.

    Keys order cards as `engine.trick_key` does; of equals the one in the trick is the better.
    """
    wins = True
    worse_needed = np.int64(np.rint(observation.num_fools[0] * MAX_FOOLS))
    for seat in range(MAX_PLAYERS):
        if observation.trick_played[seat] == 0:
            continue
        follows = observation.trick_is_one[seat]
        if lead_colour < NUM_COLOURS:
            follows += observation.trick_colour[seat, lead_colour]
        other_key = np.rint(observation.trick_rank[seat] * MAX_RANK) + _FOLLOWS * follows
        if observation.trick_wins[seat] > 0 and key <= other_key:
            wins = False
        if observation.trick_fool[seat] > 0 and other_key < key:
            worse_needed -= 1
    return wins, worse_needed


@kernel
def _count_above(observation: Record, above: np.ndarray) -> None:
    """Count into int64[colours, ranks] the unseen cards of each colour that are higher than each rank."""
    for colour in range(NUM_COLOURS):
        count = 0
        top = COLOUR_SIZES[colour] + WILD_RANK
        for rank in range(_RANKS - 1, top - 1, -1):
            above[colour, rank] = 0
        for rank in range(top - 1, WILD_RANK - 1, -1):
            count += np.int64(observation.unseen[COLOUR_OFFSETS[colour] + rank - WILD_RANK])
            above[colour, rank] = count


@kernel
def _lacks_of_later_seats(observation: Record, lacks: np.ndarray) -> int:
    """The chance that each later seat lacks a certain unseen card of each colour; returns how many seats these are.

    A colour is taken to be spread evenly over the hands of those that have not shown to lack it (R16).
    """
    num_later = 0
    for seat in range(1, MAX_PLAYERS):
        if observation.plays_after[seat] > 0:
            num_later += 1
    for colour in range(NUM_COLOURS):
        places = np.float32(0.0)
        for seat in range(1, MAX_PLAYERS):
            places += observation.hand_size[seat] * (1 - observation.void[seat, colour])
        later = 0
        for seat in range(1, MAX_PLAYERS):
            if observation.plays_after[seat] > 0:
                lacks[later, colour] = 1.0
                if observation.void[seat, colour] == 0:
                    lacks[later, colour] = 1.0 - observation.hand_size[seat] / places
                later += 1
    return num_later


def card_facts(observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The facts about every card held, the 1s as one card.

    Args:
        observations: float32 of shape (rows, OBSERVATION_SIZE).

    Returns:
        uint8 (rows, most cards held) and float32 (rows, most cards held, len(FACTS)): the action of each card, and its
        facts; NUM_ACTIONS and 0 where a row holds fewer.
    """
    held = int((observations[:, :NUM_ACTIONS] > 0).sum(1).max(initial=1))  # `hand` is the first field
    actions = np.empty((len(observations), held), np.uint8)
    facts = np.empty((len(observations), held, len(FACTS)), np.float32)
    fill_card_facts(observations, actions, facts)
    return actions, facts


def fill_card_facts(observations: np.ndarray, actions: np.ndarray, facts: np.ndarray) -> None:
    """`card_facts` into arrays that are there.

    Raises:
        ValueError: a row holds more cards than they have room for.
    """
    fields = np.ascontiguousarray(observations).view(OBSERVATION)[:, 0]
    row = _card_facts(fields, actions, facts)
    if row >= 0:
        raise ValueError(f"observation {row} holds more than {actions.shape[1]} cards")
