"""Trends: how series developed over the commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from dashboard.app import (
    charts,
    data,
    details,
    draw,
    filters,
    frames,
    judged,
    marks,
    measures,
    notices,
    palette,
    spans,
    state,
    tables,
    theme,
    trend_machines,
    wording,
)
from dashboard.app.frames import Measure

_COLUMNS = 3
_MOST_PANELS, _LEAST_PANELS = 12, 4
_PANEL_POINTS = 240  # of a line in all panels together: more take longer than a reader waits
_LEGEND_ROW = 22  # pixels
_MOST_POINTS = 120  # of a line; a panel is not much wider in pixels

_PANELS = ("per shape", "per benchmark")
_SCALES = ("linear", "log")
_NOTHING = dict.fromkeys(Measure, "None of the chosen series was measured at these commits.") | {
    Measure.COMMIT: "None of the chosen series was measured at that commit. Choose another one.",
    **dict.fromkeys(
        frames.NEED_CONTROL,
        "None of the chosen series has a control of the same shape, measured on the same card. "
        "Choose another measure above.",
    ),
}
_EXPLAINED = {
    Measure.CONTROL: "Each point divided by the control (a cuBLAS product that the project does "
    "not change) of the same shape, card and commit. Lower is better; 1 is as fast as the "
    "product that writes the logits.",
    Measure.FIRST: "Each series divided by its own value at the first commit shown.",
    Measure.COMMIT: "Each series divided by its own value at the commit chosen.",
    Measure.ABSOLUTE: "Values as measured.",
    Measure.RATE: "The products of hidden states and LM head that the benchmark cannot do without "
    "(one forward; four with backward, as the logits are computed again), over its time. Higher "
    "is better.",
    Measure.CEILING: "The control's time for the products that the benchmark cannot do without "
    "(one forward; four with backward), over its own time. Higher is better; 100 % is as fast as "
    "the library's products alone.",
}


def render() -> None:
    """Filters in the sidebar; charts, then the numbers behind them."""
    at = notices.require_store()
    everything = data.series(at)
    runs = data.runs(at)
    latest = str(runs["place"].iloc[0])
    meant = trend_machines.meant(at, everything)
    with st.sidebar:
        chosen = filters.place(everything, latest, meant.places, meant.why)
        chosen = filters.benchmark(chosen, everything, latest)
        chosen = filters.shape(chosen, everything)
        chosen = filters.parameters(chosen)
        chosen = filters.search(chosen)

    st.header("Trends", anchor=False)
    notices.remarks(meant.remarks)
    notices.note(state.switched(state.MACHINE, meant.why.asked))
    if chosen.empty:
        st.info("No series matches the filters. Clear one of them in the sidebar.")
        return
    here = everything["place"].isin(chosen["place"].unique())
    controls = everything[here & (everything["group"] == frames.CONTROL)]
    by_family = everything["family"].isin(measures.PRODUCTS).any()
    measured = data.commits_of(at, tuple(sorted(chosen["place"].unique())))
    measure, scale, panels, commits = _view_choices(
        measured, has_control=not controls.empty, has_work=bool(by_family)
    )
    by_benchmark = panels == _PANELS[1]
    most = palette.MOST_LINES if by_benchmark else _panels_of(len(commits))
    drawn = frames.first_panels(chosen, most, by_benchmark=by_benchmark)
    partners = controls[controls["shape"].isin(_plain_shapes(drawn))]
    against = _against(at, measured) if measure is Measure.COMMIT else None
    points = data.trend(
        at, frames.ids(drawn), frames.ids(partners), measure, commits, _MOST_POINTS, against
    )
    if points.empty:
        st.info(_NOTHING[measure])
        return
    st.caption(_summary(points, measure))
    if len(drawn) < len(chosen):
        st.caption(
            f"The first {len(drawn):,} of {wording.count(len(chosen), 'series', 'series')} are "
            "shown; the filters in the sidebar choose which."
        )
    if len(commits) > _MOST_POINTS:
        st.caption(
            f"Of {len(commits):,} commits each line has its lowest and highest values in turn; "
            "choose fewer commits to see every point."
        )
    _draw(at, points, measure, log=scale == "log", by_benchmark=by_benchmark)
    tables.trend_tables(points, measure, data.commits(at))


def _panels_of(commits: int) -> int:
    """How many panels are drawn, each with so many commits."""
    panels = min(_PANEL_POINTS // max(commits, 1), _MOST_PANELS)
    return max(panels - panels % _COLUMNS, _LEAST_PANELS)


def _plain_shapes(series: pd.DataFrame) -> set[str]:
    """The shapes of the series as their controls have them, without further parameters."""
    rows = frames.records(series[[*frames.SHAPE]].drop_duplicates())
    return {frames.shape_of({**row, "params": None}) for row in rows}


def _against(at: data.Source, measured: Sequence[str]) -> str:
    """The commit that the values are relative to: the latest release before the newest commit,
    or the commit before it, unless another is chosen."""
    wanted = set(measured)
    known = [commit for commit in data.known_commits(at) if commit.hash in wanted]
    released = [commit for commit in known[:-1] if commit.tags]
    start = (released or known[-2:])[-1 if released else 0]
    with st.container(width=520):
        return state.choose_commit("Relative to", known, state.AGAINST, start.hash)


def _view_choices(
    measured: Sequence[str], *, has_control: bool, has_work: bool
) -> tuple[Measure, str, str, tuple[str, ...]]:
    possible = [
        measure
        for measure in Measure
        if (has_control or measure not in frames.NEED_CONTROL)
        and (has_work or measure is not Measure.RATE)
    ]
    if not has_control:  # another suite's first question is how long it takes
        possible.sort(key=lambda measure: measure is not Measure.ABSOLUTE)
    with st.container(horizontal=True, gap="medium"):
        measure = state.choose_one("Values", [m.value for m in possible], state.SHOW)
        scale = state.choose_one("Scale", _SCALES, state.SCALE)
        panels = state.choose_one("Panels", _PANELS, state.PANELS)
        commits = filters.window(measured)
    return Measure(measure), scale, panels, commits


def _summary(points: pd.DataFrame, measure: Measure) -> str:
    series = wording.count(points["series_id"].nunique(), "series", "series")
    commits = wording.count(points["commit"].nunique(), "measured commit")
    failed = int((points["state"] == "failed").sum())
    skipped = int((points["state"] == "skipped").sum())
    parts = [f"{series} over {commits}, in graph order. {_EXPLAINED[measure]}"]
    parts.append(spans.caption(points))
    if failed:
        parts.append(f"✕ {wording.count(failed, 'failed measurement')}.")
    if skipped:
        parts.append(f"◇ {wording.count(skipped, 'skipped measurement')}.")
    parts.append(marks.card_caption(points))
    parts.append(
        "▲ ▼ are changes of level, ≠ one that something beside the code explains, ◆ a change of "
        "such a thing."
    )
    parts.append("Click a point for its commit, rounds and the command that measures it again.")
    return " ".join(filter(None, parts))


def _draw(
    at: data.Source,
    points: pd.DataFrame,
    measure: Measure,
    *,
    log: bool,
    by_benchmark: bool,
) -> None:
    order = frames.tick_order(points)
    places = list(dict.fromkeys(points["place"]))
    several = len(places) > 1
    steps = pd.concat([judged.steps(at, name) for name in points["machine"].unique()])
    for group, section in points.groupby("group", sort=False):
        heading = str(section["heading"].iloc[0])
        st.subheader(wording.escape(heading), anchor=False)
        signed = not marks.at_ticks(steps, section).empty
        # Ratios of one benchmark share an axis, so that its shapes can be compared.
        shared = None
        if measure is not Measure.ABSOLUTE:
            include = 1.0 if measure in (Measure.FIRST, Measure.COMMIT) else None
            shared = frames.limits(section, log=log, include=include)
        if shared is not None and signed:
            shared = frames.with_a_foot(shared, log=log)
        section = section.assign(
            within=section["shape"] if not several else section["shape"] + " · " + section["place"]
        )
        line = "within" if by_benchmark else "place"
        lines = list(dict.fromkeys(section["within"])) if by_benchmark else places
        panels = [(str(group), section)]
        if not by_benchmark:
            panels = [(str(shape), panel) for shape, panel in section.groupby("shape", sort=False)]
        for row in _grid(
            panels,
            heading,
            line,
            lines,
            order,
            measure,
            shared,
            steps,
            log=log,
            wide=by_benchmark,
        ):
            key = details.chosen(row)
            if key is not None:
                details.show(at, row, key)


def _grid(
    panels: list[tuple[str, pd.DataFrame]],
    heading: str,
    line: str,
    lines: list[str],
    order: list[str],
    measure: Measure,
    shared: tuple[float, float] | None,
    steps: pd.DataFrame,
    *,
    log: bool,
    wide: bool,
) -> Iterator[pd.DataFrame]:
    """Panels side by side; every line keeps its look in all of them. Yields each row's points."""
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
            limits = shared or frames.limits(panel, log=log)
            at_steps = marks.at_ticks(steps, panel)
            if shared is None and not at_steps.empty:
                limits = frames.with_a_foot(limits, log=log)
            spec = charts.trend(
                panel,
                line=line,
                lines=lines,
                order=order,
                measure=measure,
                limits=limits,
                palette=theme.palette(),
                title="" if wide else title,
                unit=unit,
                factor=factor,
                log=log,
                height=360 if per_row == 1 else 250 + _LEGEND_ROW * (len(lines) - 1),
                legend_columns=2 if per_row == 1 else 1,
                marks=marks.changes(panel),
                steps=at_steps,
                chosen=details.chosen(panel),
            )
            key = f"chart {heading} {title}"
            draw.chart(
                spec,
                described=f"{title or heading} over commits",
                where=column,
                key=key,
                on_select=partial(state.keep_point, key),
            )
        yield pd.concat([panel for _, panel in panels[start : start + per_row]])
