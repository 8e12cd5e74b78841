"""`demo` and `dashboard`: the shipped history, served, and ended cleanly."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dashboard
from dashboard.demo import shipped_results, verdict_of
from dashboard.errors import InputError
from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest

ROOT = Path(dashboard.__file__).parent.parent
MAIN = "import sys; from dashboard.cli import main; main()"


@pytest.fixture
def suite(tmp_path: Path, history: Any) -> Path:
    """A folder with a stand-in for the suite, which must not be imported, and its results."""
    package = tmp_path / "site" / "asv_benchmarks"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('the suite was imported')")
    shutil.copytree(history.results, package / "results")
    return package.parent


def start(suite: Path, *arguments: str) -> subprocess.Popen[str]:
    """`lmhead-perf` in a process that finds the stand-in first."""
    paths = os.pathsep.join([str(suite), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=suite,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_the_shipped_history_is_found_without_importing_the_suite(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "asv_benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(suite))
    assert shipped_results() == suite / "asv_benchmarks" / "results"
    shutil.rmtree(suite / "asv_benchmarks" / "results" / "synthetic")
    with pytest.raises(InputError, match="no measured history"):
        shipped_results()


def test_the_verdict_is_of_the_latest_two_commits(tmp_path: Path, history: Any) -> None:
    shown = verdict_of(tmp_path / "s.duckdb", history.results)
    assert f"{history.commits[2][:8]} → {history.commits[3][:8]}" in shown.text
    assert "6 unchanged" in shown.text
    assert shown.query == ""


def measured_by_one_run(results: Path, *commits: str, **changes: Any) -> None:
    """Let the rounds of these commits be of one run, with ``changes`` if any."""
    for commit in commits:
        (path,) = results.glob(f"rounds/{commit[:8]}-*.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text(
            "".join(
                json.dumps({**line, "run": "+".join(commits), **changes}) + "\n" for line in lines
            )
        )


def test_commits_of_one_run_are_shown_rather_than_the_latest(
    tmp_path: Path, make_history: Any, recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=5))
    first, *_, base, head, newest = made.commits
    measured_by_one_run(made.results, first, base, head)
    shown = verdict_of(tmp_path / "s.duckdb", made.results)
    assert f"{base[:8]} → {head[:8]}" in shown.text
    assert f"note: {newest[:8]}, the newest commit measured, has a run of its own" in shown.text
    assert shown.query == f"?base={base[:8]}&head={head[:8]}"
    measured_by_one_run(made.results, head, newest)
    again = verdict_of(tmp_path / "again.duckdb", made.results)
    assert f"{head[:8]} → {newest[:8]}" in again.text
    assert "run of its own" not in again.text


def test_the_newest_head_of_a_run_counts_not_the_newest_base(
    tmp_path: Path, make_history: Any, recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=5))
    zero, one, two, three, four = made.commits
    measured_by_one_run(made.results, zero, four)
    measured_by_one_run(made.results, one, two)
    with opened(tmp_path / "s.duckdb", made.results) as store:
        assert queries.newest_of_one_run(store, made.machine) == (zero, four)
        assert queries.newest_of_one_run(store, "another machine") is None
    failed = {"status": "failed", "reason": "synthetic", "value": None, "samples": []}
    measured_by_one_run(made.results, three, four, **failed)
    with opened(tmp_path / "failed.duckdb", made.results) as store:
        assert queries.newest_of_one_run(store) == (one, two)


@contextmanager
def opened(path: Path, results: Path) -> Iterator[Any]:
    ingest(path, results)
    with open_store(path) as store:
        yield store


def test_the_verdict_goes_by_the_settings_beside_the_history(
    tmp_path: Path, make_history: Any, recipe: Any
) -> None:
    project = tmp_path / "project"
    made = make_history(project / "results", recipe(commits=4))
    plain = verdict_of(tmp_path / "plain.duckdb", made.results).text
    assert "exactly equal" not in plain
    (project / "pyproject.toml").write_text('[tool.lmhead-perf]\nexact = ["*"]\n')
    assert verdict_of(tmp_path / "exact.duckdb", made.results).text != plain


def test_one_commit_is_served_without_a_verdict(
    tmp_path: Path, make_history: Any, recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=1))
    assert verdict_of(tmp_path / "s.duckdb", made.results).text.startswith("no verdict: ")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_demo_serves_and_ends(suite: Path, history: Any, ending: signal.Signals) -> None:
    base, head = history.commits[:2]
    measured_by_one_run(suite / "asv_benchmarks" / "results", base, head)
    query = f"/?base={base[:8]}&head={head[:8]}"
    began = time.monotonic()
    process = start(suite, "demo")
    try:
        assert process.stdout is not None
        lines = iter(process.stdout)
        address = next((line.strip() for line in lines if line.startswith("http")), None)
        if address is None:
            pytest.fail(f"no address printed: {process.communicate()[1]}")
        assert time.monotonic() - began < 15
        assert address.endswith(query)
        with urllib.request.urlopen(address, timeout=5) as page:
            assert page.status == 200
        process.send_signal(ending)
        assert process.wait(timeout=15) == 0
    finally:
        process.kill()
        _, complaints = process.communicate(timeout=10)
    assert "Traceback" not in complaints
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)


def test_a_taken_port_is_told(suite: Path, taken_port: int) -> None:
    process = start(suite, "demo", "--port", str(taken_port))
    out, complaint = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert complaint.count("\n") == 1
    assert f"port {taken_port} on 127.0.0.1 cannot be used" in complaint
