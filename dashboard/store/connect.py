"""Opening a store: the one place that knows what a store's address means.

An address is the path of a DuckDB file (see `local`) or a ``ducklake:`` URI (see `lake`).
Either way the tables lie in the catalog ``store``, and what reads more than one of them in the
catalog ``memory``; the search path finds both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import duckdb

from dashboard.errors import InputError

LAKE = "ducklake:"


@dataclass(slots=True)
class Store:
    """An open store; closes as a context manager.

    ``address`` is what it was opened by; ``parts`` names the part files that are attached;
    ``target`` is the catalog that new rows of `measurement` and `round` go to.
    """

    address: str
    connection: duckdb.DuckDBPyConnection
    parts: list[str] = field(default_factory=list)
    target: str = "store"

    @property
    def path(self) -> Path:
        """The address as a path, for messages."""
        return Path(self.address)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Make all changes of the block one transaction, where they are of one file: the log is
        written once. A lake's are one anyway."""
        if is_lake(self.address) or self.target != "store":
            yield
            return
        self.connection.execute("BEGIN")
        yield
        self.connection.execute("COMMIT")

    @contextmanager
    def appending(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for new rows of `measurement` and `round`.

        Where they go to a part they are one transaction of one thread: it writes each row group
        once, when it is full. Several threads would hold them all, and a transaction for each
        batch write them twice.
        """
        if self.target == "store":
            yield self.connection
            return
        connection = self.connection.cursor()
        try:
            connection.execute("SET threads = 1")
            connection.execute("SET write_buffer_row_group_count = 1")
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.execute("RESET threads")
            connection.execute("RESET write_buffer_row_group_count")
            connection.close()

    @contextmanager
    def into(
        self, catalog: str, connection: duckdb.DuckDBPyConnection | None = None
    ) -> Iterator[None]:
        """Write unqualified table names to this catalog within the block."""
        connection = connection or self.connection
        connection.execute(f"SET search_path = '{catalog}.main'")
        try:
            yield
        finally:
            connection.execute(SEARCH_PATH)

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


SEARCH_PATH = "SET search_path = 'memory.main,store.main'"


def is_lake(address: Path | str) -> bool:
    """Whether the address is that of a DuckLake."""
    return str(address).startswith(LAKE)


def open_store(address: Path | str, read_only: bool = True) -> Store:
    """Open a store.

    Read-only, it must exist and have this version's schema. Otherwise it is made or migrated
    first; a DuckDB file in place: only for one that nobody else reads (see `local.rewriting`).

    Raises InputError: no such store, not a store, or another version's schema.
    """
    from dashboard.store import lake, local

    if is_lake(address):
        return lake.open_store(str(address), read_only)
    return local.open_store(address, read_only)


class Writer(Protocol):
    """Holds a store's writer lock."""

    def reading(self) -> Store | None:
        """The store as it is, read-only; None if there is none yet."""

    def changing(self, size: int = 0) -> AbstractContextManager[Store]:
        """The store for writing; readers see all of the block's changes once it ends well, and
        none if it does not. ``size`` in bytes of results tells how much is to come."""


def writing(
    address: Path | str, waiting: Callable[[], None] | None = None
) -> AbstractContextManager[Writer]:
    """Hold the store's writer lock. ``waiting`` is called once if another writer has it.

    Raises InputError: a store that cannot be written.
    """
    from dashboard.store import lake, local

    if is_lake(address):
        return lake.writing(str(address), waiting)
    return local.writing(address, waiting)


def stamp(address: Path | str) -> str:
    """A text that changes whenever the store's content may have. InputError: no such store."""
    from dashboard.store import lake, local

    return lake.stamp(str(address)) if is_lake(address) else local.stamp(address)


def memory_database() -> duckdb.DuckDBPyConnection:
    """A connection to attach a store to.

    One to a store's file itself would be shared by everyone in the process, who would then go
    on seeing the file as it was before a swap; an attached one is not.
    """
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # it would write to stdout
    return connection


def attach(connection: duckdb.DuckDBPyConnection, path: Path, name: str, read_only: bool) -> None:
    """Attach a DuckDB file as a catalog."""
    quoted = str(path).replace("'", "''")
    options = " (READ_ONLY)" if read_only else ""
    connection.execute(f"ATTACH '{quoted}' AS {name}{options}")


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def not_readable(address: str, error: duckdb.Error) -> InputError:
    """What to say of a store that DuckDB cannot open."""
    return InputError(f"{address} is not a readable store: {first_line(error)}")
