"""What the history of series is judged by: columns of numbers, no record for every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dashboard.models import CARD_CONDITION, Series
from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch
from dashboard.store.queries.records import series_record

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Values:
    """One entry a series and commit, ordered by both; all arrays (N,).

    ``place`` is the commit's index in the commits asked for, ``card`` a number for the GPU that
    measured the value, -1 where that is not known.
    """

    series_id: NDArray[np.int64]
    place: NDArray[np.int64]
    value: Floats
    card: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """A condition of a series that is another than when it was last known, and its place."""

    series_id: int
    place: int
    name: str
    before: str
    after: str


# The names of the conditions, in the order of the query below.
_CONDITIONS = (
    "benchmark version", "GPU", "driver", "torch", "triton", CARD_CONDITION, "timing protocol",
    "statistic",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoundNoise:
    """What the rounds of a series' runs say of its noise; logarithmic.

    ``squares`` are summed squared deviations with ``df`` degrees of freedom; ``error`` is the
    mean squared standard error of a run's value.
    """

    squares: float
    df: float
    error: float


def values(store: Store, commits: Sequence[str], machine: str | None = None) -> Values:
    """The finite values of every series at ``commits``, on one machine or all.

    As in ``current_measurement`` the latest of several runs counts; runs are chosen first, so
    that twenty commits cost no more in a history of thousands.
    """
    found = store.connection.execute(
        """
        WITH wanted AS (
            SELECT unnest(CAST($commits AS VARCHAR[])) AS hash,
                   generate_subscripts(CAST($commits AS VARCHAR[]), 1) - 1 AS place
        ),
        chosen AS (
            SELECT run_id, path, place
            FROM run
            JOIN wanted ON hash = commit_hash
            WHERE $machine IS NULL OR machine = $machine
        ),
        latest AS (
            SELECT series_id, place, status, value, gpu_uuid
            FROM measurement
            JOIN chosen USING (run_id)
            QUALIFY row_number() OVER (
                PARTITION BY series_id, place
                ORDER BY started_at DESC NULLS LAST, path, round_count DESC, run_id
            ) = 1
        ),
        cards AS (
            SELECT gpu_uuid, row_number() OVER (ORDER BY gpu_uuid) - 1 AS card
            FROM (SELECT DISTINCT gpu_uuid FROM latest WHERE gpu_uuid IS NOT NULL)
        )
        SELECT series_id, place, value, coalesce(card, -1) AS card
        FROM latest
        LEFT JOIN cards USING (gpu_uuid)
        WHERE status = 'ok' AND isfinite(value)
        ORDER BY series_id, place
        """,
        {"commits": list(commits), "machine": machine},
    ).fetchnumpy()
    return Values(
        np.asarray(found["series_id"], dtype=np.int64),
        np.asarray(found["place"], dtype=np.int64),
        np.asarray(found["value"], dtype=np.float64),
        np.asarray(found["card"], dtype=np.int64),
    )


def condition_changes(
    store: Store, commits: Sequence[str], machine: str | None = None
) -> list[ConditionChange]:
    """Where a series' conditions differ from those last known, in order of series and place."""
    _, rows = fetch(
        store,
        """
        WITH wanted AS (
            SELECT unnest(CAST($commits AS VARCHAR[])) AS hash,
                   generate_subscripts(CAST($commits AS VARCHAR[]), 1) - 1 AS place
        ),
        chosen AS (
            SELECT run_id, path, place, gpu, driver, torch, triton
            FROM run
            JOIN wanted ON hash = commit_hash
            WHERE $machine IS NULL OR machine = $machine
        ),
        latest AS (
            SELECT series_id, place, status, version, gpu_uuid, protocol, statistic,
                   coalesce(measurement.gpu, chosen.gpu) AS gpu,
                   coalesce(measurement.driver, chosen.driver) AS driver,
                   coalesce(measurement.torch, chosen.torch) AS torch,
                   coalesce(measurement.triton, chosen.triton) AS triton
            FROM measurement
            JOIN chosen USING (run_id)
            QUALIFY row_number() OVER (
                PARTITION BY series_id, place
                ORDER BY started_at DESC NULLS LAST, path, round_count DESC, run_id
            ) = 1
        ),
        steps AS (
            SELECT series_id, place, version, gpu, driver, torch, triton, gpu_uuid, protocol,
                   statistic, lag(protocol IGNORE NULLS) OVER past AS old_protocol,
                   lag(statistic IGNORE NULLS) OVER past AS old_statistic,
                   lag(version IGNORE NULLS) OVER past AS old_version,
                   lag(gpu IGNORE NULLS) OVER past AS old_gpu,
                   lag(driver IGNORE NULLS) OVER past AS old_driver,
                   lag(torch IGNORE NULLS) OVER past AS old_torch,
                   lag(triton IGNORE NULLS) OVER past AS old_triton,
                   lag(gpu_uuid IGNORE NULLS) OVER past AS old_gpu_uuid
            FROM latest
            WHERE status = 'ok'
            WINDOW past AS (PARTITION BY series_id ORDER BY place)
        )
        SELECT series_id, place, old_version, version, old_gpu, gpu, old_driver, driver,
               old_torch, torch, old_triton, triton, old_gpu_uuid, gpu_uuid, old_protocol,
               protocol, old_statistic, statistic
        FROM steps
        WHERE version <> old_version OR gpu <> old_gpu OR driver <> old_driver
           OR torch <> old_torch OR triton <> old_triton OR gpu_uuid <> old_gpu_uuid
           OR protocol <> old_protocol OR statistic <> old_statistic
        ORDER BY series_id, place
        """,
        {"commits": list(commits), "machine": machine},
    )
    return [
        ConditionChange(number, place, name, before, after)
        for number, place, *cells in rows
        for name, before, after in zip(_CONDITIONS, cells[::2], cells[1::2], strict=True)
        if before is not None and after is not None and before != after
    ]


def round_noise(
    store: Store, commits: Sequence[str], machine: str | None = None
) -> dict[int, RoundNoise]:
    """The noise of rounds at ``commits`` by series_id; series without two rounds are left out."""
    _, rows = fetch(
        store,
        """
        WITH spread AS (
            SELECT series_id, var_samp(ln(round.value)) AS variance, count(*) AS rounds
            FROM round
            JOIN run USING (run_id)
            WHERE attached AND status = 'ok' AND round.value > 0 AND isfinite(round.value)
              AND commit_hash IN (SELECT unnest(CAST($commits AS VARCHAR[])))
              AND ($machine IS NULL OR machine = $machine)
            GROUP BY series_id, run_id
            HAVING count(*) > 1
        )
        SELECT series_id, sum(variance * (rounds - 1)), sum(rounds - 1), avg(variance / rounds)
        FROM spread GROUP BY series_id
        """,
        {"commits": list(commits), "machine": machine},
    )
    return {number: RoundNoise(*map(float, numbers)) for number, *numbers in rows}


def series_by_id(store: Store) -> dict[int, Series]:
    """Every series as a record."""
    columns, rows = fetch(store, "SELECT * FROM series")
    cells = (dict(zip(columns, row, strict=True)) for row in rows)
    return {cell["series_id"]: series_record(cell) for cell in cells}
