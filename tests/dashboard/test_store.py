"""The store: opening, migrating, refusing, and queries on an empty one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from dashboard.errors import InputError
from dashboard.models import Status
from dashboard.store import connect, open_store, queries, schema
from dashboard.store.ingest import ingest

COLUMNS = {
    queries.series: "series_id benchmark family model tokens tp m h v entropy machine environment "
    "unit higher_is_better params label",
    queries.commits: "commit position date author subject parents tags tree measured",
    queries.measurements: "series_id commit position commit_date author subject value low high "
    "rounds status reason started_at version gpu gpu_uuid driver torch triton sm_clock_mhz "
    "power_w temperature_c clock_event_reasons schedule statistic protocol",
    queries.runs: "machine environment commit subject commit_date started_at series failed "
    "skipped gpu driver torch triton",
    queries.ingest_log: "path kind status reason ingested_at rows",
}


@pytest.mark.parametrize("query", COLUMNS, ids=lambda query: query.__name__)
def test_frames_have_their_columns_even_when_empty(
    tmp_path: Path, history_store: Path, query: Any
) -> None:
    with open_store(tmp_path / "empty.duckdb", read_only=False) as store:
        empty = query(store)
    with open_store(history_store) as store:
        full = query(store)
    assert list(empty.columns)[: len(COLUMNS[query].split())] == COLUMNS[query].split()
    assert list(empty.columns) == list(full.columns)
    assert empty.empty
    assert not full.empty


def test_times_are_utc(history_store: Path) -> None:
    with open_store(history_store) as store:
        found = queries.measurements(store)
    assert isinstance(found["started_at"].dtype, pd.DatetimeTZDtype)
    assert str(found["commit_date"].dt.tz) == "UTC"
    assert found["commit_date"].min() == pd.Timestamp("2026-01-01", tz="UTC")


def test_measurements_of_some_series(history_store: Path) -> None:
    with open_store(history_store) as store:
        wanted = list(queries.series(store)["series_id"])[:2]
        assert set(queries.measurements(store, wanted)["series_id"]) == set(wanted)
        assert queries.measurements(store, []).empty


def test_commits_come_in_graph_order(history_store: Path, history: Any) -> None:
    with open_store(history_store) as store:
        frame = queries.commits(store)
        assert tuple(frame["commit"]) == history.commits
        assert list(frame["position"]) == [0, 1, 2, 3]
        assert frame["measured"].all()
        assert frame["parents"][1] == [history.commits[0]]
        assert frame["tags"][0] == ["v0.1"]
        records = queries.measured_commits(store)
        assert tuple(commit.hash for commit in records) == history.commits
        assert queries.measured_commits(store, "nobody's") == []


def test_pairs_have_both_sides_with_rounds(history_store: Path, history: Any) -> None:
    with open_store(history_store) as store:
        pairs = queries.pairs(store, history.commits[0], history.commits[3])
        assert queries.pairs(store, history.commits[0], history.commits[3], "nobody's") == []
        half = queries.pairs(store, history.commits[0], "0" * 40)
    assert len(pairs) == 6
    for pair in pairs:
        assert pair.base is not None
        assert pair.head is not None
        assert (pair.base.commit, pair.head.commit) == (history.commits[0], history.commits[3])
        assert pair.head.status is Status.OK
        assert [len(entry.samples) for entry in pair.head.rounds] == [6, 6, 6]
        assert pair.head.rounds[0].clock_event_reasons == ("sw_power_cap",)
        assert pair.head.gpu == "synthetic GPU"
    assert [pair.head for pair in half] == [None] * 6


def test_a_missing_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no store at"):
        open_store(tmp_path / "none.duckdb")


def test_files_that_are_no_stores_are_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database" * 1000)
    with pytest.raises(InputError, match="not a readable store"):
        open_store(tmp_path / "text")
    duckdb.connect(str(tmp_path / "other.duckdb")).close()
    with pytest.raises(InputError, match="not a store of lmhead-perf"):
        open_store(tmp_path / "other.duckdb")


def test_odd_file_names_are_just_names(tmp_path: Path) -> None:
    path = tmp_path / 'it\'s; a "store".duckdb'
    open_store(path, read_only=False).close()
    assert path.is_file()
    with open_store(path) as store:
        assert queries.totals(store)["runs"] == 0


def test_a_lake_that_is_not_there_is_told() -> None:
    with pytest.raises(InputError, match="ducklake"):
        open_store("ducklake:postgres:dbname=x")


def test_a_newer_schema_is_refused(tmp_path: Path, history: Any) -> None:
    path = tmp_path / "s.duckdb"
    with open_store(path, read_only=False) as store:
        store.connection.execute("INSERT INTO schema_version VALUES (99, now()::TIMESTAMP)")
    for read_only in (True, False):
        with pytest.raises(InputError, match="newer than this version"):
            open_store(path, read_only=read_only)


def test_an_older_schema_is_migrated_by_ingest(
    tmp_path: Path, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.duckdb"
    ingest(path, history.results)
    newest = schema.migrations()
    later = [*newest, (newest[-1][0] + 1, "CREATE TABLE of_tomorrow (x INTEGER)")]
    monkeypatch.setattr(schema, "migrations", lambda: later)
    with pytest.raises(InputError, match="run `lmhead-perf store migrate"):
        open_store(path)
    report = ingest(path, history.results)
    assert (report.read, report.measurements) == (0, 24)
    with open_store(path) as store:
        assert store.connection.execute("SELECT * FROM of_tomorrow").fetchall() == []


# How an ingest reads lines and writes tables, what a connection makes of the schema, a lock.
OWN_SQL = ("lake.py", "lines.py", "schema.py", "tables.py")


def test_every_select_is_in_queries_and_none_is_built_from_text() -> None:
    package = Path(connect.__file__).parent.parent
    reading = re.compile(r'"SELECT |"""\s*(SELECT|WITH) ')
    found = 0
    for path in package.rglob("*.py"):
        text = path.read_text("utf-8")
        if path.parent.name == "queries":
            found += len(reading.findall(text))
            assert not re.search(r'f"""|f"SELECT|\.format\(', text), path
        elif path.name not in OWN_SQL:
            assert not reading.search(text), path
    assert found > 15


def test_the_documented_schema_is_the_real_one(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.duckdb", read_only=False) as store:
        real = store.connection.execute(
            "FROM duckdb_columns() SELECT table_name, column_name, data_type, is_nullable "
            "WHERE database_name = 'store'"
        ).fetchall()
    documented = set()
    table = ""
    for line in (Path(connect.__file__).parent / "SCHEMA.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            table = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith(("| column", "| ---")):
            column, kind, _ = [cell.strip() for cell in line.strip("|").split("|")][:3]
            documented.add(
                (table, column, *(kind.removesuffix(", never NULL"), ", never" not in kind))
            )
    assert documented == set(real)


@pytest.mark.parametrize("content", ["{}", "", "no database"])
def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path, history: Any, content: str) -> None:
    other = tmp_path / "asv.conf.json"
    other.write_text(content)
    with pytest.raises(InputError, match=r"asv\.conf\.json is not a readable store"):
        ingest(other, history.results)
    assert other.read_text() == content
    assert [path.name for path in tmp_path.iterdir()] == ["asv.conf.json"]


def test_another_database_is_left_alone(tmp_path: Path, history: Any) -> None:
    duckdb.connect(str(tmp_path / "other.duckdb")).close()
    with pytest.raises(InputError, match="is a database, but not a store"):
        ingest(tmp_path / "other.duckdb", history.results)
    assert [path.name for path in tmp_path.iterdir()] == ["other.duckdb"]


def test_a_folder_where_the_store_is_built_is_named(tmp_path: Path, history: Any) -> None:
    (tmp_path / "s.duckdb.building").mkdir()
    with pytest.raises(InputError, match=r"s\.duckdb\.building is in the way"):
        ingest(tmp_path / "s.duckdb", history.results)
    assert not (tmp_path / "s.duckdb").exists()
