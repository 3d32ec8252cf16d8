"""cautious: the rule-based player, a kernel on one record.

It looks one play ahead and rolls nothing out. From the unseen cards, the sizes of all hands, the voids shown and the
seats still to play it works out for each legal card how likely that card makes it the Fool, how likely it wins, and
how exposed the rest of the hand will be, taking for granted that the others play their highest cards. The weights
below turn this into points. When the round is certain to end with this trick, only the cards still held count.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from fool_env._jit import kernel
from fool_env.cards import ACTION_COLOUR, ACTION_RANK, NUM_ACTIONS, NUM_CARDS, NUM_COLOURS, WILD, WILD_RANK
from fool_env.engine import held_penalty, legal_actions, trick_key
from fool_env.observation import deck_mask
from fool_env.rules import MAX_PLAYERS
from fool_env.state import Record

from .bits import card, count_above, highest_rank

# Weights, in points. A card's cost is what holding it at the end costs (R13); haste is 1 / the fewest tricks that can
# follow this one; behind is how many cards more one will hold after this trick than the seat that will hold fewest.
# They were fitted by least squares to the outcomes of alternative plays, at tables of `highest` and at mixed tables of
# `highest`, `random` and `cautious` itself, with 4 to 8 players.

# What playing a card saves, for each point of its cost.
SHED = 0.93  # times haste less 1 / cards left: with no more cards than tricks to come, every card will still go
SHED_BEATABLE = 0.16  # times the share of its colour's unseen cards that are higher: not worth keeping as a safe card
# What becoming a Fool brings: a trick without a play.
FOOL_HOLDING = -1.43  # for each point of the mean cost of the cards left in the hand, times haste
FOOL_BEHIND = -1.0  # times behind
FOOL_CARD = -0.06  # for each point of the card's cost: a high card is wasted on it
# What winning brings: the lead.
WIN = 2.0
WIN_HOLDING = -0.013  # for each point of the cost of the hand left: it is a low hand that leads well
# What the play leaves behind.
EXPOSED = -11.0  # becoming a Fool of a trick in a colour drawn from the unseen cards, times 1 - haste
LOWER_LEFT = 0.18  # each lower card of the same colour that stays
PLENTIFUL = -1.5  # the colour's share of the unseen cards: colours that will be led often are worth keeping


_OTHER = MAX_PLAYERS - 1  # the row of `lacks` for any one of the others

FourCounts: TypeAlias = tuple[int, int, int, int]
"""A number, or the cards as bits, for each colour."""


class Outlook(NamedTuple):
    """What the seat to act can tell about the cards that it does not see."""

    num_later: int
    """Seats that play after it in this trick."""
    tricks_left: int
    """The fewest tricks that can follow this one."""
    unseen: FourCounts
    """The cards of each colour that are neither in its hand nor played, as bits."""
    num_unseen: FourCounts
    """How many these are."""
    total_unseen: int
    """Of all colours."""
    lacks: np.ndarray
    """The chance that a certain unseen card of a colour is not in the hand of each later seat: float64[8, 4].

    The last row is that of any one of the others: at most seven seats play later.
    """
    held: int
    """The cost of its own hand."""
    best: FourCounts
    """Its best card where each colour is led, see `best_in`."""
    exposed: tuple[float, float, float, float]
    """What `exposed_in` says of these."""


@kernel
def choose_cautious(view: Record, seed: np.uint64) -> int:
    """The legal card of the highest value; of equals the one with the lowest action."""
    actions = np.empty(NUM_ACTIONS, np.int64)
    count = legal_actions(view, actions)
    if count == 1:
        return actions[0]
    outlook = look_out(view)
    best, best_value = actions[0], -np.inf
    for i in range(count):
        value = value_of(view, actions[i], outlook)
        if value > best_value:
            best, best_value = actions[i], value
    return best


@kernel
def fill_values(view: Record, values: np.ndarray) -> int:
    """Write what each legal action is worth, ascending, into float64[83], and return how many there are."""
    actions = np.empty(NUM_ACTIONS, np.int64)
    count = legal_actions(view, actions)
    values[0] = 0.0  # a play without alternative, which may leave no hand to be valued
    if count > 1:
        outlook = look_out(view)
        for i in range(count):
            values[i] = value_of(view, actions[i], outlook)
    return count


@kernel
def value_of(view: Record, action: int, outlook: Outlook) -> float:
    """What a play of a hand of several cards is worth, in points, up to what all plays have in common."""
    if outlook.tricks_left == 0:
        # The round ends with this trick: such a hand can only lose points, whoever is the Fool.
        return float(cost_of(view, action))
    seat = view.player
    colour, rank, cost = ACTION_COLOUR[action], ACTION_RANK[action], cost_of(view, action)
    cards_left, cost_left = view.hand_sizes[seat] - 1, outlook.held - cost
    haste, behind = 1.0 / outlook.tricks_left, cards_left - outlook.tricks_left
    fool, win = chances(view, action, outlook)
    value = SHED * cost * (haste - 1.0 / cards_left)
    value += fool * (FOOL_HOLDING * haste * cost_left / cards_left + FOOL_BEHIND * behind + FOOL_CARD * cost)
    value += win * (WIN + WIN_HOLDING * cost_left)
    gone = np.uint32(0)
    if action != WILD:
        gone = card(rank)
        same_colour = view.hands[seat, colour] ^ gone
        value += LOWER_LEFT * (count_above(same_colour, WILD_RANK) - count_above(same_colour, rank))
        if outlook.num_unseen[colour] > 0:
            value += SHED_BEATABLE * cost * count_above(outlook.unseen[colour], rank) / outlook.num_unseen[colour]
            value += PLENTIFUL * outlook.num_unseen[colour] / outlook.total_unseen
    hand = (
        view.hands[seat, 0] ^ (gone if colour == 0 else np.uint32(0)),
        view.hands[seat, 1] ^ (gone if colour == 1 else np.uint32(0)),
        view.hands[seat, 2] ^ (gone if colour == 2 else np.uint32(0)),
        view.hands[seat, 3] ^ (gone if colour == 3 else np.uint32(0)),
    )
    return value + EXPOSED * (1.0 - haste) * exposure(view, hand, view.ones[seat] > (action == WILD), outlook)


@kernel
def cost_of(view: Record, action: int) -> int:
    """What holding a card at the end of the round costs (R13)."""
    return np.int64(view.one_penalty) if action == WILD else np.int64(ACTION_RANK[action])


@kernel
def chances(view: Record, action: int, outlook: Outlook) -> tuple[float, float]:
    """How likely a play makes its seat a Fool of this trick (R9, R10), and how likely it wins (R8)."""
    colour, rank = ACTION_COLOUR[action], ACTION_RANK[action]
    order = view.num_plays - view.trick_start
    lead_colour = view.lead_colour if view.lead_colour >= 0 else colour  # still open for a 1
    key = trick_key(colour, rank, lead_colour, order)
    worse_needed = np.int64(view.num_fools)
    for i in range(view.num_fools):
        if view.worst_keys[i] < key:
            worse_needed -= 1
    if lead_colour < 0:
        # A 1 on an open colour: whoever sets the colour follows it, and nobody knows which it will be.
        fool = 0.0
        for set_colour in range(NUM_COLOURS):
            share = outlook.num_unseen[set_colour] / max(outlook.total_unseen, 1)
            higher = count_higher(outlook.unseen, set_colour, WILD_RANK, True)
            fool += share * fool_chance(outlook.lacks, 1, outlook.num_later, higher, worse_needed)
        return fool, 0.0
    follows = colour < 0 or colour == lead_colour
    higher = count_higher(outlook.unseen, lead_colour, rank, follows)
    win = 0.0
    if follows and key > view.best_key:
        win = 1.0
        for k in range(outlook.num_later):
            win *= outlook.lacks[k, lead_colour] ** higher[lead_colour]
    return fool_chance(outlook.lacks, 0, outlook.num_later, higher, worse_needed), win


@kernel
def count_higher(unseen: FourCounts, lead_colour: int, rank: int, follows: bool) -> FourCounts:
    """Count the unseen cards a seat must lack, colour by colour, if its highest card is to be worse than a given one.

    Than one of the lead colour (or a 1): the higher ones of that colour. Than one off colour: all of the lead colour
    and the higher ones off colour (R9); an equal one played later is worse.
    """
    return (
        _count_higher_of(unseen, 0, lead_colour, rank, follows),
        _count_higher_of(unseen, 1, lead_colour, rank, follows),
        _count_higher_of(unseen, 2, lead_colour, rank, follows),
        _count_higher_of(unseen, 3, lead_colour, rank, follows),
    )


@kernel
def _count_higher_of(unseen: FourCounts, colour: int, lead_colour: int, rank: int, follows: bool) -> int:
    if follows:
        return count_above(unseen[colour], rank) if colour == lead_colour else np.int64(0)
    return count_above(unseen[colour], WILD_RANK if colour == lead_colour else rank)


@kernel
def worse_chance(lacks: np.ndarray, row: int, higher: FourCounts) -> float:
    """The chance that the seat of a row plays a worse card: that it holds none of the higher ones counted."""
    chance = 1.0
    for colour in range(NUM_COLOURS):
        if higher[colour] > 0:
            chance *= lacks[row, colour] ** higher[colour]
    return chance


@kernel
def fool_chance(lacks: np.ndarray, first: int, last: int, higher: FourCounts, worse_needed: int) -> float:
    """The chance that too few of the seats first..last-1 play a worse card for one to be spared the disc (R10)."""
    if worse_needed == 0:
        return 0.0
    # The chance of none, exactly one and exactly two, as long as these are too few: there are at most MAX_FOOLS Fools.
    none, one, two = 1.0, 0.0, 0.0
    for k in range(first, last):
        chance = worse_chance(lacks, k, higher)
        if worse_needed > 2:
            two += chance * (one - two)
        if worse_needed > 1:
            one += chance * (none - one)
        none *= 1.0 - chance
    return none + one + two


@kernel
def exposure(view: Record, hand: FourCounts, has_ones: bool, outlook: Outlook) -> float:
    """The chance to be a Fool with a hand's best card, all others playing, in a colour drawn from the unseen cards."""
    top = max(highest_rank(hand[0]), highest_rank(hand[1]), highest_rank(hand[2]), highest_rank(hand[3]))
    exposed = 0.0
    for lead_colour in range(NUM_COLOURS):
        best = best_in(hand[lead_colour], has_ones, top)
        if best == outlook.best[lead_colour]:  # as with the whole hand: most are
            exposed += outlook.exposed[lead_colour]
        else:
            exposed += exposed_in(view, lead_colour, best, outlook.unseen, outlook.total_unseen, outlook.lacks)
    return exposed


@kernel
def best_in(cards: int, has_ones: bool, top: int) -> int:
    """The rank of the best card to play where a colour is led, below 0 if it does not follow."""
    return highest_rank(cards) if cards != 0 or has_ones else -top


@kernel
def exposed_in(
    view: Record, lead_colour: int, best: int, unseen: FourCounts, total_unseen: int, lacks: np.ndarray
) -> float:
    """The chance that a colour is led, drawn from the unseen cards, and that its `best_in` is then a Fool's card."""
    if unseen[lead_colour] == 0:
        return 0.0
    chance = worse_chance(lacks, _OTHER, count_higher(unseen, lead_colour, abs(best), best > 0))
    others = view.num_players - view.num_fools - 1
    return binomial_below(view.num_fools, others, chance) * count_above(unseen[lead_colour], WILD_RANK) / total_unseen


@kernel
def binomial_below(limit: int, trials: int, chance: float) -> float:
    """The chance of fewer than `limit` successes, where `limit` is no more than the trials."""
    if chance == 1.0:
        return 0.0
    exactly = (1.0 - chance) ** trials
    total = exactly
    for successes in range(1, limit):
        exactly *= chance / (1.0 - chance) * (trials - successes + 1) / successes
        total += exactly
    return total


@kernel
def look_out(view: Record) -> Outlook:
    """The `Outlook` of the seat to act, from its hand and what is public."""
    later = np.empty(MAX_PLAYERS, np.int64)
    num_later = seats_to_come(view, later)
    lacks = np.ones((MAX_PLAYERS, NUM_COLOURS))
    fill_lacks(view, later[:num_later], lacks)
    unseen = unseen_in(view, 0), unseen_in(view, 1), unseen_in(view, 2), unseen_in(view, 3)
    num_unseen = (
        count_above(unseen[0], WILD_RANK),
        count_above(unseen[1], WILD_RANK),
        count_above(unseen[2], WILD_RANK),
        count_above(unseen[3], WILD_RANK),
    )
    total = num_unseen[0] + num_unseen[1] + num_unseen[2] + num_unseen[3]
    hand, has_ones = view.hands[view.player], view.ones[view.player] > 0
    top = max(highest_rank(hand[0]), highest_rank(hand[1]), highest_rank(hand[2]), highest_rank(hand[3]))
    best = (
        best_in(hand[0], has_ones, top),
        best_in(hand[1], has_ones, top),
        best_in(hand[2], has_ones, top),
        best_in(hand[3], has_ones, top),
    )
    exposed = (
        exposed_in(view, 0, best[0], unseen, total, lacks),
        exposed_in(view, 1, best[1], unseen, total, lacks),
        exposed_in(view, 2, best[2], unseen, total, lacks),
        exposed_in(view, 3, best[3], unseen, total, lacks),
    )
    tricks_left, held = fewest_tricks_left(view, later[:num_later]), held_penalty(view, view.player)
    return Outlook(num_later, tricks_left, unseen, num_unseen, total, lacks, held, best, exposed)


@kernel
def unseen_in(view: Record, colour: int) -> int:
    """The cards of a colour that are neither in the hand of the seat to act nor played, as bits."""
    return deck_mask(view, colour) & ~(view.hands[view.player, colour] | view.played[colour])


@kernel
def fill_lacks(view: Record, later: np.ndarray, lacks: np.ndarray) -> None:
    """Fill in `Outlook.lacks`: a colour is spread over the hands of those that have not shown to lack it (R16)."""
    cards = np.int64(0)
    for other in range(view.num_players):
        if other != view.player:
            cards += view.hand_sizes[other]
    for colour in range(NUM_COLOURS):
        places = np.int64(0)
        for other in range(view.num_players):
            if other != view.player and may_hold(view, other, colour):
                places += view.hand_sizes[other]
        if places == 0:
            continue
        for k in range(len(later)):
            if may_hold(view, later[k], colour):
                lacks[k, colour] = 1.0 - view.hand_sizes[later[k]] / places
        lacks[_OTHER, colour] = max(0.0, 1.0 - cards / (view.num_players - 1) / places)


@kernel
def seats_to_come(view: Record, later: np.ndarray) -> int:
    """Write the seats that play after the one to act in this trick, in order, and return how many there are."""
    count = view.trick_size - (view.num_plays - view.trick_start) - 1
    seat = np.int64(view.player)
    for k in range(count):
        seat = (seat + 1) % view.num_players
        while (view.fools >> seat) & 1:
            seat = (seat + 1) % view.num_players
        later[k] = seat
    return count


@kernel
def fewest_tricks_left(view: Record, later: np.ndarray) -> int:
    """How many tricks follow this one at the least: what the other seat with fewest cards after it still holds."""
    fewest = np.int64(NUM_CARDS)
    for other in range(view.num_players):
        if other != view.player:
            fewest = min(fewest, np.int64(view.hand_sizes[other]))
    for other in later:
        fewest = min(fewest, np.int64(view.hand_sizes[other]) - 1)
    return fewest


@kernel
def may_hold(view: Record, seat: int, colour: int) -> bool:
    """Whether a seat has not shown to hold no card of a colour (R16)."""
    return (view.voids[seat] >> colour) & 1 == 0
