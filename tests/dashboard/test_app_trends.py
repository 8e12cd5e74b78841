"""Trends, by Streamlit's AppTest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from app_pages import charts_of, words
from streamlit.testing.v1 import AppTest

from dashboard.app import state
from dashboard.store.ingest import ingest

OPEN = Callable[..., AppTest]
FORWARD = "forward.Forward.track_time"


def test_trends_answer_how_the_kernels_developed(open_page: OPEN, history_store: Path) -> None:
    app = open_page("trends", history_store, numbers="true")
    specs = charts_of(app)
    # forward_entropy at both shapes, each divided by the control of its shape.
    assert [spec["title"]["text"] for spec in specs] == [
        "nemotron-super · 8,192 tokens · TP 1",
        "qwen3.6-35b · 8,192 tokens · TP 1",
    ]
    assert "divided by the control" in words(app)
    assert app.dataframe[0].value.shape == (2, 2 + 4)


def test_trends_filters_come_from_the_address(open_page: OPEN, history_store: Path) -> None:
    app = open_page(
        "trends",
        history_store,
        benchmark=["forward", "control"],
        model="qwen3.6-35b",
        show="absolute",
        scale="log",
        numbers="true",
    )
    specs = charts_of(app)
    assert len(specs) == 2
    layer = specs[0]["layer"][0]
    assert layer["encoding"]["y"]["scale"]["type"] == "log"
    assert layer["encoding"]["y"]["title"] == "ms"
    assert set(app.dataframe[0].value["Shape"]) == {"qwen3.6-35b · 8,192 tokens · TP 1"}


def test_choosing_a_model_leaves_its_series(open_page: OPEN, history_store: Path) -> None:
    app = open_page("trends", history_store)
    app.multiselect(key=state.MODEL).select("nemotron-super").run()
    assert not app.exception
    assert len(charts_of(app)) == 1


def test_failed_points_are_counted_and_stay_in_the_table(
    open_page: OPEN, store_of: Callable[..., Path]
) -> None:
    store = store_of(outcomes={(FORWARD, 2): "failed"})
    app = open_page("trends", store, benchmark="forward", numbers="true")
    assert "✕ 2 failed measurements" in words(app)
    assert (app.dataframe[0].value == "failed").to_numpy().sum() == 2


def test_another_suite_is_shown_by_its_own_parameters(open_page: OPEN, foreign_store: Path) -> None:
    app = open_page("trends", foreign_store, benchmark="suite.Time<b>.time_*it*", numbers="true")
    assert state.PARAM + "n" in {select.key for select in app.multiselect}
    assert "suite\\.Time\\<b\\>\\.time\\_\\*it\\*" in {head.value for head in app.subheader}
    narrowed = app.multiselect(key=state.PARAM + "n").select("10").run()
    assert not narrowed.exception
    assert len(charts_of(narrowed)) == 1
    assert len(narrowed.dataframe[0].value) == 1


def test_trends_show_the_machine_measured_last_unless_asked(
    open_page: OPEN, two_machines: Path
) -> None:
    app = open_page("trends", two_machines, benchmark="forward", numbers="true")
    assert len(app.dataframe[0].value) == 2
    assert app.multiselect(key=state.MACHINE).value == ["fast · synthetic-py3.12-gpu"]
    both = app.multiselect(key=state.MACHINE).select("slow · synthetic-py3.12-gpu").run()
    assert not both.exception
    assert len(both.dataframe[0].value) == 4
    # Two lines a panel now, so they have a legend.
    colours = [layer["encoding"]["color"] for layer in charts_of(both)[0]["layer"][1:3]]
    assert all(colour["legend"] is not None for colour in colours)


def test_a_link_of_the_overview_opens_that_series_at_its_head(
    open_page: OPEN, store_of: Callable[..., Path]
) -> None:
    store = store_of(factors={(FORWARD, 3): 1.2})
    link = open_page("overview", store).get("page_link")[0].proto
    app = open_page("trends", store, **parse_qs(link.query_string), numbers="true")
    shown = app.dataframe[-1].value  # the first one tells what changed beside the step
    assert list(shown["Benchmark"]) == ["Forward"]
    assert shown["Shape"].iloc[0] in link.label.replace("\\", "")
    # The details of the regressing commit are open, with the command that measures it again.
    assert "Synthetic change 3" in words(app)
    assert "asv run --interleave-rounds" in app.code[0].value


def test_new_data_appears_without_a_restart(
    open_page: OPEN, tmp_path: Path, make_history: Callable[..., Any], recipe: Callable[..., Any]
) -> None:
    store = tmp_path / "store.duckdb"
    ingest(store, make_history(tmp_path / "one", recipe(commits=3)).results)
    app = open_page("trends", store, numbers="true")
    assert app.dataframe[0].value.shape[1] == 2 + 3
    ingest(store, make_history(tmp_path / "one", recipe(commits=4)).results)
    app.run()
    assert app.dataframe[0].value.shape[1] == 2 + 4
