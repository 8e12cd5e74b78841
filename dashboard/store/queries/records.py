"""What is judged, as the records of `dashboard.models`."""

from __future__ import annotations

import json
from typing import Any

from dashboard.models import Commit, Pair, Round, Series, Side, Status
from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch, utc


def pairs(store: Store, base: str, head: str, machine: str | None = None) -> list[Pair]:
    """Every series measured at one of two commits (full hashes), on one machine or all.

    Skipped without a reason, which in asv is also what was not selected, is not measured.
    """
    columns, rows = fetch(
        store,
        """
        SELECT series.* EXCLUDE (param_values, machine, environment), series.machine,
               series.environment, commit_hash, status, reason, value, version, gpu, driver,
               torch, triton, statistic, protocol, run_id
        FROM current_measurement
        JOIN series USING (series_id)
        WHERE commit_hash IN ($base, $head)
          AND ($machine IS NULL OR series.machine = $machine)
          AND (status <> 'skipped' OR reason IS NOT NULL)
        ORDER BY benchmark, model, tokens, tp, label, series.machine, series.environment
        """,
        {"base": base, "head": head, "machine": machine},
    )
    behind, others = _rounds_of(store, base, head)
    known: dict[int, Series] = {}
    sides: dict[tuple[int, str], Side] = {}
    for row in rows:
        cell = dict(zip(columns, row, strict=True))
        known.setdefault(cell["series_id"], series_record(cell))
        sides[cell["series_id"], cell["commit_hash"]] = Side(
            commit=cell["commit_hash"],
            status=Status(cell["status"]),
            value=cell["value"],
            rounds=tuple(behind.get((cell["run_id"], cell["series_id"]), ())),
            others=tuple(others.get((cell["commit_hash"], cell["series_id"]), ())),
            reason=cell["reason"],
            version=cell["version"],
            gpu=cell["gpu"],
            driver=cell["driver"],
            torch=cell["torch"],
            triton=cell["triton"],
            statistic=cell["statistic"],
            protocol=cell["protocol"],
        )
    return [
        Pair(record, sides.get((number, base)), sides.get((number, head)))
        for number, record in known.items()
    ]


def measured_commits(store: Store, machine: str | None = None) -> list[Commit]:
    """The commits with results, on one machine or any, in the order of `known_commits`."""
    wanted = {
        row[0]
        for row in fetch(
            store,
            """
            SELECT DISTINCT commit_hash FROM run
            WHERE $machine IS NULL OR machine = $machine
            """,
            {"machine": machine},
        )[1]
    }
    return [commit for commit in known_commits(store) if commit.hash in wanted]


def measured_places(
    store: Store, machine: str | None = None
) -> dict[str, frozenset[tuple[str, str]]]:
    """The machines and environments that measured each commit, by its hash."""
    _, rows = fetch(
        store,
        """
        SELECT DISTINCT commit_hash, machine, environment FROM run
        WHERE $machine IS NULL OR machine = $machine
        """,
        {"machine": machine},
    )
    found: dict[str, set[tuple[str, str]]] = {}
    for name, *place in rows:
        found.setdefault(name, set()).add((place[0], place[1]))
    return {name: frozenset(places) for name, places in found.items()}


def newest_of_one_run(store: Store, machine: str | None = None) -> tuple[str, str] | None:
    """The newest two commits that one invocation of asv measured, the earlier first."""
    order = {commit.hash: place for place, commit in enumerate(known_commits(store))}
    _, rows = fetch(
        store,
        """
        SELECT list(DISTINCT commit_hash)
        FROM round
        JOIN run USING (run_id)
        WHERE round.status = 'ok' AND asv_run IS NOT NULL
          AND ($machine IS NULL OR machine = $machine)
        GROUP BY asv_run
        HAVING count(DISTINCT commit_hash) > 1
        """,
        {"machine": machine},
    )
    latest = [sorted(order[commit] for commit in commits)[-2:] for (commits,) in rows]
    if not latest:
        return None
    base, head = max(latest, key=lambda places: places[::-1])
    names = list(order)
    return names[base], names[head]


def known_commits(store: Store) -> list[Commit]:
    """Every commit of the store in graph order, before them those known only by date."""
    _, rows = fetch(
        store,
        """
        SELECT hash, commit_date, tree, parents, author, author_date, subject, tags, position
        FROM commit_info
        ORDER BY position NULLS FIRST, commit_date, hash
        """,
    )
    return [
        Commit(
            hash=name,
            date=utc(date),
            tree=tree,
            parents=tuple(parents),
            author=author,
            author_date=None if author_date is None else utc(author_date),
            subject=subject,
            tags=tuple(tags),
            position=position,
        )
        for name, date, tree, parents, author, author_date, subject, tags, position in rows
    ]


def _rounds_of(
    store: Store, base: str, head: str
) -> tuple[dict[tuple[int, int], list[Round]], dict[tuple[str, int], list[Round]]]:
    """The attached rounds of two commits by (run_id, series_id), and all that their runs took by
    (commit, series_id)."""
    _, rows = fetch(
        store,
        """
        SELECT run_id, series_id, samples, value, status, reason, round.started_at, gpu_uuid,
               sm_clock_mhz, power_w, temperature_c, clock_event_reasons, gap_ms, asv_run,
               attached, commit_hash
        FROM round
        JOIN run USING (run_id)
        WHERE commit_hash IN ($base, $head)
          AND (attached OR asv_run IN (
              SELECT asv_run FROM round
              JOIN run USING (run_id)
              WHERE attached AND commit_hash IN ($base, $head)
          ))
        ORDER BY run_id, series_id, round.started_at NULLS FIRST, round
        """,
        {"base": base, "head": head},
    )
    behind: dict[tuple[int, int], list[Round]] = {}
    others: dict[tuple[str, int], list[Round]] = {}
    for row in rows:
        found = Round(
            samples=tuple(row[2]),
            value=row[3],
            status=Status(row[4]),
            reason=row[5],
            started_at=None if row[6] is None else utc(row[6]),
            gpu_uuid=row[7],
            sm_clock_mhz=row[8],
            power_w=row[9],
            temperature_c=row[10],
            clock_event_reasons=tuple(row[11]),
            gap_ms=row[12],
            run=row[13],
        )
        if row[14]:
            behind.setdefault((row[0], row[1]), []).append(found)
        others.setdefault((row[15], row[1]), []).append(found)
    return behind, others


def series_record(cell: dict[str, Any]) -> Series:
    """A row of the table ``series``, by column, as a record."""
    return Series(
        benchmark=cell["benchmark"],
        params=tuple(json.loads(cell["params"]).items()),
        machine=cell["machine"],
        environment=cell["environment"],
        unit=cell["unit"] or "",
        family=cell["family"],
        model=cell["model"],
        tokens=cell["tokens"],
        tp=cell["tp"],
        higher_is_better=cell["higher_is_better"],
    )
