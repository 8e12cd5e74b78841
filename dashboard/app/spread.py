"""Spread between rounds as a chart; pure functions, no streamlit."""

from __future__ import annotations

import altair as alt
import pandas as pd

from dashboard.app.palette import Palette

_WIDE = 20
_TICKS = [0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8]


def spreads(frame: pd.DataFrame, palette: Palette) -> alt.LayerChart:
    """A row per ``heading``, a tick per series at its ``spread`` (a share), a dot at the median."""
    order = list(dict.fromkeys(frame["heading"]))
    # One noisy benchmark shall not press all others against the axis.
    wide = float(frame["spread"].max()) > _WIDE * float(frame["spread"].median())
    x = alt.X(
        "spread:Q",
        title="spread between rounds, (max − min) / median",  # noqa: RUF001 - a minus sign
        axis=alt.Axis(
            format=".2~%",
            gridColor=palette.grid,
            labelOverlap=True,
            **({"values": _TICKS} if wide else {"tickCount": 8}),
        ),
        scale=alt.Scale(zero=True, type="sqrt" if wide else "linear"),
    )
    y = alt.Y(
        "heading:N",
        title=None,
        sort=order,
        axis=alt.Axis(labelLimit=260, labelFlush=False, ticks=False, domain=False),
    )
    tips = [
        alt.Tooltip("heading:N", title="benchmark"),
        alt.Tooltip("shape:N"),
        alt.Tooltip("spread:Q", format=".2%"),
        alt.Tooltip("widest:Q", format=".2%"),
        alt.Tooltip("runs:Q"),
        alt.Tooltip("rounds:Q"),
    ]
    base = alt.Chart().encode(y=y)
    return alt.LayerChart(
        data=frame[["heading", "shape", "spread", "widest", "runs", "rounds"]],
        layer=[
            base.mark_tick(thickness=2, size=16, opacity=0.6, color=palette.lines[0]).encode(
                x=x, tooltip=tips
            ),
            base.mark_point(filled=True, size=70, shape="diamond", color=palette.bad).encode(
                x=alt.X("median(spread):Q"), tooltip=alt.TooltipValue(None)
            ),
        ],
        height=alt.Step(30),
    )
