"""The plugin under asv itself, on a synthetic repository."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import pytest

SMOKE = r"\('smoke', 2048, 1\)"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SLEEPY = "import time\n\n\ndef work():\n    time.sleep(0.001)\n"


def test_a_planted_slowdown_is_found(toy) -> None:
    for milliseconds, subject in ((1, "first"), (1, "second"), (30, "slower"), (30, "fourth")):
        toy.sleeping(milliseconds, subject + " ünïcode")
    first, second, third, fourth = toy.commits
    toy.git("tag", "v1", second)
    run = toy.asv("run", f"{first}..{fourth}", "--bench", SMOKE)
    assert run.returncode == 0, run.stdout + run.stderr

    medians = [statistics.median(toy.result(commit)["samples"]) for commit in toy.commits[1:]]
    assert medians[0] < 15 < 30 <= medians[1] < 150
    assert medians[2] >= 30
    for commit in (second, third, fourth):
        rounds = toy.rounds(commit)
        assert [line["round"] for line in rounds] == [0, 1]
        assert {line["commit"] for line in rounds} == {commit}
        assert toy.pooled(commit) == toy.result(commit)["samples"]
        assert {line["fused_lmhead_file"] for line in rounds} == {"fused_lmhead/__init__.py"}
        assert {line["environment"] for line in rounds} == {f"checkout-py{PYTHON}-cpu"}
        assert {line["status"] for line in rounds} == {"ok"}
        assert {line["machine"] for line in rounds} == {"toy-machine"}
    assert len({line["run"] for commit in (second, third) for line in toy.rounds(commit)}) == 1
    assert "torch" in toy.result(third)["machine"]
    stored = json.loads((toy.home / ".asv-machine.json").read_text())
    assert "torch" not in stored["toy-machine"], "the user's own machine file stays as it was"

    lines = (toy.results / "commits.jsonl").read_text().splitlines()
    rows = {row["hash"]: row for row in map(json.loads, lines)}
    assert list(rows) == toy.commits, "every ancestor, oldest first, once"
    assert rows[second]["parents"] == [first]
    assert rows[second]["tags"] == ["v1"]
    assert rows[third]["subject"] == "slower ünïcode"
    assert rows[third]["tree"] == toy.git("rev-parse", f"{third}^{{tree}}")


def test_a_bare_run_measures_the_smoke_tier_and_starts_nothing_else(toy) -> None:
    toy.rename("forward", "Forward")
    commit = toy.commit(SLEEPY, "only")
    run = toy.asv("run")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "the 'smoke' tier" in run.stdout
    measured = [(line["params"]["model"], line["round"]) for line in toy.rounds(commit)]
    assert sorted(measured) == [("smoke", 0), ("smoke", 1), ("smoke-odd", 0), ("smoke-odd", 1)]


@pytest.mark.slow
def test_real_heads_are_not_selected_on_a_cpu(toy) -> None:
    toy.commit(SLEEPY, "only")
    run = toy.asv("run", "main^!", "--bench", "nemotron-super', 8192, 1")
    assert run.returncode == 1
    assert "do not run on a cpu" in run.stdout
    assert not (toy.results / "rounds").exists()


@pytest.mark.parametrize("launch", [pytest.param("spawn", marks=pytest.mark.slow), "forkserver"])
def test_an_installed_copy_is_never_measured(toy, tmp_path: Path, launch: str) -> None:
    stale = tmp_path / "stale"
    (stale / "fused_lmhead").mkdir(parents=True)
    (stale / "fused_lmhead" / "__init__.py").write_text(SLEEPY)
    good = toy.commit(SLEEPY, "has the package")
    lacking = toy.commit(None, "has not")
    arguments = ("--bench", SMOKE, "--launch-method", launch)

    run = toy.asv("run", f"{lacking}^!", *arguments, ASV_PYTHONPATH=str(stale))
    assert run.returncode == 0, run.stdout + run.stderr
    assert toy.rounds(lacking)
    for line in toy.rounds(lacking):
        assert line["status"] == "skipped"
        assert line["samples"] == []
        assert "has no package fused_lmhead" in line["reason"]

    # The same copy does no harm where the commit has the package: its checkout is first.
    run = toy.asv("run", f"{good}^!", *arguments, ASV_PYTHONPATH=str(stale))
    assert run.returncode == 0, run.stdout + run.stderr
    assert {line["status"] for line in toy.rounds(good)} == {"ok"}


def test_a_copy_imported_with_the_suite_is_a_failure(toy, tmp_path: Path) -> None:
    stale = tmp_path / "stale"
    (stale / "fused_lmhead").mkdir(parents=True)
    (stale / "fused_lmhead" / "__init__.py").write_text(SLEEPY)
    family = toy.folder / "asv_benchmarks" / "toy.py"
    early = f"import sys\nsys.path.insert(0, {str(stale)!r})\nimport fused_lmhead\n"
    family.write_text(early + family.read_text())
    commit = toy.commit(SLEEPY, "has the package")
    run = toy.asv("run", f"{commit}^!", "--bench", SMOKE, "--launch-method", "forkserver")
    assert run.returncode == 2, run.stdout + run.stderr
    assert {line["reason"].split(":")[0] for line in toy.rounds(commit)} == {"WrongCheckoutError"}


def test_what_a_commit_lacks_is_skipped_and_what_breaks_is_failed(toy) -> None:
    empty = toy.commit(None, "no package")
    old = toy.commit("", "no function")
    broken = toy.commit("def work():\n    raise ValueError('broken\\non purpose')\n", "broken")
    run = toy.asv("run", "ALL", "--bench", SMOKE)
    assert run.returncode == 2
    for commit, reason in ((empty, "has no package"), (old, "has no work")):
        assert toy.result(commit)["result"] != toy.result(commit)["result"], "NaN: skipped"
        assert {line["status"] for line in toy.rounds(commit)} == {"skipped"}
        assert reason in toy.rounds(commit)[0]["reason"]
    assert toy.result(broken)["result"] is None
    assert toy.rounds(broken)[0]["reason"] == "ValueError: broken"


@pytest.mark.slow
def test_a_dry_run_leaves_no_line(toy) -> None:
    commit = toy.commit(SLEEPY, "only")
    run = toy.asv("run", "--dry-run", f"{commit}^!", "--bench", SMOKE)
    assert run.returncode == 0, run.stdout + run.stderr
    assert not (toy.results / "rounds").exists()
    assert not (toy.results / "commits.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("launch", ["spawn", "forkserver"])
def test_interleaved_rounds(toy, launch: str) -> None:
    for milliseconds in (1, 1, 30):
        toy.sleeping(milliseconds, f"{milliseconds} ms")
    run = toy.asv("run", "ALL", "--interleave-rounds", "--bench", SMOKE, "--launch-method", launch)
    assert run.returncode == 0, run.stdout + run.stderr
    order = []
    for commit in toy.commits:
        rounds = toy.rounds(commit)
        assert toy.pooled(commit) == toy.result(commit)["samples"]
        order += [(line["started_at"], commit, line["round"]) for line in rounds]
    assert [number for _, _, number in sorted(order)] == [0, 0, 0, 1, 1, 1]
    medians = [statistics.median(toy.result(commit)["samples"]) for commit in toy.commits]
    assert max(medians[:2]) < 15 < 30 <= medians[2]


@pytest.mark.slow
def test_continuous(toy) -> None:
    base = toy.sleeping(1, "base")
    head = toy.sleeping(30, "head")
    run = toy.asv("continuous", base, head, "--bench", SMOKE)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "PERFORMANCE DECREASED" in run.stdout
    assert toy.result(base)["samples"] is not None
    assert len(toy.rounds(head)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("save", [True, False])
def test_find(toy, save: bool) -> None:
    for number in range(6):
        toy.sleeping(30 if number >= 3 else 1, f"number {number}")
    expression = r"^toy\.Toy\.track_time\('smoke', 2048, 1\)$"
    options = [] if save else ["--skip-save"]
    run = toy.asv("find", f"{toy.commits[0]}..{toy.commits[-1]}", expression, *options)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"Greatest regression found: {toy.commits[3][:8]}" in run.stdout
    measured = [commit for commit in toy.commits if toy.rounds(commit)]
    assert bool(measured) is save
    for commit in measured:
        assert toy.result(commit)["samples"], "a bisect must not drop stored samples"
