"""What the changed series of a check have in common: said once, not series by series.

If every layout of one model became slower, the model is what a reader has to know. A
common cause is one value of one or two of machine, environment, benchmark and parameters;
nearly all series that share it must have the same verdict, and none the opposite one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, fsum, log

from dashboard.models import Series, SeriesVerdict, Verdict
from dashboard.verdicts.kinds import CONTROL_FAMILY, is_call_time

# A cause has to say more than the list of series would.
_FEWEST = 3

# Noise leaves a few of the series of a common cause inconclusive.
_NEARLY_ALL = 0.8

_SHOWN = (Verdict.REGRESSED, Verdict.FAILED, Verdict.MISSING, Verdict.IMPROVED)
_OPPOSITE = {Verdict.REGRESSED: Verdict.IMPROVED, Verdict.IMPROVED: Verdict.REGRESSED}
_COMPARED = frozenset(
    {Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED, Verdict.INCONCLUSIVE}
)

Facet = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Cause:
    """``count`` of ``total`` series that share ``facets`` (all series if empty) have ``verdict``.

    ``ratio`` is the geometric mean of theirs, ``None`` where they have none or measure several
    kinds of quantities.
    """

    verdict: Verdict
    facets: tuple[Facet, ...]
    count: int
    total: int
    ratio: float | None

    @property
    def what(self) -> str:
        """The shared values in words."""
        return " and ".join(f"{name} {value}" for name, value in self.facets) or "the check"


def mean_of_call_times(verdicts: Iterable[SeriesVerdict]) -> tuple[float | None, int]:
    """The geometric mean of the ratios of calls' times at both commits, and their number.

    First calls, the host's own time and controls, whose code no commit changes, are left out, and
    all that is no time: bytes, counts, errors. ``None`` for no series.
    """
    return _geometric_mean(v for v in verdicts if is_call_time(v.series))


def _kind(series: Series) -> object:
    """What a series measures: quantities of one kind have a mean."""
    return "call" if is_call_time(series) else (series.family, series.unit)


def _geometric_mean(verdicts: Iterable[SeriesVerdict]) -> tuple[float | None, int]:
    logs = [log(v.ratio) for v in verdicts if v.ratio is not None and v.verdict in _COMPARED]
    return (exp(fsum(logs) / len(logs)), len(logs)) if logs else (None, 0)


def causes(verdicts: Sequence[SeriesVerdict]) -> tuple[Cause, ...]:
    """The common causes of what changed, those of most series first."""
    judged = [
        v
        for v in verdicts
        if v.verdict not in (Verdict.NEW, Verdict.NOT_COMPARABLE)
        and v.series.family != CONTROL_FAMILY
    ]
    members = _members(judged)
    found: list[Cause] = []
    for verdict in _SHOWN:
        found += _cover(judged, members, verdict)
    return tuple(sorted(found, key=lambda cause: -cause.count))


def _members(judged: Sequence[SeriesVerdict]) -> dict[tuple[Facet, ...], frozenset[int]]:
    """Which series have each value, or pair of values, in common."""
    sets: dict[tuple[Facet, ...], set[int]] = {}
    for index, verdict in enumerate(judged):
        for shared in _shared(verdict.series):
            sets.setdefault(shared, set()).add(index)
    everything = len(judged)
    # What all series share tells no more than "all series" does.
    return {
        shared: frozenset(found)
        for shared, found in sets.items()
        if not shared or len(found) < everything
    }


def _shared(series: Series) -> Iterator[tuple[Facet, ...]]:
    facets = [
        ("machine", series.machine),
        ("environment", series.environment),
        ("benchmark", series.benchmark),
        *series.params,
    ]
    for size in (0, 1, 2):
        yield from combinations(facets, size)


def _cover(
    judged: Sequence[SeriesVerdict],
    members: dict[tuple[Facet, ...], frozenset[int]],
    verdict: Verdict,
) -> Iterator[Cause]:
    """Causes of one verdict: each time the one that explains most of what is left."""
    left = {i for i, v in enumerate(judged) if v.verdict is verdict}
    against = {i for i, v in enumerate(judged) if v.verdict is _OPPOSITE.get(verdict)}
    holders = frozenset(left)
    candidates = {
        shared: found
        for shared, found in members.items()
        if len(found & holders) >= max(_FEWEST, _NEARLY_ALL * len(found)) and not found & against
    }
    pure = {shared: len(found & holders) / len(found) for shared, found in candidates.items()}
    while candidates:
        shared = max(
            candidates,
            key=lambda name: (len(candidates[name] & left), pure[name], -len(name), name),
        )
        explained = candidates[shared] & left
        if len(explained) < _FEWEST:
            return
        counted = [judged[i] for i in candidates[shared] & holders]
        alike = len({_kind(v.series) for v in counted}) == 1
        ratio, _ = _geometric_mean(counted) if alike else (None, 0)
        yield Cause(verdict, shared, len(counted), len(candidates[shared]), ratio)
        left -= explained
