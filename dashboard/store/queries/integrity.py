"""What a store is checked by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch


@dataclass(frozen=True, slots=True)
class RunContent:
    """What hangs on a run: how many rows, and a number that other values hardly share."""

    measurements: int
    measured: int
    rounds: int
    round_values: int


def contents(store: Store) -> dict[int, RunContent]:
    """The content of each run, by run_id; equal in two stores if all their values are."""
    _, rows = fetch(
        store,
        """
        WITH values AS (
            SELECT run_id, count(*) AS count,
                   sum(hash((series_id, status, reason, value, low, high, round_count, asv_value,
                             asv_low, asv_high, q25, q75, samples, version, started_at, duration_s,
                             gpu, gpu_uuid, driver, torch, triton, sm_clock_mhz, power_w,
                             temperature_c, clock_event_reasons, CAST(schedule AS VARCHAR),
                             statistic, protocol, profiled))) AS content
            FROM measurement
            GROUP BY run_id
        ),
        processes AS (
            SELECT run_id, count(*) AS count,
                   sum(hash((series_id, attached, asv_run, round, status, reason, value, samples,
                             started_at, gap_ms, gpu_uuid, sm_clock_mhz, power_w, temperature_c,
                             clock_event_reasons, fused_lmhead_file))) AS content
            FROM round
            GROUP BY run_id
        ),
        runs AS (
            SELECT run_id FROM run
            UNION
            SELECT run_id FROM processes
        )
        SELECT run_id, coalesce(values.count, 0), coalesce(values.content, 0),
               coalesce(processes.count, 0), coalesce(processes.content, 0)
        FROM runs
        LEFT JOIN values USING (run_id)
        LEFT JOIN processes USING (run_id)
        """,
    )
    return {row[0]: RunContent(*map(int, row[1:])) for row in rows}


def inconsistencies(store: Store) -> dict[str, int]:
    """How many rows there are that must not be, by what is wrong with them; only those found."""
    _, rows = fetch(
        store,
        """
        SELECT 'measurements without a run', count(*) FROM measurement
        ANTI JOIN run USING (run_id)
        UNION ALL
        SELECT 'measurements without a series', count(*) FROM measurement
        ANTI JOIN series USING (series_id)
        UNION ALL
        SELECT 'rounds without a series', count(*) FROM round ANTI JOIN series USING (series_id)
        UNION ALL
        SELECT 'runs of an unknown commit', count(*) FROM run
        WHERE commit_hash NOT IN (SELECT hash FROM commit_info)
        UNION ALL
        SELECT 'runs that are there twice', count(*) FROM (
            SELECT run_id FROM run GROUP BY run_id HAVING count(*) > 1
        )
        UNION ALL
        SELECT 'measurements that are there twice', count(*) FROM (
            SELECT run_id, series_id FROM measurement GROUP BY ALL HAVING count(*) > 1
        )
        UNION ALL
        SELECT 'series that are there twice', count(*) FROM (
            SELECT series_id FROM series GROUP BY ALL HAVING count(*) > 1
        )
        UNION ALL
        SELECT 'measurements whose rounds are not as many as they say', count(*) FROM (
            SELECT run_id, series_id, any_value(round_count) AS said,
                   count(round.run_id) FILTER (attached) AS found
            FROM measurement
            LEFT JOIN round USING (run_id, series_id)
            GROUP BY run_id, series_id
        )
        WHERE said <> found
        """,
    )
    return {what: count for what, count in rows if count}


def figures(store: Store) -> dict[str, Any]:
    """Sizes of the store: rows by table, its machines, its first and last commit date, and when
    it last changed."""
    columns, rows = fetch(
        store,
        """
        SELECT (SELECT count(*) FROM run) AS runs, (SELECT count(*) FROM series) AS series,
               (SELECT count(*) FROM measurement) AS measurements,
               (SELECT count(*) FROM round) AS rounds,
               (SELECT count(*) FROM commit_info) AS commits,
               (SELECT count(*) FROM source_file) AS files,
               (SELECT count(*) FROM source_file WHERE status <> 'read') AS rejected,
               (SELECT list_sort(list(DISTINCT machine)) FROM run) AS machines,
               (SELECT min(commit_date) FROM run) AS first_commit,
               (SELECT max(commit_date) FROM run) AS last_commit,
               (SELECT max(ingested_at) FROM ingest_log) AS changed
        """,
    )
    return dict(zip(columns, rows[0], strict=True))
