"""What surrounds the verdicts of a check: acknowledgements, links and charts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dashboard.acknowledged import Acknowledgement, Acknowledgements
from dashboard.lineage import Lineage
from dashboard.models import CheckReport, Series, Verdict
from dashboard.settings import told
from dashboard.store import queries
from dashboard.store.connect import Store
from dashboard.store.queries import past
from dashboard.store.queries.statistics import values_alike
from dashboard.verdicts.reports.charts import Curve, can_draw, write_charts
from dashboard.verdicts.reports.context import Context
from dashboard.verdicts.reports.wording import FAILING

# A chart shows so many commits up to head.
_SHOWN = 40

_NO_CHARTS = "no charts: they need vl-convert (pip install 'fused-lmhead[charts]')"


def context_of(
    store: Store,
    report: CheckReport,
    entries: Acknowledgements,
    *,
    settings: str | None = None,
    dashboard: str | None = None,
    charts: Path | None = None,
    charts_url: str | None = None,
) -> tuple[CheckReport, Context]:
    """The report with notes on the settings and the acknowledgements, and what its reader should
    know besides.

    ``settings`` names the file that the report's settings are of, if they are not the defaults;
    ``charts`` is a folder to write images of regressed series to, ``charts_url`` the address
    at which they will be found. Raises InputError where the folder cannot be written.
    """
    lineage = Lineage(queries.known_commits(store))
    accepted, hashes = accepted_by(report, entries, lineage)
    # Over several commits a later one may have outweighed what was accepted.
    judged = hashes if len(hashes) == 1 else frozenset[str]()
    complaints = entries.complaints(set(accepted.values()), judged)
    notes = [*report.notes, told(settings), *complaints]
    curves = _curves(store, report, lineage)
    images: dict[Series, str] = {}
    if charts is not None and not can_draw():
        notes.append(_NO_CHARTS)
    elif charts is not None:
        names = write_charts(curves, charts)
        if len(names) < len(curves):
            notes.append(f"{len(curves) - len(names)} of {len(curves)} charts could not be drawn")
        if charts_url is not None:
            images = {s: f"{charts_url.rstrip('/')}/{name}" for s, name in names.items()}
    recent = {curve.series: curve.points for curve in curves}
    return replace(report, notes=tuple(notes)), Context(
        accepted, images, recent, dashboard, settings
    )


def accepted_by(
    report: CheckReport, entries: Acknowledgements, lineage: Lineage
) -> tuple[dict[Series, Acknowledgement], frozenset[str]]:
    """The regressions, failures and losses of a report that an entry accepts, and the hashes of
    the commits that may have made them: none where head is an ancestor of base, which they undo."""
    backwards = report.head.hash in lineage.ancestors(report.base.hash)
    made = () if backwards else lineage.between(report.base, report.head)
    hashes = frozenset(commit.hash for commit in made)
    failing = (v.series for v in report.verdicts if v.verdict in FAILING)
    found = {series: entries.find(series, hashes) for series in failing}
    return {series: entry for series, entry in found.items() if entry is not None}, hashes


def _curves(store: Store, report: CheckReport, lineage: Lineage) -> list[Curve]:
    """The recent history of each regressed series, at the two commits by the rounds compared."""
    wanted = {v.series: v for v in report.verdicts if v.verdict is Verdict.REGRESSED}
    if not wanted:
        return []
    line = lineage.line(report.head, queries.measured_commits(store))[-_SHOWN:]
    hashes = [commit.hash for commit in line]
    table, _ = values_alike(store, hashes)
    records = past.series_by_id(store)
    points: dict[Series, list[tuple[str, float]]] = {}
    for number, place, value in zip(
        table.series_id.tolist(), table.place.tolist(), table.value.tolist(), strict=True
    ):
        found = wanted.get(records[number])
        if found is None:
            continue
        compared = {report.base.hash: found.base, report.head.hash: found.head}
        if found.run is not None:
            value = compared.get(hashes[place]) or value
        points.setdefault(found.series, []).append((hashes[place], value))
    return [
        Curve(series, tuple(values), report.base.hash, report.head.hash)
        for series, values in points.items()
    ]
