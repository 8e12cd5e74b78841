"""Reports of checks; all numbers are invented."""

from __future__ import annotations

from datetime import UTC, datetime

from dashboard.acknowledged import Acknowledgement
from dashboard.models import CheckReport, Commit, Series, SeriesVerdict, Verdict
from dashboard.verdicts.reports.context import Context

NASTY = "x|y `code` <img src=x> @team #777 GH-7 https://evil.example www.evil.example *b*\n| a |"
DATE = datetime(2026, 1, 1, tzinfo=UTC)


def verdict(kind: Verdict, benchmark: str = "forward.Forward.track_time") -> SeriesVerdict:
    series = Series(benchmark, (("model", "'a'"), ("tokens", "8192")), "h200", "e", "ms", "forward")
    return SeriesVerdict(
        series,
        kind,
        "because",
        base=10.0,
        head=10.5,
        ratio=1.05,
        low=1.04,
        high=1.06,
        threshold=0.02,
    )


def report(*verdicts: SeriesVerdict, notes: tuple[str, ...] = ()) -> CheckReport:
    base = Commit("a" * 40, DATE, subject="before")
    head = Commit("b" * 40, DATE, subject=NASTY, author="<b>x</b>", tags=("v1",))
    return CheckReport(base, head, verdicts, notes)


def nasty() -> CheckReport:
    series = Series(NASTY, ((NASTY, NASTY),), NASTY, NASTY, NASTY, NASTY)
    found = SeriesVerdict(series, Verdict.FAILED, NASTY + "\x1b[31m\x00\ud800")
    return report(found, verdict(Verdict.UNCHANGED, NASTY), notes=(NASTY,))


def context() -> Context:
    entry = Acknowledgement("*", "b" * 8, NASTY, NASTY)
    series = verdict(Verdict.REGRESSED).series
    return Context(
        {series: entry},
        {series: "https://img.example/a.png?x=1&y=2"},
        {},
        "https://perf.example/app/",
    )
