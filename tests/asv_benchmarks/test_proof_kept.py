"""Sittings as they ship: each one file, and what the page says of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from asv_benchmarks import proof, proof_kept
from asv_benchmarks.proof_report import load, report
from asv_benchmarks.tiers import FORWARD

ROOT = Path(__file__).parents[2]
SIDES = ("base", "head", "planted", "twin")


def taken(folder: Path, **changes: Any) -> Path:
    """A complete, judged sitting of synthetic rounds: no device was measured."""
    line: dict[str, Any] = {
        **{"benchmark": FORWARD, "params": {"model": "smoke", "tokens": 2048, "tp": 1}},
        **{"family": "forward", "unit": "ms", "status": "ok", "gpu": "Synthetic"},
        **{"gpu_uuid": "GPU-1a2b3c4d-5e6f", "planted": None},
    }
    rounds = [
        {**line, "commit": side, "value": 10.0 + number, "started_at": f"2026-01-02T03:04:{at}.5"}
        for at, (side, number) in enumerate(((s, n) for s in SIDES for n in range(3)), 10)
    ]
    complete = {
        **{"measured": "f" * 40, "sides": {side: side for side in SIDES}, "set": "warm"},
        **{"plant": [], "rounds": 3, "seconds": 1.0, "threshold": 0.5},
        **{"verdicts": {"base head": {f"{FORWARD}('smoke', 2048, 1)": "unchanged"}}},
    } | changes
    place = folder / "comparisons" / "warm-001"
    (place / "results" / "rounds").mkdir(parents=True)
    for side in SIDES:  # files are by commit, their rounds were interleaved
        own = [json.dumps(one) + "\n" for one in rounds if one["commit"] == side]
        (place / "results" / "rounds" / f"{side}.jsonl").write_text("".join(own))
    (place / "complete.json").write_text(json.dumps(complete))
    return folder


def test_a_kept_sitting_says_what_the_folder_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, into = taken(tmp_path / "taken"), tmp_path / "kept"
    assert proof.main(["keep", str(folder), "--into", str(into)]) == 0
    (path,) = into.iterdir()
    assert path.name == "warm-ffffffff-20260102T030410-1a2b3c4d.json.gz"
    assert load([into]) == load([folder])
    content = path.read_bytes()
    assert proof.main(["keep", str(folder), "--into", str(into)]) == 0
    assert path.read_bytes() == content
    again = tmp_path / "again"
    for file in folder.glob("comparisons/*/results/rounds/*.jsonl"):  # in another order
        file.rename(file.with_name(f"{9 - SIDES.index(file.stem)}.jsonl"))
    with monkeypatch.context() as later:
        later.setattr("time.time", lambda: 2e9)
        assert proof.main(["keep", str(folder), "--into", str(again)]) == 0
    assert (again / path.name).read_bytes() == content


def test_what_is_kept_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "kept"
    assert proof.main(["keep", str(taken(tmp_path / "one")), "--into", str(into)]) == 0
    (path,) = into.iterdir()
    content = path.read_bytes()
    other = taken(tmp_path / "other", seconds=2.0)
    assert proof.main(["keep", str(other), "--into", str(into)]) == 1
    assert f"{path} holds another sitting" in capsys.readouterr().err
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        gzip.compress(b"[]"),
        gzip.compress(b"{}"),
        gzip.compress(b'{"complete": 1, "rounds": 2}'),
        gzip.compress(b'{"complete": {}, "rounds": []}'),
        gzip.compress(b"[" * 100_000),
        gzip.compress(b"{}" * 99)[:10] + bytes(40),
    ],
    ids=str,
)
def test_a_file_that_is_none_is_named(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"warm{proof_kept.SUFFIX}"
    path.write_bytes(content)
    assert proof.main(["report", str(tmp_path)]) == 1
    assert f"{path} is no kept sitting" in capsys.readouterr().err


def test_a_sitting_counts_once_in_whatever_form(tmp_path: Path) -> None:
    folder, into = taken(tmp_path / "taken"), tmp_path / "kept"
    proof.main(["keep", str(folder), "--into", str(into)])
    assert len(load([folder, into, into, folder])) == 1
    unjudged = taken(tmp_path / "unjudged", verdicts={}, threshold=None)
    assert len(load([into, unjudged])) == 1
    other = taken(tmp_path / "other", seconds=2.0)
    assert len(load([into, other])) == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"sides": {}, "set": "warm", "rounds": 3, "seconds": 1.0}', "lacks measured, plant"),
        ("[]", "lacks measured"),
        ("3", "TypeError"),
        ("{", "JSONDecodeError"),
    ],
)
@pytest.mark.parametrize("command", ["report", "keep", "take"])
def test_a_mark_of_an_older_suite_is_named(
    command: str, content: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = taken(tmp_path / "taken")
    (path,) = folder.glob("comparisons/*/complete.json")
    path.write_text(content)
    options = {"keep": ["--into", str(tmp_path / "kept")], "take": ["--minutes", "0"]}
    assert proof.main([command, str(folder), *options.get(command, [])]) == 1
    error = capsys.readouterr().err
    assert f"{path} is no mark of a sitting" in error
    assert why in error
    assert path.read_text() == content


def test_rounds_of_no_side_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = {"complete": {"sides": {"base": "b"}}, "rounds": [{"commit": "x"}]}
    (tmp_path / "warm.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    assert proof.main(["report", str(tmp_path)]) == 1
    assert "has rounds of x, which is no side of its sitting" in capsys.readouterr().err


def test_kept_verdicts_are_of_the_threshold_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "kept"
    proof.main(["keep", str(taken(tmp_path / "taken")), "--into", str(into)])
    assert proof.main(["report", str(into)]) == 0
    assert proof.main(["report", str(into), "--threshold", "1"]) == 1
    assert "kept sittings were judged at 0.5 %" in capsys.readouterr().err


def test_nothing_to_keep_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert proof.main(["keep", str(tmp_path), "--into", str(tmp_path / "kept")]) == 1
    assert "no complete sitting" in capsys.readouterr().err
    into = tmp_path / "kept"
    proof.main(["keep", str(taken(tmp_path / "taken")), "--into", str(into)])
    assert proof.main(["keep", str(into), "--into", str(into)]) == 1, "kept already"
    assert "no complete sitting" in capsys.readouterr().err
    (file,) = into.iterdir()
    assert proof.main(["keep", str(tmp_path / "taken"), "--into", str(file)]) == 1
    assert f"{file}/" in capsys.readouterr().err


@pytest.mark.parametrize("study", ["bursts", "after-bursts", "before-bursts"])
def test_the_page_shows_what_the_shipped_sittings_say(study: str) -> None:
    page = (ROOT / "asv_benchmarks" / "PROOF.md").read_text(encoding="utf-8")
    assert report(load([ROOT / "asv_benchmarks" / "sittings" / study])) in page
