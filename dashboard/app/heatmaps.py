"""Maps of numbers by two properties: a cell's colour repeats the number written in it."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from dashboard.app.palette import Palette

CELL = 74
"""Width of a cell in pixels: ``+12.3 % ▲`` fits."""
_ROW = 30
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
) -> alt.LayerChart:
    """A map of ``frame``'s ``row`` × ``column``: ``value`` as colour, ``shown`` as text.

    ``colours`` stand at the values of ``domain``; with three, the middle is neutral.
    ``hover`` names further columns with their titles.
    """
    low, high = domain[0], domain[-1]
    middle = domain[1] if len(domain) > 2 else low
    reach = max(high - middle, middle - low) or 1.0
    fields = dict.fromkeys(["row", "column", "value", "shown", *(name for name, _ in hover)])
    data = frame[list(fields)].assign(
        strong=((frame["value"].astype(float) - middle).abs() / reach) > _STRONG
    )
    x = alt.X(
        "column:N",
        title=x_title,
        sort=list(columns),
        scale=alt.Scale(domain=list(columns)),
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
        sort=list(rows),
        scale=alt.Scale(domain=list(rows)),
        axis=alt.Axis(
            ticks=False, domain=False, labelLimit=260, labelFlush=False, labelOverlap=False
        ),
    )
    tips = [alt.Tooltip(f"{name}:N", title=said) for name, said in hover]
    base = alt.Chart().encode(x=x, y=y, tooltip=tips)
    colour = alt.Color(
        "value:Q",
        legend=None,
        scale=alt.Scale(domain=list(domain), range=list(colours), clamp=True, interpolate="rgb"),
    )
    ink = alt.ColorValue(palette.text, condition={"test": "datum.strong", "value": palette.paper})
    return alt.LayerChart(
        data=data,
        layer=[
            base.mark_rect(stroke=palette.paper, strokeWidth=2).encode(color=colour),
            base.mark_text(fontSize=12 if cell >= CELL else 11).encode(text="shown:N", color=ink),
        ],
        width=alt.Step(cell),
        height=alt.Step(_ROW),
        title=alt.TitleParams(title, anchor="start", fontSize=13, limit=420),
    )


def diverging(palette: Palette) -> list[str]:
    """Better, neutral, worse."""
    return [palette.good, palette.pale, palette.bad]


def sequential(palette: Palette) -> list[str]:
    """Little to much."""
    return [palette.pale, palette.good]
