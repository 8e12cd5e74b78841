"""What only the details of one series ask for."""

from __future__ import annotations

from dashboard.store.connect import Store
from dashboard.store.queries.fetch import fetch


def param_values(store: Store, series_id: int) -> list[str]:
    """A series' parameters as asv writes them in a benchmark's name; none if it is unknown."""
    _, rows = fetch(
        store, "SELECT param_values FROM series WHERE series_id = $id", {"id": int(series_id)}
    )
    return list(rows[0][0]) if rows else []
