"""Opening the store: the one place that knows what a store's address means.

A store is one DuckDB file that is never written in place. A writer copies it to a side
file, changes that, and renames it over the store (`rewriting`); so a reader keeps the file
it opened, a new reader gets the new one, neither ever meets a lock, and a writer that dies
leaves the store as it was. Writers take turns by a lock file beside the store.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb

from dashboard.errors import InputError


class OutdatedStoreError(InputError):
    """The store has an older schema; writing to it migrates it."""


@dataclass(frozen=True, slots=True)
class Store:
    """An open store; closes as a context manager."""

    path: Path
    connection: duckdb.DuckDBPyConnection

    def close(self) -> None:
        """Close the connection; harmless when repeated."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open_store(path: Path | str, read_only: bool = True) -> Store:
    """Open the store at ``path``.

    Read-only, it must exist and have this version's schema. Otherwise it is made or
    migrated first, in place: only for a file that nobody else reads (see `rewriting`).

    Raises InputError: no such file, not a store, or another version's schema.
    """
    location = _location(path)
    if read_only and not location.is_file():
        raise InputError(f"no store at {location}: run `lmhead-perf ingest --store {location}`")
    try:
        store = Store(location, _attach(location, read_only))
    except duckdb.Error as error:
        raise InputError(f"{location} is not a readable store: {_first_line(error)}") from error
    try:
        if read_only:
            _require_current(store)
        else:
            _migrate(store)
    except BaseException:
        store.close()
        raise
    return store


@contextmanager
def writing(path: Path | str, waiting: Callable[[], None] | None = None) -> Iterator[Path]:
    """Hold the store's writer lock; yields the store's path. ``waiting`` is called once
    if another writer has it."""
    location = _location(path)
    if location.exists() and not location.is_file():
        raise InputError(f"cannot write the store {location}: not a regular file")
    try:
        location.parent.mkdir(parents=True, exist_ok=True)
        handle = _beside(location, ".lock").open("w")
    except OSError as error:
        raise InputError(f"cannot write the store {location}: {error.strerror}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield location


@contextmanager
def rewriting(location: Path) -> Iterator[Store]:
    """A writable copy of the store that takes its place when the block ends well.

    To be used inside `writing`. On an exception, or a kill at any moment, the store stays
    as it was.
    """
    side = _beside(location, ".building")
    side_log = _beside(location, ".building.wal")
    for leftover in (side, side_log):
        leftover.unlink(missing_ok=True)
    try:
        if location.exists():
            shutil.copy(location, side)  # with its permissions
        with open_store(side, read_only=False) as store:
            yield store
            store.connection.execute("CHECKPOINT")
        with side.open("rb") as handle:
            os.fsync(handle.fileno())
        side.replace(location)
    except (OSError, duckdb.IOException) as error:
        raise InputError(f"cannot write the store {location}: {_first_line(error)}") from error
    finally:
        for leftover in (side, side_log):
            leftover.unlink(missing_ok=True)


def _location(path: Path | str) -> Path:
    text = str(path)
    if text.startswith("ducklake:"):
        raise InputError(f"{text}: ducklake stores are not supported by this version")
    path = Path(text)
    # a swap must replace the file, not a link to it
    return path.resolve() if path.is_symlink() else path


def _beside(location: Path, suffix: str) -> Path:
    return location.with_name(location.name + suffix)


def _attach(location: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    # A connection to the file itself would be shared by everyone in the process, who would
    # then go on seeing the file as it was before a swap; an attached one is not.
    connection = duckdb.connect(":memory:")
    try:
        name = str(location).replace("'", "''")
        options = " (READ_ONLY)" if read_only else ""
        connection.execute(f"ATTACH '{name}' AS store{options}")
        connection.execute("USE store")
    except duckdb.Error:
        connection.close()
        raise
    return connection


def _migrations() -> list[tuple[int, str]]:
    """Version and text of each migration, first to last."""
    folder = files("dashboard.store") / "migrations"
    named = [(entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((int(name.split("_")[0]), entry.read_text("utf-8")) for name, entry in named)


def _version(store: Store) -> int | None:
    """The store's schema version; None for a database without one."""
    try:
        row = store.connection.execute("SELECT max(version) FROM schema_version").fetchone()
    except duckdb.CatalogException:
        return None
    return None if row is None else row[0]


def _require_current(store: Store) -> None:
    version, newest = _version(store), _migrations()[-1][0]
    if version is None:
        raise InputError(f"{store.path} is a DuckDB file, but not a store of lmhead-perf")
    if version < newest:
        raise OutdatedStoreError(
            f"{store.path} has schema {version}, this version needs {newest}: "
            f"run `lmhead-perf ingest --store {store.path}`"
        )
    _refuse_newer(store, version, newest)


def _migrate(store: Store) -> None:
    migrations = _migrations()
    version = _version(store) or 0
    _refuse_newer(store, version, migrations[-1][0])
    for number, text in migrations:
        if number > version:
            store.connection.execute("BEGIN")
            store.connection.execute(text)
            now = datetime.now(UTC).replace(tzinfo=None)
            store.connection.execute("INSERT INTO schema_version VALUES (?, ?)", [number, now])
            store.connection.execute("COMMIT")


def _refuse_newer(store: Store, version: int, newest: int) -> None:
    if version > newest:
        raise InputError(
            f"{store.path} has schema {version}, newer than this version's {newest}: "
            "upgrade the package"
        )


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
