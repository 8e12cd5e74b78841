"""The noise of a round, learned from all series of a check together.

Three rounds a side leave four degrees of freedom: too few to carry hundreds of
tests. The series of one suite are alike, though: their variances are taken as
draws from a scaled inverse chi-square distribution whose scale and degrees of
freedom are estimated from all of them (empirical Bayes, as in Smyth 2004 for
micro-arrays), and each series' own variance is shrunk towards it.

A few series may be far noisier than that distribution allows. They are *wild*:
they form a pool of their own, so that they neither borrow the others' steadiness
nor spoil it. A wild series can look tame by luck in three rounds; the chance of
that is each other series' *doubt*, and enters its p value.

Variances are of the logarithm of a round's value, pure numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# A timer's resolution and stored digits end about here: no round is steadier.
RESOLUTION = 1e-4

# Even if all series look equally noisy, the pool is never trusted like infinitely many
# degrees of freedom: the equality itself is an estimate.
MOST_PRIOR_DF = 60.0

# Below this many series with a variance there is no distribution to estimate.
FEWEST_SERIES = 3

# How improbable under the pool a variance must be to be wild. In a suite without wild
# series one in 500 loses the pool's help by chance.
_WILD_TAIL = 0.002

# Only a variance that chance alone would give to no series of the suite (but for one
# suite in a hundred) says that there are more of its kind, and casts doubt on the others.
_CERTAIN_TAIL = 0.01

# Rounds of fitting and setting wild series aside; it is stable sooner as a rule.
_FITS = 5

# Wild series have little in common.
_WILD_PRIOR_DF = 4.0


@dataclass(frozen=True, slots=True)
class Prior:
    """A scaled inverse chi-square distribution of variances."""

    variance: float
    df: float

    def shrink(self, variance: Floats, df: Floats) -> tuple[Floats, Floats]:
        """Variances and their degrees of freedom after learning of this distribution."""
        known = np.where(df > 0, variance, 0.0)
        return (self.df * self.variance + df * known) / (self.df + df), self.df + df


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a round of N series; all arrays (N,).

    ``variance`` with ``df`` degrees of freedom is the best estimate (NaN and 0
    where nothing is known); with probability ``doubt`` it is ``wild_variance``
    with ``wild_df`` instead.
    """

    variance: Floats
    df: Floats
    doubt: Floats
    wild_variance: Floats
    wild_df: Floats


def moderate(variance: Floats, df: Floats) -> Noise:
    """The noise of N alike series from each one's own estimate.

    ``variance`` (N,) has ``df`` (N,) degrees of freedom each; where ``df`` is 0
    (one round a side) the pool's variance serves.
    """
    from scipy import stats

    floored = np.maximum(variance, RESOLUTION**2)
    own = df > 0
    prior = fit_prior(floored[own], df[own])
    none = np.zeros_like(df)
    if prior is None:
        alone = np.where(own, floored, np.nan)
        return Noise(alone, np.where(own, df, 0.0), none, alone, df)
    tame = own.copy()
    tail: Floats = np.ones(int(own.sum()))
    # Again and again: the wild series of one fit inflate it and hide further ones.
    for _ in range(_FITS):
        tail = np.asarray(stats.f.sf(floored[own] / prior.variance, df[own], prior.df))
        tame[own] = tail > _WILD_TAIL
        prior = fit_prior(floored[tame], df[tame]) or prior
    shrunk, total = prior.shrink(floored, df)
    wild = own & ~tame
    if not wild.any():
        return Noise(shrunk, total, none, shrunk, total)
    wild_prior = Prior(float(np.average(floored[wild], weights=df[wild])), _WILD_PRIOR_DF)
    wild_shrunk, wild_total = wild_prior.shrink(floored, df)
    share = float(np.mean(tail < _CERTAIN_TAIL / tail.size))
    doubt = np.full_like(df, share)
    doubt[own] = _posterior(floored[own], df[own], prior, wild_prior, share)
    return Noise(
        variance=np.where(wild, wild_shrunk, shrunk),
        df=np.where(wild, wild_total, total),
        doubt=np.where(wild, 1.0, doubt),
        wild_variance=wild_shrunk,
        wild_df=wild_total,
    )


def moderate_by_group(variance: Floats, df: Floats, groups: Iterable[Mask]) -> Noise:
    """``moderate`` within each of ``groups``, masks (N,) that cover every series once."""
    whole = Noise(*(np.full_like(df, np.nan) for _ in range(5)))
    for mask in groups:
        part = moderate(variance[mask], df[mask])
        whole.variance[mask], whole.df[mask], whole.doubt[mask] = part.variance, part.df, part.doubt
        whole.wild_variance[mask], whole.wild_df[mask] = part.wild_variance, part.wild_df
    return whole


def fit_prior(variance: Floats, df: Floats) -> Prior | None:
    """The distribution that ``variance`` (N,), each with ``df`` (N,) > 0, was drawn from.

    By the moments of the log variances; ``None`` for fewer than three series.
    The pool of N series cannot know more than their degrees of freedom together.
    """
    from scipy import special

    if variance.size < FEWEST_SERIES:
        return None
    half = df / 2
    centred = np.log(variance) - special.digamma(half) + np.log(half)
    squares = (centred - np.mean(centred)) ** 2
    excess = float(np.sum(squares) / (df.size - 1) - np.mean(special.polygamma(1, half)))
    most = min(MOST_PRIOR_DF, float(df.sum()))
    # Spread that chance explains is no evidence that the series differ.
    chance = float(np.std(squares, ddof=1) / np.sqrt(df.size))
    prior_df = most if excess <= chance else min(most, 2 * _inverse_trigamma(excess))
    if prior_df == most:
        return Prior(float(np.average(variance, weights=df)), most)
    shift = special.digamma(prior_df / 2) - np.log(prior_df / 2)
    return Prior(float(np.exp(np.mean(centred) + shift)), prior_df)


def _posterior(variance: Floats, df: Floats, tame: Prior, wild: Prior, share: float) -> Floats:
    """The probability that a series of this variance is wild, where ``share`` of all are."""
    from scipy import stats

    as_tame = stats.f.pdf(variance / tame.variance, df, tame.df) / tame.variance * (1 - share)
    as_wild = stats.f.pdf(variance / wild.variance, df, wild.df) / wild.variance * share
    # A variance that neither knows is far out, and wild whatever comes out here.
    with np.errstate(invalid="ignore"):
        return np.asarray(as_wild / (as_tame + as_wild), dtype=np.float64)


def _inverse_trigamma(value: float) -> float:
    """The x > 0 with trigamma(x) = ``value`` > 0, by Newton's method on 1/trigamma."""
    from scipy import special

    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x
