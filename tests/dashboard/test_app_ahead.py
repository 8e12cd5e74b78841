"""What is computed before anybody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from app_pages import charts_of, run_page

from dashboard.app import ahead, data, judged
from dashboard.store import open_store
from dashboard.store.ingest import ingest

WAIT_S = 60


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Base and head of each comparison that is really made, from here on."""
    st.cache_data.clear()
    st.cache_resource.clear()
    made: list[tuple[str, str]] = []
    check = judged.check

    def noted(*arguments: Any, **options: Any) -> Any:
        made.append((options["base"], options["head"]))
        return check(*arguments, **options)

    monkeypatch.setattr(judged, "check", noted)
    return made


def test_compare_finds_its_first_comparison_made(
    history_store: Path,
    history: Any,
    compared: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = data.source(str(history_store))
    ahead.comparison(at).result(timeout=WAIT_S)
    assert compared == [(history.commits[0], history.commits[-1])]
    assert charts_of(run_page(monkeypatch, "compare", history_store))
    assert len(compared) == 1


def test_each_state_of_a_store_is_compared_once(
    history_store: Path, compared: list[tuple[str, str]]
) -> None:
    at = data.source(str(history_store))
    for _ in range(3):
        ahead.comparison(at).result(timeout=WAIT_S)
    assert len(compared) == 1


def test_a_store_with_nothing_to_compare_is_left_alone(
    tmp_path: Path,
    make_history: Callable[..., Any],
    recipe: Callable[..., Any],
    compared: list[tuple[str, str]],
) -> None:
    open_store(tmp_path / "empty.duckdb", read_only=False).close()
    ingest(tmp_path / "one.duckdb", make_history(tmp_path / "one", recipe(commits=1)).results)
    for name in ("empty.duckdb", "one.duckdb"):
        ahead.comparison(data.source(str(tmp_path / name))).result(timeout=WAIT_S)
    assert not compared
