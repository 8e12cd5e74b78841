"""The comparison with other projects as Markdown. Times in ms."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LONGEST_REASON = 60


@dataclass(frozen=True, slots=True)
class Column:
    """A call of the comparison; ``part`` is the pass it does, whose table it stands in."""

    part: str
    name: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A call on a shape: its time and by what it was taken, or the reason for none.

    ``difference`` is the largest one of a log-prob from ours, in nats; None if unchecked.
    """

    ms: float | None = None
    timed_by: str = ""
    difference: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A shape, such as ``8192, 4096, 131072``; ``unit_ms`` is the product's time."""

    shape: str
    unit_ms: float | None
    cells: Mapping[Column, Cell]

    def ratio(self, column: Column) -> float | None:
        """The column's time in units of the product, where both were taken."""
        cell = self.cells.get(column)
        if cell is None or cell.ms is None or not self.unit_ms:
            return None
        return cell.ms / self.unit_ms


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(reason: str) -> str:
    """A reason that breaks no table."""
    return " ".join(reason.split()).replace("|", "\\|")


def _value(row: Row, column: Column) -> str:
    ratio = row.ratio(column)
    if ratio is not None:
        return f"{ratio:.3f}"
    cell = row.cells.get(column)
    reason = _plain(cell.reason) if cell else ""
    if len(reason) > LONGEST_REASON:
        reason = reason[: LONGEST_REASON - 1].rstrip("\\ ") + "…"
    return reason or "-"


def _over(values: Sequence[float], count: int, value: float) -> str:
    """A figure over several shapes, saying over how many if not all."""
    return f"{value:.3f}" + (f" ({len(values)} of {count})" if len(values) < count else "")


def _summary(rows: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    """Below the shapes: geometric mean, worst, largest difference, and what timed it."""
    geomean, worst, difference, timed = ["geomean", ""], ["worst", ""], ["Δ log-prob", ""], []
    for column in columns:
        found = [ratio for row in rows if (ratio := row.ratio(column)) is not None]
        geomean.append(_over(found, len(rows), statistics.geometric_mean(found)) if found else "-")
        worst.append(_over(found, len(rows), max(found)) if found else "-")
        cells = [row.cells[column] for row in rows if column in row.cells]
        errors = [cell.difference for cell in cells if cell.difference is not None]
        difference.append(f"{max(errors):.1e}" if errors else "-")
        by = dict.fromkeys(cell.timed_by for cell in cells if cell.timed_by)
        timed.append(", ".join(by) or "-")
    return [_line(geomean), _line(worst), _line(difference), _line(["timed by", "", *timed])]


def table(rows: Sequence[Row], columns: Sequence[Column], unit: str) -> str:
    """A table of each pass, then what each column is, then every failure in full.

    ``unit`` names what the ratios are to.
    """
    parts = []
    for part in dict.fromkeys(column.part for column in columns):
        own = [column for column in columns if column.part == part]
        lines = [
            f"{part}, ratios to the {unit}:",
            "",
            _line(["M, H, V", f"{unit}, ms", *(column.name for column in own)]),
            _line(["---"] * (len(own) + 2)),
        ]
        for row in rows:
            ms = "-" if row.unit_ms is None else f"{row.unit_ms:.3f}"
            lines.append(_line([row.shape, ms, *(_value(row, column) for column in own)]))
        lines += _summary(rows, own)
        notes = "; ".join(f"{column.name}: {column.note}" for column in own if column.note)
        parts.append("\n".join([*lines, *(["", f"{notes}."] if notes else [])]))
    failures = [
        f"- {column.name}, {column.part}, {row.shape}: {_plain(cell.reason)}"
        for row in rows
        for column, cell in row.cells.items()
        if cell.reason
    ]
    if failures:
        parts.append("\n".join(["Not timed:", "", *failures]))
    return "\n\n".join(parts)
