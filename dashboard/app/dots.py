"""Ratios as dots with their intervals on one axis; pure functions, no streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from dashboard.app import frames
from dashboard.app.palette import SHAPES, Palette

_ROW = 28
# The names of the datasets.
_DOTS, _REFERENCES = "dots", "references"


def dots(
    frame: pd.DataFrame,
    *,
    lines: Sequence[str],
    palette: Palette,
    references: Sequence[tuple[float, str]] = (),
    x_title: str,
    hover: Sequence[tuple[str, str]],
    log: bool = False,
) -> dict[str, Any]:
    """A row per ``shape``, a colour and point shape per ``line``; ``y`` with ``y_low``, ``y_high``.

    A Vega-Lite specification whose ``datasets`` are frames. ``references`` are values with a
    name, drawn as dashed lines.
    """
    fields = dict.fromkeys(["shape", "line", "y", "y_low", "y_high", *(n for n, _ in hover)])
    data = frame[list(fields)]
    names = list(lines)[: len(SHAPES)]
    low, high = frames.limits(data, log=log)
    marked = [value for value, _ in references]
    low = min([low, *(value * 0.97 for value in marked)])
    high = max([high, *(value * 1.03 for value in marked)])
    x_scale = alt.Scale(domain=[low, high], nice=False, zero=False, type="log" if log else "linear")
    x = alt.X(
        "y:Q",
        title=x_title,
        scale=x_scale,
        axis=alt.Axis(gridColor=palette.grid, format=".4~g", labelOverlap=True, tickCount=8),
    )
    y = alt.Y(
        "shape:N",
        title=None,
        sort=list(dict.fromkeys(data["shape"])),
        axis=alt.Axis(
            labelLimit=320, labelFlush=False, labelOverlap=False, ticks=False, domain=False
        ),
    )
    legend = alt.Legend(orient="top", symbolSize=90, labelLimit=320, columns=4)
    shown = legend if len(names) > 1 else None
    colour = alt.Color(
        "line:N",
        title=None,
        legend=shown,
        scale=alt.Scale(domain=names, range=list(palette.lines[: len(names)])),
    )
    shape = alt.Shape(
        "line:N",
        title=None,
        legend=shown,
        scale=alt.Scale(domain=names, range=list(SHAPES[: len(names)])),
    )
    base = alt.Chart().encode(y=y)
    layers: list[alt.Chart] = []
    datasets = {_DOTS: data}
    if references:
        marks = alt.Chart(alt.NamedData(name=_REFERENCES))
        datasets[_REFERENCES] = pd.DataFrame(references, columns=["at", "name"])
        at = alt.X("at:Q", scale=x_scale, title=x_title)
        layers += [
            marks.mark_rule(color=palette.muted, strokeDash=[4, 3]).encode(
                x=at, tooltip=alt.Tooltip("name:N")
            ),
            marks.mark_text(color=palette.muted, dy=-7, fontSize=11).encode(
                x=at, y=alt.value(0), text="name:N", tooltip=alt.TooltipValue(None)
            ),
        ]
    layers += [
        base.mark_rule(strokeWidth=2, opacity=0.7, clip=True).encode(
            x=alt.X("y_low:Q", scale=x_scale, title=x_title),
            x2="y_high:Q",
            color=colour,
            tooltip=alt.TooltipValue(None),
        ),
        base.mark_point(size=85, filled=True, opacity=1).encode(
            x=x,
            color=colour,
            shape=shape,
            tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in hover],
        ),
    ]
    chart = alt.LayerChart(data=alt.NamedData(name=_DOTS), layer=layers, height=alt.Step(_ROW))
    return {**chart.to_dict(validate=False), "datasets": datasets}
