"""Compile & tuning: what the first call costs, and which schedules are chosen."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.app import (
    charts,
    data,
    details,
    draw,
    filters,
    frames,
    heatmaps,
    marks,
    notices,
    palette,
    pickers,
    state,
    tables,
    theme,
    tuning,
    wording,
)
from dashboard.app.frames import Measure

_FAMILY = "compile"
_MOST_POINTS = 120
_HOVER = (("shape", "shape"), ("schedule", "schedule"))


def render() -> None:
    """Costs over the commits, then the schedules chosen and where the choice changed."""
    at = notices.require_store()
    st.header("Compile & tuning", anchor=False)
    machine = pickers.machine(data.runs(at))
    everything = data.series(at)
    here = everything[everything["machine"] == machine]
    measured = tuple(commit.hash for commit in data.measured_commits(at, machine))
    commits = filters.window(measured)
    _costs(at, here[here["group"] == _FAMILY], commits)
    _schedules(at, machine, commits)


def _costs(at: data.Source, compiled: pd.DataFrame, commits: tuple[str, ...]) -> None:
    st.subheader("What a first call costs", anchor=False)
    if compiled.empty:
        notices.lacking(
            "No compile benchmark has been measured on this machine: cold and warm starts, buckets "
            "and compilations are unknown. The suite's family of that name measures them, at a "
            "commit that has it:",
            "asv run --bench '^compile'",
        )
        return
    points = data.trend(at, frames.ids(compiled), (), Measure.ABSOLUTE, commits, _MOST_POINTS)
    st.caption("Each benchmark over the commits, in its own unit. Click a point for its details.")
    lines = list(dict.fromkeys(points["shape"]))[: palette.MOST_LINES]
    order = frames.tick_order(points)
    panels = [(str(name), part) for name, part in points.groupby("benchmark", sort=False)]
    for start in range(0, len(panels), 2):
        columns = st.columns(2, gap="small")
        for column, (name, part) in zip(columns, panels[start : start + 2], strict=False):
            with column:
                _cost(part[part["shape"].isin(lines)], name, lines, order)
        row = pd.concat([part for _, part in panels[start : start + 2]])
        key = details.chosen(row)
        if key is not None:
            details.show(at, row, key)


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
    if found.empty:
        notices.lacking(
            "No measurement on this machine tells which schedule was chosen. Commits that have "
            "`fused_lmhead.describe_schedule` are recorded with it:",
            "asv run HEAD^!",
        )
        return
    now = found[found["latest"]]
    named = tuning.letters(now)
    cells = tuning.choice_map(now, named).sort_values("order", kind="stable")
    st.caption(
        "The latest choice for each local shape, by token bucket (the power of two at or above "
        "its tokens). A letter is a schedule:"
    )
    tables.plain(
        pd.DataFrame(
            {"": list(named.values()), "Schedule": list(named), "Series": _counts(now, named)}
        )
    )
    columns = list(dict.fromkeys(cells["column"]))
    rows = sorted(cells["row"].unique())
    with st.container(horizontal=True, gap="medium"):
        for heading, part in cells.groupby("heading", sort=True):
            draw.chart(
                heatmaps.heat(
                    part,
                    rows=rows,
                    columns=columns,
                    colours=heatmaps.sequential(theme.palette()),
                    domain=[0.0, float(max(len(named) - 1, 1))],
                    hover=_HOVER,
                    palette=theme.palette(),
                    title=str(heading),
                    cell=62,
                ),
                described=f"Schedules of {heading}",
                width="content",
            )
    _changes(found, data.commits(at))


def _counts(now: pd.DataFrame, named: dict[str, str]) -> list[int]:
    texts = now["schedule"].map(wording.schedule)
    return [int((texts == text).sum()) for text in named]


def _changes(found: pd.DataFrame, commits: pd.DataFrame) -> None:
    st.subheader("Where the choice changed", anchor=False)
    moved = tuning.changes(found, commits)
    if moved.empty:
        st.caption("Nowhere among the commits shown.")
        return
    st.caption("Newest commit first.")
    tables.plain(moved)
