"""Two commits compared: which ones are meant, and the report on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboard.commits import Repository
from dashboard.errors import InputError
from dashboard.models import CheckReport, Commit, Pair
from dashboard.store import queries
from dashboard.store.connect import Store
from dashboard.verdicts import Policy, compare

_SHORTEST_PREFIX = 4


def check(
    store: Store,
    policy: Policy,
    *,
    base: str | None = None,
    head: str | None = None,
    machine: str | None = None,
    repository: Repository | None = None,
) -> CheckReport:
    """Compare two measured commits.

    ``base`` and ``head`` are hashes, unique prefixes of four or more characters, tags or, with
    a ``repository``, anything git resolves. Without ``head`` the newest measured commit is
    taken; without ``base`` the merge base of head with the main branch, else head's nearest
    measured ancestor, else the measured commit before it, as the notes then say.

    Raises InputError: nothing measured, unknown or ambiguous commits, nothing in common.
    """
    measured = queries.measured_commits(store, machine)
    if not measured:
        where = f" on machine {machine!r}" if machine is not None else ""
        raise InputError(f"{store.path} has no measured commits{where}")
    known = {commit.hash: commit for commit in queries.known_commits(store)}
    notes: list[str] = []
    head_commit = newest(measured) if head is None else _resolve(head, measured, known, repository)
    if base is None:
        base_commit = _default_base(head_commit, measured, known, repository, notes)
    else:
        base_commit = _resolve(base, measured, known, repository)
    found = queries.pairs(store, base_commit.hash, head_commit.hash, machine)
    verdicts = compare(_comparable(found, base_commit, head_commit, notes), policy)
    return CheckReport(base_commit, head_commit, verdicts, tuple(notes))


def newest(measured: Sequence[Commit]) -> Commit:
    """The last of measured commits in the store's order. IndexError if there are none."""
    return measured[-1]


def _resolve(
    revision: str,
    measured: Sequence[Commit],
    known: Mapping[str, Commit],
    repository: Repository | None,
) -> Commit:
    """The measured commit that a revision means."""
    name = revision.lower()
    prefixed = [commit for commit in measured if commit.hash.startswith(name)]
    for exact in (
        [commit for commit in measured if commit.hash == name],
        [commit for commit in measured if revision in commit.tags],
        prefixed if len(name) >= _SHORTEST_PREFIX else [],
    ):
        if len(exact) == 1:
            return exact[0]
    if len(name) >= _SHORTEST_PREFIX and len(prefixed) > 1:
        some = ", ".join(commit.hash[:12] for commit in prefixed[:4])
        raise InputError(f"{revision!r} fits {len(prefixed)} measured commits: {some}")
    found = repository.resolve(revision) if repository is not None else None
    if found is None:
        found = next((h for h, commit in known.items() if revision in (h, *commit.tags)), None)
    if found is None:
        searched = "the store or the repository" if repository is not None else "the store"
        raise InputError(f"unknown commit {revision!r}: no hash, prefix or tag of {searched}")
    return _measured_as(found, revision, measured, known)


def _measured_as(
    name: str, revision: str, measured: Sequence[Commit], known: Mapping[str, Commit]
) -> Commit:
    """The measured commit of that hash, or of the same tree (a rebased twin)."""
    tree = known[name].tree if name in known else None
    exact = [commit for commit in measured if commit.hash == name]
    twins = [commit for commit in measured if tree is not None and commit.tree == tree]
    if exact or twins:
        return (exact or twins)[-1]
    meant = f"{revision!r} ({name[:12]})" if revision != name else name[:12]
    raise InputError(f"commit {meant} has no results in the store: measure and ingest it first")


def _default_base(
    head: Commit,
    measured: Sequence[Commit],
    known: Mapping[str, Commit],
    repository: Repository | None,
    notes: list[str],
) -> Commit:
    by_hash = {commit.hash: commit for commit in measured}
    start, origin = head.hash, "head"
    main = repository.main_branch() if repository is not None else None
    if repository is not None and main is not None:
        fork = repository.merge_base(head.hash, main[1])
        if fork is not None and fork != head.hash:
            start, origin = fork, f"the merge base with {main[0]}"
            if fork in by_hash:
                notes.append(f"base is {_short(by_hash[fork])}, {origin}")
                return by_hash[fork]
    ancestor = _nearest_ancestor(start, by_hash, known)
    if ancestor is not None:
        notes.append(f"base is {_short(ancestor)}, the nearest measured ancestor of {origin}")
        return ancestor
    before = measured[: list(by_hash).index(head.hash)]
    if not before:
        raise InputError(
            f"no measured commit before {_short(head)} to compare with: name one with --base"
        )
    notes.append(
        f"base is {_short(before[-1])}, the measured commit before head; "
        "it is not known to be an ancestor"
    )
    return before[-1]


def _nearest_ancestor(
    start: str, measured: Mapping[str, Commit], known: Mapping[str, Commit]
) -> Commit | None:
    """The measured ancestor of ``start`` that is last in graph order."""
    seen = {start}
    frontier = [start]
    found: list[Commit] = []
    while frontier:
        commit = known.get(frontier.pop())
        for parent in commit.parents if commit is not None else ():
            if parent in seen:
                continue
            seen.add(parent)
            if parent in measured:
                found.append(measured[parent])  # what lies behind it is further away
            else:
                frontier.append(parent)
    return max(found, key=lambda commit: (commit.position or 0, commit.date), default=None)


def _comparable(found: Sequence[Pair], base: Commit, head: Commit, notes: list[str]) -> list[Pair]:
    """The pairs of machines and environments that measured both commits."""
    places: dict[tuple[str, str], list[Pair]] = {}
    for pair in found:
        places.setdefault((pair.series.machine, pair.series.environment), []).append(pair)
    chosen: list[Pair] = []
    for (machine, environment), members in places.items():
        if all(pair.head is None for pair in members):
            lacking = f"head {_short(head)}"
        elif all(pair.base is None for pair in members):
            lacking = f"base {_short(base)}"
        else:
            chosen += members
            continue
        notes.append(
            f"{machine} ({environment}) has no run of {lacking}: {len(members)} series left out"
        )
    if not chosen:
        raise InputError(
            f"{_short(base)} and {_short(head)} were never measured on the same machine "
            "and environment"
        )
    return chosen


def _short(commit: Commit) -> str:
    return commit.hash[:8]
