"""The nightly job for commits that no push measured; histories and rounds are synthetic."""

from __future__ import annotations

import json
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from measured_histories import KERNEL, History, begun
from workflow_steps import PUBLISH, ROOT, documents, git, run, step

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
    """An asv that does nothing."""
    (tmp_path / "tools").mkdir()
    asv = tmp_path / "tools" / "asv"
    asv.write_text("#!/bin/sh\n")
    asv.chmod(0o755)
    return tmp_path


def choose(history: History) -> list[str]:
    """The subjects of what the step chooses."""
    home = str(history.folder.parent)
    script = step("missed", "Choose", "nightly.yml")
    done = run(script, history.folder, HOME=home, PYTHONPATH=str(ROOT), MACHINE="h")
    assert done.returncode == 0, done.stderr
    subjects = {commit: subject for subject, commit in history.commits.items()}
    return [subjects[commit] for commit in (history.folder / "commits").read_text().split()]


def publish(history: History) -> None:
    """Put the rounds that were measured on the branch of the history."""
    remote = history.folder.parent / "remote"
    git(history.folder.parent, "init", "-q", "--bare", str(remote))
    history.git("remote", "add", "origin", str(remote))
    source = history.folder / "results"
    script = f'bash "{PUBLISH}" "{remote}" performance-history "{source}" results'
    assert run(script, history.folder).returncode == 0


def test_the_newest_commits_that_lack_measurements_are_chosen(
    history: History, tools: Path
) -> None:
    whole, environment = runnable(series_of("smoke"), "cpu"), environment_of("cpu")
    for name in ("two", "two", "one"):  # killed after its first round
        history.measure(history.commits[name], whole, environment=environment, machine="h")
    history.commit("head", {KERNEL: "4\n"})
    publish(history)
    shipped = history.folder / RESULTS / "rounds" / "shipped.jsonl"
    shipped.parent.mkdir(parents=True)
    shipped.touch()
    assert choose(history) == ["three", "one", "root"], "the shards measure the newest of all"
    (left,) = (path for path in (history.folder / RESULTS).rglob("*") if path.is_file())
    assert left.name.startswith(history.commits["one"][:8]), "it goes on from there"


def test_before_the_first_results_every_commit_is_missed(history: History, tools: Path) -> None:
    history.git("remote", "add", "origin", str(tools / "nowhere"))
    assert choose(history) == ["two", "one", "root"]
    history.git("checkout", "-q", history.commits["root"])
    assert choose(history) == [], "there is none but the newest"


SWEEP = """
import sys
print(*sys.argv[1:], file=open("calls", "a"))
sys.exit({codes}.get(sys.argv[sys.argv.index("--commit") + 1], 0))
"""


@pytest.mark.parametrize(
    ("codes", "ends"), [({}, 0), ({"a": 3}, 0), ({"a": 1}, 1)], ids=["done", "remains", "fails"]
)
def test_what_was_chosen_is_swept_commit_by_commit(
    tmp_path: Path, codes: dict[str, int], ends: int
) -> None:
    folder = tmp_path / "work"
    (folder / "asv_benchmarks").mkdir(parents=True)
    (folder / "asv_benchmarks" / "sweep.py").write_text(SWEEP.format(codes=codes))
    (folder / "commits").write_text("a\nb\n")
    script = step("missed", "Measure", "nightly.yml")
    done = run(script, folder, MINUTES="90", MACHINE="h", PYTHONPATH="")
    assert done.returncode == ends, done.stderr
    calls = (folder / "calls").read_text().splitlines()
    assert [call.split()[3] for call in calls] == ["a", "b"], "one keeps no other from it"
    command = [sys.executable, "-m", "asv_benchmarks.sweep", *calls[0].split(), "--list"]
    command[command.index("a")] = "HEAD"
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert listed.returncode in (0, 3), f"the suite's sweep does not take it: {listed.stderr}"


def test_no_commit_is_begun_after_the_time(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "commits").write_text("a\n")
    script = step("missed", "Measure", "nightly.yml")
    assert run(script, folder, MINUTES="0", MACHINE="h", PYTHONPATH="").returncode == 0


def test_what_was_missed_is_published_with_the_shards_if_it_was_chosen() -> None:
    jobs = documents()["nightly.yml"]["jobs"]
    upload, download = (
        next(one for one in jobs[job]["steps"] if action in one.get("uses", ""))
        for job, action in (("missed", "upload-artifact"), ("publish", "download-artifact"))
    )
    assert "missed" in jobs["publish"]["needs"]
    assert fnmatch(upload["with"]["name"], download["with"]["pattern"])
    assert "steps.choose.outcome == 'success'" in upload["if"]
    assert int(jobs["missed"]["env"]["MINUTES"]) <= jobs["missed"]["timeout-minutes"] - 20
