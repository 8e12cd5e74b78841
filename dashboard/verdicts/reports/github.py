"""The report as GitHub workflow commands: an annotation for what needs a look.

A workflow prints them on stdout; GitHub shows ten of each kind at most, so the worst come
first and one of the summary before them.
"""

from __future__ import annotations

from dashboard.models import CheckReport, SeriesVerdict, Verdict
from dashboard.verdicts.reports.context import Context
from dashboard.verdicts.reports.wording import (
    FAILING,
    acceptance,
    headlines,
    one_line,
    size,
    summary,
    where,
)

_WARNED = frozenset({Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE})


def github(report: CheckReport, context: Context) -> str:
    """One line for each annotation: errors, warnings where nothing can be told, notices."""
    overall = "; ".join([summary(report), *headlines(report), *map(one_line, report.notes)])
    lines = [_command("notice", "lmhead-perf check", overall)]
    for verdict in report.verdicts:
        level = _level(verdict, context)
        if level is not None:
            lines.append(_command(level, _title(verdict), _message(verdict, context)))
    return "\n".join(lines) + "\n"


def _level(verdict: SeriesVerdict, context: Context) -> str | None:
    if verdict.verdict in FAILING:
        return "warning" if verdict.series in context.acknowledged else "error"
    return "warning" if verdict.verdict in _WARNED else None


def _title(verdict: SeriesVerdict) -> str:
    return f"{verdict.verdict.value.replace('_', ' ')}: {one_line(verdict.series.label)}"


def _message(verdict: SeriesVerdict, context: Context) -> str:
    parts = [
        size(verdict) if verdict.ratio is not None else "",
        one_line(verdict.reason),
        acceptance(verdict, context),
        where(verdict),
    ]
    return "; ".join(part for part in parts if part)


def _command(level: str, title: str, message: str) -> str:
    name = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{_escaped(message)}"


def _escaped(text: str) -> str:
    """What the runner would take for the end of a command, or for an escape."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
