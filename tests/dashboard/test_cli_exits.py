"""How the command line ends: exit 1 is a verdict's alone, whatever happens to its output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dashboard
from dashboard.store.ingest import ingest

ROOT = Path(dashboard.__file__).parent.parent
PROGRAM = (sys.executable, "-c", "from dashboard.cli import main; main()")
FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory, make_history: Any, recipe: Any) -> Path:
    """A synthetic store whose last commit is slower: `check` exits 1."""
    folder = tmp_path_factory.mktemp("slow")
    factors = {("forward.Forward.track_time", 3): 1.03}
    made = make_history(folder / "results", recipe(factors=factors, noise=0.0002, rounds=5))
    ingest(folder / "slow.duckdb", made.results)
    return folder / "slow.duckdb"


def run(
    *arguments: object, environment: dict[str, str] | None = None, **streams: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run `lmhead-perf` as a process of its own."""
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        cwd=ROOT,
        check=False,
        env={**os.environ, **(environment or {})},
        **given,
    )


ASCII = {
    "locale": {
        "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "",
    },
    "encoding": {"PYTHONIOENCODING": "ascii"},
}  # fmt: skip


@pytest.mark.parametrize("how", ASCII)
def test_a_terminal_without_the_characters_gets_others(history_store: Path, how: str) -> None:
    done = run("check", "--store", history_store, environment=ASCII[how])
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"unchanged" in done.stdout
    assert b"?" in done.stdout


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("report", ["text", "json"])
def test_a_full_disk_is_no_regression(slow: Path, report: str) -> None:
    with FULL.open("w") as full:
        done = run("check", "--store", slow, "--format", report, stdout=full)
    assert done.returncode == 2
    assert done.stderr == b"lmhead-perf: cannot write to stdout: No space left on device\n"


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_an_ingest_told_to_a_full_disk(tmp_path: Path, history: Any) -> None:
    with FULL.open("w") as full:
        done = run("ingest", history.results, "--store", tmp_path / "s", "--json", stdout=full)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("command", [("check",), ("history",), ("store", "info")])
def test_a_closed_pipe_is_no_regression(slow: Path, command: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run(*command, "--store", slow, stdout=writing)
    os.close(writing)
    assert done.returncode == 2
    assert done.stderr == b"lmhead-perf: cannot write to stdout: Broken pipe\n"


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_narration_that_is_lost_changes_no_verdict(slow: Path) -> None:
    with FULL.open("w") as full:
        assert run("check", "--store", slow, stderr=full).returncode == 1
        assert run("check", "--store", slow, "--head", "fffffff", stderr=full).returncode == 2


def closed(descriptor: int) -> Callable[[], None]:
    """Closes a stream in the child."""
    return lambda: os.close(descriptor)


def test_streams_that_are_closed(slow: Path) -> None:
    done = run("check", "--store", slow, stdout=None, preexec_fn=closed(1))
    assert done.returncode == 2
    assert b"stdout" in done.stderr
    done = run("check", "--store", slow, stderr=None, preexec_fn=closed(2))
    assert done.returncode == 1
    assert b"2 regressed" in done.stdout


BROKEN = """
import sys
import dashboard.check
from dashboard.cli import main

def fail(*arguments, **options):
    raise {error}

dashboard.check.check = fail
sys.argv = ["lmhead-perf", "check", "--store", {store!r}]
main()
"""


@pytest.mark.parametrize(
    ("error", "code", "last"),
    [
        (
            "ValueError('of nobody')",
            2,
            b"lmhead-perf: unexpected ValueError, no verdict: of nobody",
        ),
        ("MemoryError", 2, b"lmhead-perf: unexpected MemoryError, no verdict:"),
        ("RecursionError", 2, b"lmhead-perf: unexpected RecursionError, no verdict:"),
        ("ModuleNotFoundError('x', name='dashboard.x')", 2, b"lmhead-perf: unexpected Module"),
        ("BrokenPipeError(32, 'Broken pipe')", 2, b""),
        ("KeyboardInterrupt", 130, b""),
    ],
)
def test_what_nobody_foresaw_keeps_its_traceback(
    history_store: Path, error: str, code: int, last: bytes
) -> None:
    program = BROKEN.format(error=error, store=str(history_store))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (code, b"")
    if last:
        assert done.stderr.startswith(b"Traceback")
        assert done.stderr.splitlines()[-1].startswith(last)


def test_a_package_that_is_not_installed_is_named(history_store: Path) -> None:
    program = BROKEN.format(
        error="ModuleNotFoundError('No module named scipy', name='scipy.special')",
        store=str(history_store),
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"scipy.special is not installed: pip install 'fused-lmhead[dashboard]'" in done.stderr
