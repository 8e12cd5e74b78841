"""``lmhead-perf store``: what it tells, what it finds, and stores of earlier versions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dashboard.store import local, open_store, queries, schema
from dashboard.store.ingest import ingest

FRAMES = (
    queries.series, queries.commits, queries.measurements, queries.runs, queries.exported,
)  # fmt: skip


@pytest.fixture
def run(lmhead_perf: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    """Runs `lmhead-perf store` in an empty folder: exit code, stdout, stderr."""
    return partial(lmhead_perf, "store")


@pytest.fixture
def store(tmp_path: Path, history_store: Path) -> Path:
    """A copy of the synthetic history's store."""
    return Path(shutil.copy(history_store, tmp_path / "own.duckdb"))


def change(store: Path, statement: str) -> None:
    """Damage a store."""
    with open_store(store, read_only=False) as opened:
        opened.connection.execute(statement)


def test_init_makes_an_empty_store_once(run: Any, tmp_path: Path) -> None:
    assert run("init", "--store", "s.duckdb") == (0, "", "s.duckdb is ready\n")
    assert run("init", "--store", "s.duckdb") == (0, "", "s.duckdb is there already\n")
    with open_store(tmp_path / "s.duckdb") as opened:
        assert queries.totals(opened) == {"runs": 0, "series": 0, "measurements": 0}
    assert run("check", "--store", "s.duckdb")[0] == 0
    assert run("compact", "--store", "s.duckdb")[0] == 0
    code, out, err = run("init", "--store", "other.duckdb", "--data", "somewhere")
    assert (code, out) == (2, "")
    assert "--data is for ducklake: stores" in err


@pytest.mark.parametrize("command", ["info", "compact", "migrate", "check"])
def test_a_missing_store_is_told(run: Any, command: str) -> None:
    code, out, err = run(command, "--store", "none.duckdb")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no store at none.duckdb" in err


def test_info_tells_what_a_store_holds(run: Any, store: Path) -> None:
    facts = json.loads(run("info", "--store", store, "--json")[1])
    assert (facts["kind"], facts["schema"]) == ("DuckDB", schema.newest())
    counts = [facts[name] for name in ("runs", "series", "measurements", "rounds")]
    assert counts == [4, 6, 24, 72]
    assert facts["machines"] == ["synthetic"]
    assert facts["bytes"] == store.stat().st_size
    assert "machines  synthetic" in run("info", "--store", store)[1]


def test_check_finds_an_equal_store_equal(run: Any, store: Path, history: Any) -> None:
    code, out, _ = run("check", history.results, "--store", store)
    assert (code, out) == (0, "0 problems in 4 runs, 24 measurements, 72 rounds\n")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE measurement SET asv_value = asv_value + 1e-9", "has other values than the store"),
        ("UPDATE round SET samples = samples[:5]", "has other rounds than the store"),
        ("UPDATE round SET reason = 'x'", "has other rounds than the store"),
        ("DELETE FROM round WHERE round = 1", "has 18 rounds, the store 12"),
        ("DELETE FROM measurement", "has 6 values, the store 0"),
        ("DELETE FROM run", "measurements without a run"),
        ("DELETE FROM series", "measurements without a series"),
        ("INSERT INTO measurement FROM measurement", "measurements that are there twice"),
        ("INSERT INTO run FROM run", "runs that are there twice"),
        ("DELETE FROM commit_info", "runs of an unknown commit"),
        ("UPDATE round SET attached = false", "whose rounds are not as many as they say"),
        ("DELETE FROM source_file WHERE kind = 'result'", "is not in the store: ingest it"),
    ],
)
def test_check_finds_damage(run: Any, store: Path, history: Any, damage: str, problem: str) -> None:
    change(store, damage)
    code, out, _ = run("check", history.results, "--store", store, "--json")
    assert code == 1
    assert any(problem in entry["problem"] for entry in json.loads(out)["findings"])


def test_check_names_a_file_that_was_changed_since(
    run: Any, store: Path, history: Any, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(history.results, results)
    changed = results / history.result_file(2).relative_to(history.results)
    changed.write_text(changed.read_text("utf-8") + " ", "utf-8")
    code, out, _ = run("check", results, "--store", store)
    assert code == 1
    assert f"synthetic/{changed.name}: is not in the store: ingest it" in out


def test_compact_keeps_everything(
    run: Any, tmp_path: Path, history: Any, history_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_BULK", 0)
    path, hidden = tmp_path / "s.duckdb", tmp_path / "hidden"
    results = tmp_path / "results"
    shutil.copytree(history.results, results)
    changed = results / history.result_file(2).relative_to(history.results)
    text = changed.read_text("utf-8")
    changed.write_text(text.replace('"python": "3.12"', '"python": "3.11"'), "utf-8")
    ingest(path, results)
    changed.write_text(text, "utf-8")  # replaces a run in the part
    ingest(path, results)
    assert len(local.files_of(path)) == 3
    assert run("compact", "--store", path)[0] == 0
    assert len(local.files_of(path)) == 2
    assert run("check", results, "--store", path)[0] == 0
    with open_store(path) as one, open_store(history_store) as other:
        for frame in FRAMES:
            assert frame(one).equals(frame(other)), frame.__name__
        assert one.connection.execute("FROM dead_run").fetchall() == []
    assert not hidden.exists()


_COLUMNS_OF_BOTH = """
FROM duckdb_columns()
SELECT table_name, list(column_name)
WHERE database_name <> 'new' AND table_name <> 'schema_version'
  AND table_name IN (FROM duckdb_tables() SELECT table_name WHERE database_name = 'new')
GROUP BY ALL
"""


def earlier_store(path: Path, version: int, history_store: Path) -> None:
    """The synthetic history in a store of an earlier schema."""
    with duckdb.connect(str(path)) as old:
        for number, text in schema.migrations():
            if number <= version:
                old.execute(text)
                old.execute("INSERT INTO schema_version VALUES (?, now()::TIMESTAMP)", [number])
        old.execute(f"ATTACH '{history_store}' AS new (READ_ONLY)")
        tables = old.execute(_COLUMNS_OF_BOTH).fetchall()
        for table, columns in tables:
            renamed = [c if c != "sha256" else "digest" for c in columns]
            ours, theirs = (", ".join(f'"{c}"' for c in part) for part in (columns, renamed))
            old.execute(f"INSERT INTO {table} ({ours}) FROM new.main.{table} SELECT {theirs}")


@pytest.mark.parametrize("version", range(1, schema.newest()))
def test_stores_of_earlier_versions_are_migrated(
    run: Any, tmp_path: Path, history: Any, history_store: Path, version: int
) -> None:
    old = tmp_path / "old.duckdb"
    earlier_store(old, version, history_store)
    before = old.read_bytes()
    code, _, err = run("info", "--store", old)
    assert code == 2
    assert f"has schema {version}, this version needs {schema.newest()}" in err
    assert old.read_bytes() == before
    assert run("migrate", "--store", old)[2].endswith(
        f"schema {version} became {schema.newest()}\n"
    )
    with open_store(old) as one, open_store(history_store) as other:
        for frame in FRAMES:
            assert frame(one).equals(frame(other)), frame.__name__
    report = ingest(old, history.results)  # files are known by another digest: read once more
    assert (report.runs, report.measurements) == (4, 24)
    assert run("check", history.results, "--store", old)[0] == 0
    assert ingest(old, history.results).read == 0
