"""Samples of rounds as strips of points; pure functions, no streamlit."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from dashboard.app import wording
from dashboard.app.palette import SHAPES, Palette


def rounds(sides: Mapping[str, pd.DataFrame], unit: str, palette: Palette) -> alt.LayerChart:
    """Every sample of each round, and the round's value as a bar; a colour and shape per side.

    ``sides`` maps a commit's short hash to its ``queries.rounds``.
    """
    rows = [
        {"side": side, "round": f"{side} · round {number + 1}", "sample": sample, "value": value}
        for side, frame in sides.items()
        for number, (samples, value) in enumerate(
            zip(frame["samples"], frame["value"], strict=True)
        )
        for sample in samples
    ]
    data = pd.DataFrame(rows)
    factor, name = wording.display_unit(data["sample"].tolist(), unit)
    data[["sample", "value"]] = data[["sample", "value"]].astype(float) * factor
    names = list(sides)
    scale = alt.Scale(domain=names, range=list(palette.lines[: len(names)]))
    colour = alt.Color("side:N", title=None, legend=None, scale=scale)
    y = alt.Y(
        "round:N",
        title=None,
        sort=list(dict.fromkeys(data["round"])),
        axis=alt.Axis(labelLimit=180, ticks=False, domain=False),
    )
    x = alt.X(
        "sample:Q",
        title=f"samples, {name}".rstrip(", "),
        scale=alt.Scale(zero=False),
        axis=alt.Axis(tickCount=4, gridColor=palette.grid, labelOverlap=True),
    )
    base = alt.Chart().encode(y=y, color=colour)
    points = base.mark_point(size=40, filled=True, opacity=0.6).encode(
        x=x,
        shape=alt.Shape(
            "side:N", legend=None, scale=alt.Scale(domain=names, range=list(SHAPES[: len(names)]))
        ),
        tooltip=[
            alt.Tooltip("round:N"),
            alt.Tooltip("sample:Q", format=".5~g"),
            alt.Tooltip("value:Q", title="round's value", format=".5~g"),
        ],
    )
    values = base.mark_tick(thickness=3, size=18).encode(
        x=alt.X("value:Q"), tooltip=alt.TooltipValue(None)
    )
    return alt.LayerChart(data=data, layer=[points, values], height=alt.Step(24))
