"""The commit table, brought up to date from the repository and ``commits.jsonl``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dashboard.commits import KnownCommit, Repository, merge
from dashboard.models import Commit
from dashboard.store import queries
from dashboard.store.connect import Store
from dashboard.store.tables import stored_time


def refreshed(
    store: Store, repository: Repository | None, shipped: Mapping[str, Commit]
) -> list[dict[str, Any]]:
    """The rows that the table lacks or has otherwise."""
    stored = {row["hash"]: _known(row) for row in queries.commit_rows(store)}
    measured = queries.run_commits(store)
    history = {}
    if repository is not None:
        trees = _trees(measured, stored, shipped)
        history = repository.history(measured, trees)
    merged = merge(measured, history, shipped, stored)
    return [_row(entry) for name, entry in merged.items() if stored.get(name) != entry]


def _trees(
    measured: Mapping[str, datetime],
    stored: Mapping[str, KnownCommit],
    shipped: Mapping[str, Commit],
) -> set[str]:
    """The trees of measured commits that no repository has had so far."""
    found = set()
    for name in measured:
        entry = stored.get(name)
        if entry is not None and entry.known_by == "repository":
            continue
        commit = shipped.get(name) or (entry.commit if entry is not None else None)
        if commit is not None and commit.tree is not None:
            found.add(commit.tree)
    return found


def _known(row: Mapping[str, Any]) -> KnownCommit:
    author_date: datetime | None = row["author_date"]
    commit = Commit(
        hash=row["hash"],
        date=row["commit_date"].replace(tzinfo=UTC),
        tree=row["tree"],
        parents=tuple(row["parents"]),
        author=row["author"],
        author_date=None if author_date is None else author_date.replace(tzinfo=UTC),
        subject=row["subject"],
        tags=tuple(row["tags"]),
        position=row["position"],
    )
    return KnownCommit(commit, row["known_by"])


def _row(entry: KnownCommit) -> dict[str, Any]:
    commit = entry.commit
    return {
        "hash": commit.hash,
        "tree": commit.tree,
        "parents": list(commit.parents),
        "author": commit.author,
        "author_date": stored_time(commit.author_date),
        "commit_date": stored_time(commit.date),
        "subject": commit.subject,
        "tags": list(commit.tags),
        "position": commit.position,
        "known_by": entry.known_by,
    }
