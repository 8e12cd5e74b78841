"""The filters beside a chart of series: what there is to choose from, and the choice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from dashboard.app import frames, state, wording

# Asked first: the two things that an RL trainer pays for.
_DEFAULT_GROUPS = ("forward_entropy", "forward_backward")
_MOST_PARAMETERS = 6
_MOST_VALUES = 500


def place(
    series: pd.DataFrame, latest: str, wanted: Sequence[str] = (), why: state.Reason | None = None
) -> pd.DataFrame:
    """The series of the machines and environments chosen; at first ``latest``, or the places that
    are ``wanted`` for what else the address asks for, and ``why``."""
    places = sorted(series["place"].unique())
    if len(places) == 1:
        st.caption(f"Machine {wording.escape(places[0])}")
        return series
    default = [latest if latest in places else places[0]]
    if wanted and list(wanted) != default and state.MACHINE not in st.session_state:
        state.switch(state.MACHINE, list(wanted), why or state.Reason())
        default = []  # Streamlit wants one of the two
    chosen = state.choose_many("Machine · environment", places, state.MACHINE, default=default)
    return series[series["place"].isin(chosen)] if chosen else series


def benchmark(series: pd.DataFrame, everywhere: pd.DataFrame, latest: str) -> pd.DataFrame:
    """The series of the benchmarks (families, where they have one) chosen.

    At first, those of an RL trainer's step, else the first one measured at ``latest``.
    """
    groups = sorted(everywhere["group"].unique())
    there = sorted(everywhere["group"][everywhere["place"] == latest].unique()) or groups
    default = [group for group in _DEFAULT_GROUPS if group in there] or there[:1]
    default = _of_families(everywhere, groups) or default
    chosen = state.choose_many("Benchmark", groups, state.BENCHMARK, default=default)
    return series[series["group"].isin(chosen)] if chosen else series


def _of_families(everywhere: pd.DataFrame, groups: Sequence[str]) -> list[str]:
    """The groups of the families that the address names, as reports do; the widget itself knows
    groups only, and takes its default where the address has none of them."""
    asked = st.query_params.get_all(state.BENCHMARK)
    named = everywhere["family"].isin([name for name in asked if name not in groups])
    return sorted(everywhere["group"][named].unique())


def shape(series: pd.DataFrame, everywhere: pd.DataFrame) -> pd.DataFrame:
    """The series of the models, tokens, layouts and entropy modes chosen.

    Options come from ``everywhere`` so that they stay put while other filters
    change; a filter with one option is no filter and is left out.
    """
    chosen = series
    for column, label, explained in (
        (state.MODEL, "Model", None),
        (state.TOKENS, "Tokens on a rank (M)", None),
        (state.TP, "Layout (TP)", "How many ranks the vocabulary is split over."),
        (state.ENTROPY, "Entropy", "off: none; metric: computed; grad: differentiable as well."),
    ):
        values = everywhere[column].dropna().unique()
        if len(values) > 1:
            options = [_plain(value) for value in sorted(values)]
            picked = state.choose_many(label, options, column, help=explained)
            if picked:
                chosen = chosen[chosen[column].map(_plain).isin(picked)]
    return chosen


def parameters(series: pd.DataFrame) -> pd.DataFrame:
    """The series chosen by name of parameter, for suites whose parameters we do not know."""
    foreign = series[series["model"].isna()]
    options: dict[str, list[str]] = {}
    for params in foreign["params"]:
        if isinstance(params, Mapping):
            for name, value in params.items():
                options.setdefault(str(name), []).append(str(value))
    chosen = series
    for name in sorted(options)[:_MOST_PARAMETERS]:
        values = sorted(set(options[name]), key=_natural)
        if 1 < len(values) <= _MOST_VALUES:
            picked = state.choose_many(wording.escape(name), values, state.PARAM + name)
            if picked:
                chosen = chosen[[_has(params, name, picked) for params in chosen["params"]]]
    return chosen


def search(series: pd.DataFrame) -> pd.DataFrame:
    """The series whose name, shape or machine has every word of the search box."""
    asked = state.choose_text("Search", state.SEARCH, "words of a name, such as kimi tp")
    return containing(series, asked)


def containing(series: pd.DataFrame, asked: str) -> pd.DataFrame:
    """The rows of ``frames.describe`` in which every word of ``asked`` occurs, in any case."""
    words = asked.casefold().split()
    if not words:
        return series
    columns = ["label", "heading", "shape", "place"]
    text = series[columns].astype(str).agg(" ".join, axis=1).str.casefold()
    return series[[all(word in one for word in words) for one in text]]


_WINDOWS = {"last 50": 50, "last 200": 200, "all": None}


def window(commits: Sequence[str]) -> tuple[str, ...]:
    """The commits to show, of all that were measured there, first to last."""
    if len(commits) <= min(size for size in _WINDOWS.values() if size):
        return tuple(commits)
    chosen = _WINDOWS[state.choose_one("Commits", list(_WINDOWS), state.WINDOW)]
    return tuple(commits if chosen is None else commits[-chosen:])


def _has(params: object, name: str, picked: list[str]) -> bool:
    return isinstance(params, Mapping) and str(params.get(name)) in picked


def _plain(value: object) -> str:
    if not frames.known(value):
        return ""
    return value if isinstance(value, str) else str(int(value))  # type: ignore[call-overload]


def _natural(value: str) -> list[tuple[int, int, str]]:
    """A sort key under which 9 comes before 10."""
    parts = re.split(r"(\d+)", value)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
