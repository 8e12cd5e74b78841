"""Stores beyond one machine: a DuckLake with a real PostgreSQL, and many writers at once."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

import dashboard
from dashboard.errors import InputError
from dashboard.store import lake, maintenance, open_store, queries, schema, stamp
from dashboard.store.ingest import ingest
from dashboard.store.integrity import examine

ROOT = Path(dashboard.__file__).parent.parent
FRAMES = (
    queries.series, queries.commits, queries.measurements, queries.runs, queries.exported,
)  # fmt: skip
WRITER = """
import os, sys, time
from pathlib import Path
from dashboard.store import batch
from dashboard.store.ingest import ingest

store, results, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

def die(*_):
    os.kill(os.getpid(), 9)

for folder in sorted(results.iterdir()):
    ingest(store, folder, progress=die if how == "die" else None)
    how = "die" if how == "die-later" else how
"""
NUMBERS = itertools.count()


def load(name: str) -> ModuleType:
    """A helper module of this folder."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


servers = load("lake_servers")


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    """A PostgreSQL server of this module's own."""
    for extension in ("ducklake", "postgres_scanner", "httpfs"):
        package = pytest.importorskip(f"duckdb_extension_{extension}")
        made_for = Path(package.__path__[0]) / "extensions" / f"v{duckdb.__version__}"
        if not made_for.is_dir():
            pytest.skip(f"{extension} is packaged for another version than {duckdb.__version__}")
    if servers.postgres_programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with servers.postgres(servers.postgres_programs()) as folder:
        yield folder


@pytest.fixture
def catalogue(server: Path) -> str:
    """The address of a lake that is not yet made."""
    return str(servers.create_database(servers.postgres_programs(), server, f"lake{next(NUMBERS)}"))


@pytest.fixture
def address(catalogue: str, tmp_path: Path) -> str:
    """The address of an empty lake with its files in a folder."""
    assert maintenance.initialize(catalogue, str(tmp_path / "lake"))
    return catalogue


def assert_same(one: str | Path, other: str | Path) -> None:
    """Equal tables, times of ingest apart."""
    with open_store(one) as left, open_store(other) as right:
        for frame in FRAMES:
            assert frame(left).equals(frame(right)), frame.__name__
        commit = queries.measured_commits(left)[0].hash
        for number in queries.series(left)["series_id"]:
            rounds = queries.rounds(left, number, commit)
            assert rounds.equals(queries.rounds(right, number, commit))
        commits = [commit.hash for commit in queries.measured_commits(left)]
        pairs = queries.pairs(left, commits[0], commits[-1])
        assert pairs == queries.pairs(right, commits[0], commits[-1])


def test_the_same_queries_give_the_same_answers(
    address: str, history: Any, history_store: Path, tmp_path: Path
) -> None:
    first = ingest(address, history.results)
    assert (first.read, first.runs, first.measurements) == (11, 4, 24)
    assert list((tmp_path / "lake").rglob("*.parquet"))
    assert_same(address, history_store)
    before = stamp(address)
    second = ingest(address, history.results)
    assert (second.read, second.unchanged) == (0, 11)
    assert stamp(address) == before


def test_files_in_object_storage(
    catalogue: str, history: Any, history_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("moto.server")
    with servers.objects() as endpoint:
        servers.create_bucket(endpoint, "history")
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "us-east-1"), ("AWS_ENDPOINT_URL", endpoint),
        ):  # fmt: skip
            monkeypatch.setenv(name, value)
        assert maintenance.initialize(catalogue, "s3://history/lake")
        ingest(catalogue, history.results)
        assert_same(catalogue, history_store)
        assert maintenance.compact(catalogue).after > 0
        assert_same(catalogue, history_store)


def test_a_changed_file_replaces_its_run(address: str, history: Any, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(history.results, results)
    ingest(address, results)
    changed = results / history.result_file(3).relative_to(history.results)
    changed.write_text(changed.read_text("utf-8").replace('"3.12"', '"3.13"'), "utf-8")
    report = ingest(address, results)
    assert (report.read, report.runs, report.measurements) == (1, 4, 24)
    with open_store(address) as store:
        assert len(queries.replaced(store)) == 6
        assert queries.inconsistencies(store) == {}


def test_files_that_are_gone_are_pruned_only_when_told_to(
    address: str, history: Any, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(history.results, results)
    ingest(address, results)
    gone = set()
    for file in (history.result_file(1), history.rounds_file(1)):
        path = file.relative_to(history.results)
        (results / path).unlink()
        gone.add(path.as_posix())
    kept = ingest(address, results)
    assert (set(kept.gone), kept.pruned, kept.runs) == (gone, (), 4)
    pruned = ingest(address, results, prune=True)
    assert (pruned.gone, set(pruned.pruned), pruned.runs) == ((), gone, 3)
    ingest(tmp_path / "rebuilt.duckdb", results)
    assert_same(address, tmp_path / "rebuilt.duckdb")
    with open_store(address) as store:
        assert examine(store, results).findings == ()
        assert len(queries.replaced(store)) == 6
    before = stamp(address)
    assert ingest(address, results, prune=True).pruned == ()
    assert stamp(address) == before


def test_the_store_commands(
    address: str, history: Any, tmp_path: Path, lmhead_perf: Callable[..., tuple[int, str, str]]
) -> None:
    def run(*arguments: object) -> tuple[int, str, str]:
        return lmhead_perf(*arguments, "--store", address)

    assert run("store", "init")[2].endswith("is there already\n")
    for _ in range(2):
        assert run("ingest", history.results)[0] == 0
    facts = json.loads(run("store", "info", "--json")[1])
    assert (facts["kind"], facts["schema"], facts["runs"]) == ("DuckLake", schema.newest(), 4)
    assert facts["bytes"] > 0
    assert run("store", "compact")[0] == 0
    assert run("store", "migrate")[2].endswith(f"has schema {schema.newest()} already\n")
    assert run("store", "check", history.results)[:2] == (
        0,
        "0 problems in 4 runs, 24 measurements, 72 rounds\n",
    )
    assert run("export", "--output", tmp_path / "out.csv")[0] == 0
    assert run("check")[0] == 0


def test_an_earlier_schema_is_migrated(
    catalogue: str, history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = schema.migrations()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: everything[:1])
        maintenance.initialize(catalogue, str(tmp_path / "lake"))
    with pytest.raises(InputError, match="run `lmhead-perf store migrate"):
        open_store(catalogue)
    change = maintenance.migrate(catalogue)
    assert (change.before, change.after) == (1, schema.newest())
    assert ingest(catalogue, history.results).runs == 4


def test_mistakes_are_told_in_one_line(
    catalogue: str, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for action in (
        lambda: open_store(catalogue),
        lambda: ingest(catalogue, history.results),
        lambda: stamp(catalogue),
        lambda: maintenance.initialize(catalogue),
        lambda: open_store("ducklake:postgres:host=/nowhere dbname=none"),
        lambda: ingest("ducklake:postgres:host=/nowhere dbname=none", history.results),
    ):
        with pytest.raises(InputError) as caught:
            action()
        assert "ducklake:postgres:" in str(caught.value)
        assert "\n" not in str(caught.value)
    monkeypatch.setattr(lake, "import_module", _no_module)
    with pytest.raises(InputError, match=r"pip install 'fused-lmhead\[ducklake\]'"):
        open_store(catalogue)


def _no_module(name: str) -> ModuleType:
    raise ModuleNotFoundError(name)


def write_folders(
    base: Path, make_history: Callable[..., Any], recipe: Any, writers: int, runs: int, folders: int
) -> int:
    """For each writer a folder of results folders; how many runs there are in all."""
    for writer in range(writers):
        for count in range(folders):
            made = recipe(
                commits=runs // folders, seed=1000 * writer + count, machine=f"runner-{writer}"
            )
            make_history(base / f"writer-{writer}" / f"{count:03}", made)
    return writers * runs


def race(address: str, base: Path, writers: int, killed: int) -> tuple[list[str], list[int]]:
    """Run the writers, of which one dies midway and is started again, while a reader polls.

    Returns the errors of anyone and the number of runs that the reader saw.
    """
    errors: list[str] = []
    seen: list[int] = []
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            try:
                with open_store(address) as store:
                    seen.append(queries.totals(store)["runs"])
                    assert len(queries.runs(store)) >= seen[-1]
            except Exception as error:  # noqa: BLE001 - whatever it is, the test must tell
                errors.append(f"reader: {error!r}")

    def start(writer: int, how: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", WRITER, address, str(base / f"writer-{writer}"), how],
            cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ},
        )  # fmt: skip

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        processes = [start(w, "die-later" if w == killed else "") for w in range(writers)]
        for writer, process in enumerate(processes):
            _, complaint = process.communicate(timeout=1500)
            expected = -signal.SIGKILL if writer == killed else 0
            if process.returncode != expected or complaint:
                errors.append(f"writer {writer}: {process.returncode} {complaint}")
        again = start(killed, "")
        _, complaint = again.communicate(timeout=600)
        if again.returncode or complaint:
            errors.append(f"writer {killed}: {again.returncode} {complaint}")
    finally:
        done.set()
        reader.join(60)
    return errors, seen


@pytest.mark.parametrize(
    ("writers", "runs", "folders"),
    [(3, 4, 2), pytest.param(8, 50, 10, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
)
def test_many_writers_while_a_reader_polls(
    address: str,
    tmp_path: Path,
    make_history: Callable[..., Any],
    recipe: Any,
    writers: int,
    runs: int,
    folders: int,
) -> None:
    base = tmp_path / "folders"
    expected = write_folders(base, make_history, recipe, writers, runs, folders)
    began = time.monotonic()
    errors, seen = race(address, base, writers, killed=writers - 1)
    print(f"{expected} runs of {writers} writers in {time.monotonic() - began:.0f} s, "
          f"{len(seen)} readings")  # fmt: skip
    assert errors == []
    assert seen == sorted(seen)
    with open_store(address) as store:
        found = queries.runs(store)
        assert len(found) == expected
        assert not found[["machine", "commit"]].duplicated().any()
        assert queries.totals(store)["measurements"] == expected * 6
        assert queries.inconsistencies(store) == {}
