"""Overview: the latest measured commit against the one before, worst first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.app import charts, data, frames, notices, state, summary, tables, theme, wording
from dashboard.app.views.trends import URL_PATH
from dashboard.models import CheckReport, Commit

_MOST_PROBLEMS = 12
_BANNERS = {
    "bad": (st.error, ":material/error:"),
    "unsure": (st.warning, ":material/help:"),
    "good": (st.success, ":material/check_circle:"),
}


def render() -> None:
    """Headline, counts, what broke, then every series."""
    at = notices.require_store()
    runs = data.runs(at)
    st.header("Overview", anchor=False)
    machine = _machine(runs)
    head = data.latest_commit(at, machine)
    report = data.latest_report(at, machine)
    if isinstance(report, str):
        st.info(
            wording.escape(f"{report} The table has the values of the newest commit."),
            icon=":material/info:",
        )
        _which(head, runs[runs["machine"] == machine], None)
        tables.plain(data.values_at(at, machine, head.hash))
    else:
        _compared(report, data.histories(at, machine), runs[runs["machine"] == machine])
    if runs["machine"].nunique() > 1:
        _machines(runs)


def _machine(runs: pd.DataFrame) -> str:
    """The machine to look at: the one measured last, unless another is chosen."""
    machines = [str(name) for name in runs["machine"].unique()]
    if len(machines) == 1:
        return machines[0]
    chosen = st.selectbox("Machine", machines, key=state.RUNNER, bind="query-params", width=420)
    return chosen or machines[0]


def _compared(
    report: CheckReport, history: Mapping[summary.SeriesKey, list[float]], runs: pd.DataFrame
) -> None:
    line = summary.headline(report)
    banner, icon = _BANNERS[line.level]
    banner(wording.escape(line.text), icon=icon)
    _which(report.head, runs, report.base)
    for note in report.notes:
        st.caption(wording.escape(note[:1].upper() + note[1:]))
    counted = [
        verdict
        for verdict in wording.VERDICTS
        if verdict in summary.ALWAYS_COUNTED or report.count(verdict)
    ]
    for column, verdict in zip(st.columns(len(counted), gap="small"), counted, strict=True):
        column.metric(
            wording.escape(wording.verdict_words(verdict)), report.count(verdict), border=True
        )

    broken = summary.problems(report)
    if broken:
        st.subheader("Failed and missing", anchor=False)
        lines = [
            f"**{wording.escape(words)}**  {wording.escape(series)}: {wording.escape(reason)}"
            for words, series, reason in broken[:_MOST_PROBLEMS]
        ]
        st.markdown("  \n".join(lines))
        if len(broken) > _MOST_PROBLEMS:
            st.caption(f"{len(broken) - _MOST_PROBLEMS} more are in the table below.")

    ratios = summary.ratio_frame(report)
    if not ratios.empty:
        st.subheader("Head to base, every series", anchor=False)
        st.caption(
            "Right of the dashed line is slower. Bars are 95 % intervals; where one crosses the "
            "line, the series may not have changed at all."
        )
        st.altair_chart(
            charts.ratios(ratios, palette=theme.palette()),
            width="content",
            alt="Ratio of head to base with its interval, every series",
        )

    st.subheader("Worst first", anchor=False)
    frame = summary.table(report.verdicts, history, _link)
    tables.verdict_table(frame, [v.verdict for v in report.verdicts], theme.palette())


def _link(cells: Mapping[str, Any]) -> str:
    return state.trend_link(URL_PATH, cells)


def _which(head: Commit, runs: pd.DataFrame, base: Commit | None) -> None:
    """Which commits these are, how old the data is and what it was measured on."""
    st.markdown(f"Head {_commit(head)}" + ("" if base is None else f"  \nBase {_commit(base)}"))
    run = runs[runs["commit"] == head.hash].iloc[0]
    parts = []
    if frames.known(run["started_at"]):
        when = run["started_at"].to_pydatetime()
        parts.append(f"measured {wording.age(when, datetime.now(UTC))} ({wording.moment(when)})")
    parts.append(f"on {run['machine']}")
    parts += [
        str(run[name]) if name == "gpu" else f"{name} {run[name]}"
        for name in ("gpu", "driver", "torch", "triton")
        if frames.known(run[name])
    ]
    st.caption(wording.escape("Head " + ", ".join(parts)))


def _commit(commit: Commit) -> str:
    parts = [f"`{wording.short_hash(commit.hash)}`"]
    if commit.subject:
        parts.append(f"**{wording.escape(commit.subject)}**")
    if commit.author:
        parts.append(f"by {wording.escape(commit.author)},")
    return " ".join([*parts, wording.escape(wording.moment(commit.date))])


def _machines(runs: pd.DataFrame) -> None:
    """When each machine was heard of last; four hundred of them scroll in place."""
    st.subheader("Machines", anchor=False)
    latest = runs.drop_duplicates(["machine", "environment"])
    now = datetime.now(UTC)
    ages = [
        wording.age(when.to_pydatetime(), now) if frames.known(when) else wording.NONE
        for when in latest["started_at"]
    ]
    st.dataframe(
        pd.DataFrame(
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
        ),
        hide_index=True,
    )
