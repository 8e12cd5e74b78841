"""Results files that are copies of others: a copied or moved machine folder counts once.

The rounds stay behind when a machine's folder is copied, so that the copy would be a run of the
same values without them, and which of the two counts would be chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.store.claims import Claims
from dashboard.store.discover import Group, SourceFile


@dataclass(frozen=True, slots=True)
class Copy:
    """A file with the content of another one, which counts: its path, of this folder or of
    what the store has."""

    file: SourceFile
    of: str


def set_apart(groups: Sequence[Group], claims: Claims) -> tuple[list[Group], list[Copy]]:
    """The groups without those whose results and rounds another one has, and those as copies.

    Of equal results those with rounds count, then the first by path; what the store has of a
    file that is not in this folder comes before all.
    """
    present = {file.path for group in groups for file in group.files}
    first: dict[str, Group] = {}
    copies: dict[Group, str] = {}
    for group in sorted(groups, key=lambda one: (one.rounds is None, one.files[0].path)):
        if group.result is None or not group.result.digest:
            continue
        original = first.setdefault(group.result.digest, group)
        if original is not group:
            if group.rounds is None or _same(group.rounds, original.rounds):
                copies[group] = original.files[0].path
        elif not claims.has(group) and (path := claims.twin(group, present)) is not None:
            copies[group] = path
    kept = [group for group in groups if group not in copies]
    return kept, [Copy(file, path) for group, path in copies.items() for file in group.files]


def _same(file: SourceFile, other: SourceFile | None) -> bool:
    return other is not None and file.digest == other.digest
