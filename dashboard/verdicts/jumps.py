"""Series that jump between two levels, and the chance that a jump looks like a change.

Unlocked clocks and capped power leave some kernels with two speeds: a process
gets the one or the other. With three rounds a side, one such series in a hundred
has all its slow rounds on one side, each side as steady as could be. No test on
the series itself can tell that from a change; that alike series of the same check
jump as far *within* a side can.
"""

from __future__ import annotations

import numpy as np

from dashboard.verdicts.noise import Floats

# A side whose rounds range over this share of the effect jumps as far. Less would count the
# plain noise of hundreds of series, of which the t test knows already.
_LIKE = 0.9

_BISECTIONS = 30


def jump_chance(effect: Floats, spread: Floats, base_rounds: Floats, head_rounds: Floats) -> Floats:
    """The probability, (N,), that a jump alone makes an effect of this size.

    ``effect`` (N,) and ``spread`` (2, N), the range of the rounds of base and of
    head, are logarithmic; all series are taken as alike. A share of them jumps,
    each round with the same chance: both follow from how many series jump on one
    side and how many on both.
    """
    least = _LIKE * np.abs(effect)
    both = _share_from(spread.min(axis=0), least)
    one = _share_from(spread.max(axis=0), least) - both
    with np.errstate(invalid="ignore", divide="ignore"):
        of_side = np.where(both > 0, 2 * both / (one + 2 * both), 0.0)
        share = np.where(both > 0, (one + both) / (1 - (1 - of_side) ** 2), 0.0)
    slow = _chance_of_round(of_side, float(np.median(np.minimum(base_rounds, head_rounds))))
    apart = slow**base_rounds * (1 - slow) ** head_rounds
    apart += slow**head_rounds * (1 - slow) ** base_rounds
    return np.minimum(share, 1.0) * apart


def _share_from(values: Floats, least: Floats) -> Floats:
    """The share of ``values`` (K,) that reach each of ``least`` (N,); (N,)."""
    return 1 - np.searchsorted(np.sort(values), least, side="left") / values.size


def _chance_of_round(of_side: Floats, rounds: float) -> Floats:
    """The q <= 1/2, (N,), of which a side of ``rounds`` is mixed with chance ``of_side`` (N,)."""
    low, high = np.zeros_like(of_side), np.full_like(of_side, 0.5)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        mixed = 1 - middle**rounds - (1 - middle) ** rounds
        low, high = np.where(mixed < of_side, middle, low), np.where(mixed < of_side, high, middle)
    return high
