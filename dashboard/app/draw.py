"""Putting a chart on a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import altair as alt
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

Spec = dict[str, Any]

_drawn: ContextVar[list[tuple[str, Spec]] | None] = ContextVar("drawn", default=None)


@contextmanager
def remembering() -> Iterator[list[tuple[str, Spec]]]:
    """Collect description and specification of each chart that is shown within the block."""
    found: list[tuple[str, Spec]] = []
    token = _drawn.set(found)
    try:
        yield found
    finally:
        _drawn.reset(token)


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
    spec = drawn if isinstance(drawn, dict) else spec_of(drawn)
    found = _drawn.get()
    if found is not None:
        found.append((described, spec))
    show = st.vega_lite_chart if where is None else where.vega_lite_chart
    show(
        spec=spec,
        width=width,
        alt=described,
        key=key,
        on_select="ignore" if on_select is None else on_select,
    )
