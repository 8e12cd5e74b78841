"""Whether a store holds exactly what its results folder says.

The folder is read into a scratch store, which is then compared with the one in question: by
run, the number of values and rounds and all their content. What a store must never hold,
whatever its files, is looked for as well.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dashboard.store import queries
from dashboard.store.claims import source_of
from dashboard.store.connect import Store, open_store
from dashboard.store.discover import DEFINITIONS
from dashboard.store.ingest import ingest
from dashboard.store.queries import FileRow, RunContent

_SCRATCH = "scratch.duckdb"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: with a file of the results folder, or with the store itself (no path)."""

    path: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class Integrity:
    """What was compared, and what was wrong."""

    runs: int
    measurements: int
    rounds: int
    findings: tuple[Finding, ...]


def examine(store: Store, results: Path | None, source: str | None = None) -> Integrity:
    """Check a store by itself and, if there is one, against its results folder, which is
    ``source`` by name, else by its host and path.

    Raises InputError: a results folder with nothing to read.
    """
    findings = [
        Finding(None, f"{count} {what}") for what, count in queries.inconsistencies(store).items()
    ]
    stored = queries.source_files(store)
    findings += _nameless(stored)
    have = queries.contents(store)
    if results is None:
        return _summary(have, findings)
    source = source or source_of(results)
    with tempfile.TemporaryDirectory(prefix="lmhead-perf-") as folder:
        ingest(Path(folder) / _SCRATCH, results, source=source)
        with open_store(Path(folder) / _SCRATCH) as scratch:
            files = queries.source_files(scratch)
            wanted = queries.contents(scratch)
    present = {row.path for row in files}
    gone = [row for row in stored if row.source == source and row.path not in present]
    findings += [
        Finding(row.path, "is gone from the results folder: ingest --prune forgets it")
        for row in gone
    ]
    # the other half of a run, or a copy, waits for the file that is gone to be pruned
    runs = {row.run_id for row in gone if row.run_id is not None}
    contents = {row.digest for row in gone}
    waiting = {
        (row.path, row.digest) for row in stored if row.run_id in runs or row.digest in contents
    }
    known = {(row.path, row.digest, row.run_id) for row in stored}
    for run_id, rows in _by_run(files).items():
        lacking = [
            row
            for row in rows
            if (row.path, row.digest, row.run_id) not in known
            and (row.path, row.digest) not in waiting
        ]
        if lacking:
            findings += [Finding(row.path, "is not in the store: ingest it") for row in lacking]
        elif run_id in wanted and (rows[0].path, rows[0].digest) not in waiting:
            problem = _difference(wanted[run_id], have.get(run_id, RunContent(0, 0, 0, 0)))
            if problem is not None:
                findings.append(Finding(rows[0].path, problem))
    return _summary(wanted, findings)


def _nameless(files: list[FileRow]) -> list[Finding]:
    """Folders around a results folder, which earlier versions took for one."""
    paths: dict[str, list[PurePosixPath]] = {}
    for row in files:
        if row.run_id is not None or row.path == DEFINITIONS:
            paths.setdefault(row.source, []).append(PurePosixPath(row.path))
    return [
        Finding(
            None,
            f"{len(found)} files of {source} were read without the {DEFINITIONS} beside them, so "
            "that parameters have no names: ingest the results folder itself, or make the "
            "store anew",
        )
        for source, found in paths.items()
        if all(len(path.parts) > 2 for path in found)
    ]


def _by_run(files: list[FileRow]) -> dict[int | None, list[FileRow]]:
    found: dict[int | None, list[FileRow]] = {}
    for row in files:
        found.setdefault(row.run_id, []).append(row)
    return found


def _difference(wanted: RunContent, have: RunContent) -> str | None:
    if have.measurements != wanted.measurements:
        return f"has {wanted.measurements} values, the store {have.measurements}"
    if have.rounds != wanted.rounds:
        return f"has {wanted.rounds} rounds, the store {have.rounds}"
    if have.measured != wanted.measured:
        return "has other values than the store"
    if have.round_values != wanted.round_values:
        return "has other rounds than the store"
    return None


def _summary(runs: dict[int, RunContent], findings: list[Finding]) -> Integrity:
    return Integrity(
        runs=len(runs),
        measurements=sum(content.measurements for content in runs.values()),
        rounds=sum(content.rounds for content in runs.values()),
        findings=tuple(findings),
    )
