"""Ratios as dots with their intervals on one axis; pure functions, no streamlit."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
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
    low, high = frames.limits(data, log=log)
    marked = [value for value, _ in references]
    domain = [
        min([low, *(value * 0.97 for value in marked)]),
        max([high, *(value * 1.03 for value in marked)]),
    ]
    names = tuple(lines)[: len(SHAPES)]
    spec = copy.deepcopy(_template(names, palette, bool(marked), x_title, tuple(hover), log))
    shapes = list(dict.fromkeys(data["shape"]))
    for layer in spec["layer"]:
        encoding = layer["encoding"]
        encoding["x"]["scale"]["domain"] = domain
        if encoding.get("y", {}).get("field") == "shape":
            encoding["y"]["sort"] = shapes
    datasets = {_DOTS: data}
    if marked:
        datasets[_REFERENCES] = pd.DataFrame(references, columns=["at", "name"])
    return {**spec, "datasets": datasets}


@lru_cache(maxsize=32)
def _template(
    names: tuple[str, ...],
    palette: Palette,
    has_references: bool,
    x_title: str,
    hover: tuple[tuple[str, str], ...],
    log: bool,
) -> dict[str, Any]:
    """What like charts have in common; the ends of the x axis and the rows are filled in."""
    x_scale = alt.Scale(domain=[0, 1], nice=False, zero=False, type="log" if log else "linear")
    axis = alt.Axis(gridColor=palette.grid, format=".4~g", labelOverlap=True, tickCount=8)
    x, x_low, x_reference = (
        alt.X(f"{name}:Q", title=x_title, scale=x_scale, axis=axis) for name in ("y", "y_low", "at")
    )
    y = alt.Y(
        "shape:N",
        title=None,
        sort=[],
        axis=alt.Axis(
            labelLimit=320, labelFlush=False, labelOverlap=False, ticks=False, domain=False
        ),
    )
    legend = alt.Legend(orient="top", symbolSize=90, labelLimit=320, columns=4)
    shown = legend if len(names) > 1 else None
    hues = alt.Scale(domain=list(names), range=list(palette.lines[: len(names)]))
    shapes = alt.Scale(domain=list(names), range=list(SHAPES[: len(names)]))
    colour = alt.Color("line:N", title=None, legend=shown, scale=hues)
    shape = alt.Shape("line:N", title=None, legend=shown, scale=shapes)
    base = alt.Chart().encode(y=y)
    layers: list[alt.Chart] = []
    if has_references:
        marks = alt.Chart(alt.NamedData(name=_REFERENCES)).encode(x=x_reference)
        layers += [
            marks.mark_rule(color=palette.muted, strokeDash=[4, 3]).encode(
                tooltip=alt.Tooltip("name:N")
            ),
            marks.mark_text(color=palette.muted, dy=-7, fontSize=11).encode(
                y=alt.value(0), text=alt.Text("name:N"), tooltip=alt.TooltipValue(None)
            ),
        ]
    layers += [
        base.mark_rule(strokeWidth=2, opacity=0.7, clip=True).encode(
            x=x_low, x2=alt.X2("y_high:Q"), color=colour, tooltip=alt.TooltipValue(None)
        ),
        base.mark_point(size=85, filled=True, opacity=1).encode(
            x=x,
            color=colour,
            shape=shape,
            tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in hover],
        ),
    ]
    chart = alt.LayerChart(data=alt.NamedData(name=_DOTS), layer=layers, height=alt.Step(_ROW))
    return dict(chart.to_dict(validate=False))
