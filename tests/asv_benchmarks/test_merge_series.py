"""Which values of asv's count where both folders have some. Synthetic results."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from result_folders import NAME, RESULTS, content, described, folder, stored, values_in

from asv_benchmarks.merge import Counts, main, merge


def test_a_description_of_the_same_version_stays(tmp_path: Path) -> None:
    into = folder(tmp_path / "into", **{"benchmarks.json": described(code="old")})
    source = folder(tmp_path / "source", **{"benchmarks.json": described(code="new")})
    merge([source], into)
    assert json.loads((into / "benchmarks.json").read_text())[NAME]["code"] == "old"


def test_a_later_version_gives_up_the_values_of_the_earlier_one_and_says_how_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = folder(tmp_path / "into", **{RESULTS: stored([1.0, 2.0, math.nan], started_at=5000)})
    source = folder(tmp_path / "source", **{RESULTS: stored([math.nan, 3.0, math.nan], "2")})
    assert main([str(source), str(into)]) == 0
    assert "1 series in asv's results, 2 values of earlier versions" in capsys.readouterr().err
    merged = values_in(into)
    assert merged["result"] == pytest.approx([math.nan, 3.0, math.nan], nan_ok=True)
    assert merged["version"] == "2"
    # The start is of the version that counts: one between the two is newer than it.
    between = folder(
        tmp_path / "between", **{RESULTS: stored([math.nan, 4.0, 5.0], "2", None, 2000)}
    )
    assert merge([between], into) == [Counts(series=2)]
    assert values_in(into)["result"] == pytest.approx([math.nan, 4.0, 5.0], nan_ok=True)
    assert merge([source, between], into) == [Counts(stayed=1), Counts()]


def test_a_later_version_that_measured_nothing_replaces_nothing(tmp_path: Path) -> None:
    into = folder(tmp_path / "into", **{RESULTS: stored([1.0, 2.0])})
    source = folder(tmp_path / "source", **{RESULTS: stored([math.nan, math.nan], "2")})
    assert merge([source], into) == [Counts()]
    assert values_in(into)["result"] == [1.0, 2.0]


def test_the_start_that_is_kept_is_the_newest_of_the_values(tmp_path: Path) -> None:
    into = folder(tmp_path / "into", **{RESULTS: stored([1.0, math.nan], started_at=5000)})
    earlier = folder(tmp_path / "earlier", **{RESULTS: stored([9.0, 2.0], started_at=3000)})
    between = folder(tmp_path / "between", **{RESULTS: stored([7.0, 2.0], started_at=4000)})
    assert merge([earlier, between], into) == [Counts(series=1, stayed=1), Counts(stayed=1)]
    assert values_in(into)["result"] == [1.0, 2.0]
    assert values_in(into)["started_at"] == 5000


def test_a_value_without_samples_stays_beside_one_with_samples(tmp_path: Path) -> None:
    into = folder(tmp_path / "into", **{RESULTS: stored([1.0, math.nan])})
    measured = stored([9.0, 3.0], started_at=500, samples=[[9.0], [2.0, 3.0, 4.0]])
    source = folder(tmp_path / "source", **{RESULTS: measured})
    assert merge([source], into) == [Counts(series=1, stayed=1)]
    assert values_in(into)["result"] == [1.0, 3.0]
    assert values_in(into)["samples"] == [None, [2.0, 3.0, 4.0]]


def test_a_folder_that_adds_nothing_changes_no_byte(tmp_path: Path) -> None:
    into = folder(tmp_path / "into")
    before = content(into)
    assert merge([folder(tmp_path / "source")], into) == [Counts()]
    assert content(into) == before
