"""Groups as rows of the store, some at a time and several batches at once.

Nothing here knows the store: files become columns in threads, each with a reader of its own, and
whoever writes takes the batches in their order.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.parsing import UnreadableError
from dashboard.rounds import param_values
from dashboard.store.assemble import Placed, assemble
from dashboard.store.claims import Claims
from dashboard.store.columns import Flags, Integers, integers, whole_of
from dashboard.store.discover import Group, SourceFile
from dashboard.store.lines import LineReader, Rejected
from dashboard.store.results import ReadGroup, read_groups
from dashboard.store.series_numbers import Identity, SeriesNumbers
from dashboard.store.states import FileState

# Enough rows for every step to be busy, few enough for several batches to be held in memory.
_BYTES = 32 << 20
_GROUPS = 500
_MOST_READERS = 4

_FACTS = ("family", "unit", "higher_is_better", "m", "h", "v", "entropy")
_WHOLE = ("m", "h", "v")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Learned:
    """What the lines of a batch say of a series: its parameters' names, its facts as far as they
    are known, and when the newest of these lines was written (UTC, without a zone)."""

    names: Sequence[str]
    facts: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group: its results file's reading, the lines that its rounds file lacks
    (or why it could not be read), how many rounds it has, how many of these are odd."""

    read: ReadGroup
    trouble: Rejected | str
    rounds: int
    odd: int

    def states(self, claims: Claims) -> Iterator[FileState]:
        """The state of each file."""
        group = self.read.group
        run_id = group.run_id
        if group.result is not None and self.read.problem is None:
            yield FileState(group.result, "read", rows=self.read.size, run_id=run_id)
        elif group.result is not None:
            kept = claims.kept_run(group.result)
            yield FileState(
                group.result, "rejected", self.read.problem, run_id=run_id, kept_run_id=kept
            )
        if group.rounds is not None:
            if isinstance(self.trouble, str):
                yield FileState(group.rounds, "rejected", self.trouble, run_id=run_id)
            else:
                note = _note(self.rounds, self.odd, self.read.row is not None)
                yield FileState.of_lines(group.rounds, self.rounds, self.trouble, note, run_id)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some groups as rows: of `run`, `measurement` and `round`, the series that these are of,
    and what their lines say of them."""

    runs: list[dict[str, Any]]
    measurements: pa.Table
    rounds: pa.Table
    series: dict[int, Identity]
    learned: dict[int, Learned]
    outcomes: list[Outcome]


def batches(groups: Sequence[Group]) -> Iterator[Batch]:
    """The groups in batches of some size, read ahead in threads."""
    own = threading.local()

    def read(some: Sequence[Group]) -> Batch:
        if not hasattr(own, "reader"):
            own.reader = _Reader()
        reader: _Reader = own.reader
        return reader.read(some)

    ahead: deque[Future[Batch]] = deque()
    readers = min(_MOST_READERS, os.cpu_count() or 1)
    with ThreadPoolExecutor(readers) as pool:
        try:
            for some in _portions(groups):
                ahead.append(pool.submit(read, some))
                if len(ahead) > readers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def size_of(files: Iterable[SourceFile]) -> int:
    """Bytes of the files; one that cannot be read has none."""
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.location.stat().st_size
    return total


def _portions(groups: Sequence[Group]) -> Iterator[list[Group]]:
    portion: list[Group] = []
    size = 0
    for group in groups:
        portion.append(group)
        size += size_of(group.files)
        if size >= _BYTES or len(portion) >= _GROUPS:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


class _Reader:
    """Reads batches; each thread has one of its own."""

    def __init__(self) -> None:
        self._numbers = SeriesNumbers()
        self._lines = LineReader()

    def read(self, groups: Sequence[Group]) -> Batch:
        read, values, identities = read_groups(groups, self._numbers)
        with_rounds = [index for index, group in enumerate(groups) if group.rounds is not None]
        files = [file for group in groups if (file := group.rounds) is not None]
        lines = self._lines.read(files)
        run_l = np.array(with_rounds, np.int64)[whole_of(lines.table["file_index"])]
        series_l, named, learned = self._series_of(lines.table)
        placed = Placed(lines.table, run_l, series_l, _owned(lines.table, run_l, read))
        run_ids = np.array([group.run_id for group in groups], np.int64)
        rows = assemble(values, placed, run_ids)
        identities |= named
        trouble = {with_rounds[index]: found for index, found in lines.trouble.items()}
        counts = zip(read, rows.rounds_by_run.tolist(), rows.odd_by_run.tolist(), strict=True)
        return Batch(
            runs=[entry.row for entry in read if entry.row is not None],
            measurements=rows.measurements,
            rounds=rows.rounds,
            series={number: identities[number] for number in rows.series.tolist()},
            learned=learned,
            outcomes=[
                Outcome(entry, trouble.get(index, ()), rounds, odd)
                for index, (entry, rounds, odd) in enumerate(counts)
            ],
        )

    def _series_of(
        self, lines: pa.Table
    ) -> tuple[Integers, dict[int, Identity], dict[int, Learned]]:
        """Each line's series, what these are, and what the lines say of them."""
        _, first, which = np.unique(
            whole_of(lines["named"]), return_index=True, return_inverse=True
        )
        keys = ("benchmark", "params", "machine", "environment")
        numbers = np.zeros(len(first), np.int64)
        identities: dict[int, Identity] = {}
        names: dict[int, tuple[str, ...]] = {}
        for index, row in enumerate(lines.select(keys).take(integers(first)).to_pylist()):
            named, values = _parameters(row["params"])
            place = row["machine"], row["environment"]
            (number,) = self._numbers.of(row["benchmark"], [values], *place)
            numbers[index] = number
            identities[number] = Identity(row["benchmark"], values, *place)
            names[number] = named
        series = numbers[which]
        return series, identities, _learned(lines, series, names)


def _parameters(params: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        return param_values(params)
    except UnreadableError:  # no lines are lost for it
        return ("params",), (params,)


def _learned(
    lines: pa.Table, series: Integers, names: Mapping[int, tuple[str, ...]]
) -> dict[int, Learned]:
    """What the lines say of each series: of each fact the newest that says it counts."""
    times = whole_of(lines["started_at"])
    by_age = np.argsort(times, kind="stable")
    told = whole_of(lines["told"])[by_age]
    # the newest of all lines that say the same stands for them
    _, from_end = np.unique(told[::-1], return_index=True)
    newest = by_age[np.sort(len(told) - 1 - from_end)]
    rows = lines.select(_FACTS).take(integers(newest)).to_pylist()
    found: dict[int, Learned] = {}
    for place, row in zip(newest.tolist(), rows, strict=True):
        number = int(series[place])
        earlier = found[number].facts if number in found else {"higher_is_better": False}
        news = {
            name: int(value) if name in _WHOLE else value
            for name, value in row.items()
            if value is not None
        }
        at = _EPOCH + timedelta(microseconds=int(times[place]))
        found[number] = Learned(names[number], {**earlier, **news}, at)
    return found


def _owned(lines: pa.Table, run_l: Integers, read: Sequence[ReadGroup]) -> Flags:
    """Whether each line names the machine, environment and commit of the run beside it."""
    owners, owner_l = np.unique(whole_of(lines["owner"]), return_inverse=True)
    pairs = run_l * (len(owners) + 1) + owner_l
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    named = lines.select(("machine", "environment", "commit")).take(integers(first)).to_pylist()
    same = []
    for place, names in zip(first.tolist(), named, strict=True):
        row = read[int(run_l[place])].row
        same.append(
            row is not None
            and names["machine"] == row["machine"]
            and names["environment"] == row["environment"]
            and names["commit"] == row["commit_hash"]
        )
    return np.array(same, bool)[which]


def _note(total: int, loose: int, has_run: bool) -> str | None:
    """What to say of rounds that stand behind no result of asv's; None if nothing is odd: those
    of earlier invocations, whose results asv replaced, are not."""
    if total and not has_run:
        return f"{total} rounds kept but not attached: asv has no results for them"
    if not loose:
        return None
    return (
        f"{loose} of {total} rounds kept but not attached: their samples are not those asv stored"
    )
