"""Choices that live in the address, so that copying it reproduces the view.

Streamlit binds a widget to the query parameter named by its key; the names
here are therefore part of every permalink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.app import addressed, charts, frames, wording
from dashboard.models import Commit

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
WINDOW = "commits"
SEARCH = "q"
FIND = "find"  # among verdicts, by words that other searches do not know
BASE = "base"
HEAD = "head"
_POINT = "point"
SERIES = "series"
MODE = "mode"
SEARCH_ALL = "all"
OTHER = "other"
ONE_SCHEDULE = "schedule"
OTHER_SCHEDULE = "other_schedule"
AGAINST = "against"
MAPS = "all_maps"
TABLE = "table"
NUMBERS = "numbers"
LOG = "log"
SPREADS = "spreads"
FIGURES = "figures"
_SWITCHED = "switched "
_PREFIX = 12  # digits of a hash in the address
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
        default=list(default) or None,
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


def choose_text(label: str, key: str, placeholder: str) -> str:
    """A bound line of text."""
    return st.text_input(label, key=key, bind="query-params", placeholder=placeholder) or ""


def opened(label: str, key: str, *, at_first: bool = False) -> DeltaGenerator | None:
    """A bound box to open: what stands in it, ``None`` while it is closed.

    What is in a closed box costs neither the server nor the browser anything.
    """
    box = st.expander(label, expanded=at_first, key=key, bind="query-params")
    return box if box.open else None


def choose_commit(label: str, commits: Sequence[Commit], key: str, default: str) -> str:
    """A choice of one commit, newest first; its hash.

    The address has a prefix of the hash, which a bound widget could not be told.
    """
    hashes = [commit.hash for commit in reversed(commits)]
    start = named_commit(commits, key) or default
    titles = {commit.hash: wording.commit_title(commit) for commit in commits}
    widget = f"pick {key} {start}"  # another address is another widget, at that commit

    def keep() -> None:
        st.query_params[key] = st.session_state[widget][:_PREFIX]

    chosen = st.selectbox(
        label,
        hashes,
        index=hashes.index(start),
        format_func=lambda name: titles[name],
        key=widget,
        on_change=keep,
    )
    return chosen or start


def named_commit(commits: Sequence[Commit], key: str) -> str | None:
    """The hash of the commit that the address names, the newest of those that it fits."""
    asked = st.query_params.get(key, "")
    found = addressed.fitting(asked, (commit.hash for commit in commits))
    return found[-1] if found else None


def asked_for(*keys: str) -> dict[str, str]:
    """What the address has under some keys; those that it lacks are left out."""
    return {key: st.query_params[key] for key in keys if key in st.query_params}


def chosen(key: str) -> list[str]:
    """What a bound widget is set to, else what the address has for it."""
    value = st.session_state.get(key) or st.query_params.get_all(key)
    return [value] if isinstance(value, str) else list(value)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a page chose a widget's value by itself: as long as the address has ``asked`` so."""

    asked: tuple[str, ...] = ()
    sentence: str = ""


def switch(key: str, value: str | list[str], why: Reason) -> None:
    """Set a bound widget before it is made, as if the address had asked for the value.

    Another default would not do: an address leaves it out, and means something else once the
    reason is gone.
    """
    if key not in st.session_state:  # else Streamlit itself keeps the address
        st.query_params[key] = value
    st.session_state[key] = value
    st.session_state[_SWITCHED + key] = (value, why)


def switched(key: str, asked: tuple[str, ...]) -> str:
    """Why :func:`switch` has set what is still shown; empty where it has not."""
    value, why = st.session_state.get(_SWITCHED + key, (None, Reason()))
    return why.sentence if st.session_state.get(key) == value and why.asked == asked else ""


def point() -> str | None:
    """The point that the address names (see ``frames.point_key``)."""
    return st.query_params.get(_POINT)


def keep_point(chart: str) -> None:
    """Put the point clicked in a chart of that key into the address; none: take it out."""
    clicked = st.session_state[chart].selection.get(charts.POINT_SELECTION, [])
    if clicked:
        st.query_params[_POINT] = clicked[0]["key"]
    else:
        forget_point()


def forget_point() -> None:
    """Take the point out of the address."""
    st.query_params.pop(_POINT, None)


def trend_query(series: Mapping[str, Any], point: str | None = None) -> dict[str, Any]:
    """What the Trends page is asked for to show one series (a row of ``frames.describe``).

    ``point`` names the point whose details it opens.
    """
    query: dict[str, Any] = {BENCHMARK: [str(series["group"])], MACHINE: [str(series["place"])]}
    typed = False
    for key in (MODEL, TOKENS, TP):
        value = series[key]
        if frames.known(value):
            typed = True
            query[key] = [value if isinstance(value, str) else str(int(value))]
    params = series["params"]
    if not typed and isinstance(params, Mapping):
        query |= {PARAM + str(name): [str(value)] for name, value in params.items()}
    return query if point is None else query | {_POINT: point}
