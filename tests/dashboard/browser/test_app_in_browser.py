"""The app in a real browser, over synthetic histories."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.browser

CHART = "[data-testid='stVegaLiteChart']"
EXCEPTION = "[data-testid='stException']"
MAIN = "[data-testid='stMain']"
CODE = "[data-testid='stCode']"
HEADINGS = {
    "overview": "Overview",
    "trends": "Trends",
    "compare": "Compare",
    "layouts": "Layouts",
    "tuning": "Compile & tuning",
    "entropy": "Entropy",
    "headlines": "Headlines",
    "regressions": "Regressions",
    "data": "Data",
}
# Every page once, and the one with the most kinds of marks in the other theme as well.
DRAWN = [*((name, "light") for name in HEADINGS), ("trends", "dark")]


@pytest.mark.parametrize(("name", "theme"), DRAWN)
def test_a_page_is_drawn_without_an_exception(
    name: str,
    theme: str,
    tools: ModuleType,
    browser: Any,
    rich_address: str,
    screenshots: Path,
) -> None:
    page = tools.open_page(browser, f"{rich_address}/{tools.PAGES[name]}", theme)
    assert page.locator(EXCEPTION).count() == 0
    assert page.locator("h2").first.inner_text() == HEADINGS[name]
    if name != "regressions":
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
    assert "Values as measured" in again.locator(MAIN).inner_text()
    assert again.locator(EXCEPTION).count() == 0
    again.close()
    page.close()


def test_an_address_of_another_machines_commits_keeps_showing_that_machine(
    tools: ModuleType, browser: Any, two_machines_served: tuple[str, tuple[str, ...]]
) -> None:
    served, commits = two_machines_served
    page = tools.open_page(browser, f"{served}/compare?base={commits[1][:8]}&head={commits[2][:8]}")
    told = page.locator(MAIN).inner_text()
    assert "Shown is older, which measured base" in told
    assert "runner=older" in page.url
    page.locator("[data-testid='stSelectbox']").nth(2).click()
    page.get_by_role("option", name=commits[3][:7]).click()
    page.wait_for_url(f"**head={commits[3][:12]}**", timeout=20_000)
    tools.settle(page)
    assert "runner=older" in page.url
    page.locator("[data-testid='stSelectbox']").first.click()
    page.get_by_role("option", name="newer").click()
    page.get_by_text("which not newer but older measured").first.wait_for(timeout=20_000)
    assert "runner" not in page.url, "the machine measured last goes without saying"
    page.close()


def point_under_mouse(page: Any) -> tuple[float, float]:
    """Move to the last of four commits: at about nine tenths of the width; its height is found."""
    page.locator(f"{CHART} :is(svg.marks, canvas.marks)").first.wait_for(timeout=20_000)
    box = page.locator(CHART).first.bounding_box()
    tooltip = page.locator("#vg-tooltip-element.visible")
    for share in (0.80, 0.82, 0.84, 0.86, 0.88, 0.90):
        for step in range(3, 80):
            x, y = box["x"] + share * box["width"], box["y"] + step / 100 * box["height"]
            page.mouse.move(x, y)
            if tooltip.count():
                return x, y
    raise AssertionError("no point was found under the mouse")


def test_a_point_tells_its_commit_under_the_mouse_and_all_when_clicked(
    tools: ModuleType, browser: Any, address: str
) -> None:
    page = tools.open_page(browser, f"{address}/trends?model=nemotron-super")
    x, y = point_under_mouse(page)
    text = page.locator("#vg-tooltip-element.visible").inner_text()
    assert "Synthetic change 3" in text
    assert "1,980 MHz" in text
    page.mouse.click(x, y)
    page.locator(CODE).first.wait_for(timeout=20_000)
    assert "point=" in page.url
    assert "the point before" in page.locator(MAIN).inner_text()
    assert "asv run --interleave-rounds" in page.locator(CODE).first.inner_text()

    again = tools.open_page(browser, page.url)
    assert "asv run --interleave-rounds" in again.locator(CODE).first.inner_text()
    again.get_by_role("button", name="Close").click()
    again.locator(CODE).first.wait_for(state="detached", timeout=20_000)
    assert "point=" not in again.url
    again.close()
    page.close()


def test_two_clicks_lead_from_the_overview_to_the_commit_and_its_command(
    tools: ModuleType, browser: Any, rich_address: str
) -> None:
    """The path that dashboard/app/README.md writes down."""
    page = tools.open_page(browser, rich_address)
    page.get_by_test_id("stTopNav").get_by_role(
        "link", name="Regressions"
    ).click()  # the first click
    page.locator("h2", has_text="Regressions").wait_for(timeout=20_000)
    page.locator(CODE).first.wait_for(timeout=20_000)
    told = page.locator(MAIN).inner_text()
    assert "+15" in told
    assert "Synthetic change 8" in told
    assert "asv run --interleave-rounds" in page.locator(CODE).first.inner_text()

    page.get_by_role("link", name="Forward + entropy").first.click()  # the second
    page.locator("h2", has_text="Trends").wait_for(timeout=20_000)
    page.locator(CODE).first.wait_for(timeout=20_000)
    told = page.locator(MAIN).inner_text()
    assert "Synthetic change 8" in told
    assert "the point before" in told
    assert "asv run --interleave-rounds" in page.locator(CODE).first.inner_text()
    assert "benchmark=forward_entropy" in page.url
    page.go_back()
    page.locator("h2", has_text="Regressions").wait_for(timeout=20_000)
    page.close()


def test_a_table_is_downloaded(
    tools: ModuleType, browser: Any, address: str, tmp_path: Path
) -> None:
    page = tools.open_page(browser, f"{address}/compare")
    with page.expect_download(timeout=20_000) as caught:
        page.locator("[data-testid='stDownloadButton'] button", has_text="CSV").first.click()
    caught.value.save_as(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text("utf-8").splitlines()
    assert lines[0].startswith("Verdict,Benchmark")
    assert len(lines) == 1 + 6
    page.close()


def test_a_chart_is_saved_as_svg(
    tools: ModuleType, browser: Any, rich_address: str, tmp_path: Path
) -> None:
    pytest.importorskip("vl_convert")
    page = tools.open_page(browser, f"{rich_address}/entropy")
    page.get_by_role("button", name="Charts as SVG").click()
    with page.expect_download(timeout=30_000) as caught:
        page.get_by_role("button", name="Differentiable entropy by activity", exact=True).click()
    assert caught.value.suggested_filename == "Differentiable-entropy-by-activity.svg"
    caught.value.save_as(tmp_path / "chart.svg")
    drawn = (tmp_path / "chart.svg").read_text("utf-8")
    assert drawn.startswith("<svg")
    assert "23 % active" in drawn
    page.close()


def test_a_cell_of_the_table_leads_to_its_trend_and_back(
    tools: ModuleType, browser: Any, address: str
) -> None:
    # Words of a verdict are no words of a series: Trends must not search for them.
    page = tools.open_page(browser, f"{address}/?find=unchanged")
    table = page.locator("[data-testid='stDataFrame']").first
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    page.mouse.click(box["x"] + 112 + 28, box["y"] + 1.5 * 36)  # column Trend, first row
    page.get_by_role("link", name="Trend of").click()
    page.locator("h2", has_text="Trends").wait_for(timeout=20_000)
    page.locator(CHART).first.wait_for(timeout=20_000)
    assert "benchmark=" in page.url, page.url
    assert "unchanged" not in page.url, page.url
    assert len(page.context.pages) == 1
    for _ in range(2):  # Streamlit gives the address of its first page the other's choices, too
        page.go_back()
        page.locator("h2", has_text="Overview").wait_for(timeout=20_000)
    assert page.url.endswith("/?find=unchanged"), page.url
    page.close()
