"""Frames to Altair charts: pure functions, no streamlit.

Every chart works on a light and on a dark page; lines differ in colour, point
shape and dash, so that none has to be told by colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from dashboard.app import wording
from dashboard.app.frames import Measure
from dashboard.app.palette import DASHES, MOST_LINES, SHAPES, VERDICT_STYLE, Palette

# Hashes on the axis turn beyond the first number, and beyond the second some are left out.
_TILT_FROM = 4
_THIN_FROM = 14

_FORMAT = {
    Measure.ABSOLUTE: "format(datum.value, '.4~g')",
    Measure.FIRST: "datum.value == 1 ? '0%' : format(datum.value - 1, '+.3~%')",
    Measure.CONTROL: f"'{wording.TIMES}' + format(datum.value, '.4~g')",
}
_Y_HOVER = {
    Measure.ABSOLUTE: None,
    Measure.FIRST: "relative to first",
    Measure.CONTROL: "relative to control",
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


def _x(order: Sequence[str]) -> alt.X:
    tilted = len(order) > _TILT_FROM
    return alt.X(
        "tick:O",
        title=None,
        scale=alt.Scale(domain=list(order), paddingOuter=0.3),
        axis=alt.Axis(
            labelAngle=-45 if tilted else 0,
            labelAlign="right" if tilted else "center",
            labelFont="monospace",
            labelFontSize=11,
            labelLimit=90,
            labelOverlap="greedy" if len(order) > _THIN_FROM else False,
            grid=False,
            ticks=True,
        ),
    )


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
) -> alt.LayerChart:
    """One panel: series over commits, with intervals, and failures where they happened.

    ``frame`` comes from :func:`dashboard.app.frames.hover`; ``line`` names the
    column that separates its lines and ``lines`` all their names, so that one
    line looks the same in every panel. ``limits`` are in ``y``'s own unit;
    ``factor`` brings them and the points to ``unit``.
    """
    data = frame[
        [t.shorthand.split(":")[0] for t in tooltip(measure)]
        + ["state", "why", "y", "y_low", "y_high"]
    ].assign(line=frame[line].astype(str))
    data[["y", "y_low", "y_high"]] = data[["y", "y_low", "y_high"]].astype(float) * factor
    low, high = (end * factor for end in limits)
    names = list(lines)[:MOST_LINES]
    data["line_index"] = data["line"].map({name: index for index, name in enumerate(names)})
    hues = alt.Scale(domain=names, range=list(palette.lines[: len(names)]))
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
    scale = alt.Scale(domain=[low, high], type="log" if log else "linear", nice=False)
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
    base = alt.Chart(data).encode(x=_x(order), tooltip=alt.value(None))
    ok = base.transform_filter("datum.state == 'ok' && isValid(datum.y)")
    spread = ok.transform_filter("isValid(datum.y_low) && isValid(datum.y_high)")
    shapes = alt.Scale(domain=names, range=list(SHAPES[: len(names)]))
    shape = alt.Shape("line:N", title=None, scale=shapes, legend=legend)
    layers: list[alt.Chart] = [
        base.mark_area(opacity=0.16, invalid="break-paths-filter-domains", clip=True).encode(
            y=y_low, y2="y_high:Q", color=colour
        ),
        # A band needs two commits; the bar shows the interval of a single one as well.
        spread.mark_rule(opacity=0.75, strokeWidth=1.5, clip=True).encode(
            y=y_low, y2="y_high:Q", color=colour
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
        ok.mark_point(size=52, filled=True, opacity=1, clip=True).encode(
            y=y, color=colour, shape=shape
        ),
    ]
    if measure is not Measure.ABSOLUTE and low <= 1 <= high:
        layers.insert(
            0,
            alt.Chart(pd.DataFrame({"one": [1.0]}))
            .mark_rule(color=palette.muted, strokeDash=[4, 3], strokeWidth=1)
            .encode(
                y=alt.Y("one:Q", title=unit or None, scale=scale, axis=axis),
                tooltip=alt.value(None),
            ),
        )
    # A failure has no value: its mark stands near the bottom, whatever the scale.
    floor = low * (high / low) ** 0.07 if log else low + (high - low) * 0.07
    failures = [
        alt.Tooltip("tick:N", title="commit"),
        alt.Tooltip("what:N", title="subject"),
        alt.Tooltip("heading:N", title="benchmark"),
        alt.Tooltip("shape:N", title="shape"),
        alt.Tooltip("state:N", title="status"),
        alt.Tooltip("why:N", title="reason"),
    ]
    for state, glyph, colour_of in (("failed", "✕", palette.bad), ("skipped", "◇", palette.muted)):
        if (data["state"] == state).any():
            layers.append(
                base.transform_filter(f"datum.state == '{state}'")
                .mark_text(text=glyph, fontSize=17, fontWeight="bold")
                .encode(
                    color=colour if len(names) > 1 else alt.value(colour_of),
                    y=alt.Y(datum=floor, title=unit or None, scale=scale, axis=axis),
                    tooltip=failures,
                )
            )
    # A wide invisible target: nobody has to hit the point itself.
    layers.append(
        ok.mark_point(size=420, filled=True, opacity=0, clip=True).encode(
            y=y, tooltip=tooltip(measure)
        )
    )
    heading = alt.TitleParams(title, anchor="start", fontSize=13, limit=330, offset=8)
    return alt.LayerChart(layer=layers, height=height, title=heading)


# The overview of ratios: columns and rows that fit, the width (px) they share, and the
# change that the axis spans at least, lest noise look like news.
_MOST_COLUMNS = 6
_LONGEST_HEADING = 26
_MOST_ROWS = 40
_ROOM = 690
_LEAST_REACH = 0.03


def _ratio_ticks(reach: float) -> list[float]:
    """1 and a round step to either side: three labels fit even a narrow column."""
    power = 10.0 ** math.floor(math.log10(reach * 0.8))
    step = max(m * power for m in (1, 2, 3, 4, 5, 6, 8) if m * power <= reach * 0.8)
    below = [1 - step] if step < 1 else []
    return [round(tick, 6) for tick in (*below, 1.0, 1 + step)]


def ratios(frame: pd.DataFrame, *, palette: Palette) -> alt.FacetChart | alt.LayerChart:
    """Every compared series' ratio with its interval: a column per family, a row per shape.

    With more than a few families, one column with a row per series instead.
    ``frame`` comes from ``dashboard.app.summary.ratio_frame``.
    """
    headings = list(dict.fromkeys(frame["heading"]))
    side_by_side = len(headings) <= _MOST_COLUMNS and max(map(len, headings)) <= _LONGEST_HEADING
    data = frame
    if not side_by_side:
        titles = (frame["heading"] + ", " + frame["row"]).str.removesuffix(", ")
        data = frame.assign(row=titles).head(_MOST_ROWS)
    names = [verdict.value for verdict in VERDICT_STYLE]
    colours = [getattr(palette, style[0]) for style in VERDICT_STYLE.values()]
    ends = data[["ratio", "low", "high"]].astype(float)
    reach = max(float(ends.sub(1).abs().max().max()), _LEAST_REACH)
    scale = alt.Scale(domain=[1 - min(reach, 0.95) * 1.1, 1 + reach * 1.1], nice=False, zero=False)
    x = alt.X(
        "ratio:Q",
        title=None,
        scale=scale,
        axis=alt.Axis(
            labelExpr="datum.value == 1 ? '0%' : format(datum.value - 1, '+.2~%')",
            values=_ratio_ticks(reach),
            gridColor=palette.grid,
            labelFontSize=11,
        ),
    )
    y = alt.Y(
        "row:N",
        title=None,
        sort=list(dict.fromkeys(data["row"])),
        axis=alt.Axis(
            labelLimit=300, labelFontSize=12, labelFlush=False, ticks=False, domain=False
        ),
    )
    legend = alt.Legend(orient="top", symbolSize=80)
    colour = alt.Color(
        "verdict:N", title=None, legend=legend, scale=alt.Scale(domain=names, range=colours)
    )
    shape = alt.Shape(
        "verdict:N",
        title=None,
        legend=legend,
        scale=alt.Scale(domain=names, range=[style[1] for style in VERDICT_STYLE.values()]),
    )
    hovers = [
        alt.Tooltip(f"{name}:N", title=title)
        for name, title in (
            ("heading", "benchmark"),
            ("row", "shape"),
            ("verdict", "verdict"),
            ("shown_base", "base"),
            ("shown_head", "head"),
            ("shown_ratio", "head / base"),
            ("shown_interval", "95 % interval"),
            ("reason", "because"),
        )
    ]
    base = alt.Chart().encode(y=y, tooltip=alt.value(None))
    layers = alt.layer(
        alt.Chart()
        .mark_rule(color=palette.muted, strokeDash=[4, 3])
        .encode(x=alt.X(datum=1.0, scale=scale), tooltip=alt.value(None)),
        base.mark_rule(strokeWidth=2.5, opacity=0.8).encode(
            x=alt.X("low:Q", title=None, scale=scale), x2="high:Q", color=colour
        ),
        base.mark_point(size=75, filled=True, opacity=1).encode(x=x, color=colour, shape=shape),
        base.mark_point(size=500, filled=True, opacity=0).encode(x=x, tooltip=hovers),
        data=data,
    ).properties(
        width=min(_ROOM // len(headings), 260) if side_by_side else _ROOM, height=alt.Step(24)
    )
    if not side_by_side:
        return layers
    return layers.facet(
        column=alt.Column(
            "heading:N",
            title=None,
            sort=headings,
            header=alt.Header(labelFontSize=12, labelFontWeight="bold", labelLimit=160),
        ),
        spacing=16,
    )
