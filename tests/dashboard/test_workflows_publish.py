"""Results and charts on a branch: nothing that another job pushed is lost."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from workflow_steps import PUBLISH, ROOT, git, run, step


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


MEASURED = sorted((ROOT / "asv_benchmarks" / "results" / "h200").glob("*-gpu.json"))
NAN, SKIPPED, FAILED = float("nan"), "skipped", None


def row(version: str, started: int, *values: object) -> list[object]:
    """One benchmark's columns, its two parameters with these values; a value is its sample too."""
    result = [NAN if value == SKIPPED else value for value in values] or None
    samples = [None if value in (SKIPPED, FAILED) else [value] for value in values] or None
    return [result, [["'a'", "'b'"]], version, started, None, samples]


def results(folder: Path, **rows: list[object]) -> Path:
    """An asv results file with these benchmarks."""
    document = {
        "commit_hash": "c" * 40,
        "env_name": "e",
        "version": 2,
        "result_columns": ["result", "params", "version", "started_at", "stats_q_25", "samples"],
        "results": rows,
        "durations": dict.fromkeys(rows, 1),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cccccccc-e.json").write_text(json.dumps(document))
    return folder


def kept(remote: Path) -> dict[str, dict[str, object]]:
    """The published results file, each row by its columns."""
    document = json.loads(published(remote, "results/h200/cccccccc-e.json"))
    return {
        name: dict(zip(document["result_columns"], one, strict=False))
        for name, one in document["results"].items()
    }


def publish(folder: Path, remote: Path, **sources: dict[str, list[object]]) -> None:
    for name, rows in sources.items():
        source = results(folder / name / "h200", **rows).parent
        done = run(f'bash "{PUBLISH}" "{remote}" performance-history {source} results', folder)
        assert done.returncode == 0, done.stderr


def test_shards_of_one_commit_keep_each_others_benchmarks(folder: Path) -> None:
    remote = remote_of(folder)
    publish(
        folder,
        remote,
        one={"forward": row("1", 5, 1.0, SKIPPED), "shared": row("1", 9, 1.0, 2.0)},
        two={"backward": row("1", 6, FAILED, 3.0), "shared": row("1", 4, 3.0, 4.0)},
    )
    found = kept(remote)
    value, skipped = found["forward"]["result"]  # type: ignore[misc]
    assert value == 1.0
    assert skipped != skipped, "NaN stays NaN: skipped is not failed"
    assert found["backward"]["result"] == [None, 3.0]
    assert (found["shared"]["result"], found["shared"]["started_at"]) == ([1.0, 2.0], 9)


@pytest.mark.parametrize("turned", [False, True])
def test_shards_of_one_benchmark_keep_each_others_parameters(folder: Path, turned: bool) -> None:
    remote = remote_of(folder)
    shards = {
        "one": {"forward": row("1", 5, 1.0, SKIPPED), "whole": row("1", 5, 1.0, 2.0)},
        "two": {"forward": row("1", 6, SKIPPED, 2.0), "whole": row("1", 6)},
    }
    publish(folder, remote, **dict(sorted(shards.items(), reverse=turned)))
    found = kept(remote)
    assert found["forward"]["result"] == [1.0, 2.0]
    assert found["forward"]["samples"] == [[1.0], [2.0]]
    assert found["forward"]["started_at"] == 6
    assert found["whole"]["result"] == [1.0, 2.0], "what did not start tells of no parameters"


@pytest.mark.parametrize("turned", [False, True])
def test_what_was_measured_twice_stays_as_it_was_measured_later(folder: Path, turned: bool) -> None:
    remote = remote_of(folder)
    runs = {
        "one": {"f": row("1", 5, 1.0, 2.0), "anew": row("1", 5, 1.0, 2.0)},
        "two": {"f": row("1", 6, FAILED, 3.0), "anew": row("2", 6, 3.0, SKIPPED)},
    }
    publish(folder, remote, **dict(sorted(runs.items(), reverse=turned)))
    found = kept(remote)
    assert found["f"]["result"] == [None, 3.0]
    assert found["anew"]["version"] == "2"
    assert found["anew"]["result"][0] == 3.0  # type: ignore[index]
    assert "2.0" not in str(found["anew"]), "another version's values are not mixed in"


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.name[:8])
def test_a_file_of_asvs_in_two_parts_comes_out_whole(path: Path) -> None:
    merged = runpy.run_path(str(PUBLISH.with_name("merge_results.py")))["merged"]
    whole = json.loads(path.read_text())
    parts = [json.loads(path.read_text()) for _ in range(2)]
    for number, part in enumerate(parts):
        for columns in part["results"].values():
            for at, column in enumerate(columns):
                if part["result_columns"][at] == "params" or not isinstance(column, list):
                    continue
                missing = NAN if at == 0 else None
                columns[at] = [
                    value if place % 2 == number else missing for place, value in enumerate(column)
                ]
    assert json.dumps(merged(*parts)["results"]) == json.dumps(whole["results"])


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


@pytest.mark.parametrize(
    ("job", "name", "workflow"),
    [
        ("measure", "Fetch the history", "performance.yml"),
        ("measure", "Fetch what is measured", "nightly.yml"),
    ],
)
def test_a_branch_with_charts_alone_is_no_history_yet(
    folder: Path, job: str, name: str, workflow: str
) -> None:
    remote = remote_of(folder)
    charts = folder.parent / "charts"
    charts.mkdir()
    (charts / "a.png").write_text("a chart\n")
    (folder / "asv_benchmarks").mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "head")
    git(folder, "remote", "add", "origin", str(remote))
    run(
        f'bash "{PUBLISH}" "{remote}" performance-history "{folder.parent}/charts" charts/f', folder
    )
    done = run(step(job, name, workflow), folder)
    assert done.returncode == 0, done.stderr
    assert not (folder / "asv_benchmarks" / "results").exists()


def test_a_night_goes_on_where_the_last_one_ended(folder: Path) -> None:
    remote = remote_of(folder)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "head")
    git(folder, "remote", "add", "origin", str(remote))
    head = git(folder, "rev-parse", "HEAD")
    there, elsewhere = f"{head[:8]}-e-h200.jsonl", "00000000-e-h200.jsonl"
    source = folder.parent / "night" / "rounds"
    source.mkdir(parents=True)
    for name in (there, elsewhere):
        (source / name).write_text('{"round": 0}\n')
    results(source.parent / "h200")
    (folder / "asv_benchmarks" / "results" / "shipped").mkdir(parents=True)
    run(f'bash "{PUBLISH}" "{remote}" performance-history "{source.parent}" results', folder)
    done = run(step("measure", "Fetch what is measured", "nightly.yml"), folder)
    assert done.returncode == 0, done.stderr
    left = folder / "asv_benchmarks" / "results"
    assert [path.name for path in left.rglob("*") if path.is_file()] == [there]


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
    results(folder / "shards" / "nightly-1" / "h200", forward=row("1", 5, 1.0, SKIPPED))
    results(folder / "shards" / "nightly-2" / "h200", forward=row("1", 6, SKIPPED, 2.0))
    for shard in (1, 2):
        rounds = folder / "shards" / f"nightly-{shard}" / "rounds"
        rounds.mkdir()
        (rounds / "cccccccc-e-h200.jsonl").write_text(f'{{"shard": {shard}}}\n')
    (folder.parent / "tools").mkdir()
    gh = folder.parent / "tools" / "gh"
    gh.write_text("#!/bin/sh\nexit 0\n")
    gh.chmod(0o755)
    done = run(step("publish", "Publish", "nightly.yml"), folder, REMOTE=str(remote))
    assert done.returncode == 0, done.stderr
    assert kept(remote)["forward"]["result"] == [1.0, 2.0]
    lines = published(remote, "results/rounds/cccccccc-e-h200.jsonl").splitlines()
    assert lines == ['{"shard": 1}', '{"shard": 2}']
