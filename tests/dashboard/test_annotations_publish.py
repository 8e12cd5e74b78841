"""Results and charts on a branch: nothing that another job pushed is lost."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from workflow_steps import PUBLISH, git, run, step


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a step runs."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def remote_of(folder: Path) -> Path:
    remote = folder.parent / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    return remote


def published(remote: Path, path: str) -> str:
    return git(remote, "show", f"performance-history:{path}")


def test_publishing_at_once_loses_no_file(folder: Path) -> None:
    remote = remote_of(folder)
    runs = []
    for number in range(4):
        source = folder / f"run {number}"
        (source / "h200").mkdir(parents=True)
        (source / "h200" / f"{number}.json").write_text(f"{number}\n")
        (source / "commits.jsonl").write_text(f'{{"hash": "first"}}\n{{"hash": "{number}"}}\n')
        command = ["bash", str(PUBLISH), str(remote), "performance-history", str(source), "results"]
        runs.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    for started in runs:
        _, told = started.communicate(timeout=100)
        assert started.returncode == 0, told
    for number in range(4):
        assert published(remote, f"results/h200/{number}.json") == str(number)
    lines = published(remote, "results/commits.jsonl").splitlines()
    assert sorted(lines) == sorted(
        ['{"hash": "first"}', *(f'{{"hash": "{number}"}}' for number in range(4))]
    )
    assert len(git(remote, "log", "--format=%h", "performance-history").splitlines()) == 4


def results(folder: Path, **started: int) -> Path:
    """An asv results file with benchmarks that started at the given times, their value too."""
    columns = ["result", "params", "version", "started_at"]
    document = {
        "commit_hash": "c" * 40,
        "env_name": "e",
        "version": 2,
        "result_columns": columns,
        "results": {name: [[at, float("nan"), None], [], "1", at] for name, at in started.items()},
        "durations": dict(started),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cccccccc-e.json").write_text(json.dumps(document))
    return folder


def test_shards_of_one_commit_keep_each_others_benchmarks(folder: Path) -> None:
    remote = remote_of(folder)
    for name, started in (
        ("one", {"forward": 5, "shared": 9}),
        ("two", {"backward": 6, "shared": 4}),
    ):
        source = results(folder / name / "h200", **started).parent
        done = run(f'bash "{PUBLISH}" "{remote}" performance-history {source} results', folder)
        assert done.returncode == 0, done.stderr
    kept = json.loads(published(remote, "results/h200/cccccccc-e.json"))
    assert {name: row[3] for name, row in kept["results"].items()} == {
        "forward": 5,
        "backward": 6,
        "shared": 9,
    }
    value, skipped, failed = kept["results"]["forward"][0]
    assert (value, failed) == (5, None)
    assert skipped != skipped, "NaN stays NaN: skipped is not failed"
    assert set(kept["durations"]) == {"forward", "backward", "shared"}


def test_publishing_the_same_again_makes_no_commit_and_a_refusal_fails(folder: Path) -> None:
    remote = remote_of(folder)
    (folder / "a.json").write_text("1\n")
    command = f'bash "{PUBLISH}" "{remote}" performance-history . results'
    assert run(command, folder).returncode == 0
    again = run(command, folder)
    assert again.returncode == 0
    assert "up to date" in again.stderr
    assert git(remote, "rev-list", "--count", "performance-history") == "1"
    assert run(f'bash "{PUBLISH}" "{folder}/none" b . results', folder).returncode != 0


def test_the_history_is_laid_under_the_new_results(folder: Path) -> None:
    remote = remote_of(folder)
    source = folder.parent / "old"
    (source / "h200").mkdir(parents=True)
    (source / "h200" / "old.json").write_text("{}\n")
    (folder / "asv_benchmarks").mkdir()
    git(folder, "init", "-q")
    git(folder, "remote", "add", "origin", str(remote))
    script = step("measure", "Fetch the history")
    assert run(script, folder).returncode == 0, "before the first push there is no history"
    run(f'bash "{PUBLISH}" "{remote}" performance-history "{source}" results', folder)
    assert run(script, folder).returncode == 0
    assert (folder / "asv_benchmarks" / "results" / "h200" / "old.json").is_file()


def test_the_publish_step_stores_results_of_a_push_and_charts_of_any(folder: Path) -> None:
    remote = remote_of(folder)
    (folder / ".github").mkdir()
    for name in ("publish.sh", "merge_results.py"):
        shutil.copy(PUBLISH.with_name(name), folder / ".github")
    for name in ("asv_benchmarks/results/h200", "charts"):
        (folder / "performance" / name).mkdir(parents=True)
        (folder / "performance" / name / "a.json").write_text(f"{name}\n")
    (folder.parent / "tools").mkdir()
    gh = folder.parent / "tools" / "gh"
    gh.write_text("#!/bin/sh\nexit 0\n")
    gh.chmod(0o755)
    script, common = step("publish", "Publish"), {"REMOTE": str(remote), "HEAD": "f" * 40}
    done = run(script, folder, GITHUB_EVENT_NAME="pull_request", **common)
    assert done.returncode == 0, done.stderr
    listed = git(remote, "ls-tree", "-r", "--name-only", "performance-history").splitlines()
    assert listed == [f"charts/{'f' * 40}/a.json"]
    done = run(script, folder, GITHUB_EVENT_NAME="push", **common)
    assert done.returncode == 0, done.stderr
    assert published(remote, "results/h200/a.json") == "asv_benchmarks/results/h200"


def test_the_nightly_shards_are_published_together(folder: Path) -> None:
    remote = remote_of(folder)
    (folder / ".github").mkdir()
    for name in ("publish.sh", "merge_results.py"):
        shutil.copy(PUBLISH.with_name(name), folder / ".github")
    for number, family in enumerate(("forward", "backward")):
        results(folder / "shards" / f"nightly-{family}" / "h200", **{family: number})
    (folder.parent / "tools").mkdir()
    gh = folder.parent / "tools" / "gh"
    gh.write_text("#!/bin/sh\nexit 0\n")
    gh.chmod(0o755)
    done = run(step("publish", "Publish", "nightly.yml"), folder, REMOTE=str(remote))
    assert done.returncode == 0, done.stderr
    kept = json.loads(published(remote, "results/h200/cccccccc-e.json"))
    assert set(kept["results"]) == {"forward", "backward"}
