"""A run that was killed: rounds on disk that asv had not pooled yet."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest

SAMPLES_COLUMN = 11


def test_the_rounds_asv_pooled_before_it_was_killed_stay_attached(
    tmp_path: Path, make_history: Callable[..., Any]
) -> None:
    history = make_history(tmp_path / "results")
    path = history.result_file(0)
    document = json.loads(path.read_text("utf-8"))
    kept: dict[str, int] = {}
    for name, row in document["results"].items():
        for place, samples in enumerate(row[SAMPLES_COLUMN]):
            # Three rounds wrote their lines; asv saved after the second.
            row[SAMPLES_COLUMN][place] = samples[: len(samples) * 2 // 3]
            row[0][place] = statistics.median(row[SAMPLES_COLUMN][place])
        kept[name] = len(row[SAMPLES_COLUMN])
    path.write_text(json.dumps(document), "utf-8")
    ingest(tmp_path / "s.duckdb", history.results)
    with open_store(tmp_path / "s.duckdb") as store:
        rows = queries.measurements(store).query("commit == @history.commits[0]")
        counts = store.connection.execute(
            "SELECT attached, count(*) FROM round JOIN run USING (run_id)"
            " WHERE commit_hash = ? GROUP BY ALL",
            [history.commits[0]],
        ).fetchall()
    assert set(rows["rounds"]) == {2}
    assert dict(counts) == {True: 2 * total(kept), False: total(kept)}


def total(kept: dict[str, int]) -> int:
    """How many series there are."""
    return sum(kept.values())
