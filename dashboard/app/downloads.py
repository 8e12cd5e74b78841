"""Tables and charts as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.app import images, theme, wording


def offer(table: pd.DataFrame | Callable[[], pd.DataFrame], name: str) -> None:
    """Buttons that save a table as ``name``.csv and ``name``.parquet.

    A function is called when a button is pressed.
    """

    def made() -> pd.DataFrame:
        return table() if callable(table) else table

    with st.container(horizontal=True, gap="small"):
        st.download_button(
            "CSV",
            lambda: made().to_csv(index=False).encode(),
            f"{name}.csv",
            "text/csv",
            key=f"{name} csv",
            icon=":material/download:",
            on_click="ignore",
        )
        st.download_button(
            "Parquet",
            lambda: _parquet(made()),
            f"{name}.parquet",
            "application/vnd.apache.parquet",
            key=f"{name} parquet",
            icon=":material/download:",
            on_click="ignore",
        )


def offer_images(charts: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """A button whose list saves each of a page's charts as SVG, or all of them in one file.

    ``charts`` come from ``draw.remembering``; they are drawn when they are asked for.
    """
    if not charts:
        return
    with st.popover("Charts as SVG", icon=":material/image:"):
        if not images.can_draw():
            st.caption("The server lacks vl-convert, which draws them:")
            st.code("pip install 'fused-lmhead[charts]'", language="bash")
            return
        paper = theme.palette().paper
        st.download_button(
            f"All {len(charts)} (zip)",
            lambda: images.archive(charts, paper),
            "charts.zip",
            "application/zip",
            key="charts zip",
            on_click="ignore",
        )
        for number, (described, spec) in enumerate(charts):
            st.download_button(
                wording.escape(described),
                partial(images.svg, spec, paper),
                images.file_name(described),
                "image/svg+xml",
                key=f"chart svg {number}",
                on_click="ignore",
                type="tertiary",
            )


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
