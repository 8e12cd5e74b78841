"""The commit graph: read from a real repository, merged with what shipped, put in order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import git
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.commits import KnownCommit, Repository, merge
from dashboard.models import Commit

START = datetime(2026, 1, 1, tzinfo=UTC)


def commit(name: str, day: int, *parents: str, tree: str | None = None) -> Commit:
    return Commit(name, START + timedelta(days=day), tree or f"tree-{name}", parents)


def positions(known: dict[str, KnownCommit]) -> dict[str, int | None]:
    return {name: entry.commit.position for name, entry in known.items()}


@pytest.fixture
def repo(tmp_path: Path) -> git.Repo:
    """main: a - b - d, side branch: b - c; a tagged v1."""
    repo = git.Repo.init(tmp_path / "repo", initial_branch="main")
    repo.config_writer().set_value("user", "name", "Ada Ünicode").release()
    repo.config_writer().set_value("user", "email", "ada@example.invalid").release()
    for name in "ab":
        _commit(repo, name)
    repo.create_tag("v1", ref="HEAD~1")
    repo.git.checkout("-b", "side")
    _commit(repo, "c")
    repo.git.checkout("main")
    _commit(repo, "d")
    return repo


def _commit(repo: git.Repo, name: str) -> None:
    path = Path(repo.working_dir) / name
    path.write_text(name)
    repo.index.add([str(path)])
    repo.index.commit(f"Add {name}: “quoted” → and all")


def test_history_has_ancestors_tags_and_text(repo: git.Repo) -> None:
    found = Repository.find(Path(repo.working_dir))
    assert found is not None
    head = repo.commit("main").hexsha
    history = found.history([head, "0" * 40])
    assert set(history) == {c.hexsha for c in repo.iter_commits("main")}
    assert history[head].subject == "Add d: “quoted” → and all"
    assert history[head].author == "Ada Ünicode"
    assert history[head].tree == repo.commit("main").tree.hexsha
    assert history[repo.commit("v1").hexsha].tags == ("v1",)


def test_unknown_commits_give_an_empty_history(repo: git.Repo) -> None:
    found = Repository.find(Path(repo.working_dir))
    assert found is not None
    assert found.history(["f" * 40, "--all", ""]) == {}


def test_resolve_takes_no_options(repo: git.Repo) -> None:
    found = Repository.find(Path(repo.working_dir))
    assert found is not None
    assert found.resolve("HEAD") == repo.commit("main").hexsha
    assert found.resolve("v1") == repo.commit("v1").hexsha
    assert found.resolve("--all") is None
    assert found.resolve("nothing") is None


def test_merge_base_and_main_branch(repo: git.Repo) -> None:
    found = Repository.find(Path(repo.working_dir))
    assert found is not None
    side, main = repo.commit("side").hexsha, repo.commit("main").hexsha
    assert found.main_branch() == ("main", main)
    assert found.merge_base(side, main) == repo.commit("main~1").hexsha
    assert found.merge_base(side, "0" * 40) is None


def test_no_repository(tmp_path: Path) -> None:
    assert Repository.find(tmp_path) is None
    assert Repository.find(tmp_path / "nowhere") is None


def test_a_tree_finds_the_rebased_twin(repo: git.Repo) -> None:
    found = Repository.find(Path(repo.working_dir))
    assert found is not None
    twin = repo.commit("main~1")
    orphan = Commit("e" * 40, START, twin.tree.hexsha)
    history = found.history([orphan.hash], [twin.tree.hexsha])
    assert twin.hexsha in history
    merged = merge({orphan.hash: START}, history, {orphan.hash: orphan}, {})
    assert merged[orphan.hash].known_by == "tree"
    twin_position = merged[twin.hexsha].commit.position
    assert twin_position is not None
    assert merged[orphan.hash].commit.position == twin_position + 1


def test_order_is_topological_even_against_the_dates() -> None:
    shipped = {c.hash: c for c in (commit("a", 9), commit("b", 1, "a"), commit("c", 5, "b"))}
    merged = merge({"c": START}, {}, shipped, {})
    assert positions(merged) == {"a": 0, "b": 1, "c": 2}


def test_a_commit_known_only_by_date_has_no_position() -> None:
    merged = merge({"x": START}, {}, {"a": commit("a", 1)}, {})
    assert merged["x"].known_by == "date"
    assert positions(merged) == {"x": None, "a": 0}


def test_the_repository_wins_and_is_remembered() -> None:
    ours, theirs = commit("a", 1), replace(commit("a", 1), subject="shipped")
    merged = merge({"a": START}, {"a": replace(ours, subject="repository")}, {"a": theirs}, {})
    assert merged["a"].commit.subject == "repository"
    again = merge({"a": START}, {}, {"a": theirs}, merged)
    assert again["a"].commit.subject == "repository"


def test_a_shallow_clone_does_not_cut_shipped_parents() -> None:
    shipped = {c.hash: c for c in (commit("a", 1), commit("b", 2, "a"))}
    merged = merge({"b": START}, {"b": commit("b", 2)}, shipped, {})
    assert merged["b"].commit.parents == ("a",)


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdefz"))))
def test_any_graph_is_ordered_parents_first(parents: dict[str, set[str]]) -> None:
    shipped = {name: commit(name, 1, *sorted(above)) for name, above in parents.items()}
    merged = merge({}, {}, shipped, {})
    placed = positions(merged)
    known = [position for position in placed.values() if position is not None]
    assert sorted(known) == list(range(len(known)))
    for name, above in parents.items():
        for parent in above - {name}:
            position = placed.get(name)
            if position is not None and parent in placed:
                before = placed[parent]
                assert before is not None
                assert before < position
