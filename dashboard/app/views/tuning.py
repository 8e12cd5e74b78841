"""Compile & tuning: what the first call costs, and which schedules are chosen."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.app import (
    charts,
    data,
    details,
    downloads,
    draw,
    filters,
    frames,
    heatmaps,
    marks,
    measures,
    notices,
    palette,
    pickers,
    reproduce,
    spans,
    state,
    tables,
    theme,
    tuning,
    wording,
)
from dashboard.app.frames import Measure

_FAMILY = "compile"
_FIGURES = ("times", "counts")
_MOST_POINTS = 120
_ACROSS = 3
_HOVER = (
    ("row", "model"),
    ("column", "bucket"),
    ("schedule", "schedule"),
    ("benchmarks", "benchmarks"),
)


def render() -> None:
    """Costs over the commits, then the schedules chosen and where the choice changed."""
    at = notices.require_store()
    st.header("Compile & tuning", anchor=False)
    machine = pickers.machine(at)
    everything = data.series(at)
    here = everything[everything["machine"] == machine]
    measured = tuple(commit.hash for commit in data.measured_commits(at, machine))
    commits = filters.window(measured)
    _costs(at, here[here["family"] == _FAMILY], commits, machine)
    _schedules(at, machine, commits)


def _costs(at: data.Source, compiled: pd.DataFrame, commits: tuple[str, ...], machine: str) -> None:
    st.subheader("What a first call costs", anchor=False)
    if compiled.empty:
        notices.lacking(
            "No compile benchmark has been measured on this machine: cold and warm starts, buckets "
            "and compilations are unknown. The suite's family of that name measures them, at a "
            "commit that has it:",
            reproduce.run(
                '--bench "$(python -m asv_benchmarks.tiers core --benchmarks compile)" HEAD^!',
                machine,
            ),
        )
        return
    points = data.trend(at, frames.ids(compiled), (), Measure.ABSOLUTE, commits, _MOST_POINTS)
    points = tuning.in_order(points)
    figures = tuning.figures(points)
    if figures.empty:
        st.info("None of the commits shown has a figure of a first call.")
        return
    tables.written(figures)
    timed = points["unit"].map(wording.seconds).notna()
    chosen = _FIGURES[0]
    if timed.any() and not timed.all():
        chosen = state.choose_one("Over the commits", _FIGURES, state.FIGURES)
    drawn = points[timed] if chosen == _FIGURES[0] and timed.any() else points[~timed]
    told = [
        "Each in its own unit.",
        spans.caption(drawn),
        marks.card_caption(drawn),
        "Click a point for its details.",
    ]
    st.caption(" ".join(filter(None, told)))
    lines = list(dict.fromkeys(drawn["shape"]))[: palette.MOST_LINES]
    order = frames.tick_order(drawn)
    panels = [(str(name), part) for name, part in drawn.groupby("heading", sort=False)]
    for start in range(0, len(panels), _ACROSS):
        columns = st.columns(_ACROSS, gap="small")
        row = panels[start : start + _ACROSS]
        for column, (name, part) in zip(columns, row, strict=False):
            with column:
                _cost(part[part["shape"].isin(lines)], name, lines, order)
        shown = pd.concat([part for _, part in row])
        key = details.chosen(shown)
        if key is not None:
            details.show(at, shown, key)


def _cost(part: pd.DataFrame, name: str, lines: list[str], order: list[str]) -> None:
    factor, unit = wording.display_unit(part["y"].dropna().tolist(), str(part["unit"].iloc[0]))
    chart = charts.trend(
        part,
        line="shape",
        lines=lines,
        order=order,
        measure=Measure.ABSOLUTE,
        limits=frames.limits(part, log=False),
        palette=theme.palette(),
        title=name,
        unit=unit,
        factor=factor,
        marks=marks.changes(part),
        chosen=details.chosen(part),
    )
    key = f"chart {name}"
    draw.chart(
        chart,
        described=f"{name} over commits",
        key=key,
        on_select=lambda: state.keep_point(key),
    )


def _schedules(at: data.Source, machine: str, commits: tuple[str, ...]) -> None:
    st.subheader("Schedules chosen", anchor=False)
    found = data.schedules(at, machine, commits)
    found = found[found["family"].isin(measures.PRODUCTS)]  # others call what these time
    if found.empty:
        notices.lacking(
            "No measurement on this machine tells which schedule was chosen. Commits that have "
            "`fused_lmhead.describe_schedule` are recorded with it:",
            reproduce.run("HEAD^!", machine),
        )
        return
    now = found[found["latest"]]
    named = tuning.letters(now)
    st.caption(
        "The latest choice for each local shape, by token bucket (the power of two at or above "
        "its tokens). A letter is a schedule; benchmarks that choose alike share a map."
    )
    tables.written(tuning.legend(now, named))
    downloads.offer(
        lambda: tuning.legend(now, named, most=None).rename(columns={"": "Letter"}),
        "schedules-chosen",
    )
    cells = tuning.choice_map(now, named)
    if not cells.empty:
        _maps(cells.sort_values("order", kind="stable"), len(named))
    _changes(found, data.commits(at))


def _maps(cells: pd.DataFrame, letters: int) -> None:
    columns = list(dict.fromkeys(cells["column"]))
    with st.container(horizontal=True, gap="medium"):
        for heading, part in cells.groupby("heading", sort=False):
            draw.chart(
                heatmaps.heat(
                    part,
                    rows=sorted(part["row"].unique()),
                    columns=columns,
                    colours=heatmaps.sequential(theme.palette()),
                    domain=[0.0, float(max(letters - 1, 1))],
                    hover=_HOVER,
                    palette=theme.palette(),
                    title=str(heading),
                    cell=70,
                ),
                described=f"Schedules of {heading}",
                width="content",
            )


def _changes(found: pd.DataFrame, commits: pd.DataFrame) -> None:
    st.subheader("Where the choice changed", anchor=False)
    moved = tuning.changes(found, commits)
    if moved.empty:
        st.caption("Nowhere among the commits shown.")
        return
    st.caption("Newest commit first.")
    tables.written(moved)
    downloads.offer(lambda: tuning.changes(found, commits, most=None), "schedule-changes")
