"""The report as a pull-request comment.

Names, reasons and subjects come from whoever wrote the commit: nothing of them
may become markup, a link, a mention or a reference.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence

from dashboard.models import CheckReport, Commit, Series, SeriesVerdict, Verdict
from dashboard.verdicts.reports.context import Context
from dashboard.verdicts.reports.links import check_links, measure_again, trend_link
from dashboard.verdicts.reports.wording import (
    acceptance,
    change,
    headlines,
    interval,
    number,
    one_line,
    short,
    summary,
    values,
)

# GitHub refuses a comment of more than 65,536 characters.
_LIMIT = 60_000
_LONGEST_CELL = 400

# So many regressions are shown closer, in so many characters at most.
_CLOSER = 10
_CLOSER_LIMIT = 20_000
_RECENT = 8
_MACHINES = 8

_MARKUP = re.compile(r"""[&<>"'\\`*_{}\[\]()#!|~@$:^]""")
# What GitHub links in rendered text even where Markdown saw nothing special.
_LINKED = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=[Ww]{3})(?=\.)|(?<=[Gg][Hh])(?=-\d)")
_INVISIBLE = "\u200b"

_HEADER = (
    "| verdict | change | 95 % interval | base | head | series | reason |\n"
    "| --- | ---: | ---: | ---: | ---: | --- | --- |"
)


def markdown(report: CheckReport, context: Context) -> str:
    """``report`` as GitHub-flavoured Markdown, within GitHub's limit of a comment."""
    changed = [v for v in report.verdicts if v.verdict is not Verdict.UNCHANGED]
    rest = [v for v in report.verdicts if v.verdict is Verdict.UNCHANGED]
    parts = [f"**{escape(summary(report))}**"]
    subjects = [_subject("base", report.base), _subject("head", report.head)]
    parts.append("<br>\n".join(line for line in subjects if line))
    parts.append("\n".join(f"- {escape(line)}" for line in headlines(report)))
    parts += [f"> {escape(note)}" for note in report.notes]
    if context.dashboard is not None:
        parts.append(_links(check_links(context.dashboard, report)))
    closer = "\n\n".join(_closer(report, context))
    if len(closer) > _CLOSER_LIMIT:
        closer = ""
    room = _LIMIT - sum(len(part) + 2 for part in (*parts, closer))
    if changed:
        parts.append(_table(changed, room, context))
        room -= len(parts[-1])
    if rest:
        title = f"<details><summary>{len(rest)} unchanged</summary>"
        parts.append(f"{title}\n\n{_table(rest, room, context)}\n\n</details>")
    parts.append(closer)
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


def _closer(report: CheckReport, context: Context) -> list[str]:
    """A fold for each of the worst regressions: its chart, its page, and how to measure it."""
    worst = [v for v in report.verdicts if v.verdict is Verdict.REGRESSED][:_CLOSER]
    folds = []
    for verdict in worst:
        series = verdict.series
        lines = [f"<details><summary>look closer: {code(series.label)}</summary>"]
        if series in context.images:
            lines.append(f'<img alt="history" src="{html.escape(context.images[series])}">')
        elif series in context.recent:
            lines.append(_recent(series, context.recent[series][-_RECENT:]))
        if context.dashboard is not None:
            lines.append(
                _link("its history in the dashboard", trend_link(context.dashboard, series))
            )
        lines += ["measure it again:", _block(measure_again(report, verdict)), "</details>"]
        folds.append("\n\n".join(lines))
    return folds


def _recent(series: Series, points: Sequence[tuple[str, float]]) -> str:
    """The last values, side by side."""
    commits = ["commit", *(code(commit[:8]) for commit, _ in points)]
    values = [escape(series.unit), *(escape(number(value)) for _, value in points)]
    return "\n".join([_cells(commits), _cells(["---"] * len(commits)), _cells(values)])


def _links(addresses: Mapping[str, str]) -> str:
    """Links to the two commits, one a machine."""
    title = "these two commits in the dashboard"
    if len(addresses) == 1:
        return _link(title, *addresses.values())
    shown = list(addresses.items())[:_MACHINES]
    told = ", ".join(_link(machine, address) for machine, address in shown)
    more = len(addresses) - len(shown)
    return f"{title}: {told}" + (f" and {more} further machines" if more else "")


def _link(label: str, address: str) -> str:
    return f'<a href="{html.escape(address)}">{escape(label)}</a>'


def _block(command: str) -> str:
    """A block to copy from; a fence longer than any run of backticks inside it."""
    longest = max(map(len, re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{one_line(command)}\n{fence}"


def _table(verdicts: Sequence[SeriesVerdict], room: int, context: Context) -> str:
    rows: list[str] = []
    left = room - len(_HEADER) - 200
    for row in (_row(verdict, context) for verdict in verdicts):
        left -= len(row) + 1
        if left < 0:
            omitted = len(verdicts) - len(rows)
            note = f"{omitted} further series do not fit here; the JSON report has them all."
            return "\n".join([_HEADER, *rows, "", note])
        rows.append(row)
    return "\n".join([_HEADER, *rows])


def _row(verdict: SeriesVerdict, context: Context) -> str:
    unit = verdict.series.unit
    base, head = values(verdict)
    return _cells(
        [
            f"**{escape(verdict.verdict.value.replace('_', ' '))}**",
            escape(change(verdict)),
            escape(interval(verdict)),
            escape(f"{base} {unit}"),
            escape(f"{head} {unit}"),
            code(verdict.series.label),
            escape("; ".join(filter(None, [acceptance(verdict, context), verdict.reason]))),
        ]
    )


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
