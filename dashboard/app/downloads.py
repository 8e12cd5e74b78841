"""Tables as files."""

from __future__ import annotations

from io import BytesIO

import pandas as pd
import streamlit as st


def offer(frame: pd.DataFrame, name: str) -> None:
    """Buttons that save ``frame`` as ``name``.csv and ``name``.parquet."""
    with st.container(horizontal=True, gap="small"):
        st.download_button(
            "CSV",
            lambda: frame.to_csv(index=False).encode(),
            f"{name}.csv",
            "text/csv",
            key=f"{name} csv",
            icon=":material/download:",
            on_click="ignore",
        )
        st.download_button(
            "Parquet",
            lambda: _parquet(frame),
            f"{name}.parquet",
            "application/vnd.apache.parquet",
            key=f"{name} parquet",
            icon=":material/download:",
            on_click="ignore",
        )


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
