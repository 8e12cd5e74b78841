"""Overview: the latest measured commit against its base, or the two commits that the
address names, worst first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from dashboard.app import (
    data,
    draw,
    frames,
    health,
    judged,
    navigation,
    notices,
    pickers,
    ratio_chart,
    regressions,
    sizes,
    state,
    summary,
    tables,
    theme,
    wording,
)
from dashboard.models import CheckReport, Commit, SeriesVerdict

_MOST_PROBLEMS = 6
_ACKNOWLEDGED = "✓ acknowledged"
_MOST_SHAPES = 16


def render() -> None:
    """Headline, counts, what broke, then every series."""
    at = notices.require_store()
    runs = data.runs(at)
    st.header("Overview", anchor=False)
    machine = pickers.machine(at, state.BASE, state.HEAD)
    head = data.latest_commit(at, machine)
    measured = data.measured_commits(at, machine)
    named = [state.named_commit(measured, key) for key in (state.BASE, state.HEAD)]
    if len(asked := state.asked_for(state.BASE, state.HEAD)) == 1:
        notices.note(f"The address names {next(iter(asked))} alone: this is the newest commit.")
    report = judged.report(at, machine, *(named if all(named) else ()))
    if isinstance(report, str):
        st.info(
            wording.escape(f"{report} The table has the values of the newest commit."),
            icon=":material/info:",
        )
        _which(head, runs[runs["machine"] == machine], None)
        tables.plain(data.values_at(at, machine, head.hash))
    else:
        _compared(at, report, data.histories(at, machine), runs[runs["machine"] == machine])
    if runs["machine"].nunique() > 1:
        st.subheader("Machines", anchor=False)
        tables.plain(pickers.last_runs(runs))


def _compared(
    at: data.Source,
    report: CheckReport,
    history: Mapping[summary.SeriesKey, list[float]],
    runs: pd.DataFrame,
) -> None:
    accepted = judged.accepted(at, report)
    pickers.banner(report, accepted)
    _which(report.head, runs, report.base)
    for note in report.notes:
        st.caption(wording.escape(note[:1].upper() + note[1:]))
    counted = [
        verdict
        for verdict in wording.VERDICTS
        if verdict in summary.ALWAYS_COUNTED or report.count(verdict)
    ]
    cells = [(wording.verdict_words(verdict), report.count(verdict)) for verdict in counted]
    if accepted:
        cells.append((_ACKNOWLEDGED, len(accepted)))
    for column, (name, count) in zip(st.columns(len(cells), gap="small"), cells, strict=True):
        column.metric(wording.escape(name), count, border=True)

    _start_here(at, report, accepted)
    _before(at, str(runs["machine"].iloc[0]), report.head)
    ratios = summary.ratio_frame(report)
    if not ratios.empty:
        st.subheader("Head to base", anchor=False)
        drawn = summary.first_shapes(ratios, _MOST_SHAPES)
        left_out = ratios["row"].nunique() - drawn["row"].nunique()
        cut = ratio_chart.left_out(drawn)
        st.caption(
            "Right of the dashed line is slower. Bars are 95 % intervals; where one crosses the "
            "line, the series may not have changed at all."
            + (f" {left_out:,} further shapes are in the table below." if left_out else "")
            + (f" {cut:,} further series are in the table below." if cut else "")
        )
        chart = ratio_chart.ratios(drawn, palette=theme.palette())
        draw.chart(
            chart,
            described="Ratio of head to base with its interval, by series",
            width="content" if isinstance(chart, alt.FacetChart) else "stretch",
        )

    st.subheader("Worst first", anchor=False)
    asked = state.choose_text("Search", state.FIND, "words of a name, such as kimi regressed")
    found = summary.containing(report.verdicts, asked)
    shown = found[: tables.MOST_STYLED_ROWS]
    if not shown:
        st.info("No series has all these words.")
        return
    if len(shown) < len(found):
        st.caption(
            f"The first {len(shown)} of {wording.count(len(found), 'series', 'series')}; the "
            "search finds the others."
        )
    frame = summary.table(shown, history, accepted)
    # A link: what leaves by the program loses the choices of this page for the way back.
    to_trend = st.container()
    row = tables.verdict_table(
        frame, [v.verdict for v in shown], theme.palette(), f"worst {report.head.hash} {asked}"
    )
    if row is not None:
        with to_trend:
            title = wording.escape(f"Trend of {summary.title(shown[row])}")
            icon = ":material/show_chart:"
            navigation.link("trends", title, _trend(at, report, shown[row]), icon)


def _trend(at: data.Source, report: CheckReport, verdict: SeriesVerdict) -> dict[str, Any]:
    """The trend of a series, open at the head of the comparison."""
    number = data.series_id(at, summary.series_key(verdict))
    point = None if number is None else frames.point_key(number, report.head.hash)
    return state.trend_query(summary.cells_of(verdict), point)


def _start_here(at: data.Source, report: CheckReport, accepted: summary.Accepted) -> None:
    """What needs a look, each with a link to its details; what is accepted, with its reason."""
    bad = summary.worst(report, accepted)
    if not bad:
        return
    st.subheader("Look at these first", anchor=False)
    for verdict in bad[:_MOST_PROBLEMS]:
        what = f"{wording.verdict_words(verdict.verdict)}  {summary.title(verdict)}"
        told = f"{what}: {sizes.change(verdict)}"
        entry = accepted.get(verdict.series)
        if entry is not None:
            told += f"  ✓ {summary.accepted_by(entry)}"
        navigation.link("trends", wording.escape(told), _trend(at, report, verdict))
    if len(bad) > _MOST_PROBLEMS:
        st.caption(f"{len(bad) - _MOST_PROBLEMS} more are in the table below.")


def _before(at: data.Source, machine: str, head: Commit) -> None:
    """What the comparison of two commits does not show: older regressions, and the noise."""
    if judged.quick_history(at, machine):
        history = judged.history(at, machine)
        groups = [] if isinstance(history, str) else regressions.groups(history)
        for kind, sign in ((regressions.State.OPEN, "▲"), (regressions.State.ACKNOWLEDGED, "✓")):
            count = sum(len(group.changes) for group in groups if group.state is kind)
            if count:
                told = f"{sign} {wording.count(count, f'{kind.value} regression')} in the history"
                navigation.link("regressions", told, {state.RUNNER: machine})
    spreads = health.spreads(at, machine, (head.hash,))
    if not spreads.empty:
        values = spreads["spread"]
        st.caption(
            wording.escape(
                f"Noise: the rounds of head lie {100 * values.median():.2g} % apart in the median "
                f"of {wording.count(len(spreads), 'series', 'series')}, "
                f"{100 * values.max():.2g} % at most."
            )
        )


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
