"""Large stores: parts beside the store that readers cannot tell from one file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.errors import InputError
from dashboard.store import local, open_store, queries
from dashboard.store.ingest import ingest

FRAMES = (
    queries.series, queries.commits, queries.measurements, queries.runs, queries.exported,
)  # fmt: skip


@pytest.fixture
def own(tmp_path: Path, make_history: Callable[..., Any]) -> Any:
    """A synthetic history that the test may change."""
    return make_history(tmp_path / "results")


@pytest.fixture
def always_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ingest goes to a part of its own."""
    monkeypatch.setattr(local, "_BULK", 0)


def parts(store: Path) -> list[Path]:
    """The store's part files."""
    return local.files_of(store)[1:]


def assert_same(one: Path, other: Path) -> None:
    """Equal tables, times of ingest apart."""
    with open_store(one) as left, open_store(other) as right:
        for frame in FRAMES:
            assert frame(left).equals(frame(right)), frame.__name__
        commit = queries.measured_commits(left)[0].hash
        for number in queries.series(left)["series_id"]:
            assert queries.rounds(left, number, commit).equals(
                queries.rounds(right, number, commit)
            )


def test_a_store_in_parts_reads_as_one(
    tmp_path: Path, own: Any, history_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, hidden = tmp_path / "s.duckdb", tmp_path / "hidden.json"
    monkeypatch.setattr(local, "_BULK", 0)
    own.result_file(1).rename(hidden)
    ingest(store, own.results)
    hidden.rename(own.result_file(1))
    ingest(store, own.results)
    assert len(parts(store)) == 2
    ingest(tmp_path / "one.duckdb", own.results)
    monkeypatch.setattr(local, "_BULK", 1 << 40)
    ingest(tmp_path / "plain.duckdb", own.results)
    assert_same(store, tmp_path / "plain.duckdb")
    assert_same(store, tmp_path / "one.duckdb")


@pytest.mark.usefixtures("always_bulk")
def test_a_run_replaced_in_a_part_is_gone_and_logged(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"
    ingest(store, own.results)
    text = own.result_file(3).read_text("utf-8")
    own.result_file(3).write_text(text.replace('"python": "3.12"', '"python": "3.13"'), "utf-8")
    report = ingest(store, own.results)
    assert (report.read, report.runs, report.measurements) == (1, 4, 24)
    with open_store(store) as opened:
        assert len(queries.replaced(opened)) == 6
        assert not queries.measurements(opened)[["series_id", "commit"]].duplicated().any()


def test_a_store_that_grows_large_moves_its_rows_to_a_part(
    tmp_path: Path, own: Any, history_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "s.duckdb"
    monkeypatch.setattr(local, "_LARGEST_STORE", 0)
    ingest(store, own.results)
    assert len(parts(store)) == 1
    with open_store(store) as opened:
        assert opened.connection.execute("FROM store.main.measurement").fetchall() == []
    ingest(tmp_path / "again.duckdb", own.results)
    assert_same(store, history_store)


@pytest.mark.usefixtures("always_bulk")
def test_a_killed_bulk_ingest_leaves_nothing_behind(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom dashboard.store import local\n"
        "from dashboard.store.ingest import ingest\nlocal._BULK = 0\n"
        "local.os.fsync = lambda *_: os.kill(os.getpid(), 9)\n"
        "ingest(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    root = Path(local.__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program, store, own.results], cwd=root, env={**os.environ}
    )
    assert done.returncode == -9
    assert not store.exists()
    assert len(parts(store)) == 1
    assert ingest(store, own.results).runs == 4
    assert len(parts(store)) == 1


@pytest.mark.usefixtures("always_bulk")
def test_a_failed_bulk_ingest_leaves_nothing_behind(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"

    def fail(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(store, own.results, progress=fail)
    assert parts(store) == []
    assert not store.exists()


@pytest.mark.usefixtures("always_bulk")
def test_a_lost_part_is_told(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"
    ingest(store, own.results)
    parts(store)[0].unlink()
    with pytest.raises(InputError, match="lacks its part"):
        open_store(store)
