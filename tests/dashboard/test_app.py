"""Each page of the app, run by Streamlit's AppTest on synthetic and foreign stores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.app import ahead, data, state, wording
from dashboard.errors import InputError
from dashboard.serve import STORE_VARIABLE
from dashboard.store import open_store
from dashboard.store.ingest import ingest

OPEN = Callable[..., AppTest]
FORWARD = "forward.Forward.track_time"


def _overview() -> None:
    from dashboard.app.views import overview

    overview.render()


def _trends() -> None:
    from dashboard.app.views import trends

    trends.render()


PAGES = {"overview": _overview, "trends": _trends}


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch) -> OPEN:
    """Run a page on a store, with query parameters if any; fails on an exception box."""

    def run(page: str, store: Path, **query: str | list[str]) -> AppTest:
        st.cache_data.clear()
        st.cache_resource.clear()
        monkeypatch.setenv(STORE_VARIABLE, str(store))
        app = AppTest.from_function(PAGES[page], default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception, app.exception[0].message
        return app

    return run


@pytest.fixture
def store_of(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Callable[..., Any]
) -> Callable[..., Path]:
    """A store of a synthetic history made to order."""

    def build(**options: Any) -> Path:
        made = make_history(tmp_path / "results", recipe(**options))
        ingest(tmp_path / "store.duckdb", made.results)
        return tmp_path / "store.duckdb"

    return build


@pytest.fixture
def foreign_store(tmp_path: Path) -> Path:
    """Results of another, invented suite: no rounds, no commits.jsonl, hostile names."""
    results = tmp_path / "foreign"
    (results / "box").mkdir(parents=True)
    name = "suite.Time<b>.time_*it*"
    columns = ["result", "params", "version", "started_at", "duration"]
    for index, commit in enumerate(("1" * 40, "2" * 40)):
        params = [["10", "200"], ["'$x$'"]]
        document = {
            "commit_hash": commit,
            "env_name": "conda-py3.11",
            "date": 1_700_000_000_000 + index * 86_400_000,
            "params": {"machine": "box"},
            "python": "3.11",
            "requirements": {},
            "env_vars": {},
            "result_columns": columns,
            "results": {
                name: [[1e-6 * (index + 1), None], params, "1", 1_700_000_000_000, 1.0],
                "suite.plain": [[2e-3], [], "1", 1_700_000_000_000, 1.0],
            },
            "durations": {},
            "version": 2,
        }
        path = results / "box" / f"{commit[:8]}-conda-py3.11.json"
        path.write_text(json.dumps(document), "utf-8")
    (results / "box" / "machine.json").write_text('{"machine": "box", "version": 1}', "utf-8")
    definitions = {
        name: {
            "name": name,
            "param_names": ["n", "kind[a.b]"],
            "params": [["10", "200"], ["'$x$'"]],
            "type": "time",
            "unit": "seconds",
            "version": "1",
        },
        "version": 2,
    }
    (results / "benchmarks.json").write_text(json.dumps(definitions), "utf-8")
    ingest(tmp_path / "foreign.duckdb", results)
    return tmp_path / "foreign.duckdb"


def words(app: AppTest) -> str:
    """All text blocks of a page in one string, as Markdown."""
    blocks = [*app.markdown, *app.caption, *app.subheader, *app.info, *app.error, *app.warning]
    return "\n".join(str(block.value) for block in [*blocks, *app.success])


def charts_of(app: AppTest) -> list[dict[str, Any]]:
    """The Vega-Lite specifications of a page's charts."""
    return [json.loads(chart.proto.spec) for chart in app.get("vega_lite_chart")]


def test_overview_of_a_regression_says_so_first(
    open_page: OPEN, store_of: Callable[..., Path]
) -> None:
    app = open_page("overview", store_of(factors={(FORWARD, 3): 1.2}))
    assert "2 of 6 series regressed" in app.error[0].value.replace("\\", "")
    counts = {metric.label.replace("\\", ""): metric.value for metric in app.metric}
    assert counts["▲ regressed"] == "2"
    assert counts["= unchanged"] == "4"
    table = app.dataframe[0].value
    assert list(table["Verdict"][:2]) == ["▲ regressed"] * 2
    assert table["Ratio"].iloc[0] == pytest.approx(1.2, abs=0.02)
    assert list(table["Benchmark"][:2]) == ["Forward"] * 2
    assert len(table["History"].iloc[0]) == 4
    assert set(table["Trend"]) == {"open"}
    links = [link.proto for link in app.get("page_link")]
    assert [link.page for link in links] == ["trends", "trends"]
    assert "regressed" in links[0].label
    assert links[0].query_string.startswith("benchmark=forward&")
    assert len(charts_of(app)) == 1


def test_overview_of_an_unchanged_commit_is_calm(open_page: OPEN, history_store: Path) -> None:
    app = open_page("overview", history_store)
    assert "No regression in 6 series" in app.success[0].value
    assert not app.error
    assert "Synthetic change 3" in words(app)
    assert "measured" in words(app)


def test_overview_names_failures_with_their_reason(
    open_page: OPEN, store_of: Callable[..., Path]
) -> None:
    app = open_page("overview", store_of(outcomes={(FORWARD, 3): "failed"}))
    text = "\n".join(link.proto.label for link in app.get("page_link")).replace("\\", "")
    assert app.error[0].value.replace("\\", "").startswith("2 of 6 series failed")
    assert "✕ failed" in text
    assert "synthetic: failed" in text


def test_overview_of_one_commit_shows_its_values(
    open_page: OPEN, store_of: Callable[..., Path]
) -> None:
    app = open_page("overview", store_of(commits=1))
    assert "nothing to compare" in app.info[0].value
    values = app.dataframe[0].value
    assert len(values) == 6
    assert values["To control"].str.startswith(wording.TIMES).all()


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


def test_overview_of_another_suite_has_no_columns_of_ours(
    open_page: OPEN, foreign_store: Path
) -> None:
    app = open_page("overview", foreign_store)
    columns = set(app.dataframe[0].value.columns)
    assert "Parameters" in columns
    assert not {"Model", "Tokens", "TP"} & columns
    assert "<b>" not in words(app).replace("\\<b\\>", "")


@pytest.fixture
def two_machines(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Callable[..., Any]
) -> Path:
    """The same commits on two machines; only `fast` regressed, `slow` has no second commit."""
    results = tmp_path / "results"
    make_history(results, recipe(machine="fast", factors={(FORWARD, 3): 1.2}))
    make_history(results, recipe(machine="slow", commits=1))
    make_history(results, recipe(machine="fast", factors={(FORWARD, 3): 1.2}))
    ingest(tmp_path / "store.duckdb", results)
    return tmp_path / "store.duckdb"


def test_each_machine_has_its_own_overview(open_page: OPEN, two_machines: Path) -> None:
    app = open_page("overview", two_machines)
    assert app.selectbox(key=state.RUNNER).value == "fast"
    assert "2 of 6 series regressed" in app.error[0].value
    assert set(app.dataframe[-1].value["Machine"]) == {"fast", "slow"}
    other = app.selectbox(key=state.RUNNER).select("slow").run()
    assert not other.exception
    assert "nothing to compare" in other.info[0].value


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


@pytest.mark.parametrize("page", PAGES)
def test_no_store_yet_says_what_to_do(page: str, open_page: OPEN, tmp_path: Path) -> None:
    app = open_page(page, tmp_path / "none.duckdb")
    assert "no store yet" in words(app)
    assert str(tmp_path) in words(app).replace("\\", "")
    assert app.code[0].value.startswith("lmhead-perf ingest --store")


@pytest.mark.parametrize("page", PAGES)
def test_an_unreadable_store_is_named(page: str, open_page: OPEN, tmp_path: Path) -> None:
    path = tmp_path / "bad.duckdb"
    path.write_bytes(b"this is no database" * 1000)
    app = open_page(page, path)
    assert "cannot be read" in words(app)
    assert "bad.duckdb" in words(app).replace("\\", "")


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_store_says_so(page: str, open_page: OPEN, tmp_path: Path) -> None:
    open_store(tmp_path / "empty.duckdb", read_only=False).close()
    assert "store is empty" in words(open_page(page, tmp_path / "empty.duckdb"))


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


def test_the_app_starts_at_the_overview(
    history_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE_VARIABLE, str(history_store))
    main = Path(__file__).parents[2] / "dashboard" / "app" / "main.py"
    app = AppTest.from_file(str(main), default_timeout=60).run()
    assert not app.exception
    assert app.header[0].value == "Overview"
    # It compares ahead for the next page, which no later test shall meet half done.
    ahead.comparison(data.source(str(history_store))).result(timeout=60)


def test_a_store_that_goes_while_a_page_is_drawn_is_told_as_one_that_is_not_there(
    history_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        raise InputError("somebody has locked it")

    monkeypatch.setenv(STORE_VARIABLE, str(history_store))
    monkeypatch.setattr("dashboard.app.views.overview.judged.report", locked)
    main = Path(__file__).parents[2] / "dashboard" / "app" / "main.py"
    app = AppTest.from_file(str(main), default_timeout=60).run()
    assert not app.exception
    assert app.subheader[0].value == "The store cannot be read"
    assert "somebody has locked it" in app.markdown[0].value
