"""Compare: two commits, two machines at a common commit, or two schedules, series by series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.app import (
    addressed,
    comparison,
    data,
    downloads,
    draw,
    filters,
    frames,
    heatmaps,
    judged,
    measures,
    navigation,
    notices,
    pickers,
    reproduce,
    rivals,
    state,
    strips,
    summary,
    tables,
    theme,
    wording,
)
from dashboard.models import CheckReport, SeriesVerdict

_MOST_CELLS = 150  # of all maps, beyond which only the first ones are drawn
_MOST_MAPS = 2
_COMMITS, _MACHINES, _SCHEDULES = "commits", "machines", "schedules"
_HOVER = (("row", "model"), ("column", "tokens"), ("base", "base"), ("head", "head"),
          ("interval", "95 % interval"), ("reason", "because"))  # fmt: skip


def render() -> None:
    """The choice of the two sides, then their map, table and one series in full."""
    at = notices.require_store()
    runs = data.runs(at)
    st.header("Compare", anchor=False)
    modes = [_COMMITS]
    if runs["place"].nunique() > 1:
        modes.append(_MACHINES)
    if data.series(at)["family"].isin(measures.PRODUCTS).any():
        modes.append(_SCHEDULES)
    mode = state.choose_one("Compare", modes, state.MODE) if len(modes) > 1 else _COMMITS
    if mode == _MACHINES:
        _machines(at, runs)
    elif mode == _SCHEDULES:
        _schedules(at)
    else:
        _commits(at)


def _commits(at: data.Source) -> None:
    machine = pickers.machine(at, state.BASE, state.HEAD)
    start = judged.default_pair(at, machine)
    if start is None:
        st.info(
            "One commit has been measured on this machine; a second one makes a comparison. "
            "Measure one and ingest its results:"
        )
        command = reproduce.run("HEAD^!", machine)
        st.code(f"{command}\nlmhead-perf ingest", language="bash")
        return
    measured = data.measured_commits(at, machine)
    left, right = st.columns(2)
    with left:
        base = state.choose_commit("Base", measured, state.BASE, start[0])
    with right:
        head = state.choose_commit("Head", measured, state.HEAD, start[1])
    if base == head:
        st.info("Base and head are the same commit. Choose two different ones.")
        return
    report = judged.report(at, machine, base, head)
    if isinstance(report, str):
        st.info(wording.escape(report))
        return
    accepted = judged.accepted(at, report)
    pickers.banner(report, accepted)
    for note in report.notes:
        st.caption(wording.escape(note[:1].upper() + note[1:]))
    _map(report)
    _table(at, machine, report, accepted)


def _map(report: CheckReport) -> None:
    found = comparison.by_benchmark(report.verdicts)
    if not found:
        return
    st.subheader("Change by shape", anchor=False)
    st.caption(
        "Head over base. Columns are the tokens on a rank, rows the model and how many ranks share "
        "its vocabulary. Signs are the verdicts: ▲ regressed, ▼ improved, ? inconclusive, "
        "= unchanged."
    )
    compared = [verdict for part in found.values() for verdict in part]
    span = comparison.reach([verdict.ratio for verdict in compared if verdict.ratio is not None])
    colours = heatmaps.diverging(theme.palette())
    shown = list(found)  # the worst series first
    if (
        len(compared) > _MOST_CELLS
        and len(found) > _MOST_MAPS
        and not st.toggle(
            f"All {len(found)} benchmarks, not only those with the worst series",
            key=state.MAPS,
            bind="query-params",
        )
    ):
        shown = shown[:_MOST_MAPS]
    with st.container(horizontal=True, gap="medium"):
        for heading in sorted(shown):
            part = comparison.ratio_map(found[heading])
            drawn = heatmaps.heat(
                part,
                rows=sorted(part["row"].unique()),
                columns=list(dict.fromkeys(part["column"])),
                colours=colours,
                domain=[1 - span, 1.0, 1 + span],
                hover=_HOVER,
                palette=theme.palette(),
                title=heading,
                cell=62,
            )
            draw.chart(drawn, described=f"Change of {heading} by shape", width="content")


def _table(at: data.Source, machine: str, report: CheckReport, accepted: summary.Accepted) -> None:
    st.subheader("Every series", anchor=False)
    asked = state.choose_text("Search", state.FIND, "words of a name, such as kimi regressed")
    found = summary.containing(report.verdicts, asked)
    shown = found[: tables.MOST_STYLED_ROWS]
    if not shown:
        st.info("No series has all these words.")
        return
    frame = summary.table(shown, data.histories(at, machine), accepted)
    clicked = tables.verdict_table(
        frame,
        [v.verdict for v in shown],
        theme.palette(),
        f"compare {report.base.hash} {report.head.hash} {asked}",
    )
    if len(shown) < len(found):
        st.caption(f"The first {len(shown)} of {len(found):,} series; the files have all.")
    downloads.offer(
        lambda: summary.table(found, {}, accepted).drop(columns=["Trend", "History"]),
        f"{report.base.hash[:8]}-{report.head.hash[:8]}",
    )
    chosen = shown[clicked] if clicked is not None else _named(at, found) or shown[0]
    _one(at, report, chosen)


def _named(at: data.Source, verdicts: Sequence[SeriesVerdict]) -> SeriesVerdict | None:
    """The verdict of the series that the address names."""
    named = st.query_params.get(state.SERIES)
    if named is None:
        return None
    numbers = data.series_ids(at)
    return next((v for v in verdicts if str(numbers.get(summary.series_key(v))) == named), None)


def _one(at: data.Source, report: CheckReport, verdict: SeriesVerdict) -> None:
    """Rounds of both sides, the values around them, and the commands, for one series."""
    number = data.series_id(at, summary.series_key(verdict))
    if number is None:
        return
    st.query_params[state.SERIES] = str(number)
    st.subheader(wording.escape(summary.title(verdict)), anchor=False)
    st.markdown(
        f"**{wording.escape(wording.verdict_words(verdict.verdict))}** "
        f"{wording.escape(verdict.reason)}"
    )
    sides = {
        f"{name} {commit.hash[:7]}": data.rounds(at, number, commit.hash, verdict.run)
        for name, commit in (("base", report.base), ("head", report.head))
    }
    sides = {name: rounds for name, rounds in sides.items() if any(rounds["samples"].map(len))}
    if sides:
        st.caption("Samples of each round; the bar is the round's value.")
        draw.chart(
            strips.rounds(sides, verdict.series.unit, theme.palette()),
            described="Samples of each round of base and head",
        )
    navigation.link(
        "trends", "Its history", _query(verdict, number, report), ":material/show_chart:"
    )
    values = data.param_values(at, number)
    text = reproduce.again(
        verdict.series.benchmark,
        values,
        (report.base.hash, report.head.hash),
        verdict.series.machine,
        verdict.rounds_needed,
    )
    notices.command_button("Measure it again", text)


def _query(verdict: SeriesVerdict, number: int, report: CheckReport) -> dict[str, Any]:
    point = frames.point_key(number, report.head.hash)
    return state.trend_query(summary.cells_of(verdict), point)


def _machines(at: data.Source, runs: pd.DataFrame) -> None:
    """Two machines or environments, each at its newest commit or at the newest common one."""
    places = [str(place) for place in runs["place"].unique()]
    asked = [*state.chosen(state.RUNNER), *state.chosen(state.OTHER)]
    there = {*places, *runs["machine"]}
    notices.remarks(addressed.of_places("machine and environment", asked, there))
    left, right = st.columns(2)
    machines = [frames.place(name, "") for name in asked[:1]]  # as the other pages have it
    if of_machine := [place for place in places if place.startswith(tuple(machines))]:
        state.switch(state.RUNNER, of_machine[0], state.Reason())
    one = left.selectbox("One", places, key=state.RUNNER, bind="query-params") or places[0]
    others = [place for place in places if place != one]
    other = right.selectbox("Other", others, key=state.OTHER, bind="query-params") or others[0]
    both = [c for c in data.commits_of(at, (one,)) if c in set(data.commits_of(at, (other,)))]
    if not both:
        st.info("No commit has been measured on both. Measure the newest one on each of them.")
        return
    commit = both[-1]
    everything = data.series(at)
    found = [
        data.points(at, frames.ids(everything[everything["place"] == place]), (commit,))
        for place in (one, other)
    ]
    table = comparison.places(*found)
    st.caption(
        wording.escape(
            f"At {wording.short_hash(commit)}, the newest commit measured on both: other over one, "
            "above 1 the other is slower. Different hardware is no regression, so there is no "
            "verdict."
        )
    )
    if table.empty:
        st.info("They have no benchmark in common at this commit.")
        return
    tables.ratio_table(table)
    downloads.offer(table, f"machines-{commit[:8]}")


def _schedules(at: data.Source) -> None:
    """Two schedules, each at the newest commit that has it."""
    machine = pickers.machine(at)
    measured = tuple(commit.hash for commit in data.measured_commits(at, machine))
    found = data.by_schedule(at, machine, filters.window(measured))
    options = rivals.schedules(found)
    if len(options) < 2:
        st.info(
            "No two schedules are recorded on this machine. Commits that have "
            "`fused_lmhead.describe_schedule` are recorded with the one they choose."
        )
        return
    first, second = rivals.first_pair(found, options)
    left, right = st.columns(2)
    one = left.selectbox(
        "One", options, options.index(first), key=state.ONE_SCHEDULE, bind="query-params"
    )
    other = right.selectbox(
        "Other", options, options.index(second), key=state.OTHER_SCHEDULE, bind="query-params"
    )
    table = rivals.table(found, one or first, other or second)
    if table.empty:
        st.info("No shape was measured under both of them with the same benchmark.")
        return
    st.caption(
        f"{wording.count(len(table), 'series', 'series')} measured under both: other over one, "
        "above 1 the other is slower. Each at the newest commit that has it; where the two commits "
        "differ, so may more than the schedule."
    )
    tables.ratio_table(table)
    downloads.offer(table, "schedules")
