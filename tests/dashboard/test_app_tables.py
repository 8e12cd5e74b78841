"""Tables as a page has them, and the numbers behind them as it offers them to be saved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from app_pages import written
from streamlit.testing.v1 import AppTest

from dashboard.app import layouts, rivals, tables, tuning, wording
from dashboard.app.frames import Measure
from dashboard.app.views.layouts import exported, exported_shapes

HOSTILE = "a|b <b>*x*</b> `c` $d$ :red[e]"


def _rows(rows: int) -> None:
    import pandas as pd

    from dashboard.app import tables

    tables.written(pd.DataFrame({"Name": ["x"] * rows, "Series": [1234] * rows}))


def test_text_of_a_table_is_no_markup_and_numbers_stand_to_the_right() -> None:
    frame = pd.DataFrame({HOSTILE: [HOSTILE, None], "": ["A", ""], "Series": [1234, 5]})
    head, rule, first, second = tables.as_markdown(frame).splitlines()
    escaped = wording.escape(HOSTILE)
    assert head == f"| {escaped} | &nbsp; | Series |"
    assert rule == "| :--- | :--- | ---: |"
    assert first == f"| {escaped} | A | 1,234 |"
    assert second == f"| {wording.escape(wording.NONE)} | &nbsp; | 5 |"


def test_many_rows_scroll_instead() -> None:
    few = AppTest.from_function(_rows, kwargs={"rows": 3}).run()
    assert written(few)[0].to_dict("list") == {"Name": ["x"] * 3, "Series": ["1,234"] * 3}
    assert not few.dataframe
    many = AppTest.from_function(_rows, kwargs={"rows": 40}).run()
    assert len(many.dataframe[0].value) == 40
    assert not written(many)


def test_names_of_columns_may_repeat() -> None:
    frame = pd.DataFrame([[1, "x"], [2, "y"]], columns=["a", "a"])
    assert tables.as_markdown(frame).splitlines() == [
        "| a | a |", "| ---: | :--- |", "| 1 | x |", "| 2 | y |",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "side", "shown"),
    [
        ([True, False], ":---", ["yes", "no"]),
        ([True, None], ":---", ["yes", wording.NONE]),
        ([1234567.891, 2.0], "---:", [r"1,234,567\.891", "2"]),
        ([0.1 + 0.2, -0.5], "---:", [r"0\.3", r"\-0\.5"]),
        ([np.inf, -np.inf], "---:", [wording.NONE] * 2),
        ([np.nan, np.float32(0.5)], "---:", [wording.NONE, r"0\.5"]),
        (pd.array([1000, None], dtype="Int64"), "---:", ["1,000", wording.NONE]),
        ([pd.NaT, None], ":---", [wording.NONE] * 2),
    ],
)
def test_cells_by_their_kind(cells: object, side: str, shown: list[str]) -> None:
    _, rule, *rows = tables.as_markdown(pd.DataFrame({"x": cells})).splitlines()
    assert rule == f"| {side} |"
    assert rows == [f"| {cell} |" for cell in shown]


SCHEDULES = ['{"num_warps": 4}', '{"num_warps": 8}']


def _measured() -> pd.DataFrame:
    """A synthetic shape under two schedules, 2 and 3 ms."""
    return pd.DataFrame(
        {
            "group": "forward",
            "heading": "Forward",
            "shape": "synthetic",
            "model": "synthetic",
            "tokens": 2048,
            "tp": 2,
            "m": 2048, "h": 64, "v": 128,
            "params": None,
            "environment": "synthetic",
            "commit": ["a" * 40, "b" * 40],
            "turn": [0, 1],
            "schedule": SCHEDULES,
            "unit": "ms",
            "value": [2.0, 3.0],
            "low": [1.9, 2.9],
            "high": [2.1, 3.1],
        }
    )  # fmt: skip


def test_rival_schedules_are_numbers_with_their_unit_and_words_on_the_page() -> None:
    table = rivals.table(_measured(), *map(tuning.tile, SCHEDULES))
    row = table.iloc[0]
    assert (row["One"], row["Other"], row["Unit"], row["Ratio"]) == (2.0, 3.0, "ms", 1.5)
    assert row["Low"] < 1.5 < row["High"]
    shown = tables.sides_in_words(table)
    assert list(shown.columns) == [
        "Benchmark", "Shape", "One", "Other", "Ratio", "95 % interval", "One at", "Other at",
    ]  # fmt: skip
    assert list(shown.iloc[0][["One", "Other"]]) == ["2.00 ms", "3.00 ms"]
    assert shown["95 % interval"].iloc[0] == wording.ratio_interval(row["Low"], row["High"])


def test_layouts_are_saved_as_numbers() -> None:
    points = _measured().head(1).assign(
        series_id=7, y=0.97, rounds=3, n="3", shown_value="2.00 ms", shown_y="0.970"
    )  # fmt: skip
    saved = exported(layouts.unfold(points), points, Measure.CONTROL)
    assert list(saved["cp"]) == [1, 2, 4]
    assert list(saved["total"]) == [2048, 4096, 8192]
    for name, value in {"tp": 2, "tokens": 2048, "shown": 0.97, "value": 2.0, "rounds": 3}.items():
        assert pd.api.types.is_numeric_dtype(saved[name])
        assert (saved[name] == value).all()
    assert set(saved["unit"]) == {"ms"}
    assert set(saved["measure"]) == {"relative to control"}


def test_local_shapes_are_saved_as_numbers() -> None:
    points = _measured().assign(
        series_id=[7, 8], tokens=[2048, 4096], y=[0.97, None], rounds=3, n="3",
        shown_value="2.00 ms", shown_y="0.970",
    )  # fmt: skip
    saved = exported_shapes(layouts.shapes(points), points, Measure.CONTROL)
    assert saved[["tp", "tokens", "shown", "value"]].to_numpy().tolist() == [[2, 2048, 0.97, 2.0]]
    assert "4,096 tokens at CP 2" in saved["layouts"].iloc[0]


def test_what_a_cell_cuts_off_is_counted_and_saved() -> None:
    chosen = _measured().head(1).loc[[0] * 5].assign(heading=list("abcde"))
    named = tuning.letters(chosen)
    assert list(tuning.legend(chosen, named)["Benchmarks"]) == ["a; b; c; and 2 more"]
    assert list(tuning.legend(chosen, named, most=None)["Benchmarks"]) == ["a; b; c; d; e"]
    moved = chosen.assign(before=SCHEDULES[1], shape="s")
    commits = pd.DataFrame({"commit": ["a" * 40], "subject": ["synthetic"]})
    assert tuning.changes(moved, commits)["Which"].iloc[0] == "a, s; b, s; c, s; and 2 more"
    every = tuning.changes(moved, commits, most=None)["Which"].iloc[0]
    assert every == "a, s; b, s; c, s; d, s; e, s"
