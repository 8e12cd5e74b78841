"""Whose a run is: folders with the same names neither double runs nor replace each other's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dashboard.store import hashes, open_store, queries
from dashboard.store.ingest import ingest

FORWARD = "forward.Forward.track_time"
CONTROL = "control.Control.track_time"


@pytest.fixture
def own(tmp_path: Path, make_history: Callable[..., Any]) -> Any:
    """A synthetic history that the test may change."""
    return make_history(tmp_path / "results")


def keep_only(path: Path, benchmark: str) -> None:
    """Leave one benchmark in a results file."""
    document = json.loads(path.read_text("utf-8"))
    document["results"] = {benchmark: document["results"][benchmark]}
    path.write_text(json.dumps(document), "utf-8")


def test_a_copy_of_the_folder_brings_nothing_twice(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"
    first = ingest(store, own.results)
    shutil.copytree(own.results, tmp_path / "elsewhere")
    second = ingest(store, tmp_path / "elsewhere")
    assert (second.read, second.unchanged) == (0, first.read)
    assert second.measurements == first.measurements


def test_shards_of_one_run_stand_beside_each_other(tmp_path: Path, own: Any) -> None:
    """Two runners with the same machine name measured other benchmarks of the same commit."""
    store, twin = tmp_path / "s.duckdb", tmp_path / "shard"
    shutil.copytree(own.results, twin)
    for results, benchmark in ((own.results, FORWARD), (twin, CONTROL)):
        keep_only(results / own.result_file(3).relative_to(own.results), benchmark)
    assert ingest(store, own.results).runs == 4
    assert ingest(store, twin).runs == 5
    assert ingest(store, own.results).read == 0
    with open_store(store) as opened:
        found = queries.measurements(opened).query("commit == @own.commits[3]")
        names = queries.series(opened).set_index("series_id")["benchmark"]
        assert queries.replaced(opened).empty
    assert set(found["series_id"].map(names)) == {FORWARD, CONTROL}
    assert set(found["rounds"]) == {3}


def test_a_source_replaces_only_its_own(tmp_path: Path, own: Any) -> None:
    store, twin = tmp_path / "s.duckdb", tmp_path / "shard"
    shutil.copytree(own.results, twin)
    keep_only(own.result_file(3), FORWARD)
    ingest(store, own.results)
    ingest(store, twin)  # brings the whole run beside it
    shutil.copy(twin / own.result_file(3).relative_to(own.results), own.result_file(3))
    keep_only(own.result_file(3), CONTROL)
    report = ingest(store, own.results)
    assert (report.read, report.runs) == (1, 5)
    with open_store(store) as opened:
        assert len(queries.replaced(opened)) == 2
        found = queries.measurements(opened).query("commit == @own.commits[3]")
    assert len(found) == 6  # the twin's are all there


def test_a_named_source_may_move(tmp_path: Path, own: Any) -> None:
    store, moved = tmp_path / "s.duckdb", tmp_path / "moved"
    ingest(store, own.results, source="runner")
    shutil.move(own.results, moved)
    keep_only(moved / own.result_file(3).relative_to(own.results), FORWARD)
    report = ingest(store, moved, source="runner")
    assert (report.read, report.runs, report.measurements) == (1, 4, 20)


def test_rounds_are_found_behind_a_shortened_environment_name(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    """asv names the file of an environment of 128 characters or more by a hash."""
    name = pytest.importorskip("asv.results").get_filename
    long = "virtualenv-py3.12" + "-package" * 16
    made = make_history(tmp_path / "results", recipe(environment=long))
    for index in range(4):
        made.result_file(index).rename(made.results / name("synthetic", made.commits[index], long))
    report = ingest(tmp_path / "s.duckdb", made.results)
    assert (report.rejected, report.notes, report.runs) == ((), (), 4)
    with open_store(tmp_path / "s.duckdb") as opened:
        assert set(queries.measurements(opened)["rounds"]) == {3}
        assert set(queries.series(opened)["environment"]) == {long}


def test_rounds_are_found_behind_a_prefixed_name(tmp_path: Path, own: Any) -> None:
    path = own.result_file(0)
    path.rename(path.with_name("prefix-" + path.name))
    assert ingest(tmp_path / "s.duckdb", own.results).notes == ()


def test_unchanged_files_are_not_read_again(
    tmp_path: Path, own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hashes, "_SETTLED_NS", 0)  # the files are seconds old
    ingest(tmp_path / "s.duckdb", own.results)
    read: list[Path] = []
    plain = hashes._digest
    monkeypatch.setattr(hashes, "_digest", lambda path: read.append(path) or plain(path))
    keep_only(own.result_file(2), FORWARD)
    assert ingest(tmp_path / "s.duckdb", own.results).read == 1
    assert read == [own.result_file(2)]


def test_a_file_changed_within_the_same_moment_is_read_again(tmp_path: Path, own: Any) -> None:
    """Its size and times may be those of the content that was read."""
    ingest(tmp_path / "s.duckdb", own.results)
    memory = hashes._load(hashes._memory_of(own.results))
    assert memory == {}


def test_a_broken_or_unwritable_memory_costs_time_only(
    tmp_path: Path, own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    memory = hashes._memory_of(own.results)
    memory.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"format": 1, "files": 5}', '{"format": 99}'):
        memory.write_text(text)
        assert ingest(tmp_path / "s.duckdb", own.results).runs == 4
    monkeypatch.setenv("XDG_CACHE_HOME", str(own.result_file(0)))
    assert ingest(tmp_path / "s.duckdb", own.results).runs == 4


def test_of_runs_that_started_alike_all_queries_take_the_one_with_more_rounds(
    tmp_path: Path, own: Any
) -> None:
    store, twin = tmp_path / "s.duckdb", tmp_path / "twin"
    shutil.copytree(own.results, twin)
    for path in twin.glob("rounds/*.jsonl"):  # the first round of each series, half as long
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        halved = [
            {**row, "value": row["value"] / 2, "samples": [s / 2 for s in row["samples"]]}
            for row in rows
            if row["round"] == 0
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in halved), "utf-8")
    for folder in (twin, own.results):
        ingest(store, folder)
    with duckdb.connect(str(store)) as connection:
        connection.execute("UPDATE measurement SET started_at = TIMESTAMP '2026-01-01'")
    with open_store(store) as opened:
        current = queries.measurements(opened)
        assert set(current["rounds"]) == {3}
        numbers = [int(number) for number in current["series_id"].unique()]
        drawn = queries.points(opened, numbers, own.commits)
        assert (
            drawn["value"].tolist()
            == current.sort_values(["series_id", "position"])["value"].tolist()
        )
        recent = queries.recent_values(opened, "synthetic", own.commits)
        assert sorted(value for values in recent["values"] for value in values) == sorted(
            current["value"]
        )
        assert len(queries.rounds(opened, numbers[0], own.commits[0])) == 3
