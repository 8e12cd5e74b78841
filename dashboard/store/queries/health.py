"""What the store holds, what it could not read, and how noisy its numbers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch
from dashboard.store.queries.frames import _frame

if TYPE_CHECKING:
    import pandas as pd


def spreads(store: Store, machine: str, commits: Sequence[str]) -> pd.DataFrame:
    """Per series with several rounds a run at some commits: series_id, spread (the median of
    (max - min) / median over its runs), widest (the largest of them), runs, rounds."""
    return _frame(
        store,
        """
        WITH chosen AS (
            SELECT run_id FROM run
            WHERE machine = $machine
              AND commit_hash IN (SELECT unnest(CAST($commits AS VARCHAR[])))
        ),
        each_run AS (
            SELECT series_id, run_id, count(*) AS rounds,
                   (max(value) - min(value)) / median(value) AS spread
            FROM round
            JOIN chosen USING (run_id)
            WHERE attached AND value > 0
            GROUP BY series_id, run_id
            HAVING count(*) > 1
        )
        SELECT series_id, median(spread) AS spread, max(spread) AS widest, count(*) AS runs,
               CAST(sum(rounds) AS BIGINT) AS rounds
        FROM each_run
        GROUP BY series_id
        ORDER BY spread DESC, series_id
        """,
        {"machine": machine, "commits": list(commits)},
    )


def file_states(store: Store) -> pd.DataFrame:
    """How many files have each kind and status: kind, status, files, rows."""
    return _frame(
        store,
        """
        SELECT kind, status, count(*) AS files, CAST(sum("rows") AS BIGINT) AS "rows"
        FROM source_file
        GROUP BY kind, status
        ORDER BY kind, status
        """,
    )


def troubled_files(store: Store) -> pd.DataFrame:
    """The files that are not wholly in the store: path, kind, status, reason, ingested_at."""
    return _frame(
        store,
        """
        SELECT path, kind, status, reason, ingested_at
        FROM source_file
        WHERE status <> 'read' OR reason IS NOT NULL
        ORDER BY ingested_at DESC, path
        """,
    )


def unread_rounds(store: Store, machine: str | None = None) -> list[tuple[str, str, bool]]:
    """The rounds files that were rejected or in part, of one machine or all: path, reason, and
    whether nothing of one was read."""
    _, rows = fetch(
        store,
        """
        SELECT path, reason, status = 'rejected'
        FROM source_file
        WHERE kind = 'rounds' AND status IN ('rejected', 'partial')
          -- as the suite names the file
          AND ($machine IS NULL
               OR ends_with(path, '-' || replace($machine, '/', '_') || '.jsonl'))
        ORDER BY path, source
        """,
        {"machine": machine},
    )
    return [(path, reason or "unreadable", whole) for path, reason, whole in rows]


def rejected_results(store: Store, machine: str | None = None) -> list[tuple[str, str, bool]]:
    """The results files of asv's that were rejected, of one machine or all: path, reason, and
    whether what they held before is still in the store."""
    _, rows = fetch(
        store,
        """
        WITH rejected AS (
            SELECT source, path, reason, kept_run_id IS NOT NULL AS kept,
                   regexp_extract(path, '^(.*)/', 1) AS folder
            FROM source_file
            WHERE kind = 'result' AND status = 'rejected'
        )
        SELECT path, reason, kept
        FROM rejected
        LEFT JOIN machine USING (source, folder)
        WHERE $machine IS NULL OR coalesce(machine.machine, split_part(folder, '/', -1)) = $machine
        ORDER BY path, source
        """,
        {"machine": machine},
    )
    return [(path, reason or "unreadable", kept) for path, reason, kept in rows]


def latest_readings(store: Store, most: int) -> pd.DataFrame:
    """The newest entries of the ingest log: path, kind, status, reason, ingested_at, rows."""
    return _frame(
        store,
        """
        SELECT path, kind, status, reason, ingested_at, "rows"
        FROM ingest_log
        ORDER BY ingested_at DESC, path
        LIMIT $most
        """,
        {"most": most},
    )
