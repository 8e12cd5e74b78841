"""Headlines: how far from the ceiling, and the reference PRs' tables for any commit."""

from __future__ import annotations

import streamlit as st

from dashboard.app import (
    dots,
    downloads,
    draw,
    frames,
    headline_tables,
    headlines,
    notices,
    pairs,
    pickers,
    reproduce,
    state,
    tables,
    theme,
    wording,
)

_MOST_ROWS = 16
_HOVER = (
    ("line", "benchmark"),
    ("shape", "shape"),
    ("took", "time"),
    ("against", "control"),
    ("shown", "over control"),
    ("interval", "95 % interval"),
)


def render() -> None:
    """The ceiling first, then the tables, each with the reference PRs' figures beside it."""
    at = notices.require_store()
    st.header("Headlines", anchor=False)
    machine = pickers.machine(at, state.HEAD)
    commit, remark = pickers.swept_commit(at, machine)
    found = pickers.points_at(at, machine, commit)
    gpu = next((str(name) for name in found["gpu"] if frames.known(name)), machine)
    st.caption(
        wording.escape(
            f"{wording.short_hash(commit)} measured on {gpu} ({machine}). {remark} "
            f"{headline_tables.REFERENCE_NOTE}"
        )
    )
    families = pairs.families(found)
    _ceiling(families, commit, machine)
    for table in headline_tables.cited(found, families):
        _table(table, commit, machine)


def _ceiling(found: pairs.Families, commit: str, machine: str) -> None:
    st.subheader("Distance to the ceiling", anchor=False)
    ratios = headlines.ceiling(found)
    if ratios.empty:
        notices.lacking(
            wording.escape(
                f"{wording.short_hash(commit)} has no benchmark with a control of the same shape "
                "that one card of this machine measured. Measure both:"
            ),
            reproduce.run(f"{commit[:12]}^!", machine),
        )
        return
    st.caption(
        "Time over that of a cuBLAS product of the same shape, which writes the logits. A forward "
        "pass cannot do without one such product, a backward pass that computes them again not "
        "without four: those are the floors."
    )
    if apart := headlines.beside_the_ceiling(found):
        series = wording.count(apart, "series", "series")
        st.caption(f"{series} left out: another card measured the control.")
    tables.written(headlines.to_ceiling(ratios))
    for floor in sorted(int(found) for found in ratios["floor"].unique()):
        part = ratios[ratios["floor"] == floor]
        lines = list(dict.fromkeys(part["line"]))
        many = part["shape"].nunique() > _MOST_ROWS
        drawn = part.assign(shape=part["line"]) if many else part
        hover = tuple(pair for pair in _HOVER if pair[0] != "shape") if many else _HOVER
        chart = dots.dots(
            drawn.assign(local=part["shape"]),
            lines=lines,
            palette=theme.palette(),
            references=[(floor, f"floor {wording.TIMES}{floor}")],
            x_title="time over the control's",
            hover=(("local", "local shape"), *hover) if many else hover,
            log=True,
        )
        draw.chart(chart, described=f"Ratio to the control, floor {floor}")
    downloads.offer(
        ratios[["line", "model", "tokens", "tp", "took", "against", "y", "y_low", "y_high"]],
        "ceiling",
    )


def _table(table: headline_tables.Table, commit: str, machine: str) -> None:
    st.subheader(table.title, anchor=False)
    if table.frame.empty:
        notices.lacking(
            wording.escape(f"Not measured at this commit: {table.lacks}."),
            table.command(commit, machine),
        )
        return
    tables.written(table.frame)
    if table.note:
        st.caption(table.note)
