"""What is shown and exported, as pandas frames.

Frames carry exactly the documented columns first; times are UTC timestamps, unknown is
missing (NaN, NaT, None or <NA>), list columns hold Python lists. pandas is loaded by the first
frame only: an ingest needs none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dashboard.store.connect import Store

if TYPE_CHECKING:
    import pandas as pd

_TIMES = ("date", "commit_date", "started_at", "ingested_at", "replaced_at")
_LISTS = ("parents", "tags", "clock_event_reasons", "samples")
_INTEGERS = ("tokens", "tp", "m", "h", "v", "position")


def series(store: Store) -> pd.DataFrame:
    """Every series with a result, or a reason for none: series_id, benchmark, family, model,
    tokens, tp, m, h, v, entropy, machine, environment, unit, higher_is_better, params (dict),
    label, measured (how many values it has)."""
    frame = _frame(
        store,
        """
        SELECT series_id, benchmark, family, model, tokens, tp, m, h, v, entropy, machine,
               environment, unit, higher_is_better, params, label, measured
        FROM series JOIN (
            SELECT series_id, count(*) FILTER (WHERE status = 'ok') AS measured
            FROM measurement
            WHERE status <> 'skipped' OR reason IS NOT NULL
            GROUP BY series_id
        ) USING (series_id)
        ORDER BY benchmark, model, tokens, tp, label, machine, environment
        """,
    )
    frame["params"] = frame["params"].map(json.loads).astype(object)
    return frame


def commits(store: Store) -> pd.DataFrame:
    """Every known commit in graph order, before them those known only by date: commit,
    position, date, author, subject, parents, tags, tree, measured (bool)."""
    return _frame(
        store,
        """
        SELECT hash AS "commit", position, commit_date AS date, author, subject, parents, tags,
               tree, hash IN (SELECT commit_hash FROM run) AS measured, known_by
        FROM commit_info
        ORDER BY position NULLS FIRST, commit_date, hash
        """,
    )


def measurements(store: Store, series_ids: Sequence[int] | None = None) -> pd.DataFrame:
    """One row a series and commit, in graph order: series_id, commit, position, commit_date,
    author, subject, value, low, high, rounds (count), status, reason, started_at, version,
    gpu, gpu_uuid, driver, torch, triton, sm_clock_mhz, power_w, temperature_c,
    clock_event_reasons (list), schedule (JSON text), statistic, protocol.

    ``low`` and ``high`` bound the value at 95 % by its rounds, else they are asv's 99 %.
    """
    return _frame(
        store,
        """
        SELECT series_id, commit_hash AS "commit", position, commit_date, author, subject,
               value, low, high, round_count AS rounds, status, reason, started_at, version, gpu,
               gpu_uuid, driver, torch, triton, sm_clock_mhz, power_w, temperature_c,
               clock_event_reasons, CAST(schedule AS VARCHAR) AS schedule, statistic, protocol
        FROM current_measurement
        JOIN commit_info ON hash = commit_hash
        WHERE $ids IS NULL OR list_contains(CAST($ids AS BIGINT[]), series_id)
        ORDER BY series_id, position NULLS FIRST, commit_date, commit_hash
        """,
        {"ids": None if series_ids is None else [int(number) for number in series_ids]},
    )


def rounds(store: Store, series_id: int, commit: str, run: str | None = None) -> pd.DataFrame:
    """The rounds behind one measurement: round, value, samples (list), started_at, status,
    reason, sm_clock_mhz, power_w, temperature_c, clock_event_reasons (list), gpu_uuid.

    Or, of an invocation of asv, those that it took of the series at the commit.
    """
    return _frame(
        store,
        """
        WITH chosen AS (
            SELECT run_id, path FROM run WHERE commit_hash = $commit
        ),
        latest AS (
            SELECT run_id
            FROM measurement
            JOIN chosen USING (run_id)
            WHERE series_id = $series
            QUALIFY row_number() OVER (
                ORDER BY started_at DESC NULLS LAST, path, round_count DESC, run_id
            ) = 1
        )
        SELECT round, value, samples, started_at, status, reason, sm_clock_mhz, power_w,
               temperature_c, clock_event_reasons, gpu_uuid
        FROM round
        JOIN chosen USING (run_id)
        WHERE series_id = $series
          AND CASE WHEN $run IS NULL
              THEN attached AND run_id IN (SELECT run_id FROM latest)
              ELSE asv_run = $run END
        -- Copies of a results folder have an invocation's rounds again.
        QUALIFY $run IS NULL OR row_number() OVER (PARTITION BY round, started_at) = 1
        ORDER BY started_at NULLS FIRST, round
        """,
        {"series": int(series_id), "commit": commit, "run": run},
    )


def runs(store: Store) -> pd.DataFrame:
    """One row a results file, newest first: machine, environment, commit, subject,
    commit_date, started_at, series, failed, skipped (counts), gpu, driver, torch, triton."""
    return _frame(
        store,
        """
        SELECT run.machine, run.environment, run.commit_hash AS "commit", any_value(subject)
               AS subject, any_value(commit_info.commit_date) AS commit_date,
               any_value(run.started_at) AS started_at,
               count(series_id) AS series,
               count(*) FILTER (status = 'failed') AS failed,
               count(*) FILTER (status = 'skipped') AS skipped,
               coalesce(any_value(run.gpu), any_value(measurement.gpu)) AS gpu,
               coalesce(any_value(run.driver), any_value(measurement.driver)) AS driver,
               coalesce(any_value(run.torch), any_value(measurement.torch)) AS torch,
               coalesce(any_value(run.triton), any_value(measurement.triton)) AS triton,
               run.path
        FROM run
        JOIN commit_info ON hash = commit_hash
        LEFT JOIN measurement USING (run_id)
        GROUP BY run.run_id, run.machine, run.environment, run.commit_hash, run.path
        ORDER BY started_at DESC NULLS LAST, run.path
        """,
    )


def ingest_log(store: Store) -> pd.DataFrame:
    """Every reading of every file, newest first: path, kind, status, reason, ingested_at,
    rows."""
    return _frame(
        store,
        """
        SELECT path, kind, status, reason, ingested_at, "rows"
        FROM ingest_log
        ORDER BY ingested_at DESC, path
        """,
    )


def replaced(store: Store) -> pd.DataFrame:
    """Values that changed files took out: path, replaced_at, series_id, commit, status, value."""
    return _frame(
        store,
        """
        SELECT path, replaced_at, series_id, commit_hash AS "commit", status, value
        FROM replaced_measurement
        ORDER BY replaced_at DESC, path, series_id
        """,
    )


def exported(store: Store) -> pd.DataFrame:
    """One row a measurement with everything that identifies it, for other tools."""
    return _frame(
        store,
        """
        SELECT benchmark, family, model, tokens, tp, CAST(NULL AS BIGINT) AS cp, m, h, v, entropy,
               CAST(schedule AS VARCHAR) AS schedule, CAST(params AS VARCHAR) AS params,
               series.machine, gpu, gpu_uuid, series.environment, commit_hash AS "commit",
               commit_date, started_at, value, low, high, unit, round_count AS rounds, samples,
               status, reason, position, subject, version, driver, torch, triton
        FROM current_measurement
        JOIN series USING (series_id)
        JOIN commit_info ON hash = commit_hash
        ORDER BY position NULLS FIRST, commit_date, commit_hash, benchmark, label,
                 series.machine, series.environment
        """,
    )


def _frame(store: Store, sql: str, values: dict[str, Any] | None = None) -> pd.DataFrame:
    import pandas as pd
    from pandas.api.types import is_list_like

    frame: pd.DataFrame = store.connection.execute(sql, values or {}).df()
    for name in _present(_TIMES, frame):
        frame[name] = pd.to_datetime(frame[name]).dt.tz_localize("UTC")
    for name in _present(_LISTS, frame):
        lists = [list(cell) if is_list_like(cell) else [] for cell in frame[name]]
        frame[name] = pd.Series(lists, index=frame.index, dtype=object)
    for name in _present(_INTEGERS, frame):
        frame[name] = frame[name].astype("Int64")
    return frame


def _present(names: Iterable[str], frame: pd.DataFrame) -> list[str]:
    return [name for name in names if name in frame.columns]
