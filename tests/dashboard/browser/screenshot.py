"""Screenshots of every page of the app, for the README and for looking at.

    python tests/dashboard/browser/screenshot.py --store .asv/history.duckdb --out screenshots

Serves the store on a free port, opens each page in headless Chromium at 1440 px
and writes ``<page>-<theme>.png``. Needs the ``dev`` extra and a Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[3]
PAGES = {
    name: "" if name == "overview" else name
    for name in (
        "overview",
        "trends",
        "compare",
        "layouts",
        "tuning",
        "entropy",
        "headlines",
        "regressions",
        "data",
    )
}
WIDTH = 1440
_ALL_DRAWN = """() => [...document.querySelectorAll("[data-testid='stVegaLiteChart']")].every(
    chart => chart.querySelector("svg.marks, canvas.marks"))"""
_CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """The Chromium of this machine: ``$CHROMIUM``, else the first one on the path."""
    named = os.environ.get("CHROMIUM")
    return named or next((found for name in _CHROMIUMS if (found := shutil.which(name))), None)


@contextmanager
def serving(store: Path, timeout_s: float = 60.0) -> Iterator[str]:
    """The app over ``store`` in a process of its own; yields its address.

    RuntimeError, with the server's output, if it does not answer in time.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "dashboard/app/main.py")]
    options = [f"--server.port={port}", "--server.address=127.0.0.1", "--server.headless=true"]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    server = subprocess.Popen(
        [*command, *options, "--server.fileWatcherType=none"],
        env={
            **os.environ,
            "LMHEAD_PERF_STORE": str(store),
            "PYTHONPATH": os.pathsep.join(paths),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _wait(f"http://127.0.0.1:{port}/_stcore/health", server, timeout_s)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.communicate(timeout=20)


def _wait(address: str, server: subprocess.Popen[str], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the app ended: {server.communicate()[0]}")
        try:
            with urlopen(address, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise RuntimeError(f"the app did not answer at {address} within {timeout_s:.0f} s")


@contextmanager
def browsing(executable: str) -> Iterator[Browser]:
    """A headless browser; closed at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def open_page(
    browser: Browser,
    address: str,
    theme: Literal["light", "dark"] = "light",
    height: int = 900,
) -> Page:
    """A tab on ``address``, returned when the page has been drawn."""
    page = browser.new_page(
        viewport={"width": WIDTH, "height": height}, color_scheme=theme, device_scale_factor=1
    )
    page.goto(address)
    settle(page)
    return page


def settle(page: Page) -> None:
    """Wait until the script has run and its charts have been drawn."""
    # The heading first: before the script starts, its state reads "not running" as well.
    page.locator("[data-testid='stMain'] :is(h2, h3)").first.wait_for(timeout=60_000)
    page.locator("[data-testid='stApp'][data-test-script-state='notRunning']").wait_for(
        timeout=60_000
    )
    page.wait_for_timeout(300)  # charts are mounted a moment after the script has ended
    page.wait_for_function(_ALL_DRAWN, timeout=60_000)
    page.wait_for_timeout(300)


def whole_page(page: Page, target: Path, tallest: int = 6000) -> None:
    """Save all of a page, not only what the window shows (Streamlit scrolls inside)."""
    main = page.locator("[data-testid='stMain']")
    tall = int(main.evaluate("element => element.scrollHeight"))
    page.set_viewport_size({"width": WIDTH, "height": min(max(tall, 600), tallest)})
    page.wait_for_timeout(800)
    target.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=target)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--store", type=Path, required=True, help="the store to show")
    parser.add_argument("--out", type=Path, required=True, help="folder of the PNGs")
    parser.add_argument("--theme", choices=["light", "dark", "both"], default="both")
    parser.add_argument(
        "--tallest", type=int, default=6000, help="pixels after which a page is cut"
    )
    parser.add_argument(
        "--query", default="", help="of every address: base=d01f942&head=1fbc17e shows these two"
    )
    arguments = parser.parse_args()
    executable = chromium()
    if executable is None:
        parser.error("no Chromium found; name one by $CHROMIUM")
    themes: list[Literal["light", "dark"]] = (
        ["light", "dark"] if arguments.theme == "both" else [arguments.theme]
    )
    with serving(arguments.store) as address, browsing(executable) as browser:
        for name, path in PAGES.items():
            for theme in themes:
                target = arguments.out / f"{name}-{theme}.png"
                page = open_page(browser, f"{address}/{path}?{arguments.query}", theme)
                if page.locator("[data-testid='stException']").count():
                    parser.exit(1, f"{name} shows an exception\n")
                whole_page(page, target, arguments.tallest)
                page.close()
                print(target)


if __name__ == "__main__":
    main()
