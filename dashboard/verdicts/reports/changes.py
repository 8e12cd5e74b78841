"""The history's changes as text and as JSON.

    {"head": COMMIT, "commits": n, "series": n, "notes": [text],
     "changes": [{"benchmark", "params": {name: value}, "machine", "environment", "family",
                  "unit", "after": commit, "commit": commit, "suspects": [commits],
                  "subject", "author", "date", "ratio", "interval": [low, high], "difference",
                  "direction": "worse" | "better", "kind": "step" | "gradual", "points",
                  "explained_by", "acknowledged", "acknowledgement"}]}

``commit`` is the first measured commit at the new level, ``after`` the last at the old one,
``suspects`` all that may have made the change, first to last; the subject, author and date
are those of ``commit``. ``ratio`` is above 1 where it became worse, whatever the unit.
``points`` counts the measured commits since. ``explained_by`` says what else changed there, or
is null. The full document is described by history.schema.json beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dashboard.models import Commit
from dashboard.verdicts.reports.machine import (
    acknowledgement,
    commit_document,
    finite,
    params_document,
)
from dashboard.verdicts.reports.text_table import aligned
from dashboard.verdicts.reports.wording import NOTHING, between, one_line, percent

if TYPE_CHECKING:
    from dashboard.history import Change, HistoryReport

# Of more than these only the first and the last are named.
_MOST_NAMED = 10

_HEADER = ("change", "95 % interval", "points", "series", "")


def changes_text(report: HistoryReport) -> str:
    """``report`` for a terminal: changes by the commits that made them, latest first."""
    count = len(report.changes)
    lines = [
        f"{count} change{'' if count == 1 else 's'} in {report.series} series over "
        f"{report.commits} commits up to {_name(report.head)}"
    ]
    lines += [f"note: {one_line(note)}" for note in report.notes]
    for _, members in groupby(report.changes, key=_where):
        alike = list(members)
        lines += ["", *_heading(alike), *aligned([_HEADER, *map(_row, alike)], right={0, 1, 2})]
    return "\n".join(lines) + "\n"


def changes_json(report: HistoryReport) -> str:
    """``report`` as strict JSON (no NaN, no Infinity)."""
    document = {
        "head": commit_document(report.head),
        "commits": report.commits,
        "series": report.series,
        "notes": list(report.notes),
        "changes": [_change(change) for change in report.changes],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _where(change: Change) -> str:
    return change.commit.hash


def _heading(changes: Sequence[Change]) -> list[str]:
    commit = changes[0].commit
    about = [one_line(part) for part in (commit.subject, commit.author) if part]
    lines = [" — ".join([_name(commit), *about])]
    suspects = {suspect for change in changes for suspect in change.suspects}
    if len(suspects) > 1:
        ordered = sorted(suspects, key=lambda c: (c.position or 0, c.date, c.hash))
        names = list(map(_name, ordered))
        if len(names) > _MOST_NAMED:
            names = [names[0], "…", names[-1]]
        lines.append(f"{len(suspects)} suspects: {' '.join(names)}")
    return lines


def _row(change: Change) -> tuple[str, ...]:
    found = change.found
    series = found.series
    if found.ratio is not None:
        size = f"{percent(found.ratio)} %"
    else:
        size = NOTHING if found.difference is None else f"{found.difference:+.4g} {series.unit}"
    remarks = ["gradual"] if found.gradual else []
    if found.explained_by is not None:
        remarks.append(f"explained by {found.explained_by}")
    if change.acknowledged is not None:
        entry = change.acknowledged
        remarks.append(f"acknowledged by {entry.author}: {entry.reason}")
    label = f"{series.label} [{series.machine}, {series.environment}]"
    cells = (size, between(found.low, found.high), str(found.points), label, "; ".join(remarks))
    return tuple(map(one_line, cells))


def _change(change: Change) -> dict[str, object]:
    found, series = change.found, change.found.series
    bounded = found.low is not None and found.high is not None
    return {
        "benchmark": series.benchmark,
        "params": params_document(series),
        "machine": series.machine,
        "environment": series.environment,
        "family": series.family,
        "unit": series.unit,
        "after": change.after.hash,
        "commit": change.commit.hash,
        "suspects": [commit.hash for commit in change.suspects],
        "subject": change.commit.subject,
        "author": change.commit.author,
        "date": change.commit.date.isoformat(),
        "ratio": found.ratio,
        "interval": [found.low, found.high] if bounded else None,
        "difference": finite(found.difference),
        "direction": "worse" if found.worse else "better",
        "kind": "gradual" if found.gradual else "step",
        "points": found.points,
        "explained_by": found.explained_by,
        "acknowledged": change.acknowledged is not None,
        "acknowledgement": acknowledgement(change.acknowledged),
    }


def _name(commit: Commit) -> str:
    return one_line(commit.hash)[:8]
