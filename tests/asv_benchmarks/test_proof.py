"""The proof's analysis on synthetic sittings."""

from __future__ import annotations

import json
import math
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from asv_benchmarks import proof, proof_judge, proof_report
from asv_benchmarks.proof_report import Sitting, findings, load, report, sitting
from asv_benchmarks.tiers import FORWARD

NOISE = 0.001
PLANT = 0.02


def synthetic(
    folder: Path, number: int, noise: float = NOISE, card: str = "GPU-1", level: float = 10.0
) -> None:
    """A complete sitting whose rounds are random: no device was measured."""
    source = random.Random(f"{number}")
    lines: list[dict[str, Any]] = []
    slower = ("planted", "twin")
    for side in ("base", "head", *slower):
        for family, benchmark in (("forward", FORWARD), ("control", "control.Control.track_time")):
            planted = side in slower and family == "forward"
            for _ in range(3):
                value = level * (1 + PLANT * planted) * (1 + source.gauss(0, noise))
                params = {"model": "smoke", "tokens": 2048, "tp": 1}
                lines.append(
                    {
                        "commit": side,
                        "benchmark": benchmark,
                        "params": params,
                        "family": family,
                        "unit": "ms",
                        "status": "ok",
                        "value": value,
                        "gpu": "Synthetic",
                        "gpu_uuid": card,
                        "planted": PLANT if planted else None,
                    }
                )
    lines.append({**lines[0], "status": "failed", "value": None})
    rounds = folder / "comparisons" / f"warm-{number:03}" / "results" / "rounds"
    rounds.mkdir(parents=True)
    (rounds / "r.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    name = f"{FORWARD}('smoke', 2048, 1)"
    complete = {
        **{"measured": "f" * 40, "sides": {side: side for side in ("base", "head", *slower)}},
        **{"set": "warm", "plant": [PLANT], "rounds": 3, "seconds": 1.0, "threshold": 0.5},
        "verdicts": {
            "base head": {name: "regressed" if number == 3 else "unchanged"},
            "planted twin": {name: "unchanged"},
            "base planted": {name: "inconclusive" if number == 5 else "regressed"},
            "head twin": {name: "regressed"},
        },
    }
    (rounds.parent.parent / "complete.json").write_text(json.dumps(complete))


@pytest.fixture
def sittings(tmp_path: Path) -> list[Sitting]:
    for number in range(1, 11):
        synthetic(tmp_path, number)
    cut_short = tmp_path / "comparisons" / "warm-011" / "results" / "rounds"
    cut_short.mkdir(parents=True)
    return load([tmp_path])


def test_a_finding_is_what_was_put_in(sittings: list[Sitting]) -> None:
    assert len(sittings) == 10, "one that was cut short does not count"
    found = {one.family: one for one in findings(sittings)}
    forward, control = found["forward"], found["control"]
    assert forward.runs == 20
    assert forward.value == pytest.approx(10, rel=0.01)
    # Medians of three, and a difference of two of them.
    expected = NOISE * 0.67 * math.sqrt(2)
    assert expected / 2 < forward.deviation < expected * 2
    assert NOISE < forward.spread < 6 * NOISE
    assert forward.told == pytest.approx(4 * forward.deviation, rel=0.02)
    assert forward.planted == PLANT
    assert forward.slower == pytest.approx(PLANT, abs=2 * NOISE)
    assert (forward.seen, forward.asked) == (19, 20)
    assert (forward.false, forward.unchanged) == (1, 20)
    assert (control.planted, control.slower, control.asked) == (None, None, 0)
    assert (forward.kind, forward.limit) == ("2 to 20 ms", 0.005)


def test_cards_are_not_compared_with_each_other(tmp_path: Path) -> None:
    synthetic(tmp_path, 1, card="GPU-1", level=10.0)
    synthetic(tmp_path, 2, card="GPU-2", level=10.5)
    found = findings(load([tmp_path]))
    assert all(one.spread < 0.01 for one in found)
    assert all(one.deviation < 0.01 for one in found)


def test_what_one_round_of_a_run_shows_is_told_beside_the_runs_medians(tmp_path: Path) -> None:
    synthetic(tmp_path, 1, noise=0.0)
    (path,) = tmp_path.glob("comparisons/*/results/rounds/*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[4]["value"] *= 1.02  # one of three rounds of base's control
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = {one.family: one for one in findings(load([tmp_path]))}
    assert found["control"].spread == pytest.approx(0, abs=1e-12)
    assert found["control"].apart == pytest.approx(0.02)
    assert found["forward"].apart == pytest.approx(0, abs=1e-12)
    (row,) = [line for line in report(load([tmp_path])).splitlines() if "| control.Con" in line]
    assert "| 0.00% | 0.5% | 2.00% | 0.00% |" in row


def test_a_spread_beyond_what_is_asked_for_is_marked(tmp_path: Path) -> None:
    for number in range(1, 6):
        synthetic(tmp_path, number, noise=0.03)
    (row,) = [
        line for line in report(load([tmp_path])).splitlines() if line.startswith(f"| {FORWARD}")
    ]
    assert "✗ | 0.5%" in row


def test_the_report_says_what_was_compared(sittings: list[Sitting]) -> None:
    text = report(sittings)
    assert "Sittings: 10 of warm (3 rounds); of commit ffffffffffff, on 1 Synthetic" in text
    assert "`check --threshold 0.5`" in text
    assert "regressed in 1 of 20 (1 series in all)" in text
    assert "| forward, 2 to 20 ms | 1 | 20 |" in text
    assert "| 2% |" in text
    assert "| 19 of 20 |" in text


def test_kinds_follow_unit_and_length() -> None:
    base = {"family": "forward", "unit": "ms", "value": 1.0, "runs": 2, "spread": 0.0, "apart": 0.0}
    rest = {
        "deviation": 0.0,
        "planted": None,
        "slower": None,
        "seen": 0,
        "asked": 0,
        "false": 0,
        "unchanged": 0,
    }

    def kind(**changes: Any) -> tuple[str, float | None]:
        one = proof_report.Finding(series="s", **{**base, **rest, **changes})
        return one.kind, one.limit

    assert kind() == ("under 2 ms", 0.015)
    assert kind(value=20.0) == ("over 20 ms", 0.01)
    assert kind(family="compile") == ("cold", 0.15)
    assert kind(unit="bytes") == ("bytes", None)


def test_a_series_that_failed_on_a_side_has_no_pair() -> None:
    complete = {
        **{"measured": "f", "sides": {"base": "b", "head": "h"}, "set": "warm"},
        **{"plant": [], "rounds": 3, "seconds": 1.0},
    }
    line = {
        **{"commit": "b", "benchmark": FORWARD, "params": {"model": "smoke"}, "family": "forward"},
        **{"unit": "ms", "status": "ok", "value": 1.0, "gpu": None, "gpu_uuid": None},
    }
    assert findings([sitting(complete, [line])]) == []
    (found,) = findings([sitting(complete, [line, {**line, "commit": "h"}])])
    assert (found.runs, found.asked, found.unchanged) == (2, 0, 0)


def test_a_side_that_failed_is_neither_seen_nor_missed(tmp_path: Path) -> None:
    synthetic(tmp_path, 1)
    (path,) = tmp_path.glob("comparisons/*/results/rounds/r.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["commit"] == "twin":
            line |= {"status": "failed", "value": None}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = (one for one in findings(load([tmp_path])) if one.family == "forward")
    assert (found.seen, found.asked) == (1, 1)
    assert (found.false, found.unchanged) == (0, 1)
    assert "in 0 of 1 (0 series in all). Rounds that failed: 7." in report(load([tmp_path]))


def test_commits_are_not_compared_with_each_other(tmp_path: Path) -> None:
    synthetic(tmp_path, 1, level=10.0)
    synthetic(tmp_path, 2, level=11.0)
    mark = sorted(tmp_path.glob("comparisons/*/complete.json"))[1]
    mark.write_text(mark.read_text().replace("f" * 40, "e" * 40))
    assert all(one.spread < 0.01 for one in findings(load([tmp_path])))


@pytest.mark.parametrize("answer", ["nothing", "another pair"])
def test_a_check_of_another_pair_is_no_answer(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / f"verdict-{'h' * 8}.json"
    output.write_text('{"base": {"commit": "base"}, "head": {"commit": "hhhhhhhhh"}, "series": []}')

    def run(command: list[str], **_: Any) -> Any:
        if "check" in command and answer == "another pair":
            told = {"base": {"commit": "other"}, "head": {"commit": "hhhhhhhhh"}, "series": []}
            output.write_text(json.dumps(told))
        return subprocess.CompletedProcess(command, 0, "", "cannot tell")

    monkeypatch.setattr(proof_judge.subprocess, "run", run)
    said = {"nothing": "check ended with 0: cannot tell", "another pair": "not both measured"}
    with pytest.raises(proof_judge.ProofError, match=said[answer]):
        proof_judge.check(tmp_path, "base", "hhhhhhhhh", 0.5)


def test_a_part_of_a_set_is_named_in_the_report(tmp_path: Path) -> None:
    for number in (1, 2):
        synthetic(tmp_path, number)
    mark = tmp_path / "comparisons" / "warm-002" / "complete.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"benchmarks": "forward"}))
    said = report(load([tmp_path]))
    assert "Sittings: 1 of warm (3 rounds), 1 of warm (`forward`) (3 rounds); of commit" in said


def test_a_report_of_nothing_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert proof.main(["report", str(tmp_path)]) == 1
    assert "no complete sitting" in capsys.readouterr().err
