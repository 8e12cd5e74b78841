"""Which rounds stand behind a result of asv's, and what they make of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from dashboard.asv_results import AsvValue
from dashboard.models import Status
from dashboard.rounds import RoundLine


@dataclass(frozen=True, slots=True)
class Summary:
    """A value with its interval, from the attached rounds or from asv alone."""

    value: float | None
    low: float | None
    high: float | None


def attached(result: AsvValue, lines: Sequence[RoundLine]) -> tuple[RoundLine, ...]:
    """The rounds of one benchmark and combination that asv's result was made of.

    asv pools the samples of an invocation's rounds in order, and of several invocations when
    told to append; the latest invocations whose samples begin with exactly the stored ones count.
    A failed or skipped result has no samples: the last invocation counts if it says the same.
    """
    runs: dict[str | None, list[RoundLine]] = {}
    for line in lines:
        runs.setdefault(line.run, []).append(line)
    ordered = [sorted(run, key=lambda line: line.index) for run in runs.values()]
    if not ordered:
        return ()
    if result.status is not Status.OK:
        last = ordered[-1]
        return tuple(last) if any(x.round.status is result.status for x in last) else ()
    if result.samples is None:
        return ()
    stored = list(result.samples)
    for end in range(len(ordered), 0, -1):
        for start in range(end - 1, -1, -1):
            chosen = _leading([line for run in ordered[start:end] for line in run], stored)
            if chosen:
                return chosen
    return ()


def _leading(lines: Sequence[RoundLine], stored: list[float]) -> tuple[RoundLine, ...]:
    """The first of the lines whose samples make up ``stored`` exactly; else none.

    asv saves after each round of all commits: a killed run leaves lines that it had not yet
    pooled, behind those that it had.
    """
    pooled: list[float] = []
    for count, line in enumerate(lines, start=1):
        pooled += line.round.samples
        if len(pooled) >= len(stored):
            return tuple(lines[:count]) if pooled == stored else ()
    return ()


def summarize(result: AsvValue, rounds: Sequence[RoundLine]) -> Summary:
    """The median of the rounds' values and its 95 % interval (Student's t between rounds,
    None below two rounds), else asv's own value and 99 % interval."""
    values = [
        line.round.value
        for line in rounds
        if line.round.status is Status.OK and line.round.value is not None
    ]
    if result.status is not Status.OK or not values:
        return Summary(result.value, result.low, result.high)
    value = statistics.median(values)
    if len(values) < 2:
        return Summary(value, result.low, result.high)
    mean, degrees = statistics.fmean(values), len(values) - 1
    # statistics.stdev computes in fractions, which is most of an ingest's time
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in values) / degrees)
    half = _student_975(degrees) * deviation / math.sqrt(len(values))
    return Summary(value, value - half, value + half)


def median_of(numbers: Iterable[float | None]) -> float | None:
    """The median of those that are known."""
    known = [number for number in numbers if number is not None]
    return statistics.median(known) if known else None


def last_of(texts: Iterable[str | None]) -> str | None:
    """The last that is known."""
    known = [text for text in texts if text is not None]
    return known[-1] if known else None


@cache
def _student_975(degrees: int) -> float:
    # scipy.special loads in a fraction of scipy.stats' time
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))
