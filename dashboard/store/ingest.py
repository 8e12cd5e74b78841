"""Loading an asv results folder: idempotent by content, all or nothing for readers.

Every file is known by its content. A results file and the rounds file beside it are a group;
when either changed, the group's run is replaced. A file that is gone stays in the store unless
it is to be pruned. Readers see all of an ingest or nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path
from typing import Any

import duckdb

from dashboard.asv_results import read_benchmarks, read_machine
from dashboard.commits import Repository
from dashboard.models import Commit
from dashboard.parsing import UnreadableError, as_json
from dashboard.rounds import read_commits
from dashboard.store import commit_table, queries, tables
from dashboard.store.batch import Batch, batches, size_of
from dashboard.store.claims import Claims, source_of
from dashboard.store.connect import Store, Writer, writing
from dashboard.store.copies import Copy, set_apart
from dashboard.store.discover import Group, SourceFile, discover, grouped
from dashboard.store.ingest_report import IngestReport, reported
from dashboard.store.queries import FileRow
from dashboard.store.schema import OutdatedStoreError
from dashboard.store.series_book import SeriesBook
from dashboard.store.states import FileState

Progress = Callable[[int, int], None]
_SINGLE = ("benchmarks", "machine", "commits")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's search for cycles: what is read are trees of lists, all of which it would
    visit again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_no_collection()
def ingest(
    store: Path | str,
    results: Path,
    repository: Repository | None = None,
    progress: Progress | None = None,
    waiting: Callable[[], None] | None = None,
    source: str | None = None,
    prune: bool = False,
) -> IngestReport:
    """Load ``results`` into the store, which is made if there is none.

    ``repository`` tells of the commits what ``commits.jsonl`` does not. ``progress`` is told
    (groups done, groups to read); ``waiting`` is called if another ingest must end first.
    ``source`` names the results folder, by default its host and path. ``prune`` forgets what
    the store has of files that are gone from it; their values stay in the log.

    Raises InputError: no such folder, nothing in it, or a store that cannot be written.
    """
    start = time.monotonic()
    states: dict[str, FileState] = {}
    files = discover(results)
    with writing(store, waiting) as writer:
        before = _current(writer)
        with before or nullcontext():
            known = [] if before is None else queries.source_files(before)
            claims = Claims(source or source_of(results), known)
            gone = claims.gone(files)
            dead: set[int] = set()
            if prune:
                claims, dead = claims.forgetting(gone)
            groups, copies = set_apart(grouped(files), claims)
            todo = [group for group in groups if not claims.has(group)]
            fresh = [copy for copy in copies if claims.counts(copy.file)]
            single = [file for file in files if file.kind in _SINGLE and not claims.known(file)]
            news = before is None or bool(todo or fresh or single or (prune and gone))
            if not news and before is not None:
                news = bool(commit_table.refreshed(before, repository, {}))
                totals = queries.totals(before)
        if news:
            size = size_of(file for group in todo for file in group.files)
            with writer.changing(size) as opened:
                work = _Ingest(opened, claims, progress)
                with opened.at_once():
                    if prune and gone:
                        work.forget(gone, dead)
                    work.load(single, todo)
                    work.load_copies(fresh)
                    work.finish(repository)
                states, totals = work.states, queries.totals(opened)
    missing = tuple(row.path for row in gone)
    return reported(
        files, claims, states,
        gone=() if prune else missing,
        pruned=missing if prune else (),
        seconds=round(time.monotonic() - start, 3),
        **totals,
    )  # fmt: skip


def _current(writer: Writer) -> Store | None:
    """The store as it is, brought to this package's schema; None if there is none."""
    try:
        return writer.reading()
    except OutdatedStoreError:
        with writer.changing():
            pass  # opening it migrates
        return writer.reading()


class _Ingest:
    """One ingest into a store that is open for writing."""

    def __init__(self, store: Store, claims: Claims, progress: Progress | None) -> None:
        self.states: dict[str, FileState] = {}
        self._store = store
        self._claims = claims
        self._progress = progress
        self._now = datetime.now(UTC).replace(tzinfo=None)
        self._book = SeriesBook(store)
        self._shipped: dict[str, Commit] = {}

    def forget(self, gone: Sequence[FileRow], runs: Collection[int]) -> None:
        """Take out files that are gone, and the runs that go with them."""
        tables.remove_runs(self._store, sorted(runs), self._now)
        paths = [row.path for row in gone]
        tables.forget_files(self._store, self._claims.source, paths, self._now)

    def load_copies(self, copies: Sequence[Copy]) -> None:
        """Note which file each is a copy of; the runs that they were go."""
        for copy in copies:
            original = self.states.get(copy.of) or self._claims.own(copy.of)
            if original is not None and original.status == "rejected":
                state = FileState(copy.file, "rejected", original.reason)
            else:
                state = FileState(copy.file, "read", f"a copy of {copy.of}: counted once")
            self.states[copy.file.path] = state
        old = self._claims.earlier_runs(copy.file for copy in copies)
        tables.remove_runs(self._store, sorted(old), self._now)

    def load(self, single: Sequence[SourceFile], groups: Sequence[Group]) -> None:
        """Read the files that stand alone, and the groups."""
        readers = {
            "benchmarks": self._read_definitions,
            "machine": self._read_machine,
            "commits": self._read_commits,
        }
        for file in single:
            try:
                state = readers[file.kind](file)
            except UnreadableError as error:
                state = FileState(file, "rejected", str(error))
            self.states[file.path] = state
        done = 0
        with self._store.appending() as connection:
            for batch in batches(groups):
                self._write(batch, connection)
                done += len(batch.outcomes)
                if self._progress is not None:
                    self._progress(done, len(groups))

    def _write(self, batch: Batch, connection: duckdb.DuckDBPyConnection) -> None:
        states = [state for one in batch.outcomes for state in one.states(self._claims)]
        kept = {state.kept_run_id for state in states}
        old = self._claims.earlier_runs(state.file for state in states)
        tables.remove_runs(self._store, sorted(old - kept), self._now)
        self._book.take(batch.series)
        for number, news in batch.learned.items():
            self._book.learn(number, news)
        self._book.flush()
        tables.insert(self._store, "run", batch.runs)
        tables.append(self._store, connection, "measurement", batch.measurements)
        tables.append(self._store, connection, "round", batch.rounds)
        self.states |= {state.file.path: state for state in states}

    def finish(self, repository: Repository | None) -> None:
        """Write what belongs to the whole: commits, files, the log."""
        store = self._store
        tables.replace(
            store, "commit_info", commit_table.refreshed(store, repository, self._shipped)
        )
        rows = [self._file_row(state) for state in self.states.values()]
        tables.replace(store, "source_file", rows)
        news = [self._claims.known(state.file) is None for state in self.states.values()]
        log = [self._log_row(row) for row in compress(rows, news)]
        tables.insert(store, "ingest_log", log)

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
            "source": self._claims.source,
            "folder": file.path.rpartition("/")[0],
            "machine": machine,
            "fields": as_json(fields, "the file"),
        }
        tables.replace(self._store, "machine", [row])
        return FileState(file, "read", rows=1)

    def _read_commits(self, file: SourceFile) -> FileState:
        lines = read_commits(file.read())
        self._shipped = {commit.hash: commit for commit in lines.records}
        return FileState.of_lines(file, len(lines.records), lines.rejected)

    def _file_row(self, state: FileState) -> dict[str, Any]:
        return {
            "source": self._claims.source,
            "path": state.file.path,
            "kind": state.file.kind,
            "digest": state.file.digest,
            "status": state.status,
            "reason": state.reason,
            "rows": state.rows,
            "ingested_at": self._now,
            "run_id": state.run_id,
            "kept_run_id": state.kept_run_id,
        }

    def _log_row(self, row: dict[str, Any]) -> dict[str, Any]:
        replaces = self._claims.replaces(row["path"]) and row["status"] == "read"
        return {**row, "status": "replaced"} if replaces else row
