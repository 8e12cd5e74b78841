"""Which schedules were chosen, and where the choice changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.store.connect import Store
from dashboard.store.queries.frames import _frame

if TYPE_CHECKING:
    import pandas as pd


def schedules(store: Store, machine: str, commits: Sequence[str]) -> pd.DataFrame:
    """Each series' schedule where it first appears or differs from the one before, of some
    commits (first to last): series_id, commit, turn (its place among them), schedule and before
    (JSON text; before is null for the first one), latest (bool: the choice still holds)."""
    return _frame(
        store,
        """
        WITH wanted AS (
            SELECT unnest(CAST($commits AS VARCHAR[])) AS hash,
                   generate_subscripts(CAST($commits AS VARCHAR[]), 1) AS place
        ),
        known AS (
            SELECT series_id, hash AS "commit", place,
                   arg_max(CAST(schedule AS VARCHAR), (measurement.started_at, path)) AS schedule
            FROM measurement
            JOIN run USING (run_id)
            JOIN wanted ON wanted.hash = run.commit_hash
            WHERE run.machine = $machine AND schedule IS NOT NULL
            GROUP BY series_id, hash, place
        ),
        stepped AS (
            SELECT *, lag(schedule) OVER (PARTITION BY series_id ORDER BY place) AS before
            FROM known
        ),
        changed AS (
            SELECT * FROM stepped WHERE before IS NULL OR before <> schedule
        )
        SELECT series_id, "commit", place AS turn, schedule, before,
               place = max(place) OVER (PARTITION BY series_id) AS latest
        FROM changed
        ORDER BY place DESC, series_id
        """,
        {"machine": machine, "commits": list(commits)},
    )


def by_schedule(store: Store, machine: str, commits: Sequence[str]) -> pd.DataFrame:
    """Each series' newest measured value under each schedule, of some commits (first to last):
    series_id, schedule (JSON text), commit, turn (its place among them), value, low, high."""
    return _frame(
        store,
        """
        WITH wanted AS (
            SELECT unnest(CAST($commits AS VARCHAR[])) AS hash,
                   generate_subscripts(CAST($commits AS VARCHAR[]), 1) AS turn
        )
        SELECT series_id, CAST(schedule AS VARCHAR) AS schedule, hash AS "commit", turn, value,
               low, high
        FROM measurement
        JOIN run USING (run_id)
        JOIN wanted ON wanted.hash = run.commit_hash
        WHERE run.machine = $machine AND schedule IS NOT NULL AND status = 'ok'
          AND value IS NOT NULL
        QUALIFY row_number() OVER (
            PARTITION BY series_id, CAST(schedule AS VARCHAR)
            ORDER BY turn DESC, measurement.started_at DESC NULLS LAST, path, round_count DESC,
                     run_id
        ) = 1
        ORDER BY series_id, turn
        """,
        {"machine": machine, "commits": list(commits)},
    )
