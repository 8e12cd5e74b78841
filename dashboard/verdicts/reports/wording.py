"""How verdicts read: numbers, changes and the summary, the same in every format."""

from __future__ import annotations

import re

from dashboard.models import CheckReport, Commit, SeriesVerdict, Verdict
from dashboard.verdicts.causes import causes, mean_of_call_times
from dashboard.verdicts.reports.context import Context

NOTHING = "-"

# What fails a check by itself.
FAILING = frozenset({Verdict.REGRESSED, Verdict.FAILED, Verdict.MISSING})

# Controls, what turns the direction of the text after it, and what is no character at all.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def one_line(text: str) -> str:
    """``text`` with line breaks as blanks and other control characters made visible."""
    flat = " ".join(text.split())
    return _CONTROL.sub(_visible, flat)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def short(commit: Commit) -> str:
    """The first eight digits of the commit's hash."""
    return one_line(commit.hash)[:8]


def number(value: float | None) -> str:
    """Four significant digits, or a dash."""
    return NOTHING if value is None else f"{value:.4g}"


def is_exact(verdict: SeriesVerdict) -> bool:
    """Whether any difference counts: of a quantity that the settings call exact."""
    return verdict.threshold == 0


def values(verdict: SeriesVerdict) -> tuple[str, str]:
    """Base and head as far as their digits count, each a dash where it is unknown."""
    if is_exact(verdict):
        return _whole(verdict.base), _whole(verdict.head)
    return number(verdict.base), number(verdict.head)


def _whole(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.12g}"


def change(verdict: SeriesVerdict) -> str:
    """The change in percent, plus is worse; the difference of what is exact or has no ratio."""
    if is_exact(verdict) and verdict.base is not None and verdict.head is not None:
        shown = _difference(f"{verdict.head - verdict.base:+.12g}", verdict)
        if verdict.ratio is None or verdict.base == verdict.head:
            return shown
        return f"{shown} ({percent(verdict.ratio)} %)"
    if verdict.ratio is not None:
        return f"{percent(verdict.ratio)} %"
    if verdict.difference is not None:
        return _difference(f"{verdict.difference:+.4g}", verdict)
    return NOTHING


def _difference(shown: str, verdict: SeriesVerdict) -> str:
    return f"{shown} {one_line(verdict.series.unit)}".rstrip()


def interval(verdict: SeriesVerdict) -> str:
    """The 95 % interval of the change, or a dash."""
    return "exact" if is_exact(verdict) else between(verdict.low, verdict.high)


def size(verdict: SeriesVerdict) -> str:
    """The change and, where noise leaves one, its interval."""
    if is_exact(verdict):
        return change(verdict)
    return f"{change(verdict)} (95 %: {interval(verdict)})"


def between(low: float | None, high: float | None) -> str:
    """Two ratios as an interval of changes, or a dash."""
    if low is None or high is None:
        return NOTHING
    return f"{percent(low)} … {percent(high)} %"


def percent(ratio: float) -> str:
    """A ratio as a signed change in percent, two decimals below 10 %."""
    value = (ratio - 1) * 100
    return f"{value:+.2f}" if abs(value) < 10 else f"{value:+.3g}"


def counts(report: CheckReport) -> dict[str, int]:
    """How many series got each verdict, worst first, without those that none got."""
    found = {verdict.value: report.count(verdict) for verdict in Verdict}
    return {name: n for name, n in found.items() if n}


def summary(report: CheckReport) -> str:
    """One line: the commits and the number of series by verdict."""
    parts = [f"{n} {name.replace('_', ' ')}" for name, n in counts(report).items()]
    return f"{short(report.base)} → {short(report.head)}: {', '.join(parts) or 'no series'}"


def headlines(report: CheckReport) -> list[str]:
    """What all calls' times together did, and what the changed ones have in common."""
    lines = []
    ratio, count = mean_of_call_times(report.verdicts)
    if ratio is not None:
        lines.append(
            f"geometric mean of calls' times {percent(ratio)} % over {count} series measured at "
            "both, first calls and the host's own time left out"
        )
    for cause in causes(report.verdicts):
        number = (
            f"all {cause.count}"
            if cause.count == cause.total
            else (f"{cause.count} of {cause.total}")
        )
        size = "" if cause.ratio is None else f", {percent(cause.ratio)} % in the geometric mean"
        lines.append(f"{number} series of {one_line(cause.what)} {cause.verdict.value}{size}")
    return lines


def acceptance(verdict: SeriesVerdict, context: Context) -> str:
    """Who acknowledged this verdict and why; empty where nobody did."""
    entry = context.acknowledged.get(verdict.series)
    if entry is None:
        return ""
    until = "" if entry.expires is None else f" until {entry.expires}"
    return one_line(f"acknowledged by {entry.author}{until}: {entry.reason}")


def where(verdict: SeriesVerdict) -> str:
    """Machine and environment."""
    return one_line(f"{verdict.series.machine}, {verdict.series.environment}")
