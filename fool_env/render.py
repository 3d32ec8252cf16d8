"""A table as text: what one seat sees, or the whole table when a full record is given; and why an action is illegal."""

from __future__ import annotations

import numpy as np

from .cards import CARD_NAMES, COLOUR_NAMES, NUM_ACTIONS, NUM_COLOURS, card_names
from .engine import legal_mask_of
from .state import NOBODY, hand_of, seats_of

RENDER_MODES = ("human", "ansi")
"""human: print the table; ansi: return it as text."""


def checked_render_mode(mode: str | None) -> str | None:
    """A render mode, or None.

    Raises:
        ValueError: there is no such mode.
    """
    if mode is not None and mode not in RENDER_MODES:
        raise ValueError(f"render_mode: {mode!r} is neither {' nor '.join(map(repr, RENDER_MODES))}")
    return mode


def table_text(game: np.void) -> str:
    """A record as a table of seats, then the hand of the seat to act and its legal cards.

    Args:
        game: a view, whose viewer's hand alone is shown, or a full record, which shows every hand.
    """
    lines = [_headline(game), _HEADER]
    lines += [_seat_line(game, seat) for seat in range(game["num_players"])]
    viewer, player = int(game["viewer"]), int(game["player"])
    shown = range(game["num_players"]) if viewer == NOBODY else [viewer]
    for seat in shown:
        lines.append(f"hand of seat {seat}: {' '.join(card_names(hand_of(game, seat))) or '-'}")
    if player in shown:
        legal = np.flatnonzero(legal_mask_of(game))
        lines.append(f"legal: {' '.join(card_names(legal))}")
    return "\n".join(lines)


_HEADER = "  seat  total  tens  cards  this trick  shown void in"


def _headline(game: np.void) -> str:
    place = f"FOOL, {game['num_players']} players, round {game['num_rounds'] + 1}, trick {game['num_tricks'] + 1}: "
    if game["game_over"]:
        return f"FOOL, {game['num_players']} players: game over after {game['num_rounds']} rounds"
    if game["round_over"]:
        return f"FOOL, {game['num_players']} players: round {game['num_rounds']} is over"
    lead = game["lead_colour"]
    led = f"{COLOUR_NAMES[lead]} is led" if lead >= 0 else "the colour is open"
    return f"{place}seat {game['player']} to play, {led}"


def _seat_line(game: np.void, seat: int) -> str:
    marker = ">" if seat == game["player"] else " "
    void = " ".join(COLOUR_NAMES[colour] for colour in range(NUM_COLOURS) if game["voids"][seat] >> colour & 1)
    numbers = f"{game['scores'][seat]:>5}  {game['tens'][seat]:>4}  {game['hand_sizes'][seat]:>5}"
    return f"{marker} {seat:>4}  {numbers}  {_trick_cell(game, seat):<10}  {void}".rstrip()


def _trick_cell(game: np.void, seat: int) -> str:
    if game["round_over"]:
        return f"{game['points'][seat]:+} points"
    if seat in seats_of(game["fools"]):
        return "Fool, out"
    for i in range(game["trick_start"], game["num_plays"]):
        if game["history_seats"][i] == seat:
            wins = " wins" if seat == game["best_seat"] else ""
            fool = " Fool" if seat in game["worst_seats"][: game["num_fools"]] else ""
            return f"{CARD_NAMES[game['history_actions'][i]]}{wins or fool}"
    return "-"


def illegal_action_message(game: np.void, action: int) -> str:
    """Why an action is illegal in a record: the card, the hand, the legal cards."""
    card = CARD_NAMES[action] if 0 <= action < NUM_ACTIONS else f"action {action}"
    player = int(game["player"])
    if player == NOBODY:
        return f"{card} cannot be played: the {'game' if game['game_over'] else 'round'} is over"
    hand = hand_of(game, player)
    legal = card_names(np.flatnonzero(legal_mask_of(game)))
    if card not in CARD_NAMES:
        why = f"is no card: actions are 0 to {NUM_ACTIONS - 1}"
    elif action not in hand:
        why = f"is not in the hand of seat {player}"
    else:
        why = f"does not follow {COLOUR_NAMES[game['lead_colour']]}, which seat {player} holds"
    return f"{card} {why}; hand: {' '.join(card_names(hand))}; legal: {' '.join(legal)}"
