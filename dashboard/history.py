"""The history of all series: where a level changed, and which commits may have done it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dashboard.acknowledged import Acknowledgement, Acknowledgements
from dashboard.commits import Repository
from dashboard.lineage import Lineage
from dashboard.models import Commit, Series
from dashboard.revisions import find_commit, require_measured, short
from dashboard.store import queries
from dashboard.store.connect import Store
from dashboard.store.queries import past
from dashboard.store.queries.statistics import Revalued, values_alike
from dashboard.verdicts import Policy
from dashboard.verdicts.changes import (
    Condition,
    Found,
    SeriesHistory,
    find_changes,
    has_logarithm,
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one series' level.

    ``after`` is the last measured commit at the old level, ``commit`` the first at the new
    one, ``suspects`` every commit that may have done it, in graph order. ``found`` has its
    size; ``acknowledged`` is the entry that accepts it.
    """

    found: Found
    after: Commit
    commit: Commit
    suspects: tuple[Commit, ...]
    acknowledged: Acknowledgement | None = None

    @property
    def series(self) -> Series:
        """The series that changed."""
        return self.found.series


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """All changes on the line of commits that leads to ``head``, latest first."""

    head: Commit
    commits: int
    series: int
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = field(default=())


def history(
    store: Store,
    policy: Policy,
    *,
    head: str | None = None,
    machine: str | None = None,
    repository: Repository | None = None,
    acknowledgements: Acknowledgements | None = None,
) -> HistoryReport:
    """The changes of every series over the commits that lead to ``head``.

    ``head`` as for a check; without it the newest measured commit. Raises InputError: nothing
    measured, unknown or ambiguous head.
    """
    measured = queries.measured_commits(store, machine)
    require_measured(measured, store, machine)
    known = queries.known_commits(store)
    by_hash = {commit.hash: commit for commit in known}
    last = measured[-1] if head is None else find_commit(head, measured, by_hash, repository)
    lineage = Lineage(known)
    line = lineage.line(last, measured)
    notes = []
    if len(line) < len(measured):
        aside = len(measured) - len(line)
        notes.append(f"{aside} measured commits do not lead to {short(last)}: left out")
    table, revalued = values_alike(store, [commit.hash for commit in line], machine)
    histories = list(_histories(store, policy, line, machine, table, revalued))
    notes += _of_statistics(revalued)
    skipped = sum(not h.rule.exact and not has_logarithm(h) for h in histories)
    if skipped:
        notes.append(
            f"{skipped} series have values of 0 or less, which have no ratio: declare their "
            "benchmarks exact to see their changes"
        )
    entries = acknowledgements or Acknowledgements()
    changes = [_change(found, line, lineage, entries) for found in find_changes(histories)]
    changes.sort(key=lambda change: (change.found.worse, change.found.ratio or 0.0), reverse=True)
    changes.sort(key=lambda change: change.found.first, reverse=True)
    used = {change.acknowledged for change in changes if change.acknowledged is not None}
    notes += entries.complaints(used)
    return HistoryReport(last, len(line), len(histories), tuple(changes), tuple(notes))


def _of_statistics(revalued: Revalued) -> Iterator[str]:
    """Notes on the series valued by the median of a round's samples here, by the minimum there."""
    anew = sum(values is not None for values in revalued.values())
    if anew:
        yield (
            f"{anew} series were valued by a median at some commits and by a minimum at others: "
            "compared by the minimum of each round's samples"
        )
    if len(revalued) > anew:
        yield (
            f"{len(revalued) - anew} series were valued by other statistics at some commits, and "
            "samples to compute one are missing: their changes there may be the statistic's"
        )


def _change(
    found: Found, line: Sequence[Commit], lineage: Lineage, entries: Acknowledgements
) -> Change:
    suspects = lineage.between(line[found.earliest], line[found.latest])
    hashes = {commit.hash for commit in suspects}
    accepted = entries.find(found.series, hashes) if found.worse else None
    return Change(found, line[found.after], line[found.first], suspects, accepted)


def _histories(
    store: Store,
    policy: Policy,
    line: Sequence[Commit],
    machine: str | None,
    table: past.Values,
    revalued: Revalued,
) -> Iterator[SeriesHistory]:
    hashes = [commit.hash for commit in line]
    noise = past.round_noise(store, hashes, machine)
    records = past.series_by_id(store)
    conditions: dict[int, list[Condition]] = {}
    for change in past.condition_changes(store, hashes, machine):
        if change.name == "statistic" and revalued.get(change.series_id) is not None:
            continue  # its values are all made by one
        found = Condition(change.place, change.name, change.before, change.after)
        conditions.setdefault(change.series_id, []).append(found)
    starts = np.flatnonzero(np.diff(table.series_id, prepend=-1))
    for start, end in zip(starts, [*starts[1:], table.series_id.size], strict=True):
        number = int(table.series_id[start])
        series = records[number]
        rounds = noise.get(number)
        yield SeriesHistory(
            series=series,
            rule=policy.rule(series),
            places=tuple(table.place[start:end].tolist()),
            values=table.value[start:end],
            rounds_error=rounds.error if rounds is not None else float("nan"),
            rounds_df=rounds.df if rounds is not None else 0.0,
            conditions=tuple(conditions.get(number, ())),
            cards=tuple(table.card[start:end].tolist()),
        )
