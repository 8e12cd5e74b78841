"""The commit graph: read with GitPython (only here), merged and put in order."""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dashboard.models import Commit

if TYPE_CHECKING:
    import git

_FIELDS = "%H%x00%T%x00%P%x00%an%x00%aI%x00%cI%x00%s"
_MAIN_BRANCHES = ("origin/HEAD", "origin/main", "main", "origin/master", "master")


@dataclass(frozen=True, slots=True)
class KnownCommit:
    """A commit and who knows it: ``repository``, ``commits.jsonl``, ``tree`` (a commit of the
    repository has the same tree) or ``date`` (asv's record of it only)."""

    commit: Commit
    known_by: str


class Repository:
    """A git repository, read only. `find` gives one; it may be bare or shallow."""

    def __init__(self, repo: git.Repo) -> None:
        self._repo = repo

    @classmethod
    def find(cls, folder: Path) -> Repository | None:
        """The repository that ``folder`` lies in; None without one, or without git."""
        # GitPython takes a twentieth of a second to load: not where there is nothing to find.
        if "GIT_DIR" not in os.environ and not any(
            (place / ".git").exists() or (place / "HEAD").exists()
            for place in (folder.absolute(), *folder.absolute().parents)
        ):
            return None
        try:
            import git
        except ImportError:  # GitPython refuses to load where git is not installed
            return None
        try:
            return cls(git.Repo(folder, search_parent_directories=True))
        except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.GitCommandError):
            return None

    def resolve(self, revision: str) -> str | None:
        """The full hash of a branch, tag, hash or expression; None if it names no commit."""
        found = self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"
        )
        return found or None

    def merge_base(self, first: str, second: str) -> str | None:
        """The best common ancestor of two commits; None if they have none."""
        found = self._git("merge-base", first, second)
        return found.splitlines()[0] if found else None

    def main_branch(self) -> tuple[str, str] | None:
        """Name and hash of the branch that work is merged into."""
        for name in _MAIN_BRANCHES:
            found = self.resolve(name)
            if found is not None:
                return name, found
        return None

    def history(self, wanted: Iterable[str], trees: Iterable[str] = ()) -> dict[str, Commit]:
        """The wanted commits that are here and all their ancestors, by hash.

        Of commits with one of ``trees`` the newest counts as wanted too.
        """
        starts = self._present(wanted)
        missing = set(trees)
        if missing:
            by_tree: dict[str, str] = {}
            for line in self._git("log", "--all", "--format=%H %T").splitlines():
                name, tree = line.split()
                if tree in missing:
                    by_tree.setdefault(tree, name)
            starts += by_tree.values()
        if not starts:
            return {}
        tags = self._tags()
        with _lines(starts) as stream:
            log = self._git("log", "--stdin", f"--format={_FIELDS}", istream=stream)
        commits = (_parse(line, tags) for line in log.split("\n") if line)
        return {commit.hash: commit for commit in commits}

    def _present(self, hashes: Iterable[str]) -> list[str]:
        wanted = [name for name in hashes if name.isalnum()]
        if not wanted:
            return []
        with _lines(wanted) as stream:
            answer = self._git("cat-file", "--batch-check", istream=stream)
        words = [line.split(" ") for line in answer.splitlines()]
        return [line[0] for line in words if line[1:2] == ["commit"]]

    def _tags(self) -> dict[str, list[str]]:
        listing = self._git(
            "for-each-ref", "--format=%(objectname) %(*objectname) %(refname:strip=2)", "refs/tags"
        )
        found: dict[str, list[str]] = {}
        for line in listing.splitlines():
            own, peeled, name = line.split(" ", 2)
            found.setdefault(peeled or own, []).append(name)
        return found

    def _git(self, *arguments: str, istream: BinaryIO | None = None) -> str:
        """The command's output; empty where git found nothing or failed."""
        output: bytes = self._repo.git.execute(
            ["git", *arguments], istream=istream, with_exceptions=False, stdout_as_string=False
        )
        return output.decode("utf-8", "replace").rstrip("\n")


def merge(
    measured: Mapping[str, datetime],
    repository: Mapping[str, Commit],
    shipped: Mapping[str, Commit],
    stored: Mapping[str, KnownCommit],
) -> dict[str, KnownCommit]:
    """Everything known of the commits, with positions, by hash.

    ``measured`` gives asv's commit dates; ``repository`` and ``shipped`` (commits.jsonl) are
    what was read now, ``stored`` what an earlier reading knew. The repository wins.
    """
    known: dict[str, KnownCommit] = {
        name: KnownCommit(Commit(hash=name, date=date), "date") for name, date in measured.items()
    }
    known |= {name: entry for name, entry in stored.items() if entry.known_by != "date"}
    for name, commit in shipped.items():
        if name not in known or known[name].known_by != "repository":
            known[name] = KnownCommit(commit, "commits.jsonl")
    for name, commit in repository.items():
        # A shallow clone cuts parents off; what was shipped with the results has them.
        earlier = known[name].commit.parents if name in known else ()
        known[name] = KnownCommit(replace(commit, parents=commit.parents or earlier), "repository")
    return _ordered(known)


def _ordered(known: dict[str, KnownCommit]) -> dict[str, KnownCommit]:
    """The same with positions: parents first, else by date.

    A commit that is not in the repository comes right after the one there with its tree.
    """
    by_tree = {
        entry.commit.tree: name
        for name, entry in known.items()
        if entry.known_by == "repository" and entry.commit.tree
    }
    before: dict[str, set[str]] = {}
    result: dict[str, KnownCommit] = {}
    for name, entry in known.items():
        result[name] = replace(entry, commit=replace(entry.commit, position=None))
        if entry.known_by == "date":
            continue
        before[name] = set(entry.commit.parents)
        twin = by_tree.get(entry.commit.tree or "")
        if entry.known_by != "repository" and twin is not None:
            before[name].add(twin)
            result[name] = replace(result[name], known_by="tree")
    for position, name in enumerate(_topological(before, known)):
        entry = result[name]
        result[name] = replace(entry, commit=replace(entry.commit, position=position))
    return result


def _topological(before: Mapping[str, set[str]], known: Mapping[str, KnownCommit]) -> Iterator[str]:
    """Names so that each follows what must come before it; those in a cycle never come."""
    after: dict[str, list[str]] = {}
    waits: dict[str, int] = {}
    for name, earlier in before.items():
        present = [other for other in earlier if other in before and other != name]
        waits[name] = len(present)
        for other in present:
            after.setdefault(other, []).append(name)
    ready = [(known[name].commit.date, name) for name, count in waits.items() if count == 0]
    heapq.heapify(ready)
    while ready:
        _, name = heapq.heappop(ready)
        yield name
        for follower in after.get(name, ()):
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(ready, (known[follower].commit.date, follower))


@contextmanager
def _lines(words: Iterable[str]) -> Iterator[BinaryIO]:
    """The words as a file of lines, for a command's standard input."""
    with tempfile.TemporaryFile() as stream:
        stream.write("".join(f"{word}\n" for word in words).encode())
        stream.seek(0)
        yield stream


def _parse(line: str, tags: Mapping[str, list[str]]) -> Commit:
    name, tree, parents, author, author_date, date, subject = line.split("\0", 6)
    return Commit(
        hash=name,
        date=datetime.fromisoformat(date),
        tree=tree,
        parents=tuple(parents.split()),
        author=author,
        author_date=datetime.fromisoformat(author_date),
        subject=subject,
        tags=tuple(tags.get(name, ())),
    )
