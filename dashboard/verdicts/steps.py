"""From the levels of a series to the changes worth telling.

A single step counts if it exceeds the minimum effect. Smaller steps in one direction count
together once their sum exceeds it: a slow creep, told as one gradual change. Several steps
in one direction that a straight slope fits as well are a slope cut into pieces, and told as
one gradual change too.

Values and effects are logarithms, turned so that above 0 is worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log

import numpy as np

from dashboard.verdicts.levels import change_points, plausible_places, settle, tame, tame_levels
from dashboard.verdicts.noise import Floats
from dashboard.verdicts.points import PointNoise

_CONFIDENCE = 0.95

# Steps closer together than this many values are no slope.
_SHORTEST_SLOPE = 8

# So many starts and ends of a slope are tried.
_SLOPES = 8


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level; indices count the values of the series.

    ``first`` is the first value at the new level; it may as well be any from ``earliest`` to
    ``latest``. ``effect`` ± ``half`` is the size with its 95 % interval. ``points`` values
    have been seen at the new level. A ``gradual`` one began after ``earliest`` - 1 and was
    complete at ``first``.
    """

    first: int
    earliest: int
    latest: int
    effect: float
    half: float
    points: int
    gradual: bool


def find_steps(values: Floats, noise: PointNoise, series: int, minimum: float) -> list[Step]:
    """The changes of ``values`` (P,), in order of time.

    ``noise`` is that of all series, ``series`` the index of this one; ``minimum`` > 0 the
    least effect worth telling.
    """
    if not np.isfinite(noise.variance[series]):
        return []
    deviation = float(noise.variance[series]) ** 0.5
    independent = noise.long_run(series) ** 0.5
    places = change_points(tame(values, deviation), independent, float(noise.df[series]))
    if not places:
        return []
    places = settle(values, places, deviation)
    tamed = tame_levels(values, places, deviation)
    levels = _Levels(tamed, places, noise, series, independent)
    return list(_told(levels, minimum))


@dataclass(frozen=True, slots=True)
class _Levels:
    """A series cut at ``places``: level i is ``values[edges[i]:edges[i + 1]]``."""

    values: Floats
    places: list[int]
    noise: PointNoise
    series: int
    independent: float

    @property
    def edges(self) -> list[int]:
        return [0, *self.places, self.values.size]

    def mean(self, level: int) -> float:
        return float(np.mean(self.values[self.edges[level] : self.edges[level + 1]]))

    def effect(self, start: int, end: int) -> float:
        """Level ``end`` over level ``start``."""
        return self.mean(end) - self.mean(start)

    def step(self, start: int, end: int) -> Step:
        """The change from level ``start`` to level ``end``, gradual if they are no neighbours."""
        edges = self.edges
        counts = np.array(
            [float(edges[level + 1] - edges[level]) for level in (start, end)], dtype=np.float64
        )
        error = float(np.sum(self.noise.of_mean(self.series, counts))) ** 0.5
        around = [self._around(start), self._around(end - 1)]
        return Step(
            first=edges[end],
            earliest=around[0][0],
            latest=around[1][1],
            effect=self.effect(start, end),
            half=error * _quantile(float(self.noise.df[self.series])),
            points=self.values.size - edges[end],
            gradual=end - start > 1,
        )

    def _around(self, place: int) -> tuple[int, int]:
        edges = self.edges
        return plausible_places(
            self.values, edges[place], edges[place + 1], edges[place + 2], self.independent
        )


def _told(levels: _Levels, minimum: float) -> Iterator[Step]:
    for start, end in _runs(levels):
        long = levels.edges[end] - levels.edges[start + 1] >= _SHORTEST_SLOPE
        if long and _is_slope(levels, start, end):
            pieces = [(start, end)]
        else:
            pieces = list(_pieces(levels, start, end, minimum))
        for first, last in pieces:
            if abs(levels.effect(first, last)) > minimum:
                yield levels.step(first, last)


def _runs(levels: _Levels) -> Iterator[tuple[int, int]]:
    """The longest runs of levels that only rise or only fall, as first and last level."""
    start, count = 0, len(levels.places)
    for level in range(1, count + 1):
        rises = levels.effect(level - 1, level) > 0
        if level == count or (levels.effect(level, level + 1) > 0) is not rises:
            yield start, level
            start = level


def _pieces(levels: _Levels, start: int, end: int, minimum: float) -> Iterator[tuple[int, int]]:
    """Steps above the minimum by themselves; those between them together."""
    waiting = start
    for level in range(start, end):
        if abs(levels.effect(level, level + 1)) > minimum:
            if waiting < level:
                yield waiting, level
            yield level, level + 1
            waiting = level + 1
    if waiting < end:
        yield waiting, end


def _is_slope(levels: _Levels, start: int, end: int) -> bool:
    """Whether a slope between two flat ends fits these levels as well as their steps do.

    The slope has four parameters, the steps two for each and one; each further one has to
    earn the logarithm of the number of values (as in Schwarz's criterion).
    """
    edges = levels.edges
    low, high = edges[start], edges[end + 1]
    part = levels.values[low:high]
    steps = sum(
        float(np.sum((levels.values[a:b] - np.mean(levels.values[a:b])) ** 2))
        for a, b in zip(edges[start : end + 1], edges[start + 1 : end + 2], strict=True)
    )
    time = np.arange(part.size, dtype=np.float64)
    begins = np.unique(np.linspace(0, edges[start + 1] - 1 - low, _SLOPES).astype(int))
    ends = np.unique(np.linspace(edges[end] - low, part.size - 1, _SLOPES).astype(int))
    best = min(
        _misfit(part, np.clip((time - begin) / (stop - begin), 0.0, 1.0))
        for begin in begins
        for stop in ends
    )
    further = 2 * (end - start) + 1 - 4
    return best <= steps + further * log(part.size) * levels.independent**2


def _misfit(part: Floats, shape: Floats) -> float:
    """The squared distance of ``part`` (P,) from the nearest a + b·``shape``."""
    centred, form = part - np.mean(part), shape - np.mean(shape)
    explained = float(centred @ form) ** 2 / float(form @ form)
    return float(centred @ centred) - explained


def _quantile(df: float) -> float:
    from scipy import stats

    return float(stats.t.isf((1 - _CONFIDENCE) / 2, max(df, 1.0)))
