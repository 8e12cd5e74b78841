"""Head over base of every compared series; a pure function, no streamlit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from dashboard.app.palette import VERDICT_STYLE, Palette

# The overview of ratios: columns and rows that fit, the width (px) they share, and the
# change that the axis spans at least, lest noise look like news.
_MOST_COLUMNS = 6
_LONGEST_HEADING = 26
_MOST_ROWS = 40
_ROOM = 690
_LEAST_REACH = 0.03
_WIDEST = 4.0
"""An interval so many times as wide as three quarters of them are is cut."""


def _ratio_ticks(reach: float) -> list[float]:
    """1 and a round step to either side: three labels fit even a narrow column."""
    power = 10.0 ** math.floor(math.log10(reach * 0.8))
    step = max(m * power for m in (1, 2, 3, 4, 5, 6, 8) if m * power <= reach * 0.8)
    below = [1 - step] if step < 1 else []
    return [round(tick, 6) for tick in (*below, 1.0, 1 + step)]


def _side_by_side(headings: Sequence[str]) -> bool:
    return len(headings) <= _MOST_COLUMNS and max(map(len, headings)) <= _LONGEST_HEADING


def left_out(frame: pd.DataFrame) -> int:
    """How many series of ``frame`` :func:`ratios` does not draw: one column has room for so
    many."""
    fits = _side_by_side(list(frame["heading"].unique()))
    return 0 if fits else max(len(frame) - _MOST_ROWS, 0)


def _reach(data: pd.DataFrame) -> float:
    """How far from 1 the axis goes: to every ratio, and to the ends of all intervals but those
    that would leave no room for the others. They are cut at the edge."""
    away = data[["ratio", "low", "high"]].astype(float).sub(1).abs()
    ends = away[["low", "high"]].max(axis=1)
    usual = float(ends.quantile(0.75)) * _WIDEST
    return max(float(away["ratio"].max()), float(ends[ends <= usual].max()), _LEAST_REACH)


def ratios(frame: pd.DataFrame, *, palette: Palette) -> alt.FacetChart | alt.LayerChart:
    """Every compared series' ratio with its interval: a column per family, a row per shape.

    With more than a few families, one column with a row per series instead.
    ``frame`` comes from ``dashboard.app.summary.ratio_frame``.
    """
    headings = list(dict.fromkeys(frame["heading"]))
    side_by_side = _side_by_side(headings)
    data = frame
    if not side_by_side:
        titles = (frame["heading"] + ", " + frame["row"]).str.removesuffix(", ")
        data = frame.assign(row=titles).head(_MOST_ROWS)
    names = [verdict.value for verdict in VERDICT_STYLE]
    colours = [getattr(palette, style[0]) for style in VERDICT_STYLE.values()]
    reach = _reach(data)
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
            labelLimit=300 if side_by_side else 440,
            labelFontSize=12,
            labelFlush=False,
            ticks=False,
            domain=False,
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
    base = alt.Chart().encode(y=y, tooltip=alt.TooltipValue(None))
    layers = alt.layer(
        alt.Chart()
        .mark_rule(color=palette.muted, strokeDash=[4, 3])
        .encode(x=alt.X(datum=1.0, scale=scale), tooltip=alt.TooltipValue(None)),
        base.mark_rule(strokeWidth=2.5, opacity=0.8, clip=True).encode(
            x=alt.X("low:Q", title=None, scale=scale), x2=alt.X2("high:Q"), color=colour
        ),
        base.mark_point(size=75, filled=True, opacity=1).encode(x=x, color=colour, shape=shape),
        base.mark_point(size=500, filled=True, opacity=0).encode(x=x, tooltip=hovers),
        data=data,
    ).properties(height=alt.Step(24))
    if not side_by_side:  # as wide as the page
        return layers
    return layers.properties(width=min(_ROOM // len(headings), 260)).facet(
        column=alt.Column(
            "heading:N",
            title=None,
            sort=headings,
            header=alt.Header(labelFontSize=12, labelFontWeight="bold", labelLimit=160),
        ),
        spacing=16,
    )
