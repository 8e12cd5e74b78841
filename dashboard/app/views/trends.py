"""Trends: how series developed over the commits."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.app import (
    charts,
    data,
    filters,
    frames,
    notices,
    palette,
    state,
    tables,
    theme,
    wording,
)
from dashboard.app.frames import Measure

URL_PATH = "trends"
_COLUMNS = 3
_MOST_PANELS = 24
_LEGEND_ROW = 22  # pixels

_PANELS = ("per shape", "per benchmark")
_SCALES = ("linear", "log")
_EXPLAINED = {
    Measure.CONTROL: "Each point divided by the control (a cuBLAS product that the project does "
    "not change) of the same shape, machine and commit. Lower is better; 1 is as fast as the "
    "product that writes the logits.",
    Measure.FIRST: "Each series divided by its own value at the first commit shown.",
    Measure.ABSOLUTE: "Values as measured.",
}


def render() -> None:
    """Filters in the sidebar; charts, then the numbers behind them."""
    at = notices.require_store()
    everything = data.series(at)
    runs = data.runs(at)
    latest = f"{runs['machine'].iloc[0]} · {runs['environment'].iloc[0]}"
    with st.sidebar:
        chosen = filters.place(everything, latest)
        chosen = filters.benchmark(chosen, everything, latest)
        chosen = filters.shape(chosen, everything)
        chosen = filters.parameters(chosen)

    st.header("Trends", anchor=False)
    controls = everything[everything["group"] == frames.CONTROL]
    measure, scale, panels = _view_choices(has_control=not controls.empty)
    if chosen.empty:
        st.info("No series matches the filters. Clear one of them in the sidebar.")
        return
    by_benchmark = panels == _PANELS[1]
    drawn = frames.first_panels(
        chosen, palette.MOST_LINES if by_benchmark else _MOST_PANELS, by_benchmark=by_benchmark
    )
    partners = controls[controls["shape"].isin(drawn["shape"])]
    points = data.trend(at, frames.ids(drawn), frames.ids(partners), measure)
    if points.empty:
        st.info(
            "None of the chosen series has a control of the same shape in the same run. "
            "Choose another measure above."
        )
        return
    st.caption(_summary(points, measure))
    if len(drawn) < len(chosen):
        st.caption(
            f"The first {len(drawn):,} of {wording.count(len(chosen), 'series', 'series')} are "
            "shown; the filters in the sidebar choose which."
        )
    _draw(points, measure, log=scale == "log", by_benchmark=by_benchmark)
    tables.trend_tables(points, measure, data.commits(at))


def _view_choices(*, has_control: bool) -> tuple[Measure, str, str]:
    measures = [m.value for m in Measure if has_control or m is not Measure.CONTROL]
    if not has_control:
        measures.reverse()  # another suite's first question is how long it takes
    with st.container(horizontal=True, gap="medium"):
        measure = state.choose_one("Values", measures, state.SHOW)
        scale = state.choose_one("Scale", _SCALES, state.SCALE)
        panels = state.choose_one("Panels", _PANELS, state.PANELS)
    return Measure(measure), scale, panels


def _summary(points: pd.DataFrame, measure: Measure) -> str:
    series = wording.count(points["series_id"].nunique(), "series", "series")
    commits = wording.count(points["commit"].nunique(), "measured commit")
    failed = int((points["state"] == "failed").sum())
    skipped = int((points["state"] == "skipped").sum())
    parts = [f"{series} over {commits}, in graph order. {_EXPLAINED[measure]}"]
    if points["rounds"].fillna(0).gt(0).any():
        parts.append("Bands and bars are 95 % intervals of the value over its rounds.")
    elif points["low"].notna().any():
        parts.append("Bands and bars are asv's own 99 % intervals.")
    if failed:
        parts.append(f"✕ {wording.count(failed, 'failed measurement')}.")
    if skipped:
        parts.append(f"◇ {wording.count(skipped, 'skipped measurement')}.")
    return " ".join(parts)


def _draw(points: pd.DataFrame, measure: Measure, *, log: bool, by_benchmark: bool) -> None:
    order = frames.tick_order(points)
    places = list(dict.fromkeys(points["place"]))
    several = len(places) > 1
    for group, section in points.groupby("group", sort=False):
        heading = str(section["heading"].iloc[0])
        st.subheader(wording.escape(heading), anchor=False)
        # Ratios of one benchmark share an axis, so that its shapes can be compared.
        shared = None
        if measure is not Measure.ABSOLUTE:
            include = 1.0 if measure is Measure.FIRST else None
            shared = frames.limits(section, log=log, include=include)
        section = section.assign(
            within=section["shape"] if not several else section["shape"] + " · " + section["place"]
        )
        line = "within" if by_benchmark else "place"
        lines = list(dict.fromkeys(section["within"])) if by_benchmark else places
        panels = [(str(group), section)]
        if not by_benchmark:
            panels = [(str(shape), panel) for shape, panel in section.groupby("shape", sort=False)]
        _grid(panels, heading, line, lines, order, measure, shared, log=log, wide=by_benchmark)


def _grid(
    panels: list[tuple[str, pd.DataFrame]],
    heading: str,
    line: str,
    lines: list[str],
    order: list[str],
    measure: Measure,
    shared: tuple[float, float] | None,
    *,
    log: bool,
    wide: bool,
) -> None:
    """Panels side by side; every line keeps its look in all of them."""
    if len(lines) > palette.MOST_LINES:
        st.caption(
            f"The first {palette.MOST_LINES} of {len(lines)} lines are drawn; choose fewer in the "
            "sidebar to see the others."
        )
        lines = lines[: palette.MOST_LINES]
    per_row = 1 if wide or len(panels) == 1 else min(_COLUMNS, len(panels))
    for start in range(0, len(panels), per_row):
        columns = st.columns(per_row, gap="small")
        for column, (title, panel) in zip(columns, panels[start : start + per_row], strict=False):
            panel = panel[panel[line].isin(lines)]
            unit = str(panel["unit"].iloc[0]) if len(panel) else ""
            factor, unit = wording.display_unit(panel["y"].dropna().tolist(), unit)
            if measure is not Measure.ABSOLUTE:
                factor, unit = 1.0, ""
            chart = charts.trend(
                panel,
                line=line,
                lines=lines,
                order=order,
                measure=measure,
                limits=shared or frames.limits(panel, log=log),
                palette=theme.palette(),
                title="" if wide else title,
                unit=unit,
                factor=factor,
                log=log,
                height=360 if per_row == 1 else 250 + _LEGEND_ROW * (len(lines) - 1),
                legend_columns=2 if per_row == 1 else 1,
            )
            column.altair_chart(chart, width="stretch", alt=f"{title or heading} over commits")
