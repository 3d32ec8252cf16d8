"""A table as an SVG picture: what one seat sees, that seat at the bottom."""

from __future__ import annotations

import math

import numpy as np

from .cards import ACTION_COLOUR, CARD_NAMES, COLOUR_NAMES, NUM_COLOURS, WILD
from .engine import legal_mask_of
from .state import NOBODY, hand_of, seats_of

_WIDTH, _HEIGHT = 720, 440
_CENTRE = (360, 178)
_SEAT_RADII = (288, 128)  # of the ellipse on which the seats lie, and of the smaller one with their cards
_TRICK_RADII = (160, 68)
_CARD = (34, 48)
_FILLS = ("#2e7d32", "#c62828", "#f9a825", "#1565c0", "#eceff1")  # green, red, yellow, blue, wild
_INKS = ("#fff", "#fff", "#222", "#fff", "#222")


def table_svg(view: np.void) -> str:
    """A view as an SVG document.

    Args:
        view: a seat's view, as `Game.view` gives it; of a full record, the hand of the seat to act is shown.
    """
    viewer = int(view["viewer"])
    if viewer == NOBODY:
        viewer = int(view["leader"] if view["player"] == NOBODY else view["player"])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'font-family="sans-serif" font-size="13" text-anchor="middle">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="16" fill="#f5f1e6"/>',
        f'<ellipse cx="{_CENTRE[0]}" cy="{_CENTRE[1]}" rx="236" ry="110" fill="#4b7f6a"/>',
        _text(_CENTRE[0], _CENTRE[1] + 5, _headline(view), "#fff"),
    ]
    parts += [_seat(view, seat, viewer) for seat in range(view["num_players"])]
    parts += [_trick_card(view, i, viewer) for i in range(view["trick_start"], view["num_plays"])]
    parts += _hand(view, viewer)
    return "\n".join([*parts, "</svg>", ""])


def _headline(view: np.void) -> str:
    if view["game_over"]:
        return "the game is over"
    if view["round_over"]:
        return "the round is over"
    lead = view["lead_colour"]
    return f"{COLOUR_NAMES[lead]} is led" if lead >= 0 else "any card may be led"


def _place(view: np.void, seat: int, viewer: int, radii: tuple[int, int]) -> tuple[int, int]:
    """Where a seat lies on an ellipse: the viewer at the bottom, the others to the left of it and on round."""
    num_players = int(view["num_players"])
    angle = math.pi / 2 + 2 * math.pi * ((seat - viewer) % num_players) / num_players
    return round(_CENTRE[0] + radii[0] * math.cos(angle)), round(_CENTRE[1] + radii[1] * math.sin(angle))


def _seat(view: np.void, seat: int, viewer: int) -> str:
    x, y = _place(view, seat, viewer, _SEAT_RADII)
    to_act, out = seat == view["player"], seat in seats_of(view["fools"])
    name = f"seat {seat}" + (" (you)" if seat == viewer else "") + (" deals" if seat == view["dealer"] else "")
    facts = f"{view['hand_sizes'][seat]} cards, total {view['scores'][seat]}"
    frame = "#d84315" if to_act else "#b0a58a"
    box = (
        f'<rect x="{x - 62}" y="{y - 22}" width="124" height="44" rx="8" fill="{"#ddd5c0" if out else "#fffdf6"}" '
        f'stroke="{frame}" stroke-width="{3 if to_act else 1}"/>'
    )
    parts = [box, _text(x, y - 4, name, "#222", bold=to_act), _text(x, y + 13, facts, "#555")]
    if out:
        parts += [f'<circle cx="{x + 48}" cy="{y - 22}" r="17" fill="#6a1b9a"/>', _text(x + 48, y - 18, "Fool", "#fff")]
    for colour in range(NUM_COLOURS):
        if view["voids"][seat] >> colour & 1:  # a struck-out dot for each colour that the seat has shown to lack
            dot = x - 50 + 12 * colour
            parts.append(f'<circle cx="{dot}" cy="{y + 22}" r="5" fill="{_FILLS[colour]}" stroke="#222"/>')
            parts.append(f'<path d="M{dot - 6} {y + 28}l12 -12" stroke="#222" stroke-width="2"/>')
    return "".join(parts)


def _trick_card(view: np.void, play: int, viewer: int) -> str:
    seat, action = int(view["history_seats"][play]), int(view["history_actions"][play])
    x, y = _place(view, seat, viewer, _TRICK_RADII)
    mark = "wins" if seat == view["best_seat"] else "Fool" if seat in view["worst_seats"][: view["num_fools"]] else ""
    return _card(x, y, action) + _text(x, y + 40, mark, "#fff")


def _hand(view: np.void, viewer: int) -> list[str]:
    """The viewer's cards in a row; if it is to act, the legal ones stand up."""
    hand = hand_of(view, viewer)
    legal = legal_mask_of(view) if view["player"] == viewer else np.zeros(WILD + 1, np.int8)
    step = min(_CARD[0] + 6, (_WIDTH - 80) // max(1, len(hand)))
    left = _WIDTH / 2 - step * (len(hand) - 1) / 2
    return [_card(round(left + step * i), 400 - 16 * int(legal[action]), action) for i, action in enumerate(hand)]


def _card(x: int, y: int, action: int) -> str:
    colour = int(ACTION_COLOUR[action])  # -1, the last of the fills, for a wild
    width, height = _CARD
    return (
        f'<rect x="{x - width // 2}" y="{y - height // 2}" width="{width}" height="{height}" rx="5" '
        f'fill="{_FILLS[colour]}" stroke="#fff" stroke-width="2"/>'
        f"{_text(x, y + 5, CARD_NAMES[action], _INKS[colour], bold=True)}"
    )


def _text(x: int, y: int, text: str, fill: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="{fill}"{weight}>{text}</text>'
