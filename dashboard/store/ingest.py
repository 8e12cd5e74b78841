"""Loading an asv results folder: idempotent by content, all or nothing for readers.

Every file is known by the hash of its bytes. A results file and the rounds file beside it
are a group; when either changed, the group's run is replaced in one transaction. All of it
happens in a side copy that takes the store's place at the end (see `connect`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dashboard.asv_results import AsvDefinition, read_benchmarks, read_machine
from dashboard.commits import Repository
from dashboard.models import Commit
from dashboard.parsing import UnreadableError, as_json
from dashboard.rounds import read_commits
from dashboard.store import commit_table, queries, tables
from dashboard.store.connect import OutdatedStoreError, Store, open_store, rewriting, writing
from dashboard.store.discover import SourceFile, discover, grouped
from dashboard.store.group import FileState, GroupRows, read_group
from dashboard.store.series_book import SeriesBook

_ROWS_A_TRANSACTION = 50_000

Progress = Callable[[int, int], None]
Known = Mapping[str, tuple[str, str, str | None]]  # sha256, status, reason by path


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did. ``runs``, ``series`` and ``measurements`` count the whole store;
    ``notes`` are (path, what the reader should know of a file that went in)."""

    read: int
    unchanged: int
    rejected: tuple[tuple[str, str], ...]
    notes: tuple[tuple[str, str], ...]
    runs: int
    series: int
    measurements: int
    seconds: float


def ingest(
    store: Path | str,
    results: Path,
    repository: Repository | None = None,
    progress: Progress | None = None,
    waiting: Callable[[], None] | None = None,
) -> IngestReport:
    """Load ``results`` into the store, which is made if there is none.

    ``repository`` tells of the commits what ``commits.jsonl`` does not. ``progress`` is told
    (groups done, groups to read); ``waiting`` is called if another ingest must end first.

    Raises InputError: no such folder, nothing in it, or a store that cannot be written.
    """
    start = time.monotonic()
    files = discover(results)
    with writing(store, waiting) as location:
        if location.exists():
            known, totals, news = _compare(location, repository)
        else:
            known, totals, news = {}, {}, True
        states: dict[str, FileState] = {}
        todo = {file.path: file for file in files if _differs(file, known)}
        if todo or news:
            with rewriting(location) as side:
                work = _Ingest(side, known, progress)
                states = work.load(files, todo)
                work.finish(states.values(), repository)
                totals = queries.totals(side)
    return _report(files, known, states, totals, time.monotonic() - start)


def _compare(location: Path, repository: Repository | None) -> tuple[Known, dict[str, int], bool]:
    """What the store has of which file, its totals, and whether its commits are out of date."""
    try:
        with open_store(location) as store:
            news = commit_table.refreshed(store, repository, {}) is not None
            return queries.source_files(store), queries.totals(store), news
    except OutdatedStoreError:
        with rewriting(location):
            pass  # opening it migrates
        return _compare(location, repository)


def _differs(file: SourceFile, known: Known) -> bool:
    return file.path not in known or known[file.path][0] != (file.sha256 or "")


class _Ingest:
    """One ingest into the side copy."""

    def __init__(self, store: Store, known: Known, progress: Progress | None) -> None:
        self._store = store
        self._known = known
        self._progress = progress
        self._now = datetime.now(UTC).replace(tzinfo=None)
        definitions = [AsvDefinition(**row) for row in queries.benchmark_rows(store)]
        self._book = SeriesBook(queries.series_rows(store), definitions)
        self._shipped: dict[str, Commit] = {}
        self._pending: list[GroupRows] = []

    def load(self, files: list[SourceFile], todo: Mapping[str, SourceFile]) -> dict[str, FileState]:
        """Read the changed files and write their groups; what became of each file."""
        states = {}
        readers = {
            "benchmarks": self._read_definitions,
            "machine": self._read_machine,
            "commits": self._read_commits,
        }
        for file in todo.values():
            if file.kind in readers:
                states[file.path] = self._attempt(file, readers[file.kind])
        groups = [
            group for group in grouped(files) if any(file.path in todo for file in group.files)
        ]
        size = 0
        for count, group in enumerate(groups, start=1):
            rows = read_group(group, self._book)
            states |= {path: state for path, state in rows.states.items() if path in todo}
            self._pending.append(rows)
            size += len(rows.measurements) + len(rows.rounds)
            if size >= _ROWS_A_TRANSACTION or count == len(groups):
                self._flush()
                size = 0
            if self._progress is not None:
                self._progress(count, len(groups))
        return states

    def finish(self, states: Iterable[FileState], repository: Repository | None) -> None:
        """Write what belongs to the whole: series, commits, the log."""
        store = self._store
        store.connection.execute("BEGIN")
        tables.replace(store, "series", self._book.changed)
        commits = commit_table.refreshed(store, repository, self._shipped)
        if commits is not None:
            tables.replace(store, "commit_info", commits)
        rows = [self._file_row(state) for state in states]
        tables.replace(store, "source_file", rows)
        tables.insert(store, "ingest_log", [self._log_row(row) for row in rows])
        store.connection.execute("COMMIT")

    def _flush(self) -> None:
        store, pending = self._store, self._pending
        store.connection.execute("BEGIN")
        tables.remove_runs(store, [number for rows in pending for number in rows.ids], self._now)
        tables.insert(store, "run", [rows.run for rows in pending if rows.run is not None])
        tables.insert(store, "measurement", [row for rows in pending for row in rows.measurements])
        tables.insert(store, "round", [row for rows in pending for row in rows.rounds])
        store.connection.execute("COMMIT")
        self._pending = []

    def _attempt(self, file: SourceFile, read: Callable[[SourceFile], FileState]) -> FileState:
        try:
            return read(file)
        except UnreadableError as error:
            return FileState(file, "rejected", str(error))

    def _read_definitions(self, file: SourceFile) -> FileState:
        definitions = read_benchmarks(file.read())
        self._book.define(definitions)
        rows = [
            {
                "name": entry.name,
                "unit": entry.unit,
                "type": entry.type,
                "version": entry.version,
                "param_names": list(entry.param_names),
            }
            for entry in definitions
        ]
        tables.replace(self._store, "benchmark", rows)
        return FileState(file, "read", rows=len(rows))

    def _read_machine(self, file: SourceFile) -> FileState:
        machine, fields = read_machine(file.read())
        row = {
            "folder": file.path.rpartition("/")[0],
            "machine": machine,
            "fields": as_json(fields, "the file"),
        }
        tables.replace(self._store, "machine", [row])
        return FileState(file, "read", rows=1)

    def _read_commits(self, file: SourceFile) -> FileState:
        lines = read_commits(file.read())
        self._shipped = {commit.hash: commit for commit in lines.records}
        return FileState.of_lines(file, lines)

    def _file_row(self, state: FileState) -> dict[str, Any]:
        return {
            "path": state.file.path,
            "kind": state.file.kind,
            "sha256": state.file.sha256 or "",
            "status": state.status,
            "reason": state.reason,
            "rows": state.rows,
            "ingested_at": self._now,
        }

    def _log_row(self, row: dict[str, Any]) -> dict[str, Any]:
        replaces = row["path"] in self._known and row["status"] == "read"
        return {**row, "status": "replaced"} if replaces else row


def _report(
    files: list[SourceFile],
    known: Known,
    states: Mapping[str, FileState],
    totals: Mapping[str, int],
    seconds: float,
) -> IngestReport:
    """Sort the files: read now, unchanged, rejected now or still."""
    read, unchanged = 0, 0
    rejected: list[tuple[str, str]] = []
    notes: list[tuple[str, str]] = []
    for file in files:
        if file.path in states:
            status, reason = states[file.path].status, states[file.path].reason
            read += status != "rejected"
            notes += [(file.path, reason)] if reason and status == "read" else []
        else:
            _, status, reason = known[file.path]
            unchanged += status != "rejected"
        if status in ("rejected", "partial"):
            rejected.append((file.path, reason or "unreadable"))
    return IngestReport(
        read, unchanged, tuple(rejected), tuple(notes), seconds=round(seconds, 3), **totals
    )
