"""The proof's analysis on synthetic sittings, and its planted slowdown."""

from __future__ import annotations

import importlib
import json
import math
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from asv_benchmarks import proof, proof_judge, proof_report
from asv_benchmarks.nominal import PRODUCT_FLOPS, Work, nominal_ms
from asv_benchmarks.planted import VARIABLE, extra_rows, planted_fraction
from asv_benchmarks.proof_report import (
    PAIRS,
    Sitting,
    findings,
    load,
    report,
    rounds_of,
    sitting,
)
from asv_benchmarks.tiers import CONTROL, FORWARD, TIERS, TINY, Selection, series_of
from asv_benchmarks.workloads import Workload

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


@pytest.mark.parametrize("shares", [["0"], ["-1"], ["nan"], ["11"], ["0.1", "0.2", "0.3"]])
def test_a_share_that_is_none_is_refused(
    shares: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        proof.main(["take", str(tmp_path), "--plant", *shares])
    assert "--plant takes up to two shares" in capsys.readouterr().err


def test_a_slowdown_is_planted_in_the_named_commits_only() -> None:
    environ = {VARIABLE: "abc,abe:0.01,0.03"}
    for commit in ("abc", "abe"):
        lengths = {0.1: 0.03, 1.99: 0.03, 2.0: 0.01, 19.9: 0.01, 20.0: 0.03}
        assert {ms: planted_fraction(commit, ms, environ) for ms in lengths} == lengths
    assert planted_fraction("abc", 50.0, {VARIABLE: "abc:0.01"}) == 0.01
    assert planted_fraction("abd", 1.0, environ) is None
    assert planted_fraction("abc", 1.0, {}) is None
    for wrong in ("abc", "abc:", "abc:0", "abc:-1", "abc:nan", "abc:much", "abc:1,2,3", "abc:1,"):
        with pytest.raises(ValueError, match="is not <commit>"):
            planted_fraction("abc", 1.0, {VARIABLE: wrong})


def test_the_extra_work_is_the_share_that_was_asked_for() -> None:
    workload = Workload("nemotron-super", 8192, 1)
    length = nominal_ms(workload, Work(products=4))
    rows = extra_rows(workload, length, 0.01)
    assert rows == pytest.approx(0.04 * workload.v, rel=0.02)
    extra_ms = 2 * workload.m * workload.h * rows / PRODUCT_FLOPS * 1000
    assert extra_ms == pytest.approx(0.01 * length, rel=0.02)


def test_chunked_is_planted_with_a_share_of_what_its_call_takes() -> None:
    # 8.0 ms on an H200, of which its shape lets expect 6.5.
    chunked = importlib.import_module("asv_benchmarks.chunked").Chunked
    workload = Workload("nemotron-super", 8192, 4)
    assert nominal_ms(workload, chunked.work) < 7
    assert nominal_ms(workload, chunked.planted_work) == pytest.approx(8.0, rel=0.03)


def test_the_extra_product_has_whole_tiles() -> None:
    # 1,311 rows took nine times as long as asked for.
    for workload in (Workload("nemotron-super", 8192, 4), TINY):
        for fraction in (1e-6, 0.01, 0.0123, 0.03):
            rows = extra_rows(workload, nominal_ms(workload, Work(products=4)), fraction)
            assert rows > 0
            assert rows % 64 == 0


def test_the_sets_hold_every_family_and_both_ends() -> None:
    known = {pair for tier in TIERS for pair in series_of(tier)}
    sets = ("warm", "other", "cold")
    proved = {pair for name in sets for part in proof.SETS[name] for pair in part.series()}
    assert {name for name, _ in proved} <= {name for name, _ in known}
    assert len(proved) >= 12
    families = {name.rsplit(".", 1)[0] for name, _ in proved}
    unproved = {name.rsplit(".", 1)[0] for name, _ in known} - families
    assert unproved == {
        "activity.ForwardBackwardEntropyActive",
        "activity.TwoPassBackwardActive",
        "fixed.ThreeStages",
        "materialised.MaterialisedBackward",
        "memory.ForwardBackward",
        *(f"parallel.{name}" for name in ("Forward", "ForwardBackward", "CollectiveShare")),
        *(f"accuracy.{name}" for name in ("Entropy", "HiddenGradient", "WeightGradient")),
    }


def test_a_part_of_a_set_is_taken_by_its_benchmarks_names() -> None:
    everything = proof.series_in("warm", None)
    some = proof.series_in("warm", r"chunked|forward\.Forward")
    assert set(some) < set(everything)
    assert {name for name, _ in some} == {
        "chunked.Chunked.track_time",
        "forward.Forward.track_time",
    }
    assert [name for name, _ in proof.series_in("warm", "Forward|control")] == [CONTROL]
    assert proof.expected(some, 3, 4) < proof.expected(everything, 3, 4)
    with pytest.raises(proof_judge.ProofError, match=r"the set 'warm' has no .* like 'spam'"):
        proof.series_in("warm", "spam")


def test_a_part_of_a_set_is_named_in_the_report(tmp_path: Path) -> None:
    for number in (1, 2):
        synthetic(tmp_path, number)
    mark = tmp_path / "comparisons" / "warm-002" / "complete.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"benchmarks": "forward"}))
    said = report(load([tmp_path]))
    assert "Sittings: 1 of warm (3 rounds), 1 of warm (`forward`) (3 rounds); of commit" in said


@pytest.mark.parametrize("named", ["(", "spam", "", "a{99999999999999}"])
def test_benchmarks_that_are_none_are_refused(
    named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = proof.main(["take", str(tmp_path / "study"), "--benchmarks", named])
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    assert status
    said = capsys.readouterr().err
    assert "benchmarks is empty" in said if not named else named in said
    assert not (tmp_path / "study").exists()


def test_the_commits_are_alike_and_the_same_anywhere(toy: Any, tmp_path: Path) -> None:
    commit = toy.sleeping(1, "measured")
    clone, made = proof.prepare(tmp_path / "one", toy.folder, "main")
    assert made == proof.prepare(tmp_path / "other", toy.folder, commit)[1]
    assert made == proof.prepare(tmp_path / "one", toy.folder, "main")[1], "and again"
    assert made.measured == commit
    hashes = made.sides(planted=True).values()
    assert len(set(hashes)) == 4
    assert list(made.sides(planted=False).values()) == [made.base, made.head]
    tree = toy.git("rev-parse", f"{commit}^{{tree}}")
    for one in hashes:
        assert proof.run(["git", "rev-parse", f"{one}^{{tree}}"], clone) == tree
    assert (clone / "asv_benchmarks" / "frame.py").is_file()
    with pytest.raises(proof_judge.ProofError, match="git rev-parse"):
        proof.prepare(tmp_path / "one", toy.folder, "nothing")
    newer = toy.sleeping(2, "newer")
    toy.sleeping(3, "newest")
    assert proof.prepare(tmp_path / "one", toy.folder, newer)[1].measured == newer


def toy_study(toy: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How to take sittings of the toy's benchmark, in the toy's repository."""
    one = Selection(("toy.Toy.track_time",), ("'smoke', 2048, 1",))
    monkeypatch.setitem(proof.SETS, "smoke", (one,))
    monkeypatch.chdir(toy.folder)
    for name in [name for name in os.environ if name.startswith(("ASV", "LMHEAD", "PYTHONPATH"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(toy.home))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return ["take", str(folder), "--set", "smoke", "--rounds", "1", "--machine", "toy-machine"]


def test_a_sitting_is_taken_under_asv_once_and_judged_later(
    toy: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    family = toy.folder / "asv_benchmarks" / "toy.py"
    family.write_text(family.read_text().replace("rounds = 2", "plantable = False"))
    toy.sleeping(3, "measured")
    asked = toy_study(toy, tmp_path / "proof", monkeypatch)
    folder = tmp_path / "proof"
    assert proof.main([*asked, "--comparisons", "1", "--minutes", "0.01"]) == 3
    assert proof.main([*asked, "--comparisons", "1", "--minutes", "5"]) == 0
    (taken,) = load([folder])
    assert set(taken.sides) == {"base", "head", "planted", "twin"}
    assert all(len(values) == 1 for values in taken.sides.values())
    assert taken.verdicts == {}
    assert proof.main([*asked, "--comparisons", "1", "--minutes", "0.01"]) == 0, "it is there"
    capsys.readouterr()
    assert proof.main([*asked, "--comparisons", "2", "--plant", "--minutes", "0.01"]) == 1
    assert "warm" not in (said := capsys.readouterr().err)
    assert "smoke-001 differs in plant from what is asked for" in said
    few = ["--comparisons", "2", "--benchmarks", "toy", "--minutes", "0.01"]
    assert proof.main([*asked, *few]) == 1
    assert "smoke-001 differs in benchmarks from what" in capsys.readouterr().err
    monkeypatch.chdir(Path(__file__).parents[2])  # which has the dashboard
    assert proof.main(["report", str(folder)]) == 0
    assert "Sittings: 1 of smoke (1 round); of commit" in capsys.readouterr().out
    (judged,) = load([folder])
    series = "toy.Toy.track_time('smoke', 2048, 1)"
    assert judged.verdicts == {" ".join(pair): {series: "inconclusive"} for pair in PAIRS}
    assert judged.threshold == 0.5


def test_a_part_of_a_set_is_taken_under_asv_and_resumed(
    toy: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    family = toy.folder / "asv_benchmarks" / "toy.py"
    (family.parent / "more.py").write_text(family.read_text().replace("class Toy", "class More"))
    toy.sleeping(3, "measured")
    folder = tmp_path / "proof"
    asked = toy_study(toy, folder, monkeypatch)
    both = Selection(("toy.Toy.track_time", "more.More.track_time"), ("'smoke', 2048, 1",))
    monkeypatch.setitem(proof.SETS, "smoke", (both,))
    asked += ["--plant", "--comparisons", "1"]
    assert proof.main([*asked, "--benchmarks", "more", "--minutes", "5"]) == 0
    (mark,) = folder.glob("comparisons/*/complete.json")
    assert {line["benchmark"] for line in rounds_of(mark.parent)} == {"more.More.track_time"}
    assert json.loads(mark.read_text())["benchmarks"] == "more"
    assert proof.main([*asked, "--benchmarks", "more", "--minutes", "0.01"]) == 0, "it is there"
    assert proof.main([*asked, "--minutes", "0.01"]) == 1
    assert "smoke-001 differs in benchmarks" in capsys.readouterr().err
    # An older suite's mark has no such key: the whole set was measured.
    older = json.loads(mark.read_text())
    del older["benchmarks"]
    mark.write_text(json.dumps(older))
    assert proof.main([*asked, "--minutes", "0.01"]) == 0
    # What a sitting of this part took is the estimate for the next one of it.
    mark.write_text(json.dumps(older | {"benchmarks": "more", "seconds": 1e6}))
    more = [*asked[:-1], "2", "--benchmarks", "more", "--minutes", "5"]
    assert proof.main(more) == 3


def test_a_report_of_nothing_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert proof.main(["report", str(tmp_path)]) == 1
    assert "no complete sitting" in capsys.readouterr().err
