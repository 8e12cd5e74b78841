"""A small synthetic store with everything that the pages show; written with SQL.

Nothing in it was measured. On top of ``large_store``'s families it has families ``compile``,
``accuracy`` and ``fixed``, differentiable entropy by activity beside its two passes, a schedule
that changes at one commit, another driver from another commit on, and a slowdown planted at a
third.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from dashboard.store import open_store

COMMITS = 12
SCHEDULE_CHANGES_AT = 5
DRIVER_CHANGES_AT = 7
SLOWER_FROM = 8
SLOWER_BY = 1.15

_STATEMENTS = (
    # benchmarks with units of their own, and one of a fixed schedule
    """
    INSERT INTO series BY NAME
    SELECT 5000 + i AS series_id, name AS benchmark, ['''model-00''', '8192', '1'] AS param_values,
           '{"model": "model-00", "tokens": "8192", "tp": "1"}'::JSON AS params,
           name || '(''model-00'', 8192, 1)' AS label, 'synthetic' AS machine,
           'py-gpu' AS environment, unit, false AS higher_is_better,
           split_part(name, '.', 1) AS family, 'model-00' AS model, 8192 AS tokens, 1 AS tp,
           8192 AS m, 4096 AS h, 131072 AS v, 'off' AS entropy
    FROM (VALUES (0, 'compile.Cold.track_time', 's'), (1, 'compile.WarmDisk.track_time', 's'),
                 (2, 'compile.Compilations.track_count', 'kernels'),
                 (3, 'compile.Registers.track_count', 'registers'),
                 (4, 'compile.Spills.track_count', 'registers'),
                 (5, 'accuracy.HiddenGradient.track_error', 'abs'),
                 (6, 'fixed.FiveStages.track_time', 'ms')) AS t(i, name, unit)
    """,
    # differentiable entropy by activity
    """
    INSERT INTO series BY NAME
    SELECT 6000 + 10 * f + a AS series_id, name || '.track_time' AS benchmark,
           ['''model-00''', '16384', '4', CAST(active AS VARCHAR)] AS param_values,
           json_object('model', 'model-00', 'tokens', '16384', 'tp', '4',
                       'active', CAST(active AS VARCHAR)) AS params,
           name || '.track_time(' || active || ')' AS label, 'synthetic' AS machine,
           'py-gpu' AS environment, 'ms' AS unit, false AS higher_is_better, family,
           'model-00' AS model, 16384 AS tokens, 4 AS tp, 16384 AS m, 4096 AS h, 32768 AS v,
           'grad' AS entropy
    FROM (VALUES (0, 'backward.Entropy', 'forward_backward_entropy'),
                 (1, 'backward.TwoPass', 'two_pass_backward')) AS fam(f, name, family),
         (VALUES (0, 100), (1, 73), (2, 23)) AS act(a, active)
    """,
    """
    INSERT INTO measurement BY NAME
    SELECT run_id, series_id, 'ok' AS status, value, value * 0.99 AS low, value * 1.01 AS high,
           3 AS round_count, value AS asv_value, '1' AS version, started_at,
           'GPU-synthetic' AS gpu_uuid, 1980.0 AS sm_clock_mhz, 500.0 AS power_w,
           40.0 AS temperature_c, [] AS clock_event_reasons, 'median' AS statistic
    FROM (
        SELECT run_id, series_id, started_at,
               CASE family WHEN 'compile' THEN 3.0 + series_id % 7
                           WHEN 'accuracy' THEN 1e-5
                           WHEN 'two_pass_backward' THEN 42.0 ELSE 20.0 END
                   * (1 + 0.002 * (hash(run_id * 7919 + series_id) % 5)) AS value
        FROM run, series
        WHERE series_id >= 5000
    )
    """,
    """
    UPDATE measurement SET schedule = '{"block_m": 256, "block_n": 128, "block_k": 64,
        "group_m": 8, "num_warps": 8, "num_stages": 3}'::JSON
    WHERE series_id < 5000
    """,
    """
    UPDATE measurement SET schedule = '{"block_m": 128, "block_n": 256, "block_k": 64,
        "group_m": 16, "num_warps": 8, "num_stages": 3}'::JSON
    WHERE series_id < 5000 AND series_id % 3 = 0 AND run_id >= $schedule_at
    """,
    """
    UPDATE measurement SET schedule = '{"block_m": 128, "block_n": 256, "block_k": 32,
        "group_m": 8, "num_warps": 8, "num_stages": 5}'::JSON
    WHERE series_id = 5006
    """,
    # The slowdown comes with fewer registers, which is no change for the worse itself.
    """
    UPDATE measurement SET value = CASE series_id WHEN 5002 THEN 12 WHEN 5003 THEN 255 ELSE 0 END
    WHERE series_id IN (5002, 5003, 5004)
    """,
    "UPDATE measurement SET value = 168 WHERE series_id = 5003 AND run_id >= $slower_from",
    "UPDATE measurement SET driver = '2.0' WHERE run_id >= $driver_at",
    """
    UPDATE measurement SET value = value * $by, low = low * $by, high = high * $by,
        asv_value = asv_value * $by
    WHERE run_id >= $slower_from AND series_id IN (
        SELECT series_id FROM series WHERE family = 'forward_entropy' AND model = 'model-00'
    )
    """,
    """
    UPDATE round SET value = value * $by, samples = list_transform(samples, lambda x: x * $by)
    WHERE run_id >= $slower_from AND series_id IN (
        SELECT series_id FROM series WHERE family = 'forward_entropy' AND model = 'model-00'
    )
    """,
    """
    INSERT INTO ingest_log (path, kind, digest, status, reason, "rows", ingested_at) VALUES
        ('synthetic/broken.json', 'result', 'x', 'rejected', 'not JSON: synthetic', 0,
         TIMESTAMP '2020-01-02'),
        ('synthetic/fine.json', 'result', 'y', 'read', NULL, 300, TIMESTAMP '2020-01-02')
    """,
    """
    INSERT INTO source_file (path, kind, digest, status, reason, "rows", ingested_at) VALUES
        ('synthetic/broken.json', 'result', 'x', 'rejected', 'not JSON: synthetic', 0,
         TIMESTAMP '2020-01-02'),
        ('synthetic/fine.json', 'result', 'y', 'read', NULL, 300, TIMESTAMP '2020-01-02')
    """,
)
_VALUES = {
    "schedule_at": SCHEDULE_CHANGES_AT,
    "driver_at": DRIVER_CHANGES_AT,
    "slower_from": SLOWER_FROM,
    "by": SLOWER_BY,
}


def _large_store() -> ModuleType:
    location = Path(__file__).with_name("large_store.py")
    spec = importlib.util.spec_from_file_location("large_store", location)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_rich_store(path: Path) -> None:
    """Write the store; the same content each time."""
    _large_store().write_large_store(path, commits=COMMITS, series=320)
    with open_store(path, read_only=False) as store:
        for statement in _STATEMENTS:
            values = {name: v for name, v in _VALUES.items() if f"${name}" in statement}
            store.connection.execute(statement, values)
        store.connection.execute("CHECKPOINT")
