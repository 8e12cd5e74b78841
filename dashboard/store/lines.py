"""Rounds files as columns, by DuckDB's own JSON reader.

A file is read in one piece. What the reader cannot take, or takes for something it is not,
goes line by line through `dashboard.rounds.good_rounds`, which says what is wrong; the good
lines then take the same way as all others. A number where text belongs is kept as its text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.parsing import UnreadableError
from dashboard.rounds import good_rounds
from dashboard.store.columns import flags, flags_of, integers, texts, whole_of
from dashboard.store.connect import memory_database
from dashboard.store.discover import SourceFile
from dashboard.store.handover import shown

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
_TYPES = ", ".join(f"\"{name}\": '{kind}'" for name, kind in _STRUCTURE.items())
_NESTED = json.dumps(
    {
        key: [kind.removesuffix("[]")] if kind.endswith("[]") else kind
        for key, kind in _STRUCTURE.items()
    }
)

_FILES = "SET VARIABLE files = (FROM batch SELECT list(name))"
_WHOLE = (
    "FROM read_json(getvariable('files'), format = 'newline_delimited', "
    f"columns = {{{_TYPES}}}) SELECT *, file_index"
)
_BY_LINE = "FROM batch SELECT unnest(json_transform(line, $structure)), file_index"
# ``named`` and ``owner`` are numbers for what names a series and a run, ``told`` for what a line
# says of its series; ``suspicious`` is a line which the reader took and which is no round.
_CLEANED = """
WITH line AS ({lines})
FROM line
SELECT file_index, hash(machine, environment, benchmark, params) AS named,
       hash(machine, environment, "commit") AS owner,
       hash(named, family, unit, higher_is_better, m, h, v, entropy) AS told,
       machine, environment, "commit", benchmark, CAST(params AS VARCHAR) AS params,
       family, unit, higher_is_better, m, h, v, entropy,
       nullif(run, '') AS asv_run, coalesce(TRY_CAST(round AS INTEGER), 0) AS round, status,
       reason,
       CASE WHEN isnan(value) THEN NULL ELSE value END AS value,
       coalesce(samples, []) AS samples,
       make_timestamp(epoch_us(TRY_CAST(started_at AS TIMESTAMPTZ))) AS started_at,
       CASE WHEN isnan(gap_ms) THEN NULL ELSE gap_ms END AS gap_ms, gpu_uuid,
       CASE WHEN isnan(sm_clock_mhz) THEN NULL ELSE sm_clock_mhz END AS sm_clock_mhz,
       CASE WHEN isnan(power_w) THEN NULL ELSE power_w END AS power_w,
       CASE WHEN isnan(temperature_c) THEN NULL ELSE temperature_c END AS temperature_c,
       coalesce(clock_event_reasons, []) AS clock_event_reasons, fused_lmhead_file,
       gpu, driver, torch, triton, CAST(schedule AS VARCHAR) AS schedule, statistic, protocol,
       coalesce(
           schema IS DISTINCT FROM 1 OR machine IS NULL OR environment IS NULL
           OR "commit" IS NULL OR benchmark IS NULL OR params IS NULL
           OR NOT starts_with(CAST(params AS VARCHAR), '{{')
           OR status IS NULL OR status NOT IN ('ok', 'failed', 'skipped')
           OR list_count(samples) < len(samples)
           OR list_count(clock_event_reasons) < len(clock_event_reasons)
           OR (started_at IS NOT NULL
               AND (TRY_CAST(started_at AS TIMESTAMPTZ)
                    BETWEEN TIMESTAMPTZ '0002-01-01' AND TIMESTAMPTZ '9999-01-01') IS NOT TRUE)
           OR abs(round) >= 2147483648
           OR greatest(abs(m), abs(h), abs(v)) >= 9007199254740992
           OR round <> trunc(round) OR m <> trunc(m) OR h <> trunc(h) OR v <> trunc(v)
           OR contains(CAST(schedule AS VARCHAR), 'NaN')
           OR contains(CAST(schedule AS VARCHAR), 'Inf'), false) AS suspicious
"""
_READ = _CLEANED.format(lines=_WHOLE)
_READ_LINES = _CLEANED.format(lines=_BY_LINE)
_UNREADABLE = (duckdb.InvalidInputException, duckdb.IOException, duckdb.ConversionException)
# A path with these would be taken for a pattern.
_GLOB = re.compile(r"[*?\[\]{}]")

Rejected = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class RoundLines:
    """The lines of some files, in their order, with the columns of `_CLEANED`; ``file_index``
    counts the files. ``trouble`` has, by a file's index, (line number, reason) for each line
    that was left out, or the reason why the whole file was."""

    table: pa.Table
    trouble: dict[int, Rejected | str]


class LineReader:
    """Reads rounds files, with a DuckDB of its own: one thread keeps the order of the lines, and
    several readers make better use of the cores than one with several threads."""

    def __init__(self) -> None:
        self._connection = memory_database()
        self._connection.execute("SET threads = 1")

    def read(self, files: Sequence[SourceFile]) -> RoundLines:
        """The lines of these files."""
        plain = [index for index, file in enumerate(files) if _is_plain(file)]
        whole = self._whole(files, plain)
        tables, done = ([], []) if whole is None else ([whole], plain)
        for index in plain if whole is None else ():
            alone = self._whole(files, [index])
            if alone is not None:
                tables.append(alone)
                done.append(index)
        doubtful = {index for table in tables for index in _doubtful(table)}
        if doubtful:
            tables = [_without(table, doubtful) for table in tables]
        trouble: dict[int, Rejected | str] = {}
        for index in sorted(set(range(len(files))) - (set(done) - doubtful)):
            try:
                lines = good_rounds(files[index].read())
            except UnreadableError as error:
                trouble[index] = str(error)
                continue
            trouble[index] = lines.rejected
            tables.append(self._by_line(index, lines.records))
        if not tables:
            tables = [self._by_line(0, ())]
        return RoundLines(pa.concat_tables(tables).combine_chunks(), trouble)

    def _whole(self, files: Sequence[SourceFile], chosen: Sequence[int]) -> pa.Table | None:
        """All lines of the files with these indexes; None if the reader takes offence."""
        if not chosen:
            return None
        names = [str(files[index].location) for index in chosen]
        try:
            with shown(self._connection, pa.table([texts(names)], names=["name"])):
                self._connection.execute(_FILES)
            table = self._connection.execute(_READ).to_arrow_table()
        except _UNREADABLE:
            return None
        indexes = np.array(chosen)[whole_of(table["file_index"])]
        return table.set_column(0, "file_index", integers(indexes, pa.uint64()))

    def _by_line(self, index: int, lines: Sequence[bytes]) -> pa.Table:
        """Lines of the file with this index; each is a round."""
        given = pa.table(
            [
                texts([line.decode() for line in lines]),
                integers([index] * len(lines), pa.uint64()),
            ],
            names=["line", "file_index"],
        )
        with shown(self._connection, given):
            return self._connection.execute(_READ_LINES, {"structure": _NESTED}).to_arrow_table()


def _is_plain(file: SourceFile) -> bool:
    """Whether DuckDB can be given its name."""
    name = os.fsencode(file.location).decode("utf-8", "backslashreplace")
    return file.problem is None and name == str(file.location) and not _GLOB.search(name)


def _doubtful(table: pa.Table) -> set[int]:
    """The files of which the reader took what is no round."""
    marked = flags_of(table["suspicious"])
    return set(whole_of(table["file_index"])[marked].tolist())


def _without(table: pa.Table, files: set[int]) -> pa.Table:
    return table.filter(flags(~np.isin(whole_of(table["file_index"]), sorted(files))))
