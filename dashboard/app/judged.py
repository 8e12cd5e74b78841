"""Comparisons and changes of level, cached until the store or the settings change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard.acknowledged import Acknowledgement, Acknowledgements
from dashboard.app import data, marks
from dashboard.app.data import Source, known_commits, measured_commits, reading, series
from dashboard.check import check, choices, newest
from dashboard.context import accepted_by
from dashboard.errors import InputError
from dashboard.history import HistoryReport
from dashboard.history import history as find_history
from dashboard.lineage import Lineage
from dashboard.models import CheckReport, Series
from dashboard.settings import acknowledgements, policy
from dashboard.verdicts import Policy

_QUICK_POINTS = 20_000  # searched for changes in about a second


def default_pair(at: Source, machine: str) -> tuple[str, str] | None:
    """Base and head to compare at first: the latest release and the newest commit, without a
    release what the Overview compares; ``None`` with fewer than two."""
    measured = measured_commits(at, machine)
    if len(measured) < 2:
        return None
    if released := [commit.hash for commit in measured[:-1] if commit.tags]:
        return released[-1], measured[-1].hash
    try:
        return _pair(at, machine, None)[:2]
    except InputError:
        return measured[-2].hash, measured[-1].hash


def report(
    at: Source, machine: str, base: str | None = None, head: str | None = None
) -> CheckReport | str:
    """Two commits on one machine, or by default the newest and what it builds on.

    Where there is no such comparison, the reason in words.
    """
    if len(measured_commits(at, machine)) < 2:
        return (
            "One commit has been measured on this machine, so there is nothing to compare it "
            "with yet."
        )
    try:
        rules = policy(Path.cwd())
        notes: tuple[str, ...] = ()
        if base is None or head is None:
            base, head, notes = _pair(at, machine, head)
        with st.spinner("Comparing…"):
            found = _report(at, rules, machine, base, head)
        return replace(found, notes=(*notes, *found.notes))
    except InputError as error:
        return f"No comparison: {error}."


def compared(at: Source, machine: str, base: str, head: str) -> CheckReport:
    """What :func:`report` has of two commits, for a thread that has no page. InputError."""
    return _report(at, policy(Path.cwd()), machine, base, head)


def accepted(at: Source, report: CheckReport) -> dict[Series, Acknowledgement]:
    """The regressions, failures and losses of a report that an entry accepts; none where the
    entries cannot be read, which the Regressions page tells."""
    try:
        entries = acknowledgements(Path.cwd(), policy(Path.cwd()))
    except InputError:
        return {}
    if not entries.entries:
        return {}
    return accepted_by(report, entries, Lineage(known_commits(at)))[0]


@st.cache_data(max_entries=64, show_spinner=False)
def _pair(at: Source, machine: str, head: str | None) -> tuple[str, str, tuple[str, ...]]:
    """Base and head where no base is named, and why: pages that mean one pair share a report."""
    measured = measured_commits(at, machine)
    known = {commit.hash: commit for commit in known_commits(at)}
    notes: list[str] = []
    with reading(at) as store:
        chosen = choices(store, measured, known, machine, None, notes)
        base, last = chosen.of(None, head or newest(measured).hash)
    return base.hash, last.hash, tuple(notes)


# A report is frozen: a copy for every page would take longer than what is drawn of it.
@st.cache_resource(max_entries=16, show_spinner=False)
def _report(at: Source, rules: Policy, machine: str, base: str, head: str) -> CheckReport:
    with reading(at) as store:
        return check(store, rules, base=base, head=head, machine=machine)


def history(at: Source, machine: str) -> HistoryReport | str:
    """The changes of a machine's series over its commits; else the reason in words."""
    try:
        rules = policy(Path.cwd())
        return _history(at, rules, acknowledgements(Path.cwd(), rules), machine)
    except InputError as error:
        return f"No history: {error}."


@st.cache_resource(max_entries=8, show_spinner="Looking for changes…")
def _history(at: Source, rules: Policy, entries: Acknowledgements, machine: str) -> HistoryReport:
    with reading(at) as store:
        return find_history(store, rules, machine=machine, acknowledgements=entries)


def steps(at: Source, machine: str) -> pd.DataFrame:
    """The changes of level of a machine's series; none where looking for them takes long."""
    if not quick_history(at, machine):
        return marks.no_steps()
    found = history(at, machine)
    return marks.no_steps() if isinstance(found, str) else marks.steps(found, data.series_ids(at))


def quick_history(at: Source, machine: str) -> bool:
    """Whether the history is small enough to be searched while the reader waits."""
    everything = series(at)
    points = everything["measured"][everything["machine"] == machine].sum()
    return bool(points <= _QUICK_POINTS)
