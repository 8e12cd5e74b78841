"""Files that cannot be read are rejected by name; the rest goes in, and nothing is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest


@pytest.fixture
def own(tmp_path: Path, make_history: Callable[..., Any]) -> Any:
    """A synthetic history that the test may change."""
    return make_history(tmp_path / "results")


HOSTILE = {
    "truncated.json": b'{"commit_hash": "abc", "resul',
    "binary.json": bytes(range(256)),
    "deep.json": b"[" * 200_000 + b"]" * 200_000,
    "huge.json": b'{"version": 2, "date": ' + b"9" * 10_000 + b"}",
    "empty.json": b"",
    "list.json": b"[]",
    "surrogate.json": b'{"version": 2, "commit_hash": "\\ud800", "date": 1, "params": {},'
    b' "results": {}, "result_columns": []}',
    "nan-field.json": b'{"version": 2, "commit_hash": "a", "date": 1, "params": {"x": NaN},'
    b' "results": {}, "result_columns": [], "env_name": "e"}',
    "'; DROP TABLE run; --.json": b"{}",
    "new\nline.json": b"{}",
}


def test_each_is_rejected_by_name_and_the_rest_goes_in(tmp_path: Path, own: Any) -> None:
    folder = own.results / own.machine
    for name, data in HOSTILE.items():
        (folder / name).write_bytes(data)
    report = ingest(tmp_path / "s.duckdb", own.results)
    assert {path for path, _ in report.rejected} == {f"{own.machine}/{name}" for name in HOSTILE}
    assert all(reason for _, reason in report.rejected)
    assert (report.runs, report.measurements) == (4, 24)
    again = ingest(tmp_path / "s.duckdb", own.results)
    assert (again.read, again.unchanged) == (0, 11)
    assert again.rejected == report.rejected
    with open_store(tmp_path / "s.duckdb") as store:
        log = queries.ingest_log(store).query("status == 'rejected'")
    assert len(log) == len(HOSTILE)


def test_names_that_are_not_text_and_files_that_are_not_files(tmp_path: Path, own: Any) -> None:
    folder = os.fsencode(own.results / own.machine)
    Path(os.fsdecode(folder + b"/\xff\xfe.json")).write_bytes(b"{}")
    os.mkfifo(own.results / own.machine / "pipe.json")
    (own.results / own.machine / "dangling.json").symlink_to("nowhere")
    report = ingest(tmp_path / "s.duckdb", own.results)
    reasons = dict(report.rejected)
    assert reasons[f"{own.machine}/pipe.json"] == "not a regular file"
    assert reasons[f"{own.machine}/dangling.json"] == "not a regular file"
    assert reasons[f"{own.machine}/\\xff\\xfe.json"].startswith("no 'version'")
    assert report.runs == 4


def test_bad_lines_of_rounds_are_named_and_the_others_count(tmp_path: Path, own: Any) -> None:
    lines = own.rounds_file(0).read_text("utf-8").splitlines()
    broken = [lines[0][:50], '{"schema": 99}', *lines[1:]]
    own.rounds_file(0).write_text("\n".join(broken), "utf-8")
    report = ingest(tmp_path / "s.duckdb", own.results)
    reasons = dict(report.rejected)
    reason = reasons[own.rounds_file(0).relative_to(own.results).as_posix()]
    assert reason.startswith("line 1: not JSON")
    assert reason.endswith("and 1 more; 17 lines went in")
    assert report.measurements == 24


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("samples", ["x"]),
        ("samples", 5),
        ("status", "fine"),
        ("status", ["ok"]),
        ("params", None),
        ("round", 2**70),
        ("started_at", "yesterday"),
        ("clock_event_reasons", 1),
        ("clock_event_reasons", [None]),
        ("higher_is_better", "maybe"),
        ("schedule", {"tile": float("nan")}),
        ("m", 1.5),
        ("round", 2**40),
        ("started_at", "20000-01-01T00:00:00+00:00"),
        ("machine", None),
        ("gpu", "\ud800"),
    ],
)
def test_a_bad_field_of_a_round_rejects_its_line(
    tmp_path: Path, own: Any, key: str, value: Any
) -> None:
    lines = own.rounds_file(0).read_text("utf-8").splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), key: value})
    own.rounds_file(0).write_text("\n".join(lines), "utf-8")
    report = ingest(tmp_path / "s.duckdb", own.results)
    ((_, reason),) = report.rejected
    assert reason.startswith("line 1: ")


def test_a_file_that_became_unreadable_loses_nothing(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"
    ingest(store, own.results)
    own.result_file(1).write_text("{", "utf-8")
    report = ingest(store, own.results)
    assert len(report.rejected) == 1
    assert (report.runs, report.measurements) == (4, 24)


def test_a_field_that_cannot_be_stored_rejects_the_file_alone(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"
    ingest(store, own.results)
    document = json.loads(own.result_file(1).read_text("utf-8"))
    document["params"]["ram"] = float("nan")
    own.result_file(1).write_text(json.dumps(document), "utf-8")
    with own.rounds_file(1).open("a", encoding="utf-8") as handle:
        handle.write("\n")
    report = ingest(store, own.results)
    ((path, reason),) = report.rejected
    assert path == own.result_file(1).relative_to(own.results).as_posix()
    assert reason.startswith("the environment has no JSON form")
    assert (report.read, report.runs, report.measurements) == (1, 4, 24)


def test_broken_side_files_are_rejected_too(tmp_path: Path, own: Any) -> None:
    for name in ("benchmarks.json", f"{own.machine}/machine.json", "commits.jsonl"):
        (own.results / name).write_text("{", "utf-8")
    report = ingest(tmp_path / "s.duckdb", own.results)
    assert {path for path, _ in report.rejected} == {
        "benchmarks.json",
        f"{own.machine}/machine.json",
        "commits.jsonl",
    }
    assert report.measurements == 24
    with open_store(tmp_path / "s.duckdb") as store:
        assert set(queries.commits(store)["known_by"]) == {"date"}
        assert set(queries.series(store)["model"]) == {"nemotron-super", "qwen3.6-35b"}


def test_a_number_where_text_belongs_is_kept_as_its_text(tmp_path: Path, own: Any) -> None:
    lines = own.rounds_file(0).read_text("utf-8").splitlines()
    changed = [json.dumps({**json.loads(line), "driver": 570}) for line in lines]
    own.rounds_file(0).write_text("\n".join(changed), "utf-8")
    assert ingest(tmp_path / "s.duckdb", own.results).rejected == ()
    with open_store(tmp_path / "s.duckdb") as store:
        found = queries.measurements(store).query("commit == @own.commits[0]")
    assert set(found["driver"]) == {"570"}


@pytest.mark.parametrize("name", ["with[brackets]?*.jsonl", 'it\'s "quoted".jsonl', "{a,b}.jsonl"])
def test_names_of_rounds_files_are_never_patterns(tmp_path: Path, own: Any, name: str) -> None:
    own.rounds_file(0).rename(own.results / "rounds" / name)
    report = ingest(tmp_path / "s.duckdb", own.results)
    assert (report.rejected, report.notes, report.measurements) == ((), (), 24)
    with open_store(tmp_path / "s.duckdb") as store:
        assert set(queries.measurements(store)["rounds"]) == {3}


def test_zones_of_times_are_heeded(tmp_path: Path, own: Any) -> None:
    lines = own.rounds_file(0).read_text("utf-8").splitlines()
    time = "2026-01-01T05:30:00+05:30"
    changed = [json.dumps({**json.loads(line), "started_at": time}) for line in lines]
    own.rounds_file(0).write_text("\n".join(changed), "utf-8")
    ingest(tmp_path / "s.duckdb", own.results)
    with open_store(tmp_path / "s.duckdb") as store:
        found = queries.measurements(store).query("commit == @own.commits[0]")
    assert {time.isoformat() for time in found["started_at"]} == {"2026-01-01T00:00:00+00:00"}
