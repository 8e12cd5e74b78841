"""The history's changes, sorted into what still has to be done and what was gained; no streamlit.

A change is *explained* where something beside the code changed at the same commit. Any other
one for the better is *improved*; for the worse it is *fixed* once later changes of its series
have undone it, *acknowledged* where an entry accepts it, else *open*.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import log

from dashboard.history import Change, HistoryReport
from dashboard.models import Commit

# A level within 1 % of the one before is that level again.
_UNDONE = 0.01


class State(StrEnum):
    """What has become of a change."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPLAINED = "explained"
    FIXED = "fixed"
    IMPROVED = "improved"


@dataclass(frozen=True, slots=True)
class Group:
    """All changes of one state and direction that came with one commit, the largest first.

    ``after`` is the last commit before the largest.
    """

    state: State
    after: Commit
    commit: Commit
    changes: tuple[Change, ...]

    @property
    def largest(self) -> float | None:
        """The ratio of the largest change; ``None`` where no change has one."""
        return next((c.found.ratio for c in self.changes if c.found.ratio), None)

    @property
    def suspects(self) -> list[Commit]:
        """Every commit that may have made one of the changes, first to last."""
        found = dict.fromkeys(commit for change in self.changes for commit in change.suspects)
        return sorted(found, key=lambda commit: (commit.position or 0, commit.date))

    @property
    def authors(self) -> list[str]:
        """Who to ask."""
        return list(dict.fromkeys(commit.author for commit in self.suspects if commit.author))


def groups(report: HistoryReport) -> list[Group]:
    """The changes for the worse by state and commit, open ones by the commit before as well; the
    latest commit first."""
    later: dict[object, list[Change]] = {}
    for change in report.changes:
        later.setdefault(change.series, []).append(change)
    found: dict[tuple[State, str, str], list[Change]] = {}
    for change in report.changes:
        if change.found.worse:
            state = _state(change, later[change.series])
            # The command that takes an open one again is of two commits.
            after = change.after.hash if state is State.OPEN else ""
            found.setdefault((state, after, change.commit.hash), []).append(change)
    return _grouped((state, members) for (state, *_), members in found.items())


def improvements(report: HistoryReport) -> list[Group]:
    """The changes for the better by commit, the latest first; explained ones apart."""
    found: dict[tuple[State, str], list[Change]] = {}
    for change in report.changes:
        if not change.found.worse:
            explained = change.found.explained_by is not None
            state = State.EXPLAINED if explained else State.IMPROVED
            found.setdefault((state, change.commit.hash), []).append(change)
    return _grouped((state, members) for (state, _), members in found.items())


def _grouped(found: Iterable[tuple[State, Sequence[Change]]]) -> list[Group]:
    made = []
    for state, members in found:
        ordered = sorted(members, key=_size, reverse=True)
        made.append(Group(state, ordered[0].after, ordered[0].commit, tuple(ordered)))
    return sorted(made, key=lambda group: group.commit.position or 0, reverse=True)


def _size(change: Change) -> float:
    """How large a change is, whichever its direction; what has no ratio is smallest."""
    ratio = change.found.ratio
    return abs(log(ratio)) if ratio else 0.0


def _state(change: Change, of_series: Sequence[Change]) -> State:
    if change.acknowledged is not None:
        return State.ACKNOWLEDGED
    if change.found.explained_by is not None:
        return State.EXPLAINED
    after = [c.found.ratio for c in of_series if c.found.first >= change.found.first]
    known = [log(ratio) for ratio in after if ratio]
    if change.found.ratio and len(known) == len(after) and sum(known) < _UNDONE:
        return State.FIXED
    return State.OPEN


def entry(group: Group, author: str) -> str:
    """An acknowledgement of the group to copy: one entry per benchmark."""
    benchmarks = dict.fromkeys(change.series.benchmark for change in group.changes)
    return "\n\n".join(
        "\n".join(
            (
                "[[acknowledged]]",
                f"series = {_quoted(_pattern(benchmark, group))}",
                f"commit = {_quoted(group.commit.hash[:12])}",
                'reason = "why this is accepted"',
                f"author = {_quoted(author)}",
            )
        )
        for benchmark in benchmarks
    )


def _pattern(benchmark: str, group: Group) -> str:
    """The benchmark's name, or the one series of it that changed."""
    labels = [c.series.label for c in group.changes if c.series.benchmark == benchmark]
    return labels[0] if len(labels) == 1 else benchmark


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are TOML's, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
