"""The headline tables of one commit as text, Markdown or JSON: what the page shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from dashboard.app import frames, headline_tables
from dashboard.app.headline_tables import REFERENCE_NOTE, Table
from dashboard.app.wording import NEWER_HAVE_FEWER
from dashboard.commits import Repository
from dashboard.errors import InputError
from dashboard.models import Commit
from dashboard.revisions import find_commit, machines_of, naming_machines, require_measured, short
from dashboard.store import queries
from dashboard.store.connect import Store
from dashboard.verdicts.reports.markdown import escape
from dashboard.verdicts.reports.text_table import aligned


@dataclass(frozen=True, slots=True)
class Headlines:
    """The tables of a commit on a machine; ``gpu`` is ``None`` where no measurement names one.

    ``newer``: a newer commit was measured there, but fewer series of it.
    """

    commit: Commit
    machine: str
    gpu: str | None
    newer: bool
    tables: tuple[Table, ...]


def headlines(
    store: Store,
    *,
    commit: str | None = None,
    machine: str | None = None,
    repository: Repository | None = None,
) -> Headlines:
    """The headline tables of a commit; by default the newest of which nearly as many series
    were measured as of any. Without a machine on that of the newest run or, if it has not
    measured the commit, on the one that has.

    ``commit`` as for a check. Raises InputError: nothing measured, unknown or ambiguous commit,
    one that several machines measured.
    """
    known = {one.hash: one for one in queries.known_commits(store)}
    if commit is not None and machine is None:
        anywhere = queries.measured_commits(store)
        machine = _machine_of(find_commit(commit, anywhere, known, repository), store)
    machine = machine or queries.newest_machine(store)
    measured = queries.measured_commits(store, machine)
    require_measured(measured, store, machine)
    assert machine is not None  # of a measured commit
    most = queries.most_measured(store, machine)
    chosen = known[most] if most is not None else measured[-1]
    if commit is not None:
        with naming_machines(store, machine):
            chosen = find_commit(commit, measured, known, repository)
    described = frames.describe(queries.series(store))
    here = described[described["machine"] == machine]
    found = queries.points(store, frames.ids(here), (chosen.hash,))
    points = frames.points(here, found, [chosen.hash])
    gpu = next((str(name) for name in points["gpu"] if frames.known(name)), None)
    newer = commit is None and chosen.hash != measured[-1].hash
    return Headlines(chosen, machine, gpu, newer, tuple(headline_tables.tables(points)))


def _machine_of(commit: Commit, store: Store) -> str:
    """The machine that measured a commit: of several the one of the newest run. InputError if
    that is none of them."""
    machines = machines_of([commit.hash], store)
    newest = queries.newest_machine(store)
    if newest in machines:
        return newest
    if len(machines) > 1:
        names = ", ".join(machines)
        raise InputError(f"{short(commit)} was measured on {names}: name one with --machine")
    return machines[0]


def text(report: Headlines) -> str:
    """For a terminal: aligned columns, a command below each table that has no figures."""
    parts = [f"{_of(report)}\n{REFERENCE_NOTE}"]
    for table in report.tables:
        if table.frame.empty:
            command = table.command(report.commit.hash, report.machine)
            parts.append(f"{table.title}: {table.lacks}; not measured.\n{command}")
        else:
            lines = aligned([list(table.frame.columns), *_rows(table.frame)])
            parts.append("\n".join([table.title, *lines, *_notes(table)]))
    return "\n\n".join(parts) + "\n"


def markdown(report: Headlines) -> str:
    """For a document: a heading and a table each."""
    parts = [f"{escape(_of(report))} {escape(REFERENCE_NOTE)}"]
    for table in report.tables:
        parts.append(f"### {escape(table.title)}")
        if table.frame.empty:
            parts.append(f"Not measured: {escape(table.lacks)}.")
            continue
        rule = ["---"] * len(table.frame.columns)
        lines = [list(table.frame.columns), rule, *_rows(table.frame)]
        parts.append(
            "\n".join(
                "| " + " | ".join(c if c == "---" else escape(c) for c in line) + " |"
                for line in lines
            )
        )
        parts += [escape(note) for note in _notes(table)]
    return "\n\n".join(parts) + "\n"


def as_json(report: Headlines) -> str:
    """For a machine: ``{"commit", "newer", "machine", "gpu", "reference", "tables": [{"title",
    "rows", "note"}]}``, each row by its column names, as the page words them; ``newer``: fewer
    series were measured of newer commits."""
    document = {
        "commit": report.commit.hash,
        "subject": report.commit.subject,
        "newer": report.newer,
        "machine": report.machine,
        "gpu": report.gpu,
        "reference": REFERENCE_NOTE,
        "tables": [
            {
                "title": table.title,
                "rows": [
                    dict(zip(table.frame.columns, row, strict=True)) for row in _rows(table.frame)
                ],
                "note": table.note or None,
            }
            for table in report.tables
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _of(report: Headlines) -> str:
    where = f"{report.gpu} ({report.machine})" if report.gpu else report.machine
    newer = f" {NEWER_HAVE_FEWER}" if report.newer else ""
    return f"{short(report.commit)} measured on {where}.{newer}"


def _notes(table: Table) -> Iterator[str]:
    if table.note:
        yield table.note


def _rows(frame: pd.DataFrame) -> Sequence[list[str]]:
    return [[str(cell) for cell in row] for row in frame.itertuples(index=False, name=None)]
