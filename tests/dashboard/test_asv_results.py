"""The reader of asv's JSON, against asv's own reading and against hostile input."""

from __future__ import annotations

import itertools
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.asv_results import AsvValue, read_benchmarks, read_machine, read_results
from dashboard.models import Status
from dashboard.parsing import UnreadableError

DATA = Path(__file__).parent / "data" / "asv"
FILES = sorted(path for path in DATA.glob("*/*/*.json") if path.name != "machine.json")


def document(results: Any, **changes: Any) -> bytes:
    """A results file of format 2 around some rows."""
    whole = {
        "commit_hash": "c" * 40,
        "env_name": "env",
        "date": 1_700_000_000_000,
        "params": {"machine": "box"},
        "python": "3.12",
        "result_columns": ["result", "params", "version", "started_at", "duration"],
        "results": results,
        "version": 2,
    }
    return json.dumps({**whole, **changes}).encode()


def only_values(data: bytes) -> tuple[AsvValue, ...]:
    """The values of the file's only benchmark."""
    (benchmark,) = read_results(data).benchmarks
    return benchmark.values


def asvs_own(path: Path) -> Any:
    """The file as asv itself reads it, updated from the old format where it is old."""
    results = pytest.importorskip("asv.results").Results
    if json.loads(path.read_text("utf-8"))["version"] == 1:
        updated = results.update_to_2(json.loads(path.read_text("utf-8")))
        return {name: dict(zip(updated["result_columns"], row, strict=False))
                for name, row in updated["results"].items()}  # fmt: skip
    loaded = results.load(str(path))
    return {
        name: {
            "result": loaded._results[name],
            "params": loaded._benchmark_params[name],
            "samples": loaded._samples[name],
            "stats": loaded._stats[name],
            "version": loaded._benchmark_version[name],
        }
        for name in loaded.get_all_result_keys()
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.name[:8]}")
def test_every_value_equals_asvs_own_reading(path: Path) -> None:
    theirs = asvs_own(path)
    run = read_results(path.read_bytes())
    assert {benchmark.name for benchmark in run.benchmarks} == set(theirs)
    for benchmark in run.benchmarks:
        expected = theirs[benchmark.name]
        combinations = list(itertools.product(*expected["params"]))
        assert [value.params for value in benchmark.values] == combinations
        assert benchmark.version == expected["version"]
        for index, value in enumerate(benchmark.values):
            results = expected["result"] or []
            result = results[index] if index < len(results) else None
            if result is None:
                assert (value.status, value.value) == (Status.FAILED, None)
            elif math.isnan(result):
                assert (value.status, value.value) == (Status.SKIPPED, None)
            else:
                assert (value.status, value.value) == (Status.OK, result)
            samples = expected.get("samples")
            own = samples[index] if samples is not None else None
            assert value.samples == (None if own is None else tuple(own))
            stats = expected.get("stats")
            if stats is not None and stats[index] is not None:
                assert value.low == stats[index].get("ci_99_a")
                assert value.high == stats[index].get("ci_99_b")


def test_old_format_keeps_intervals() -> None:
    run = read_results((DATA / "v1/machine-a/4ba8de65-virtualenv-py3.7.json").read_bytes())
    measured = [v for b in run.benchmarks for v in b.values if v.status is Status.OK]
    assert measured
    assert any(
        v.low is not None and v.value is not None and v.high is not None
        and v.low <= v.value <= v.high
        for v in measured
    )  # fmt: skip


def test_null_is_failed_nan_is_skipped_and_infinity_stays() -> None:
    row = [[None, math.nan, math.inf, -math.inf, 2], [["1", "2", "3", "4", "5"]]]
    values = only_values(document({"b": row}))
    assert [value.status for value in values] == ["failed", "skipped", "ok", "ok", "ok"]
    assert [value.value for value in values] == [None, None, math.inf, -math.inf, 2.0]


def test_null_result_fails_every_combination() -> None:
    values = only_values(document({"b": [None, [["1", "2"], ["'x'", "'y'", "'z'"]]]}))
    assert len(values) == 6
    assert {value.status for value in values} == {Status.FAILED}


def test_missing_trailing_columns_are_unknown() -> None:
    (benchmark,) = read_results(document({"b": [[1.5]]})).benchmarks
    assert benchmark.values == (AsvValue((), Status.OK, 1.5),)
    assert (benchmark.version, benchmark.started_at, benchmark.duration) == (None, None, None)


def test_unknown_columns_are_left_alone() -> None:
    columns = ["result", "params", "of_tomorrow"]
    data = document({"b": [[1.5], [], {"x": 1}]}, result_columns=columns)
    assert only_values(data)[0].value == 1.5


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b'{"version": 2, "results"', "not JSON"),
        (b"\x00\xff\xfe binary", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"version": ' + b"9" * 5000 + b"}", "number out of range"),
        (b"[1, 2]", "the file is a list"),
        (b"{}", "no 'version'"),
        (document({}, version=3), "file format 3"),
        (document({}, version="2"), "file format '2'"),
        (document([]), "'results' is a list"),
        (document({"b": "text"}), "not a list"),
        (document({"b": [["text"]]}), "not a number"),
        (document({"b": [[10**400]]}), "out of range"),
        (document({"b": [[1.0, 2.0], []]}), "2 results for 1 combinations"),
        (document({"b": [None, [[str(i) for i in range(999)]] * 9]}), "parameter combinations"),
        (document({"b": [[1.0], [], 5]}), "version of b"),
        (document({"b": [[1.0], [], None, 1e300]}), "no time"),
        (document({"b\ud800": [[1.0]]}), "not valid Unicode"),
        (document({}, date=None), "'date' is null"),
        (document({}, commit_hash=7), "'commit_hash'"),
        (document({}, params=[]), "'params'"),
    ],
)
def test_what_cannot_be_read_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        read_results(data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(row=_JSON, key=st.sampled_from(["params", "date", "env_name", "result_columns", "python"]))
def test_any_json_is_read_or_rejected(row: Any, key: str) -> None:
    for data in (
        document({"b": row}),
        document({"b": [[1.0]]}, **{key: row}),
        document({"b": row}, version=1, stats=row, benchmark_version=row),
    ):
        with suppress(UnreadableError):  # any other exception fails the test
            read_results(data)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    for read in (read_results, read_benchmarks, read_machine):
        with suppress(UnreadableError):
            read(data)


def test_environment_of_an_old_file_without_a_name() -> None:
    data = document({"b": 1.0}, version=1, env_name=None, requirements={"numpy": "1.2", "six": ""})
    assert read_results(data).environment == "py3.12-numpy1.2-six"
