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
        SELECT (SELECT count(*) FROM run), count(DISTINCT series_id), count(*) FROM measurement
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


def series_of_benchmarks(store: Store, benchmarks: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Rows of the series table as they are stored, by series_id."""
    return _by_number(
        *fetch(
            store,
            """
            SELECT * FROM series
            WHERE benchmark IN (SELECT unnest(CAST($benchmarks AS VARCHAR[])))
            """,
            {"benchmarks": list(benchmarks)},
        )
    )


def series_of_batch(store: Store) -> dict[int, dict[str, Any]]:
    """The same of the series whose series_id the view ``batch`` has."""
    return _by_number(
        *fetch(store, "SELECT * FROM series WHERE series_id IN (FROM batch SELECT series_id)")
    )


def _by_number(
    columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> dict[int, dict[str, Any]]:
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    return {record["series_id"]: record for record in records}


def benchmark_rows(store: Store) -> list[dict[str, Any]]:
    """The benchmark definitions as they are stored."""
    columns, rows = fetch(store, "SELECT name, unit, type, version, param_names FROM benchmark")
    return [dict(zip(columns, row, strict=True)) for row in rows]
