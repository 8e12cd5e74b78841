"""What the pages show, read from the store and cached until the store changes.

Each query opens the store read-only and closes it at once, so that no page ever
stands in a writer's way. Results are cached by the file's identity, size and
time: new data appears with the next rerun, without a restart.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard.app import frames, summary
from dashboard.app.frames import Measure
from dashboard.check import check, newest
from dashboard.errors import InputError
from dashboard.models import CheckReport, Commit
from dashboard.serve import STORE_VARIABLE
from dashboard.settings import policy
from dashboard.store import open_store, queries

DEFAULT_STORE = Path(".asv") / "history.duckdb"


@dataclass(frozen=True, slots=True)
class Source:
    """A store at one moment: the key of every cached query."""

    path: str
    version: str


def store_path() -> Path:
    """The store that the command line handed over, else the default one."""
    return Path(os.environ.get(STORE_VARIABLE) or DEFAULT_STORE)


def source(path: Path) -> Source:
    """``path`` as it is now. OSError where there is no such file."""
    found = path.stat()
    return Source(str(path), f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}")


@st.cache_data(max_entries=4, show_spinner=False)
def series(at: Source) -> pd.DataFrame:
    """All series, described (see :func:`frames.describe`). InputError: not readable."""
    with open_store(at.path, read_only=True) as store:
        return frames.describe(queries.series(store))


@st.cache_data(max_entries=4, show_spinner=False)
def commits(at: Source) -> pd.DataFrame:
    """All commits in graph order."""
    with open_store(at.path, read_only=True) as store:
        return queries.commits(store)


@st.cache_data(max_entries=4, show_spinner=False)
def runs(at: Source) -> pd.DataFrame:
    """All runs, newest first."""
    with open_store(at.path, read_only=True) as store:
        return queries.runs(store)


@st.cache_data(max_entries=64, show_spinner=False)
def measured_commits(at: Source, machine: str) -> list[Commit]:
    """The commits with results on a machine, in graph order."""
    with open_store(at.path, read_only=True) as store:
        return queries.measured_commits(store, machine)


@st.cache_data(max_entries=32, show_spinner="Reading measurements…")
def trend(
    at: Source, series_ids: tuple[int, ...], control_ids: tuple[int, ...], measure: Measure
) -> pd.DataFrame:
    """The points of some series with what ``measure`` shows (see :func:`frames.measured`)."""
    return frames.measured(_points(at, series_ids), measure, _points(at, control_ids))


@st.cache_data(max_entries=16, show_spinner="Reading histories…")
def histories(at: Source, machine: str) -> dict[summary.SeriesKey, list[float]]:
    """The latest values of each series of a machine (see :func:`summary.histories`)."""
    here = series(at)
    return summary.histories(_points(at, frames.ids(here[here["machine"] == machine])))


@st.cache_data(max_entries=16, show_spinner=False)
def values_at(at: Source, machine: str, commit: str) -> pd.DataFrame:
    """What a machine measured at one commit, as a table (see :func:`summary.values`)."""
    here = series(at)
    found = _points(at, frames.ids(here[here["machine"] == machine]))
    now = found[found["commit"] == commit]
    return summary.values(now, now[now["group"] == frames.CONTROL])


def _points(at: Source, series_ids: tuple[int, ...]) -> pd.DataFrame:
    """Measurements in graph order, with their series' columns."""
    everything = series(at)
    chosen = everything[everything["series_id"].isin(series_ids)]
    with open_store(at.path, read_only=True) as store:
        found = queries.measurements(store, series_ids)
    return frames.points(chosen, found, list(commits(at)["commit"]))


def latest_commit(at: Source, machine: str) -> Commit:
    """The newest measured commit of a machine that has results."""
    return newest(measured_commits(at, machine))


@st.cache_data(max_entries=16, show_spinner="Comparing…")
def latest_report(at: Source, machine: str) -> CheckReport | str:
    """A machine's newest measured commit against the one before it.

    Where there is no such comparison, the reason in words.
    """
    if len(measured_commits(at, machine)) < 2:
        return (
            "One commit has been measured on this machine, so there is nothing to compare it "
            "with yet."
        )
    try:
        with open_store(at.path, read_only=True) as store:
            head = newest(queries.measured_commits(store, machine)).hash
            return check(store, policy(Path.cwd()), head=head, machine=machine)
    except InputError as error:
        return f"No comparison: {error}."
