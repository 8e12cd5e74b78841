"""What a series' earlier commits tell of its noise.

Three rounds a side leave four degrees of freedom; the rounds of the commits before have
many more. They are believed as far as today's rounds do not contradict them: a machine that
has become noisier is judged by what it is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dashboard.verdicts.noise import Floats
from dashboard.verdicts.points import point_noise

# The past counts as so many degrees of freedom at most: today's rounds keep their say.
_MOST_DF = 12.0

# Fewer runs tell nothing of how runs differ.
_FEWEST_RUNS = 8

# So many series are enough to speak of a movement that they share.
_FEWEST_SERIES = 8

# A run's value is the median of its rounds, which errs more than their mean.
_OF_MEDIAN = 1.35

# Today's rounds contradict the past if they would be as wild by chance this rarely.
_NOISIER = 0.01


@dataclass(frozen=True, slots=True)
class Past:
    """The noise of a series at earlier commits; logarithmic.

    ``squares`` are the summed squared deviations of rounds from their run's mean, with ``df``
    degrees of freedom; ``run_variance`` is what its runs differ by, beyond their rounds and
    beyond what all series of the machine differ by together.
    """

    squares: float
    df: float
    run_variance: float


NO_PAST = Past(0.0, 0.0, 0.0)


def with_past(variance: Floats, df: Floats, past: Sequence[Past]) -> tuple[Floats, Floats]:
    """One round's variance and its degrees of freedom, each (N,), after learning of the past."""
    from scipy import stats

    past_df = np.array([p.df for p in past])
    if not past_df.any():
        return variance.copy(), df.copy()
    squares = np.array([p.squares for p in past])
    past_variance = squares / np.maximum(past_df, 1)
    weight = np.minimum(past_df, _MOST_DF)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = variance / past_variance
    chance = stats.f.sf(ratio, np.maximum(df, 1), np.maximum(past_df, 1))
    weight[(df > 0) & ((chance < _NOISIER) | (past_variance <= 0))] = 0.0
    total = df + weight
    mixed = (df * variance + weight * past_variance) / np.maximum(total, 1)
    return np.where(total > 0, mixed, variance), total


def run_variances(values: Floats, error: Floats) -> Floats:
    """By how much the runs of each series differ beyond their rounds, (N,), 0 where unknown.

    ``values`` (N, C) are logarithms of alike series at C commits, NaN where not measured;
    ``error`` (N,) the mean squared standard error of a value by its rounds.
    """
    measured = np.isfinite(values)
    enough = measured.sum(axis=1) >= _FEWEST_RUNS
    found = np.zeros_like(error)
    if not enough.any():
        return found
    chosen = values[enough]
    chosen = chosen[:, np.isfinite(chosen).any(axis=0)]
    if len(chosen) >= _FEWEST_SERIES:
        # What all share is judged by the controls, or by what all share today.
        chosen = chosen - np.nanmedian(
            chosen - np.nanmedian(chosen, axis=1, keepdims=True), axis=0, keepdims=True
        )
    unknown = np.full(len(chosen), np.nan)
    noise = point_noise([row[np.isfinite(row)] for row in chosen], unknown, np.zeros(len(chosen)))
    found[enough] = np.maximum(0.0, noise.variance - _OF_MEDIAN * error[enough])
    return found
