"""One statistic and one way of timing for all rounds of a comparison.

The value of a round is a statistic of its samples: the median, or above the length at which
a GPU caps its own power the minimum. A kernel's minimum lies below its median by as much
as a regression may be large, so the two are never compared with each other: where they
meet, every round is valued anew, by the same statistic of its samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isclose, isfinite
from statistics import median

from dashboard.models import Round, Side, Status

# Stored values have six decimals.
_STORED = 1e-6

_COMPUTED: dict[str, Callable[[Sequence[float]], float]] = {"minimum": min, "median": median}


def one_statistic(base: Side, head: Side) -> tuple[Side, Side, str] | None:
    """Both sides with their rounds valued by one statistic, and the remark that says so.

    The sides are as given, and the remark empty, where one statistic made all values. Where
    there is a minimum it is the minimum of as many samples in every round, as more samples
    have a lower one. ``None`` where the samples for it are missing.
    """
    of_base, of_head = _statistics(base), _statistics(head)
    if len(of_base | of_head) < 2:
        return base, head, ""
    usable = [[r for r in side.rounds if _is_usable(r)] for side in (base, head)]
    rounds = [r for side in usable for r in side]
    if not all(usable) or not all(map(_has_samples, rounds)):
        return None
    name = "minimum" if "minimum" in of_base | of_head else "median"
    count = min(len(r.samples) for r in rounds) if name == "minimum" else None
    what = "the median" if count is None else f"the minimum of {count} samples"
    remark = (
        f"base was valued by the {_and(of_base)} of a round, head by the {_and(of_head)}: "
        f"compared by {what}"
    )
    return _valued(base, name, count), _valued(head, name, count), remark


def other_statistic(base: Side, head: Side) -> str:
    """Which statistics the values are; for a reason why they cannot be compared."""
    return (
        f"statistic {_and(_statistics(base))} → {_and(_statistics(head))}, and not all samples "
        "are there to compute one for both"
    )


def other_pacing(base: Side, head: Side) -> str | None:
    """Which rounds were paced, if only some of all were; else ``None``."""
    paced = [
        {r.gap_ms > 0 for r in side.rounds if _is_usable(r) and r.gap_ms is not None}
        for side in (base, head)
    ]
    if len(paced[0] | paced[1]) < 2:
        return None
    words = {
        frozenset({True}): "paced",
        frozenset({False}): "not paced",
        frozenset({True, False}): "paced in some rounds only",
        frozenset(): "unknown",
    }
    return f"timing {words[frozenset(paced[0])]} → {words[frozenset(paced[1])]}"


def _statistics(side: Side) -> set[str]:
    """What the values of a side's rounds are of their samples, as far as they tell."""
    if not side.rounds:
        return set() if side.statistic is None else {side.statistic}
    seen = {_statistic(r) for r in side.rounds if _is_usable(r)}
    told = {name for name in seen if name is not None}
    return told or (set() if side.statistic is None else {side.statistic})


def _statistic(one: Round) -> str | None:
    """The statistic that a round's value is; ``None`` where its samples leave it open."""
    value = one.value
    if value is None or len(one.samples) < 2 or not _has_samples(one):
        return None
    fitting = [
        name
        for name, compute in _COMPUTED.items()
        if isclose(value, compute(one.samples), rel_tol=_STORED)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _valued(side: Side, name: str, count: int | None) -> Side:
    compute = _COMPUTED[name]
    rounds = tuple(
        replace(r, samples=r.samples[:count], value=compute(r.samples[:count]))
        if _is_usable(r)
        else r
        for r in side.rounds
    )
    values = [r.value for r in rounds if _is_usable(r) and r.value is not None]
    return replace(side, rounds=rounds, value=median(values), statistic=name)


def _is_usable(one: Round) -> bool:
    return one.status is Status.OK and one.value is not None and isfinite(one.value)


def _has_samples(one: Round) -> bool:
    return bool(one.samples) and all(map(isfinite, one.samples))


def _and(names: set[str]) -> str:
    return " and ".join(sorted(names)) or "unknown"
