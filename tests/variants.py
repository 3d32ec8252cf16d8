"""Random valid `Rules`, the whole range of them, for the tests that hold for any rules."""

from __future__ import annotations

from collections.abc import Callable

from fool_env import Rules

PRESETS = {
    **{f"official_{players}": Rules.official(players) for players in range(4, 9)},
    **{f"foppen_1995_{players}": Rules.foppen_1995(players) for players in range(3, 7)},
    "miniature": Rules.miniature(),
}

COLOUR_SIZES = (26, 22, 20, 14)
MAX_ONES = 6


def random_rules(randint: Callable[[int, int], int], num_players: int | None = None) -> Rules:
    """Rules with every field drawn by `randint(low, high)`, both ends included; the ends of games are kept near."""
    num_players = num_players or randint(3, 8)
    left = num_players * randint(1, (sum(COLOUR_SIZES) + MAX_ONES) // num_players)
    sizes = []
    for i, size in enumerate((MAX_ONES, *COLOUR_SIZES)):
        room_after = sum(COLOUR_SIZES[i:])
        sizes.append(randint(max(0, left - room_after), min(size, left)))
        left -= sizes[-1]
    num_ones, green, red, yellow, blue = sizes
    return Rules(
        num_players=num_players,
        highest_rank=(1 + green, 1 + red, 1 + yellow, 1 + blue),
        num_ones=num_ones,
        num_fools=randint(1, (num_players - 1) // 2),
        empty_hand_points=randint(1, 100),
        one_penalty=randint(0, 50),
        losing_total=randint(-150, -1),
        winning_tens=randint(1, 8),
    )
