"""The nightly job for commits that no push measured; histories and rounds are synthetic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from measured_histories import KERNEL, History, begun
from workflow_steps import PUBLISH, ROOT, git, run, step

from asv_benchmarks.place import environment_of
from asv_benchmarks.sweep_plan import runnable
from asv_benchmarks.tiers import series_of

RESULTS = "asv_benchmarks/results"


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Three commits that change the kernel, and one that does not."""
    made = begun(tmp_path / "work")
    conf = {"version": 1, "project": "toy", "repo": ".", "results_dir": RESULTS}
    made.commit("one", {KERNEL: "1\n", "asv.conf.json": json.dumps(conf), ".gitignore": RESULTS})
    made.commit("notes", {"asv_benchmarks/notes.md": "Nothing of the kernel.\n"})
    made.commit("two", {KERNEL: "2\n"})
    made.commit("three", {KERNEL: "3\n"})
    known = {"h": {"machine": "h"}, "version": 1}
    (tmp_path / ".asv-machine.json").write_text(json.dumps(known))
    return made


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """An asv that only notes how it was called."""
    (tmp_path / "tools").mkdir()
    asv = tmp_path / "tools" / "asv"
    asv.write_text('#!/bin/bash\nprintf "[%s]" "$@" >> "$RUNNER_TEMP/calls"\nexit ${STATUS:-0}\n')
    asv.chmod(0o755)
    return tmp_path


def variables(folder: Path, **further: str) -> dict[str, str]:
    common = {"RUNNER_TEMP": str(folder), "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    return {**common, "MACHINE": "h", **further}


@pytest.mark.parametrize(("most", "chosen"), [("12", ["three", "one", "root"]), ("1", ["three"])])
def test_the_newest_commits_that_lack_measurements_are_chosen(
    history: History, tools: Path, most: str, chosen: list[str]
) -> None:
    remote = tools / "remote"
    git(tools, "init", "-q", "--bare", str(remote))
    history.git("remote", "add", "origin", str(remote))
    whole = runnable(series_of("smoke"), "cpu")
    history.measure(history.commits["two"], whole, environment=environment_of("cpu"), machine="h")
    measured = history.folder / "results"
    script = f'bash "{PUBLISH}" "{remote}" performance-history "{measured}" results'
    assert run(script, history.folder).returncode == 0
    choose = step("missed", "Choose", "nightly.yml")
    done = run(choose, history.folder, **variables(tools, COMMITS=most))
    assert done.returncode == 0, done.stderr
    assert (tools / "commits").read_text().split() == [history.commits[name] for name in chosen]
    assert not (history.folder / RESULTS).exists(), "the artifact would hold them too"


def test_before_the_first_results_every_commit_is_missed(history: History, tools: Path) -> None:
    history.git("remote", "add", "origin", str(tools / "nowhere"))
    choose = step("missed", "Choose", "nightly.yml")
    done = run(choose, history.folder, **variables(tools, COMMITS="12"))
    assert done.returncode == 0, done.stderr
    names = ["three", "two", "one", "root"]
    assert (tools / "commits").read_text().split() == [history.commits[name] for name in names]


@pytest.mark.parametrize(("status", "ends"), [("0", 0), ("2", 0), ("1", 1)])
def test_what_was_chosen_is_measured(tools: Path, status: str, ends: int) -> None:
    (tools / "work").mkdir()
    measure = step("missed", "Measure", "nightly.yml")
    (tools / "commits").write_text("")
    assert run(measure, tools / "work", **variables(tools, STATUS=status)).returncode == 0
    assert not (tools / "calls").exists(), "nothing was missed"
    (tools / "commits").write_text(f"{'a' * 40}\n")
    done = run(measure, tools / "work", **variables(tools, STATUS=status))
    assert done.returncode == ends, done.stderr
    called = (tools / "calls").read_text()
    assert called.startswith(f"[run][HASHFILE:{tools / 'commits'}][--record-samples][--bench][^")
    assert called.endswith("[--machine][h]")
