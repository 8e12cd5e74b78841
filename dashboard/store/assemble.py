"""Rows of `round` and `measurement` from asv's values and the lines beside them, in columns.

Suffixes: _r one a value of asv's, _l one a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from dashboard.store.behind import lines_behind, values_of_lines
from dashboard.store.columns import (
    FAILED,
    OK,
    SKIPPED,
    Flags,
    Integers,
    flags,
    integers,
    numbers,
    small_integers,
    statuses_of,
    whole_of,
)
from dashboard.store.student import quantiles
from dashboard.store.summary import Summary, summarize

_ROUND = (
    "asv_run", "round", "status", "reason", "value", "samples", "started_at", "gap_ms", "gpu_uuid",
    "sm_clock_mhz", "power_w", "temperature_c", "clock_event_reasons", "fused_lmhead_file",
)  # fmt: skip
_OWN = ("status", "q25", "q75", "samples", "version", "duration_s", "profiled")
_SAID = (
    "gpu_uuid", "sm_clock_mhz", "power_w", "temperature_c", "clock_event_reasons", "gpu",
    "driver", "torch", "triton", "schedule", "statistic", "protocol",
)  # fmt: skip

_Column: TypeAlias = pa.Array | pa.ChunkedArray


@dataclass(frozen=True, slots=True)
class Placed:
    """Lines, of which each belongs to a run and a series: ``run_l`` counts the runs that were
    read together, ``owned_l`` tells whether the line names its run's machine and commit."""

    table: pa.Table
    run_l: Integers
    series_l: Integers
    owned_l: Flags


@dataclass(frozen=True, slots=True)
class Assembled:
    """The tables' rows, the series that they are of, and by run how many rounds it has and how
    many of these are of series that have none behind a value (the others that stand behind none
    are of earlier invocations, whose results asv replaced)."""

    measurements: pa.Table
    rounds: pa.Table
    series: Integers
    rounds_by_run: Integers
    odd_by_run: Integers


def assemble(values: pa.Table, lines: Placed, run_ids: Integers) -> Assembled:
    """Join ``values`` (columns of `results.read_groups`) with ``lines``."""
    run_r, series_r = whole_of(values["run"]), whole_of(values["series_id"])
    value_l = values_of_lines(run_r, series_r, lines.run_l, lines.series_l)
    behind_l = lines_behind(values, lines.table, value_l, lines.owned_l)
    rounds = {
        "run_id": integers(run_ids[lines.run_l]),
        "series_id": integers(lines.series_l),
        "attached": flags(behind_l),
        **{name: lines.table[name] for name in _ROUND},
    }
    # Another commit's line says nothing of this one's invocations.
    nobody = pa.nulls(len(lines.table), pa.string())
    rounds["asv_run"] = _where(lines.owned_l, lines.table["asv_run"], nobody)
    summary = summarize(lines.table, value_l, behind_l)
    has_rounds = np.zeros(len(values), bool)
    has_rounds[summary.value_g] = True
    # asv's NaN means skipped or not selected. Where the run left rounds, a skipped process is
    # among them, and NaN without one was not selected: no measurement.
    told = np.isin(run_r, lines.run_l[lines.owned_l])
    skipped = statuses_of(values["status"]) == SKIPPED
    kept = np.flatnonzero(~skipped | has_rounds | ~told)
    measurements = _measurements(values, summary, kept, run_ids[run_r[kept]])
    settled_l = np.append(has_rounds, False)[value_l]  # -1: no value
    odd = ~(lines.owned_l & settled_l)
    return Assembled(
        measurements=measurements,
        rounds=pa.table(rounds),
        series=np.union1d(series_r[kept], lines.series_l),
        rounds_by_run=np.bincount(lines.run_l, minlength=len(run_ids)),
        odd_by_run=np.bincount(lines.run_l[odd], minlength=len(run_ids)),
    )


def _measurements(
    values: pa.Table, summary: Summary, kept: Integers, run_ids: Integers
) -> pa.Table:
    group = np.full(len(values), -1)
    group[summary.value_g] = np.arange(len(summary.value_g))
    group = group[kept]
    own = values.take(integers(kept))
    said = summary.columns.take(integers(group, unknown=group < 0))
    value, low, high = _estimates(own, summary, group)
    status = statuses_of(own["status"])
    columns = {
        "run_id": integers(run_ids),
        "series_id": own["series_id"],
        "reason": _where(
            status == FAILED,
            said["failure"],
            _where(status == SKIPPED, said["skip_reason"], pa.nulls(len(own), pa.string())),
        ),
        "value": value,
        "low": low,
        "high": high,
        "round_count": small_integers(np.append(summary.count_g, 0)[group]),
        "asv_value": own["value"],
        "asv_low": own["low"],
        "asv_high": own["high"],
        "started_at": pc.coalesce(said["started_at"], own["started_at"]),
        **{name: own[name] for name in _OWN},
        **{name: said[name] for name in _SAID},
    }
    return pa.table(columns)


def _estimates(own: pa.Table, summary: Summary, group: Integers) -> tuple[_Column, ...]:
    """Each value with its interval: the rounds' median and its 95 % interval, if there are
    enough of them, else asv's own."""
    ok = statuses_of(own["status"]) == OK
    count = np.append(summary.finite_g, 0)[group]
    middle = np.append(summary.middle_g, np.nan)[group]
    with np.errstate(invalid="ignore", divide="ignore"):
        half = quantiles(count) * np.append(summary.deviation_g, np.nan)[group] / np.sqrt(count)
    one, several = ok & (count > 0), ok & (count > 1)
    return (
        _where(one, numbers(middle), own["value"]),
        _where(several, numbers(middle - half), own["low"]),
        _where(several, numbers(middle + half), own["high"]),
    )


def _where(condition: Flags, chosen: _Column, other: _Column) -> _Column:
    return pc.if_else(flags(condition), chosen, other)
