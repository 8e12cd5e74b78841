"""The report for a terminal: summary, notes, one aligned table, worst first."""

from __future__ import annotations

from dashboard.models import CheckReport, SeriesVerdict
from dashboard.verdicts.reports.wording import change, interval, number, one_line, summary, where

_HEADER = ("verdict", "change", "95 % interval", "base", "head", "unit", "series")
_RIGHT = frozenset({1, 2, 3, 4})


def text(report: CheckReport) -> str:
    """``report`` as plain text; names are kept to one line and free of control characters."""
    lines = [summary(report)]
    lines += [f"note: {one_line(note)}" for note in report.notes]
    if report.verdicts:
        lines += ["", *_table(report.verdicts)]
    return "\n".join(lines) + "\n"


def _table(verdicts: tuple[SeriesVerdict, ...]) -> list[str]:
    several = len({(v.series.machine, v.series.environment) for v in verdicts}) > 1
    rows = [_HEADER, *(_cells(v, several) for v in verdicts)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    reasons = ["reason", *(one_line(v.reason) for v in verdicts)]
    return [
        "  ".join([*(_pad(cell, i, widths[i]) for i, cell in enumerate(row)), reason]).rstrip()
        for row, reason in zip(rows, reasons, strict=True)
    ]


def _cells(verdict: SeriesVerdict, several: bool) -> tuple[str, ...]:
    label = one_line(verdict.series.label)
    return (
        verdict.verdict.value,
        change(verdict),
        interval(verdict),
        number(verdict.base),
        number(verdict.head),
        one_line(verdict.series.unit),
        f"{label} [{where(verdict)}]" if several else label,
    )


def _pad(cell: str, column: int, width: int) -> str:
    return cell.rjust(width) if column in _RIGHT else cell.ljust(width)
