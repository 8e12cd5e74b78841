"""Frames between the store and the charts; pandas only, no streamlit, no altair.

Input columns are those of ``dashboard.store.queries``. Columns added here have
plain names (no dot, no bracket), since Vega reads those as paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from dashboard.app import naming, wording

SHAPE = list(naming.SHAPE)
RUN = ["machine", "environment", "commit"]


CONTROL = naming.CONTROL
BETWEEN = " · "
"""Between machine and environment in the name of a place."""


class Measure(StrEnum):
    """What the y axis of a trend shows; also the words on the button and in the address."""

    CONTROL = "relative to control"
    FIRST = "relative to first"
    COMMIT = "relative to commit"
    ABSOLUTE = "absolute"
    RATE = "TFLOP/s"
    CEILING = "share of ceiling"


_FOOT = 0.1  # of an axis

RATIOS = (Measure.CONTROL, Measure.FIRST, Measure.COMMIT)
NEED_CONTROL = (Measure.CONTROL, Measure.CEILING)
LOWER_IS_WORSE = (Measure.RATE, Measure.CEILING)


def known(value: object) -> bool:
    """Whether a cell holds something; null in pandas has several spellings."""
    return value is not None and value is not pd.NA and value is not pd.NaT and value == value


def number(value: object) -> float | None:
    """A cell as a float, ``None`` where it is null."""
    return float(value) if known(value) else None  # type: ignore[arg-type]


def text(value: object) -> str:
    """A cell as text, a dash where it is null."""
    return str(value) if known(value) else wording.NONE


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows by column name."""
    # pandas' own to_dict("records") takes four times as long.
    names = [str(name) for name in frame.columns]
    cells = zip(*(frame[name].tolist() for name in frame.columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in cells]


def light(frame: pd.DataFrame) -> pd.DataFrame:
    """``frame`` with its texts as Python's own strings.

    Each column of Arrow's strings is cut by itself: for a page's small frames with dozens of
    columns that takes several times as long as cutting all of them together.
    """
    texts = [name for name in frame if isinstance(frame[name].dtype, pd.StringDtype)]
    return frame.astype(dict.fromkeys(texts, object))


def params_text(params: object) -> str:
    """``n=10, kind='a'`` from a series' parameters by name; nothing where it has none."""
    if not isinstance(params, Mapping):
        return ""
    return ", ".join(f"{name}={value}" for name, value in params.items())


def whole(value: object) -> int | None:
    """A cell as an integer, ``None`` where it is null."""
    found = number(value)
    return None if found is None else int(found)


def shape_of(row: Mapping[str, Any]) -> str:
    """The label of a series (see :func:`naming.shape_of`)."""
    params = row["params"] if isinstance(row["params"], Mapping) else None
    return naming.shape_of(_name(row["model"]), whole(row["tokens"]), whole(row["tp"]), params)


def place(machine: str, environment: str) -> str:
    """Machine and environment in one name."""
    return f"{machine}{BETWEEN}{environment}"


def _name(cell: object) -> str | None:
    return str(cell) if known(cell) else None


def describe(series: pd.DataFrame) -> pd.DataFrame:
    """``series`` with its ``group`` (see :mod:`naming`), ``heading``, ``shape`` and ``place``."""
    out = series.copy()
    rows = records(out)
    out["group"] = [
        naming.group_of(_name(r["family"]), str(r["benchmark"]), _name(r["model"])) for r in rows
    ]
    out["heading"] = [wording.family_title(group) for group in out["group"]]
    out["shape"] = [shape_of(r) for r in rows]
    out["place"] = [place(str(r["machine"]), str(r["environment"])) for r in rows]
    return light(out)


def points(
    series: pd.DataFrame, measurements: pd.DataFrame, commits: Sequence[str]
) -> pd.DataFrame:
    """Measurements with their series' columns, by commit and then as ``series`` lists them.

    ``commits`` is the graph's order; a commit outside it comes last, by date.
    Adds ``rank`` (place in that order) and ``tick`` (the short hash).
    """
    columns = ["series_id", *[c for c in series.columns if c not in measurements.columns]]
    joined = light(measurements).merge(series[columns], on="series_id", how="inner")
    place = {commit: index for index, commit in enumerate(commits)}
    joined["rank"] = joined["commit"].map(place).fillna(len(place)).astype(int)
    joined["tick"] = ticks(joined["commit"])
    listed = {number: index for index, number in enumerate(series["series_id"])}
    joined["listed"] = joined["series_id"].map(listed)
    joined = joined.sort_values(["rank", "commit_date", "listed"], kind="stable")
    return joined.reset_index(drop=True)


def ids(series: pd.DataFrame) -> tuple[int, ...]:
    """The series' ids as plain numbers, to ask the store with."""
    return tuple(int(number) for number in series["series_id"])


def first_panels(series: pd.DataFrame, most: int, *, by_benchmark: bool) -> pd.DataFrame:
    """The series that fit on a page, in their order.

    With a panel per shape, ``most`` panels shared evenly by the benchmarks; with
    a panel per benchmark, ``most`` lines in each. Those with a history go before those
    that have less than half of the longest one of their benchmark.
    """
    longest = series.groupby("group")["measured"].transform("max")
    short = series["measured"] * 2 < longest
    groups = series["group"].drop_duplicates()
    ordered = series.loc[short.sort_values(kind="stable").index]
    if by_benchmark:
        return ordered[ordered.groupby("group").cumcount() < most].sort_index()
    share = max(most // len(groups), 1)
    panels = ordered[["group", "shape"]].drop_duplicates()
    panels = panels[panels["group"].isin(groups[:most])]
    kept = panels[panels.groupby("group").cumcount() < share]
    return series.merge(kept, on=["group", "shape"], how="inner")


def ticks(commits: pd.Series) -> pd.Series:
    """Short hashes; the whole hash where two commits share the short one."""
    unique = pd.Series(commits.unique(), dtype="object")
    short = unique.map(wording.short_hash)
    clash = short.duplicated(keep=False)
    names = dict(zip(unique, short.where(~clash, unique), strict=True))
    return commits.map(names)


def tick_order(frame: pd.DataFrame) -> list[str]:
    """The commits of ``frame`` along the x axis, each once."""
    return list(dict.fromkeys(frame.sort_values("rank", kind="stable")["tick"]))


def _conditions(row: Mapping[str, Any]) -> dict[str, str]:
    reasons = row["clock_event_reasons"]
    seen = [str(r) for r in reasons] if isinstance(reasons, (list, tuple, np.ndarray)) else None
    clock, power, heat = (
        number(row[name]) for name in ("sm_clock_mhz", "power_w", "temperature_c")
    )
    return {
        "clock": wording.NONE if clock is None else f"{clock:,.0f} MHz",
        "power": wording.NONE if power is None else f"{power:,.0f} W",
        "heat": wording.NONE if heat is None else f"{heat:.0f} °C",
        "throttle": wording.NONE if seen is None else ", ".join(seen) or "none",
    }


def point_key(series_id: int, commit: str) -> str:
    """What names a point in a chart's selection and in an address."""
    return f"{series_id}@{commit}"


_SHOWN = {
    Measure.RATE: lambda y: f"{wording.significant(y)} TFLOP/s",
    Measure.CEILING: lambda y: f"{100 * y:.1f} %",
}


def shown_y(y: float | None, measure: Measure) -> str:
    """A relative value as text."""
    if y is None:
        return wording.NONE
    return _SHOWN.get(measure, wording.ratio)(y)


def hover(frame: pd.DataFrame, measure: Measure = Measure.CONTROL) -> pd.DataFrame:
    """``frame`` with the text columns that a point shows under the mouse, ``state`` and ``key``.

    Expects ``y`` (see :class:`Measure`). ``step`` compares with the series'
    measured point before; ``elsewhere`` says that another card than the series' usual one
    measured.
    """
    out = light(frame)
    filled = out.groupby("series_id", sort=False)["y"].ffill()
    previous = filled.groupby(out["series_id"], sort=False).shift()
    rows = records(out)
    out["state"] = [text(r["status"]) for r in rows]
    out["when"] = [
        wording.moment(r["commit_date"] if known(r["commit_date"]) else None) for r in rows
    ]
    out["taken"] = [
        wording.moment(r["started_at"] if known(r["started_at"]) else None) for r in rows
    ]
    out["who"] = [text(r["author"]) for r in rows]
    out["what"] = [text(r["subject"]) for r in rows]
    out["shown_value"] = [wording.quantity(number(r["value"]), text(r["unit"]), 4) for r in rows]
    out["shown_interval"] = [
        wording.quantity_interval(number(r["low"]), number(r["high"]), text(r["unit"]))
        for r in rows
    ]
    out["shown_y"] = [shown_y(number(r["y"]), measure) for r in rows]
    out["key"] = [point_key(r["series_id"], r["commit"]) for r in rows]
    out["step"] = [wording.change(number(s)) for s in out["y"] / previous]
    out["why"] = [text(r["reason"]) for r in rows]
    out["n"] = [text(whole(r["rounds"])) for r in rows]
    out["card"] = [wording.short_cards(text(r["gpu_uuid"])) for r in rows]
    out["elsewhere"] = on_another_card(out)
    out["versions"] = [
        f"driver {text(r['driver'])} · torch {text(r['torch'])} · triton {text(r['triton'])}"
        for r in rows
    ]
    conditions = pd.DataFrame([_conditions(r) for r in rows], index=out.index)
    for name in ("clock", "power", "heat", "throttle"):
        out[name] = conditions[name] if len(out) else pd.Series(dtype="object")
    return light(out)


def on_another_card(points: pd.DataFrame) -> pd.Series:
    """Whether a point was measured on another card than most of its series' points here are; of
    cards with equally many the latest's is the usual one."""
    known = points[points["value"].notna() & points["gpu_uuid"].notna()]
    counts = known.groupby(["series_id", "gpu_uuid"], sort=False)["rank"].agg(["size", "max"])
    usual = (
        counts.sort_values(["size", "max"]).reset_index().groupby("series_id")["gpu_uuid"].last()
    )
    same = points["gpu_uuid"].eq(points["series_id"].map(usual))
    return points["gpu_uuid"].notna() & ~same


def limits(frame: pd.DataFrame, *, log: bool, include: float | None = None) -> tuple[float, float]:
    """The y axis' ends: every value with its interval, and some air.

    Never so close that noise looks tall, and an interval far wider than what the
    values span is cut off rather than let it flatten them. ``include`` is a value
    that has to be visible, such as 1 of a ratio.
    """
    known_values = _finite(frame["y"], log)
    if known_values.empty:
        return (0.1, 1.0) if log else (0.0, 1.0)
    least, most = float(known_values.min()), float(known_values.max())
    room = max(most - least, 0.25 * max(abs(least), abs(most)))
    ends = _finite(pd.concat([frame["y_low"], frame["y_high"]]), log)
    ends = pd.concat([ends.clip(least - room, most + room), known_values])
    if log:
        ends = ends[ends > 0]
    if include is not None:
        ends = pd.concat([ends, pd.Series([include])])
    low, high = float(ends.min()), float(ends.max())
    if log:
        pad = max((high / low) ** 0.08, 1.02)
        return low / pad, high * pad
    tight = 0.06 * max(abs(low), abs(high)) or 1.0
    pad = max(0.1 * (high - low), (tight - (high - low)) / 2)
    return (max(low - pad, 0.0) if least >= 0 else low - pad), high + pad


def with_a_foot(ends: tuple[float, float], *, log: bool) -> tuple[float, float]:
    """The ends of :func:`limits` with room for signs below the lowest value."""
    low, high = ends
    if log:
        return low / (high / low) ** _FOOT, high
    lower = low - _FOOT * (high - low)
    return (max(lower, 0.0) if low >= 0 else lower), high


def _finite(values: pd.Series, log: bool) -> pd.Series:
    """The values that a scale can show."""
    numbers = values.astype(float)
    shown = numbers[np.isfinite(numbers)]
    return shown[shown > 0] if log else shown
