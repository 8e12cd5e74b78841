"""Headlines: how far from the ceiling, and the reference PRs' tables for any commit."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.app import (
    data,
    dots,
    downloads,
    draw,
    frames,
    headlines,
    notices,
    pickers,
    references,
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
    machine = pickers.machine(data.runs(at))
    measured = data.measured_commits(at, machine)
    commit = state.choose_commit("Commit", measured, state.HEAD, measured[-1].hash)
    found = pickers.points_at(at, machine, commit)
    gpu = next((str(name) for name in found["gpu"] if frames.known(name)), machine)
    st.caption(
        wording.escape(
            f"{wording.short_hash(commit)} measured on {gpu} ({machine}). Reference figures are "
            f"those of {references.SOURCE}."
        )
    )
    _ceiling(found, commit)
    _table(
        "Combined against two passes",
        headlines.combined(found),
        "a combined and a two-pass benchmark of one shape",
        f"asv run {commit[:12]}^!",
    )
    tuned = references.TUNED
    _table(
        "Chosen schedule against the fixed one",
        headlines.tuned(found),
        "a benchmark of the family fixed; the reference PRs' autotuned loop changed the time by "
        f"{wording.MINUS}{-tuned.mean} % on average, {wording.MINUS}{-tuned.median} % in the "
        f"median, and was faster on {tuned.faster} of {tuned.shapes} shapes",
        f"asv run --bench '^fixed|^forward' {commit[:12]}^!",
    )
    _table(
        "Compile and tuning probe",
        headlines.compiled(found),
        "a benchmark of the family compile; the reference PRs had "
        + ", ".join(f"{name} {value}" for name, value in references.COMPILE.items()),
        f"asv run --bench '^compile' {commit[:12]}^!",
    )
    _table(
        "Largest errors against an fp32 reference",
        headlines.errors(found),
        "a benchmark of the family accuracy; the reference PRs had "
        + ", ".join(f"{name} {value}" for name, value in references.ERRORS.items()),
        f"asv run --bench '^accuracy' {commit[:12]}^!",
    )


def _ceiling(found: pd.DataFrame, commit: str) -> None:
    st.subheader("Distance to the ceiling", anchor=False)
    ratios = headlines.ceiling(found)
    if ratios.empty:
        notices.lacking(
            wording.escape(
                f"{wording.short_hash(commit)} has no benchmark with a control of the same shape "
                "on this machine. Measure both:"
            ),
            f"asv run {commit[:12]}^!",
        )
        return
    st.caption(
        "Time over that of a cuBLAS product of the same shape, which writes the logits. A forward "
        "pass cannot do without one such product, a backward pass that computes them again not "
        "without four: those are the floors."
    )
    tables.plain(headlines.to_ceiling(ratios))
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


def _table(title: str, table: pd.DataFrame, lacks: str, command: str) -> None:
    st.subheader(title, anchor=False)
    if table.empty:
        notices.lacking(wording.escape(f"Not measured at this commit: {lacks}."), command)
        return
    tables.plain(table)
