"""Measures the store on a large synthetic history: ``python tests/dashboard/measure_store.py``.

Prints, as JSON: the history's size, the ingest's speed and memory, the time of one further commit,
the store's size beside that of the JSON, and the time of ``asv publish`` on the same results (with
``--publish``; it needs asv and git). Each step is a process of its own; times are wall clock and
include the start of Python.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


def measure(folder: Path, commits: int, series: int, publish: bool = False) -> dict[str, Any]:
    """Write the history, load it, add a commit; the figures."""
    sys.path.insert(0, str(Path(__file__).parent))
    history = import_module("large_history")
    results, store = folder / "results", folder / "store.duckdb"
    history.write_large_history(results, commits, series)
    figures: dict[str, Any] = {"commits": commits, "series": series, "rounds": 3}
    figures["json_bytes"] = size(results)
    whole = ingest(results, store)
    figures["measurements"] = whole["measurements"]
    figures["ingest_seconds"] = whole["seconds"]
    figures["measurements_a_second"] = round(whole["measurements"] / whole["seconds"])
    figures["ingest_cpu_seconds"] = whole["cpu_seconds"]
    figures["ingest_memory_mib"] = whole["memory_mib"]
    figures["store_bytes"] = size(folder) - size(results) - size(folder / "cache")
    figures["store_share_of_json"] = round(figures["store_bytes"] / figures["json_bytes"], 3)
    ingest(results, store)  # now that the files have settled their digests are remembered
    history.write_large_history(results, 1, series, first=commits)
    one = ingest(results, store)
    figures["one_more_commit_seconds"] = one["seconds"]
    figures["one_more_commit_cpu_seconds"] = one["cpu_seconds"]
    figures["nothing_new_seconds"] = ingest(results, store)["seconds"]
    if publish:
        figures["asv_publish_seconds"] = asv_publish(folder, results, history)
    return figures


def ingest(results: Path, store: Path) -> dict[str, Any]:
    """`lmhead-perf ingest` in a process: its report, with its wall time and memory."""
    command = [sys.executable, "-c", "from dashboard.cli import main; main()"]
    command += ["ingest", str(results), "--store", str(store), "--json"]
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(results.parent / "cache"),
    }  # fmt: skip
    began = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, cwd=results.parent
    ) as process:
        assert process.stdout is not None
        report: dict[str, Any] = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return {
        **report,
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "memory_mib": usage.ru_maxrss // 1024,
    }


def asv_publish(folder: Path, results: Path, history: Any) -> float:
    """The time of `asv publish` on the results, with a toy repository of the same commits.

    asv shows only commits of a repository, so the results' hashes are replaced by its own.
    """
    repository = folder / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", repository], check=True)
    stream = []
    for index in range(sum(1 for _ in results.glob("*/*-*.json"))):
        date = int(history.EPOCH.timestamp()) + 3600 * index
        stream.append(
            f"commit refs/heads/main\ncommitter s <s@example.invalid> {date} +0000\ndata 1\nx\n"
        )
    text = "".join(stream).encode()
    subprocess.run(["git", "fast-import", "--quiet"], input=text, cwd=repository, check=True)
    log = subprocess.run(
        ["git", "rev-list", "--reverse", "main"], cwd=repository, check=True, capture_output=True
    )
    published = folder / "published"
    for index, commit in enumerate(log.stdout.decode().split()):
        old = history.commit_hash(index)
        source = results / history.MACHINE / f"{old[:8]}-{history.ENVIRONMENT}.json"
        target = published / history.MACHINE / source.name.replace(old[:8], commit[:8])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text().replace(old, commit))
    for name in ("benchmarks.json", f"{history.MACHINE}/machine.json"):
        (published / name).write_bytes((results / name).read_bytes())
    configuration = {
        "version": 1, "project": "synthetic", "repo": str(repository), "branches": ["main"],
        "results_dir": str(published), "html_dir": str(folder / "html"),
        "environment_type": "existing",
    }  # fmt: skip
    (folder / "asv.conf.json").write_text(json.dumps(configuration))
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "asv", "publish"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    return round(time.monotonic() - began, 2)


def size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=2000)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), chosen.commits, chosen.series, chosen.publish)
    print(json.dumps({**found, "cores": len(os.sched_getaffinity(0))}, indent=2))
