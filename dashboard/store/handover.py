"""Columns from Python to DuckDB."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

# Rows; above, the way by a file costs more than what it saves.
FEW = 20_000


@contextmanager
def shown(connection: duckdb.DuckDBPyConnection, batch: pa.Table) -> Iterator[None]:
    """Make columns the view ``batch`` of a connection within the block.

    A few rows go by a Parquet file: to hand DuckDB anything of Python's, a value of a statement
    included, loads pandas, which takes longer than the ingest of one more commit.
    """
    if len(batch) > FEW:
        connection.register("batch", batch)
        try:
            yield
        finally:
            connection.unregister("batch")
        return
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    with tempfile.TemporaryDirectory(prefix="lmhead-perf-") as folder:
        path = Path(folder) / "batch.parquet"
        pq.write_table(batch, path, compression="none", use_dictionary=False)
        quoted = str(path).replace("'", "''")
        connection.execute(f"CREATE OR REPLACE TEMP VIEW batch AS FROM read_parquet('{quoted}')")
        try:
            yield
        finally:
            connection.execute("DROP VIEW batch")
