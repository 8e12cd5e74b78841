"""Both pages in a real browser, over a synthetic history."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.browser

CHART = "[data-testid='stVegaLiteChart']"
EXCEPTION = "[data-testid='stException']"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("name", "path"), [("overview", ""), ("trends", "trends")])
def test_a_page_is_drawn_without_an_exception(
    name: str,
    path: str,
    theme: str,
    tools: ModuleType,
    browser: Any,
    address: str,
    screenshots: Path,
) -> None:
    page = tools.open_page(browser, f"{address}/{path}", theme)
    assert page.locator(EXCEPTION).count() == 0
    assert page.locator("h2").first.inner_text().lower() == name
    # Vega has drawn marks, not just made room for a chart.
    page.locator(f"{CHART} svg path, {CHART} canvas").first.wait_for(
        state="attached", timeout=20_000
    )
    target = screenshots / f"{name}-{theme}.png"
    tools.whole_page(page, target)
    assert target.stat().st_size > 10_000
    page.close()


def test_a_filter_changes_the_charts_and_the_address(
    tools: ModuleType, browser: Any, address: str
) -> None:
    page = tools.open_page(browser, f"{address}/trends")
    page.locator(CHART).nth(1).wait_for(timeout=20_000)
    assert page.locator(CHART).count() == 2
    page.get_by_label("Model").click()
    page.get_by_role("option", name="qwen3.6-35b").click()
    page.locator(CHART).nth(1).wait_for(state="detached", timeout=20_000)
    assert page.locator(CHART).count() == 1
    assert "model=qwen3.6-35b" in page.url
    page.get_by_text("absolute", exact=True).click()
    page.wait_for_url("**show=absolute**", timeout=20_000)
    tools.settle(page)

    again = tools.open_page(browser, page.url)
    again.locator(CHART).first.wait_for(timeout=20_000)
    assert again.locator(CHART).count() == 1
    assert "Values as measured" in again.locator("[data-testid='stMain']").inner_text()
    assert again.locator(EXCEPTION).count() == 0
    again.close()
    page.close()


def test_a_point_tells_its_commit_under_the_mouse(
    tools: ModuleType, browser: Any, address: str
) -> None:
    page = tools.open_page(browser, f"{address}/trends?model=nemotron-super")
    page.locator(f"{CHART} :is(svg.marks, canvas.marks)").first.wait_for(timeout=20_000)
    box = page.locator(CHART).first.bounding_box()
    tooltip = page.locator("#vg-tooltip-element.visible")
    # The last of four commits stands at about nine tenths of the width; its height is found.
    for share in (0.80, 0.82, 0.84, 0.86, 0.88, 0.90):
        for step in range(3, 80):
            x, y = box["x"] + share * box["width"], box["y"] + step / 100 * box["height"]
            page.mouse.move(x, y)
            if tooltip.count():
                break
        if tooltip.count():
            break
    text = tooltip.inner_text()
    assert "Synthetic change 3" in text
    assert "1,980 MHz" in text
    page.close()
