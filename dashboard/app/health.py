"""What the store holds, what it could not read, and how noisy its numbers are; cached."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.app.data import Source, reading, series
from dashboard.store import queries
from dashboard.store.connect import is_lake
from dashboard.store.local import files_of


@st.cache_data(max_entries=16, show_spinner=False)
def spreads(at: Source, machine: str, chosen_commits: tuple[str, ...]) -> pd.DataFrame:
    """How far apart the rounds of one commit lie, with their series' columns, widest first."""
    with reading(at) as store:
        found = queries.spreads(store, machine, chosen_commits)
    return found.merge(series(at), on="series_id", how="inner")


@st.cache_data(max_entries=4, show_spinner=False)
def totals(at: Source) -> dict[str, int]:
    """How many runs, series and measurements there are."""
    with reading(at) as store:
        return queries.totals(store)


@st.cache_data(max_entries=4, show_spinner=False)
def file_states(at: Source) -> pd.DataFrame:
    """How many files have each kind and status."""
    with reading(at) as store:
        return queries.file_states(store)


@st.cache_data(max_entries=4, show_spinner=False)
def troubled_files(at: Source) -> pd.DataFrame:
    """The files that are not wholly in the store."""
    with reading(at) as store:
        return queries.troubled_files(store)


@st.cache_data(max_entries=4, show_spinner=False)
def latest_readings(at: Source, most: int) -> pd.DataFrame:
    """The newest entries of the ingest log."""
    with reading(at) as store:
        return queries.latest_readings(store, most)


def size(at: Source) -> float | None:
    """The store's bytes on disk; ``None`` where it is no file of this machine."""
    if is_lake(at.path):
        return None
    return float(sum(path.stat().st_size for path in files_of(at.path)))
