"""Writing rows: Arrow batches into the tables of ``migrations/``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.store.connect import Store

Row = Mapping[str, Any]

_TIME = pa.timestamp("us")
_TEXT = pa.string()
_TEXTS = pa.list_(pa.string())
_NUMBER = pa.float64()
_NUMBERS = pa.list_(pa.float64())
_WHOLE = pa.int64()
_FLAG = pa.bool_()

_COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "source_file": {
        "path": _TEXT, "kind": _TEXT, "sha256": _TEXT, "status": _TEXT, "reason": _TEXT,
        "rows": _WHOLE, "ingested_at": _TIME,
    },
    "machine": {"folder": _TEXT, "machine": _TEXT, "fields": _TEXT},
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
    },
    "measurement": {
        "run_id": _WHOLE, "series_id": _WHOLE, "status": _TEXT, "reason": _TEXT,
        "value": _NUMBER, "low": _NUMBER, "high": _NUMBER, "round_count": _WHOLE,
        "asv_value": _NUMBER, "asv_low": _NUMBER, "asv_high": _NUMBER, "q25": _NUMBER,
        "q75": _NUMBER, "samples": _NUMBERS, "version": _TEXT, "started_at": _TIME,
        "duration_s": _NUMBER, "gpu": _TEXT, "gpu_uuid": _TEXT, "driver": _TEXT,
        "torch": _TEXT, "triton": _TEXT, "sm_clock_mhz": _NUMBER, "power_w": _NUMBER,
        "temperature_c": _NUMBER, "clock_event_reasons": _TEXTS, "schedule": _TEXT,
        "statistic": _TEXT, "protocol": _TEXT,
    },
    "round": {
        "run_id": _WHOLE, "series_id": _WHOLE, "attached": _FLAG, "asv_run": _TEXT,
        "round": _WHOLE, "status": _TEXT, "reason": _TEXT, "value": _NUMBER,
        "samples": _NUMBERS, "started_at": _TIME, "gap_ms": _NUMBER, "gpu_uuid": _TEXT,
        "sm_clock_mhz": _NUMBER, "power_w": _NUMBER, "temperature_c": _NUMBER,
        "clock_event_reasons": _TEXTS, "fused_lmhead_file": _TEXT,
    },
}  # fmt: skip

_COLUMNS["ingest_log"] = _COLUMNS["source_file"]

_INSERT = {
    "ingest_log": "INSERT INTO ingest_log BY NAME SELECT * FROM batch",
    "source_file": "INSERT INTO source_file BY NAME SELECT * FROM batch",
    "machine": "INSERT INTO machine BY NAME SELECT * FROM batch",
    "benchmark": "INSERT INTO benchmark BY NAME SELECT * FROM batch",
    "commit_info": "INSERT INTO commit_info BY NAME SELECT * FROM batch",
    "run": "INSERT INTO run BY NAME SELECT * FROM batch",
    "series": "INSERT INTO series BY NAME SELECT * FROM batch",
    "measurement": "INSERT INTO measurement BY NAME SELECT * FROM batch",
    "round": "INSERT INTO round BY NAME SELECT * FROM batch",
}

_DELETE = {
    "source_file": "DELETE FROM source_file WHERE path IN (SELECT path FROM batch)",
    "machine": "DELETE FROM machine WHERE folder IN (SELECT folder FROM batch)",
    "benchmark": "DELETE FROM benchmark WHERE name IN (SELECT name FROM batch)",
    "commit_info": "DELETE FROM commit_info",
    "series": "DELETE FROM series WHERE series_id IN (SELECT series_id FROM batch)",
}


def insert(store: Store, table: str, rows: Iterable[Row]) -> None:
    """Append rows; a key that is not a column is an error, an absent one is NULL."""
    _write(store, table, list(rows), [_INSERT[table]])


def replace(store: Store, table: str, rows: Iterable[Row]) -> None:
    """Insert rows in place of those with the same key; all commits in place of all."""
    _write(store, table, list(rows), [_DELETE[table], _INSERT[table]])


def remove_runs(store: Store, run_ids: Sequence[int], now: datetime) -> None:
    """Take out runs with all that hangs on them, keeping their values in the log."""
    values = {"ids": list(run_ids)}
    store.connection.execute(
        """
        INSERT INTO replaced_measurement
        SELECT path, $now, series_id, commit_hash, status, value
        FROM measurement JOIN run USING (run_id)
        WHERE list_contains(CAST($ids AS BIGINT[]), run_id)
        """,
        {**values, "now": now},
    )
    for statement in (
        "DELETE FROM measurement WHERE list_contains(CAST($ids AS BIGINT[]), run_id)",
        "DELETE FROM round WHERE list_contains(CAST($ids AS BIGINT[]), run_id)",
        "DELETE FROM run WHERE list_contains(CAST($ids AS BIGINT[]), run_id)",
    ):
        store.connection.execute(statement, values)


def identifier(*parts: str) -> int:
    """A stable 53-bit number (exact in JavaScript too) for what the parts identify."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big") + data)
    return int.from_bytes(digest.digest(), "big") >> 11


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
    arrays = [
        pa.array([row.get(name) for row in rows], type=kind) for name, kind in columns.items()
    ]
    store.connection.register("batch", pa.table(arrays, names=list(columns)))
    try:
        for statement in statements:
            store.connection.execute(statement)
    finally:
        store.connection.unregister("batch")
