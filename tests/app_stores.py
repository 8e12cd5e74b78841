"""Fixtures of the tests of the app's pages: stores of synthetic and foreign results, and a page on
one. ``dashboard/conftest.py`` has them for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from app_pages import run_page
from streamlit.testing.v1 import AppTest

from dashboard.store.ingest import ingest

_FORWARD = "forward.Forward.track_time"


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Run a page on a store, with query parameters if any; fails on an exception box."""
    return partial(run_page, monkeypatch)


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


@pytest.fixture
def two_machines(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Callable[..., Any]
) -> Path:
    """The same commits on two machines; only `fast` regressed, `slow` has no second commit."""
    results = tmp_path / "results"
    make_history(results, recipe(machine="fast", factors={(_FORWARD, 3): 1.2}))
    make_history(results, recipe(machine="slow", commits=1))
    make_history(results, recipe(machine="fast", factors={(_FORWARD, 3): 1.2}))
    ingest(tmp_path / "store.duckdb", results)
    return tmp_path / "store.duckdb"
