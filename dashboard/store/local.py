"""A store in DuckDB files that are never written in place.

A writer copies the store to a side file, changes that, and renames it over the store; so a
reader keeps the file it opened, a new reader gets the new one, neither ever meets a lock, and a
writer that dies leaves the store as it was. Writers take turns by a lock file beside the store.

That the copy stays small however long the history grows, many rows at once go to a *part*: an
immutable file of its own in a folder beside the store, ``<store>.parts``, that the store lists
and that every reader attaches. A store of less than some 64 MB is one file.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from dashboard.errors import InputError
from dashboard.store import schema
from dashboard.store.connect import (
    SEARCH_PATH,
    Store,
    attach,
    first_line,
    memory_database,
    not_readable,
)
from dashboard.store.schema import OutdatedStoreError

_LARGEST_STORE = 64 << 20  # bytes; what is above goes to a part
_BULK = 128 << 20  # bytes of results files that go to a part at once
_ATTEMPTS = 5
_PARTED = ("measurement", "round")
_HEADER = b"DUCK"  # after a checksum of 8 bytes
# A full disk shows as any of these, by the moment.
_NOT_WRITTEN = (
    OSError,
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.TransactionException,
    duckdb.FatalException,
)


def open_store(address: Path | str, read_only: bool) -> Store:
    """See `connect.open_store`."""
    location = locate(address)
    if read_only and not location.is_file():
        raise InputError(f"no store at {location}: run `lmhead-perf ingest --store {location}`")
    if read_only and not _is_database(location):
        raise InputError(f"{location} is not a readable store: it is no DuckDB file")
    for _ in range(_ATTEMPTS - 1):
        try:
            return _open(location, location, read_only)
        except _PartGoneError:
            continue  # the store was compacted since it was opened
    return _open(location, location, read_only)


def _is_database(location: Path) -> bool:
    """By its header: asked for a .json file, DuckDB itself would say something else."""
    try:
        with location.open("rb") as handle:
            return handle.read(len(_HEADER) + 8)[8:] == _HEADER
    except OSError as error:
        raise InputError(f"{location} is not a readable store: {error.strerror}") from error


def stamp(address: Path | str) -> str:
    """See `connect.stamp`."""
    try:
        found = locate(address).stat()
    except OSError as error:
        raise InputError(f"no store at {address}") from error
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def locate(address: Path | str) -> Path:
    """The file that is to be replaced: a link's target, not the link."""
    path = Path(address)
    return path.resolve() if path.is_symlink() else path


def files_of(address: Path | str) -> list[Path]:
    """The store's file and its parts."""
    location = locate(address)
    return [location, *sorted(parts_folder(location).glob("*.duckdb"))]


def parts_folder(location: Path) -> Path:
    """Where the parts lie."""
    return _beside(location, ".parts")


class Writer:
    """Holds a store's writer lock; made by `writing`."""

    def __init__(self, location: Path) -> None:
        self._location = location

    def reading(self) -> Store | None:
        """The store as it is, read-only; None if there is none yet."""
        return open_store(self._location, read_only=True) if self._location.exists() else None

    @contextmanager
    def changing(self, size: int = 0) -> Iterator[Store]:
        """A writable copy of the store that takes its place when the block ends well.

        ``size`` in bytes of results tells how much is to come. On an exception, or a kill at
        any moment, the store stays as it was.
        """
        with rewriting(self._location, size >= _BULK) as store:
            yield store


@contextmanager
def writing(address: Path | str, waiting: Callable[[], None] | None = None) -> Iterator[Writer]:
    """Hold the store's writer lock. ``waiting`` is called once if another writer has it."""
    location = locate(address)
    if location.exists() and not location.is_file():
        raise InputError(f"cannot write the store {location}: not a regular file")
    lock = _beside(location, ".lock")
    if location.exists() and not lock.exists():
        _require_store(location)
    try:
        location.parent.mkdir(parents=True, exist_ok=True)
        handle = lock.open("w")
    except OSError as error:
        raise InputError(f"cannot write the store {location}: {error.strerror}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield Writer(location)


@contextmanager
def rewriting(location: Path, bulk: bool = False) -> Iterator[Store]:
    """See `Writer.changing`; ``bulk`` sends new measurements and rounds to a part of their own."""
    side = _beside(location, ".building")
    try:
        _clear(side)
    except OSError as error:
        raise InputError(f"cannot write the store {location}: {side} is in the way") from error
    kept = {path for path in files_of(location) if path.exists()}
    try:
        if location.exists():
            shutil.copy(location, side)  # with its permissions
        with _open(location, side, read_only=False) as store:
            if bulk:
                _new_part(store, location, "WHERE false")
            yield store
            if _checkpoint(store) > _LARGEST_STORE:
                _gather(store, location, everything=False)
                _checkpoint(store)
            listed = {_part(location, name) for name in store.parts}
        slim = _beside(side, ".slim")
        if slim.exists():
            shutil.copymode(side, slim)
            slim.replace(side)
        for path in (side, *(listed - kept)):
            _sync(path)
        side.replace(location)
        kept = listed
    except _NOT_WRITTEN as error:
        raise InputError(f"cannot write the store {location}: {first_line(error)}") from error
    finally:
        _clear(side)
        # of what is not listed a reader that has it open keeps it
        for path in parts_folder(location).glob("*"):
            if path not in kept:
                path.unlink(missing_ok=True)


def compact(store: Store, location: Path) -> None:
    """Within `rewriting`: gather the rows of all parts in one, sorted by series, without what
    was removed from them; a store of one file stays one."""
    if store.parts:
        _gather(store, location)
    else:
        _slim(store, location)


def _gather(store: Store, location: Path, everything: bool = True) -> None:
    """Move the store's rows to a new part, sorted by series; those of its parts too, if
    ``everything``."""
    connection = store.connection
    old = list(store.parts) if everything else []
    _new_part(store, location, "ORDER BY series_id, run_id", everything)
    for table in _PARTED:
        connection.execute(f"TRUNCATE store.main.{table}")
    connection.execute("DELETE FROM dead_run WHERE part IN (SELECT unnest($old))", {"old": old})
    connection.execute("DELETE FROM part WHERE name IN (SELECT unnest($old))", {"old": old})
    store.parts = [part for part in store.parts if part not in old]
    schema.make_views(connection, store.parts)
    _slim(store, location)


def _slim(store: Store, location: Path) -> None:
    """Copy the store to the file that will take its place, without the room of deleted rows."""
    attach(store.connection, _beside(location, ".building.slim"), "slim", read_only=False)
    store.connection.execute("COPY FROM DATABASE store TO slim")
    store.connection.execute("DETACH slim")


def _require_store(location: Path) -> None:
    """Leave no lock beside a file that is something else. InputError unless it is a store."""
    with suppress(OutdatedStoreError):
        open_store(location, read_only=True).close()


class _PartGoneError(InputError):
    """A part that the store lists is not there."""


def _open(location: Path, file: Path, read_only: bool) -> Store:
    """Open ``file``, which is the store at ``location`` or its successor."""
    store = Store(str(location), memory_database())
    connection = store.connection
    try:
        try:
            attach(connection, file, "store", read_only)
        except duckdb.Error as error:
            raise not_readable(str(location), error) from error
        if read_only:
            schema.require_current(connection, str(location))
        else:
            with store.into("store"):
                schema.migrate(connection, str(location))
        for (name,) in connection.execute("FROM store.main.part SELECT name").fetchall():
            part = _part(location, name)
            if not part.is_file():
                raise _PartGoneError(f"{location} lacks its part {part}")
            attach(connection, part, f"part_{name}", read_only=True)
            store.parts.append(name)
        schema.make_views(connection, store.parts)
        connection.execute(SEARCH_PATH)
    except BaseException:
        store.close()
        raise
    return store


def _new_part(store: Store, location: Path, rows: str, everything: bool = True) -> str:
    """Make and attach a part with rows of the store; new ones go there from now on."""
    name = uuid.uuid4().hex
    parts_folder(location).mkdir(exist_ok=True)
    attach(store.connection, _part(location, name), f"part_{name}", read_only=False)
    for table in _PARTED:
        source = table if everything else f"store.main.{table}"
        store.connection.execute(f"CREATE TABLE part_{name}.main.{table} AS FROM {source} {rows}")
    now = datetime.now(UTC).replace(tzinfo=None)
    store.connection.execute("INSERT INTO part VALUES (?, ?)", [name, now])
    store.parts.append(name)
    store.target = f"part_{name}"
    schema.make_views(store.connection, store.parts)
    return name


def _checkpoint(store: Store) -> int:
    """Write everything to the files; the size of the store's own."""
    for name, path in store.connection.execute(
        "FROM duckdb_databases() SELECT database_name, path WHERE NOT internal AND NOT readonly"
    ).fetchall():
        if path is not None:
            store.connection.execute(f"CHECKPOINT {name}")
    return _beside(Path(store.address), ".building").stat().st_size


def _clear(side: Path) -> None:
    for suffix in ("", ".wal", ".slim", ".slim.wal"):
        _beside(side, suffix).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def _part(location: Path, name: str) -> Path:
    return parts_folder(location) / f"{name}.duckdb"


def _beside(location: Path, suffix: str) -> Path:
    return location.with_name(location.name + suffix)
