"""How fast the pages are on a large store, and how much memory the server takes.

    python tests/dashboard/browser/measure_app.py [--store large.duckdb] [--runs 3] [--json]

Without ``--store`` a synthetic store of 2,000 commits x 1,000 series x 3 rounds is written
first. Serves it, opens every page in headless Chromium in a new session, changes a filter of
the pages that have one, then holds five sessions open. Prints seconds per page, the processor
time that the server and the page's main thread took, and the server's memory; exit code 1 if a
page paints later than 2 s, a filter takes longer than 1 s or memory passes 1 GiB. A page has been
painted when its script has ended and its charts are drawn. The first page of a fresh server is
opened once before, since it loads libraries, and the browser keeps the app's own code from then on.
With ``--runs`` all of it is done that often, each time by a server of its own, and the least of
each figure counts: other load on the machine adds to some of them. Needs the ``dev`` extra and a
Chromium; the machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
FIRST_PAINT_S = 2.0
FILTER_S = 1.0
MEMORY_MIB = 1024
SESSIONS = 5
# Pages with a search box, and with a choice of measure.
SEARCHED = ("overview", "compare")
MEASURED = ("trends", "layouts")
_STEADY_MS = 200
_DONE = f"""() => {{
    const app = document.querySelector("[data-testid='stApp']");
    const heading = document.querySelector("[data-testid='stMain'] :is(h2, h3)");
    const charts = [...document.querySelectorAll("[data-testid='stVegaLiteChart']")];
    const ready = heading && app.getAttribute("data-test-script-state") === "notRunning"
        && !document.querySelector("[data-stale='true'], [data-testid='stSkeleton']")
        && charts.every(chart => chart.querySelector("svg.marks, canvas.marks"));
    window.readySince = ready ? window.readySince ?? Date.now() : undefined;
    return ready && Date.now() - window.readySince >= {_STEADY_MS} && window.readySince;
}}"""


def load(name: str, location: Path) -> ModuleType:
    """A script beside this one, as a module."""
    spec = importlib.util.spec_from_file_location(name, location)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"cannot load {location}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def server_process(port: str) -> Path:
    """The folder in /proc of the server that was started with this port."""
    wanted = f"--server.port={port}"
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended meanwhile
        if wanted in words:
            return process
    raise RuntimeError(f"no process was started with {wanted}")


def resident_mib(process: Path) -> float:
    """The memory of a process."""
    lines = (process / "status").read_text().splitlines()
    return float(next(x for x in lines if x.startswith("VmRSS")).split()[1]) / 1024


def cpu_s(process: Path) -> float:
    """The processor time that a process has taken: other load does not change it much."""
    fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def drawn(page: Any, started: float) -> float:
    """Seconds from ``started`` (of the clock) until the page was drawn, and stayed so: charts
    are mounted a moment after the script has ended."""
    ready = page.wait_for_function(_DONE, timeout=120_000).json_value()
    return float(ready) / 1000 - started


def opened(page: Any, address: str) -> float:
    """Seconds until a page of that address has been drawn."""
    started = time.time()
    page.goto(address)
    return drawn(page, started)


def filtered(page: Any, name: str) -> float:
    """Seconds from choosing a filter of a page until it has been drawn again."""
    started = time.time()
    if name in SEARCHED:
        page.get_by_label("Search").first.fill("model-03")
        page.keyboard.press("Enter")
    else:
        page.get_by_text("absolute", exact=True).click()
    page.wait_for_url("**?*", timeout=60_000)
    page.wait_for_timeout(50)  # until the server has been told
    page.evaluate("() => { window.readySince = undefined; }")
    return drawn(page, started)


def measure(store: Path, tools: ModuleType) -> dict[str, Any]:
    """All figures: seconds to first paint and after a filter by page, and MiB."""
    executable = tools.chromium()
    if executable is None:
        raise SystemExit("no Chromium found; name one by $CHROMIUM")
    found: dict[str, Any] = {
        "first_paint_s": {}, "filter_s": {}, "server_cpu_s": {}, "page_cpu_s": {},
    }  # fmt: skip
    with tools.serving(store) as address, tools.browsing(executable) as browser:
        server = server_process(address.rsplit(":", 1)[1])
        context = browser.new_context(viewport={"width": tools.WIDTH, "height": 900})
        warm = context.new_page()
        opened(warm, address)
        warm.close()
        for name, path in tools.PAGES.items():
            page = context.new_page()
            inspector = context.new_cdp_session(page)
            inspector.send("Performance.enable", {"timeDomain": "threadTicks"})
            before = cpu_s(server)
            found["first_paint_s"][name] = round(opened(page, f"{address}/{path}"), 2)
            found["server_cpu_s"][name] = round(cpu_s(server) - before, 2)
            metrics = inspector.send("Performance.getMetrics")["metrics"]
            spent = next(m["value"] for m in metrics if m["name"] == "TaskDuration")
            found["page_cpu_s"][name] = round(spent, 2)
            if name in (*SEARCHED, *MEASURED):
                found["filter_s"][name] = round(filtered(page, name), 2)
            page.close()
        pages = [browser.new_page() for _ in range(SESSIONS)]
        for page, path in zip(pages, tools.PAGES.values(), strict=False):
            opened(page, f"{address}/{path}")
        found["memory_mib"] = round(resident_mib(server))
    return found


def least(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The smallest of each figure over several runs of :func:`measure`."""
    return {
        name: {page: min(run[name][page] for run in runs) for page in figure}
        if isinstance(figure, dict)
        else min(run[name] for run in runs)
        for name, figure in runs[0].items()
    }


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--store", type=Path, help="measure this store instead")
    parser.add_argument("--runs", type=int, default=1, help="take the least of so many runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    tools = load("app_screenshots", HERE / "screenshot.py")
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store
        if store is None:
            store = Path(folder) / "large.duckdb"
            print("writing 2,000 commits x 1,000 series x 3 rounds", file=sys.stderr)
            load("large_store", HERE.parent / "large_store.py").write_large_store(store)
        found = least([measure(store, tools) for _ in range(max(arguments.runs, 1))])
    late = [n for n, s in found["first_paint_s"].items() if s > FIRST_PAINT_S]
    late += [f"{n} (filter)" for n, s in found["filter_s"].items() if s > FILTER_S]
    if found["memory_mib"] > MEMORY_MIB:
        late.append("memory")
    if arguments.json:
        print(json.dumps({**found, "over": late}, indent=2))
    else:
        for name, seconds in found["first_paint_s"].items():
            after = found["filter_s"].get(name)
            tail = "" if after is None else f"   filter {after:.2f} s"
            server, page = found["server_cpu_s"][name], found["page_cpu_s"][name]
            spent = f"server {server:.2f} s, page {page:.2f} s"
            print(f"{name:12} first paint {seconds:5.2f} s, processor: {spent}{tail}")
        print(f"memory with {SESSIONS} sessions: {found['memory_mib']} MiB")
        print("over the limits: " + (", ".join(late) or "nothing"))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
