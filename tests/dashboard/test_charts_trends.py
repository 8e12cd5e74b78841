"""What a trend tells beside its values: cards, how far rounds go, labels. Invented numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from app_pages import charted, charts_of, words
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from dashboard.app import frames, log_ticks, wording
from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest

OPEN = Callable[..., AppTest]
FORWARD = "forward"


@given(st.floats(1e-9, 1e9), st.floats(1.001, 1e6))
def test_a_logarithmic_axis_has_enough_labels_and_not_too_many(low: float, span: float) -> None:
    high = low * span
    ticks = log_ticks.between(low, high)
    assert 4 <= len(ticks) <= 18
    assert ticks == sorted(set(ticks))
    assert low * (1 - 1e-9) <= ticks[0]
    assert ticks[-1] <= high * (1 + 1e-9)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.9, 2.1, [1.0, 1.25, 1.5, 1.75, 2.0]),
        (3.8, 6.6, [4.0, 4.5, 5.0, 5.5, 6.0, 6.5]),
        (0.02, 0.9, [0.02, 0.05, 0.1, 0.2, 0.5]),
        (0.5, 5000, [1.0, 10.0, 100.0, 1000.0]),
        (2.0, 2.0, [2.0]),
    ],
)
def test_labels_are_round(low: float, high: float, wanted: list[float]) -> None:
    assert log_ticks.between(low, high) == wanted


def test_the_logarithmic_panels_of_a_page_have_those_labels(
    open_page: OPEN, rich_store: Path
) -> None:
    app = open_page("trends", rich_store, benchmark="forward_entropy", scale="log")
    for chart in charts_of(app):
        axes = [y for layer in chart["layer"] if (y := layer["encoding"].get("y", {})).get("scale")]
        low, high = axes[0]["scale"]["domain"]
        assert all(y["axis"]["values"] == log_ticks.between(low, high) for y in axes)
    straight = open_page("trends", rich_store, benchmark="forward_entropy")
    assert '"values"' not in json.dumps([c["layer"][1]["encoding"] for c in charts_of(straight)])


def cards(*names: str | None) -> pd.DataFrame:
    rows = [
        {"series_id": 1, "rank": place, "value": 1.0, "gpu_uuid": name}
        for place, name in enumerate(names)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("names", "other"),
    [
        ("aab", [False, False, True]),
        ("ab", [True, False]),  # as many of both: the latest is the usual one
        ("aa", [False, False]),
        (["a", None, "a"], [False, False, False]),
        ([None, None], [False, False]),
    ],
)
def test_the_usual_card_is_that_of_most_points(names: Any, other: list[bool]) -> None:
    assert list(frames.on_another_card(cards(*names))) == other


def test_points_of_another_card_are_hollow_and_name_it(
    open_page: OPEN, tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=5))
    other = "GPU-44319026-a200-ceca-5266-5cb1b25bc91a"
    made.write_rounds(2, [line | {"gpu_uuid": other} for line in made.rounds(2)])
    ingest(tmp_path / "s.duckdb", made.results)
    asked = {"benchmark": FORWARD, "model": "nemotron-super", "show": "absolute"}
    app = open_page("trends", tmp_path / "s.duckdb", **asked, numbers="true", table="every point")
    (chart,) = charts_of(app)
    drawn = next(frame for frame in charted(app) if "elsewhere" in frame)
    assert list(drawn["elsewhere"]) == [False, False, True, False, False]
    assert drawn["card"].iloc[2] == "GPU-44319026"
    holes = [layer for layer in chart["layer"] if "elsewhere" in json.dumps(layer.get("transform"))]
    assert len(holes) == 1
    assert "Hollow points are of another GPU card" in words(app)
    assert "◆" not in json.dumps(chart, ensure_ascii=False), "cards may alternate"
    assert "GPU-44319026" in set(app.dataframe[0].value["Card"])


def test_the_details_of_a_point_tell_a_change_of_card(
    open_page: OPEN, tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe())
    made.write_rounds(3, [line | {"gpu_uuid": "GPU-44319026-a200"} for line in made.rounds(3)])
    ingest(tmp_path / "s.duckdb", made.results)
    with open_store(tmp_path / "s.duckdb") as store:
        described = queries.series(store)
    number = described["series_id"][described["family"] == FORWARD].iloc[0]
    point = f"{number}@{made.commits[3]}"
    app = open_page("trends", tmp_path / "s.duckdb", benchmark=FORWARD, point=point)
    assert "Changed beside the code: GPU card GPU-synthetic → GPU-44319026." in words(app)


def test_uuids_of_cards_are_cut_where_they_are_told() -> None:
    told = "GPU card GPU-44319026-a200-ceca-5266-5cb1b25bc91a → GPU-43d7845a-4d37; driver 1"
    assert wording.short_cards(told) == "GPU card GPU-44319026 → GPU-43d7845a; driver 1"


def test_lists_read_as_people_write_them() -> None:
    said = [wording.listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])]
    assert said == ["", "a", "a and b", "a, b and c"]
