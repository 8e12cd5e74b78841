"""The report of a check, in the shapes that people and tools read."""

from __future__ import annotations

from collections.abc import Collection

from dashboard.models import CheckReport, Verdict
from dashboard.verdicts.reports.junit import junit
from dashboard.verdicts.reports.machine import as_json
from dashboard.verdicts.reports.markdown import markdown
from dashboard.verdicts.reports.text import text

_RENDERERS = {"text": text, "markdown": markdown, "json": as_json, "junit": junit}

FORMATS: tuple[str, ...] = tuple(_RENDERERS)

# What fails a check by itself.
_FAILING = frozenset({Verdict.REGRESSED, Verdict.FAILED, Verdict.MISSING})
# Verdicts that say nothing of head against base.
_SILENT = frozenset({Verdict.NOT_COMPARABLE, Verdict.NEW})


def render(report: CheckReport, format: str) -> str:  # noqa: A002 - the word of the command line
    """``report`` as text, markdown, json or junit, with a final newline.

    ValueError for another format.
    """
    try:
        renderer = _RENDERERS[format]
    except KeyError:
        raise ValueError(f"unknown format {format!r}; known: {', '.join(FORMATS)}") from None
    return renderer(report)


def exit_code(report: CheckReport, fail_on: Collection[Verdict] = ()) -> int:
    """0 nothing wrong, 1 a regression, failure or missing series, 2 cannot tell.

    ``fail_on`` adds verdicts that fail the check, such as ``Verdict.INCONCLUSIVE``.
    It cannot tell if no series at all was measured on both sides comparably.
    """
    found = {verdict.verdict for verdict in report.verdicts}
    if found & (_FAILING | set(fail_on)):
        return 1
    return 0 if found - _SILENT else 2
