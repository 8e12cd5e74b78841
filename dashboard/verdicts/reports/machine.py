"""The report as JSON, for other tools.

    {"base": COMMIT, "head": COMMIT, "summary": {verdict: count}, "notes": [text],
     "series": [{"benchmark", "params": {name: value}, "machine", "environment", "family",
                 "unit", "base", "head", "ratio", "interval": [low, high], "difference",
                 "threshold", "rounds_needed", "verdict", "reason"}]}

``ratio`` is above 1 where head is worse, whatever the unit; ``interval`` is its
95 % interval, not adjusted for the number of series; ``threshold`` the minimum
effect as a fraction. Where the rounds are known, ``base`` and ``head`` are the
geometric means of their values. Unknown is null.
"""

from __future__ import annotations

import ast
import json
from math import isfinite

from dashboard.models import CheckReport, Commit, SeriesVerdict
from dashboard.verdicts.reports.wording import counts


def as_json(report: CheckReport) -> str:
    """``report`` as strict JSON (no NaN, no Infinity)."""
    document = {
        "base": _commit(report.base),
        "head": _commit(report.head),
        "summary": counts(report),
        "notes": list(report.notes),
        "series": [_series(verdict) for verdict in report.verdicts],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _commit(commit: Commit) -> dict[str, object]:
    return {
        "commit": commit.hash,
        "date": commit.date.isoformat(),
        "author": commit.author,
        "subject": commit.subject,
        "tags": list(commit.tags),
    }


def _series(verdict: SeriesVerdict) -> dict[str, object]:
    series = verdict.series
    low, high = _finite(verdict.low), _finite(verdict.high)
    return {
        "benchmark": series.benchmark,
        "params": {name: _literal(value) for name, value in series.params},
        "machine": series.machine,
        "environment": series.environment,
        "family": series.family,
        "unit": series.unit,
        "base": _finite(verdict.base),
        "head": _finite(verdict.head),
        "ratio": _finite(verdict.ratio),
        "interval": None if low is None or high is None else [low, high],
        "difference": _finite(verdict.difference),
        "threshold": verdict.threshold,
        "rounds_needed": verdict.rounds_needed,
        "verdict": verdict.verdict.value,
        "reason": verdict.reason,
    }


def _literal(text: str) -> object:
    """A parameter's value from its ``repr``: numbers, strings, booleans and None; else the text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if isinstance(value, float) and not isfinite(value):
        return text
    return value if value is None or isinstance(value, bool | int | float | str) else text


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
