"""What ``lmhead-perf check`` says of a proof's sittings, wherever their numbers were taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from asv_benchmarks import proof_kept
from asv_benchmarks.proof_report import COMPLETE, PAIRS, rounds_of


class ProofError(RuntimeError):
    """A comparison cannot be taken, and why."""


def run(command: Sequence[str], where: Path, **variables: str) -> str:
    """Standard output of a command. Raises ProofError with its last words."""
    environ = {**os.environ, **variables}
    done = subprocess.run(
        command,
        cwd=where,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise ProofError(f"{' '.join(command[:4])} ended with {done.returncode}: {words[-1]}")
    return done.stdout.strip()


def judged(folders: Iterable[Path], threshold: float) -> None:
    """Have each complete sitting checked that is not, wherever its numbers were taken.

    ``threshold``: the check's, in percent. Raises ProofError where a check fails or lmhead-perf
    is not installed, KeptError for a mark that is none.
    """
    for folder in folders:
        for mark in sorted(folder.glob(f"comparisons/*/{COMPLETE}")):
            complete = proof_kept.mark(mark)
            if complete.get("threshold") == threshold:
                continue
            sides = complete["sides"]
            complete["verdicts"] = {
                f"{base} {head}": check(mark.parent, sides[base], sides[head], threshold)
                for base, head in PAIRS
                if base in sides and head in sides
            }
            complete["threshold"] = threshold
            mark.write_text(json.dumps(complete), encoding="utf-8")


def keep(folders: Iterable[Path], into: Path) -> int:
    """Make a file of each complete, judged sitting; how many. Raises ProofError or KeptError."""
    marks = [mark for one in folders for mark in sorted(one.glob(f"comparisons/*/{COMPLETE}"))]
    for mark in marks:
        complete = proof_kept.mark(mark)
        path, new = proof_kept.keep(into, complete, rounds_of(mark.parent))
        print(f"{path}{'' if new else ' is there already'}", file=sys.stderr)
    return len(marks)


def check(folder: Path, base: str, head: str, threshold: float) -> dict[str, str]:
    """What ``lmhead-perf check`` says of each series of a sitting."""
    command = [sys.executable, "-c", "from dashboard.cli import main; main()"]
    store = ["--store", str((folder / "store.duckdb").absolute())]
    run([*command, "ingest", str((folder / "results").absolute()), *store], Path.cwd())
    output = (folder / f"verdict-{head[:8]}.json").absolute()
    output.unlink(missing_ok=True)
    asked = ["--base", base, "--head", head, "--threshold", str(threshold)]
    shown = ["--format", "json", "--output", str(output)]
    done = subprocess.run(
        [*command, "check", *asked, *store, *shown],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if not output.exists():
        raise ProofError(f"lmhead-perf check ended with {done.returncode}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    compared = (found["base"]["commit"], found["head"]["commit"])
    if compared != (base, head):
        # All have one tree: where one has no results, the check takes another for it.
        raise ProofError(f"{folder}: {base[:8]} and {head[:8]} are not both measured")
    return {series_name(series): series["verdict"] for series in found["series"]}


def series_name(series: dict[str, Any]) -> str:
    """``benchmark(params)`` of a series in the check's JSON."""
    return f"{series['benchmark']}({', '.join(map(repr, series['params'].values()))})"
