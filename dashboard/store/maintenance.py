"""What `lmhead-perf store` does to a store as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboard.errors import InputError
from dashboard.store import lake, local, queries, schema
from dashboard.store.connect import Store, is_lake, open_store, writing
from dashboard.store.schema import OutdatedStoreError


@dataclass(frozen=True, slots=True)
class Change:
    """A size or version before and after."""

    before: int
    after: int


def initialize(address: str, data: str | None = None) -> bool:
    """Make an empty store; False if there is one already. ``data`` is where a DuckLake keeps
    its Parquet files: a folder or an ``s3://`` prefix.

    Raises InputError: no place for a store, or one that cannot be written.
    """
    if is_lake(address):
        return lake.initialize(address, data)
    if data is not None:
        raise InputError(f"--data is for ducklake: stores; {address} keeps its own data")
    with writing(address) as writer:
        before = writer.reading()
        if before is not None:
            before.close()
            return False
        with writer.changing():
            return True


def migrate(address: str) -> Change:
    """Bring a store to this package's schema; its versions. InputError: no such store."""
    with writing(address) as writer:
        try:
            before = writer.reading()
        except OutdatedStoreError as error:
            with writer.changing():
                return Change(error.found, schema.newest())
        if before is None:
            raise InputError(f"no store at {address}")
        before.close()
    return Change(schema.newest(), schema.newest())


def compact(address: str) -> Change:
    """Sort the store's rows by series and drop what is no longer of use; bytes before and after.

    Raises InputError: no such store, or one that cannot be written.
    """
    open_store(address).close()
    if is_lake(address):
        return Change(*lake.compact(address))
    before = _bytes(address)
    with writing(address) as writer, writer.changing() as store:
        local.compact(store, local.locate(address))
    return Change(before, _bytes(address))


def describe(store: Store) -> dict[str, Any]:
    """Kind, schema version, size in bytes, files and row counts of an open store."""
    facts: dict[str, Any] = {"store": store.address, "schema": schema.version(store.connection)}
    if is_lake(store.address):
        facts |= {"kind": "DuckLake", **lake.sizes(store)}
    else:
        files = local.files_of(store.address)
        facts |= {"kind": "DuckDB", "bytes": _bytes(store.address), "data_files": len(files)}
    return facts | queries.figures(store)


def _bytes(address: str) -> int:
    return sum(path.stat().st_size for path in local.files_of(address))
