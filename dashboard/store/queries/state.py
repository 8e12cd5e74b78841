"""What the store holds so far, as an ingest needs to know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch, utc


@dataclass(frozen=True, slots=True)
class FileRow:
    """What the store knows of a file: whose it is, its content's digest, what became of it, the
    run it belongs to, and the run of an earlier content that stays since this one is rejected."""

    source: str
    path: str
    digest: str
    status: str
    reason: str | None
    run_id: int | None
    kept_run_id: int | None


def newest_machine(store: Store) -> str | None:
    """The machine of the run that started last; None without runs."""
    _, rows = fetch(
        store,
        "SELECT machine FROM run ORDER BY started_at DESC NULLS LAST, path DESC LIMIT 1",
    )
    return rows[0][0] if rows else None


def totals(store: Store) -> dict[str, int]:
    """How many runs, series and measurements the store holds."""
    _, rows = fetch(
        store,
        """
        SELECT (SELECT count(*) FROM run),
               (SELECT count(DISTINCT series_id) FROM measurement),
               (SELECT count(*) FROM measurement)
        """,
    )
    return dict(zip(("runs", "series", "measurements"), rows[0], strict=True))


def source_files(store: Store) -> list[FileRow]:
    """Every file the store knows."""
    _, rows = fetch(
        store,
        """
        SELECT source, path, digest, status, reason, run_id, kept_run_id
        FROM source_file
        ORDER BY ingested_at, source, path
        """,
    )
    return [FileRow(*row) for row in rows]


def run_commits(store: Store) -> dict[str, datetime]:
    """The commits with results, and the commit date that asv recorded for each."""
    _, rows = fetch(
        store,
        "SELECT commit_hash, min(commit_date) FROM run GROUP BY commit_hash ORDER BY commit_hash",
    )
    return {name: utc(date) for name, date in rows}


def commit_rows(store: Store) -> list[dict[str, Any]]:
    """The commit table as it is stored."""
    columns, rows = fetch(
        store,
        """
        SELECT hash, tree, parents, author, author_date, commit_date, subject, tags, position,
               known_by
        FROM commit_info
        """,
    )
    return [dict(zip(columns, row, strict=True)) for row in rows]


def series_rows(
    store: Store, numbers: Sequence[int] = (), benchmarks: Sequence[str] = ()
) -> dict[int, dict[str, Any]]:
    """Rows of the series table as they are stored, by series_id: those with these numbers and
    those of these benchmarks."""
    columns, rows = fetch(
        store,
        """
        SELECT * FROM series
        WHERE series_id IN (SELECT unnest(CAST($numbers AS BIGINT[])))
           OR benchmark IN (SELECT unnest(CAST($benchmarks AS VARCHAR[])))
        """,
        {"numbers": list(numbers), "benchmarks": list(benchmarks)},
    )
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    return {record["series_id"]: record for record in records}


def benchmark_rows(store: Store) -> list[dict[str, Any]]:
    """The benchmark definitions as they are stored."""
    columns, rows = fetch(store, "SELECT name, unit, type, version, param_names FROM benchmark")
    return [dict(zip(columns, row, strict=True)) for row in rows]


def line_series(store: Store) -> list[dict[str, Any]]:
    """The series that the lines of an ingest's batch belong to, and what the newest line that
    says it says of each: machine, environment, benchmark, params, family, unit,
    higher_is_better, m, h, v, entropy, described_at."""
    columns, rows = fetch(
        store,
        """
        SELECT machine, environment, benchmark, CAST(params AS VARCHAR) AS params,
               arg_max(family, moment) AS family, arg_max(unit, moment) AS unit,
               coalesce(arg_max(higher_is_better, moment), false) AS higher_is_better,
               CAST(arg_max(m, moment) AS BIGINT) AS m, CAST(arg_max(h, moment) AS BIGINT) AS h,
               CAST(arg_max(v, moment) AS BIGINT) AS v, arg_max(entropy, moment) AS entropy,
               make_timestamp(max(moment)) AS described_at
        FROM (
            SELECT *, coalesce(epoch_us(TRY_CAST(started_at AS TIMESTAMPTZ)), 0) AS moment FROM line
        )
        GROUP BY machine, environment, benchmark, params
        ORDER BY described_at, machine, environment, benchmark, params
        """,
    )
    return [dict(zip(columns, row, strict=True)) for row in rows]
