"""What the store holds so far, as an ingest needs to know it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch, utc


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


def source_files(store: Store) -> dict[str, tuple[str, str, str | None]]:
    """Content hash, status and reason of each file the store knows, by its path."""
    _, rows = fetch(store, "SELECT path, sha256, status, reason FROM source_file")
    return {path: (sha256, status, reason) for path, sha256, status, reason in rows}


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


def series_rows(store: Store) -> dict[int, dict[str, Any]]:
    """The series table as it is stored, by series_id."""
    columns, rows = fetch(store, "SELECT * FROM series")
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    return {record["series_id"]: record for record in records}


def benchmark_rows(store: Store) -> list[dict[str, Any]]:
    """The benchmark definitions as they are stored."""
    columns, rows = fetch(store, "SELECT name, unit, type, version, param_names FROM benchmark")
    return [dict(zip(columns, row, strict=True)) for row in rows]
