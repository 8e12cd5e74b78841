"""How other trackers decide that a benchmark became slower, to be compared with.

Each rule takes the rounds of base and head, (series, rounds), the changes between earlier
commits, (commits, series), all logarithmic, and a random generator; it returns which series
raise an alarm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Rule = Callable[[Floats, Floats, Floats, np.random.Generator], NDArray[np.bool_]]


def fixed_five_percent(
    base: Floats, head: Floats, _past: Floats, _rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Alarm where the medians differ by more than 5 %."""
    return np.asarray(np.median(head, axis=1) - np.median(base, axis=1) > np.log(1.05))


def mann_whitney(
    base: Floats, head: Floats, _past: Floats, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """As asv compares samples: p < 0.002, the rounds' samples taken as independent.

    Ten samples a round, spread by half of what the rounds are (real ones by less).
    """
    within = 0.5 * np.std(base - base.mean(axis=1, keepdims=True))
    samples = [
        (side[:, :, None] + within * rng.standard_normal((*side.shape, 10))).reshape(len(side), -1)
        for side in (head, base)
    ]
    p = stats.mannwhitneyu(samples[0], samples[1], axis=1, method="asymptotic").pvalue
    return np.asarray((p < 0.002) & (np.median(samples[0], 1) > np.median(samples[1], 1)))


def rustc_fence(
    base: Floats, head: Floats, past: Floats, _rng: np.random.Generator
) -> NDArray[np.bool_]:
    """As rustc-perf: beyond the third quartile + 3 IQR of the series' past absolute changes."""
    first, third = np.quantile(np.abs(past), [0.25, 0.75], axis=0)
    change = head.mean(axis=1) - base.mean(axis=1)
    return np.asarray(change > third + 3 * (third - first))


def e_divisive(
    base: Floats, head: Floats, past: Floats, _rng: np.random.Generator
) -> NDArray[np.bool_]:
    """As Hunter and Otava: energy distance splits the series, Student's t has to confirm it.

    The rounds of base and head, and before them the past changes taken for rounds of a level
    series, are the points. An alarm is a split within the rounds of head, at p < 0.001.
    """
    quiet = past.T - past.mean(axis=0)[:, None]
    level = base.mean(axis=1, keepdims=True)
    points = np.concatenate([quiet / np.sqrt(2 / base.shape[1]) + level, base, head], axis=1)
    size, first_of_head = points.shape[1], points.shape[1] - head.shape[1]
    distances = np.abs(points[:, :, None] - points[:, None, :])
    best, place = np.full(len(points), -np.inf), np.zeros(len(points), dtype=int)
    for cut in range(2, size - 1):
        left, right = cut, size - cut
        across = distances[:, :cut, cut:].mean(axis=(1, 2))
        inside = distances[:, :cut, :cut].sum(axis=(1, 2)) / (left * (left - 1))
        inside += distances[:, cut:, cut:].sum(axis=(1, 2)) / (right * (right - 1))
        score = left * right / size * (2 * across - inside)
        place = np.where(score > best, cut, place)
        best = np.maximum(score, best)
    alarms = np.zeros(len(points), dtype=np.bool_)
    for i in np.flatnonzero(place >= first_of_head - 1):
        before, after = points[i, : place[i]], points[i, place[i] :]
        alarms[i] = stats.ttest_ind(before, after).pvalue < 0.001 and after.mean() > before.mean()
    return alarms


RULES: dict[str, Rule] = {
    "fixed 5 %": fixed_five_percent,
    "Mann-Whitney p < 0.002": mann_whitney,
    "rustc-perf's fence": rustc_fence,
    "E-divisive, t at 0.001": e_divisive,
}
