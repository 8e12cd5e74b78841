"""Putting a chart on a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import altair as alt
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

Spec = dict[str, Any]


def spec_of(drawn: alt.TopLevelMixin) -> Spec:
    """The chart's specification, with its data."""
    # The tests check specifications against the schema; here that would take most of the time.
    with alt.data_transformers.enable("default", max_rows=None):
        return dict(drawn.to_dict(validate=False))


def chart(
    drawn: alt.TopLevelMixin | Spec,
    *,
    described: str,
    where: DeltaGenerator | None = None,
    width: Literal["stretch", "content"] = "stretch",
    key: str | None = None,
    on_select: Callable[[], None] | None = None,
) -> None:
    """Show a chart, in ``where`` or the current container; ``described`` is its alternative text.

    With a ``key``, ``on_select`` is called when a selection of the chart changes.
    """
    show = st.vega_lite_chart if where is None else where.vega_lite_chart
    show(
        spec=drawn if isinstance(drawn, dict) else spec_of(drawn),
        width=width,
        alt=described,
        key=key,
        on_select="ignore" if on_select is None else on_select,
    )
