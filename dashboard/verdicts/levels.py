"""Where the level of a series changed: a penalised least-squares fit of steps.

The fit is ruptures' PELT. The penalty is the square of the t statistic that a step has to
reach, in units of the series' own noise, and grows with the number of places where a step
could be: a series of noise alone is split in fewer than one case in fifty, whatever its
length. A level holds for two commits at least; outliers, up to three in a row inside a
level, are drawn to their neighbours first.

Values are logarithms.
"""

from __future__ import annotations

import numpy as np

from dashboard.verdicts.noise import Floats

# The chance of a false split, all places of a series together; simulated, it is smaller,
# as neighbouring places are nearly the same place.
_FALSE_SPLIT = 0.04

# A value further than this many deviations from the median of its neighbourhood is drawn
# in to that distance.
_OUTLIER = 3.5
_NEIGHBOURS = 3

_SHORTEST = 2

# A value this many deviations out of the old level is no longer of it.
_BEGUN = 3.0

# Two values further apart than this many deviations are not of one level.
_APART = 5.0

# Places that fit worse by no more than this (in squared deviations) may be the true ones.
_AS_GOOD = 4.0


def tame(values: Floats, deviation: float) -> Floats:
    """``values`` (P,) with those far out of their neighbourhood drawn in; steps stay."""
    if values.size == 0:
        return values
    # Mirrored at its ends, else the first two values would be far out of a level that begins
    # with the third; a single one is far out of it still.
    padded = np.pad(values, _NEIGHBOURS, mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1)
    return _drawn_in(values, np.median(windows, axis=1), deviation)


def tame_levels(values: Floats, places: list[int], deviation: float) -> Floats:
    """``values`` (P,) with those far out of their level drawn in; levels begin at ``places``."""
    levels = np.split(values, places)
    middle = np.concatenate([np.full(level.size, np.median(level)) for level in levels])
    return _drawn_in(values, middle, deviation)


def _drawn_in(values: Floats, middle: Floats, deviation: float) -> Floats:
    reach = _OUTLIER * deviation
    return np.asarray(np.clip(values, middle - reach, middle + reach))


def change_points(values: Floats, deviation: float, df: float) -> list[int]:
    """The first index of each new level of ``values`` (P,), tamed.

    ``deviation`` is the standard deviation of one value as if they were independent,
    with ``df`` degrees of freedom.
    """
    if values.size < 2 * _SHORTEST or not np.isfinite(deviation) or deviation <= 0:
        return []
    from ruptures import KernelCPD  # type: ignore[import-untyped]

    penalty = _least_t(values.size, df) ** 2
    if (values.size * np.var(values)) / deviation**2 <= penalty:
        return []
    model = KernelCPD(kernel="linear", min_size=_SHORTEST)
    scaled = ((values - values.mean()) / deviation).reshape(-1, 1)
    return [int(end) for end in model.fit(scaled).predict(pen=penalty)[:-1]]


def settle(values: Floats, places: list[int], deviation: float) -> list[int]:
    """``places`` without levels of two values that have nothing in common.

    Where two commits in a row each made a step, the value between belongs to no level that
    holds; the fit pairs it with a neighbour, and so moves a change to a commit that made
    none. Such a pair is shared out among the levels around it.
    """
    settled = list(places)
    for at in range(len(places) - 2, -1, -1):
        start, end = settled[at], settled[at + 1]
        if end - start != _SHORTEST or np.ptp(values[start:end]) <= _APART * deviation:
            continue
        before = np.mean(values[(settled[at - 1] if at else 0) : start])
        after = np.mean(values[end : settled[at + 2] if at + 2 < len(settled) else None])
        misfit = [
            np.sum((values[start:cut] - before) ** 2) + np.sum((values[cut:end] - after) ** 2)
            for cut in range(start, end + 1)
        ]
        settled[at : at + 2] = [start + int(np.argmin(misfit))]
    return settled


def _least_t(size: int, df: float) -> float:
    from scipy import stats

    return float(stats.t.isf(_FALSE_SPLIT / size / 2, max(df, 1.0)))


def plausible_places(
    values: Floats, start: int, place: int, end: int, deviation: float
) -> tuple[int, int]:
    """The first and last place where the step at ``place`` may as well be.

    ``values[start:end]`` are the levels before and after it. A value just before the step
    that is far out of the old level towards the new one is where the step may have begun.
    """
    part = values[start:end]
    total = np.cumsum(part)
    left = np.arange(1, part.size)
    right = part.size - left
    before = total[:-1] / left
    after = (total[-1] - total[:-1]) / right
    gain = left * right / part.size * (after - before) ** 2 / deviation**2
    good = gain >= gain[place - start - 1] - _AS_GOOD
    first = last = place - start - 1
    old, rise = np.median(values[start:place]), values[place] - np.median(values[start:place])
    out = np.sign(rise) * (part - old) > _BEGUN * deviation
    while first > 0 and (good[first - 1] or out[first]):
        first -= 1
    while last < good.size - 1 and good[last + 1]:
        last += 1
    return start + first + 1, start + last + 1
