"""The Overview, by Streamlit's AppTest: the newest commit, and two that its address names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from app_pages import charts_of, run_page, words
from streamlit.testing.v1 import AppTest

from dashboard.app import state, wording

OPEN = Callable[..., AppTest]
FORWARD = "forward.Forward.track_time"


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


def test_overview_of_another_suite_has_no_columns_of_ours(
    open_page: OPEN, foreign_store: Path
) -> None:
    app = open_page("overview", foreign_store)
    columns = set(app.dataframe[0].value.columns)
    assert "Parameters" in columns
    assert not {"Model", "Tokens", "TP"} & columns
    told = "".join(str(block.value) for block in [*app.markdown, *app.caption, *app.info])
    assert "<b>" not in told.replace("\\<b\\>", "")


def test_each_machine_has_its_own_overview(open_page: OPEN, two_machines: Path) -> None:
    app = open_page("overview", two_machines)
    assert app.selectbox(key=state.RUNNER).value == "fast"
    assert "2 of 6 series regressed" in app.error[0].value
    assert set(app.dataframe[-1].value["Machine"]) == {"fast", "slow"}
    other = app.selectbox(key=state.RUNNER).select("slow").run()
    assert not other.exception
    assert "nothing to compare" in other.info[0].value


def shown(app: Any, commit: str) -> bool:
    """Whether the page says of a commit that it is head or base."""
    return commit[:7] in words(app)


def test_the_address_can_name_both_commits(
    monkeypatch: pytest.MonkeyPatch, history: Any, history_store: Path
) -> None:
    first, second, *_, newest = history.commits
    app = run_page(monkeypatch, "overview", history_store, base=first[:8], head=second[:8])
    assert [shown(app, commit) for commit in (first, second, newest)] == [True, True, False]
    lines = [line for line in words(app).splitlines() if line.startswith(("Head", "Base"))]
    assert [(line[:4], second[:7] in line, first[:7] in line) for line in lines[:2]] == [
        ("Head", True, False),
        ("Base", False, True),
    ]
    assert "nearest measured ancestor" not in words(app), "nobody chose"
    assert "The address" not in words(app)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"head": 1}, "names head alone"),
        ({"base": 0}, "names base alone"),
        ({"base": 0, "head": "beef" * 3}, f"names head {'beef' * 3}, which is no commit"),
    ],
)
def test_else_the_newest_commit_is_shown(
    query: dict[str, Any],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    history: Any,
    history_store: Path,
) -> None:
    named = {k: history.commits[v][:8] if isinstance(v, int) else v for k, v in query.items()}
    app = run_page(monkeypatch, "overview", history_store, **named)
    assert shown(app, history.commits[-1])
    assert shown(app, history.commits[-2])
    assert told in words(app)


def test_of_commits_that_an_address_fits_the_newest_is_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commits: Any = [SimpleNamespace(hash=digits) for digits in ("abcd1", "abcd2", "ffff3")]
    monkeypatch.setattr(state.st, "query_params", {"head": "abcd", "base": "abc"})
    assert state.named_commit(commits, "head") == "abcd2"
    assert state.named_commit(commits, "base") is None, "too short to name one"
    assert state.named_commit(commits, "other") is None
