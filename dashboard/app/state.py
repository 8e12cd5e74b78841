"""Choices that live in the address, so that copying it reproduces the view.

Streamlit binds a widget to the query parameter named by its key; the names
here are therefore part of every permalink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from dashboard.app import frames

BENCHMARK = "benchmark"
MODEL = "model"
TOKENS = "tokens"
TP = "tp"
ENTROPY = "entropy"
MACHINE = "machine"
RUNNER = "runner"
SHOW = "show"
SCALE = "scale"
PANELS = "panels"
PARAM = "param_"
"""Prefix of a parameter of another asv suite."""


def choose_many(
    label: str,
    options: Sequence[str],
    key: str,
    *,
    default: Sequence[str] = (),
    help: str | None = None,  # noqa: A002 - Streamlit's own word
) -> list[str]:
    """A bound multi-select; nothing chosen means everything."""
    return st.multiselect(
        label,
        list(options),
        default=list(default),
        key=key,
        bind="query-params",
        placeholder="All",
        help=help,
    )


def choose_one(label: str, options: Sequence[str], key: str) -> str:
    """A bound row of buttons, the first one chosen at the start.

    Streamlit puts what a button says into the address, so options are short words.
    """
    chosen = st.segmented_control(
        label, list(options), default=options[0], key=key, bind="query-params", required=True
    )
    return str(chosen) if chosen in options else options[0]


def trend_link(page: str, series: Mapping[str, Any]) -> str:
    """The relative address of the trend of one series (a row of ``frames.describe``)."""
    query: list[tuple[str, str]] = [(BENCHMARK, str(series["group"])), (MACHINE, series["place"])]
    typed = False
    for key in (MODEL, TOKENS, TP):
        value = series[key]
        if frames.known(value):
            typed = True
            query.append((key, value if isinstance(value, str) else str(int(value))))
    params = series["params"]
    if not typed and isinstance(params, Mapping):
        query += [(PARAM + str(name), str(value)) for name, value in params.items()]
    return f"{page}?{urlencode(query)}"
