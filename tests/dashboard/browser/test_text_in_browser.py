"""What a real browser makes of text from the store, and of a narrow window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

pytestmark = pytest.mark.browser

HOSTILE = (
    "http://evil.example/?q=1 www.evil.example me@evil.example :material/skull: :smile: "
    "a -> b -- c :red[d] <b>e</b>"
)
NARROW = 400


@pytest.fixture(scope="module")
def hostile_address(
    tools: ModuleType, history_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The app over the synthetic history, whose commits have a hostile subject and author."""
    path = tmp_path_factory.mktemp("hostile") / "store.duckdb"
    shutil.copy(history_store, path)
    with duckdb.connect(str(path)) as store:
        store.execute("UPDATE commit_info SET subject = $text, author = $text", {"text": HOSTILE})
    with tools.serving(path) as served:
        yield served


def test_text_of_the_store_is_no_link_no_icon_and_no_markup(
    tools: ModuleType, browser: Any, hostile_address: str
) -> None:
    page = tools.open_page(browser, hostile_address)
    main = page.locator("[data-testid='stMain']")
    assert HOSTILE in main.inner_text().replace("\N{WORD JOINER}", "")
    assert main.locator("a[href*='evil'], a[href^='mailto']").count() == 0
    assert main.locator("[data-testid='stIconMaterial']", has_text="skull").count() == 0
    page.close()


@pytest.mark.parametrize("name", ["compare", "data", "entropy", "headlines", "tuning"])
def test_a_narrow_window_has_no_wider_page(
    name: str, tools: ModuleType, browser: Any, rich_address: str
) -> None:
    page = tools.open_page(browser, f"{rich_address}/{tools.PAGES[name]}")
    page.set_viewport_size({"width": NARROW, "height": 900})
    page.wait_for_timeout(500)
    main = page.locator("[data-testid='stMain']")
    assert main.evaluate("element => element.scrollWidth") == NARROW
    page.close()
