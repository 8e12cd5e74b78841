"""Workflow commands of GitHub: one a line, whatever the names contain."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from dashboard.acknowledged import Acknowledgement
from dashboard.models import CheckReport, Commit, Series, SeriesVerdict, Verdict
from dashboard.verdicts.reports import render
from dashboard.verdicts.reports.context import Context

DATE = datetime(2026, 1, 1, tzinfo=UTC)
COMMAND = re.compile(r"::(error|warning|notice) title=([^:,]*)::(.*)")
NASTY = "a::b,c%0A\n::error title=x::y\r\n::set-env name=PATH::/tmp"


def verdict(kind: Verdict, benchmark: str = "forward.F.track") -> SeriesVerdict:
    series = Series(benchmark, (("model", benchmark),), "h200", "e", "ms")
    return SeriesVerdict(
        series, kind, "because", base=1.0, head=1.05, ratio=1.05, low=1.0, high=1.1
    )


def annotated(*verdicts: SeriesVerdict, context: Context | None = None) -> list[tuple[str, ...]]:
    base, head = Commit("a" * 40, DATE), Commit("b" * 40, DATE)
    text = render(CheckReport(base, head, verdicts, (NASTY,)), "github", context)
    matches = [COMMAND.fullmatch(line) for line in text.splitlines()]
    assert all(matches), text
    return [match.groups() for match in matches if match]


def test_failures_are_errors_and_doubts_are_warnings() -> None:
    found = annotated(*map(verdict, Verdict))
    levels = [level for level, _, _ in found]
    assert levels == ["notice", "error", "error", "error", "warning", "warning"]
    titles = [title.split("%3A")[0] for _, title, _ in found[1:]]
    assert titles == ["regressed", "failed", "missing", "inconclusive", "not comparable"]
    assert "+5.00 %25 (95 %25: " in found[1][2]
    assert "aaaaaaaa → bbbbbbbb: 1 regressed" in found[0][2]


def test_hostile_names_start_no_command_of_their_own() -> None:
    found = annotated(verdict(Verdict.REGRESSED, NASTY))
    assert len(found) == 2
    assert found[1][1].count("%25") == 2, "a percent sign is one, not an escape"


def test_what_is_acknowledged_warns_only() -> None:
    slow = verdict(Verdict.REGRESSED)
    entry = Acknowledgement("*", "b" * 8, "needed", "ada")
    ((_, _, _), (level, _, message)) = annotated(slow, context=Context({slow.series: entry}))
    assert level == "warning"
    assert "acknowledged by ada: needed" in message
