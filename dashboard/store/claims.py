"""What of a results folder the store has already, and what a new version of it replaces.

A file is known by whose it is (its *source*: a results folder on a host), its path and its
content. Content that any source brought is in the store once. A changed file replaces what the
same source had under that path; another source's file of that path stands beside it, and of
several values of a series at a commit the latest counts. A file that is gone from its source
stays in the store until it is pruned.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from dashboard.store.discover import Group, SourceFile
from dashboard.store.queries import FileRow
from dashboard.store.tables import identifier

# Stores of the first schema did not say whose a file was.
_ANYBODY = ""


def source_of(results: Path) -> str:
    """The name of a results folder: its host and absolute path."""
    return f"{platform.node()}:{results.resolve()}"


class Claims:
    """The files of a store, for one source."""

    def __init__(self, source: str, rows: Iterable[FileRow]) -> None:
        self.source = source
        self._rows = list(rows)
        self._by_content: dict[tuple[str, str], list[FileRow]] = {}
        self._own: dict[str, FileRow] = {}
        self._sources: dict[int, set[str]] = {}
        for row in self._rows:
            self._by_content.setdefault((row.path, row.digest), []).append(row)
            if row.source in (source, _ANYBODY):
                self._own[row.path] = row
            if row.run_id is not None:
                self._sources.setdefault(row.run_id, set()).add(row.source)

    def known(self, file: SourceFile) -> FileRow | None:
        """The row of this content under this path, this source's first."""
        rows = self._by_content.get((file.path, file.digest), [])
        own = self._own.get(file.path)
        return own if own in rows else next(iter(rows), None)

    def has(self, group: Group) -> bool:
        """Whether the store has a run of these files, or rejected them."""
        runs = [
            {
                row.run_id
                for row in self._by_content.get((file.path, file.digest), [])
                if row.run_id is not None  # a copy of another file
            }
            for file in group.files
        ]
        return bool(set.intersection(*runs))

    def counts(self, file: SourceFile) -> bool:
        """Whether a copy of another file is unknown so far, or known as one that counts."""
        row = self.known(file)
        return row is None or row.run_id is not None

    def twin(self, group: Group, present: Collection[str]) -> str | None:
        """The path of a file that the store has with a group's results and rounds, if it is
        another source's or none of those ``present`` in this one."""
        assert group.result is not None
        for row in self._rows:
            if row.digest != group.result.digest or row.run_id is None or row.status != "read":
                continue
            if row.source == self.source and row.path in present:
                continue
            if group.rounds is None or any(
                other.digest == group.rounds.digest and other.run_id == row.run_id
                for other in self._rows
            ):
                return row.path
        return None

    def gone(self, files: Iterable[SourceFile]) -> list[FileRow]:
        """What the store has of this source that is not among these files."""
        present = {file.path for file in files}
        return [row for row in self._rows if row.source == self.source and row.path not in present]

    def forgetting(self, gone: Collection[FileRow]) -> tuple[Claims, set[int]]:
        """The claims without files that are gone, and the runs that go with them: those which
        no other source has. What is left of such a run's files is to be read again."""
        runs = {run for row in gone for run in (row.run_id, row.kept_run_id) if run is not None}
        dead = self._only_own(runs)
        left = set(self._rows) - set(gone)
        rows = [
            replace(row, run_id=None) if row.run_id in dead else row
            for row in self._rows
            if row in left
        ]
        return Claims(self.source, rows), dead

    def replaces(self, path: str) -> bool:
        """Whether this source had a file of that path."""
        return path in self._own

    def own(self, path: str) -> FileRow | None:
        """What this source had under the path."""
        return self._own.get(path)

    def earlier_runs(self, files: Iterable[SourceFile]) -> set[int]:
        """The runs that this source had in these files, and no other source has."""
        found = set()
        for file in files:
            row = self._own.get(file.path)
            if row is None:
                continue
            found |= {run for run in (row.run_id, row.kept_run_id) if run is not None}
            if row.source == _ANYBODY and file.kind == "rounds":
                found.add(identifier(file.path))  # where its rounds had no result of asv's
        return self._only_own(found)

    def kept_run(self, file: SourceFile) -> int | None:
        """The last run that could be read of what this source had under the path."""
        row = self._own.get(file.path)
        if row is None:
            return None
        return row.kept_run_id if row.status == "rejected" else row.run_id

    def _only_own(self, runs: Iterable[int]) -> set[int]:
        return {run for run in runs if self._sources.get(run, set()) <= {self.source, _ANYBODY}}
