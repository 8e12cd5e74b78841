"""The workflows: their steps run here as a runner would, GitHub's side made up."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")

from workflow_steps import ROOT, documents, git, run, step

FORWARD = "forward.Forward.track_time"

COMMENTS = """[
  {"id": 7, "user": {"login": "ada"}, "body": "<!-- lmhead-perf --> copied by a person"},
  {"id": 8, "user": {"login": "github-actions[bot]"}, "body": "another workflow's"},
  {"id": 9, "user": {"login": "github-actions[bot]"}, "body": "<!-- lmhead-perf -->\\nold"}
]"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a step runs."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.parametrize(("factor", "code"), [(1.1, 1), (1.0, 0)])
def test_the_judge_step_reports_and_fails_on_a_regression(
    folder: Path, make_history: Callable[..., Any], recipe: Any, factor: float, code: int
) -> None:
    made = make_history(folder / "results", recipe(factors={(FORWARD, 3): factor}))
    (folder / "asv.conf.json").write_text('{"results_dir": "results"}')
    base, head = made.commits[2:]
    done = run(step("measure", "Judge"), folder, BASE=base, HEAD=head, MACHINE="synthetic",
               DASHBOARD="https://perf.example")  # fmt: skip
    assert done.returncode == code, done.stderr
    report = (folder / "report.md").read_text()
    assert (folder.parent / "GITHUB_STEP_SUMMARY").read_text() == report
    assert (folder.parent / "GITHUB_OUTPUT").read_text() == "judged=true\n"
    assert "https://perf.example/compare?" in report
    assert json.loads((folder / "report.json").read_text())["head"]["commit"] == head
    assert done.stdout.count("::error title=regressed") == (2 if code else 0)
    assert "::notice title=lmhead-perf check::" in done.stdout


@pytest.mark.parametrize(
    ("rejected", "factor", "code"),
    [(0, 1.1, 1), (0, 1.0, 0), (3, 1.0, 2)],
    ids=["regressed", "unchanged", "head rejected"],
)
def test_the_judge_step_judges_what_was_accepted_and_warns_of_the_rest(
    folder: Path,
    make_history: Callable[..., Any],
    recipe: Any,
    rejected: int,
    factor: float,
    code: int,
) -> None:
    made = make_history(folder / "results", recipe(factors={(FORWARD, 3): factor}))
    made.result_file(rejected).write_text("{")
    (folder / "asv.conf.json").write_text('{"results_dir": "results"}')
    base, head = made.commits[2:]
    done = run(step("measure", "Judge"), folder, BASE=base, HEAD=head, MACHINE="synthetic")
    assert done.returncode == code, done.stderr
    assert "::warning title=lmhead-perf ingest::" in done.stdout
    assert f"rejected synthetic/{made.result_file(rejected).name}: not JSON" in done.stderr
    judged = folder.parent / "GITHUB_OUTPUT"
    assert judged.exists() is (code < 2)
    assert code == 2 or ("regressed" in (folder / "report.md").read_text()) is (code == 1)


def test_the_judge_step_says_when_it_cannot_tell(
    folder: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    make_history(folder / "results", recipe())
    (folder / "asv.conf.json").write_text('{"results_dir": "results"}')
    done = run(step("measure", "Judge"), folder, BASE="0" * 40, HEAD="1" * 40, MACHINE="synthetic")
    assert done.returncode == 2
    assert "unknown commit" in done.stderr
    assert not (folder.parent / "GITHUB_OUTPUT").exists()


@pytest.mark.parametrize("comments", ["[]", COMMENTS])
def test_the_comment_step_updates_its_own_comment_or_makes_one(folder: Path, comments: str) -> None:
    if shutil.which("jq") is None:
        pytest.skip("the stand-in for gh needs jq")
    (folder / "report.md").write_text("$(touch injected) `touch injected` | verdict |\n")
    (folder.parent / "tools").mkdir()
    (folder / "comments.json").write_text(comments)
    gh = folder.parent / "tools" / "gh"
    gh.write_text(
        "#!/bin/bash\n"
        'printf "%s\\n" "$*" >> calls\n'
        'if [[ $* == *--jq* ]]; then jq -r "${@: -1}" comments.json; fi\n'
    )
    gh.chmod(0o755)
    done = run(step("comment", "Comment"), folder, PULL_REQUEST="41")
    assert done.returncode == 0, done.stderr
    last = (folder / "calls").read_text().splitlines()[-1]
    wanted = "PATCH repos/o/r/issues/comments/9" if comments != "[]" else "POST repos/o/r/issues/41"
    assert f"--method {wanted}" in last
    assert "-F body=@comment.md" in last
    text = (folder / "comment.md").read_text()
    assert text.startswith("<!-- lmhead-perf -->\n\n$(touch injected)")
    assert not (folder / "injected").exists()


@pytest.fixture
def commits(folder: Path) -> list[str]:
    """Two commits where the step runs, and an asv that only notes how it was called."""
    git(folder, "init", "-q", "-b", "main")
    for name in ("one", "two"):
        git(folder, "commit", "-q", "--allow-empty", "-m", name)
    (folder.parent / "tools").mkdir()
    asv = folder.parent / "tools" / "asv"
    asv.write_text('#!/bin/bash\nprintf "[%s]" "$@" >> calls; echo >> calls; echo found it\n')
    asv.chmod(0o755)
    return git(folder, "rev-list", "--reverse", "main").split()


def test_the_bisect_step_searches_between_two_commits(folder: Path, commits: list[str]) -> None:
    script = step("bisect", "Bisect", "bisect.yml")
    done = run(script, folder, GOOD="main~1", BAD="main", SERIES="^a$(touch x)", MACHINE="h")
    assert done.returncode == 0, done.stderr
    called = (folder / "calls").read_text().splitlines()[-1]
    wanted = f"[find][--skip-save][--machine][h][--][{commits[0]}..{commits[1]}][^a$(touch x)]"
    assert called == wanted
    assert "found it" in (folder.parent / "GITHUB_STEP_SUMMARY").read_text()


@pytest.mark.parametrize("typed", ["--exec=touch x", "nonsense", "main; touch x", ""])
def test_the_bisect_step_refuses_what_is_no_commit(
    folder: Path, commits: list[str], typed: str
) -> None:
    script = step("bisect", "Bisect", "bisect.yml")
    assert run(script, folder, GOOD=typed, BAD="main", SERIES="a", MACHINE="h").returncode != 0
    assert not (folder / "calls").exists()
    assert not (folder / "x").exists()


def measuring(folder: Path) -> dict[str, str]:
    """What the step that measures finds in its environment."""
    return {
        "GITHUB_ENV": str(folder / "env"),
        "RUNNER_TEMP": str(folder),
        "PYTHONPATH": str(ROOT),
        "MACHINE": "h",
    }


def test_the_measure_step_times_the_merge_base_and_head_in_turns(
    folder: Path, commits: list[str]
) -> None:
    git(folder, "checkout", "-q", "-b", "work", commits[0])
    git(folder, "commit", "-q", "--allow-empty", "-m", "head")
    head = git(folder, "rev-parse", "work")
    files = measuring(folder)
    script = step("measure", "Measure")
    done = run(script, folder, BASE="main", HEAD=head, **files)
    assert done.returncode == 0, done.stderr
    assert (folder / "commits").read_text().split() == [commits[0], head]
    assert (folder / "env").read_text() == f"BASE={commits[0]}\n"
    called = (folder / "calls").read_text().splitlines()[-1]
    assert "[--interleave-rounds][--record-samples]" in called
    asv = folder.parent / "tools" / "asv"
    for code, ends in ((2, 0), (1, 1)):
        asv.write_text(f'#!/bin/bash\n[ "$1" = machine ] || exit {code}\n')
        assert run(script, folder, BASE="main", HEAD=head, **files).returncode == ends


def test_a_push_without_a_usable_commit_before_it_is_compared_with_its_parent(
    folder: Path, commits: list[str]
) -> None:
    files = measuring(folder)
    script, (parent, head) = step("measure", "Measure"), commits
    git(folder, "commit", "-q", "--allow-empty", "-m", "taken back by force")
    later = git(folder, "rev-parse", "main")
    for before in ("0" * 40, "f" * 40, head, later):
        done = run(script, folder, BASE=before, HEAD=head, **files)
        assert done.returncode == 0, done.stderr
        assert (folder / "commits").read_text().split() == [parent, head], before
    assert {*(folder / "env").read_text().splitlines()} == {f"BASE={parent}"}
    first = run(script, folder, BASE="0" * 40, HEAD=parent, **files)
    assert first.returncode != 0, "the first commit of all has nothing to be compared with"


def test_the_measure_step_asks_for_the_core_tier(folder: Path, commits: list[str]) -> None:
    files = measuring(folder)
    script = step("measure", "Measure")
    done = run(script, folder, BASE=commits[0], HEAD=commits[1], **files)
    assert done.returncode == 0, done.stderr
    tier = [sys.executable, "-m", "asv_benchmarks.tiers", "core"]
    wanted = subprocess.run(tier, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"[--bench][{wanted.strip()}]" in (folder / "calls").read_text()
    (folder / "calls").unlink()
    broken = folder / "broken" / "asv_benchmarks"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('a suite that does not load')")
    without = {**files, "PYTHONPATH": str(broken.parent)}
    assert run(script, folder, BASE=commits[0], HEAD=commits[1], **without).returncode != 0
    assert not (folder / "calls").exists(), "an unknown tier is not every benchmark"


SWEEP = """
import sys
print(*sys.argv[1:], file=open("sweep", "a"))
sys.exit({code})
"""


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (3, 0), (1, 1)])
def test_the_nightly_step_sweeps_a_shard_and_stops_in_good_order(
    folder: Path, commits: list[str], code: int, ends: int
) -> None:
    (folder / "asv_benchmarks").mkdir()
    (folder / "asv_benchmarks" / "sweep.py").write_text(SWEEP.format(code=code))
    script = step("measure", "Measure", "nightly.yml")
    done = run(script, folder, SHARD="2/4", MACHINE="h", PYTHONPATH="")
    assert done.returncode == ends, done.stderr
    called = (folder / "sweep").read_text().split()
    assert called[:4] == ["--tier", "full", "--shard", "2/4"]
    command = [sys.executable, "-m", "asv_benchmarks.sweep", *called, "--list"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert listed.returncode in (0, 3), f"the suite's sweep does not take it: {listed.stderr}"


def test_the_nightly_shards_are_all_and_their_time_is_within_the_jobs() -> None:
    job = documents()["nightly.yml"]["jobs"]["measure"]
    shards = job["strategy"]["matrix"]["shard"]
    assert job["env"]["SHARD"] == f"${{{{ matrix.shard }}}}/{len(shards)}"
    assert shards == list(range(1, len(shards) + 1))
    (minutes,) = re.findall(r"--minutes (\d+)", step("measure", "Measure", "nightly.yml"))
    assert int(minutes) <= job["timeout-minutes"] - 30
