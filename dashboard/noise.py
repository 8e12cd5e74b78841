"""The noise of a store's series, learned from the commits before the ones compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from dashboard.models import Commit, Series
from dashboard.store.connect import Store
from dashboard.store.queries import past
from dashboard.store.queries.statistics import values_alike
from dashboard.verdicts import Past
from dashboard.verdicts.past import run_variances

# Noise of long ago is that of another machine, driver or kernel.
MOST_COMMITS = 20


def past_noise(
    store: Store, commits: Sequence[Commit], machine: str | None = None
) -> dict[Series, Past]:
    """The noise of every series with several rounds at the last 20 of ``commits``, in order."""
    hashes = [commit.hash for commit in commits[-MOST_COMMITS:]]
    if not hashes:
        return {}
    rounds = past.round_noise(store, hashes, machine)
    records = past.series_by_id(store)
    table, _ = values_alike(store, hashes, machine)
    alike: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for number in rounds:
        series = records[number]
        alike[series.machine, series.environment, series.unit].append(number)
    found: dict[Series, Past] = {}
    for members in alike.values():
        error = np.array([rounds[number].error for number in members])
        variances = run_variances(_by_commit(table, members, len(hashes)), error)
        for number, variance in zip(members, variances.tolist(), strict=True):
            noise = rounds[number]
            found[records[number]] = Past(noise.squares, noise.df, variance)
    return found


def _by_commit(table: past.Values, members: Sequence[int], commits: int) -> past.Floats:
    """The logarithms of the series' values, (series, commits), NaN where there is none."""
    rows = {number: row for row, number in enumerate(members)}
    row = np.array([rows.get(number, -1) for number in table.series_id.tolist()], dtype=np.int64)
    usable = (row >= 0) & (table.value > 0)
    logs = np.full((len(members), commits), np.nan)
    logs[row[usable], table.place[usable]] = np.log(table.value[usable])
    return logs
