"""Which pages there are, and links between them that stay in the tab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

import streamlit as st
from streamlit.navigation.page import StreamlitPage

Query = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A page: its module in ``dashboard.app.views``, which is its address too."""

    name: str
    title: str
    icon: str


PAGES = (
    Entry("overview", "Overview", "fact_check"),
    Entry("trends", "Trends", "show_chart"),
    Entry("compare", "Compare", "compare_arrows"),
    Entry("layouts", "Layouts", "grid_on"),
    Entry("tuning", "Compile & tuning", "tune"),
    Entry("entropy", "Entropy", "ssid_chart"),
    Entry("headlines", "Headlines", "trophy"),
    Entry("regressions", "Regressions", "trending_up"),
    Entry("data", "Data", "database"),
)


def page(name: str) -> StreamlitPage:
    """Streamlit's page of that name. KeyError: there is none."""
    entry = {entry.name: entry for entry in PAGES}[name]
    return st.Page(
        import_module(f"dashboard.app.views.{name}").render,
        title=entry.title,
        icon=f":material/{entry.icon}:",
        url_path=name,
        default=entry is PAGES[0],
    )


def link(name: str, label: str, query: Query, icon: str | None = None) -> None:
    """A link to another page, with what it shall show."""
    st.page_link(page(name), label=label, query_params=dict(query), icon=icon)
