"""The points of a page's charts: only the series and commits that it shows.

`current_measurement` ranks every measurement of the store; these queries choose runs and
series first, so that their cost is that of what is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.store.connect import Store
from dashboard.store.queries.frames import _frame

if TYPE_CHECKING:
    import pandas as pd


def points(
    store: Store, series_ids: Sequence[int], commits: Sequence[str], most: int | None = None
) -> pd.DataFrame:
    """The columns of `measurements`, for some series at some commits (first to last).

    With more than ``most`` commits, those are cut into ``most`` / 2 equal stretches and each
    series keeps its lowest and highest value of each, its failures, first and last.
    """
    buckets = len(commits) if most is None or len(commits) <= most else max(most // 2, 1)
    return _frame(
        store,
        """
        WITH wanted AS (
            SELECT unnest(CAST($commits AS VARCHAR[])) AS hash,
                   generate_subscripts(CAST($commits AS VARCHAR[]), 1) AS place
        ),
        chosen AS (
            SELECT run_id, path, commit_hash, place,
                   (place - 1) * $buckets // len(CAST($commits AS VARCHAR[])) AS bucket
            FROM run
            JOIN wanted ON wanted.hash = run.commit_hash
        ),
        current AS (
            SELECT run_id, series_id, status, value, place, bucket
            FROM measurement
            JOIN chosen USING (run_id)
            WHERE series_id IN (SELECT unnest(CAST($ids AS BIGINT[])))
            QUALIFY row_number() OVER (
                PARTITION BY series_id, commit_hash
                ORDER BY started_at DESC NULLS LAST, path, round_count DESC, run_id
            ) = 1
        ),
        ends AS (
            SELECT arg_min(run_id, (value, place)) AS bottom,
                   arg_max(run_id, (value, place)) AS top, series_id
            FROM current
            GROUP BY series_id, bucket
        ),
        kept AS (
            SELECT run_id, series_id FROM current
            WHERE status <> 'ok' OR $buckets >= len(CAST($commits AS VARCHAR[]))
            UNION
            SELECT unnest([bottom, top]), series_id FROM ends
            UNION
            SELECT unnest([arg_min(run_id, place), arg_max(run_id, place)]), series_id FROM current
            GROUP BY series_id
        )
        SELECT series_id, commit_hash AS "commit", position, info.commit_date, author, subject,
               value, low, high, round_count AS rounds, status, reason, measurement.started_at,
               version, coalesce(measurement.gpu, run.gpu) AS gpu, gpu_uuid,
               coalesce(measurement.driver, run.driver) AS driver,
               coalesce(measurement.torch, run.torch) AS torch,
               coalesce(measurement.triton, run.triton) AS triton,
               sm_clock_mhz, power_w, temperature_c, clock_event_reasons,
               CAST(schedule AS VARCHAR) AS schedule, statistic, protocol
        FROM measurement
        JOIN kept USING (run_id, series_id)
        JOIN run USING (run_id)
        JOIN commit_info AS info ON info.hash = commit_hash
        WHERE series_id IN (SELECT unnest(CAST($ids AS BIGINT[]))) -- prunes the scan
        ORDER BY series_id, position NULLS FIRST, info.commit_date, commit_hash
        """,
        {
            "ids": [int(number) for number in series_ids],
            "commits": list(commits),
            "buckets": buckets,
        },
    )


def recent_values(store: Store, machine: str, commits: Sequence[str]) -> pd.DataFrame:
    """What a machine's series were at some commits (first to last): series_id, benchmark,
    params (JSON text), environment, and values, the measured ones in the commits' order."""
    return _frame(
        store,
        """
        WITH wanted AS (
            SELECT unnest(CAST($commits AS VARCHAR[])) AS hash,
                   generate_subscripts(CAST($commits AS VARCHAR[]), 1) AS place
        ),
        latest AS (
            SELECT series_id, place, value
            FROM measurement
            JOIN run USING (run_id)
            JOIN wanted ON wanted.hash = run.commit_hash
            WHERE run.machine = $machine AND value IS NOT NULL
            QUALIFY row_number() OVER (
                PARTITION BY series_id, place
                ORDER BY measurement.started_at DESC NULLS LAST, path, round_count DESC, run_id
            ) = 1
        ),
        gathered AS (
            SELECT series_id, list(value ORDER BY place) AS "values"
            FROM latest
            GROUP BY series_id
        )
        SELECT series_id, benchmark, CAST(params AS VARCHAR) AS params, environment, "values"
        FROM gathered
        JOIN series USING (series_id)
        """,
        {"machine": machine, "commits": list(commits)},
    )
