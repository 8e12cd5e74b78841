"""What the rounds behind a value say together.

Suffixes: _l one a line, _b one a line behind a value (by value, then in order of writing), _g one
a value that has any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from dashboard.store.behind import stretches
from dashboard.store.columns import (
    FAILED,
    OK,
    SKIPPED,
    Flags,
    Integers,
    Numbers,
    flags_of,
    integers,
    lists,
    numbers,
    numbers_of,
    statuses_of,
    texts,
    whole_of,
)

# Taken from the last round.
_LAST = ("gpu", "driver", "torch", "triton", "schedule", "statistic", "protocol")
_READ = (
    "status", "value", "reason", "started_at", "gpu_uuid", "clock_event_reasons", "sm_clock_mhz",
    "power_w", "temperature_c", *_LAST,
)  # fmt: skip
_LATE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Summary:
    """Of each value that has rounds: its index, and columns of what they say. ``count_g`` counts
    them, ``finite_g`` their finite values; of these ``middle_g`` is the median, ``deviation_g`` the
    standard deviation."""

    value_g: Integers
    count_g: Integers
    finite_g: Integers
    middle_g: Numbers
    deviation_g: Numbers
    columns: pa.Table


def summarize(lines: pa.Table, value_l: Integers, behind_l: Flags) -> Summary:
    """Summarise the lines that stand behind values; ``value_l`` is the index of each one's."""
    chosen = np.flatnonzero(behind_l)
    line_b = chosen[np.argsort(value_l[chosen], kind="stable")]
    starts = stretches(value_l[line_b])
    value_g = value_l[line_b[starts]]
    count_g = np.diff(np.append(starts, len(line_b)))
    groups = _Groups(np.repeat(np.arange(len(starts)), count_g), len(starts))
    rounds = lines.select(_READ).take(integers(line_b))
    status = statuses_of(rounds["status"])
    number = numbers_of(rounds["value"])
    number[(status != OK) | ~np.isfinite(number)] = np.nan
    finite, middle, deviation = groups.statistics(number)
    times = whole_of(rounds["started_at"], unknown=_LATE)
    started = np.minimum.reduceat(times, starts) if len(starts) else times
    columns = {
        "failure": groups.last_of(rounds["reason"], status == FAILED),
        "skip_reason": groups.last_of(rounds["reason"], status == SKIPPED),
        "started_at": integers(started, pa.timestamp("us"), started == _LATE),
        "gpu_uuid": groups.joined(rounds["gpu_uuid"]),
        "clock_event_reasons": groups.distinct(*_flattened(rounds["clock_event_reasons"])),
    }
    for name in ("sm_clock_mhz", "power_w", "temperature_c"):
        columns[name] = numbers(groups.medians(numbers_of(rounds[name])))
    last = rounds.select(_LAST).take(integers(np.cumsum(count_g) - 1))
    for name in _LAST:
        columns[name] = last[name]
    return Summary(value_g, count_g, finite, middle, deviation, pa.table(columns))


class _Groups:
    """Aggregates over rows whose group is given, in groups' order."""

    def __init__(self, group_b: Integers, count: int) -> None:
        self._group = group_b
        self._count = count

    def medians(self, values: Numbers) -> Numbers:
        """The median of each group's values without NaN; NaN where there is none."""
        known = ~np.isnan(values)
        group, values = self._group[known], values[known]
        values = values[np.lexsort((values, group))]
        counts = np.bincount(group, minlength=self._count)
        some = counts > 0
        starts = (np.cumsum(counts) - counts)[some]
        low, high = (values[starts + half[some]] for half in ((counts - 1) // 2, counts // 2))
        found = np.full(self._count, np.nan)
        found[some] = np.where(low == high, low, low / 2 + high / 2)
        return found

    def statistics(self, values: Numbers) -> tuple[Integers, Numbers, Numbers]:
        """Number, median and standard deviation of each group's values without NaN."""
        known = ~np.isnan(values)
        group = self._group[known]
        counts = np.bincount(group, minlength=self._count)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mean = np.bincount(group, values[known], self._count) / counts
            squares = (values[known] - mean[group]) ** 2
            deviation = np.sqrt(np.bincount(group, squares, self._count) / (counts - 1))
        return counts, self.medians(values), deviation

    def last_of(self, words: pa.ChunkedArray, wanted: Flags) -> pa.Array:
        """The last text of each group's wanted rows; null where there is none."""
        there = np.flatnonzero(wanted & flags_of(words.is_valid()))
        place = np.full(self._count, -1)
        place[self._group[there]] = there  # of several the last stays
        return words.combine_chunks().take(integers(place, unknown=place < 0))

    def joined(self, words: pa.ChunkedArray) -> pa.Array:
        """Each group's different texts, joined; null where there is none."""
        there = np.flatnonzero(flags_of(words.is_valid()))
        names, groups, ranks = self._different(words.drop_null(), there)
        found: list[str] = [""] * self._count
        for group, rank in zip(groups.tolist(), ranks.tolist(), strict=True):
            found[group] = f"{found[group]}, {names[rank]}" if found[group] else names[rank]
        return texts([text or None for text in found])

    def distinct(self, words: pa.ChunkedArray, rows: Integers) -> pa.Array:
        """The different texts of each group, sorted; ``rows`` tells whose each text is."""
        names, groups, ranks = self._different(words, rows)
        counts = np.bincount(groups, minlength=self._count)
        return lists(texts(names).take(integers(ranks)), counts)

    def _different(
        self, words: pa.ChunkedArray, rows: Integers
    ) -> tuple[list[str], Integers, Integers]:
        """All different texts, sorted; the groups, and which of the texts each has."""
        encoded = words.combine_chunks().dictionary_encode()
        names: list[str] = encoded.dictionary.to_pylist()
        by_name = sorted(range(len(names)), key=names.__getitem__)
        rank = np.empty(len(names), np.int64)
        rank[by_name] = np.arange(len(names))
        width = max(len(names), 1)
        pairs = np.unique(self._group[rows] * width + rank[whole_of(encoded.indices)])
        return [names[index] for index in by_name], pairs // width, pairs % width


def _flattened(lists: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Integers]:
    """All entries of lists, and whose row each is; without nulls, which lists do not have."""
    array = lists.combine_chunks()
    rows = whole_of(pc.list_parent_indices(array))
    return pa.chunked_array([array.flatten()], pa.string()), rows
