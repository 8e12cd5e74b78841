"""The report as JSON, for other tools.

    {"base": COMMIT, "head": COMMIT, "settings": FILE, "summary": {verdict: count},
     "notes": [text],
     "geometric_mean": {"ratio", "series": count},
     "causes": [{"verdict", "shared": {name: value}, "series": count, "of": count, "ratio"}],
     "series": [{"benchmark", "params": {name: value}, "machine", "environment", "family",
                 "unit", "base", "head", "ratio", "interval": [low, high], "difference",
                 "threshold", "rounds_needed", "verdict", "reason", "acknowledged",
                 "acknowledgement", "reproduce", "link"}]}

``ratio`` is above 1 where head is worse, whatever the unit; ``interval`` is its
95 % interval, not adjusted for the number of series; ``threshold`` the minimum
effect as a fraction, 0 for a series that is compared exactly; ``settings`` the file that
sets them, null for the defaults. Where the rounds are known, ``base`` and ``head`` are the
geometric means of their values. ``geometric_mean`` is that of the ratios of calls' times
measured at both commits: no control, first call or host's time, and no bytes, counts or errors;
``causes`` are what the changed series share, their ratio is null where these differ in kind.
Unknown is null. The full document is described by check.schema.json beside this file.
"""

from __future__ import annotations

import ast
import json
from math import isfinite

from dashboard.acknowledged import Acknowledgement
from dashboard.models import CheckReport, Commit, Series, SeriesVerdict
from dashboard.verdicts.causes import Cause, causes, mean_of_call_times
from dashboard.verdicts.reports.context import Context
from dashboard.verdicts.reports.links import measure_again, trend_link
from dashboard.verdicts.reports.wording import counts


def as_json(report: CheckReport, context: Context) -> str:
    """``report`` as strict JSON (no NaN, no Infinity)."""
    ratio, count = mean_of_call_times(report.verdicts)
    document = {
        "base": commit_document(report.base),
        "head": commit_document(report.head),
        "settings": context.settings,
        "summary": counts(report),
        "notes": list(report.notes),
        "geometric_mean": {"ratio": ratio, "series": count},
        "causes": [_cause(cause) for cause in causes(report.verdicts)],
        "series": [_series(report, verdict, context) for verdict in report.verdicts],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def commit_document(commit: Commit) -> dict[str, object]:
    """A commit, as every report has it."""
    return {
        "commit": commit.hash,
        "date": commit.date.isoformat(),
        "author": commit.author,
        "subject": commit.subject,
        "tags": list(commit.tags),
    }


def _cause(cause: Cause) -> dict[str, object]:
    return {
        "verdict": cause.verdict.value,
        "shared": dict(cause.facets),
        "series": cause.count,
        "of": cause.total,
        "ratio": cause.ratio,
    }


def _series(report: CheckReport, verdict: SeriesVerdict, context: Context) -> dict[str, object]:
    series = verdict.series
    low, high = finite(verdict.low), finite(verdict.high)
    return {
        "benchmark": series.benchmark,
        "params": params_document(series),
        "machine": series.machine,
        "environment": series.environment,
        "family": series.family,
        "unit": series.unit,
        "base": finite(verdict.base),
        "head": finite(verdict.head),
        "ratio": finite(verdict.ratio),
        "interval": None if low is None or high is None else [low, high],
        "difference": finite(verdict.difference),
        "threshold": verdict.threshold,
        "rounds_needed": verdict.rounds_needed,
        "verdict": verdict.verdict.value,
        "reason": verdict.reason,
        "acknowledged": series in context.acknowledged,
        "acknowledgement": acknowledgement(context.acknowledged.get(series)),
        "reproduce": measure_again(report, verdict),
        "link": None if context.dashboard is None else trend_link(context.dashboard, series),
    }


def params_document(series: Series) -> dict[str, object]:
    """The parameters by name."""
    return {name: _literal(value) for name, value in series.params}


def acknowledgement(entry: Acknowledgement | None) -> dict[str, object] | None:
    """Who accepted a regression, and why."""
    if entry is None:
        return None
    expires = None if entry.expires is None else entry.expires.isoformat()
    return {"reason": entry.reason, "author": entry.author, "expires": expires}


def _literal(text: str) -> object:
    """A parameter's value from its ``repr``: numbers, strings, booleans and None; else the text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if isinstance(value, float) and not isfinite(value):
        return text
    return value if value is None or isinstance(value, bool | int | float | str) else text


def finite(value: float | None) -> float | None:
    """``value``, or None where JSON has no number for it."""
    return value if value is not None and isfinite(value) else None
