"""Ingest: everything goes in once, changes replace, rounds find their results."""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.errors import InputError
from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest

DATA = Path(__file__).parent / "data" / "asv"
FORWARD = "forward.Forward.track_time"


@pytest.fixture
def own(tmp_path: Path, make_history: Callable[..., Any]) -> Any:
    """A synthetic history that the test may change."""
    return make_history(tmp_path / "results")


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a JSON file in place."""
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document), "utf-8")


def fingerprint(path: Path) -> tuple[str, int, int]:
    """The store's bytes and identity as a file."""
    stat = path.stat()
    return hashlib.sha256(path.read_bytes()).hexdigest(), stat.st_ino, stat.st_mtime_ns


@pytest.mark.parametrize("name", ["v1", "nulls", "samples"])
def test_results_of_other_suites_go_in_completely(tmp_path: Path, name: str) -> None:
    store = tmp_path / "s.duckdb"
    report = ingest(store, DATA / name)
    files = list((DATA / name).rglob("*.json"))
    results = [path for path in files if path.name not in ("machine.json", "benchmarks.json")]
    assert (report.read, report.unchanged, report.rejected) == (len(files), 0, ())
    assert report.runs == len(results)
    with open_store(store) as opened:
        assert len(queries.measured_commits(opened)) == len({p.name[:8] for p in results})
        assert len(queries.runs(opened)) == len(results)
        assert queries.series(opened)["params"].map(type).eq(dict).all()


def test_the_second_ingest_reads_and_changes_nothing(tmp_path: Path, history: Any) -> None:
    store = tmp_path / "s.duckdb"
    first = ingest(store, history.results)
    before = fingerprint(store)
    second = ingest(store, history.results)
    assert (second.read, second.unchanged) == (0, first.read)
    assert (second.runs, second.series, second.measurements) == (4, 6, 24)
    assert fingerprint(store) == before


def test_a_rebuilt_store_is_the_same(tmp_path: Path, own: Any) -> None:
    """Built file by file or at once: equal tables, times of ingest apart."""
    grown, built = tmp_path / "grown.duckdb", tmp_path / "built.duckdb"
    hidden = tmp_path / "hidden.json"
    shutil.move(own.result_file(1), hidden)
    ingest(grown, own.results)
    shutil.move(hidden, own.result_file(1))
    ingest(grown, own.results)
    ingest(built, own.results)
    with open_store(grown) as one, open_store(built) as other:
        for table in (queries.series, queries.commits, queries.measurements, queries.exported):
            assert table(one).equals(table(other))


def test_a_value_is_the_median_of_its_rounds(history_store: Path, history: Any) -> None:
    lines = [json.loads(x) for x in history.rounds_file(2).read_text("utf-8").splitlines()]
    with open_store(history_store) as store:
        found = queries.measurements(store)
        known = queries.series(store).set_index("series_id")
        for row in found[found["commit"] == history.commits[2]].itertuples():
            one = known.loc[row.series_id]
            rounds = [
                line["value"]
                for line in lines
                if line["benchmark"] == one["benchmark"] and line["params"]["model"] == one["model"]
            ]
            mean_error = statistics.stdev(rounds) / len(rounds) ** 0.5
            assert row.value == statistics.median(rounds)
            assert row.high - row.value == pytest.approx(4.302653 * mean_error, rel=1e-6)
            assert row.value - row.low == pytest.approx(4.302653 * mean_error, rel=1e-6)
            assert row.rounds == 3


def test_typed_columns_come_from_parameters_and_rounds(history_store: Path) -> None:
    with open_store(history_store) as store:
        rows = queries.series(store).query("benchmark == @FORWARD and model == 'qwen3.6-35b'")
    (row,) = rows.to_dict("records")
    assert (row["tokens"], row["tp"], row["m"], row["h"], row["v"]) == (8192, 1, 8192, 2048, 248320)
    assert (row["family"], row["entropy"], row["unit"]) == ("forward", "off", "ms")
    assert row["params"] == {"model": "qwen3.6-35b", "tokens": "8192", "tp": "1"}
    assert row["label"] == f"{FORWARD}(model=qwen3.6-35b, tokens=8192, tp=1)"


def test_conditions_travel_with_the_measurement(history_store: Path, history: Any) -> None:
    with open_store(history_store) as store:
        row = queries.measurements(store).iloc[0]
        rounds = queries.rounds(store, row["series_id"], row["commit"])
    assert row["clock_event_reasons"] == ["sw_power_cap"]
    assert (row["temperature_c"], row["gpu_uuid"]) == (41.0, "GPU-synthetic")
    assert (row["statistic"], row["protocol"]) == ("median", "graph-paced")
    assert json.loads(row["schedule"]) == {"tile": [128, 256, 64], "stages": 3}
    assert list(rounds["round"]) == [0, 1, 2]
    assert list(rounds["temperature_c"]) == [40.0, 41.0, 42.0]
    assert [len(samples) for samples in rounds["samples"]] == [6, 6, 6]


def test_failed_and_skipped_keep_their_reason(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    outcomes = {(FORWARD, 1): "failed", (FORWARD, 2): "skipped"}
    made = make_history(tmp_path / "results", recipe(outcomes=outcomes))
    ingest(tmp_path / "s.duckdb", made.results)
    with open_store(tmp_path / "s.duckdb") as store:
        found = queries.measurements(store).merge(queries.series(store), on="series_id")
    rows = found[found["benchmark"] == FORWARD].groupby("position")
    assert rows["status"].unique().map(list).tolist() == [["ok"], ["failed"], ["skipped"], ["ok"]]
    assert set(rows.get_group(1)["reason"]) == {"synthetic: failed"}
    assert set(rows.get_group(2)["reason"]) == {"synthetic: skipped"}
    assert rows.get_group(1)["value"].isna().all()


def test_a_changed_file_replaces_its_run_and_is_logged(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"
    ingest(store, own.results)

    def shrink(document: dict[str, Any]) -> None:
        del document["results"][FORWARD]
        document["results"]["control.Control.track_time"] = [[5.0, 6.0], [["'a'", "'b'"]], "2"]

    rewrite(own.result_file(3), shrink)
    report = ingest(store, own.results)
    assert (report.read, report.runs, report.measurements) == (1, 4, 22)
    with open_store(store) as opened:
        rows = queries.measurements(opened).query("commit == @own.commits[3]")
        assert sorted(rows["value"])[:2] == [5.0, 6.0]
        log = queries.ingest_log(opened)
        replaced = queries.replaced(opened)
    assert list(log[log["status"] == "replaced"]["path"]) == [
        own.result_file(3).relative_to(own.results).as_posix()
    ]
    assert len(replaced) == 6


def test_rounds_whose_samples_are_not_asvs_are_kept_apart(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"

    def other_samples(document: dict[str, Any]) -> None:
        row = document["results"][FORWARD]
        row[0], row[12 - 1][0] = [1.0, row[0][1]], [1.0, 1.0]

    rewrite(own.result_file(0), other_samples)
    report = ingest(store, own.results)
    ((path, note),) = report.notes
    assert path == own.rounds_file(0).relative_to(own.results).as_posix()
    assert note == "3 of 18 rounds kept but not attached: their samples are not those asv stored"
    with open_store(store) as opened:
        rows = queries.measurements(opened).query("commit == @own.commits[0] and rounds == 0")
        assert list(rows["value"]) == [1.0]
        assert queries.rounds(opened, rows["series_id"].iloc[0], own.commits[0]).empty
        totals = store_rounds(opened)
    assert totals == {True: 69, False: 3}


def store_rounds(store: Any) -> dict[bool, int]:
    """How many rounds are attached and how many are not."""
    rows = store.connection.execute("SELECT attached, count(*) FROM round GROUP BY ALL")
    return dict(rows.fetchall())


def test_rounds_before_their_results_wait_for_them(tmp_path: Path, own: Any) -> None:
    store = tmp_path / "s.duckdb"
    away = tmp_path / "away.json"
    shutil.move(own.result_file(0), away)
    report = ingest(store, own.results)
    assert report.notes[0][1] == "18 rounds kept but not attached: asv has no results for them"
    shutil.move(away, own.result_file(0))
    report = ingest(store, own.results)
    assert (report.read, report.unchanged, report.notes) == (1, 10, ())
    with open_store(store) as opened:
        assert store_rounds(opened) == {True: 72}


def test_a_later_invocation_counts_and_appended_ones_are_pooled(tmp_path: Path, own: Any) -> None:
    lines = [json.loads(x) for x in own.rounds_file(0).read_text("utf-8").splitlines()]
    again = [{**line, "run": "later", "samples": [x + 1 for x in line["samples"]],
              "value": line["value"] and line["value"] + 1} for line in lines]  # fmt: skip
    with own.rounds_file(0).open("a", encoding="utf-8") as handle:
        handle.writelines(json.dumps(line) + "\n" for line in again)

    def append_forward(document: dict[str, Any]) -> None:
        row = document["results"][FORWARD]
        row[11] = [samples + [x + 1 for x in samples] for samples in row[11]]

    rewrite(own.result_file(0), append_forward)
    ingest(tmp_path / "s.duckdb", own.results)
    with open_store(tmp_path / "s.duckdb") as opened:
        found = queries.measurements(opened).query("commit == @own.commits[0]")
        known = queries.series(opened).set_index("series_id")["benchmark"]
    counts = dict(zip(found["series_id"].map(known), found["rounds"], strict=True))
    assert counts[FORWARD] == 6
    assert counts["control.Control.track_time"] == 3


def test_rounds_of_a_replaced_invocation_are_kept_silently(tmp_path: Path, own: Any) -> None:
    text = own.rounds_file(0).read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    earlier = [{**line, "run": "earlier", "samples": [1.0], "value": 1.0} for line in lines]
    own.rounds_file(0).write_text(
        "".join(json.dumps(line) + "\n" for line in earlier) + text, "utf-8"
    )
    report = ingest(tmp_path / "s.duckdb", own.results)
    assert report.notes == ()
    with open_store(tmp_path / "s.duckdb") as opened:
        assert store_rounds(opened) == {True: 72, False: 18}


def test_what_was_not_selected_is_no_measurement(tmp_path: Path, own: Any) -> None:
    """NaN without a skipped round beside it; in a run without rounds nobody can tell."""

    def select_less(document: dict[str, Any]) -> None:
        row = document["results"][FORWARD]
        row[1][0].append("'never-selected'")
        row[0].append(float("nan"))
        row[11].append(None)

    rewrite(own.result_file(0), select_less)
    assert ingest(tmp_path / "s.duckdb", own.results).measurements == 24
    own.rounds_file(0).unlink()
    assert ingest(tmp_path / "other.duckdb", own.results).measurements == 25
    with open_store(tmp_path / "other.duckdb") as opened:
        assert "never-selected" not in set(queries.series(opened)["model"])
        assert len(queries.pairs(opened, own.commits[0], own.commits[1])) == 6


def test_new_definitions_rename_parameters_of_old_series(tmp_path: Path) -> None:
    results, store = tmp_path / "results", tmp_path / "s.duckdb"
    shutil.copytree(DATA / "v1", results)
    (results / "benchmarks.json").unlink()
    ingest(store, results)
    with open_store(store) as opened:
        before = queries.series(opened).query(
            "benchmark == 'benchmarks.AdvectionDiffusionSuite.time_run'"
        )
    assert {tuple(params) for params in before["params"]} == {("param1", "param2")}
    assert before["unit"].isna().all()
    shutil.copy(DATA / "v1" / "benchmarks.json", results)
    ingest(store, results)
    with open_store(store) as opened:
        after = queries.series(opened).query(
            "benchmark == 'benchmarks.AdvectionDiffusionSuite.time_run'"
        )
    assert {tuple(params) for params in after["params"]} == {("size", "backend")}
    assert set(after["unit"]) == {"seconds"}
    assert set(after["series_id"]) == set(before["series_id"])


def test_two_files_of_one_run_count_once(tmp_path: Path, own: Any) -> None:
    twin = own.result_file(0).with_name("prefix-" + own.result_file(0).name)
    twin.write_text(own.result_file(0).read_text("utf-8") + "\n", "utf-8")
    report = ingest(tmp_path / "s.duckdb", own.results)
    assert report.runs == 5
    with open_store(tmp_path / "s.duckdb") as opened:
        assert len(queries.measurements(opened)) == 24


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name, problem in (("empty", "no asv results"), ("none", "no results folder"),
                          ("file", "is not a folder")):  # fmt: skip
        with pytest.raises(InputError, match=problem):
            ingest(tmp_path / "s.duckdb", tmp_path / name)
    assert not (tmp_path / "s.duckdb").exists()


@pytest.mark.parametrize("infinite", [2, 3])
def test_a_round_without_a_finite_value_does_not_undo_a_result(
    tmp_path: Path, own: Any, infinite: int
) -> None:
    """Two infinite rounds of three made the median infinite, and the series a failure."""
    path = own.rounds_file(0)
    lines = path.read_text("utf-8").splitlines()
    for index in range(infinite):
        lines[index] = json.dumps({**json.loads(lines[index]), "value": float("inf")})
    first = json.loads(lines[0])
    path.write_text("".join(line.replace("Infinity", "1e999") + "\n" for line in lines), "utf-8")
    ingest(tmp_path / "s.duckdb", own.results)
    with open_store(tmp_path / "s.duckdb") as opened:
        names = queries.series(opened).set_index("series_id")
        found = (
            queries.measurements(opened)
            .query("commit == @own.commits[0]")
            .join(names[["benchmark", "model"]], on="series_id")
        )
    (row,) = found[
        (found["benchmark"] == first["benchmark"]) & (found["model"] == first["params"]["model"])
    ].to_dict("records")
    assert (row["status"], row["rounds"]) == ("ok", 3)
    assert row["value"] == pytest.approx(13, rel=0.01)
