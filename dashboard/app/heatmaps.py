"""Maps of numbers by two properties: a cell's colour repeats the number written in it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import altair as alt
import pandas as pd

from dashboard.app.palette import Palette

CELL = 74
"""Width of a cell in pixels: ``+12.3 % ▲`` fits."""
_ROW = 30
_CELLS = "cells"  # the name of the dataset
_STRONG = 0.6
"""From this share of the scale on, a cell is dark enough for the opposite text colour."""


def heat(
    frame: pd.DataFrame,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    colours: Sequence[str],
    domain: Sequence[float],
    hover: Sequence[tuple[str, str]],
    palette: Palette,
    title: str = "",
    x_title: str | None = None,
    y_title: str | None = None,
    cell: int = CELL,
) -> dict[str, Any]:
    """A map of ``frame``'s ``row`` × ``column``: ``value`` as colour, ``shown`` as text.

    A Vega-Lite specification whose ``datasets`` are frames. ``colours`` stand at the values of
    ``domain``; with three, the middle is neutral. ``hover`` names further columns with their
    titles.
    """
    low, high = domain[0], domain[-1]
    middle = domain[1] if len(domain) > 2 else low
    reach = max(high - middle, middle - low) or 1.0
    fields = dict.fromkeys(["row", "column", "value", "shown", *(name for name, _ in hover)])
    data = frame[list(fields)].assign(
        strong=((frame["value"].astype(float) - middle).abs() / reach) > _STRONG
    )
    spec = copy.deepcopy(_template(tuple(colours), tuple(hover), palette, x_title, y_title, cell))
    for layer in spec["layer"]:
        encoding = layer["encoding"]
        for channel, values in (("x", columns), ("y", rows)):
            encoding[channel]["sort"] = list(values)
            encoding[channel]["scale"]["domain"] = list(values)
    spec["layer"][0]["encoding"]["color"]["scale"]["domain"] = list(domain)
    spec["title"]["text"] = title
    return {**spec, "datasets": {_CELLS: data}}


@lru_cache(maxsize=32)
def _template(
    colours: tuple[str, ...],
    hover: tuple[tuple[str, str], ...],
    palette: Palette,
    x_title: str | None,
    y_title: str | None,
    cell: int,
) -> dict[str, Any]:
    """What like maps have in common; rows, columns, values' domain and title are filled in."""
    x = alt.X(
        "column:N",
        title=x_title,
        scale=alt.Scale(domain=[]),
        axis=alt.Axis(
            orient="top",
            labelAngle=0,
            ticks=False,
            domain=False,
            labelLimit=cell,
            labelFlush=False,
            labelOverlap=False,
        ),
    )
    y = alt.Y(
        "row:N",
        title=y_title,
        scale=alt.Scale(domain=[]),
        axis=alt.Axis(
            ticks=False, domain=False, labelLimit=260, labelFlush=False, labelOverlap=False
        ),
    )
    tips = [alt.Tooltip(f"{name}:N", title=said) for name, said in hover]
    base = alt.Chart().encode(x=x, y=y, tooltip=tips)
    colour = alt.Color(
        "value:Q",
        legend=None,
        scale=alt.Scale(domain=[], range=list(colours), clamp=True, interpolate="rgb"),
    )
    ink = alt.ColorValue(palette.text, condition={"test": "datum.strong", "value": palette.paper})
    return dict(
        alt.LayerChart(
            data=alt.NamedData(name=_CELLS),
            layer=[
                base.mark_rect(stroke=palette.paper, strokeWidth=2).encode(color=colour),
                base.mark_text(fontSize=12 if cell >= CELL else 11).encode(
                    text=alt.Text("shown:N"), color=ink
                ),
            ],
            width=alt.Step(cell),
            height=alt.Step(_ROW),
            title=alt.TitleParams("", anchor="start", fontSize=13, limit=420),
        ).to_dict(validate=False)
    )


def diverging(palette: Palette) -> list[str]:
    """Better, neutral, worse."""
    return [palette.good, palette.pale, palette.bad]


def sequential(palette: Palette) -> list[str]:
    """Little to much."""
    return [palette.pale, palette.good]
