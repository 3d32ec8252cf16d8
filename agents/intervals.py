"""Means with 95% confidence intervals: Student's t over independent units (deals, or games)."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

Interval: TypeAlias = tuple[float, float]

_NORMAL_QUANTILE: Final = 1.959963984540054
_FEWEST: Final = {1: 12.706, 2: 4.303}


def t_quantile(degrees: int) -> float:
    """The 97.5% quantile of Student's t, to 0.2%: from a table for 1 and 2 degrees of freedom, then a series.

    The series in 1/degrees is Abramowitz and Stegun's 26.7.5.
    """
    if degrees in _FEWEST:
        return _FEWEST[degrees]
    z = _NORMAL_QUANTILE
    series = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(sum(term / degrees**power for power, term in enumerate(series)))


def mean_interval(values: np.ndarray) -> tuple[float, Interval | None]:
    """The mean of independent units and its 95% confidence interval [low, high]; a single unit has none.

    Args:
        values: float64 of shape (units,), at least one.
    """
    mean = float(values.mean())
    if len(values) < 2:
        return mean, None
    half = half_width(values)
    return mean, (mean - half, mean + half)


def half_width(values: np.ndarray) -> float:
    """Half the width of that interval: float64 of shape (units,), at least two."""
    return t_quantile(len(values) - 1) * float(values.std(ddof=1)) / len(values) ** 0.5
