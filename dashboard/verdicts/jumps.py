"""Series that jump between two levels, and the chance that a jump looks like a change.

Unlocked clocks and capped power leave some kernels with two speeds: a process
gets the one or the other. With three rounds a side, one such series in a hundred
has all its slow rounds on one side, each side as steady as could be. No test on
the series itself can tell that from a change; that alike series of the same check
jump as far *within* a side can. A series whose rounds never jumped so far at the commits
before is hardly one that does, unless others of that kind jump today: then the machine is
not what it was.
"""

from __future__ import annotations

import numpy as np

from dashboard.verdicts.noise import FEWEST_SERIES, Floats, Mask

# A side whose rounds range over this share of the effect jumps as far. Less would count the
# plain noise of hundreds of series, of which the t test knows already.
_LIKE = 0.9

# So many degrees of freedom of the past at most speak against a jump: what the code of today
# does is not quite what it did.
_MOST_PAST = 12.0

# Fewer series alike do not tell whether their kind jumps: one in fifty may, between two
# speeds that are equally likely.
_UNKNOWN_SHARE = 0.02

_BISECTIONS = 30


def jump_chance(
    effect: Floats,
    spread: Floats,
    base_rounds: Floats,
    head_rounds: Floats,
    past_squares: Floats,
    past_df: Floats,
) -> Floats:
    """The probability, (N,), that a jump alone makes an effect of this size.

    ``effect`` (N,) and ``spread`` (2, N), the range of the rounds of base and of
    head, are logarithmic; all series are taken as alike. A share of them jumps,
    each round with the same chance: both follow from how many series jump on one
    side and how many on both. ``past_squares`` (N,) are the squared deviations of
    earlier rounds from their runs' means, with ``past_df`` (N,).
    """
    least = _LIKE * np.abs(effect)
    both = _share_from(spread.min(axis=0), least)
    one = _share_from(spread.max(axis=0), least) - both
    with np.errstate(invalid="ignore", divide="ignore"):
        of_side = np.where(both > 0, 2 * both / (one + 2 * both), 0.0)
        share = np.where(both > 0, (one + both) / (1 - (1 - of_side) ** 2), 0.0)
    if effect.size < FEWEST_SERIES:
        share = np.maximum(share, _UNKNOWN_SHARE)
        of_side = np.where(both > 0, of_side, 1.0)
    slow = _chance_of_round(of_side, float(np.median(np.minimum(base_rounds, head_rounds))))
    apart = slow**base_rounds * (1 - slow) ** head_rounds
    apart += slow**head_rounds * (1 - slow) ** base_rounds
    rounds = np.maximum(np.minimum(base_rounds, head_rounds), 2.0)
    unseen = _chance_of_quiet(past_squares, past_df, least, slow, rounds)
    unseen[_jump_anew(spread.min(axis=0), past_squares, past_df, least)] = 1.0
    return np.minimum(share, 1.0) * apart * unseen


def _chance_of_quiet(
    squares: Floats, df: Floats, least: Floats, slow: Floats, rounds: Floats
) -> Floats:
    """The chance, (N,), that a series which jumps by ``least`` has so quiet a past."""
    from scipy import stats

    runs = np.floor(np.minimum(df, _MOST_PAST) / (rounds - 1))
    # A run with a jump has squares of least^2/2 or more: there were no more of them than this.
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.nan_to_num(np.floor(2 * squares / least**2), nan=np.inf)
    # All rounds of a run are of one kind with a chance of (1 - slow)^(rounds - 1) at most.
    mixed = 1 - (1 - slow) ** (rounds - 1)
    return np.asarray(stats.binom.cdf(np.minimum(most, runs), runs, mixed), dtype=np.float64)


def _jump_anew(reach: Floats, squares: Floats, df: Floats, least: Floats) -> Mask:
    """Of which of ``least`` (N,) a series jumps today that did not at the commits before.

    ``reach`` (N,) is how far each one's rounds range on both sides.
    """
    anew = (df > 0) & (squares < (_LIKE * reach) ** 2 / 2)
    farthest = reach[anew].max(initial=-np.inf)
    return np.asarray(least <= farthest)


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
