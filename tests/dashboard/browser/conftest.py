"""A browser and a served app for the tests here; skipped where either cannot be had."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dashboard.store.ingest import ingest

SCREENSHOTS_VARIABLE = "LMHEAD_PERF_SCREENSHOTS"
"""Names a folder that keeps the screenshots of a test run."""


@pytest.fixture(scope="session")
def tools() -> ModuleType:
    """The functions of ``screenshot.py``, a script beside this file."""
    pytest.importorskip("playwright.sync_api")
    location = Path(__file__).with_name("screenshot.py")
    spec = importlib.util.spec_from_file_location("app_screenshots", location)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser(tools: ModuleType) -> Iterator[Any]:
    """A headless Chromium of this machine."""
    executable = tools.chromium()
    if executable is None:
        pytest.skip("no Chromium on this machine; name one by $CHROMIUM")
    with tools.browsing(executable) as opened:
        yield opened


@pytest.fixture(scope="session")
def address(tools: ModuleType, history_store: Path) -> Iterator[str]:
    """The app, served over the synthetic history."""
    with tools.serving(history_store) as served:
        yield served


@pytest.fixture(scope="session")
def rich_address(tools: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app, served over the synthetic store that has everything the pages show."""
    location = Path(__file__).parents[1] / "rich_store.py"
    spec = importlib.util.spec_from_file_location("rich_store", location)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = tmp_path_factory.mktemp("rich") / "rich.duckdb"
    module.write_rich_store(path)
    with tools.serving(path) as served:
        yield served


@pytest.fixture(scope="session")
def two_machines_served(
    tools: ModuleType,
    tmp_path_factory: pytest.TempPathFactory,
    make_history: Callable[..., Any],
    recipe: Callable[..., Any],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The app over two synthetic machines, and the commits of the one that measured first."""
    folder: Path = tmp_path_factory.mktemp("two")
    older = make_history(folder / "results", recipe(machine="older"))
    make_history(folder / "results", recipe(machine="newer", seed=1, commits=5))
    ingest(folder / "two.duckdb", folder / "results")
    with tools.serving(folder / "two.duckdb") as served:
        yield served, older.commits


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """Where screenshots go."""
    return Path(os.environ.get(SCREENSHOTS_VARIABLE) or tmp_path)
