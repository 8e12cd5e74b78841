"""Rounds and values joined in columns, against the same said plainly, one series after another."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from dashboard.attach import Line, attached
from dashboard.store import columns
from dashboard.store.assemble import Assembled, Placed, assemble
from dashboard.store.student import quantiles

RUN_IDS = np.array([100, 200])
SERIES = (7, 8, 9)
EPOCH = datetime(1970, 1, 1)
STATUSES = st.sampled_from(["ok", "failed", "skipped"])
SAMPLES = st.lists(st.sampled_from([1.0, 2.0, 2.5, math.nan, math.inf]), max_size=3)


class Value(NamedTuple):
    """What asv has of a series."""

    run: int
    series: int
    status: str
    samples: list[float] | None


class Round(NamedTuple):
    """A synthetic line of a rounds file."""

    run: int
    series: int
    owned: bool
    asv_run: str | None
    round: int
    status: str
    reason: str | None
    samples: list[float]
    value: float | None
    started: int | None
    gpu_uuid: str | None
    clock_event_reasons: list[str]
    torch: str | None


def of_statuses(status: str, run: int, series: int, samples: list[float] | None) -> Value:
    """asv has samples of what went well only."""
    return Value(run, series, status, samples if status == "ok" else None)


ROUNDS = st.lists(
    st.builds(
        Round,
        run=st.integers(0, 1),
        series=st.sampled_from(SERIES),
        owned=st.sampled_from([True, True, True, False]),
        asv_run=st.sampled_from([None, "a", "b"]),
        round=st.integers(0, 2),
        status=STATUSES,
        reason=st.sampled_from([None, "out of memory", "no GPU"]),
        samples=SAMPLES,
        value=st.sampled_from([None, 1.0, 1.5, 4.0, math.inf]),
        started=st.one_of(st.none(), st.integers(0, 100)),
        gpu_uuid=st.sampled_from([None, "", "GPU-1", "GPU-2"]),
        clock_event_reasons=st.lists(st.sampled_from(["power", "heat"]), max_size=2),
        torch=st.sampled_from([None, "2.8", "2.9"]),
    ),
    max_size=14,
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Value], list[Round]]:
    """Lines, and values of which some are what an invocation pooled."""
    rounds = draw(ROUNDS)
    values = []
    for run in (0, 1):
        for series in SERIES:
            if draw(st.booleans()):
                continue
            own = [one for one in rounds if (one.run, one.series) == (run, series)]
            pooled = [x for one in sorted(own, key=lambda one: one.round) for x in one.samples]
            samples = draw(st.sampled_from([None, pooled, pooled[:2], [9.0], []]))
            values.append(of_statuses(draw(STATUSES), run, series, samples))
    return values, rounds


def joined(values: Sequence[Value], rounds: Sequence[Round]) -> Assembled:
    """What the store makes of it."""
    texts, numbers = columns.texts, columns.numbers
    unknown = numbers([None] * len(values))
    table = pa.table(
        {
            "run": columns.integers([one.run for one in values]),
            "series_id": columns.integers([one.series for one in values]),
            "status": texts([one.status for one in values]),
            "value": numbers([0.5 if one.status == "ok" else None for one in values]),
            **dict.fromkeys(("low", "high", "q25", "q75", "duration_s"), unknown),
            "samples": columns.lists_of_numbers([one.samples for one in values]),
            "version": texts([None] * len(values)),
            "started_at": columns.times([None] * len(values)),
            "profiled": columns.flags([False] * len(values)),
        }
    )
    times = [None if one.started is None else moment(one.started) for one in rounds]
    words = texts([word for one in rounds for word in one.clock_event_reasons])
    nothing, none = numbers([None] * len(rounds)), texts([None] * len(rounds))
    lines = pa.table(
        {
            "asv_run": texts([one.asv_run for one in rounds]),
            "round": columns.small_integers([one.round for one in rounds]),
            "status": texts([one.status for one in rounds]),
            "reason": texts([one.reason for one in rounds]),
            "value": numbers([one.value for one in rounds]),
            "samples": columns.lists_of_numbers([one.samples for one in rounds]),
            "started_at": columns.times(times),
            "gpu_uuid": texts([one.gpu_uuid for one in rounds]),
            "clock_event_reasons": columns.lists(
                words, [len(one.clock_event_reasons) for one in rounds]
            ),
            "torch": texts([one.torch for one in rounds]),
            **dict.fromkeys(("gap_ms", "sm_clock_mhz", "power_w", "temperature_c"), nothing),
            **dict.fromkeys(
                ("fused_lmhead_file", "gpu", "driver", "triton", "schedule", "statistic",
                 "protocol"), none,
            ),
        }
    )  # fmt: skip
    placed = Placed(
        lines,
        np.array([one.run for one in rounds], np.int64),
        np.array([one.series for one in rounds], np.int64),
        np.array([one.owned for one in rounds], bool),
    )
    return assemble(table, placed, RUN_IDS)


def moment(second: int) -> datetime:
    """A time without a zone."""
    return EPOCH + timedelta(seconds=second)


def same(one: Sequence[float], other: Sequence[float]) -> bool:
    """Equal numbers, NaN included."""
    pairs = list(zip(one, other, strict=False))
    return len(one) == len(other) and all(a == b or (a != a and b != b) for a, b in pairs)


def behind(value: Value, rounds: Sequence[Round]) -> list[int]:
    """The places of the lines behind a value."""
    own = [
        (place, one)
        for place, one in enumerate(rounds)
        if one.owned and (one.run, one.series) == (value.run, value.series)
    ]
    if not own:
        return []
    first: dict[str | None, int] = {}
    for place, one in own:
        first.setdefault(one.asv_run, place)
    last = max(first, key=lambda name: first[name])
    members = sorted(
        ((place, one) for place, one in own if one.asv_run == last),
        key=lambda member: (member[1].round, member[0]),
    )
    pooled = [sample for _, one in members for sample in one.samples]
    if value.status != "ok":
        told = any(one.status == value.status for _, one in members)
        return sorted(place for place, _ in members) if told else []
    if value.samples is not None and same(pooled, value.samples):
        return sorted(place for place, _ in members)
    lines = [Line(one.asv_run or "", one.round, place, tuple(one.samples)) for place, one in own]
    return sorted(attached(value.samples, lines)) if value.samples else []


@settings(max_examples=100, deadline=None)
@given(cases())
def test_columns_say_what_lines_say(case: tuple[list[Value], list[Round]]) -> None:
    values, rounds = case
    found = joined(values, rounds)
    places = {(one.run, one.series): behind(one, rounds) for one in values}
    every = {place for some in places.values() for place in some}
    assert found.rounds["attached"].to_pylist() == [p in every for p in range(len(rounds))]
    with_lines = {one.run for one in rounds if one.owned}
    kept = [
        one
        for one in values
        if one.status != "skipped" or places[one.run, one.series] or one.run not in with_lines
    ]
    rows = found.measurements.to_pylist()
    assert [(row["run_id"], row["series_id"]) for row in rows] == [
        (RUN_IDS[one.run], one.series) for one in kept
    ]
    for row, value in zip(rows, kept, strict=True):
        check(row, value, [rounds[place] for place in places[value.run, value.series]])
    assert sum(found.rounds_by_run) == len(rounds)
    odd = [one for one in rounds if not (one.owned and places.get((one.run, one.series)))]
    assert sum(found.odd_by_run) == len(odd)


def check(row: dict[str, Any], value: Value, own: list[Round]) -> None:
    """A measurement's row against the rounds behind it."""
    reasons = [one.reason for one in own if one.status == value.status and one.reason]
    assert row["reason"] == (reasons[-1] if reasons and value.status != "ok" else None)
    assert row["round_count"] == len(own)
    good = [
        one.value
        for one in own
        if one.status == "ok" and one.value is not None and math.isfinite(one.value)
    ]
    if value.status == "ok" and good:
        assert row["value"] == statistics.median(good)
    else:
        assert row["value"] == row["asv_value"]
    if value.status == "ok" and len(good) > 1:
        quantile = student.ppf(0.975, len(good) - 1)
        half = quantile * statistics.stdev(good) / math.sqrt(len(good))
        assert row["high"] - row["low"] == pytest.approx(2 * half, rel=1e-9)
    else:
        assert (row["low"], row["high"]) == (None, None)
    started = [one.started for one in own if one.started is not None]
    assert row["started_at"] == (moment(min(started)) if started else None)
    devices = sorted({one.gpu_uuid for one in own if one.gpu_uuid})
    assert row["gpu_uuid"] == (", ".join(devices) or None)
    assert row["torch"] == (own[-1].torch if own else None)
    words = sorted({word for one in own for word in one.clock_event_reasons})
    assert row["clock_event_reasons"] == (words if own else None)


def test_quantiles_are_students() -> None:
    counts = np.array([0, 1, 2, 3, 33, 34, 200])
    wanted = student.ppf(0.975, np.maximum(counts - 1, 1))
    assert quantiles(counts) == pytest.approx(wanted, rel=1e-12)
    assert quantiles(np.array([], np.int64)).tolist() == []


def test_columns_are_those_of_arrow() -> None:
    words, times = ["a", None, "", "ä€"], [EPOCH, None, datetime(2026, 1, 2, 3, 4, 5, 6)]
    assert columns.texts(words).equals(pa.array(words, pa.string()))
    assert columns.times(times).equals(pa.array(times, pa.timestamp("us")))
    assert columns.flags([True, False] * 9).equals(pa.array([True, False] * 9))
    assert columns.numbers([1.5, None, math.nan]).equals(pa.array([1.5, None, None]))
    lists = [[1.0, 2.0], None, [], [math.inf]]
    assert columns.lists_of_numbers(lists).equals(pa.array(lists, pa.list_(pa.float64())))
    whole = pa.array([1, None, 3, 4], pa.int32())[1:]
    assert columns.whole_of(whole, unknown=-1).tolist() == [-1, 3, 4]
    assert columns.flags_of(pa.array([True, False, True])[1:]).tolist() == [False, True]
    assert np.isnan(columns.numbers_of(pa.array([1.0, None])[1:])).all()
    for empty in (columns.texts([]), columns.times([]), columns.flags([]), columns.numbers([])):
        assert len(empty) == 0
