"""What runs were to measure: tiers select some series, sweeps others, and some break off."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.models import Pair, Series
from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch
from dashboard.store.queries.records import series_record

# A selection is like head's if it has nearly all of head's series, and head half of its.
_NEARLY = 0.8
_HALF = 0.5

# A suite shrinks and grows: what earlier commits measured says nothing of a sweep today.
_RECENT = 50


@dataclass(frozen=True, slots=True)
class Selection:
    """What the runs of a commit were to measure, judged by other commits.

    ``series``: all that it measured, that its rounds or runs name, and that selections like
    its own have. ``places``: the machines and environments where there are such selections.
    """

    series: frozenset[Series]
    places: frozenset[tuple[str, str]]

    def has(self, pair: Pair) -> bool:
        """Whether a series was to be measured, or nothing is known of it."""
        place = (pair.series.machine, pair.series.environment)
        return place not in self.places or pair.series in self.series


def selection(store: Store, commit: str, machine: str | None = None) -> Selection:
    """What the runs of ``commit`` (full hash) were to measure, on one machine or all.

    A selection is what one invocation of asv measured of other commits, or what was measured
    of one of them altogether.
    """
    columns, rows = fetch(
        store,
        """
        WITH measured AS (
            SELECT DISTINCT commit_hash, series_id
            FROM measurement
            JOIN run USING (run_id)
            WHERE (status <> 'skipped' OR reason IS NOT NULL)
              AND ($machine IS NULL OR machine = $machine)
        ),
        invoked AS (
            SELECT DISTINCT asv_run, commit_hash, series_id
            FROM round
            JOIN run USING (run_id)
            WHERE $machine IS NULL OR machine = $machine
        ),
        own AS (
            SELECT series_id FROM measured WHERE commit_hash = $commit
            UNION
            SELECT series_id FROM invoked
            WHERE asv_run IN (SELECT asv_run FROM invoked WHERE commit_hash = $commit)
        ),
        placed AS (
            SELECT series_id, machine, environment, series_id IN (FROM own) AS is_own
            FROM series
            WHERE $machine IS NULL OR machine = $machine
        ),
        sizes AS (
            SELECT machine, environment, count(*) AS size
            FROM placed
            WHERE is_own
            GROUP BY ALL
        ),
        selected AS (
            SELECT commit_hash AS name, series_id FROM measured WHERE commit_hash <> $commit
            UNION
            SELECT asv_run AS name, series_id FROM invoked
            WHERE commit_hash <> $commit AND asv_run IS NOT NULL
        ),
        alike AS (
            SELECT name, machine, environment
            FROM selected
            JOIN placed USING (series_id)
            JOIN sizes USING (machine, environment)
            GROUP BY name, machine, environment, sizes.size
            HAVING count_if(is_own) >= $nearly * sizes.size
               AND count_if(is_own) >= $half * count(*)
        )
        SELECT series.* EXCLUDE (param_values), found.is_alike
        FROM (
            SELECT series_id, true AS is_alike
            FROM selected
            JOIN placed USING (series_id)
            JOIN alike USING (name, machine, environment)
            UNION
            SELECT series_id, false FROM own
        ) AS found
        JOIN series USING (series_id)
        """,
        {"commit": commit, "machine": machine, "nearly": _NEARLY, "half": _HALF},
    )
    cells = [dict(zip(columns, row, strict=True)) for row in rows]
    return Selection(
        frozenset(series_record(cell) for cell in cells),
        frozenset((cell["machine"], cell["environment"]) for cell in cells if cell["is_alike"]),
    )


def measured_in_turn(store: Store, head: str, machine: str | None = None) -> frozenset[str]:
    """The commits of which an invocation of asv measured, beside ``head``, half of its series."""
    _, rows = fetch(
        store,
        """
        WITH taken AS (
            SELECT DISTINCT asv_run, commit_hash, series_id
            FROM round
            JOIN run USING (run_id)
            WHERE round.status = 'ok'
              AND ($machine IS NULL OR machine = $machine)
              AND asv_run IN (
                  SELECT asv_run FROM round JOIN run USING (run_id) WHERE commit_hash = $head
              )
        ),
        own AS (
            SELECT DISTINCT series_id
            FROM measurement
            JOIN run USING (run_id)
            WHERE commit_hash = $head AND status = 'ok'
              AND ($machine IS NULL OR machine = $machine)
        )
        SELECT DISTINCT other.commit_hash
        FROM taken AS other
        JOIN taken AS heads USING (asv_run, series_id)
        JOIN own USING (series_id)
        WHERE heads.commit_hash = $head AND other.commit_hash <> $head
        GROUP BY asv_run, other.commit_hash
        HAVING count(*) >= $half * (SELECT count(*) FROM own)
        """,
        {"head": head, "machine": machine, "half": _HALF},
    )
    return frozenset(name for (name,) in rows)


def most_measured(store: Store, machine: str) -> str | None:
    """Of the last fifty commits measured on a machine the newest of which nearly as many series
    were measured, or failed, as of any: a sweep's, not a tier's."""
    _, rows = fetch(
        store,
        """
        WITH recent AS (
            SELECT DISTINCT hash, position, commit_info.commit_date AS date
            FROM run
            JOIN commit_info ON hash = commit_hash
            WHERE machine = $machine
            ORDER BY position DESC NULLS LAST, date DESC, hash DESC
            LIMIT $recent
        ),
        counted AS (
            SELECT hash, position, date,
                   count(DISTINCT (series.benchmark, series.param_values)) AS series
            FROM recent
            JOIN run ON hash = commit_hash AND machine = $machine
            JOIN measurement USING (run_id)
            JOIN series USING (series_id)
            WHERE status <> 'skipped'
            GROUP BY ALL
        )
        SELECT hash FROM counted
        WHERE series >= $nearly * (SELECT max(series) FROM counted)
        ORDER BY position DESC NULLS LAST, date DESC, hash DESC
        LIMIT 1
        """,
        {"machine": machine, "recent": _RECENT, "nearly": _NEARLY},
    )
    return rows[0][0] if rows else None
