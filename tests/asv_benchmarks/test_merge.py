"""Merging results: the shipped ones taken apart by series, and put together again."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from asv_benchmarks.merge import Counts, main, merge

SHIPPED = Path(__file__).resolve().parents[2] / "asv_benchmarks" / "results"
COMMIT = "ac9ea960"


@pytest.fixture
def halves(tmp_path: Path) -> tuple[Path, Path]:
    """The shipped results of one commit: the control and the rest of the families, apart."""
    for half in ("control", "others"):
        folder = tmp_path / half
        (folder / "rounds").mkdir(parents=True)
        (folder / "h200").mkdir()
        for name in ("benchmarks.json", "commits.jsonl", "h200/machine.json"):
            shutil.copy(SHIPPED / name, folder / name)
        for path in SHIPPED.glob(f"rounds/{COMMIT}*"):
            lines = path.read_text().splitlines()
            chosen = [line for line in lines if belongs(json.loads(line)["benchmark"], half)]
            (folder / "rounds" / path.name).write_text("\n".join(chosen) + "\n")
        for path in SHIPPED.glob(f"h200/{COMMIT}*"):
            stored = json.loads(path.read_text())
            stored["results"] = {k: v for k, v in stored["results"].items() if belongs(k, half)}
            (folder / "h200" / path.name).write_text(json.dumps(stored))
    return tmp_path / "control", tmp_path / "others"


def belongs(benchmark: str, half: str) -> bool:
    return benchmark.startswith("control") == (half == "control")


def results(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob(f"h200/{COMMIT}*")
    stored = json.loads(path.read_text())
    return {
        name: dict(zip(stored["result_columns"], row, strict=False))
        for name, row in stored["results"].items()
    }


def test_halves_merge_to_the_whole_once(halves: tuple[Path, Path], tmp_path: Path) -> None:
    into = tmp_path / "into"
    assert merge([halves[0]], into) == [Counts(rounds=12, series=6)]
    assert merge([halves[1]], into) == [Counts(rounds=48, series=24)]
    assert merge(halves, into) == [Counts(), Counts()]
    whole = (SHIPPED / "rounds").glob(f"{COMMIT}*")
    for path in whole:
        merged = (into / "rounds" / path.name).read_text().splitlines()
        assert sorted(merged) == sorted(path.read_text().splitlines())
    before, after = results(SHIPPED), results(into)
    assert set(after) == set(before)
    for name in before:
        assert same(after[name]["result"], before[name]["result"])
        assert after[name]["samples"] == before[name]["samples"]
        assert after[name]["version"] == before[name]["version"]


def same(one: list[Any], other: list[Any]) -> bool:
    """The same values and the same gaps: asv keeps five digits."""
    return one == pytest.approx(other, rel=1e-4, nan_ok=True)


def test_two_shards_of_one_benchmark_merge(halves: tuple[Path, Path], tmp_path: Path) -> None:
    (path,) = halves[0].glob(f"h200/{COMMIT}*")
    stored = json.loads(path.read_text())
    column = stored["result_columns"].index("result")
    (row,) = stored["results"].values()
    present = [i for i, value in enumerate(row[column]) if not math.isnan(value)]
    other = tmp_path / "other"
    shutil.copytree(halves[0], other)
    for folder, lacking in ((halves[0], present[:3]), (other, present[3:])):
        thinned = json.loads(path.read_text()) if folder == other else stored
        (values,) = thinned["results"].values()
        for index in lacking:
            for cell in range(len(values)):
                if isinstance(values[cell], list) and len(values[cell]) == len(row[column]):
                    values[cell][index] = math.nan if cell == column else None
        if folder == other:
            (other / "h200" / path.name).write_text(json.dumps(thinned))
    path.write_text(json.dumps(stored))
    into = tmp_path / "into"
    merge([halves[0], other], into)
    (merged,) = results(into).values()
    assert same(merged["result"], results(SHIPPED)["control.Control.track_time"]["result"])


def of_version(half: Path, version: str) -> None:
    described = half / "benchmarks.json"
    changed = json.loads(described.read_text())
    changed["control.Control.track_time"]["version"] = version
    described.write_text(json.dumps(changed))


def test_versions_that_cannot_be_ordered_are_refused(
    halves: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_version(halves[1], "another")
    assert main([str(halves[0]), str(halves[1]), str(tmp_path / "into")]) == 1
    words = capsys.readouterr().err
    assert "control.Control.track_time is version 1" in words
    assert "Traceback" not in words


@pytest.mark.parametrize("order", [1, -1])
def test_a_later_description_stays_whichever_comes_first(
    order: int, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    of_version(halves[0], "9")
    of_version(halves[1], "10")
    assert main([*map(str, halves[::order]), str(tmp_path / "into")]) == 0
    merged = json.loads((tmp_path / "into" / "benchmarks.json").read_text())
    assert merged["control.Control.track_time"]["version"] == "10"


def changed_copy(half: Path, folder: Path, factor: float, later_ms: int) -> Path:
    """A copy whose control has other samples, of a benchmark that was started later."""
    shutil.copytree(half, folder)
    (path,) = folder.glob(f"h200/{COMMIT}*")
    stored = json.loads(path.read_text())
    (row,) = stored["results"].values()
    column = stored["result_columns"].index
    row[column("samples")] = [
        many and [factor * value for value in many] for many in row[column("samples")]
    ]
    row[column("result")] = [None if v is None else factor * v for v in row[column("result")]]
    row[column("started_at")] += later_ms
    path.write_text(json.dumps(stored))
    return folder


@pytest.mark.parametrize("later_ms", [-1000, 1000])
def test_of_two_measurements_the_one_started_last_counts(
    later_ms: int, halves: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = changed_copy(halves[0], tmp_path / "other", 2.0, later_ms)
    for order in ((halves[0], other), (other, halves[0])):
        into = tmp_path / f"into {order[0].name}"
        assert main([*map(str, order), str(into)]) == 0
        said = capsys.readouterr().err
        newest = other if later_ms > 0 else halves[0]
        assert ("6 stay" in said) == (newest is order[0])
        (merged,) = results(into).values()
        (expected,) = results(newest).values()
        assert same(merged["result"], expected["result"])
        assert merged["started_at"] == expected["started_at"]
        before = content(into)
        assert main([*map(str, order), str(into)]) == 0
        assert content(into) == before
        capsys.readouterr()


def stored_version(half: Path, version: str) -> None:
    """Have asv's results of the control say that they are of this version."""
    of_version(half, version)
    (path,) = half.glob(f"h200/{COMMIT}*")
    stored = json.loads(path.read_text())
    (row,) = stored["results"].values()
    row[stored["result_columns"].index("version")] = version
    path.write_text(json.dumps(stored))


@pytest.mark.parametrize(("first", "second"), [("9", "10"), ("10", "9")])
def test_results_of_the_later_version_are_those_that_count(
    first: str,
    second: str,
    halves: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    into = tmp_path / "into"
    other = changed_copy(halves[0], tmp_path / "other", 2.0, 0)
    stored_version(halves[0], first)
    stored_version(other, second)
    merge([halves[0]], into)
    assert main([str(other), str(into)]) == 0
    said = (
        "6 series in asv's results, 6 values of earlier"
        if second == "10"
        else "0 series in asv's results, 6 stay"
    )
    assert said in capsys.readouterr().err
    (merged,) = results(into).values()
    expected = other if second == "10" else halves[0]
    assert merged["version"] == "10"
    assert same(merged["result"], results(expected)["control.Control.track_time"]["result"])


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_contradiction_leaves_the_target_as_it_was(
    halves: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into, other = tmp_path / "into", tmp_path / "other"
    merge([halves[0]], into)
    shutil.copytree(halves[0], other)
    shutil.copytree(halves[1], other, dirs_exist_ok=True)  # and with it further rounds
    stored_version(halves[0], "another")
    (path,) = halves[0].glob(f"h200/{COMMIT}*")
    shutil.copy(path, other / "h200" / path.name)
    before = content(into)
    assert main([str(other), str(into)]) == 1
    assert "control.Control.track_time is version 1" in capsys.readouterr().err
    assert content(into) == before


def test_a_folder_without_rounds_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), str(tmp_path / "into")]) == 1
    assert "has no rounds" in capsys.readouterr().err


def test_other_values_of_a_series_stay_and_are_counted(
    halves: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into, (path,) = tmp_path / "into", halves[0].glob(f"h200/{COMMIT}*")
    merge([halves[0]], into)
    before = results(into)
    stored = json.loads(path.read_text())
    (row,) = stored["results"].values()
    at = next(i for i, value in enumerate(row[0]) if value is not None and not math.isnan(value))
    row[0][at] *= 2
    path.write_text(json.dumps(stored))
    assert main([str(halves[0]), str(into)]) == 0
    assert "0 series in asv's results, 1 stay as" in capsys.readouterr().err
    assert results(into) == before
