"""Groups into the store, some at a time: read, joined with their rounds, appended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.parsing import UnreadableError
from dashboard.rounds import param_values
from dashboard.store import assemble, queries
from dashboard.store.assemble import OddRounds
from dashboard.store.claims import Claims
from dashboard.store.connect import Store
from dashboard.store.discover import Group, SourceFile
from dashboard.store.lines import Rejected, name_of, read_lines
from dashboard.store.results import RESULT, ReadGroup, read_group, result_table
from dashboard.store.series_book import SeriesBook
from dashboard.store.states import FileState

# Enough rows for DuckDB to be busy, few enough to be held in memory.
_BYTES = 192 << 20
_GROUPS = 500

_SOURCE = pa.schema(
    [
        ("run_id", pa.int64()),
        *((name, pa.string()) for name in ("file", "run_machine", "run_environment", "run_commit")),
    ]
)


# A series' number, its parameters' names, what the lines say of it, and when they were written.
Learned = tuple[int, Sequence[str], dict[str, Any], datetime]
_FACTS = ("family", "unit", "higher_is_better", "m", "h", "v", "entropy")


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch of groups became: its runs' rows, and the state of each file."""

    runs: list[dict[str, Any]]
    states: list[FileState]


def batches(groups: Sequence[Group]) -> Iterator[list[ReadGroup]]:
    """The groups in batches of some size, their results files read ahead in a thread."""
    with ThreadPoolExecutor(1) as pool:
        ahead = None
        for some in _portions(groups):
            reading = pool.submit(_read_groups, some)
            if ahead is not None:
                yield ahead.result()
            ahead = reading
        if ahead is not None:
            yield ahead.result()


def prepare(store: Store, book: SeriesBook, claims: Claims, read: Sequence[ReadGroup]) -> Batch:
    """Fill the temporary tables of `assemble` from these groups."""
    connection = store.connection
    rounds = [entry.group.rounds for entry in read if entry.group.rounds is not None]
    trouble = read_lines(connection, rounds)
    values = [RESULT.empty_table(), *(result_table(entry, book) for entry in read)]
    learned = _name_series(store, book)
    _make_table(store, "result", pa.concat_tables(values))
    _make_table(store, "source", _sources(read))
    assemble.attach(connection)
    book.settle(assemble.series_in_use(connection))
    for number, names, facts, at in learned:
        book.learn(number, names, facts, at)
    book.flush()
    odd = assemble.odd_rounds(connection)
    states = [state for entry in read for state in _states(entry, claims, trouble, odd)]
    return Batch([entry.row for entry in read if entry.row is not None], states)


def _read_groups(groups: Sequence[Group]) -> list[ReadGroup]:
    return [read_group(group) for group in groups]


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


def size_of(files: Iterable[SourceFile]) -> int:
    """Bytes of the files; one that cannot be read has none."""
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.location.stat().st_size
    return total


def _name_series(store: Store, book: SeriesBook) -> list[Learned]:
    """Make the table ``naming``; what the lines say of each series."""
    rows = queries.line_series(store)
    numbers: list[int] = []
    learned: list[Learned] = []
    for row in rows:
        try:
            names, values = param_values(row["params"])
        except UnreadableError:  # no lines are lost for it
            names, values = ("params",), (row["params"],)
        (number,) = book.identify(row["benchmark"], [values], row["machine"], row["environment"])
        numbers.append(number)
        facts = {name: row[name] for name in _FACTS}
        learned.append((number, names, facts, row["described_at"]))
    keys = ("machine", "environment", "benchmark", "params")
    columns = [pa.array([row[key] for row in rows], pa.string()) for key in keys]
    table = pa.table([*columns, pa.array(numbers, pa.int64())], names=[*keys, "series_id"])
    _make_table(store, "naming", table)
    return learned


def _sources(read: Sequence[ReadGroup]) -> pa.Table:
    rows = [
        {
            "run_id": entry.group.run_id,
            "file": None if entry.group.rounds is None else name_of(entry.group.rounds),
            "run_machine": entry.row and entry.row["machine"],
            "run_environment": entry.row and entry.row["environment"],
            "run_commit": entry.row and entry.row["commit_hash"],
        }
        for entry in read
    ]
    return pa.Table.from_pylist(rows, schema=_SOURCE)


def _make_table(store: Store, name: str, table: pa.Table) -> None:
    store.connection.register("batch", table)
    store.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM batch")
    store.connection.unregister("batch")


def _states(
    entry: ReadGroup, claims: Claims, trouble: dict[str, Rejected | str], odd: OddRounds
) -> Iterator[FileState]:
    run_id = entry.group.run_id
    result, rounds = entry.group.result, entry.group.rounds
    if result is not None and entry.problem is None:
        yield FileState(result, "read", rows=entry.size, run_id=run_id)
    elif result is not None:
        kept = claims.kept_run(result)
        yield FileState(result, "rejected", entry.problem, run_id=run_id, kept_run_id=kept)
    if rounds is not None:
        problem = trouble.get(name_of(rounds), ())
        if isinstance(problem, str):
            yield FileState(rounds, "rejected", problem, run_id=run_id)
        else:
            total, loose = odd.get(run_id, (0, 0))
            note = _note(total, loose, entry.run is not None)
            yield FileState.of_lines(rounds, total, problem, note, run_id)


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
