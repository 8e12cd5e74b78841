"""Choices and lines that several pages have."""

from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from dashboard.app import addressed, data, frames, notices, state, summary, wording
from dashboard.models import CheckReport

_BANNERS = {
    "bad": (st.error, ":material/error:"),
    "unsure": (st.warning, ":material/help:"),
    "good": (st.success, ":material/check_circle:"),
}


def machine(at: data.Source, *commits: str) -> str:
    """The machine to look at: the one measured last, unless another is chosen.

    ``commits`` are the keys by which the address may name commits. Where it names no machine, but
    commits that only another one measured, that one is looked at. What it names in vain is told.
    """
    measured = data.measured(at)
    first = next(iter(measured))
    named = state.asked_for(*commits)
    asked = next(iter(state.chosen(state.RUNNER)), "")
    # Between machines, Compare has a machine and its environment under the same key.
    wanted = asked if asked in measured else asked.split(frames.BETWEEN)[0]
    remarks = addressed.of_places("machine", [wanted] if wanted else [], measured)
    chosen = first
    if len(measured) > 1:
        why = state.Reason()
        if wanted not in measured:
            wanted = addressed.machine_of(measured, named.values())
            sentence = addressed.of_switch(measured, wanted, named)
            why = state.Reason(tuple(named.values()), sentence)
        if wanted not in (asked, first):
            state.switch(state.RUNNER, wanted, why)
        machines = list(measured)
        chosen = (
            st.selectbox("Machine", machines, key=state.RUNNER, bind="query-params", width=420)
            or first
        )
    known = [commit.hash for commit in data.known_commits(at)]
    notices.remarks([*remarks, *addressed.of_commits(measured, known, chosen, named)])
    notices.note(state.switched(state.RUNNER, tuple(named.values())))
    return chosen


def swept_commit(at: data.Source, machine: str) -> tuple[str, str]:
    """The commit to show the shapes of, and what to say of the choice, perhaps nothing.

    Unless another is chosen, the newest of which nearly as many series were measured as of any.
    """
    measured = data.measured_commits(at, machine)
    newest = measured[-1].hash
    default = data.most_measured(at, machine) or newest
    chosen = state.choose_commit("Commit", measured, state.HEAD, default)
    return chosen, wording.NEWER_HAVE_FEWER if chosen == default != newest else ""


@st.cache_data(max_entries=16, show_spinner=False)
def points_at(at: data.Source, machine: str, commit: str) -> pd.DataFrame:
    """All that a machine measured at one commit; ``n`` are its rounds as text."""
    here = data.series(at)
    found = data.points(at, frames.ids(here[here["machine"] == machine]), (commit,))
    return found.assign(n=[frames.text(frames.whole(rounds)) for rounds in found["rounds"]])


def banner(report: CheckReport, accepted: summary.Accepted | None = None) -> None:
    """Whether to worry, in one line."""
    line = summary.headline(report, accepted)
    show, icon = _BANNERS[line.level]
    show(wording.escape(line.text), icon=icon)


def last_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """When each machine and environment was heard of last; hundreds of them scroll in place."""
    latest = runs.drop_duplicates(["machine", "environment"])
    now = datetime.now(UTC)
    ages = [
        wording.age(when.to_pydatetime(), now) if frames.known(when) else wording.NONE
        for when in latest["started_at"]
    ]
    return pd.DataFrame(
        {
            "Machine": latest["machine"],
            "Environment": latest["environment"],
            "Measured last": [wording.short_hash(commit) for commit in latest["commit"]],
            "Subject": [frames.text(subject) for subject in latest["subject"]],
            "When": ages,
            "Series": latest["series"],
            "Failed": latest["failed"],
            "Skipped": latest["skipped"],
            "GPU": [frames.text(gpu) for gpu in latest["gpu"]],
        }
    )
