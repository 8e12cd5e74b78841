"""The commits along the bottom of a trend, and the signs that stand at some of them."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from dashboard.app import wording
from dashboard.app.palette import Palette

CHANGES, STEPS = "marks", "steps"
"""The datasets of the signs."""

# Hashes on the axis turn beyond the first number, and beyond the second some are left out.
_TILT_FROM = 4
_THIN_FROM = 14


def axis(order: Sequence[str]) -> alt.X:
    """The short hashes ``order``, first to last."""
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


def steps(order: Sequence[str], palette: Palette) -> alt.Chart:
    """A sign at the foot of each commit where a level changed."""
    signs = alt.Chart(alt.NamedData(name=STEPS)).encode(
        x=axis(order),
        y=alt.value("height"),
        text=alt.Text("sign:N"),
        color=alt.ColorValue(
            palette.good,
            condition=[
                {"test": f"datum.sign == '{wording.EXPLAINED}'", "value": palette.muted},
                {"test": "datum.worse", "value": palette.bad},
            ],
        ),
        tooltip=[alt.Tooltip("tick:N", title="commit"), alt.Tooltip("said:N", title="step")],
    )
    drawn: alt.Chart = signs.mark_text(fontSize=14, fontWeight="bold", dy=-8)
    return drawn


def changes(order: Sequence[str], palette: Palette) -> list[alt.Chart]:
    """A dashed line with a diamond at the top for each commit of the marks."""
    said = alt.Chart(alt.NamedData(name=CHANGES)).encode(
        x=axis(order), tooltip=[alt.Tooltip("tick:N", title="commit"), alt.Tooltip("change:N")]
    )
    return [
        said.mark_rule(color=palette.muted, strokeDash=[2, 3], strokeWidth=1.5),
        said.mark_text(text="◆", color=palette.unsure, fontSize=13, dy=8).encode(y=alt.value(0)),
    ]
