"""The further pages of the app, run by AppTest on synthetic and public stores."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from app_pages import charted, charts_of, links, words, written
from streamlit.testing.v1 import AppTest

from dashboard.app import navigation
from dashboard.store import open_store
from dashboard.store.ingest import ingest

OPEN = Callable[..., AppTest]
NAMES = [entry.name for entry in navigation.PAGES]
PUBLIC = ["samples", "nulls", "v1"]
DATA = Path(__file__).parent / "data" / "asv"


@pytest.fixture(scope="module", params=PUBLIC)
def public_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a public asv suite."""
    path: Path = tmp_path_factory.mktemp("public") / f"{request.param}.duckdb"
    ingest(path, DATA / request.param)
    return path


@pytest.fixture(scope="module")
def one_commit(
    tmp_path_factory: pytest.TempPathFactory,
    make_history: Callable[..., Any],
    recipe: Callable[..., Any],
) -> Path:
    """A store of a single commit."""
    folder: Path = tmp_path_factory.mktemp("one")
    ingest(folder / "one.duckdb", make_history(folder / "results", recipe(commits=1)).results)
    return folder / "one.duckdb"


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without a measurement."""
    path: Path = tmp_path_factory.mktemp("empty") / "empty.duckdb"
    open_store(path, read_only=False).close()
    return path


def test_every_page_has_a_module_and_one_name() -> None:
    assert len(set(NAMES)) == len(NAMES) == 9
    for name in NAMES:
        assert callable(importlib.import_module(f"dashboard.app.views.{name}").render)


@pytest.mark.parametrize("page", NAMES)
def test_a_rich_store_fills_every_page(page: str, open_page: OPEN, rich_store: Path) -> None:
    app = open_page(page, rich_store)
    assert len(app.dataframe) + len(charts_of(app)) + len(app.code) > 0
    assert not app.error or page in ("overview", "compare")


@pytest.mark.parametrize("page", NAMES)
def test_every_page_shows_something_for_a_public_suite(
    page: str, open_page: OPEN, public_store: Path
) -> None:
    app = open_page(page, public_store)
    assert app.dataframe or written(app) or charts_of(app) or app.info or app.success


@pytest.mark.parametrize("page", NAMES)
def test_every_page_of_an_empty_store_says_so(
    page: str, open_page: OPEN, empty_store: Path
) -> None:
    assert "store is empty" in words(open_page(page, empty_store))


@pytest.mark.parametrize("page", NAMES)
def test_every_page_of_a_single_commit_works(page: str, open_page: OPEN, one_commit: Path) -> None:
    app = open_page(page, one_commit)
    assert app.dataframe or written(app) or charts_of(app) or app.info or app.success


def test_compare_starts_at_the_latest_release_and_shows_one_series_in_full(
    open_page: OPEN, history_store: Path, history: Any
) -> None:
    app = open_page("compare", history_store)
    assert [box.value for box in app.selectbox] == [history.commits[0], history.commits[-1]]
    assert any("mark" in str(chart) and "sample" in str(chart) for chart in charts_of(app))
    assert "asv run --interleave-rounds" in app.code[0].value
    assert history.commits[-1] in app.code[0].value


def test_compare_takes_its_commits_from_the_address(
    open_page: OPEN, history_store: Path, history: Any
) -> None:
    first, second = history.commits[1], history.commits[2]
    app = open_page("compare", history_store, base=first[:12], head=second[:12])
    assert [box.value for box in app.selectbox] == [first, second]
    same = open_page("compare", history_store, base=first[:12], head=first[:12])
    assert "same commit" in words(same)


def test_choosing_a_commit_puts_it_into_the_address(
    open_page: OPEN, history_store: Path, history: Any
) -> None:
    app = open_page("compare", history_store)
    app.selectbox[0].select(history.commits[2]).run()
    assert not app.exception
    assert app.query_params["base"] == history.commits[2][:12]
    assert app.selectbox[0].value == history.commits[2]


def test_two_machines_are_compared_at_a_common_commit(
    open_page: OPEN,
    tmp_path: Path,
    make_history: Callable[..., Any],
    recipe: Callable[..., Any],
) -> None:
    results = tmp_path / "results"
    make_history(results, recipe(machine="fast"))
    slower = {("forward.Forward.track_time", 0): 2.0}
    make_history(results, recipe(machine="slow", factors=slower))
    ingest(tmp_path / "two.duckdb", results)
    place = "synthetic-py3.12-gpu"
    app = open_page(
        "compare", tmp_path / "two.duckdb", mode="machines", runner=f"fast · {place}",
        other=f"slow · {place}",
    )  # fmt: skip
    table = app.dataframe[0].value
    ratios = table[table["Benchmark"] == "Forward"]["Ratio"]
    assert list(ratios) == pytest.approx([2.0, 2.0], rel=0.02)
    assert len(table) == 6


def test_layouts_unfold_the_local_shapes(open_page: OPEN, rich_store: Path) -> None:
    app = open_page("layouts", rich_store, benchmark="forward_entropy", model="model-00")
    titles = [chart["title"]["text"] for chart in charts_of(app)]
    assert "262,144 tokens in all" in titles
    assert "72 layouts from 31 measured local shapes" in words(app)


def test_layouts_of_few_shapes_are_one_map_of_all_models(
    open_page: OPEN, history_store: Path
) -> None:
    app = open_page("layouts", history_store)
    assert len(charts_of(app)) == 1
    assert "2 local shapes of all models" in words(app)
    assert "asv_benchmarks.tiers full" in app.code[0].value


def test_tuning_shows_costs_and_the_change_of_schedule(open_page: OPEN, rich_store: Path) -> None:
    app = open_page("tuning", rich_store)
    titles = [chart["title"]["text"] for chart in charts_of(app)]
    assert "First call, no cache" in titles
    assert "Registers a thread" not in titles
    figures, letters, changed = written(app)
    assert list(figures["Figure"]) == [
        "First call, no cache", "First call, cache on disk", "Kernels compiled",
        "Registers a thread", "Registers spilled",
    ]  # fmt: skip
    assert list(letters[""]) == ["A", "B", "C"]
    assert list(changed["Subject"]) == ["Synthetic change 5"]
    assert changed["Change"].iloc[0] == "tile 256×128×64 → 128×256×64, group 8 → 16"  # noqa: RUF001


def test_tuning_without_compile_benchmarks_names_the_command(
    open_page: OPEN, history_store: Path
) -> None:
    app = open_page("tuning", history_store)
    assert "No compile benchmark" in words(app)
    assert "asv_benchmarks.tiers core --benchmarks compile" in app.code[0].value


def test_entropy_divides_two_passes_by_one(open_page: OPEN, rich_store: Path) -> None:
    app = open_page("entropy", rich_store)
    assert app.metric[0].label == "Median of 64 shapes"
    assert float(app.metric[0].value.rstrip("×")) == pytest.approx(1.06, abs=0.05)  # noqa: RUF001
    activities = charts_of(app)[-1]
    assert "73 % active" in json.dumps(activities)


def test_headlines_cite_the_reference_figures(open_page: OPEN, rich_store: Path) -> None:
    app = open_page("headlines", rich_store)
    tables = written(app)
    shown = "\n".join(frame.to_string() for frame in tables)
    assert "1.44" in shown
    assert "13.27 s" in shown
    assert "88 of 104" in shown
    assert "measured on an H100" in words(app)
    assert tables[0]["Geometric mean"].str.startswith("×").all()  # noqa: RUF001
    compiled = next(f for f in tables if "First call, no cache" in set(f.iloc[:, 0]))
    cold = compiled[compiled["Figure"] == "First call, no cache"].iloc[0]
    assert cold["Reference PRs (H100)"] == "13.27 s (cold, compile and tune)"


def test_a_planted_regression_is_open_with_commit_command_and_entry(
    open_page: OPEN, rich_store: Path, rich: ModuleType
) -> None:
    app = open_page("regressions", rich_store)
    counts = {metric.label: metric.value for metric in app.metric}
    assert counts == {"▲ open": "32", "✓ acknowledged": "0", "≠ explained": "0", "▼ fixed": "0"}
    assert f"Synthetic change {rich.SLOWER_FROM}" in words(app)
    assert f"synthetic author {rich.SLOWER_FROM % 7}" in words(app)
    assert app.code[0].value.startswith("printf")
    assert "[[acknowledged]]" in app.code[1].value
    assert links(app)[0].query_string.startswith("benchmark=forward_entropy&")


def test_the_overview_points_at_regressions_older_than_its_base(
    open_page: OPEN, rich_store: Path
) -> None:
    app = open_page("overview", rich_store)
    older = [link for link in links(app) if link.page == "regressions"]
    assert [link.label for link in older] == ["▲ 32 open regressions in the history"]
    assert "Noise: the rounds of head lie" in words(app)


def test_the_entry_to_copy_acknowledges_the_regression(
    open_page: OPEN, rich_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = open_page("regressions", rich_store).code[1].value
    (tmp_path / "accepted.toml").write_text(copied, "utf-8")
    settings = '[tool.lmhead-perf]\nacknowledged = "accepted.toml"\n'
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    monkeypatch.chdir(tmp_path)
    app = open_page("regressions", rich_store)
    counts = {metric.label: metric.value for metric in app.metric}
    assert (counts["▲ open"], counts["✓ acknowledged"]) == ("0", "32")
    label = app.expander[0].label.replace("\\", "")
    assert label.startswith("✓ acknowledged: +15")
    commit = label.split(" at ")[1].split()[0]
    opened = open_page("regressions", rich_store, **{f"worse_acknowledged_{commit}": "true"})
    assert "why this is accepted (your name)" in words(opened)


def test_data_names_rejected_files(open_page: OPEN, rich_store: Path) -> None:
    app = open_page("data", rich_store)
    assert "1 file rejected" in words(app)
    troubled, files, machines = written(app)
    assert troubled["Reason"].iloc[0] == "not JSON: synthetic"
    assert files["Files"].str.fullmatch(r"[\d,]+").all()
    assert list(machines["Machine"]) == ["synthetic"]
    assert not app.dataframe
    assert len(open_page("data", rich_store, log="true", spreads="true").dataframe) == 2
    assert {metric.label: metric.value for metric in app.metric}["Series"] == "333"


def test_trends_mark_other_conditions_and_changes_of_level(
    open_page: OPEN, rich_store: Path
) -> None:
    app = open_page(
        "trends", rich_store, benchmark="forward_entropy", model="model-00", tokens="8192", tp="1"
    )
    (chart,) = charts_of(app)
    glyphs = {
        layer["mark"].get("text") for layer in chart["layer"] if layer["mark"]["type"] == "text"
    }
    assert "◆" in glyphs
    told = {text for data in charted(app) for column in data for text in data[column].astype(str)}
    assert "driver 1.0 → 2.0" in told
    assert "▲" in told


def test_a_point_of_the_address_is_shown_in_full(
    open_page: OPEN, history_store: Path, history: Any
) -> None:
    with open_store(history_store) as store:
        number, name = store.connection.execute(
            "SELECT series_id, label FROM series WHERE family = 'forward_entropy' LIMIT 1"
        ).fetchall()[0]
    app = open_page("trends", history_store, point=f"{number}@{history.commits[2]}")
    assert "Synthetic change 2" in words(app)
    assert "the point before" in words(app)
    command = app.code[0].value
    assert history.commits[1] in command
    assert history.commits[2] in command
    assert name.split("(")[0].replace(".", r"\.") in command
    app.button(key="close_point").click().run()
    assert not app.exception
    assert "the point before" not in words(app)


def test_a_search_leaves_what_has_all_its_words(open_page: OPEN, rich_store: Path) -> None:
    app = open_page("overview", rich_store, find="model-01 backward")
    table = app.dataframe[0].value
    assert len(table)
    assert set(table["Model"]) == {"model-01"}
    assert table["Benchmark"].str.contains("backward").all()
    none = open_page("overview", rich_store, find="nothing-of-that-name")
    assert "No series has all these words" in words(none)


def test_many_commits_are_thinned_unless_few_are_chosen(
    open_page: OPEN, tmp_path: Path, rich: ModuleType
) -> None:
    store = tmp_path / "long.duckdb"
    rich._large_store().write_large_store(store, commits=300, series=5)
    short = open_page("trends", store, benchmark="forward")
    assert "over 50 measured commits" in words(short)
    everything = open_page("trends", store, benchmark="forward", commits="all")
    assert "lowest and highest" in words(everything)
    assert 60 < max(len(data) for data in charted(everything)) <= 122


def test_a_change_of_an_exact_figure_is_told_however_small(
    open_page: OPEN,
    make_history: Callable[..., Any],
    recipe: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.lmhead-perf]\nexact = ["*"]\n')
    monkeypatch.chdir(tmp_path)
    slower = {("forward.Forward.track_time", 2): 1.0001}
    made = make_history(tmp_path / "results", recipe(commits=4, noise=0.0, factors=slower))
    ingest(tmp_path / "s.duckdb", made.results)
    app = open_page("regressions", tmp_path / "s.duckdb")
    told = " ".join(box.label for box in app.expander).replace("\\", "")
    assert "+0.01 %" in told
    assert "±0.0 %" not in told
