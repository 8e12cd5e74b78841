"""The noise of a series from commit to commit.

Estimated from the differences of neighbours, so that a change of level, which is one
difference among many, does not count as noise. Values that resemble their neighbours
(an AR(1) process) wander further than independent ones of the same differences: how much
they resemble each other follows from the differences two apart.

Values are logarithms; variances are pure numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dashboard.verdicts.noise import RESOLUTION, Floats, moderate
from dashboard.verdicts.runs import LEAST_RUN_NOISE

# Differences beyond this many deviations are changes or outliers, and count as this far.
_CLIP = 3.0
# E[min(Z^2, 9)] of a standard normal Z: what clipping leaves of a variance.
_LEFT = 0.99503

# Neighbouring differences share a value: so many of them tell as much as one alone.
_OVERLAP = 1.5

# From so many values on, the likeliest place of a step is left out of the noise.
_FEWEST_FOR_STEP = 5

# Fewer values tell nothing of their correlation.
_FEWEST_FOR_OWN = 10

# A correlation from fewer points than this is mostly chance; that of the others is used too.
_POINTS_OF_OTHERS = 20.0
_MOST_CORRELATION = 0.9
# The correlation of a series of which nothing is known.
_USUAL = 0.2

# The standard error of a correlation times the root of the number of points. One within its
# error of 0 is taken for 0; any other for somewhat more than it seems, since a correlation
# that is underestimated makes changes out of nothing.
_CORRELATION_ERROR = 1.2
_SAFETY = 0.75

# In a short history most differences may be changes: only from about this many values on do
# they tell the noise. Before, the rounds of single commits tell more, with the least that
# runs differ by added; they count as this many differences at most.
_POINTS_TO_TRUST = 20.0
_MOST_ROUNDS_DF = 4.0


@dataclass(frozen=True, slots=True)
class PointNoise:
    """The noise of a value at one commit, of N series; all arrays (N,).

    ``variance`` is that of one value, with ``df`` degrees of freedom, NaN where nothing is
    known; ``correlation`` that of neighbouring values, from 0 to 0.9.
    """

    variance: Floats
    df: Floats
    correlation: Floats

    def of_mean(self, series: int, count: Floats) -> Floats:
        """The variance of the mean of each ``count`` (K,) neighbouring values of one series."""
        rho = float(self.correlation[series])
        sums = (count * (1 - rho) - rho * (1 - rho**count)) / (1 - rho) ** 2
        together = 2 * sums / count - 1 if rho > 0 else np.ones_like(count)
        return np.asarray(self.variance[series] * together / count)

    def long_run(self, series: int) -> float:
        """The variance of one independent value that wanders as far as many of these."""
        rho = float(self.correlation[series])
        return float(self.variance[series]) * (1 + rho) / (1 - rho)


def point_noise(values: list[Floats], rounds_error: Floats, rounds_df: Floats) -> PointNoise:
    """The noise of alike series, each learning from the others.

    ``values`` are the series in order of their commits. ``rounds_error`` (N,) is the mean
    squared standard error of a value by its rounds, NaN where unknown, with ``rounds_df`` (N,).
    """
    pairs = [_differences(v) for v in values]
    first = np.array([_clipped(near) for near, _ in pairs])
    second = np.array([_clipped(far) for _, far in pairs])
    count = np.array([float(v.size) for v in values])
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.where((first > 0) & (count >= _FEWEST_FOR_OWN), second / first - 1, np.nan)
    correlation = _shared(own, count)
    df = np.maximum(count - 1, 0) / _OVERLAP
    variance = np.where(df > 0, first / (2 * (1 - correlation)), 0.0)
    mixed, mixed_df = _with_rounds(variance, df, count, rounds_error, rounds_df)
    noise = moderate(mixed, mixed_df)
    return PointNoise(noise.variance, noise.df, correlation)


def _with_rounds(
    variance: Floats, df: Floats, count: Floats, error: Floats, rounds_df: Floats
) -> tuple[Floats, Floats]:
    """Variance and degrees of freedom, each (N,), from the differences and from the rounds.

    A geometric mean: a change among few differences would outweigh any other estimate.
    """
    known = np.isfinite(error)
    guess_df = np.where(known, np.minimum(rounds_df, _MOST_ROUNDS_DF), 0.0)
    trusted = np.where(known, df * count / (count + _POINTS_TO_TRUST), df)
    total = trusted + guess_df
    by_rounds = np.log(np.where(known, error, 0.0) + LEAST_RUN_NOISE**2)
    by_differences = np.log(np.maximum(variance, RESOLUTION**2))
    mixed = (trusted * by_differences + guess_df * by_rounds) / np.maximum(total, 1e-9)
    return np.where(total > 0, np.exp(mixed), 0.0), total


def _differences(values: Floats) -> tuple[Floats, Floats]:
    """Differences of neighbours and of those two apart, less those across the likeliest step."""
    near, far = np.diff(values), values[2:] - values[:-2]
    if values.size < _FEWEST_FOR_STEP:
        return near, far
    left = np.arange(2, values.size - 1)
    before = np.cumsum(values)[1:-2] / left
    after = (values.sum() - before * left) / (values.size - left)
    gain = left * (values.size - left) * (after - before) ** 2
    place = int(left[np.argmax(gain)])
    return np.delete(near, place - 1), np.delete(far, [place - 2, place - 1])


def _clipped(differences: Floats) -> float:
    """The mean square of the differences with the far ones clipped; NaN without any."""
    if differences.size == 0:
        return float("nan")
    size = np.abs(differences)
    deviation = 1.4826 * float(np.median(size))
    if deviation == 0:
        # More than half are equal: what is left is what differs at all.
        return float(np.mean(size**2)) if np.count_nonzero(size) > 2 else 0.0
    clipped = np.minimum(size, _CLIP * deviation)
    return float(np.mean(clipped**2)) / _LEFT


def _shared(own: Floats, count: Floats) -> Floats:
    """Each series' correlation, (N,), drawn towards that of all."""
    known = np.isfinite(own)
    pool = max(0.0, float(np.median(own[known]))) if known.sum() > 2 else _USUAL
    mine = np.where(known, own, pool)
    mixed = (count * mine + _POINTS_OF_OTHERS * pool) / (count + _POINTS_OF_OTHERS)
    error = _CORRELATION_ERROR / np.sqrt(count + _POINTS_OF_OTHERS)
    sure = np.where(mixed > error, mixed + _SAFETY * error, 0.0)
    return np.asarray(np.clip(sure, 0.0, _MOST_CORRELATION))
