"""Questions to the commit graph of a store: who comes from whom."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.models import Commit


class Lineage:
    """The commits of a store in graph order, and their ancestry.

    Commits known only by their date are nobody's ancestors.
    """

    def __init__(self, commits: Sequence[Commit]) -> None:
        self._commits = {commit.hash: commit for commit in commits}
        self._ancestors: dict[str, frozenset[str]] = {}

    def ancestors(self, commit: str) -> frozenset[str]:
        """The hashes of ``commit`` and of everything it was made from."""
        if commit not in self._ancestors:
            seen = {commit}
            frontier = [commit]
            while frontier:
                known = self._commits.get(frontier.pop())
                for parent in known.parents if known is not None else ():
                    if parent not in seen:
                        seen.add(parent)
                        frontier.append(parent)
            self._ancestors[commit] = frozenset(seen)
        return self._ancestors[commit]

    def between(self, after: Commit, last: Commit) -> tuple[Commit, ...]:
        """What ``last`` contains that ``after`` does not, in graph order, ``last`` included."""
        new = self.ancestors(last.hash) - self.ancestors(after.hash)
        return tuple(c for name, c in self._commits.items() if name in new) or (last,)

    def line(self, head: Commit, commits: Sequence[Commit]) -> tuple[Commit, ...]:
        """Those of ``commits`` that lead to ``head``, in their order.

        A commit that stands for one of the same tree counts as that one; where the graph
        says nothing of a commit, its date has to do.
        """
        if head.position is None:
            return tuple(c for c in commits if c.position is None and c.date <= head.date)
        leading = self.ancestors(head.hash)
        trees = {c.tree for name in leading if (c := self._commits.get(name)) and c.tree}
        return tuple(
            c for c in commits if c.position is None or c.hash in leading or c.tree in trees
        )
