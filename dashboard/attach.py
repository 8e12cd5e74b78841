"""Which rounds stand behind a result of asv's, where that takes more than a look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A round of one series: its asv invocation, its number there, its place in the file."""

    run: str
    index: int
    place: int
    samples: tuple[float, ...]


def attached(stored: Sequence[float], lines: Sequence[Line]) -> tuple[int, ...]:
    """The places of the rounds that an ok result of asv's was made of.

    asv pools the samples of an invocation's rounds in order, and of several invocations when
    told to append; the latest invocations whose samples begin with exactly the stored ones
    count.
    """
    runs: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.place):
        runs.setdefault(line.run, []).append(line)
    ordered = [sorted(run, key=lambda line: line.index) for run in runs.values()]
    wanted = list(stored)
    for end in range(len(ordered), 0, -1):
        for start in range(end - 1, -1, -1):
            chosen = _leading([line for run in ordered[start:end] for line in run], wanted)
            if chosen:
                return chosen
    return ()


def _leading(lines: Sequence[Line], stored: list[float]) -> tuple[int, ...]:
    """The places of the first lines whose samples make up ``stored`` exactly; else none.

    asv saves after each round of all commits: a killed run leaves lines that it had not yet
    pooled, behind those that it had.
    """
    pooled: list[float] = []
    for count, line in enumerate(lines, start=1):
        pooled += line.samples
        if len(pooled) >= len(stored):
            return tuple(line.place for line in lines[:count]) if _equal(pooled, stored) else ()
    return ()


def _equal(pooled: list[float], stored: list[float]) -> bool:
    """Whether the samples are the same, NaN included."""
    return len(pooled) == len(stored) and all(
        one == other or (one != one and other != other)
        for one, other in zip(pooled, stored, strict=True)
    )
