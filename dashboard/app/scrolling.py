"""What is wider than the page scrolls by itself, instead of making the page wider."""

from __future__ import annotations

import streamlit as st

# A table of Markdown is as wide as its words, a chart of a fixed cell size as wide as its cells.
# Charts only on narrow screens: elsewhere they fit, and a scroll bar would cover their edge.
_STYLE = """
<style>
[data-testid="stMarkdownContainer"]:has(> table) { overflow-x: auto; }
@media (max-width: 640px) {
    [data-testid="stVegaLiteChart"] { max-width: 100%; overflow-x: auto; }
}
</style>
"""


def within_page() -> None:
    """Let a page's tables of Markdown and its charts scroll; takes no room."""
    st.html(_STYLE)
