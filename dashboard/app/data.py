"""What the pages show, read from the store and cached until the store changes.

The store is opened read-only and closed with the run of the page, so that no page ever
stands in a writer's way. Results are cached by the file's identity, size and
time: new data appears with the next rerun, without a restart. What every page
asks for is shared between the sessions (``cache_resource``) and not to be changed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard.app import frames, relations, spans, summary
from dashboard.app.frames import Measure
from dashboard.check import newest
from dashboard.models import Commit
from dashboard.serve import STORE_VARIABLE
from dashboard.store import Store, open_store, queries, stamp
from dashboard.store.connect import is_lake

DEFAULT_STORE = Path(".asv") / "history.duckdb"
# Five people at once on two cores shall fit into 1 GiB.
_MEMORY_MIB = 256
_THREADS = 2
_HISTORY = 40  # values of a sparkline


@dataclass(frozen=True, slots=True)
class Source:
    """A store at one moment: the key of every cached query."""

    path: str
    version: str


def store_address() -> str:
    """The store that the command line handed over, else the default one."""
    return os.environ.get(STORE_VARIABLE) or str(DEFAULT_STORE)


def source(address: str) -> Source:
    """The store as it is now. FileNotFoundError, InputError: there is none."""
    if not is_lake(address):
        Path(address).stat()
    return Source(address, stamp(address))


_held: ContextVar[dict[Source, Store] | None] = ContextVar("held", default=None)


@contextmanager
def one_opening() -> Iterator[Collection[Source]]:
    """Within the block, which is a run of a page, the store is opened once for all queries.

    Yields the stores opened: none at the end where the page had all it needs already.
    """
    held: dict[Source, Store] = {}
    token = _held.set(held)
    try:
        yield held.keys()
    finally:
        _held.reset(token)
        for store in held.values():
            store.close()


@contextmanager
def reading(at: Source) -> Iterator[Store]:
    """The store, open for one query. InputError: not readable."""
    held = _held.get()
    if held is None:
        with _opened(at) as store:
            yield store
        return
    if at not in held:
        held[at] = _opened(at)
    yield held[at]


def _opened(at: Source) -> Store:
    store = open_store(at.path, read_only=True)
    queries.limit(store, memory_mib=_MEMORY_MIB, threads=_THREADS)
    return store


@st.cache_resource(max_entries=4, show_spinner=False)
def series(at: Source) -> pd.DataFrame:
    """All series, described (see :func:`frames.describe`). InputError: not readable."""
    with reading(at) as store:
        return frames.describe(queries.series(store))


@st.cache_resource(max_entries=4, show_spinner=False)
def commits(at: Source) -> pd.DataFrame:
    """All commits in graph order."""
    with reading(at) as store:
        return queries.commits(store)


@st.cache_resource(max_entries=4, show_spinner=False)
def runs(at: Source) -> pd.DataFrame:
    """All runs, newest first, with ``place`` (machine and environment)."""
    with reading(at) as store:
        found = queries.runs(store)
    return found.assign(place=found["machine"] + frames.BETWEEN + found["environment"])


@st.cache_resource(max_entries=4, show_spinner=False)
def measured(at: Source) -> dict[str, frozenset[str]]:
    """The hashes of the commits with results on each machine, that of the newest run first."""
    by_machine = runs(at).groupby("machine", sort=False)["commit"]
    return {str(machine): frozenset(hashes) for machine, hashes in by_machine}


@st.cache_resource(max_entries=64, show_spinner=False)
def measured_commits(at: Source, machine: str) -> list[Commit]:
    """The commits with results on a machine, in graph order."""
    with reading(at) as store:
        return queries.measured_commits(store, machine)


@st.cache_data(max_entries=64, show_spinner=False)
def most_measured(at: Source, machine: str) -> str | None:
    """The newest commit of which nearly as many series were measured as of any."""
    with reading(at) as store:
        return queries.most_measured(store, machine)


@st.cache_resource(max_entries=4, show_spinner=False)
def known_commits(at: Source) -> list[Commit]:
    """Every commit as a record, in graph order."""
    with reading(at) as store:
        return queries.known_commits(store)


@st.cache_data(max_entries=64, show_spinner=False)
def commits_of(at: Source, places: tuple[str, ...]) -> tuple[str, ...]:
    """The hashes of the commits with results in some places, in graph order."""
    found = runs(at)
    measured = set(found["commit"][found["place"].isin(places)])
    return tuple(commit for commit in commits(at)["commit"] if commit in measured)


@st.cache_data(max_entries=64, show_spinner="Reading measurements…")
def points(
    at: Source,
    series_ids: tuple[int, ...],
    chosen_commits: tuple[str, ...],
    most: int | None = None,
) -> pd.DataFrame:
    """Measurements in graph order with their series' columns (see :func:`frames.points`).

    Of more commits than ``most``, those where each series is lowest and highest in turn.
    """
    everything = series(at)
    chosen = everything[everything["series_id"].isin(series_ids)]
    with reading(at) as store:
        found = queries.points(store, series_ids, chosen_commits, most)
    return frames.points(chosen, found, list(commits(at)["commit"]))


@st.cache_data(max_entries=32, show_spinner=False)
def trend(
    at: Source,
    series_ids: tuple[int, ...],
    control_ids: tuple[int, ...],
    measure: Measure,
    chosen_commits: tuple[str, ...],
    most: int | None,
    against: str | None = None,
) -> pd.DataFrame:
    """The points of some series with what ``measure`` shows (see :func:`relations.measured`), as
    far up and down as their rounds go (see :mod:`spans`).

    ``against`` is the commit that :attr:`Measure.COMMIT` relates to.
    """
    found = points(at, series_ids, chosen_commits, most)
    partners = found.iloc[:0]
    if measure in frames.NEED_CONTROL:
        there = set(found["commit"])
        shown = tuple(commit for commit in chosen_commits if commit in there)
        partners = points(at, control_ids, shown)
    elif measure is Measure.COMMIT and against is not None:
        partners = points(at, series_ids, (against,))
    drawn = relations.measured(spans.of_rounds(found), measure, spans.of_rounds(partners))
    return spans.stored(drawn)


@st.cache_resource(max_entries=16, show_spinner="Reading histories…")
def histories(at: Source, machine: str) -> dict[summary.SeriesKey, list[float]]:
    """The latest values of each series of a machine, oldest first."""
    latest = tuple(commit.hash for commit in measured_commits(at, machine)[-_HISTORY:])
    with reading(at) as store:
        return summary.histories(queries.recent_values(store, machine, latest), machine)


@st.cache_resource(max_entries=4, show_spinner=False)
def series_ids(at: Source) -> dict[summary.SeriesKey, int]:
    """The store's number of every series."""
    described = series(at)
    keys = zip(
        described["benchmark"],
        described["params"].map(frames.params_text),
        described["machine"],
        described["environment"],
        strict=True,
    )
    return dict(zip(keys, frames.ids(described), strict=True))


def series_id(at: Source, key: summary.SeriesKey) -> int | None:
    """The store's number of a series."""
    return series_ids(at).get(key)


@st.cache_data(max_entries=16, show_spinner=False)
def values_at(at: Source, machine: str, commit: str) -> pd.DataFrame:
    """What a machine measured at one commit, as a table (see :func:`summary.values`)."""
    here = series(at)
    now = points(at, frames.ids(here[here["machine"] == machine]), (commit,))
    return summary.values(now, now[now["group"] == frames.CONTROL])


@st.cache_data(max_entries=64, show_spinner=False)
def rounds(at: Source, series_id: int, commit: str, run: str | None = None) -> pd.DataFrame:
    """The rounds behind one point, or those that one invocation of asv took."""
    with reading(at) as store:
        return queries.rounds(store, series_id, commit, run)


@st.cache_data(max_entries=16, show_spinner=False)
def schedules(at: Source, machine: str, chosen_commits: tuple[str, ...]) -> pd.DataFrame:
    """The chosen schedules and their changes, with their series' columns."""
    with reading(at) as store:
        found = queries.schedules(store, machine, chosen_commits)
    return found.merge(series(at), on="series_id", how="inner")


@st.cache_data(max_entries=8, show_spinner="Reading schedules…")
def by_schedule(at: Source, machine: str, chosen_commits: tuple[str, ...]) -> pd.DataFrame:
    """The newest value of each series under each schedule, with their series' columns."""
    with reading(at) as store:
        found = queries.by_schedule(store, machine, chosen_commits)
    return found.merge(series(at), on="series_id", how="inner")


@st.cache_data(max_entries=64, show_spinner=False)
def param_values(at: Source, series_id: int) -> list[str]:
    """A series' parameters as asv writes them."""
    with reading(at) as store:
        return queries.param_values(store, series_id)


def latest_commit(at: Source, machine: str) -> Commit:
    """The newest measured commit of a machine that has results."""
    return newest(measured_commits(at, machine))
