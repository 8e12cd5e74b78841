"""Every SELECT of the dashboard, one function each, values bound."""

from dashboard.store.queries.frames import (
    commits,
    exported,
    ingest_log,
    measurements,
    replaced,
    rounds,
    runs,
    series,
)
from dashboard.store.queries.records import known_commits, measured_commits, pairs
from dashboard.store.queries.state import (
    benchmark_rows,
    commit_rows,
    newest_machine,
    run_commits,
    series_rows,
    source_files,
    totals,
)

__all__ = [
    "benchmark_rows",
    "commit_rows",
    "commits",
    "exported",
    "ingest_log",
    "known_commits",
    "measured_commits",
    "measurements",
    "newest_machine",
    "pairs",
    "replaced",
    "rounds",
    "run_commits",
    "runs",
    "series",
    "series_rows",
    "source_files",
    "totals",
]
