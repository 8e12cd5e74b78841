"""Sittings of a proof: what is measured, under asv and in a toy repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from asv_benchmarks import proof, proof_judge
from asv_benchmarks.proof_report import PAIRS, load, rounds_of
from asv_benchmarks.tiers import CONTROL, TIERS, Selection, series_of


@pytest.mark.parametrize("shares", [["0"], ["-1"], ["nan"], ["11"], ["0.1", "0.2", "0.3"]])
def test_a_share_that_is_none_is_refused(
    shares: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        proof.main(["take", str(tmp_path), "--plant", *shares])
    assert "--plant takes up to two shares" in capsys.readouterr().err


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


def test_a_commit_that_is_none_is_refused_before_there_is_a_folder(
    toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.sleeping(1, "only")
    monkeypatch.chdir(toy.folder)
    assert proof.main(["take", str(tmp_path / "study"), "--commit", "nope"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("proof: ")
    assert "nope" in said
    assert len(said.splitlines()) == 1
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


@pytest.fixture
def asked(toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How to take sittings of the toy's benchmark, in the toy's repository."""
    one = Selection(("toy.Toy.track_time",), ("'smoke', 2048, 1",))
    monkeypatch.setitem(proof.SETS, "smoke", (one,))
    monkeypatch.chdir(toy.folder)
    for name in [name for name in os.environ if name.startswith(("ASV", "LMHEAD", "PYTHONPATH"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(toy.home))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return [
        "take",
        str(tmp_path / "proof"),
        "--set",
        "smoke",
        "--rounds",
        "1",
        "--machine",
        "toy-machine",
    ]


def test_a_sitting_is_taken_under_asv_once_and_judged_later(
    toy: Any,
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    family = toy.folder / "asv_benchmarks" / "toy.py"
    family.write_text(family.read_text().replace("rounds = 2", "plantable = False"))
    toy.sleeping(3, "measured")
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
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    family = toy.folder / "asv_benchmarks" / "toy.py"
    (family.parent / "more.py").write_text(family.read_text().replace("class Toy", "class More"))
    toy.sleeping(3, "measured")
    folder = tmp_path / "proof"
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
