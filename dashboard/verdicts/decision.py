"""The decision itself, on arrays: one entry a series, no records.

An effect is the logarithm of the ratio of head to base, turned so that above 0
is worse. A series is *regressed* only if

1. the effect exceeds the threshold, by the mean and by the median of the rounds,
   so that one bad process cannot make it;
2. no change at all is refuted, by a moderated t test whose false discovery rate
   over all series of the check is held at 1 % (at 5 %, one unchanged check in
   eighteen would raise an alarm);
3. its size is known: the 95 % interval reaches no further than the threshold to
   either side, or than a third of the effect. Noise wider than what is to be
   decided is no ground for an alarm that the next rounds take back.

*Improved* is the mirror image. It is *unchanged* only if the whole interval lies
within the threshold. Everything else is inconclusive.
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

# Rounds are asked for so that an effect as seen now would be told with this probability.
_POWER = 0.95

# An effect right at the threshold would need infinitely many rounds: its distance
# from the threshold counts as at least this share of the threshold.
_LEAST_DISTANCE = 1 / 3


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
    reach = np.maximum(evidence.threshold, np.abs(evidence.effect) * _KNOWN_SIZE)
    told = known & significant & (half <= reach)
    mean, median, limit = evidence.effect, evidence.median_effect, evidence.threshold
    return Decision(
        half=half,
        p=p,
        regressed=told & (mean > limit) & (median > limit / 2),
        improved=told & (mean < -limit) & (median < -limit / 2),
        unchanged=known & (np.abs(mean) + half <= limit),
    )


def adjusted(p: Floats) -> Floats:
    """Benjamini-Hochberg's adjusted p values, (N,)."""
    from scipy import stats

    if p.size == 0:
        return p
    return np.asarray(stats.false_discovery_control(p, method="bh"), dtype=np.float64)


def rounds_needed(evidence: Evidence, tests: int) -> Floats:
    """How many rounds a side would settle each series, (N,); NaN where none would.

    Supposes the effect and the noise as seen now, ``tests`` series in the check,
    and none of them but this one changed.
    """
    from scipy import stats

    effect, limit = np.abs(evidence.effect), evidence.threshold
    interval = float(stats.norm.isf((1 - CONFIDENCE) / 2))
    strict = float(stats.norm.isf(FALSE_DISCOVERY_RATE / 2 / max(tests, 1)))
    beyond = effect > limit
    distance = np.maximum(np.abs(limit - effect), limit * _LEAST_DISTANCE)
    to_tell = effect / (strict + float(stats.norm.ppf(_POWER)))
    to_size = np.maximum(limit, effect * _KNOWN_SIZE) / interval
    wanted = np.where(beyond, np.minimum(to_tell, to_size), distance / interval) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        rounds = np.ceil(2 * evidence.noise.variance / (wanted - evidence.between))
    return np.where((wanted > evidence.between) & np.isfinite(rounds), rounds, np.nan)


def _two_sided(effect: Floats, error: Floats, df: Floats) -> Floats:
    from scipy import stats

    return np.asarray(2 * stats.t.sf(np.abs(effect) / error, np.maximum(df, 1)), dtype=np.float64)


def _quantile(confidence: float, df: Floats) -> Floats:
    from scipy import stats

    return np.asarray(stats.t.isf((1 - confidence) / 2, np.maximum(df, 1)), dtype=np.float64)
