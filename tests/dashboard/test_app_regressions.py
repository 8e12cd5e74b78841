"""The Regressions page: what is credited to a commit, and that every change leads to its step.

Synthetic histories and invented changes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from app_pages import links, words
from streamlit.testing.v1 import AppTest

from dashboard.app import judged, regressions
from dashboard.app.regressions import State
from dashboard.history import Change, HistoryReport
from dashboard.models import Commit, Series
from dashboard.store.ingest import ingest
from dashboard.verdicts.changes import Found
from dashboard.verdicts.reports.changes import changes_text

OPEN = Callable[..., AppTest]
FORWARD, CONTROL = "forward.Forward.track_time", "control.Control.track_time"
COMMITS = [
    Commit(f"{place}" * 40, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=place),
           subject=f"Invented {place}", author="nobody", position=place)
    for place in range(6)
]  # fmt: skip


def changed(
    name: str, ratio: float, *, after: int, first: int, explained: str | None = None
) -> Change:
    """An invented change of series ``name`` after one commit, complete at another."""
    series = Series(name, (), "synthetic", "e", "ms")
    worse = ratio > 1
    found = Found(
        series, after, first, after, first, ratio, ratio - 0.01, ratio + 0.01, None, worse, 2,
        False, explained,
    )  # fmt: skip
    suspects = tuple(COMMITS[after + 1 : first + 1])
    return Change(found, COMMITS[after], COMMITS[first], suspects)


def report(*changes: Change) -> HistoryReport:
    return HistoryReport(COMMITS[-1], len(COMMITS), len(changes), changes)


def test_what_something_else_explains_is_credited_to_no_commit() -> None:
    card = "GPU card GPU-a → GPU-b"
    found = regressions.improvements(
        report(
            changed("forward", 0.9, after=2, first=3),
            changed("bandwidth", 0.976, after=2, first=3, explained=card),
        )
    )
    assert [(group.state, len(group.changes)) for group in found] == [
        (State.IMPROVED, 1), (State.EXPLAINED, 1),
    ]  # fmt: skip
    assert found[0].changes[0].series.benchmark == "forward"


def test_every_commit_in_question_is_counted_as_the_command_line_does() -> None:
    told = report(changed("one", 0.7, after=3, first=5), changed("other", 0.9, after=1, first=5))
    (group,) = regressions.improvements(told)
    assert [commit.position for commit in group.suspects] == [2, 3, 4, 5]
    assert f"{len(group.suspects)} suspects" in changes_text(told)


@pytest.mark.parametrize("ratios", [(0.9, 0.5, 0.99), (1.1, 1.5, 1.05)])
def test_the_largest_change_comes_first(ratios: tuple[float, ...]) -> None:
    told = report(*(changed(str(r), r, after=0, first=1) for r in ratios))
    (group,) = regressions.groups(told) or regressions.improvements(told)
    assert group.largest == ratios[1]
    assert [change.found.ratio for change in group.changes] == [ratios[1], ratios[0], ratios[2]]


def test_only_open_regressions_are_told_apart_by_the_commit_before() -> None:
    slower = [changed(name, 1.2, after=after, first=3) for name, after in (("a", 0), ("b", 2))]
    assert [group.state for group in regressions.groups(report(*slower))] == [State.OPEN] * 2
    back = [changed(name, 1 / 1.2, after=4, first=5) for name in ("a", "b")]
    (group,) = regressions.groups(report(*slower, *back))
    assert (group.state, len(group.changes)) == (State.FIXED, 2)


@pytest.fixture
def turned(tmp_path: Path, make_history: Callable[..., Any], recipe: Callable[..., Any]) -> Any:
    """Slower for some commits, then as before; another benchmark faster for good."""
    entropy = "entropy.ForwardEntropy.track_time"
    factors = {(FORWARD, 3): 1.2, (FORWARD, 7): 1 / 1.2, (entropy, 4): 0.8}
    made = make_history(tmp_path / "results", recipe(commits=12, factors=factors))
    ingest(tmp_path / "store.duckdb", made.results)
    return made


def test_what_was_fixed_or_gained_names_and_links_its_series(open_page: OPEN, turned: Any) -> None:
    store = turned.results.parent / "store.duckdb"
    fixed, gained = (turned.commits[place][:7] for place in (3, 4))
    closed = open_page("regressions", store)
    labels = [box.label.replace("\\", "") for box in closed.expander]
    assert labels[0].startswith("▼ fixed: +2"), labels
    assert labels[0].endswith(f"in Forward and 1 more series at {fixed} Synthetic change 3")
    assert any(f"in Forward + entropy and 1 more series at {gained}" in label for label in labels)
    assert not links(closed), "a closed box costs nothing"
    asked = {f"worse_fixed_{fixed}": "true", f"better_improved_{gained}": "true"}
    app = open_page("regressions", store, **asked)
    told = [link.label.replace("\\", "") for link in links(app)]
    assert [label.split(",")[0] for label in told] == ["Forward"] * 2 + ["Forward + entropy"] * 2
    points = [link.query_string.split("point=")[1] for link in links(app)]
    commits = [turned.commits[3]] * 2 + [turned.commits[4]] * 2
    assert [point.rpartition("%40")[2] for point in points] == commits
    assert "Made by" in words(app)


def test_what_is_explained_says_by_what(
    open_page: OPEN, tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    faster = {(name, 3): 0.9 for name in (FORWARD, CONTROL)}
    made = make_history(tmp_path / "results", recipe(commits=7, factors=faster))
    ingest(tmp_path / "store.duckdb", made.results)
    asked = {f"better_explained_{made.commits[3][:7]}": "true"}
    app = open_page("regressions", tmp_path / "store.duckdb", **asked)
    (label,) = (box.label.replace("\\", "") for box in app.expander)
    assert label.startswith("≠ explained: −10")  # noqa: RUF001
    assert "no commit changes its code" in words(app)
    assert "Made by" not in words(app)


def test_a_history_is_as_large_as_what_was_measured_of_it(
    open_page: OPEN,
    tmp_path: Path,
    make_history: Callable[..., Any],
    recipe: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sweep at one commit makes a history wide, not large."""
    made = make_history(tmp_path / "results", recipe(commits=6))
    for place in range(5):
        made.keep_only(place, [FORWARD])
    ingest(tmp_path / "s.duckdb", made.results)
    measured = 5 * 2 + 6
    monkeypatch.setattr(judged, "_QUICK_POINTS", measured)
    assert not open_page("regressions", tmp_path / "s.duckdb").toggle
    monkeypatch.setattr(judged, "_QUICK_POINTS", measured - 1)
    assert len(open_page("regressions", tmp_path / "s.duckdb").toggle) == 1
