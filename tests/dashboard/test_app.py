"""The app and its store, by Streamlit's AppTest: none, a bad one, one that goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from app_pages import words
from streamlit.testing.v1 import AppTest

from dashboard.app import ahead, data
from dashboard.errors import InputError
from dashboard.serve import STORE_VARIABLE
from dashboard.store import open_store

OPEN = Callable[..., AppTest]
FORWARD = "forward.Forward.track_time"

PAGES = ("overview", "trends")


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
