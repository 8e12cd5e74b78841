"""The report of a check, in the shapes that people and tools read."""

from __future__ import annotations

from collections.abc import Collection

from dashboard.models import CheckReport, Verdict
from dashboard.verdicts.reports.context import Context
from dashboard.verdicts.reports.github import github
from dashboard.verdicts.reports.junit import junit
from dashboard.verdicts.reports.machine import as_json
from dashboard.verdicts.reports.markdown import markdown
from dashboard.verdicts.reports.text import text
from dashboard.verdicts.reports.wording import FAILING

_RENDERERS = {
    "text": text,
    "markdown": markdown,
    "json": as_json,
    "junit": junit,
    "github": github,
}

FORMATS: tuple[str, ...] = tuple(_RENDERERS)

# Verdicts that say nothing of head against base.
_SILENT = frozenset({Verdict.NOT_COMPARABLE, Verdict.NEW})


def render(
    report: CheckReport,
    format: str,  # noqa: A002 - the word of the command line
    context: Context | None = None,
) -> str:
    """``report`` as text, markdown, json, junit or github, with a final newline.

    ValueError for another format.
    """
    try:
        renderer = _RENDERERS[format]
    except KeyError:
        raise ValueError(f"unknown format {format!r}; known: {', '.join(FORMATS)}") from None
    return renderer(report, context or Context())


def exit_code(
    report: CheckReport, fail_on: Collection[Verdict] = (), context: Context | None = None
) -> int:
    """0 nothing wrong, 1 a regression, failure or missing series, 2 cannot tell.

    ``fail_on`` adds verdicts that fail the check, such as ``Verdict.INCONCLUSIVE``. What the
    ``context`` has as acknowledged fails nothing.
    It cannot tell if no series at all was measured on both sides comparably, or a file of theirs
    could not be read.
    """
    found = {verdict.verdict for verdict in report.verdicts}
    accepted = context.acknowledged if context is not None else {}
    if {v.verdict for v in report.verdicts if v.series not in accepted} & (FAILING | set(fail_on)):
        return 1
    return 0 if found - _SILENT and not report.unsure else 2
