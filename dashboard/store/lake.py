"""A store that is a DuckLake: its catalogue in PostgreSQL, its rows in Parquet files.

``ducklake:postgres:host=… dbname=…`` names the catalogue; the files lie in a folder or under an
``s3://`` prefix, which `initialize` is told once. Any number of machines write and read it.
Writers take turns by an advisory lock in the catalogue's own database, which ends with the
connection that holds it, however that ends; each ingest is one transaction. Object storage is
reached with the usual ``AWS_…`` variables.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb

from dashboard.errors import InputError
from dashboard.store import schema
from dashboard.store.connect import (
    LAKE,
    SEARCH_PATH,
    Store,
    first_line,
    memory_database,
    not_readable,
)

_POSTGRES = "postgres:"
# The key of the advisory lock: an arbitrary number that nobody else uses.
_LOCK = 0x6C6D_6865_6164


def open_store(address: str, read_only: bool) -> Store:
    """See `connect.open_store`."""
    store = _attached(address, "READ_ONLY" if read_only else "CREATE_IF_NOT_EXISTS false")
    try:
        if read_only:
            schema.require_current(store.connection, address)
        _prepare(store)
    except BaseException:
        store.close()
        raise
    return store


def initialize(address: str, data: str | None) -> bool:
    """See `maintenance.initialize`."""
    with writing(address, None):
        try:
            _attached(address, "READ_ONLY").close()
        except InputError:
            if data is None:
                raise InputError(
                    f"no store at {address}: name the place of its files with --data"
                ) from None
        else:
            return False
        if "://" not in data:
            data = str(Path(data).resolve())
        with _attached(address, f"DATA_PATH {_quoted(data)}") as store, _transaction(store):
            _migrate(store)
    return True


def stamp(address: str) -> str:
    """See `connect.stamp`."""
    with _attached(address, "READ_ONLY") as store:
        row = store.connection.execute("FROM ducklake_snapshots('store') SELECT max(snapshot_id)")
        return str(row.fetchall()[0][0])


def compact(address: str) -> tuple[int, int]:
    """Merge small files, drop removed rows and what nobody reads any more; bytes before, after."""
    with writing(address, None), _attached(address, "CREATE_IF_NOT_EXISTS false") as store:
        before = sizes(store)["bytes"]
        for statement in (
            "CALL ducklake_flush_inlined_data('store')",
            "CALL ducklake_rewrite_data_files('store', delete_threshold => 0.0)",
            "CALL ducklake_merge_adjacent_files('store')",
            # who has just opened an older snapshot may still read its files
            "CALL ducklake_expire_snapshots('store', older_than => now() - INTERVAL 1 HOUR)",
            "CALL ducklake_cleanup_old_files('store', older_than => now() - INTERVAL 1 HOUR)",
        ):
            _execute(store, statement)
        return before, sizes(store)["bytes"]


def sizes(store: Store) -> dict[str, Any]:
    """Bytes and number of the data files that make up the store as it is now."""
    row = store.connection.execute(
        "FROM ducklake_table_info('store') SELECT sum(file_size_bytes + delete_file_size_bytes), "
        "sum(file_count + delete_file_count)"
    ).fetchall()[0]
    return {"bytes": int(row[0] or 0), "data_files": int(row[1] or 0)}


class Writer:
    """Holds a lake's writer lock; made by `writing`."""

    def __init__(self, address: str) -> None:
        self._address = address

    def reading(self) -> Store:
        """The store as it is, read-only. InputError if there is none yet."""
        return open_store(self._address, read_only=True)

    @contextmanager
    def changing(self, size: int = 0) -> Iterator[Store]:
        """The store within one transaction; see `connect.Writer`."""
        with open_store(self._address, read_only=False) as store, _transaction(store):
            _migrate(store)
            yield store


@contextmanager
def writing(address: str, waiting: Callable[[], None] | None) -> Iterator[Writer]:
    """See `connect.writing`."""
    catalogue = address.removeprefix(LAKE)
    guard = _in_postgres if catalogue.startswith(_POSTGRES) else _beside_file
    with guard(catalogue, waiting):
        yield Writer(address)


@contextmanager
def _in_postgres(catalogue: str, waiting: Callable[[], None] | None) -> Iterator[None]:
    connection = memory_database()
    try:
        _load(connection, "postgres_scanner")
        target = _quoted(catalogue.removeprefix(_POSTGRES))
        connection.execute(f"ATTACH {target} AS catalogue (TYPE postgres)")
        connection.execute("BEGIN")
        if not _ask(connection, "pg_try_advisory_xact_lock"):
            if waiting is not None:
                waiting()
            _ask(connection, "pg_advisory_xact_lock")
    except duckdb.Error as error:
        connection.close()
        raise InputError(
            f"cannot reach the catalogue of {LAKE}{catalogue}: {first_line(error)}"
        ) from error
    try:
        yield
    finally:
        connection.close()


def _ask(connection: duckdb.DuckDBPyConnection, function: str) -> object:
    return connection.execute(
        "FROM postgres_query('catalogue', $query)", {"query": f"SELECT {function}({_LOCK})"}
    ).fetchall()[0][0]


@contextmanager
def _beside_file(catalogue: str, waiting: Callable[[], None] | None) -> Iterator[None]:
    path = Path(catalogue.partition(":")[2] or catalogue)
    try:
        handle = path.with_name(path.name + ".lock").open("w")
    except OSError as error:
        raise InputError(f"cannot write beside {path}: {error.strerror}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _transaction(store: Store) -> Iterator[None]:
    """All of the block or nothing."""
    store.connection.execute("BEGIN")
    try:
        yield
        _execute(store, "COMMIT")
    except BaseException:
        store.close()  # which forgets what was not committed
        raise


def _migrate(store: Store) -> None:
    with store.into("store"):
        schema.migrate(store.connection, store.address, own_transaction=False)
    _prepare(store)


def _prepare(store: Store) -> None:
    store.connection.execute(SEARCH_PATH)
    schema.make_views(store.connection, ())


def _attached(address: str, options: str) -> Store:
    store = Store(address, memory_database())
    try:
        _load(store.connection, "ducklake")
        if address.removeprefix(LAKE).startswith(_POSTGRES):
            _load(store.connection, "postgres_scanner")
        if "AWS_ACCESS_KEY_ID" in os.environ or "s3://" in options:
            _load(store.connection, "httpfs")
            _use_credentials(store.connection)
        store.connection.execute(f"ATTACH {_quoted(address)} AS store ({options})")
    except BaseException as error:
        store.close()
        if isinstance(error, duckdb.Error):
            raise not_readable(address, error) from error
        raise
    return store


def _load(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Load an extension from its package, which has the very version of duckdb."""
    try:
        package = import_module(f"duckdb_extension_{name}")
    except ImportError as error:
        raise InputError(
            "ducklake: stores need DuckDB's extensions: pip install 'fused-lmhead[ducklake]'"
        ) from error
    folder = files(package) / "extensions" / f"v{duckdb.__version__}"
    path = Path(str(folder)) / f"{name}.duckdb_extension"
    if not path.is_file():
        raise InputError(
            f"the package duckdb-extension-{name.replace('_', '-')} is not made for duckdb "
            f"{duckdb.__version__}: pip install 'fused-lmhead[ducklake]'"
        )
    connection.execute(f"LOAD {_quoted(str(path))}")


def _use_credentials(connection: duckdb.DuckDBPyConnection) -> None:
    """Reach object storage with the variables that other tools use too."""
    settings = {
        "KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID"),
        "SECRET": os.environ.get("AWS_SECRET_ACCESS_KEY"),
        "SESSION_TOKEN": os.environ.get("AWS_SESSION_TOKEN"),
        "REGION": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
    }
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    given = [f"{name} {_quoted(value)}" for name, value in settings.items() if value]
    if endpoint:
        url = urlsplit(endpoint)
        given += [f"ENDPOINT {_quoted(url.netloc)}", "URL_STYLE 'path'"]
        given += ["USE_SSL false"] if url.scheme == "http" else []
    connection.execute(f"CREATE SECRET objects (TYPE s3, {', '.join(given)})")


def _execute(store: Store, statement: str) -> None:
    try:
        store.connection.execute(statement)
    except duckdb.Error as error:
        raise InputError(f"cannot write the store {store.address}: {first_line(error)}") from error


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
