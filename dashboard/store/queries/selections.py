"""What runs were to measure: tiers select some series, sweeps others, and some break off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.models import Pair, Series
from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch
from dashboard.store.queries.records import series_record

# A selection is like head's if it has nearly all of head's series, and head half of its.
_NEARLY = 0.8
_HALF = 0.5

# So many earlier commits show that there is such a tier: one may have broken off itself.
_PRECEDENTS = 2

# A suite shrinks and grows: what earlier commits measured says nothing of a sweep today.
_RECENT = 50


@dataclass(frozen=True, slots=True)
class Selection:
    """What the runs of a commit were to measure, judged by other commits.

    ``series``: all that it measured, that its rounds or runs name, and that selections like
    its own have. ``places``: the machines and environments where earlier commits show that
    there is such a selection; elsewhere nothing is known of what was to be measured.
    """

    series: frozenset[Series]
    places: frozenset[tuple[str, str]]

    def has(self, pair: Pair) -> bool:
        """Whether a series was to be measured, or nothing is known of it."""
        place = (pair.series.machine, pair.series.environment)
        return place not in self.places or pair.series in self.series


def selection(
    store: Store, commit: str, before: Sequence[str], machine: str | None = None
) -> Selection:
    """What the runs of ``commit`` (full hash) were to measure, on one machine or all.

    A selection is all that was measured of another commit, or what one invocation of asv
    measured of others. Only the former, of the commits ``before``, shows that there is a tier:
    an invocation may be a piece, or may have broken off as this commit's did.
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
            SELECT commit_hash AS name, series_id,
                   commit_hash IN (SELECT unnest(CAST($before AS VARCHAR[]))) AS is_earlier
            FROM (FROM measured UNION SELECT commit_hash, series_id FROM invoked)
            WHERE commit_hash <> $commit
            UNION
            SELECT asv_run, series_id, false FROM invoked
            WHERE commit_hash <> $commit AND asv_run IS NOT NULL
        ),
        alike AS (
            SELECT name, machine, environment, bool_or(is_earlier) AS is_earlier
            FROM selected
            JOIN placed USING (series_id)
            JOIN sizes USING (machine, environment)
            GROUP BY name, machine, environment, sizes.size
            HAVING count_if(is_own) >= $nearly * sizes.size
               AND count_if(is_own) >= $half * count(*)
        ),
        known AS (
            SELECT machine, environment, true AS is_known
            FROM alike
            WHERE is_earlier
            GROUP BY machine, environment
            HAVING count(*) >= $precedents
        )
        SELECT series.* EXCLUDE (param_values), is_known
        FROM (
            SELECT series_id
            FROM selected
            JOIN placed USING (series_id)
            JOIN alike USING (name, machine, environment)
            UNION
            FROM own
        )
        JOIN series USING (series_id)
        LEFT JOIN known USING (machine, environment)
        """,
        {
            **{"commit": commit, "before": list(before), "machine": machine},
            **{"nearly": _NEARLY, "half": _HALF, "precedents": _PRECEDENTS},
        },
    )
    cells = [dict(zip(columns, row, strict=True)) for row in rows]
    return Selection(
        frozenset(series_record(cell) for cell in cells),
        frozenset((cell["machine"], cell["environment"]) for cell in cells if cell["is_known"]),
    )


def covering(store: Store, head: str, machine: str | None = None) -> frozenset[str]:
    """The commits of which nearly all of ``head``'s series were measured, itself among them."""
    _, rows = fetch(
        store,
        """
        WITH measured AS (
            SELECT DISTINCT commit_hash, series_id
            FROM measurement
            JOIN run USING (run_id)
            WHERE status <> 'skipped' AND ($machine IS NULL OR machine = $machine)
        ),
        own AS (SELECT series_id FROM measured WHERE commit_hash = $head)
        SELECT commit_hash
        FROM measured
        JOIN own USING (series_id)
        GROUP BY commit_hash
        HAVING count(*) >= $nearly * (SELECT count(*) FROM own)
        """,
        {"head": head, "machine": machine, "nearly": _NEARLY},
    )
    return frozenset(name for (name,) in rows)


def measured_in_turn(store: Store, head: str, machine: str | None = None) -> frozenset[str]:
    """The commits of which asv measured nearly all of ``head``'s series in invocations of both."""
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
        SELECT other.commit_hash
        FROM taken AS other
        JOIN taken AS heads USING (asv_run, series_id)
        JOIN own USING (series_id)
        WHERE heads.commit_hash = $head AND other.commit_hash <> $head
        GROUP BY other.commit_hash
        HAVING count(DISTINCT series_id) >= $nearly * (SELECT count(*) FROM own)
        """,
        {"head": head, "machine": machine, "nearly": _NEARLY},
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
