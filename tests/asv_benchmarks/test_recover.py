"""Recovering asv's results from rounds: the shipped ones, with series or the whole file lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from asv_benchmarks.recover import main, recover

SHIPPED = Path(__file__).resolve().parents[2] / "asv_benchmarks" / "results"
COMMIT = "ac9ea960"
NAME = f"{COMMIT}-checkout-py3.12-gpu.json"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The shipped results of one commit."""
    (tmp_path / "rounds").mkdir()
    (tmp_path / "h200").mkdir()
    for name in ("benchmarks.json", "commits.jsonl", "h200/machine.json", f"h200/{NAME}"):
        shutil.copy(SHIPPED / name, tmp_path / name)
    for path in SHIPPED.glob(f"rounds/{COMMIT}*"):
        shutil.copy(path, tmp_path / "rounds")
    return tmp_path


def stored(folder: Path) -> dict[str, dict[str, Any]]:
    loaded = json.loads((folder / "h200" / NAME).read_text())
    return {
        name: dict(zip(loaded["result_columns"], row, strict=False))
        for name, row in loaded["results"].items()
    }


def test_a_lost_benchmark_comes_back_as_asv_had_it(results: Path):
    whole = stored(results)
    loaded = json.loads((results / "h200" / NAME).read_text())
    lost = "backward.ForwardBackward.track_time"
    del loaded["results"][lost]
    (results / "h200" / NAME).write_text(json.dumps(loaded))
    assert recover(results) == {"h200/ac9ea960-checkout-py3.12-gpu": 6}
    again = stored(results)
    for column in ("result", "samples", "stats_q_25", "stats_ci_99_b", "version", "params"):
        assert repr(again[lost][column]) == repr(whole[lost][column]), column
    assert {k: repr(v) for k, v in again.items() if k != lost} == {
        k: repr(v) for k, v in whole.items() if k != lost
    }


def test_a_whole_file_comes_back(results: Path):
    before = json.loads((results / "h200" / NAME).read_text())
    whole = stored(results)
    (results / "h200" / NAME).unlink()
    assert recover(results) == {"h200/ac9ea960-checkout-py3.12-gpu": 30}
    after = json.loads((results / "h200" / NAME).read_text())
    for key in ("commit_hash", "env_name", "date", "params", "python"):
        assert after[key] == before[key]
    again = stored(results)
    assert {name: repr(row["samples"]) for name, row in again.items()} == {
        name: repr(row["samples"]) for name, row in whole.items()
    }


def test_what_is_complete_is_left_as_it_is(results: Path):
    before = (results / "h200" / NAME).read_bytes()
    assert recover(results) == {}
    assert (results / "h200" / NAME).read_bytes() == before


def test_a_line_cut_short_and_failed_rounds_add_nothing(results: Path):
    (path,) = (results / "rounds").glob("*.jsonl")
    lines = path.read_text().splitlines()
    failed = json.loads(lines[0]) | {"status": "failed", "samples": [], "value": None}
    path.write_text(json.dumps(failed) + "\n" + lines[1][:80])
    (results / "h200" / NAME).unlink()
    assert recover(results) == {}
    assert not (results / "h200" / NAME).exists()


def test_rounds_of_another_version_are_left_out(results: Path):
    described = json.loads((results / "benchmarks.json").read_text())
    described["forward.Forward.track_time"]["version"] = "99"
    (results / "benchmarks.json").write_text(json.dumps(described))
    (results / "h200" / NAME).unlink()
    assert recover(results) == {"h200/ac9ea960-checkout-py3.12-gpu": 24}


def test_a_wrong_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(tmp_path / "nowhere")]) == 1
    assert "no results folder at" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["benchmarks.json", "h200/machine.json", "commits.jsonl"])
def test_what_is_missing_is_named(results: Path, missing: str, capsys: pytest.CaptureFixture[str]):
    (results / missing).unlink()
    (results / "h200" / NAME).unlink()
    assert main([str(results)]) == 1
    assert missing in capsys.readouterr().err
