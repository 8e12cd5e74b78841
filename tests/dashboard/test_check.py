"""Which two commits a check compares, and what it says when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import git
import pytest

from dashboard.check import check
from dashboard.commits import Repository
from dashboard.errors import InputError
from dashboard.models import CheckReport, Verdict
from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest
from dashboard.verdicts import Policy
from dashboard.verdicts.reports import exit_code


def run(store: Path, **wishes: Any) -> CheckReport:
    """A check with the default policy."""
    with open_store(store) as opened:
        return check(opened, Policy(), **wishes)


def test_a_planted_slowdown_is_found(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    slow = {("forward.Forward.track_time", 3): 1.1}
    made = make_history(tmp_path / "results", recipe(factors=slow))
    ingest(tmp_path / "s.duckdb", made.results)
    report = run(tmp_path / "s.duckdb")
    assert report.count(Verdict.REGRESSED) == 2
    assert {v.series.benchmark for v in report.verdicts if v.verdict is Verdict.REGRESSED} == {
        "forward.Forward.track_time"
    }
    assert all(v.ratio == pytest.approx(1.1, abs=0.01) for v in report.verdicts[:2])
    assert run(tmp_path / "s.duckdb", head=made.commits[2]).count(Verdict.REGRESSED) == 0


def test_defaults_are_the_newest_commit_and_its_nearest_measured_ancestor(
    history_store: Path, history: Any
) -> None:
    report = run(history_store)
    assert (report.base.hash, report.head.hash) == (history.commits[2], history.commits[3])
    assert report.notes == (
        f"base is {history.commits[2][:8]}, the nearest measured ancestor of head",
    )


def test_results_of_newer_commits_that_were_rejected_are_told(
    tmp_path: Path, make_history: Callable[..., Any]
) -> None:
    made, store = make_history(tmp_path / "results"), tmp_path / "s.duckdb"
    for index in (0, 3):
        text = made.result_file(index).read_text("utf-8")
        made.result_file(index).write_text(text[: len(text) // 2], "utf-8")
    (tmp_path / "results" / "synthetic" / "notes.json").write_text("{")
    ingest(store, made.results)
    report = run(store)
    base, head, last = (commit[:8] for commit in made.commits[1:])
    assert (report.base.hash[:8], report.head.hash[:8]) == (base, head)
    (note,) = report.notes[1:]
    assert note.startswith(f"head is {head}, but results of {last}, newer or unknown to the store")
    assert f"synthetic/{made.result_file(3).name} was rejected: not JSON" in note
    assert run(store, machine="synthetic").notes == report.notes
    assert not any("rejected" in text for text in run(store, base=base, head=head).notes)


@pytest.mark.parametrize(
    ("index", "text", "said"),
    [(3, "no round\n", ""), (2, "no round\n", ""), (3, None, "in part "), (0, "no round\n", None)],
    ids=["head", "base", "a torn line", "another"],
)
def test_rounds_that_could_not_be_read_leave_a_check_unsure(
    tmp_path: Path, make_history: Callable[..., Any], index: int, text: str | None, said: str | None
) -> None:
    made, store = make_history(tmp_path / "results"), tmp_path / "s.duckdb"
    path = made.rounds_file(index)
    path.write_text(path.read_text("utf-8") + '{"torn' if text is None else text, "utf-8")
    ingest(store, made.results)
    for machine in (None, "synthetic"):
        report = run(store, machine=machine)
        notes = [note for note in report.notes if "rejected" in note]
        assert len(notes) == (said is not None)
        assert report.unsure is (said == "")
        assert exit_code(report) == (2 if report.unsure else 0)
    if said is not None:
        side = "base" if index == 2 else "head"
        assert notes[0].startswith(f"rounds/{path.name} was {said}rejected: ")
        assert notes[0].endswith(f"it is of {side} {made.commits[index][:8]}")


def test_unread_rounds_are_found_by_what_the_suite_calls_their_file(
    tmp_path: Path, make_history: Callable[..., Any]
) -> None:
    made, store = make_history(tmp_path / "results"), tmp_path / "s.duckdb"
    (made.results / "rounds" / "0123abcd-env-lab_one.jsonl").write_text("no round\n")
    ingest(store, made.results)
    with open_store(store) as opened:
        found = [len(queries.unread_rounds(opened, name)) for name in ("lab/one", "one", None)]
    assert found == [1, 0, 1]


def test_a_head_that_is_judged_by_an_earlier_content_says_so(
    tmp_path: Path, make_history: Callable[..., Any]
) -> None:
    made, store = make_history(tmp_path / "results"), tmp_path / "s.duckdb"
    ingest(store, made.results)
    made.result_file(3).write_text("{")
    ingest(store, made.results)
    head = made.commits[3]
    for wishes in ({}, {"head": head, "base": made.commits[2]}):
        note = run(store, **wishes).notes[-1]
        assert note.startswith(f"synthetic/{made.result_file(3).name} was rejected: not JSON")
        assert note.endswith(f"head {head[:8]} is judged by an earlier content of it")


def test_revisions_are_hashes_prefixes_and_tags(history_store: Path, history: Any) -> None:
    for base in (history.commits[0], history.commits[0][:6], history.commits[0].upper(), "v0.1"):
        report = run(history_store, base=base, head=history.commits[1])
        assert report.base.hash == history.commits[0]
        assert report.notes == ()


@pytest.mark.parametrize("revision", ["zzzz", "", "abc", "HEAD", "0" * 40, "'; --"])
def test_unknown_revisions_are_named(history_store: Path, revision: str) -> None:
    with pytest.raises(InputError, match="unknown commit") as caught:
        run(history_store, head=revision)
    assert repr(revision) in str(caught.value)


def test_an_ambiguous_prefix_names_the_candidates(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    hashes = ("abcd1" + "0" * 35, "abcd2" + "0" * 35)
    made = make_history(tmp_path / "results", recipe(hashes=hashes))
    ingest(tmp_path / "s.duckdb", made.results)
    with pytest.raises(InputError, match=r"'abcd' fits 2 measured commits: abcd1000"):
        run(tmp_path / "s.duckdb", head="abcd")


def test_an_empty_store_and_an_unknown_machine(tmp_path: Path, history_store: Path) -> None:
    open_store(tmp_path / "s.duckdb", read_only=False).close()
    with pytest.raises(InputError, match="has no measured commits"):
        run(tmp_path / "s.duckdb")
    with pytest.raises(InputError, match="no measured commits on machine 'x'"):
        run(history_store, machine="x")


def test_one_commit_has_nothing_to_compare_with(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=1))
    ingest(tmp_path / "s.duckdb", made.results)
    with pytest.raises(InputError, match="no measured commit before"):
        run(tmp_path / "s.duckdb")


def test_without_a_graph_the_commit_before_by_date_is_taken(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits_file=False))
    ingest(tmp_path / "s.duckdb", made.results)
    report = run(tmp_path / "s.duckdb")
    assert (report.base.hash, report.head.hash) == made.commits[2:]
    assert "not known to be an ancestor" in report.notes[0]


def test_machines_that_measured_one_side_only_are_left_out_and_named(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    both = make_history(tmp_path / "both", recipe(commits=2))
    only = make_history(
        tmp_path / "only", recipe(commits=1, machine="elsewhere", commits_file=False)
    )
    assert only.commits[0] == both.commits[0]
    for made in (both, only):
        ingest(tmp_path / "s.duckdb", made.results)
    report = run(tmp_path / "s.duckdb")
    assert len(report.verdicts) == 6
    assert report.notes[1].startswith("elsewhere (synthetic-py3.12-gpu) has no run of head")
    with pytest.raises(InputError, match="no measured commit before"):
        run(tmp_path / "s.duckdb", machine="elsewhere")


@pytest.fixture
def forked(tmp_path: Path) -> tuple[git.Repo, list[str]]:
    """A real repository: main a - b - c - d, work (from b): e - f."""
    repo = git.Repo.init(tmp_path / "repo", initial_branch="main")
    repo.config_writer().set_value("user", "name", "Test").release()
    repo.config_writer().set_value("user", "email", "test@example.invalid").release()
    names = []
    for index, name in enumerate("abcdef"):
        if name == "e":
            repo.git.checkout("-b", "work", names[1])
        date = datetime(2026, 1, 1 + index, tzinfo=UTC)
        made = repo.index.commit(name, author_date=date, commit_date=date)
        names.append(made.hexsha)
    return repo, names


@pytest.mark.parametrize(
    ("measured", "base", "words"),
    [
        ("bcdef", "b", "the merge base with main"),
        ("acdf", "a", "the nearest measured ancestor of the merge base with main"),
        ("cdf", "d", "not known to be an ancestor"),
    ],
)
def test_the_base_is_the_merge_base_or_the_nearest_measured_ancestor(
    tmp_path: Path,
    forked: tuple[git.Repo, list[str]],
    make_history: Callable[..., Any],
    recipe: Any,
    measured: str,
    base: str,
    words: str,
) -> None:
    repo, names = forked
    hashes = tuple(names["abcdef".index(name)] for name in measured)
    made = make_history(tmp_path / "results", recipe(hashes=hashes, commits_file=False))
    repository = Repository.find(Path(repo.working_dir))
    ingest(tmp_path / "s.duckdb", made.results, repository)
    report = run(tmp_path / "s.duckdb", head="work", repository=repository)
    assert report.head.hash == names[5]
    assert report.base.hash == names["abcdef".index(base)]
    assert words in report.notes[0]
    on_main = run(tmp_path / "s.duckdb", head="main", repository=repository)
    assert (on_main.base.hash, on_main.head.hash) == (names[2], names[3])


def test_a_commit_without_results_is_told_apart_from_an_unknown_one(
    tmp_path: Path,
    forked: tuple[git.Repo, list[str]],
    make_history: Callable[..., Any],
    recipe: Any,
) -> None:
    repo, names = forked
    made = make_history(tmp_path / "results", recipe(hashes=tuple(names[:2]), commits_file=False))
    repository = Repository.find(Path(repo.working_dir))
    ingest(tmp_path / "s.duckdb", made.results, repository)
    with pytest.raises(InputError, match=rf"'work' \({names[5][:12]}\) has no results"):
        run(tmp_path / "s.duckdb", head="work", repository=repository)
