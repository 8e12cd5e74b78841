"""Every SELECT of the dashboard, one function each, values bound."""

from dashboard.store.queries.details import param_values
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
from dashboard.store.queries.health import (
    file_states,
    latest_readings,
    rejected_results,
    spreads,
    troubled_files,
    unread_rounds,
)
from dashboard.store.queries.integrity import (
    RunContent,
    contents,
    figures,
    inconsistencies,
)
from dashboard.store.queries.limits import limit
from dashboard.store.queries.points import points, recent_values
from dashboard.store.queries.records import (
    known_commits,
    measured_commits,
    measured_places,
    newest_of_one_run,
    pairs,
)
from dashboard.store.queries.schedules import by_schedule, schedules
from dashboard.store.queries.selections import (
    Selection,
    covering,
    measured_in_turn,
    most_measured,
    selection,
)
from dashboard.store.queries.state import (
    FileRow,
    benchmark_rows,
    commit_rows,
    newest_machine,
    run_commits,
    series_of_batch,
    series_of_benchmarks,
    source_files,
    totals,
)

__all__ = [
    "FileRow",
    "RunContent",
    "Selection",
    "benchmark_rows",
    "by_schedule",
    "commit_rows",
    "commits",
    "contents",
    "covering",
    "exported",
    "figures",
    "file_states",
    "inconsistencies",
    "ingest_log",
    "known_commits",
    "latest_readings",
    "limit",
    "measured_commits",
    "measured_in_turn",
    "measured_places",
    "measurements",
    "most_measured",
    "newest_machine",
    "newest_of_one_run",
    "pairs",
    "param_values",
    "points",
    "recent_values",
    "rejected_results",
    "replaced",
    "rounds",
    "run_commits",
    "runs",
    "schedules",
    "selection",
    "series",
    "series_of_batch",
    "series_of_benchmarks",
    "source_files",
    "spreads",
    "totals",
    "troubled_files",
    "unread_rounds",
]
