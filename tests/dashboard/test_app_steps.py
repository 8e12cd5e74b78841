"""What stands beside a number on the pages: its reasons, its rival, who accepted it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from app_pages import charts_of, links, words, written
from streamlit.testing.v1 import AppTest

from dashboard.app import wording
from dashboard.store import open_store
from dashboard.store.ingest import ingest

OPEN = Callable[..., AppTest]


def test_activities_of_one_shape_are_told_apart(open_page: OPEN, rich_store: Path) -> None:
    app = open_page("trends", rich_store, benchmark="two_pass_backward", show="absolute")
    assert [chart["title"]["text"].rsplit(" · ", 1)[1] for chart in charts_of(app)] == [
        "100 % active", "23 % active", "73 % active",
    ]  # fmt: skip


def test_trends_relate_to_a_commit_of_the_address(
    open_page: OPEN, history_store: Path, history: Any
) -> None:
    app = open_page(
        "trends",
        history_store,
        show="relative to commit",
        against=history.commits[1][:12],
        numbers="true",
    )
    assert app.selectbox[0].value == history.commits[1]
    shown = app.dataframe[0].value
    one = f"{wording.TIMES}1.000"
    assert (shown[history.commits[1][:7]] == one).all()
    assert not (shown == one).all().all()


def test_the_numbers_of_the_trends_wait_until_they_are_opened(
    open_page: OPEN, history_store: Path
) -> None:
    closed = open_page("trends", history_store)
    assert not closed.dataframe
    assert [box.label for box in closed.expander] == ["The numbers as a table"]
    assert len(open_page("trends", history_store, numbers="true").dataframe) == 1


def test_one_table_of_the_trends_at_a_time(open_page: OPEN, history_store: Path) -> None:
    app = open_page("trends", history_store, table="every point")
    assert len(app.dataframe) == 1
    assert {"SM clock", "Versions", "Measured"} <= set(app.dataframe[0].value.columns)


def test_a_step_has_its_reasons_beside_it(
    open_page: OPEN, rich_store: Path, rich: ModuleType
) -> None:
    with open_store(rich_store) as store:
        number, commit = store.connection.execute(
            """
            SELECT series_id, hash FROM series, commit_info
            WHERE family = 'forward_entropy' AND model = 'model-00' AND tokens = 8192 AND tp = 1
              AND position = $at
            """,
            {"at": rich.SLOWER_FROM},
        ).fetchall()[0]
    app = open_page(
        "trends", rich_store, benchmark="forward_entropy", model="model-00", tokens="8192", tp="1",
        point=f"{number}@{commit}",
    )  # fmt: skip
    why = app.dataframe[0].value.set_index("What")
    assert why.loc["Schedule", "Change"] == "none"
    registers = why.loc["Registers a thread (model-00 · 8,192 tokens · TP 1)"]
    assert list(registers[["Before", "Now"]]) == ["255 registers", "168 registers"]
    assert why.loc["Ratio to the control", "Change"].startswith("+1")
    assert why.loc["Control itself", "Change"] != wording.NONE


def test_two_schedules_are_compared_on_the_work_that_both_did(
    open_page: OPEN, rich_store: Path
) -> None:
    app = open_page(
        "compare", rich_store, mode="schedules", other_schedule=_tile(128, 256, 32, 8, 5),
        schedule=_tile(256, 128, 64, 8, 3),
    )  # fmt: skip
    table = app.dataframe[0].value
    # One fixed series stands against the chosen schedule of the same shape.
    assert list(table["Benchmark"]) == ["Forward + entropy"]
    assert table["Other"].iloc[0].startswith("20")
    again = open_page("compare", rich_store, mode="schedules")
    assert len(again.dataframe[0].value) > 50


def _tile(m: int, n: int, k: int, group: int, stages: int) -> str:
    sizes = wording.TIMES.join(map(str, (m, n, k)))
    return f"tile {sizes}, group {group}, warps 8, stages {stages}"


def test_an_acknowledged_regression_stays_visible_and_worries_nobody(
    open_page: OPEN,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_history: Callable[..., Any],
    recipe: Callable[..., Any],
) -> None:
    slower = {("forward.Forward.track_time", 3): 1.2}
    made = make_history(tmp_path / "results", recipe(factors=slower))
    ingest(tmp_path / "store.duckdb", made.results)
    entry = f"""
    [[acknowledged]]
    series = "forward.Forward.track_time"
    commit = "{made.commits[3][:12]}"
    reason = "needed for convergence"
    author = "Ada"
    """
    (tmp_path / "accepted.toml").write_text(entry, "utf-8")
    settings = '[tool.lmhead-perf]\nacknowledged = "accepted.toml"\n'
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    monkeypatch.chdir(tmp_path)
    app = open_page("overview", tmp_path / "store.duckdb")
    assert not app.error
    assert "No further regression in 6 series, 2 acknowledged" in words(app)
    counts = {metric.label.replace("\\", ""): metric.value for metric in app.metric}
    assert (counts["▲ regressed"], counts["✓ acknowledged"]) == ("2", "2")
    label = links(app)[0].label.replace("\\", "")
    assert label.endswith("✓ acknowledged by Ada: needed for convergence")
    assert app.dataframe[0].value["Because"].iloc[0].startswith("✓ acknowledged by Ada")


def test_a_link_to_a_family_of_several_benchmarks_opens_them_all(
    open_page: OPEN, rich_store: Path
) -> None:
    app = open_page("trends", rich_store, benchmark="compile", model="model-00", show="absolute")
    headings = [head.value.replace("\\", "") for head in app.subheader]
    assert headings[:3] == ["First call, no cache", "Kernels compiled", "Registers a thread"]
    assert len(charts_of(app)) == 5


def test_all_of_the_chosen_schedules_and_their_changes_can_be_saved(
    open_page: OPEN, rich_store: Path
) -> None:
    app = open_page("tuning", rich_store)
    changed = written(app)[-1]
    cut = int(changed["Series"].iloc[0].replace(",", "")) - 3
    assert changed["Which"].iloc[0].endswith(f"; and {cut} more")
    offered = [button.proto.id for button in app.get("download_button")]
    for name in ("schedules-chosen", "schedule-changes"):
        assert [f"{name} {kind}" in "".join(offered) for kind in ("csv", "parquet")] == [True] * 2
