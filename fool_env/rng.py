"""SplitMix64 (Steele, Lea, Flood 2014): the generator in every game record, and seeds derived from seeds.

One uint64 is the whole state, so a game's luck lives in its own record.
"""

from __future__ import annotations

import secrets

import numpy as np

from ._jit import kernel

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
# Another finaliser (MurmurHash3's), so that derived seeds are not the generator's own outputs.
_DERIVE_1 = np.uint64(0xFF51AFD7ED558CCD)
_DERIVE_2 = np.uint64(0xC4CEB9FE1A85EC53)
_1 = np.uint64(1)
_27 = np.uint64(27)
_30 = np.uint64(30)
_31 = np.uint64(31)
_32 = np.uint64(32)
_33 = np.uint64(33)

SEED_LIMIT = 2**64


@kernel
def advance(state: np.uint64) -> np.uint64:
    """The state after one draw; `output` turns a state into its random number."""
    return state + _GAMMA


@kernel
def output(state: np.uint64) -> np.uint64:
    """64 random bits of a state."""
    z = (state ^ (state >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


@kernel
def below(bits: np.uint64, bound: int) -> int:
    """A number in 0..bound-1 out of 64 random bits; for bounds under 2**7 its bias is under 2**-25."""
    return np.int64(((bits >> _32) * np.uint64(bound)) >> _32)


@kernel
def derive(seed: np.uint64, index: int) -> np.uint64:
    """The seed numbered `index` of those that hang under `seed`; chain it for deals within a run, and so on."""
    z = seed + _GAMMA * (np.uint64(index) + _1)
    z = (z ^ (z >> _33)) * _DERIVE_1
    z = (z ^ (z >> _33)) * _DERIVE_2
    return z ^ (z >> _33)


def checked_seed(seed: int | None) -> np.uint64:
    """A seed as uint64; None draws one from the operating system.

    Raises:
        ValueError: not a whole number from 0 to 2**64 - 1.
    """
    if seed is None:
        return np.uint64(secrets.randbits(64))
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
        raise ValueError(f"seed: {seed!r} is not a whole number")
    if not 0 <= seed < SEED_LIMIT:
        raise ValueError(f"seed: {seed} is not within 0 to 2**64 - 1")
    return np.uint64(seed)
