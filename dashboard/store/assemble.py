"""Rows of the store from asv's results and the rounds beside them, a batch at a time.

Three temporary tables come in: ``line`` (see `lines`), ``source`` (a row a group: run_id,
file (the location of its rounds or NULL), and the run's machine, environment, commit, NULL
where asv has no results) and ``result`` (a row a value of asv's: run_id, series_id, its
columns). ``naming`` gives the series_id of each machine, environment, benchmark, params.

A line belongs to a result if it names the run's machine, environment and commit, and if the
samples of its invocation (asv_run), pooled in order, are those asv stored. A failed or skipped
result has no samples: the last invocation counts if it says the same. Whether it is the last
invocation, whole, is looked at here; everything else by `dashboard.attach`.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.attach import Line, attached
from dashboard.store.connect import Store

_PLACED = """
CREATE OR REPLACE TEMP TABLE placed AS
FROM line
JOIN source USING (file)
JOIN naming USING (machine, environment, benchmark, params)
SELECT line.rowid AS place, source.run_id, naming.series_id,
       coalesce(source.run_machine = machine AND source.run_environment = environment
                AND source.run_commit = "commit", false) AS owned,
       coalesce(run, '') AS asv_run, CAST(coalesce(round, 0) AS INTEGER) AS round, status, reason,
       CASE WHEN isnan(value) THEN NULL ELSE value END AS value,
       coalesce(samples, []) AS samples,
       make_timestamp(epoch_us(TRY_CAST(started_at AS TIMESTAMPTZ))) AS started_at,
       statistic, protocol,
       CASE WHEN isnan(gap_ms) THEN NULL ELSE gap_ms END AS gap_ms, gpu, gpu_uuid, driver, torch,
       triton, CASE WHEN isnan(sm_clock_mhz) THEN NULL ELSE sm_clock_mhz END AS sm_clock_mhz,
       CASE WHEN isnan(power_w) THEN NULL ELSE power_w END AS power_w,
       CASE WHEN isnan(temperature_c) THEN NULL ELSE temperature_c END AS temperature_c,
       coalesce(clock_event_reasons, []) AS clock_event_reasons, schedule, fused_lmhead_file
"""
_INVOCATION = """
CREATE OR REPLACE TEMP TABLE invocation AS
FROM placed
SELECT run_id, series_id, asv_run, min(place) AS place,
       -- sorted within the list: an ordered aggregate takes four times as long
       flatten([one.samples FOR one IN
                list_sort(list({round: round, place: place, samples: samples}))]) AS samples,
       list_distinct(list(status)) AS statuses
WHERE owned
GROUP BY ALL
"""
_LATEST = """
CREATE OR REPLACE TEMP TABLE latest AS
FROM invocation
SELECT run_id, series_id, count(*) AS invocations, arg_max(asv_run, place) AS asv_run
GROUP BY ALL
"""
_BEHIND = """
CREATE OR REPLACE TEMP TABLE behind AS
WITH matched AS (
    FROM result
    JOIN latest USING (run_id, series_id)
    JOIN invocation USING (run_id, series_id, asv_run)
    SELECT run_id, series_id, asv_run
    WHERE CASE WHEN result.status = 'ok' THEN result.samples = invocation.samples
               ELSE list_contains(statuses, result.status) END
)
FROM placed
JOIN matched USING (run_id, series_id, asv_run)
SELECT place, run_id, series_id
WHERE owned
"""
_OPEN = """
WITH open AS (
    FROM result
    ANTI JOIN behind USING (run_id, series_id)
    SELECT run_id, series_id, samples
    WHERE status = 'ok' AND len(samples) > 0
)
FROM placed
JOIN open USING (run_id, series_id)
SELECT run_id, series_id, any_value(open.samples),
       list([asv_run, CAST(round AS VARCHAR), CAST(place AS VARCHAR)]), list(placed.samples)
WHERE owned
GROUP BY run_id, series_id
"""
_FOUND = "INSERT INTO behind FROM found SELECT place, run_id, series_id"

_ROUNDS = """
INSERT INTO round BY NAME
FROM placed
LEFT JOIN behind USING (place)
SELECT placed.run_id, placed.series_id, behind.place IS NOT NULL AS attached,
       nullif(asv_run, '') AS asv_run, round, status, reason, value, samples, started_at, gap_ms,
       gpu_uuid, sm_clock_mhz, power_w, temperature_c, clock_event_reasons, fused_lmhead_file
"""
_MEASUREMENTS = """
INSERT INTO measurement BY NAME
WITH summary AS (
    FROM placed
    SEMI JOIN behind USING (place)
    SELECT run_id, series_id, count(*) AS round_count,
           count(value) FILTER (status = 'ok' AND isfinite(value)) AS values,
           median(value) FILTER (status = 'ok' AND isfinite(value)) AS middle,
           stddev_samp(value) FILTER (status = 'ok' AND isfinite(value)) AS deviation,
           arg_max(reason, place) FILTER (status = 'failed') AS failure,
           arg_max(reason, place) FILTER (status = 'skipped') AS skip_reason,
           min(started_at) AS started_at, max(place) AS place,
           nullif(array_to_string(list_sort(list_distinct(list(gpu_uuid))), ', '), '') AS gpu_uuid,
           median(sm_clock_mhz) AS sm_clock_mhz,
           median(power_w) AS power_w, median(temperature_c) AS temperature_c,
           list_sort(list_distinct(flatten(list(clock_event_reasons)))) AS clock_event_reasons
    GROUP BY ALL
),
with_rounds AS (FROM placed SELECT DISTINCT run_id WHERE owned)
FROM result
LEFT JOIN summary USING (run_id, series_id)
LEFT JOIN placed AS last_round ON last_round.place = summary.place
SELECT result.run_id, result.series_id, result.status,
       CASE result.status WHEN 'failed' THEN failure WHEN 'skipped' THEN skip_reason END AS reason,
       CASE WHEN result.status = 'ok' AND values > 0 THEN middle ELSE result.value END AS value,
       CASE WHEN result.status = 'ok' AND values > 1
            THEN middle - $student[values] * deviation / sqrt(values) ELSE low END AS low,
       CASE WHEN result.status = 'ok' AND values > 1
            THEN middle + $student[values] * deviation / sqrt(values) ELSE high END AS high,
       coalesce(round_count, 0) AS round_count, result.value AS asv_value, low AS asv_low,
       high AS asv_high, q25, q75, result.samples, version,
       coalesce(summary.started_at, result.started_at) AS started_at, duration_s, profiled,
       summary.gpu_uuid, summary.sm_clock_mhz, summary.power_w, summary.temperature_c,
       summary.clock_event_reasons, gpu, driver, torch, triton, schedule, statistic, protocol
-- asv's NaN means skipped or not selected. Where the run left rounds, a skipped process is among
-- them, and NaN without one was not selected: no measurement.
WHERE result.status <> 'skipped' OR summary.run_id IS NOT NULL
   OR result.run_id NOT IN (FROM with_rounds)
"""
_MOST_ROUNDS = """
FROM (FROM placed SELECT count(*) AS rounds GROUP BY run_id, series_id) SELECT max(rounds)
"""
_ODD = """
FROM placed
LEFT JOIN (FROM behind SELECT DISTINCT run_id, series_id, true AS settled)
    USING (run_id, series_id)
SELECT run_id, count(*), count(*) FILTER (NOT (owned AND settled IS NOT NULL))
GROUP BY run_id
"""
# What asv did not select needs no series.
_SERIES = """
FROM result
SELECT series_id
WHERE status <> 'skipped' OR run_id NOT IN (FROM placed SELECT run_id WHERE owned)
UNION
FROM placed
SELECT series_id
"""

OddRounds = dict[int, tuple[int, int]]


def attach(connection: duckdb.DuckDBPyConnection) -> None:
    """Find the rounds behind each result: makes the tables ``placed`` and ``behind``."""
    for statement in (_PLACED, _INVOCATION, _LATEST, _BEHIND):
        connection.execute(statement)
    found = []
    for run_id, series_id, stored, keys, samples in connection.execute(_OPEN).fetchall():
        lines = [
            Line(run, int(index), int(place), tuple(values))
            for (run, index, place), values in zip(keys, samples, strict=True)
        ]
        found += [(place, run_id, series_id) for place in attached(stored, lines)]
    if found:
        columns = [list(column) for column in zip(*found, strict=True)]
        connection.register("found", pa.table(columns, ["place", "run_id", "series_id"]))
        connection.execute(_FOUND)
        connection.unregister("found")


def series_in_use(connection: duckdb.DuckDBPyConnection) -> set[int]:
    """The series that the rows to be written belong to."""
    return {row[0] for row in connection.execute(_SERIES).fetchall()}


def write(store: Store) -> None:
    """Append the rows to the store's `round` and `measurement`."""
    from scipy.special import stdtrit  # loads in a fraction of scipy.stats' time

    connection = store.connection
    (most,) = connection.execute(_MOST_ROUNDS).fetchone() or (0,)
    # the quantile of Student's t for so many values, from 1 on
    student = [float(stdtrit(max(count - 1, 1), 0.975)) for count in range(1, (most or 0) + 2)]
    connection.execute("SET preserve_insertion_order = false")  # which frees both cores
    with store.into(store.target):
        connection.execute(_ROUNDS)
        connection.execute(_MEASUREMENTS, {"student": student})
    connection.execute("SET preserve_insertion_order = true")


def odd_rounds(connection: duckdb.DuckDBPyConnection) -> OddRounds:
    """By run: how many rounds it has, and how many of them are of series that have none attached
    (the others that are not attached are of earlier invocations, whose results asv replaced)."""
    rows = connection.execute(_ODD).fetchall()
    return {run_id: (total, odd) for run_id, total, odd in rows}
