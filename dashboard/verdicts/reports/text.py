"""The report for a terminal: summary, notes, one aligned table, worst first."""

from __future__ import annotations

from dashboard.models import CheckReport, SeriesVerdict
from dashboard.verdicts.reports.context import Context
from dashboard.verdicts.reports.text_table import aligned
from dashboard.verdicts.reports.wording import (
    acceptance,
    change,
    headlines,
    interval,
    one_line,
    summary,
    values,
    where,
)

_HEADER = ("verdict", "change", "95 % interval", "base", "head", "unit", "series", "reason")
_RIGHT = frozenset({1, 2, 3, 4})


def text(report: CheckReport, context: Context) -> str:
    """``report`` as plain text; names are kept to one line and free of control characters."""
    lines = [summary(report), *headlines(report)]
    lines += [f"note: {one_line(note)}" for note in report.notes]
    if report.verdicts:
        lines += ["", *_table(report.verdicts, context)]
    return "\n".join(lines) + "\n"


def _table(verdicts: tuple[SeriesVerdict, ...], context: Context) -> list[str]:
    several = len({(v.series.machine, v.series.environment) for v in verdicts}) > 1
    rows = [(*_cells(v, several), _remarks(v, context)) for v in verdicts]
    return aligned([_HEADER, *rows], right=_RIGHT)


def _remarks(verdict: SeriesVerdict, context: Context) -> str:
    parts = (acceptance(verdict, context), one_line(verdict.reason))
    return "; ".join(part for part in parts if part)


def _cells(verdict: SeriesVerdict, several: bool) -> tuple[str, ...]:
    label = one_line(verdict.series.label)
    return (
        verdict.verdict.value,
        change(verdict),
        interval(verdict),
        *values(verdict),
        one_line(verdict.series.unit),
        f"{label} [{where(verdict)}]" if several else label,
    )
