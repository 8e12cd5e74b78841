"""The report as a pull-request comment.

Names, reasons and subjects come from whoever wrote the commit: nothing of them
may become markup, a link, a mention or a reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dashboard.models import CheckReport, Commit, SeriesVerdict, Verdict
from dashboard.verdicts.reports.wording import change, interval, number, one_line, short, summary

# GitHub refuses a comment of more than 65,536 characters.
_LIMIT = 60_000
_LONGEST_CELL = 400

_MARKUP = re.compile(r"""[&<>"'\\`*_{}\[\]()#!|~@$:^]""")
# What GitHub links in rendered text even where Markdown saw nothing special.
_LINKED = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=[Ww]{3})(?=\.)|(?<=[Gg][Hh])(?=-\d)")
_INVISIBLE = "\u200b"

_HEADER = (
    "| verdict | change | 95 % interval | base | head | series | reason |\n"
    "| --- | ---: | ---: | ---: | ---: | --- | --- |"
)


def markdown(report: CheckReport) -> str:
    """``report`` as GitHub-flavoured Markdown, within GitHub's limit of a comment."""
    changed = [v for v in report.verdicts if v.verdict is not Verdict.UNCHANGED]
    rest = [v for v in report.verdicts if v.verdict is Verdict.UNCHANGED]
    parts = [f"**{escape(summary(report))}**"]
    subjects = [_subject("base", report.base), _subject("head", report.head)]
    parts.append("<br>\n".join(line for line in subjects if line))
    parts += [f"> {escape(note)}" for note in report.notes]
    room = _LIMIT - sum(len(part) + 2 for part in parts)
    if changed:
        parts.append(_table(changed, room))
        room -= len(parts[-1])
    if rest:
        title = f"<details><summary>{len(rest)} unchanged</summary>"
        parts.append(f"{title}\n\n{_table(rest, room)}\n\n</details>")
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """``text`` to be shown as it is: no markup, HTML, mention, reference or link."""
    flat = _LINKED.sub(_INVISIBLE, _cut(one_line(text)))
    return _entities(flat)


def code(text: str) -> str:
    """``text`` as a code element, where GitHub links nothing and copying gives the text itself."""
    return f"<code>{_entities(_cut(one_line(text)))}</code>"


def _entities(text: str) -> str:
    return _MARKUP.sub(lambda match: f"&#{ord(match.group())};", text)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"


def _subject(side: str, commit: Commit) -> str:
    return f"{side}: {code(short(commit))} {escape(commit.subject)}" if commit.subject else ""


def _table(verdicts: Sequence[SeriesVerdict], room: int) -> str:
    rows: list[str] = []
    left = room - len(_HEADER) - 200
    for row in map(_row, verdicts):
        left -= len(row) + 1
        if left < 0:
            omitted = len(verdicts) - len(rows)
            note = f"{omitted} further series do not fit here; the JSON report has them all."
            return "\n".join([_HEADER, *rows, "", note])
        rows.append(row)
    return "\n".join([_HEADER, *rows])


def _row(verdict: SeriesVerdict) -> str:
    unit = verdict.series.unit
    return _cells(
        [
            f"**{escape(verdict.verdict.value.replace('_', ' '))}**",
            escape(change(verdict)),
            escape(interval(verdict)),
            escape(f"{number(verdict.base)} {unit}"),
            escape(f"{number(verdict.head)} {unit}"),
            code(verdict.series.label),
            escape(verdict.reason),
        ]
    )


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
