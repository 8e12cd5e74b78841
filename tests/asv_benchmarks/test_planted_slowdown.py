"""From a repository to a verdict: asv measures, the dashboard names the commit that is slow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MAIN = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from dashboard.cli import main; main()"


def lmhead_perf(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the command in a folder: exit code and stdout."""
    command = [sys.executable, "-c", MAIN, *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout or done.stderr


def test_the_third_commit_is_named_by_check_and_history(toy: Any, tmp_path: Path) -> None:
    for number, milliseconds in enumerate((5, 5, 25, 25, 25), start=1):
        toy.sleeping(milliseconds, f"number {number}")
    first, second, third, fourth, _ = toy.commits
    run = toy.asv("run", "ALL", "--bench", r"\('smoke', 2048, 1\)")
    assert run.returncode == 0, run.stdout + run.stderr
    store = ("--store", str(tmp_path / "s.duckdb"))
    code, report = lmhead_perf(toy.folder, "ingest", *store, "--json")
    assert code == 0
    assert json.loads(report)["files"]["rejected"] == 0

    shown = ("--format", "json")
    code, report = lmhead_perf(toy.folder, "check", *store, *shown, "--head", third)
    assert code == 1, report
    verdict = json.loads(report)
    assert (verdict["base"]["commit"], verdict["head"]["commit"]) == (second, third)
    assert verdict["summary"] == {"regressed": 1}
    assert verdict["head"]["subject"] == "number 3"
    assert verdict["series"][0]["interval"][0] > 1.5
    for base, head in ((first, second), (third, fourth)):
        code, report = lmhead_perf(
            toy.folder, "check", *store, *shown, "--base", base, "--head", head
        )
        assert "regressed" not in json.loads(report)["summary"]
        assert code == 0, report

    code, report = lmhead_perf(toy.folder, "history", *store, *shown)
    assert code == 0, report
    (change,) = json.loads(report)["changes"]
    assert (change["after"], change["commit"]) == (second, third)
    assert change["suspects"] == [third]
    assert change["subject"] == "number 3"
    assert change["direction"] == "worse"
    assert change["explained_by"] is None
    assert 1.5 < change["ratio"] < 10
