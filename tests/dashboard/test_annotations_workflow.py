"""The workflows: their steps run here as a runner would, GitHub's side made up."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")

from workflow_steps import ROOT, WORKFLOWS, documents, git, run, step

FORWARD = "forward.Forward.track_time"
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")

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


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_pinned_minimal_and_expand_nothing_in_a_shell(path: Path) -> None:
    document = documents()[path.name]
    assert document["permissions"] == {"contents": "read"}
    for job in document["jobs"].values():
        assert job["timeout-minutes"] <= 360
        for one in job["steps"]:
            assert "${{" not in one.get("run", "")
            assert PINNED.fullmatch(one.get("uses", "a@" + "0" * 40)), one
        if "self-hosted" in job["runs-on"]:
            same = "github.event.pull_request.head.repo.full_name == github.repository"
            events = re.findall(r"github.event_name == '(\w+)'", job["if"])
            assert same in job["if"] or {*events} <= {"schedule", "workflow_dispatch"}


@pytest.mark.skipif(shutil.which("zizmor") is None, reason="zizmor is not installed")
def test_zizmor_finds_nothing() -> None:
    command = ["zizmor", "--offline", "--no-progress", str(ROOT / ".github")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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
    assert "https://perf.example/overview?" in report
    assert json.loads((folder / "report.json").read_text())["head"]["commit"] == head
    assert done.stdout.count("::error title=regressed") == (2 if code else 0)
    assert "::notice title=lmhead-perf check::" in done.stdout


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


def test_the_measure_step_times_the_merge_base_and_head_in_turns(
    folder: Path, commits: list[str]
) -> None:
    git(folder, "checkout", "-q", "-b", "work", commits[0])
    git(folder, "commit", "-q", "--allow-empty", "-m", "head")
    head = git(folder, "rev-parse", "work")
    files = {"GITHUB_ENV": str(folder / "env"), "RUNNER_TEMP": str(folder)}
    script = step("measure", "Measure")
    done = run(script, folder, BASE="main", HEAD=head, MACHINE="h", **files)
    assert done.returncode == 0, done.stderr
    assert (folder / "commits").read_text().split() == [commits[0], head]
    assert (folder / "env").read_text() == f"BASE={commits[0]}\n"
    called = (folder / "calls").read_text().splitlines()[-1]
    assert "[--interleave-rounds][--record-samples]" in called
    asv = folder.parent / "tools" / "asv"
    for code, ends in ((2, 0), (1, 1)):
        asv.write_text(f'#!/bin/bash\n[ "$1" = machine ] || exit {code}\n')
        assert run(script, folder, BASE="main", HEAD=head, MACHINE="h", **files).returncode == ends


def test_the_nightly_step_measures_one_family_of_the_full_tier(
    folder: Path, commits: list[str]
) -> None:
    (folder / "asv_benchmarks" / "results" / "h200").mkdir(parents=True)
    script = step("measure", "Measure", "nightly.yml")
    done = run(script, folder, FAMILY="entropy", MACHINE="h", PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert not (folder / "asv_benchmarks" / "results" / "h200").exists()
    called = (folder / "calls").read_text().splitlines()[-1]
    assert called.startswith("[run][HEAD^!][--record-samples][--machine][h][--bench][^(?:entropy)")
    assert r"nemotron\-ultra" in called
