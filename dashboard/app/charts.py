"""Frames to Altair charts: pure functions, no streamlit.

Every chart works on a light and on a dark page; lines differ in colour, point
shape and dash, so that none has to be told by colour.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import altair as alt
import pandas as pd

from dashboard.app import commit_axis, frames, log_ticks, wording
from dashboard.app.frames import Measure
from dashboard.app.palette import DASHES, MOST_LINES, SHAPES, Palette

POINT_SELECTION = "point"
"""The name of the selection of a clicked point; its field is ``key``."""

_POINTS = "points"  # a dataset, beside those of the signs
_GLYPHS = {"failed": "✕", "skipped": "◇"}

# Beyond so many commits the bands alone show the intervals.
_MOST_BARS = 40
_POINT, _HOLE = 52, 13  # square pixels

_CHANGE = "datum.value == 1 ? '0%' : format(datum.value - 1, '+.3~%')"
_FORMAT = {
    Measure.ABSOLUTE: "format(datum.value, '.4~g')",
    Measure.FIRST: _CHANGE,
    Measure.COMMIT: _CHANGE,
    Measure.CONTROL: f"'{wording.TIMES}' + format(datum.value, '.4~g')",
    Measure.RATE: "format(datum.value, '.4~g')",
    Measure.CEILING: "format(datum.value, '.3~%')",
}
_Y_HOVER = {
    Measure.ABSOLUTE: None,
    Measure.FIRST: "relative to first",
    Measure.COMMIT: "relative to commit",
    Measure.CONTROL: "relative to control",
    Measure.RATE: "rate",
    Measure.CEILING: "share of ceiling",
}


def tooltip(measure: Measure) -> list[alt.Tooltip]:
    """What a point shows under the mouse: the commit first, then value, then conditions."""
    fields: list[tuple[str, str]] = [
        ("tick", "commit"),
        ("what", "subject"),
        ("who", "author"),
        ("when", "date"),
        ("heading", "benchmark"),
        ("shape", "shape"),
        ("shown_value", "value"),
        ("shown_interval", "interval"),
        ("step", "to point before"),
        ("n", "rounds"),
        ("clock", "SM clock"),
        ("card", "card"),
        ("power", "power"),
        ("heat", "temperature"),
        ("throttle", "clock events"),
        ("versions", "versions"),
        ("place", "machine"),
        ("taken", "measured"),
    ]
    relative = _Y_HOVER[measure]
    if relative:
        fields.insert(8, ("shown_y", relative))
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in fields]


def trend(
    frame: pd.DataFrame,
    *,
    line: str,
    lines: Sequence[str],
    order: Sequence[str],
    measure: Measure,
    limits: tuple[float, float],
    palette: Palette,
    title: str,
    unit: str = "",
    factor: float = 1.0,
    log: bool = False,
    height: int = 250,
    legend_columns: int = 1,
    marks: pd.DataFrame | None = None,
    steps: pd.DataFrame | None = None,
    chosen: str | None = None,
) -> dict[str, Any]:
    """One panel: series over commits, with intervals, and failures where they happened.

    A Vega-Lite specification whose ``datasets`` are frames. ``frame`` comes from
    :func:`dashboard.app.frames.hover`; ``line`` names the
    column that separates its lines and ``lines`` all their names, so that one
    line looks the same in every panel. ``limits`` are in ``y``'s own unit;
    ``factor`` brings them and the points to ``unit``. ``marks`` has a ``tick`` and a
    ``change`` where something beside the code changed; ``steps`` has ``tick``, ``sign``,
    ``worse`` and ``said`` of the changes of level; ``chosen`` is the ``key`` of
    the point that is ringed. A clicked point's key is in the selection ``point``.
    """
    data = frame[
        [t.shorthand.split(":")[0] for t in tooltip(measure)]
        + ["state", "why", "key", "elsewhere", "y", "y_low", "y_high"]
    ].assign(line=frame[line].astype(str))
    data[["y", "y_low", "y_high"]] = data[["y", "y_low", "y_high"]].astype(float) * factor
    low, high = (end * factor for end in limits)
    names = tuple(lines)[:MOST_LINES]
    data["line_index"] = data["line"].map({name: index for index, name in enumerate(names)})
    datasets = {_POINTS: data}
    if marks is not None and not marks.empty:
        datasets[commit_axis.CHANGES] = marks
    if steps is not None and not steps.empty:
        datasets[commit_axis.STEPS] = steps[["tick", "sign", "worse", "said"]]
    spec = copy.deepcopy(
        _template(
            names,
            tuple(order),
            measure,
            palette,
            unit,
            log,
            legend_columns,
            tuple(state for state in _GLYPHS if (data["state"] == state).any()),
            frozenset(datasets),
            measure in frames.RATIOS and low <= 1 <= high,
            len(order) <= _MOST_BARS,
            bool(data["elsewhere"].any()),
            chosen,
        )
    )
    ticks = log_ticks.between(low, high) if log else []
    # A failure has no value: its mark stands near the bottom, whatever the scale.
    floor = low * (high / low) ** 0.07 if log else low + (high - low) * 0.07
    for layer in spec["layer"]:
        y = layer["encoding"].get("y", {})
        if "scale" in y:
            y["scale"]["domain"] = [low, high]
            if log:
                y["axis"]["values"] = ticks
        if "datum" in y:
            y["datum"] = floor
    heading = {"text": title, "anchor": "start", "fontSize": 13, "limit": 330, "offset": 8}
    return {**spec, "datasets": datasets, "height": height, "title": heading}


@lru_cache(maxsize=64)
def _template(
    names: tuple[str, ...],
    order: tuple[str, ...],
    measure: Measure,
    palette: Palette,
    unit: str,
    log: bool,
    legend_columns: int,
    states: tuple[str, ...],
    datasets: frozenset[str],
    has_one: bool,
    has_bars: bool,
    has_others: bool,
    chosen: str | None,
) -> dict[str, Any]:
    """What like panels have in common: Altair takes far longer than filling in the rest.

    ``states`` are the glyphs needed; ``has_one`` tells whether 1 is marked, ``has_bars`` whether
    each point has a bar for its interval beside the band, ``has_others`` whether any was measured
    on another card. The y domain, the ticks of a logarithmic one and the height of the glyphs are
    to be filled in.
    """
    hues = alt.Scale(domain=list(names), range=list(palette.lines[: len(names)]))
    # Legends of one domain merge, and vanish where one channel has none: all have the same.
    legend = None
    if len(names) > 1:
        legend = alt.Legend(
            orient="top",
            columns=legend_columns,
            labelLimit=420 if legend_columns > 1 else 260,
            symbolSize=90,
            symbolOpacity=1,
            symbolStrokeWidth=2,
        )
    colour = alt.Color("line:N", title=None, scale=hues, legend=legend)
    scale = alt.Scale(domain=[0, 1], type="log" if log else "linear", nice=False)
    axis = alt.Axis(
        labelExpr=_FORMAT[measure],
        tickCount=5,
        gridColor=palette.grid,
        domain=False,
        labelFontSize=11,
        labelOverlap=True,
    )
    y, y_low = (
        alt.Y(f"{name}:Q", title=unit or None, scale=scale, axis=axis) for name in ("y", "y_low")
    )
    # Streamlit's theme gives every mark a tooltip of raw fields; only points shall have theirs.
    base = alt.Chart().encode(x=commit_axis.axis(order), tooltip=alt.TooltipValue(None))
    ok = base.transform_filter("datum.state == 'ok' && isValid(datum.y)")
    spread = ok.transform_filter("isValid(datum.y_low) && isValid(datum.y_high)")
    shapes = alt.Scale(domain=list(names), range=list(SHAPES[: len(names)]))
    shape = alt.Shape("line:N", title=None, scale=shapes, legend=legend)
    layers: list[alt.Chart] = [
        base.mark_area(opacity=0.16, invalid="break-paths-filter-domains", clip=True).encode(
            y=y_low, y2=alt.Y2("y_high:Q"), color=colour
        ),
        *(
            # Nulls stay in: a line has a gap where a commit failed. The dash is no scale, since
            # a legend would draw the points' outlines with it.
            base.transform_filter(f"datum.line_index == {index}")
            .mark_line(
                strokeWidth=2,
                strokeDash=DASHES[index],
                invalid="break-paths-filter-domains",
                clip=True,
            )
            .encode(y=y, color=colour)
            for index in range(len(names))
        ),
        ok.mark_point(size=_POINT, filled=True, opacity=1, clip=True).encode(
            y=y, color=colour, shape=shape
        ),
    ]
    if has_others:
        # A hole, so that legend and line stay as they are.
        holes = ok.transform_filter("datum.elsewhere").mark_point(
            size=_HOLE, filled=True, opacity=1, clip=True
        )
        layers.append(holes.encode(y=y, color=alt.ColorValue(palette.paper)))
    if has_bars:
        # A band needs two commits; the bar shows the interval of a single one as well.
        bars = spread.mark_rule(opacity=0.75, strokeWidth=1.5, clip=True)
        layers.insert(1, bars.encode(y=y_low, y2=alt.Y2("y_high:Q"), color=colour))
    if commit_axis.CHANGES in datasets:
        layers = [*commit_axis.changes(order, palette), *layers]
    if commit_axis.STEPS in datasets:
        layers.append(commit_axis.steps(order, palette))
    if chosen is not None:
        layers.append(
            ok.transform_filter(alt.datum.key == chosen)
            .mark_point(size=190, filled=False, strokeWidth=2.5, opacity=1, clip=True)
            .encode(y=y, color=alt.ColorValue(palette.text))
        )
    if has_one:
        layers.insert(
            0,
            alt.Chart(alt.InlineData(values=[{"one": 1.0}]))
            .mark_rule(color=palette.muted, strokeDash=[4, 3], strokeWidth=1)
            .encode(
                y=alt.Y("one:Q", title=unit or None, scale=scale, axis=axis),
                tooltip=alt.TooltipValue(None),
            ),
        )
    failures = [
        alt.Tooltip("tick:N", title="commit"),
        alt.Tooltip("what:N", title="subject"),
        alt.Tooltip("heading:N", title="benchmark"),
        alt.Tooltip("shape:N", title="shape"),
        alt.Tooltip("state:N", title="status"),
        alt.Tooltip("why:N", title="reason"),
    ]
    for state in states:
        plain = palette.bad if state == "failed" else palette.muted
        layers.append(
            base.transform_filter(f"datum.state == '{state}'")
            .mark_text(text=_GLYPHS[state], fontSize=17, fontWeight="bold")
            .encode(
                color=colour if len(names) > 1 else alt.ColorValue(plain),
                y=alt.YDatum(0, title=unit or None, scale=scale, axis=axis),
                tooltip=failures,
            )
        )
    # A wide invisible target: nobody has to hit the point itself.
    layers.append(
        ok.mark_point(size=420, filled=True, opacity=0, clip=True, cursor="pointer")
        .encode(y=y, tooltip=tooltip(measure))
        .add_params(alt.selection_point(name=POINT_SELECTION, fields=["key"], empty=False))
    )
    return dict(
        alt.LayerChart(data=alt.NamedData(name=_POINTS), layer=layers).to_dict(validate=False)
    )
