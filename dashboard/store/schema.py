"""The schema's versions, and the views that every connection makes for itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files

import duckdb

from dashboard.errors import InputError

_CURRENT = """
CREATE OR REPLACE TEMP VIEW current_measurement AS
SELECT
    measurement.* EXCLUDE (gpu, driver, torch, triton),
    coalesce(measurement.gpu, run.gpu) AS gpu,
    coalesce(measurement.driver, run.driver) AS driver,
    coalesce(measurement.torch, run.torch) AS torch,
    coalesce(measurement.triton, run.triton) AS triton,
    run.commit_hash,
    run.machine,
    run.environment
FROM {measurement} AS measurement
JOIN store.main.run AS run USING (run_id)
-- Of several runs of one series at one commit the latest counts.
QUALIFY row_number() OVER (
    PARTITION BY measurement.series_id, run.commit_hash
    ORDER BY measurement.started_at DESC NULLS LAST, run.path, measurement.round_count DESC,
             run.run_id
) = 1
"""
_UNION = """
CREATE OR REPLACE VIEW memory.main.{table} AS
FROM store.main.{table}
{parts}
"""
_PART = """
UNION ALL BY NAME
FROM {catalog}.main.{table}
WHERE run_id NOT IN (FROM store.main.dead_run SELECT run_id WHERE part = '{name}')
"""


class OutdatedStoreError(InputError):
    """The store has an older schema, ``found``; writing to it migrates it."""

    def __init__(self, message: str, found: int) -> None:
        super().__init__(message)
        self.found = found


def migrations() -> list[tuple[int, str]]:
    """Version and text of each migration, first to last."""
    folder = files("dashboard.store") / "migrations"
    named = [(entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((int(name.split("_")[0]), entry.read_text("utf-8")) for name, entry in named)


def newest() -> int:
    """This package's schema version."""
    return migrations()[-1][0]


def version(connection: duckdb.DuckDBPyConnection) -> int | None:
    """The store's schema version; None for a database without one."""
    try:
        row = connection.execute("SELECT max(version) FROM store.main.schema_version").fetchone()
    except duckdb.CatalogException:
        return None
    return None if row is None else row[0]


def require_current(connection: duckdb.DuckDBPyConnection, address: str) -> None:
    """InputError unless the store has exactly this package's schema."""
    found, wanted = version(connection), newest()
    if found is None:
        raise InputError(f"{address} is a database, but not a store of lmhead-perf")
    if found < wanted:
        raise OutdatedStoreError(
            f"{address} has schema {found}, this version needs {wanted}: "
            f"run `lmhead-perf store migrate --store {address}`",
            found,
        )
    _refuse_newer(found, wanted, address)


def migrate(
    connection: duckdb.DuckDBPyConnection, address: str, own_transaction: bool = True
) -> None:
    """Bring the store, whose catalog is the current one, to this package's schema."""
    found, wanted = version(connection) or 0, newest()
    _refuse_newer(found, wanted, address)
    for number, text in migrations():
        if number > found:
            now = datetime.now(UTC).replace(tzinfo=None)
            if own_transaction:
                connection.execute("BEGIN")
            connection.execute(text)
            connection.execute("INSERT INTO schema_version VALUES (?, ?)", [number, now])
            if own_transaction:
                connection.execute("COMMIT")


def make_views(connection: duckdb.DuckDBPyConnection, parts: Sequence[str]) -> None:
    """Make `current_measurement`, and `measurement` and `round` over the store and its parts.

    A part is attached as ``part_`` and its name, which is hexadecimal.
    """
    measurement = "store.main.measurement"
    if parts:
        for table in ("measurement", "round"):
            pieces = [
                _PART.format(catalog=f"part_{name}", table=table, name=name) for name in parts
            ]
            connection.execute(_UNION.format(table=table, parts="".join(pieces)))
        measurement = "memory.main.measurement"
    connection.execute(_CURRENT.format(measurement=measurement))


def _refuse_newer(found: int, wanted: int, address: str) -> None:
    if found > wanted:
        raise InputError(
            f"{address} has schema {found}, newer than this version's {wanted}: upgrade the package"
        )
