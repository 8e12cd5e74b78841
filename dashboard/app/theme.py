"""Which of the two themes the reader looks at."""

import streamlit as st

from dashboard.app.palette import DARK, LIGHT, Palette


def palette() -> Palette:
    """The colours that suit the browser's theme; light where it is not known yet."""
    return DARK if st.context.theme.type == "dark" else LIGHT
