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
    named = CliRunner().invoke(app, ["headlines", "--store", store, "--commit", made.commits[3]])
    assert named.stdout.startswith(f"{made.commits[3][:8]} measured on")
    assert wording.NEWER_HAVE_FEWER not in named.stdout
    report = CliRunner().invoke(app, ["headlines", "--store", store, "--format", "json"])
    assert json.loads(report.stdout)["commit"] == made.commits[2]


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
