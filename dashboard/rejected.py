"""What asv's files say of two commits, or of newer ones, but the store could not read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from dashboard.models import Commit
from dashboard.revisions import short
from dashboard.store import queries
from dashboard.store.connect import Store

# asv names a results file by the first digits of its commit.
_COMMIT = re.compile(r"([0-9a-f]{7,40})-")


def unread(store: Store, base: Commit, head: Commit, machine: str | None) -> tuple[list[str], bool]:
    """Notes on rounds of the two commits that could not be read; whether none of a file could,
    so that a verdict would be one of what is left."""
    notes, lost = [], False
    for path, reason, whole in queries.unread_rounds(store, machine):
        named = _COMMIT.match(PurePosixPath(path).name)
        for side, commit in (("base", base), ("head", head)):
            if named is not None and commit.hash.startswith(named.group(1)):
                part = "" if whole else "in part "
                notes.append(
                    f"{path} was {part}rejected: {reason}; it is of {side} {short(commit)}"
                )
                lost = lost or whole
    return notes, lost


def rejections(
    store: Store,
    base: Commit,
    head: Commit,
    known: Sequence[Commit],
    machine: str | None,
    newer: bool,
) -> Iterator[str]:
    """What the reader of a comparison has to know of rejected results files.

    ``known`` are the store's commits in their order; ``newer`` asks for files of commits after
    ``head`` too, and of such as the store does not know: they are no ancestors of what it has.
    """
    later: dict[str, str] = {}
    places = [commit.hash for commit in known]
    for path, reason, kept in queries.rejected_results(store, machine):
        named = _COMMIT.match(PurePosixPath(path).name)
        if named is None:
            continue
        digits = named.group(1)
        told = f"{path} was rejected: {reason}"
        for side, commit in (("base", base), ("head", head)):
            if commit.hash.startswith(digits):
                what = "an earlier content of it" if kept else "what else was measured of it"
                yield f"{told}; {side} {short(commit)} is judged by {what}"
        alike = [place for place, name in enumerate(places) if name.startswith(digits)]
        if not alike or max(alike) > places.index(head.hash):
            later[digits[:8]] = told
    if newer and later:
        yield (
            f"head is {short(head)}, but results of {', '.join(later)}, newer or unknown to the "
            f"store, are missing: {'; '.join(later.values())}"
        )
