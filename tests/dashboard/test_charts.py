"""Frames and charts as data, on small synthetic points (no measured numbers)."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest
from app_pages import encodings

from dashboard.app import charts, frames, palette, relations, wording
from dashboard.app.frames import Measure

COMMITS = [f"{letter}{'0' * 39}" for letter in "cabd"]
"""Graph order; neither alphabetical nor, by `DATES`, chronological."""
DATES = [datetime(2026, 1, day, tzinfo=UTC) for day in (5, 3, 9, 4)]


def synthetic_series() -> pd.DataFrame:
    """Two series of one shape: a benchmark and its control."""
    shape = {"model": "tiny", "tokens": 512, "tp": 1, "m": 512, "h": 64, "v": 1024}
    place = {"machine": "lab", "environment": "py-gpu", "unit": "ms", "higher_is_better": False}
    rows = [
        {"series_id": 1, "benchmark": "forward.Forward.track_time", "family": "forward"},
        {"series_id": 2, "benchmark": "control.Control.track_time", "family": "control"},
    ]
    params = {"model": "tiny", "tokens": "512", "tp": "1"}
    extra = {"entropy": "off", "params": params, "label": "forward[a.b](x=1)"}
    return frames.describe(pd.DataFrame([{**row, **shape, **place, **extra} for row in rows]))


def synthetic_points(values: dict[int, list[float | None]], spread: float = 0.01) -> pd.DataFrame:
    """Measurements of each series at `COMMITS`; None is a failure."""
    rows = [
        {
            "series_id": number,
            "commit": commit,
            "position": index,
            "commit_date": date,
            "author": "Ada",
            "subject": "Make <b>it</b> *fast*",
            "value": value,
            "low": None if value is None else value * (1 - spread),
            "high": None if value is None else value * (1 + spread),
            "rounds": 3,
            "status": "failed" if value is None else "ok",
            "reason": "out of memory" if value is None else None,
            "started_at": date + timedelta(hours=1),
            "gpu_uuid": "GPU-synthetic",
            "driver": "570",
            "torch": "2.11",
            "triton": None,
            "sm_clock_mhz": 1980.0,
            "power_w": None,
            "temperature_c": 50.0,
            "clock_event_reasons": ["sw_power_cap"],
        }
        for number, series in values.items()
        for index, (commit, date, value) in enumerate(zip(COMMITS, DATES, series, strict=False))
    ]
    frame = pd.DataFrame(rows).astype({"value": float, "low": float, "high": float})
    return frames.points(synthetic_series(), frame, COMMITS)


@pytest.fixture
def points() -> pd.DataFrame:
    return synthetic_points({1: [2.0, 1.5, None, 1.2], 2: [1.0, 1.0, 1.0, 1.0]})


def drawn(
    frame: pd.DataFrame, measure: Measure = Measure.ABSOLUTE, **options: Any
) -> dict[str, Any]:
    """The Vega-Lite specification of a trend of `frame` (with y already set)."""
    shown = frames.hover(frame)
    lines = list(dict.fromkeys(shown["heading"]))
    arguments: dict[str, Any] = {
        "line": "heading",
        "lines": lines,
        "order": frames.tick_order(shown),
        "measure": measure,
        "limits": frames.limits(shown, log=False),
        "palette": palette.LIGHT,
        "title": "tiny",
        **options,
    }
    spec = charts.trend(shown, **arguments)
    spec["datasets"] = {name: rows.to_dict("records") for name, rows in spec["datasets"].items()}
    alt.LayerChart.from_dict(spec)  # or it does not keep to the schema
    return spec


def marks(spec: dict[str, Any]) -> list[str]:
    return [layer["mark"]["type"] for layer in spec["layer"]]


def test_commits_stand_in_graph_order_not_by_date_or_name(points: pd.DataFrame) -> None:
    assert frames.tick_order(points) == [commit[:7] for commit in COMMITS]
    spec = drawn(relations.absolute(points))
    domains = {tuple(d["scale"]["domain"]) for channel, d in encodings(spec) if channel == "x"}
    assert domains == {tuple(commit[:7] for commit in COMMITS)}


def test_two_commits_with_one_short_hash_keep_apart() -> None:
    twins = pd.Series(["a" * 39 + "1", "a" * 39 + "2", "b" * 40])
    assert list(frames.ticks(twins)) == ["a" * 39 + "1", "a" * 39 + "2", "b" * 7]


def test_relative_to_control_divides_by_the_same_commit_and_adds_errors() -> None:
    both = synthetic_points({1: [2.0, 3.0], 2: [1.0, 2.0]})
    out = relations.relative_to_control(both[both["series_id"] == 1], both[both["series_id"] == 2])
    assert list(out["y"]) == [2.0, 1.5]
    width = (out["y_high"] / out["y_low"]).iloc[0]
    alone = (1.01 / 0.99) ** 1
    assert alone < width < alone**2


def test_a_point_without_control_has_no_ratio() -> None:
    both = synthetic_points({1: [2.0, 3.0], 2: [1.0, None]})
    out = relations.relative_to_control(both[both["series_id"] == 1], both[both["series_id"] == 2])
    assert out["y"].iloc[0] == 2.0
    assert pd.isna(out["y"].iloc[1])


def test_a_control_of_another_card_is_none() -> None:
    both = synthetic_points({1: [2.0, 3.0, 4.0], 2: [1.0, 2.0, 4.0]})
    both.loc[(both["series_id"] == 2) & (both["commit"] == COMMITS[1]), "gpu_uuid"] = "GPU-other"
    both.loc[(both["series_id"] == 2) & (both["commit"] == COMMITS[2]), "gpu_uuid"] = None
    out = relations.relative_to_control(both[both["series_id"] == 1], both[both["series_id"] == 2])
    assert out["y"].fillna(0).tolist() == [2.0, 0.0, 1.0]


def test_relative_to_first_starts_at_one_without_an_interval() -> None:
    out = relations.relative_to_first(synthetic_points({1: [None, 2.0, 1.0]}))
    assert pd.isna(out["y"].iloc[0])
    assert tuple(out[["y", "y_low", "y_high"]].iloc[1]) == (1.0, 1.0, 1.0)
    assert out["y"].iloc[2] == 0.5
    assert out["y_low"].iloc[2] < 0.5 < out["y_high"].iloc[2]


def test_hover_says_everything_about_a_point(points: pd.DataFrame) -> None:
    shown = frames.hover(relations.absolute(points[points["series_id"] == 1]))
    second = shown.iloc[1]
    assert second["shown_value"] == "1.500 ms"
    assert second["step"] == f"{wording.MINUS}25.0 %"
    assert second["clock"] == "1,980 MHz"
    assert second["power"] == wording.NONE
    assert second["throttle"] == "sw_power_cap"
    assert second["versions"] == f"driver 570 · torch 2.11 · triton {wording.NONE}"
    # The failure in between is no step: the next point compares with the last value.
    assert shown.iloc[3]["step"] == f"{wording.MINUS}20.0 %"
    fields = {
        d.get("field") for c, d in encodings(drawn(relations.absolute(points))) if c == "tooltip"
    }
    assert {"what", "who", "when", "shown_value", "shown_interval", "n", "clock"} <= fields


def test_every_field_is_in_the_data_and_is_no_path(points: pd.DataFrame) -> None:
    spec = drawn(relations.absolute(points))
    fields = {d["field"] for _, d in encodings(spec) if "field" in d} - {"one"}
    columns = set().union(*(row for rows in spec["datasets"].values() for row in rows))
    assert fields <= columns
    assert not [field for field in fields if re.search(r"[.\[\]]", field)]


def test_a_single_point_is_seen_without_a_line() -> None:
    spec = drawn(relations.absolute(synthetic_points({1: [2.0]})))
    assert marks(spec)[:4] == ["area", "rule", "line", "point"]
    low, high = frames.limits(relations.absolute(synthetic_points({1: [2.0]})), log=False)
    assert low < 2.0 * 0.99 < 2.0 * 1.01 < high


def test_failures_are_marked_and_only_where_they_are(points: pd.DataFrame) -> None:
    assert "text" in marks(drawn(relations.absolute(points)))
    fine = synthetic_points({1: [2.0, 1.0]})
    assert "text" not in marks(drawn(relations.absolute(fine)))
    layer = next(
        x for x in drawn(relations.absolute(points))["layer"] if x["mark"]["type"] == "text"
    )
    assert "why" in {d["field"] for c, d in encodings(layer) if c == "tooltip"}


def test_all_layers_share_the_given_axis(points: pd.DataFrame) -> None:
    spec = drawn(
        relations.relative_to_first(points), Measure.FIRST, limits=(0.5, 1.2), log=True, factor=1.0
    )
    scales = [d["scale"] for c, d in encodings(spec) if c == "y"]
    assert len(scales) == len(spec["layer"])
    assert all(s["domain"] == [0.5, 1.2] and s["type"] == "log" for s in scales)


def test_lines_differ_by_shape_and_dash_as_well(points: pd.DataFrame) -> None:
    spec = drawn(relations.absolute(points))
    shapes = {str(d["scale"]["range"]) for c, d in encodings(spec) if c == "shape"}
    assert shapes == {str(list(palette.SHAPES[:2]))}
    lines = [layer["mark"] for layer in spec["layer"] if layer["mark"]["type"] == "line"]
    assert [mark["strokeDash"] for mark in lines] == list(palette.DASHES[:2])
    # One legend: Vega-Lite drops the merged one if any channel of the domain says null.
    legends = [d["legend"] for c, d in encodings(spec) if c in ("shape", "color")]
    assert legends[0] is not None
    assert all(legend == legends[0] for legend in legends)
    for theme in (palette.LIGHT, palette.DARK):
        assert len(set(theme.lines)) == palette.MOST_LINES
    assert len(palette.DASHES) == palette.MOST_LINES == len({str(d) for d in palette.DASHES})


def test_limits_keep_noise_small_and_log_positive() -> None:
    steady = relations.absolute(synthetic_points({1: [2.0, 2.001, 1.999]}, spread=1e-4))
    low, high = frames.limits(steady, log=False)
    assert (high - low) / 2 > 0.05
    low, high = frames.limits(relations.absolute(synthetic_points({1: [0.0, 1.0]})), log=True)
    assert 0 < low < high
    empty = relations.absolute(synthetic_points({1: [None]}))
    assert frames.limits(empty, log=False) == (0.0, 1.0)


def test_values_far_from_their_unit_are_drawn_in_a_better_one() -> None:
    tiny = relations.absolute(synthetic_points({1: [2e-5, 3e-5]}))
    factor, unit = wording.display_unit(list(tiny["y"]), "ms")
    assert unit == "ns"
    spec = drawn(tiny, unit=unit, factor=factor)
    shown = [row["y"] for rows in spec["datasets"].values() for row in rows]
    assert shown == pytest.approx([20.0, 30.0])


def test_a_page_shares_its_panels_among_the_benchmarks() -> None:
    rows = [(g, f"shape {s}", place) for g in "ab" for s in range(9) for place in "xy"]
    series = pd.DataFrame(rows, columns=["group", "shape", "place"]).assign(measured=5)
    shown = frames.first_panels(series, 6, by_benchmark=False)
    assert shown.groupby("group")["shape"].nunique().to_dict() == {"a": 3, "b": 3}
    assert len(shown) == 12  # both places of each panel
    assert len(frames.first_panels(series, 1, by_benchmark=False)) == 2
    assert frames.first_panels(series, 8, by_benchmark=True).groupby("group").size().max() == 8


@pytest.mark.parametrize("by_benchmark", [False, True])
def test_series_with_a_history_are_shown_first(by_benchmark: bool) -> None:
    counts = [1, 8, 1, 5, 4, 3]  # of 8: half is a history
    rows = [("a", f"shape {place}", count) for place, count in enumerate(counts)]
    series = pd.DataFrame(rows, columns=["group", "shape", "measured"])
    shown = frames.first_panels(series, 3, by_benchmark=by_benchmark)
    assert list(shown["shape"]) == ["shape 1", "shape 3", "shape 4"]
    shown = frames.first_panels(series, 4, by_benchmark=by_benchmark)
    assert list(shown["shape"]) == ["shape 0", "shape 1", "shape 3", "shape 4"]


def test_texts_are_plain_whatever_pandas_makes_of_them() -> None:
    frame = pd.DataFrame({"a": pd.Series(["x", None], dtype="string"), "n": [1, 2], "b": "y"})
    found = frames.light(frame)
    assert [str(dtype) for dtype in found.dtypes] == ["object", "int64", "object"]
    assert [frames.text(cell) for cell in found["a"]] == ["x", wording.NONE]


def test_charts_and_frames_need_no_streamlit() -> None:
    code = (
        "import sys, dashboard.app.charts, dashboard.app.summary; "
        "sys.exit('streamlit' in sys.modules or 'duckdb' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
