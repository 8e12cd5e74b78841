"""The report as JUnit XML, which CI systems show without further help."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from dashboard.models import CheckReport, SeriesVerdict, Verdict
from dashboard.verdicts.reports.context import Context
from dashboard.verdicts.reports.wording import (
    FAILING,
    acceptance,
    headlines,
    one_line,
    size,
    summary,
    values,
    where,
)

_SKIPPED = frozenset({Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE})


def junit(report: CheckReport, context: Context) -> str:
    """``report`` as one test suite: a test case a series.

    Regressed, failed and missing series are failures; inconclusive and not
    comparable ones are skipped, with the reason, and so are acknowledged failures.
    """
    failing = [v for v in report.verdicts if _fails(v, context)]
    skipped = [v for v in report.verdicts if _skipped(v, context)]
    suite = ET.Element(
        "testsuite",
        name=f"lmhead-perf check {summary(report)}",
        tests=str(len(report.verdicts)),
        failures=str(len(failing)),
        errors="0",
        skipped=str(len(skipped)),
    )
    for verdict in report.verdicts:
        _case(suite, verdict, context)
    remarks = [*headlines(report), *map(one_line, report.notes)]
    if remarks:
        ET.SubElement(suite, "system-out").text = "\n".join(remarks)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document.decode() + "\n"


def _fails(verdict: SeriesVerdict, context: Context) -> bool:
    return verdict.verdict in FAILING and verdict.series not in context.acknowledged


def _skipped(verdict: SeriesVerdict, context: Context) -> bool:
    accepted = verdict.verdict in FAILING and verdict.series in context.acknowledged
    return accepted or verdict.verdict in _SKIPPED


def _case(suite: ET.Element, verdict: SeriesVerdict, context: Context) -> None:
    series = verdict.series
    case = ET.SubElement(suite, "testcase", classname=where(verdict), name=one_line(series.label))
    parts = (f"{verdict.verdict.value}: {verdict.reason}", acceptance(verdict, context))
    message = one_line("; ".join(part for part in parts if part))
    if _fails(verdict, context):
        failure = ET.SubElement(case, "failure", type=verdict.verdict.value, message=message)
        base, head = values(verdict)
        failure.text = one_line(f"{size(verdict)}; base {base}, head {head} {series.unit}")
    elif _skipped(verdict, context):
        ET.SubElement(case, "skipped", message=message)
    else:
        ET.SubElement(case, "system-out").text = message
