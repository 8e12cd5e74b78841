"""What a trend tells beside its values: cards, how far rounds go, labels. Invented numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from app_pages import charted, charts_of, words
from streamlit.testing.v1 import AppTest

from dashboard.app import frames, wording
from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest

OPEN = Callable[..., AppTest]
FORWARD = "forward"


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
