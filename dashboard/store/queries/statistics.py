"""Series whose values were made by two statistics, valued anew by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch
from dashboard.store.queries.past import Values, values

Revalued = Mapping[int, Mapping[int, float] | None]


def values_alike(
    store: Store, commits: Sequence[str], machine: str | None = None
) -> tuple[Values, Revalued]:
    """What `values` gives, each series' values made by one statistic, and which were made anew.

    The latter are the series, by series_id, that several statistics had valued: their new
    values by the commits' places, each the median of the rounds' minima. Every minimum is that
    of as many samples, since more of them have a lower one. ``None``, and values as they were,
    for a series some of whose samples are missing.
    """
    table = values(store, commits, machine)
    mixed = _mixed(store, commits, machine)
    if not mixed:
        return table, {}
    revalued = _revalued(store, commits, mixed)
    column = table.value.copy()
    keys = zip(table.series_id.tolist(), table.place.tolist(), strict=True)
    for index, (number, place) in enumerate(keys):
        new = revalued.get(number)
        if new is not None:
            column[index] = new[place]
    return replace(table, value=column), revalued


def _mixed(store: Store, commits: Sequence[str], machine: str | None) -> list[int]:
    """The series that several statistics valued at ``commits``."""
    _, rows = fetch(
        store,
        """
        SELECT series_id
        FROM measurement
        JOIN run USING (run_id)
        WHERE status = 'ok' AND ($machine IS NULL OR machine = $machine)
          AND commit_hash IN (SELECT unnest(CAST($commits AS VARCHAR[])))
        GROUP BY series_id
        HAVING count(DISTINCT statistic) > 1
        """,
        {"commits": list(commits), "machine": machine},
    )
    return [row[0] for row in rows]


def _revalued(store: Store, commits: Sequence[str], series: Sequence[int]) -> Revalued:
    _, rows = fetch(
        store,
        """
        WITH wanted AS (
            SELECT unnest(CAST($commits AS VARCHAR[])) AS hash,
                   generate_subscripts(CAST($commits AS VARCHAR[]), 1) - 1 AS place
        ),
        chosen AS (
            SELECT run_id, path, place FROM run JOIN wanted ON hash = commit_hash
        ),
        latest AS (
            SELECT series_id, place, run_id, status, value
            FROM measurement
            JOIN chosen USING (run_id)
            WHERE series_id IN (SELECT unnest(CAST($series AS BIGINT[])))
            QUALIFY row_number() OVER (
                PARTITION BY series_id, place
                ORDER BY started_at DESC NULLS LAST, path, round_count DESC, run_id
            ) = 1
        ),
        valued AS (
            SELECT series_id, place, run_id FROM latest WHERE status = 'ok' AND isfinite(value)
        ),
        sampled AS (
            SELECT series_id, place, samples,
                   min(len(samples)) OVER (PARTITION BY series_id) AS fewest
            FROM valued
            LEFT JOIN (
                FROM round WHERE attached AND status = 'ok' AND isfinite(value)
            ) AS round USING (run_id, series_id)
        )
        SELECT series_id, place, median(list_min(samples[:fewest])),
               bool_and(samples IS NOT NULL AND fewest > 0)
        FROM sampled
        GROUP BY series_id, place
        ORDER BY series_id, place
        """,
        {"commits": list(commits), "series": list(series)},
    )
    found: dict[int, dict[int, float] | None] = {}
    for number, place, value, complete in rows:
        new = found.setdefault(number, {})
        if not complete:
            found[number] = None
        elif new is not None:
            new[place] = value
    return found
