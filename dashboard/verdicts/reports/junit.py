"""The report as JUnit XML, which CI systems show without further help."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from dashboard.models import CheckReport, SeriesVerdict, Verdict
from dashboard.verdicts.reports.wording import change, interval, number, one_line, summary, where

_FAILURES = frozenset({Verdict.REGRESSED, Verdict.FAILED, Verdict.MISSING})
_SKIPPED = frozenset({Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE})


def junit(report: CheckReport) -> str:
    """``report`` as one test suite: a test case a series.

    Regressed, failed and missing series are failures; inconclusive and not
    comparable ones are skipped, with the reason.
    """
    suite = ET.Element(
        "testsuite",
        name=f"lmhead-perf check {summary(report)}",
        tests=str(len(report.verdicts)),
        failures=str(sum(v.verdict in _FAILURES for v in report.verdicts)),
        errors="0",
        skipped=str(sum(v.verdict in _SKIPPED for v in report.verdicts)),
    )
    for verdict in report.verdicts:
        _case(suite, verdict)
    if report.notes:
        ET.SubElement(suite, "system-out").text = "\n".join(map(one_line, report.notes))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document.decode() + "\n"


def _case(suite: ET.Element, verdict: SeriesVerdict) -> None:
    series = verdict.series
    case = ET.SubElement(suite, "testcase", classname=where(verdict), name=one_line(series.label))
    message = one_line(f"{verdict.verdict.value}: {verdict.reason}")
    if verdict.verdict in _FAILURES:
        failure = ET.SubElement(case, "failure", type=verdict.verdict.value, message=message)
        failure.text = one_line(
            f"{change(verdict)} (95 %: {interval(verdict)}); "
            f"base {number(verdict.base)}, head {number(verdict.head)} {series.unit}"
        )
    elif verdict.verdict in _SKIPPED:
        ET.SubElement(case, "skipped", message=message)
    else:
        ET.SubElement(case, "system-out").text = message
