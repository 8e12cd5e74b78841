"""Which measured commits are meant: by name, or by their place in the graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dashboard.commits import Repository
from dashboard.errors import InputError
from dashboard.models import Commit
from dashboard.store import queries
from dashboard.store.connect import Store

_SHORTEST_PREFIX = 4


class UnmeasuredError(InputError):
    """A commit without results, ``meant`` in the user's words; one of ``hashes``, which have the
    same content."""

    def __init__(self, meant: str, hashes: frozenset[str]) -> None:
        super().__init__(f"commit {meant} has no results in the store: measure and ingest it first")
        self.meant = meant
        self.hashes = hashes


def find_commit(
    revision: str,
    measured: Sequence[Commit],
    known: Mapping[str, Commit],
    repository: Repository | None,
) -> Commit:
    """The measured commit that ``revision`` means.

    A hash, a unique prefix of four or more characters, a tag or, with a ``repository``,
    anything git resolves. Raises InputError: unknown or ambiguous; UnmeasuredError.
    """
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
        found = _known_as(revision, known)
    if found is None:
        searched = "the store or the repository" if repository is not None else "the store"
        raise InputError(f"unknown commit {revision!r}: no hash, prefix or tag of {searched}")
    return _measured_as(found, revision, measured, known)


def _known_as(revision: str, known: Mapping[str, Commit]) -> str | None:
    """The known commit of that hash, tag or unique prefix."""
    name = revision.lower()
    exact = [h for h, commit in known.items() if revision in commit.tags or h == name]
    prefixed = [h for h in known if len(name) >= _SHORTEST_PREFIX and h.startswith(name)]
    return next((found[0] for found in (exact, prefixed) if len(found) == 1), None)


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
    alike = {h for h, commit in known.items() if tree is not None and commit.tree == tree}
    raise UnmeasuredError(meant, frozenset({name, *alike}))


@contextmanager
def naming_machines(store: Store, machine: str | None) -> Iterator[None]:
    """Say of a commit that ``machine`` did not measure which machines did."""
    try:
        yield
    except UnmeasuredError as error:
        others = machines_of(error.hashes, store)
        if machine is None or not others:
            raise
        raise InputError(
            f"commit {error.meant} has no results of machine {machine!r}, but of "
            f"{', '.join(others)}: name one with --machine"
        ) from error


def require_measured(measured: Sequence[Commit], store: Store, machine: str | None) -> None:
    """InputError, naming the machines that the store has, where no commit is measured."""
    if measured:
        return
    where = "" if machine is None else f" on machine {machine!r}"
    machines = machines_of(queries.measured_places(store), store)
    others = f", but on {', '.join(machines)}" if machines else ""
    raise InputError(f"{store.path} has no measured commits{where}{others}")


def machines_of(commits: Collection[str], store: Store) -> list[str]:
    """The machines that measured any of these commits, by name."""
    places = queries.measured_places(store)
    return sorted({machine for commit in commits for machine, _ in places.get(commit, ())})


@dataclass(frozen=True, slots=True)
class Choice:
    """Which two of the ``measured`` commits, first to last, are compared.

    ``places`` are the machines and environments that measured each; ``in_turn`` tells which
    commits runs measured in turn with one, ``covering`` which have nearly all of its series;
    ``notes`` are told what was chosen, and why.
    """

    measured: Sequence[Commit]
    known: Mapping[str, Commit]
    places: Mapping[str, Collection[tuple[str, str]]]
    in_turn: Callable[[str], Collection[str]]
    covering: Callable[[str], Collection[str]]
    repository: Repository | None
    notes: list[str]

    def of(self, base: str | None, head: str | None) -> tuple[Commit, Commit]:
        """Base and head: those named, else such that they have a machine in common.

        Raises InputError: unknown or ambiguous commits, one twice, nothing to compare with.
        """
        first = None if base is None else self._find(base)
        last = None if head is None else self._find(head)
        if first is None:
            return self._base_and_head() if last is None else (self._base_of(last), last)
        if last is None:
            last = self._head_after(first)
        if first.hash == last.hash:
            named = base if head is None or head == base else f"{base} and {head}"
            raise InputError(f"base and head are one commit, {short(first)} ({named}): name two")
        return first, last

    def _find(self, revision: str) -> Commit:
        return find_commit(revision, self.measured, self.known, self.repository)

    def _base_and_head(self) -> tuple[Commit, Commit]:
        newest = self.measured[-1]
        for head in reversed(self.measured):
            if not self._before(head):
                continue
            if head is not newest:
                self.notes.append(
                    f"head is {short(head)}: no commit before the newest, {short(newest)}, was "
                    f"measured on {self._where(newest)}"
                )
            return self._base_of(head), head
        return self._base_of(newest), newest

    def _head_after(self, base: Commit) -> Commit:
        """The newest commit after ``base`` that shares a machine with it."""
        later = self.measured[self._index(base) + 1 :]
        if not later:
            raise InputError(
                f"no measured commit after base {short(base)}: name the one to judge with --head"
            )
        alike = [commit for commit in later if self._share(commit, base)]
        if alike and alike[-1] is not later[-1]:
            self.notes.append(
                f"head is {short(alike[-1])}, the newest commit measured on {self._where(base)}"
            )
        return (alike or later)[-1]

    def _base_of(self, head: Commit) -> Commit:
        """The merge base with the main branch; else the nearest measured ancestor, rather one
        that a run measured in turn with head or that has its series; else a commit before it."""
        before = self._before(head)
        if not before:
            raise InputError(
                f"no measured commit before {short(head)} to compare with on "
                f"{self._where(head)}: name one with --base"
            )
        alike = {c.hash: c for c in self.measured if self._share(c, head)}
        anywhere = {c.hash: c for c in self.measured}
        start, origin = self._start(head)
        nearest, _ = self._nearest(start, origin, anywhere)
        base, what = self._nearest(start, origin, alike)
        if base is None or base.hash != start:
            better, words = self._better(head, start, origin, base is not None)
            if better is not None and better != (base or before[-1]):
                other = "" if nearest is None else f"; {short(nearest)} was not"
                self.notes.append(f"base is {short(better)}, {words}{other}")
                return better
        if base is None:
            base, what = before[-1], "the measured commit before head"
            what += "; it is not known to be an ancestor"
        elif nearest is not None and nearest != base:
            what += (
                f" that was measured on {self._where(base, head)} as head was; "
                f"{short(nearest)} was not"
            )
        self.notes.append(f"base is {short(base)}, {what}")
        return base

    def _better(
        self, head: Commit, start: str, origin: str, related: bool
    ) -> tuple[Commit | None, str]:
        """The commit nearest to ``start`` that a run measured in turn with ``head``, else that
        was measured as whole as head was, and why.

        Unless some ancestor is known (``related``), the last such commit before head.
        """
        for better, why in (
            (self.in_turn, "that one run measured in turn with head"),
            (self.covering, "of which nearly all of head's series were measured"),
        ):
            hashes = better(head.hash)
            among = {c.hash: c for c in self._before(head) if c.hash in hashes}
            found, what = self._nearest(start, origin, among)
            if found is None and among and not related:
                found, what = list(among.values())[-1], "the last measured commit before head"
            if found is not None:
                return found, f"{what} {why}"
        return None, ""

    def _start(self, head: Commit) -> tuple[str, str]:
        """Where to look for a base, and its name: the merge base with main, else head."""
        main = self.repository.main_branch() if self.repository is not None else None
        if self.repository is not None and main is not None:
            fork = self.repository.merge_base(head.hash, main[1])
            if fork is not None and fork != head.hash:
                return fork, f"the merge base with {main[0]}"
        return head.hash, "head"

    def _nearest(
        self, start: str, origin: str, among: Mapping[str, Commit]
    ) -> tuple[Commit | None, str]:
        """The commit of ``among`` nearest to ``start``, which itself counts unless it is head."""
        if origin != "head" and start in among:
            return among[start], origin
        found = _nearest_ancestor(start, among, self.known)
        return found, f"the nearest measured ancestor of {origin}"

    def _before(self, head: Commit) -> list[Commit]:
        """The measured commits before ``head`` that share a machine with it."""
        return [c for c in self.measured[: self._index(head)] if self._share(c, head)]

    def _index(self, commit: Commit) -> int:
        return [c.hash for c in self.measured].index(commit.hash)

    def _share(self, one: Commit, other: Commit) -> bool:
        return not set(self.places[one.hash]).isdisjoint(self.places[other.hash])

    def _where(self, *commits: Commit) -> str:
        """The machines and environments that measured all of ``commits``, in words."""
        shared = set.intersection(*(set(self.places[c.hash]) for c in commits))
        return ", ".join(f"{machine} ({environment})" for machine, environment in sorted(shared))


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


def short(commit: Commit) -> str:
    """The first eight digits of the commit's hash."""
    return commit.hash[:8]
