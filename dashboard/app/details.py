"""One point in full: its commit, what changed, its rounds, and how to take it again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.app import (
    data,
    draw,
    frames,
    marks,
    navigation,
    reproduce,
    state,
    strips,
    tables,
    theme,
    why,
    wording,
)

FORGE_VARIABLE = "LMHEAD_PERF_COMMIT_URL"
"""Environment variable with the address of a commit on a forge, ``{hash}`` for its hash."""

_MOST_SUSPECTS = 8
_CONDITIONS = {
    "clock": "SM clock",
    "power": "power",
    "heat": "temperature",
    "throttle": "clock events",
    "versions": "versions",
    "card": "card",
    "place": "machine",
    "taken": "measured",
}


def chosen(points: pd.DataFrame) -> str | None:
    """The key of the point that the address names, if it is among ``points``."""
    named = state.point()
    return named if named is not None and points["key"].eq(named).any() else None


def show(at: data.Source, points: pd.DataFrame, key: str) -> None:
    """The details of the point of ``points`` (see ``frames.hover``) named ``key``."""
    row = frames.records(points[points["key"] == key])[0]
    before = marks.before(points, key)
    with st.container(border=True):
        title, close = st.columns([12, 1], vertical_alignment="center")
        named = " · ".join(part for part in (row["heading"], row["shape"]) if part)
        title.markdown(f"##### {wording.escape(named)}")
        close.button("Close", key="close_point", type="tertiary", on_click=state.forget_point)
        left, right = st.columns([3, 2], gap="large")
        with left:
            _commit(at, row, before)
        with right:
            _rounds(at, row)
        if before is not None:
            _why(at, row, before)
        _commands(at, row, before)


def _commit(at: data.Source, row: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
    commit = str(row["commit"])
    st.markdown(
        f"{linked(commit)} **{wording.escape(row['what'])}**  \n"
        f"{wording.escape(row['who'])}, {wording.escape(row['when'])}"
    )
    value = row["shown_value"] if row["state"] == "ok" else f"{row['state']}: {row['why']}"
    interval = "" if row["shown_interval"] == wording.NONE else f"({row['shown_interval']})"
    st.markdown(f"**{wording.escape(value)}** {wording.escape(interval)}")
    if before is None:
        st.caption("The first measured point shown of this series.")
    else:
        step = wording.change(_quotient(row, before))
        same = marks.differences(before, row, marks.CONDITIONS | marks.CARD)
        lines = [
            f"{step} against {before['tick']} ({before['shown_value']}), the point before.",
            "Changed beside the code: " + ("; ".join(same) or "nothing that was recorded") + ".",
        ]
        st.markdown("  \n".join(wording.escape(line) for line in lines))
        _suspects(at, row, before)
    st.caption(
        wording.escape(
            ", ".join(f"{title} {row[name]}" for name, title in _CONDITIONS.items())
            + f", {wording.count(int(row['n']), 'round')}"
        )
    )


def _why(at: data.Source, row: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Schedule, kernel figures and control at both commits."""
    companions = why.companions(data.series(at), row)
    pair = (str(before["commit"]), str(row["commit"]))
    others = data.points(at, frames.ids(companions), pair)
    found = why.table(before, row, others)
    if not found.empty:
        tables.plain(found)


def _quotient(row: Mapping[str, Any], before: Mapping[str, Any]) -> float | None:
    now, then = frames.number(row["value"]), frames.number(before["value"])
    return now / then if now is not None and then else None


def linked(commit: str) -> str:
    """A commit's short hash in Markdown, a link where the forge is known."""
    short = f"`{wording.short_hash(commit)}`"
    template = os.environ.get(FORGE_VARIABLE, "")
    return f"[{short}]({template.replace('{hash}', commit)})" if "{hash}" in template else short


def _suspects(at: data.Source, row: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """The commits in between that were not measured may have made the step as well."""
    known = data.commits(at)
    order = {commit: index for index, commit in enumerate(known["commit"])}
    first, last = order.get(str(before["commit"])), order.get(str(row["commit"]))
    if first is None or last is None or last - first < 2:
        return
    between = known.iloc[first + 1 : last]
    lines = [
        f"{linked(str(commit))} {wording.escape(frames.text(subject))}"
        for commit, subject in zip(between["commit"], between["subject"], strict=True)
    ]
    more = len(lines) - _MOST_SUSPECTS
    st.markdown(
        f"Not measured in between: {wording.count(len(lines), 'commit')}  \n"
        + "  \n".join(lines[:_MOST_SUSPECTS])
        + (f"  \nand {more} more" if more > 0 else "")
    )


def _rounds(at: data.Source, row: Mapping[str, Any]) -> None:
    found = data.rounds(at, int(row["series_id"]), str(row["commit"]))
    if found.empty or not any(found["samples"].map(len)):
        st.caption("No rounds are stored for this point, only its pooled value.")
        return
    chart = strips.rounds({wording.short_hash(str(row["commit"])): found}, str(row["unit"]),
                          theme.palette())  # fmt: skip
    draw.chart(chart, described="Samples of each round of this point")


def _commands(at: data.Source, row: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
    commit, benchmark, machine = (str(row[name]) for name in ("commit", "benchmark", "machine"))
    values = data.param_values(at, int(row["series_id"]))
    st.caption("Reproduce it, in the repository, on a machine like this one:")
    if before is None:
        text = reproduce.measure(benchmark, values, [commit], machine)
        st.code(text, language="bash", wrap_lines=True)
        return
    text = reproduce.again(benchmark, values, (str(before["commit"]), commit), machine)
    st.code(text, language="bash", wrap_lines=True)
    if any(entry.name == "compare" for entry in navigation.PAGES):
        navigation.link(
            "compare",
            "Compare the two commits",
            {
                state.RUNNER: machine,
                state.BASE: str(before["commit"]),
                state.HEAD: commit,
            },
            icon=":material/compare_arrows:",
        )
