"""Rounds files into the temporary table ``line``, by DuckDB's own JSON reader.

A file is read in one piece. What the reader cannot take, or takes for something it is not,
goes line by line through `dashboard.rounds.good_rounds`, which says what is wrong; the good
lines then take the same way as all others. A number where text belongs is kept as its text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.parsing import UnreadableError
from dashboard.rounds import good_rounds
from dashboard.store.discover import SourceFile

# Whole numbers are read as floats first: the reader would round 1.5 to 2 in silence. Times are
# read as text: it would drop their zone.
_STRUCTURE = {
    "schema": "DOUBLE", "run": "VARCHAR", "machine": "VARCHAR", "environment": "VARCHAR",
    "commit": "VARCHAR", "benchmark": "VARCHAR", "params": "JSON", "family": "VARCHAR",
    "unit": "VARCHAR", "higher_is_better": "BOOLEAN", "round": "DOUBLE",
    "started_at": "VARCHAR", "status": "VARCHAR", "reason": "VARCHAR", "samples": "DOUBLE[]",
    "value": "DOUBLE", "statistic": "VARCHAR", "protocol": "VARCHAR", "gap_ms": "DOUBLE",
    "gpu": "VARCHAR", "gpu_uuid": "VARCHAR", "driver": "VARCHAR", "torch": "VARCHAR",
    "triton": "VARCHAR", "sm_clock_mhz": "DOUBLE", "power_w": "DOUBLE",
    "temperature_c": "DOUBLE", "clock_event_reasons": "VARCHAR[]", "m": "DOUBLE",
    "h": "DOUBLE", "v": "DOUBLE", "entropy": "VARCHAR", "schedule": "JSON",
    "fused_lmhead_file": "VARCHAR",
}  # fmt: skip
_COLUMNS = ", ".join(f'"{name}" {kind}' for name, kind in _STRUCTURE.items())
_TYPES = ", ".join(f"\"{name}\": '{kind}'" for name, kind in _STRUCTURE.items())

_CREATE = f"CREATE OR REPLACE TEMP TABLE line ({_COLUMNS}, file VARCHAR)"
_READ = (
    "INSERT INTO line FROM read_json($files, format = 'newline_delimited', "
    f"columns = {{{_TYPES}}}, filename = 'file')"
)
_READ_LINES = """
INSERT INTO line BY NAME
SELECT unnest(json_transform(text, $structure)), file FROM lines
"""
# Files of which the reader took what is no round.
_SUSPICIOUS = """
FROM line SELECT DISTINCT file
WHERE schema IS DISTINCT FROM 1 OR machine IS NULL OR environment IS NULL OR "commit" IS NULL
   OR benchmark IS NULL OR params IS NULL OR NOT starts_with(CAST(params AS VARCHAR), '{')
   OR status IS NULL OR status NOT IN ('ok', 'failed', 'skipped')
   OR list_count(samples) < len(samples)
   OR list_count(clock_event_reasons) < len(clock_event_reasons)
   OR (started_at IS NOT NULL AND isfinite(TRY_CAST(started_at AS TIMESTAMPTZ)) IS NOT TRUE)
   OR greatest(abs(round), abs(m), abs(h), abs(v)) >= 9007199254740992
   OR round <> trunc(round) OR m <> trunc(m) OR h <> trunc(h) OR v <> trunc(v)
   OR contains(CAST(schedule AS VARCHAR), 'NaN') OR contains(CAST(schedule AS VARCHAR), 'Inf')
"""
_FORGET = "DELETE FROM line WHERE file IN (SELECT unnest($files))"
# A path with these would be taken for a pattern.
_GLOB = re.compile(r"[*?\[\]{}]")

Rejected = tuple[tuple[int, str], ...]


def name_of(file: SourceFile) -> str:
    """The file's location, as text."""
    return os.fsencode(file.location).decode("utf-8", "backslashreplace")


def read_lines(
    connection: duckdb.DuckDBPyConnection, files: Sequence[SourceFile]
) -> dict[str, Rejected | str]:
    """Make the table ``line`` of these files: the columns of a rounds line, and ``file``, the
    file's name by `name_of`. Rows of a file are in its order.

    Returns the trouble by that name: (line number, reason) for each line that was left out, or
    the reason why the whole file was.
    """
    connection.execute(_CREATE)
    whole = [name_of(file) for file in files if file.problem is None and _is_plain(file)]
    if whole and not _read(connection, whole):
        whole = [name for name in whole if _read(connection, [name])]
    found = {row[0] for row in connection.execute(_SUSPICIOUS).fetchall()}
    if found:
        connection.execute(_FORGET, {"files": sorted(found)})
    clean = set(whole) - found
    trouble: dict[str, Rejected | str] = {}
    for file in files:
        name = name_of(file)
        if name not in clean:
            try:
                lines = good_rounds(file.read())
            except UnreadableError as error:
                trouble[name] = str(error)
                continue
            trouble[name] = lines.rejected
            _insert(connection, name, lines.records)
    return trouble


def _is_plain(file: SourceFile) -> bool:
    return name_of(file) == str(file.location) and not _GLOB.search(str(file.location))


def _read(connection: duckdb.DuckDBPyConnection, names: list[str]) -> bool:
    try:
        connection.execute(_READ, {"files": names})
    except (duckdb.InvalidInputException, duckdb.IOException, duckdb.ConversionException):
        return False
    return True


def _insert(connection: duckdb.DuckDBPyConnection, name: str, lines: Sequence[bytes]) -> None:
    texts = pa.array([line.decode() for line in lines], pa.string())
    table = pa.table([texts, pa.array([name] * len(lines), pa.string())], names=["text", "file"])
    structure: dict[str, object] = {
        key: [kind.removesuffix("[]")] if kind.endswith("[]") else kind
        for key, kind in _STRUCTURE.items()
    }
    connection.register("lines", table)
    try:
        connection.execute(_READ_LINES, {"structure": json.dumps(structure)})
    finally:
        connection.unregister("lines")
