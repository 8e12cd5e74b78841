"""Pages of shapes show the newest sweep, not the tier of a newer commit. Synthetic histories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from app_pages import run_page, words
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from dashboard.app import data, judged, wording
from dashboard.cli import app
from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest

FEW = ("control.Control.track_time", "entropy.ForwardEntropy.track_time")


@pytest.fixture
def made(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> Any:
    return make_history(tmp_path / "results", recipe())


def store_of(made: Any) -> Path:
    path: Path = made.results.parent / "s.duckdb"
    ingest(path, made.results)
    return path


def default_of(store: Path) -> str | None:
    with open_store(store) as opened:
        return queries.most_measured(opened, "synthetic")


def test_the_newest_of_those_with_most_series_counts(made: Any) -> None:
    assert default_of(store_of(made)) == made.commits[3]
    made.keep_only(3, FEW)
    assert default_of(store_of(made)) == made.commits[2]
    made.keep_only(2, FEW)
    assert default_of(store_of(made)) == made.commits[1]


def rewritten(made: Any, index: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change asv's results of one commit."""
    path = made.result_file(index)
    document = json.loads(path.read_text("utf-8"))
    change(document["results"])
    path.write_text(json.dumps(document), "utf-8")


def test_a_sweep_of_nearly_all_counts_and_what_failed_was_measured(made: Any) -> None:
    # Eleven benchmarks of two series each.
    for index in range(4):
        rewritten(
            made,
            index,
            lambda rows: rows.update({f"more.More{n}.track_time": rows[FEW[0]] for n in range(8)}),
        )
    rewritten(made, 3, lambda rows: rows.pop("more.More0.track_time"))
    assert default_of(store_of(made)) == made.commits[3], "ten of eleven"
    rewritten(
        made,
        3,
        lambda rows: rows.update({f"more.More{n}.track_time": failing(rows) for n in range(1, 8)}),
    )
    assert default_of(store_of(made)) == made.commits[3], "most of which failed"
    rewritten(made, 3, lambda rows: [rows.pop(f"more.More{n}.track_time") for n in range(1, 8)])
    assert default_of(store_of(made)) == made.commits[2]


def failing(rows: dict[str, Any]) -> list[Any]:
    """asv's row of a benchmark that failed."""
    return [None, *rows[FEW[0]][1:5]]


def test_two_environments_make_no_sweep(
    made: Any, make_history: Callable[..., Any], recipe: Any
) -> None:
    make_history(
        made.results,
        recipe(hashes=made.commits[:2], environment="synthetic-py3.13-gpu", commits_file=False),
    )
    assert default_of(store_of(made)) == made.commits[3]


def test_a_suite_that_shrank_long_ago_is_forgotten(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=53))
    for index in range(2, 53):
        made.keep_only(index, FEW)
    assert default_of(store_of(made)) == made.commits[52]


def test_commits_known_by_their_date_alone_are_no_newer(made: Any) -> None:
    lines = (made.results / "commits.jsonl").read_text("utf-8").splitlines(keepends=True)
    (made.results / "commits.jsonl").write_text("".join(lines[:3]), "utf-8")
    assert default_of(store_of(made)) == made.commits[2]


def chosen(page: AppTest) -> str:
    (box,) = [box for box in page.selectbox if box.label == "Commit"]
    return str(box.value)


@pytest.mark.parametrize("page", ["headlines", "layouts", "entropy"])
def test_pages_of_shapes_start_there_and_say_so(
    page: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = run_page(monkeypatch, page, store_of(made))
    assert chosen(shown) == made.commits[3]
    assert wording.NEWER_HAVE_FEWER not in words(shown)
    made.keep_only(3, FEW)
    shown = run_page(monkeypatch, page, store_of(made))
    assert chosen(shown) == made.commits[2]
    assert wording.NEWER_HAVE_FEWER in words(shown)


def test_the_command_starts_there_too(made: Any) -> None:
    made.keep_only(3, FEW)
    store = str(store_of(made))
    text = CliRunner().invoke(app, ["headlines", "--store", store]).stdout
    assert text.startswith(f"{made.commits[2][:8]} measured on")
    assert wording.NEWER_HAVE_FEWER in text.splitlines()[0]
    for commit in (made.commits[3], made.commits[1]):
        named = CliRunner().invoke(app, ["headlines", "--store", store, "--commit", commit])
        assert named.stdout.startswith(f"{commit[:8]} measured on")
        assert wording.NEWER_HAVE_FEWER not in named.stdout
    report = CliRunner().invoke(app, ["headlines", "--store", store, "--format", "json"])
    found = json.loads(report.stdout)
    assert (found["commit"], found["newer"]) == (made.commits[2], True)


def test_the_remark_is_of_the_choice_and_not_of_older_commits(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.keep_only(3, FEW)
    shown = run_page(monkeypatch, "headlines", store_of(made), head=made.commits[1][:8])
    assert chosen(shown) == made.commits[1]
    assert wording.NEWER_HAVE_FEWER not in words(shown)


def test_without_a_release_compare_starts_with_what_the_overview_compares(made: Any) -> None:
    made.measured_by(1, "turns")
    made.measured_by(3, "turns")
    (made.results / "commits.jsonl").write_text(
        "".join(
            json.dumps(json.loads(line) | {"tags": []}) + "\n"
            for line in (made.results / "commits.jsonl").read_text("utf-8").splitlines()
        ),
        "utf-8",
    )
    at = data.source(str(store_of(made)))
    assert judged.default_pair(at, "synthetic") == (made.commits[1], made.commits[3])


def test_compare_starts_at_the_latest_release(made: Any) -> None:
    lines = [
        json.loads(line) | {"tags": ["v"] if number < 2 else []}
        for number, line in enumerate(
            (made.results / "commits.jsonl").read_text("utf-8").splitlines()
        )
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (made.results / "commits.jsonl").write_text(text, "utf-8")
    at = data.source(str(store_of(made)))
    assert judged.default_pair(at, "synthetic") == (made.commits[1], made.commits[3])
