"""The rules on one record, compiled. Nothing here checks that an action is legal: callers do (`is_legal`)."""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from .cards import ACTION_COLOUR, ACTION_RANK, COLOUR_OFFSETS, LOWEST_RANK, NUM_ACTIONS, NUM_CARDS, NUM_COLOURS, WILD
from .rng import advance, below, derive, output
from .rules import MAX_PLAYERS
from .state import GAME, NOBODY, OPEN, Record

# A trick has at most 8 cards; the earlier card of two equals is the better one (R8, R9).
_KEY_STEP = 8
# More than any rank: a card of the lead colour is better than any off-colour card (R9).
_LEAD_BONUS = 32
_NO_KEY = np.int16(32767)

_ALL_COLOURS = (1 << NUM_COLOURS) - 1

_WORD = np.uint64(64)
_RED_SHIFT, _YELLOW_SHIFT, _BLUE_SHIFT = (np.uint64(offset) for offset in COLOUR_OFFSETS[1:])
_BYTE = np.uint64(255)
NUM_BYTES = WILD // 8
"""The whole bytes in a set of coloured actions; two actions are left over."""
BYTE_FLAGS = np.array([[byte >> bit & 1 for bit in range(8)] for byte in range(256)], dtype=np.int8)
"""The eight bits of every byte."""


@kernel
def start_game(game: Record, seed: np.uint64) -> None:
    """Deal the first round of a game to a dealer drawn by lot (R4), everything depending on the seed alone."""
    game.rng = derive(seed, 0)
    for seat in range(MAX_PLAYERS):
        game.scores[seat] = 0
        game.points[seat] = 0
        game.tens[seat] = 0
    game.num_rounds = 0
    game.game_over = 0
    game.rng = advance(game.rng)
    game.dealer = below(output(game.rng), game.num_players)
    deal(game)


@kernel
def next_round(game: Record) -> None:
    """Pass the deal to the left and deal again (R4)."""
    game.dealer = (game.dealer + 1) % game.num_players
    deal(game)


@kernel
def deal(game: Record) -> None:
    """Shuffle and deal the whole deck evenly (R4), then start the round."""
    clear_hands(game)
    cards = np.empty(NUM_CARDS, np.uint8)
    size = 0
    for colour in range(NUM_COLOURS):
        for i in range(game.highest_rank[colour] - 1):
            cards[size] = COLOUR_OFFSETS[colour] + i
            size += 1
    for _ in range(game.num_ones):
        cards[size] = WILD
        size += 1
    hand_size = size // game.num_players
    # Fisher-Yates, each card drawn going straight to a hand: the last seat's is filled first.
    for left in range(size, 0, -1):
        game.rng = advance(game.rng)
        i = below(output(game.rng), left)
        give_card(game, (left - 1) // hand_size, cards[i])
        cards[i] = cards[left - 1]
    start_round(game)


@kernel
def clear_hands(game: Record) -> None:
    """Take all cards back."""
    for seat in range(MAX_PLAYERS):
        game.ones[seat] = 0
        game.hand_sizes[seat] = 0
        for colour in range(NUM_COLOURS):
            game.hands[seat, colour] = 0


@kernel
def give_card(game: Record, seat: int, action: int) -> None:
    """Put one card into a hand."""
    colour = ACTION_COLOUR[action]
    if colour < 0:
        game.ones[seat] += 1
    else:
        game.hands[seat, colour] |= np.uint32(1) << np.uint32(ACTION_RANK[action] - LOWEST_RANK)
    game.hand_sizes[seat] += 1


@kernel
def start_round(game: Record) -> None:
    """Open the first trick of the hands just dealt: all take part, left of the dealer leads (R4, R5)."""
    for seat in range(MAX_PLAYERS):
        game.voids[seat] = 0
        game.times_fool[seat] = 0
    for colour in range(NUM_COLOURS):
        game.played[colour] = 0
    for i in range(NUM_CARDS):
        game.history_seats[i] = 0
        game.history_actions[i] = 0
    game.ones_played = 0
    game.num_plays = 0
    game.num_tricks = 0
    game.last_trick_size = 0
    game.fools = 0
    game.round_over = 0
    _start_trick(game, (game.dealer + 1) % game.num_players, game.num_players)


@kernel
def _start_trick(game: Record, leader: int, size: int) -> None:
    game.leader = leader
    game.player = leader
    game.trick_start = game.num_plays
    game.trick_size = size
    game.lead_colour = OPEN
    game.best_key = -1
    game.best_seat = NOBODY
    for i in range(game.num_fools):
        game.worst_keys[i] = _NO_KEY
        game.worst_seats[i] = NOBODY


@kernel
def legal_colours(game: Record, seat: int) -> int:
    """The set of colours that the seat may play now, as bits: the lead colour alone if it holds any of it (R6)."""
    lead_colour = max(game.lead_colour, 0)
    must_follow = (game.lead_colour >= 0) & (game.hands[seat, lead_colour] != 0)
    return 1 << lead_colour if must_follow else _ALL_COLOURS


@kernel
def is_legal(game: Record, action: int) -> bool:
    """Whether the seat to act may play this card now (R6, R7). Any integer may be asked about."""
    seat = game.player
    if seat < 0 or action < 0 or action > WILD:
        return False
    if action == WILD:
        return game.ones[seat] > 0
    colour = ACTION_COLOUR[action]
    if not (legal_colours(game, seat) >> colour) & 1:
        return False
    return (game.hands[seat, colour] >> np.uint32(ACTION_RANK[action] - LOWEST_RANK)) & 1 == 1


@kernel
def legal_hand(game: Record, colour: int) -> int:
    """The cards of one colour that the seat to act may play now (R6), as bits like those of `hands`."""
    seat = game.player
    # 0 or all ones: a multiplication in place of a branch that nobody could predict.
    return game.hands[seat, colour] * np.uint32((legal_colours(game, seat) >> colour) & 1)


@kernel
def action_bits(green: int, red: int, yellow: int, blue: int) -> tuple[np.uint64, np.uint64]:
    """Four colour masks as one set of coloured actions: bits 0-63 and bits 64-81."""
    low = np.uint64(green) | (np.uint64(red) << _RED_SHIFT) | (np.uint64(yellow) << _YELLOW_SHIFT)
    high = (np.uint64(yellow) >> (_WORD - _YELLOW_SHIFT)) | (np.uint64(blue) << (_BLUE_SHIFT - _WORD))
    return low, high


@kernel
def byte_of(low: np.uint64, high: np.uint64, index: int) -> np.uint64:
    """One byte of a set of actions: those from 8 * index on."""
    if index < 8:
        return (low >> np.uint64(8 * index)) & _BYTE
    return (high >> np.uint64(8 * index - 64)) & _BYTE


@kernel
def legal_mask(game: Record, mask: np.ndarray) -> None:
    """Fill int8[83] with 1 for each action that the seat to act may choose (R6, R7), 0 elsewhere."""
    if game.player < 0:
        mask[:] = 0
        return
    low, high = action_bits(legal_hand(game, 0), legal_hand(game, 1), legal_hand(game, 2), legal_hand(game, 3))
    # A byte at a time from a table: four times as fast as bit by bit.
    for index in range(NUM_BYTES):
        byte = byte_of(low, high, index)
        for i in range(8):
            mask[8 * index + i] = BYTE_FLAGS[byte, i]
    byte = byte_of(low, high, NUM_BYTES)
    for i in range(WILD - 8 * NUM_BYTES):
        mask[8 * NUM_BYTES + i] = BYTE_FLAGS[byte, i]
    mask[WILD] = game.ones[game.player] > 0


@kernel
def legal_actions(game: Record, actions: np.ndarray) -> int:
    """Write the legal actions of the seat to act, ascending, into int64[83], and return how many there are."""
    if game.player < 0:
        return 0
    count = 0
    for colour in range(NUM_COLOURS):
        cards = legal_hand(game, colour)
        action = COLOUR_OFFSETS[colour]
        while cards:
            if cards & np.uint32(1):
                actions[count] = action
                count += 1
            cards >>= np.uint32(1)
            action += 1
    if game.ones[game.player] > 0:
        actions[count] = WILD
        count += 1
    return count


@kernel
def trick_key(colour: int, rank: int, lead_colour: int, order: int) -> int:
    """The place of a card in its trick: the winner has the highest key, the Fools have the lowest (R8-R10).

    Off-colour cards lie below those of the lead colour, a 1 (colour -1) counts as the lead colour's lowest card,
    and of two equals the one played first is the better; `order` counts the trick's plays from 0.
    """
    follows = colour < 0 or colour == lead_colour
    return (np.int64(rank) + (_LEAD_BONUS if follows else 0)) * _KEY_STEP + (_KEY_STEP - 1 - order)


@kernel
def play(game: Record, action: int) -> None:
    """Play a legal card for the seat to act; finish the trick, the round and the game if that is its turn."""
    seat = game.player
    _lay_card(game, seat, action)
    if game.num_plays - game.trick_start == game.trick_size:
        _resolve_trick(game)
    else:
        game.player = _next_seat(game, seat)


@kernel
def _lay_card(game: Record, seat: int, action: int) -> None:
    """Move a card from the hand to the trick, and note what the play shows about the hand (R16)."""
    colour, rank = ACTION_COLOUR[action], ACTION_RANK[action]
    if colour < 0:
        game.ones[seat] -= 1
        game.ones_played += 1
    else:
        bit = np.uint32(1) << np.uint32(rank - LOWEST_RANK)
        game.hands[seat, colour] ^= bit
        game.played[colour] |= bit
        if game.lead_colour < 0:
            game.lead_colour = colour
        elif colour != game.lead_colour:
            game.voids[seat] |= 1 << game.lead_colour
    game.hand_sizes[seat] -= 1
    key = trick_key(colour, rank, game.lead_colour, game.num_plays - game.trick_start)
    if key > game.best_key:
        game.best_key = key
        game.best_seat = seat
    _rank_among_worst(game, seat, key)
    game.history_seats[game.num_plays] = seat
    game.history_actions[game.num_plays] = action
    game.num_plays += 1


@kernel
def _rank_among_worst(game: Record, seat: int, key: int) -> None:
    """Keep the num_fools worst cards of the trick so far in order (R9, R10)."""
    for i in range(game.num_fools):
        if key < game.worst_keys[i]:
            worse_key, worse_seat = game.worst_keys[i], game.worst_seats[i]
            game.worst_keys[i], game.worst_seats[i] = key, seat
            key, seat = worse_key, worse_seat


@kernel
def _next_seat(game: Record, seat: int) -> int:
    """The next seat to the left that takes part in this trick (R4, R10)."""
    seat += 1
    if seat == game.num_players:
        seat = 0
    while (game.fools >> seat) & 1:
        seat += 1
        if seat == game.num_players:
            seat = 0
    return seat


@kernel
def _resolve_trick(game: Record) -> None:
    """Hand out the discs (R9-R11) and open the next trick, or end the round once a hand is empty (R12)."""
    fools = 0
    for i in range(game.num_fools):
        fools |= 1 << game.worst_seats[i]
        game.times_fool[game.worst_seats[i]] += 1
    game.fools = fools
    game.last_trick_size = game.trick_size
    game.num_tricks += 1
    emptied = False
    for seat in range(game.num_players):
        emptied |= game.hand_sizes[seat] == 0
    _start_trick(game, game.best_seat, game.num_players - game.num_fools)
    if emptied:
        game.player = NOBODY
        game.round_over = 1
        score_round(game)


@kernel
def score_round(game: Record) -> None:
    """Score the hands (R13), and end the game if a total or a count of tens says so (R14)."""
    over = game.one_round == 1
    for seat in range(game.num_players):
        if game.hand_sizes[seat] > 0:
            points = -held_penalty(game, seat)
        elif (game.fools >> seat) & 1:
            points = 0
        else:
            points = game.empty_hand_points
            game.tens[seat] += 1
        game.points[seat] = points
        game.scores[seat] += points
        over |= game.scores[seat] <= game.losing_total or game.tens[seat] >= game.winning_tens
    game.num_rounds += 1
    game.game_over = over


@kernel
def held_penalty(game: Record, seat: int) -> int:
    """The points that the cards still in a hand cost: their ranks, and one_penalty for each 1 (R13)."""
    penalty = game.one_penalty * game.ones[seat]
    for colour in range(NUM_COLOURS):
        hand = game.hands[seat, colour]
        rank = LOWEST_RANK
        while hand:
            if hand & np.uint32(1):
                penalty += rank
            hand >>= np.uint32(1)
            rank += 1
    return penalty


@kernel
def winners(game: Record) -> int:
    """The set of seats with the highest total (R15), as bits."""
    best = game.scores[0]
    for seat in range(1, game.num_players):
        best = max(best, game.scores[seat])
    seats = 0
    for seat in range(game.num_players):
        if game.scores[seat] == best:
            seats |= 1 << seat
    return seats


@kernel
def hide(game: Record, seat: int) -> None:
    """Turn a record into the seat's view of it: the other hands and the luck to come are blanked (R16, R17)."""
    game.viewer = seat
    game.rng = 0
    for other in range(game.num_players):
        if other != seat:
            game.ones[other] = 0
            for colour in range(NUM_COLOURS):
                game.hands[other, colour] = 0


@kernel
def _legal_masks(games: np.ndarray, masks: np.ndarray) -> None:
    for i in range(len(games)):
        legal_mask(games[i], masks[i])


def legal_mask_of(game: np.void) -> np.ndarray:
    """The action mask of one record: int8[83], 1 for each legal action of the seat to act."""
    mask = np.zeros((1, NUM_ACTIONS), np.int8)
    _legal_masks(np.array([game], GAME), mask)
    return mask[0]
