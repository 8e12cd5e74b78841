"""The decision itself, on arrays: one entry a series, no records.

An effect is the logarithm of the ratio of head to base, turned so that above 0
is worse. A series is *regressed* only if

1. the effect exceeds the threshold, by the mean and by the median of the rounds,
   so that one bad process cannot make it; an estimate falls short of the threshold
   by chance as well, and half its standard error, a tenth of the threshold at most,
   is allowed for that;
2. no change at all is refuted, by a moderated t test whose false discovery rate
   over all series of the check is held at 1 % (at 5 %, one unchanged check in
   eighteen would raise an alarm);
3. its size is known: the 95 % interval reaches no further than the threshold to
   either side, or than a third of the effect. Noise wider than what is to be
   decided is no ground for an alarm that the next rounds take back.

*Improved* is the mirror image. It is *unchanged* only if the estimate lies within the
threshold and the whole interval within a tenth more: a change of 1.8 % ± 0.3 % is known
well enough to be none of those that a threshold of 2 % is there for. Everything else is
inconclusive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dashboard.verdicts.noise import Floats, Mask, Noise

FALSE_DISCOVERY_RATE = 0.01
CONFIDENCE = 0.95

# The interval may reach this share of the effect to either side where it is wider than
# the threshold.
_KNOWN_SIZE = 1 / 3

# An estimate may fall short of the threshold by this share of its standard error, and by
# no more than that share of the threshold.
_SHORT_OF_ERROR = 0.5
_SHORT_OF_THRESHOLD = 0.1

# Rounds are asked for so that an effect as seen now would be told with this probability.
_POWER = 0.95

# The interval of an unchanged series may reach this share of the threshold beyond it.
_BEYOND_THRESHOLD = 0.1

# Numbers of rounds that are tried; to ask for more is no help. Each is a tenth above the
# one before or less.
_MOST_ROUNDS = 100
_NUMBERS = tuple(
    sorted({*range(2, 20), *(round(20 * 1.1**step) for step in range(17)), _MOST_ROUNDS})
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rounds say of N series; all arrays (N,), logarithmic.

    ``effect`` and ``median_effect`` are the differences of the sides' means and
    medians; ``noise`` is that of one round;
    ``weight`` = 1/rounds(base) + 1/rounds(head); ``between`` the variance of the
    effect that more rounds of the same runs cannot reduce; ``jump`` the
    probability that a jump alone makes the effect; ``threshold`` the minimum effect.
    """

    effect: Floats
    median_effect: Floats
    noise: Noise
    weight: Floats
    between: Floats
    jump: Floats
    threshold: Floats


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on N series; all arrays (N,). ``half`` is half the width of the interval."""

    half: Floats
    p: Floats
    regressed: Mask
    improved: Mask
    unchanged: Mask


def decide(evidence: Evidence) -> Decision:
    """Judge all series of a check together; NaN variance makes a series inconclusive."""
    noise = evidence.noise
    error = np.sqrt(noise.variance * evidence.weight + evidence.between)
    known = np.isfinite(error)
    p = (1 - noise.doubt) * _two_sided(evidence.effect, error, noise.df)
    wild_error = np.sqrt(noise.wild_variance * evidence.weight + evidence.between)
    p += noise.doubt * _two_sided(evidence.effect, wild_error, noise.wild_df)
    p = np.where(known, np.minimum(p + evidence.jump, 1.0), 1.0)
    half = np.where(known, error * _quantile(CONFIDENCE, noise.df), np.nan)
    significant = adjusted(p) <= FALSE_DISCOVERY_RATE
    told = known & significant & (half <= _reach(np.abs(evidence.effect), evidence.threshold))
    mean, median, limit = evidence.effect, evidence.median_effect, evidence.threshold
    short = _slack(error, limit)
    return Decision(
        half=half,
        p=p,
        regressed=told & (mean > limit - short) & (median > limit / 2),
        improved=told & (mean < short - limit) & (median < -limit / 2),
        unchanged=known & _is_within(mean, half, limit),
    )


def adjusted(p: Floats) -> Floats:
    """Benjamini-Hochberg's adjusted p values, (N,)."""
    from scipy import stats

    if p.size == 0:
        return p
    return np.asarray(stats.false_discovery_control(p, method="bh"), dtype=np.float64)


def _is_within(effect: Floats, half: Floats, limit: Floats) -> Mask:
    size = np.abs(effect)
    return np.asarray((size <= limit) & (size + half <= (1 + _BEYOND_THRESHOLD) * limit))


def rounds_needed(evidence: Evidence, chosen: Mask, between: Floats | None = None) -> Floats:
    """How many rounds a side would settle each series, (N,); NaN where 100 would not.

    Supposes the effect and the noise as seen now, and no other series of the check changed.
    A change counts as settled if it would be told with 95 % probability. Only the ``chosen``
    series, (N,), are asked for. ``between`` (N,) is the noise between the runs instead of the
    evidence's own.
    """
    tests, found = evidence.effect.size, np.full(evidence.effect.size, np.nan)
    if not chosen.any():
        return found
    size, limit = np.abs(evidence.effect[chosen]), evidence.threshold[chosen]
    median = np.sign(evidence.effect[chosen]) * evidence.median_effect[chosen]
    changed = (size > limit) & (median > limit / 2)
    variance, df = evidence.noise.variance[chosen], evidence.noise.df[chosen]
    apart = (evidence.between if between is None else between)[chosen]
    now, needed = 2 / evidence.weight[chosen], np.full_like(size, np.nan)
    for count in reversed(_NUMBERS):
        # Pooled noise is known no worse with more rounds.
        then = np.maximum(df + 2 * (count - now), 1.0)
        error = np.sqrt(variance * 2 / count + apart)
        half = error * _quantile(CONFIDENCE, then)
        told = changed & (half <= _reach(size, limit)) & (size >= error * _strict(then, tests))
        needed = np.where((told | _is_within(size, half, limit)) & (count > now), count, needed)
    found[chosen] = needed
    return found


def _strict(df: Floats, tests: int) -> Floats:
    """The t statistic that an effect needs to be told among ``tests`` with 95 % probability."""
    return _quantile(1 - FALSE_DISCOVERY_RATE / tests, df) + _quantile(2 * _POWER - 1, df)


def _slack(error: Floats, limit: Floats) -> Floats:
    return np.fmin(_SHORT_OF_ERROR * error, _SHORT_OF_THRESHOLD * limit)


def _reach(size: Floats, limit: Floats) -> Floats:
    return np.maximum(limit, size * _KNOWN_SIZE)


def _two_sided(effect: Floats, error: Floats, df: Floats) -> Floats:
    from scipy import stats

    return np.asarray(2 * stats.t.sf(np.abs(effect) / error, np.maximum(df, 1)), dtype=np.float64)


def _quantile(confidence: float, df: Floats) -> Floats:
    from scipy import special

    return np.asarray(special.stdtrit(np.maximum(df, 1), (1 + confidence) / 2), dtype=np.float64)
