"""Writing rows: Arrow batches into the tables of ``migrations/``."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.store.columns import flags, integers, lists, texts, times
from dashboard.store.connect import Store
from dashboard.store.handover import FEW, shown

Row = Mapping[str, Any]
_Item = TypeVar("_Item")

_TIME = pa.timestamp("us")
_TEXT = pa.string()
_TEXTS = pa.list_(pa.string())
_WHOLE = pa.int64()
_FLAG = pa.bool_()

_COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "source_file": {
        "source": _TEXT, "path": _TEXT, "kind": _TEXT, "digest": _TEXT, "status": _TEXT,
        "reason": _TEXT, "rows": _WHOLE, "ingested_at": _TIME, "run_id": _WHOLE,
        "kept_run_id": _WHOLE,
    },
    "machine": {"source": _TEXT, "folder": _TEXT, "machine": _TEXT, "fields": _TEXT},
    "benchmark": {
        "name": _TEXT, "unit": _TEXT, "type": _TEXT, "version": _TEXT, "param_names": _TEXTS,
    },
    "commit_info": {
        "hash": _TEXT, "tree": _TEXT, "parents": _TEXTS, "author": _TEXT, "author_date": _TIME,
        "commit_date": _TIME, "subject": _TEXT, "tags": _TEXTS, "position": _WHOLE,
        "known_by": _TEXT,
    },
    "run": {
        "run_id": _WHOLE, "path": _TEXT, "machine": _TEXT, "environment": _TEXT,
        "commit_hash": _TEXT, "commit_date": _TIME, "started_at": _TIME, "python": _TEXT,
        "gpu": _TEXT, "driver": _TEXT, "torch": _TEXT, "triton": _TEXT, "fields": _TEXT,
    },
    "series": {
        "series_id": _WHOLE, "benchmark": _TEXT, "param_values": _TEXTS, "params": _TEXT,
        "label": _TEXT, "machine": _TEXT, "environment": _TEXT, "unit": _TEXT,
        "higher_is_better": _FLAG, "family": _TEXT, "model": _TEXT, "tokens": _WHOLE,
        "tp": _WHOLE, "m": _WHOLE, "h": _WHOLE, "v": _WHOLE, "entropy": _TEXT,
        "described_at": _TIME,
    },
}  # fmt: skip

_COLUMNS["ingest_log"] = _COLUMNS["source_file"]

_APPEND = {
    "measurement": "INSERT INTO measurement BY NAME FROM batch",
    "round": "INSERT INTO round BY NAME FROM batch",
}

_INSERT = {
    "ingest_log": "INSERT INTO ingest_log BY NAME "
    "SELECT * EXCLUDE (run_id, kept_run_id) FROM batch",
    "source_file": "INSERT INTO source_file BY NAME SELECT * FROM batch",
    "machine": "INSERT INTO machine BY NAME SELECT * FROM batch",
    "benchmark": "INSERT INTO benchmark BY NAME SELECT * FROM batch",
    "commit_info": "INSERT INTO commit_info BY NAME SELECT * FROM batch",
    "run": "INSERT INTO run BY NAME SELECT * FROM batch",
    "series": "INSERT INTO series BY NAME SELECT * FROM batch",
}

_DELETE = {
    "source_file": "DELETE FROM source_file "
    "WHERE (source, path) IN (SELECT (source, path) FROM batch)",
    "machine": "DELETE FROM machine WHERE (source, folder) IN (SELECT (source, folder) FROM batch)",
    "benchmark": "DELETE FROM benchmark WHERE name IN (SELECT name FROM batch)",
    "commit_info": "DELETE FROM commit_info WHERE hash IN (SELECT hash FROM batch)",
    "series": "DELETE FROM series WHERE series_id IN (SELECT series_id FROM batch)",
}


_KEEP_REPLACED = """
INSERT INTO replaced_measurement
SELECT path, $now, series_id, commit_hash, status, value
FROM measurement JOIN run USING (run_id)
WHERE run_id IN (SELECT unnest($ids))
"""
# What lies in a part stays there, hidden from the next reader on, until the store is compacted.
_BURY = "INSERT INTO dead_run SELECT $part, unnest($ids)"
_REMOVE = (
    "DELETE FROM store.measurement WHERE run_id IN (SELECT unnest($ids))",
    "DELETE FROM store.round WHERE run_id IN (SELECT unnest($ids))",
    "DELETE FROM run WHERE run_id IN (SELECT unnest($ids))",
)


_FORGET = (
    """
    INSERT INTO ingest_log BY NAME
    SELECT path, kind, digest, 'pruned' AS status, reason, "rows", $now AS ingested_at, source
    FROM source_file
    WHERE source = $source AND path IN (SELECT unnest($paths))
    """,
    """
    DELETE FROM machine
    WHERE source = $source AND concat_ws('/', nullif(folder, ''), 'machine.json')
          IN (SELECT unnest($paths))
    """,
    "DELETE FROM source_file WHERE source = $source AND path IN (SELECT unnest($paths))",
    "DELETE FROM commit_info WHERE known_by = 'date' AND hash NOT IN (SELECT commit_hash FROM run)",
)


def insert(store: Store, table: str, rows: Iterable[Row]) -> None:
    """Append rows; a key that is not a column is an error, an absent one is NULL."""
    _write(store, table, list(rows), [_INSERT[table]])


def append(
    store: Store, connection: duckdb.DuckDBPyConnection, table: str, batch: pa.Table
) -> None:
    """Append rows of `measurement` or `round` by a connection of `Store.appending`."""
    if not len(batch):
        return
    # in a transaction a view of many rows would hold them until it ends: DuckDB finds `batch` here
    view = shown(connection, batch) if len(batch) <= FEW else nullcontext()
    with view, store.into(store.target, connection):
        connection.execute(_APPEND[table])


def replace(store: Store, table: str, rows: Iterable[Row]) -> None:
    """Insert rows in place of those with the same key."""
    _write(store, table, list(rows), [_DELETE[table], _INSERT[table]])


def remove_runs(store: Store, run_ids: Sequence[int], now: datetime) -> None:
    """Take out runs with all that hangs on them, keeping their values in the log."""
    if not run_ids:
        return
    values = {"ids": list(run_ids)}
    store.connection.execute(_KEEP_REPLACED, {**values, "now": now})
    for part in store.parts:
        store.connection.execute(_BURY, {**values, "part": part})
    for statement in _REMOVE:
        store.connection.execute(statement, values)


def forget_files(store: Store, source: str, paths: Sequence[str], now: datetime) -> None:
    """Take out what is known of a source's files, and say so in the log; their runs must be
    removed before."""
    given = {"source": source, "paths": list(paths), "now": now}
    for statement in _FORGET:
        names = [name for name in given if f"${name}" in statement]
        store.connection.execute(statement, {name: given[name] for name in names})


def identifier(*parts: str) -> int:
    """A stable 53-bit number (exact in JavaScript too) for what the parts identify."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big") + data)
    return int.from_bytes(digest.digest(), "big") >> 11


def pieces(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """The items in stretches of at most that many."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def stored_time(time: datetime | None) -> datetime | None:
    """The time as the store has it: UTC without a zone."""
    return None if time is None else time.astimezone(UTC).replace(tzinfo=None)


def _write(store: Store, table: str, rows: Sequence[Row], statements: Sequence[str]) -> None:
    if not rows:
        return
    columns = _COLUMNS[table]
    unknown = set().union(*(row.keys() for row in rows)) - columns.keys()
    if unknown:
        raise ValueError(f"{table} has no columns {sorted(unknown)}")
    arrays = [_column(kind, [row.get(name) for row in rows]) for name, kind in columns.items()]
    with shown(store.connection, pa.table(arrays, names=list(columns))):
        for statement in statements:
            store.connection.execute(statement)


def _column(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    if kind == _TEXT:
        return texts(cells)
    if kind == _TEXTS:
        return lists(texts(list(itertools.chain.from_iterable(cells))), [len(c) for c in cells])
    if kind == _TIME:
        return times(cells)
    if kind == _FLAG:
        return flags(cells)
    unknown = np.array([cell is None for cell in cells], bool)
    return integers([cell or 0 for cell in cells], kind, unknown)
