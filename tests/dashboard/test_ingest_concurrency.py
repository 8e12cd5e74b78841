"""Writers and readers at once, and writers that die: no lock errors, nothing lost or doubled."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dashboard
from dashboard.errors import InputError
from dashboard.store import local, open_store, queries
from dashboard.store.ingest import ingest

ROOT = Path(dashboard.__file__).parent.parent
PROGRAM = """
import os, resource, sys
from pathlib import Path
from dashboard.errors import InputError
from dashboard.store import batch, local
from dashboard.store.ingest import ingest

store, results, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

def die(*_):
    os.kill(os.getpid(), 9)

progress = None
if how == "die-in-the-middle":
    batch._GROUPS = 3
    progress = lambda done, total: die() if done > total // 2 else None
if how == "die-before-the-swap":
    local.os.fsync = die
if how == "disk-full":
    limit = store.stat().st_size + 4096
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    report = ingest(store, results, progress=progress)
except InputError as error:
    sys.exit(f"told: {error}")
print(report.runs)
"""


def start(store: Path, results: Path, how: str = "") -> subprocess.Popen[str]:
    """An ingest in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(store), str(results), how],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def state(store: Path) -> dict[str, int]:
    """The store's totals, each run of it counted once."""
    with open_store(store) as opened:
        runs = queries.runs(opened)
        assert not runs["path"].duplicated().any()
        return queries.totals(opened)


@pytest.fixture
def two(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> tuple[Any, Any]:
    """Two results folders without a run in common."""
    first = make_history(tmp_path / "one", recipe(commits=3))
    return first, make_history(tmp_path / "two", recipe(commits=12, seed=1, machine="other"))


def test_a_reader_sees_the_old_store_until_the_new_one_is_whole(
    tmp_path: Path, two: tuple[Any, Any]
) -> None:
    store = tmp_path / "s.duckdb"
    ingest(store, two[0].results)
    seen: list[int] = []
    with open_store(store) as early:

        def look(done: int, total: int) -> None:
            seen.append(state(store)["runs"])

        ingest(store, two[1].results, progress=look)
        assert seen
        assert set(seen) == {3}
        assert queries.totals(early)["runs"] == 3
        assert state(store)["runs"] == 15


@pytest.mark.parametrize("how", ["die-in-the-middle", "die-before-the-swap"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_killed_ingest_leaves_the_store_as_it_was(
    tmp_path: Path, two: tuple[Any, Any], how: str, exists: bool
) -> None:
    store = tmp_path / "s.duckdb"
    if exists:
        ingest(store, two[0].results)
    before = store.read_bytes() if exists else None
    process = start(store, two[1].results, how)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert (store.read_bytes() if store.exists() else None) == before
    report = ingest(store, two[1].results)
    assert report.runs == (15 if exists else 12)
    assert sorted(path.name for path in tmp_path.glob("s.duckdb*")) == ["s.duckdb", "s.duckdb.lock"]


@pytest.mark.slow
def test_kills_at_any_moment_never_lose_or_double_a_run(
    tmp_path: Path, two: tuple[Any, Any]
) -> None:
    store = tmp_path / "s.duckdb"
    ingest(store, two[0].results)
    began = time.monotonic()
    start(tmp_path / "trial.duckdb", two[1].results).communicate(timeout=60)
    whole = time.monotonic() - began
    chance = random.Random(0)
    for _ in range(50):
        process = start(store, two[1].results)
        time.sleep(chance.uniform(0.3, 1.0) * whole)
        process.kill()
        process.communicate(timeout=60)
        assert state(store)["runs"] in (3, 15)
    assert ingest(store, two[1].results).runs == 15


def test_two_ingests_at_once_both_succeed(tmp_path: Path, two: tuple[Any, Any]) -> None:
    store = tmp_path / "s.duckdb"
    processes = [start(store, one.results) for one in two]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert state(store) == {"runs": 15, "series": 12, "measurements": 90}


def test_a_full_disk_is_told_and_leaves_the_old_store(tmp_path: Path, two: tuple[Any, Any]) -> None:
    store = tmp_path / "s.duckdb"
    ingest(store, two[0].results)
    before = store.read_bytes()
    process = start(store, two[1].results, "disk-full")
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 1, complaint
    assert complaint.startswith(f"told: cannot write the store {store}")
    assert store.read_bytes() == before
    assert not store.with_name("s.duckdb.building").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB, where one may mount it."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("fits", ["nothing", "the copy"])
def test_a_disk_that_is_really_full(
    small_disk: Path, two: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, bulk: bool, fits: str
) -> None:
    store = small_disk / "s.duckdb"
    ingest(store, two[0].results)
    before = store.read_bytes()
    spare = (64 << 10) + (len(before) if fits == "the copy" else 0)
    room = shutil.disk_usage(small_disk).free - spare
    (small_disk / "other").write_bytes(b"x" * room)
    monkeypatch.setattr(local, "_BULK", 0 if bulk else 1 << 40)
    with pytest.raises(InputError, match=r"cannot write the store .*: .*No space left on device"):
        ingest(store, two[1].results)
    assert store.read_bytes() == before
    assert state(store)["runs"] == 3
    assert sorted(path.name for path in small_disk.rglob("*") if path.is_file()) == [
        "other", "s.duckdb", "s.duckdb.lock",
    ]  # fmt: skip
    (small_disk / "other").unlink()
    assert ingest(store, two[1].results).runs == 15


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, history: Any) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write the store"):
        ingest(tmp_path / "file" / "s.duckdb", history.results)
    with pytest.raises(InputError, match="not a regular file"):
        ingest(tmp_path, history.results)


def test_a_linked_store_stays_a_link_and_keeps_its_permissions(
    tmp_path: Path, two: tuple[Any, Any]
) -> None:
    real, link = tmp_path / "real.duckdb", tmp_path / "link.duckdb"
    link.symlink_to(real)
    ingest(link, two[0].results)
    real.chmod(0o640)
    ingest(link, two[1].results)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert state(real)["runs"] == 15
