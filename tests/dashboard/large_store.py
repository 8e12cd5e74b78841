"""A large synthetic store, written with SQL since its files would take minutes to ingest.

Nothing in it was measured: machine and authors are called ``synthetic``. Its shape is that of
the suite: ``series`` local shapes by ``commits`` commits by three rounds of six samples.
"""

from __future__ import annotations

from pathlib import Path

from dashboard.store import open_store

_STATEMENTS = (
    """
    INSERT INTO commit_info BY NAME
    SELECT sha1('synthetic commit ' || i) AS hash, sha1('tree ' || i) AS tree,
           CASE WHEN i = 0 THEN [] ELSE [sha1('synthetic commit ' || (i - 1))] END AS parents,
           'synthetic author ' || (i % 7) AS author,
           TIMESTAMP '2020-01-01' + to_hours(i) AS author_date,
           TIMESTAMP '2020-01-01' + to_hours(i) AS commit_date,
           'Synthetic change ' || i AS subject,
           CASE WHEN i % 200 = 0 THEN ['v0.' || (i // 200)] ELSE [] END AS tags,
           i AS position, 'commits.jsonl' AS known_by
    FROM range($commits) AS t(i)
    """,
    """
    INSERT INTO run BY NAME
    SELECT position AS run_id, 'synthetic/' || hash[:8] || '-py-gpu.json' AS path,
           'synthetic' AS machine, 'py-gpu' AS environment, hash AS commit_hash, commit_date,
           commit_date + INTERVAL 1 HOUR AS started_at, '3.12' AS python,
           'synthetic GPU' AS gpu, '1.0' AS driver, '2.0' AS torch, '3.0' AS triton,
           '{}'::JSON AS fields
    FROM commit_info
    """,
    """
    INSERT INTO series BY NAME
    SELECT i AS series_id, benchmark || '.track_time' AS benchmark,
           ['''' || model || '''', CAST(tokens AS VARCHAR), CAST(tp AS VARCHAR)] AS param_values,
           json_object('model', model, 'tokens', CAST(tokens AS VARCHAR),
                       'tp', CAST(tp AS VARCHAR)) AS params,
           benchmark || '.track_time(' || model || ', ' || tokens || ', ' || tp || ')' AS label,
           'synthetic' AS machine, 'py-gpu' AS environment, 'ms' AS unit,
           false AS higher_is_better, family, model, tokens, tp, tokens AS m, 4096 AS h,
           131072 // tp AS v,
           CASE family WHEN 'forward_entropy' THEN 'metric' WHEN 'two_pass' THEN 'metric'
                       ELSE 'off' END AS entropy
    FROM (
        SELECT i,
               ['forward', 'forward_entropy', 'forward_backward', 'two_pass', 'control']
                   [1 + i % 5] AS family,
               ['forward.Forward', 'entropy.ForwardEntropy', 'backward.ForwardBackward',
                'entropy.TwoPass', 'control.Control'][1 + i % 5] AS benchmark,
               'model-' || lpad(CAST(i // 160 AS VARCHAR), 2, '0') AS model,
               2048 * (1 << ((i // 5) % 8)) AS tokens, 1 << ((i // 40) % 4) AS tp
        FROM range($series) AS t(i)
    )
    """,
    """
    INSERT INTO measurement BY NAME
    SELECT run_id, series_id, 'ok' AS status, value, value * 0.999 AS low, value * 1.001 AS high,
           3 AS round_count, value AS asv_value, '1' AS version, started_at, 7.0 AS duration_s,
           'GPU-synthetic' AS gpu_uuid, 1980.0 AS sm_clock_mhz, 500.0 AS power_w,
           40.0 AS temperature_c, ['sw_power_cap'] AS clock_event_reasons,
           '{"tile": [128, 256, 64], "stages": 3}'::JSON AS schedule, 'median' AS statistic,
           'graph-paced' AS protocol,
           [value, value * 1.001, value * 0.999] AS samples
    FROM (
        SELECT run_id, series_id, started_at,
               (1 + series_id % 40) * (1 + 0.002 * sin(hash(run_id * 1000003 + series_id) % 1000))
                   * CASE WHEN series_id % 97 = 0 AND run_id >= $commits - 1 THEN 1.2 ELSE 1 END
                   AS value
        FROM run, series
        ORDER BY run_id, series_id
    )
    """,
    """
    INSERT INTO round BY NAME
    SELECT run_id, series_id, true AS attached, 'synthetic' AS asv_run, n AS round,
           'ok' AS status, asv_value * (1 + 0.0005 * (n - 1)) AS value,
           [asv_value, asv_value * 1.001, asv_value * 0.999] AS samples,
           started_at + to_seconds(n) AS started_at, 20.0 AS gap_ms,
           'GPU-synthetic' AS gpu_uuid, 1980.0 AS sm_clock_mhz, 500.0 AS power_w,
           40.0 AS temperature_c, [] AS clock_event_reasons
    FROM measurement, range(3) AS r(n)
    ORDER BY run_id, series_id, n
    """,
)


def write_large_store(path: Path, commits: int = 2000, series: int = 1000) -> None:
    """Write the store; the same numbers give the same content."""
    with open_store(path, read_only=False) as store:
        for statement in _STATEMENTS:
            sizes = {"commits": commits, "series": series}
            values = {name: size for name, size in sizes.items() if f"${name}" in statement}
            store.connection.execute(statement, values)
        store.connection.execute("CHECKPOINT")
