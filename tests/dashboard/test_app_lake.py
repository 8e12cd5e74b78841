"""Pages on a DuckLake of this machine; skipped where its extensions are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from app_pages import charts_of, run_page, script, words

from dashboard.app import data
from dashboard.store import maintenance
from dashboard.store.ingest import ingest

servers = script("lake_servers")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, history: Any) -> Iterator[str]:
    """The address of a lake with the synthetic history, its catalogue in a server of its own."""
    for extension in ("ducklake", "postgres_scanner"):
        package = pytest.importorskip(f"duckdb_extension_{extension}")
        if not (Path(package.__path__[0]) / "extensions" / f"v{duckdb.__version__}").is_dir():
            pytest.skip(f"{extension} is packaged for another version than {duckdb.__version__}")
    programs = servers.postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with servers.postgres(programs) as folder:
        address = str(servers.create_database(programs, folder, "app"))
        maintenance.initialize(address, str(tmp_path_factory.mktemp("lake")))
        ingest(address, history.results)
        yield address


@pytest.mark.parametrize("page", ["overview", "trends", "compare", "tuning", "data"])
def test_a_page_of_a_lake_shows_something(
    page: str, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = run_page(monkeypatch, page, lake)
    assert app.dataframe or charts_of(app) or app.info or app.success
    assert "cannot be read" not in words(app)


def test_new_data_of_a_lake_appears(
    lake: str, history: Any, tmp_path: Path, make_history: Any, recipe: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    app = run_page(monkeypatch, "trends", lake, numbers="true")
    assert app.dataframe[0].value.shape == (2, 2 + 4)
    ingest(lake, make_history(tmp_path / "more", recipe(commits=2, seed=7)).results)
    app.run()
    assert app.dataframe[0].value.shape == (2, 2 + 6)


def test_a_run_of_a_page_opens_the_store_once(
    history_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    monkeypatch.setattr(data, "open_store", partial(_noting, opened, data.open_store))
    at = data.source(str(history_store))
    with data.one_opening():
        with data.reading(at) as first:
            pass
        with data.reading(at) as second:
            assert second is first
    assert len(opened) == 1
    with pytest.raises(duckdb.Error):
        first.connection.execute("SELECT 1")


def _noting(seen: list[Any], opening: Any, *arguments: Any, **options: Any) -> Any:
    seen.append(arguments)
    return opening(*arguments, **options)
