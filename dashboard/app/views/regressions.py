"""Regressions: what became slower over the history, who may know, and what has become of it."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.app import (
    data,
    details,
    frames,
    judged,
    navigation,
    notices,
    pickers,
    regressions,
    reproduce,
    state,
    summary,
    tables,
    wording,
)
from dashboard.app.regressions import Group, State
from dashboard.history import Change, HistoryReport

_MOST_OPEN = 10
_MOST_SERIES = 8
_MOST_SUSPECTS = 12
_SIGNS = {
    State.OPEN: ("▲", "open", "Slower and nobody has said why."),
    State.ACKNOWLEDGED: ("✓", "acknowledged", "Accepted by an entry of the settings' file."),
    State.EXPLAINED: ("≠", "explained", "Something beside the code changed at the same commit."),
    State.FIXED: ("▼", "fixed", "A later commit has undone it."),
}


def render() -> None:
    """Counts by state, then the open ones in full, then the others as a table."""
    at = notices.require_store()
    st.header("Regressions", anchor=False)
    machine = pickers.machine(at)
    commits = len(data.measured_commits(at, machine))
    series = int((data.series(at)["machine"] == machine).sum())
    if not judged.quick_history(at, machine) and not st.toggle(
        f"Search {wording.count(series, 'series', 'series')} over "
        f"{wording.count(commits, 'commit')}; this takes a while",
        key=state.SEARCH_ALL,
        bind="query-params",
    ):
        st.code("lmhead-perf history", language="bash")
        return
    report = judged.history(at, machine)
    if isinstance(report, str):
        st.info(wording.escape(report))
        return
    found = regressions.groups(report)
    st.caption(
        f"Changes of level in {wording.count(report.series, 'series', 'series')} over "
        f"{wording.count(report.commits, 'measured commit')} of {wording.escape(machine)}. One is "
        "believed from its second measured commit on; the newest commit alone is judged on the "
        "Overview."
    )
    for note in report.notes:
        st.caption(wording.escape(note[:1].upper() + note[1:]))
    for column, (kind, (sign, word, explained)) in zip(
        st.columns(len(_SIGNS)), _SIGNS.items(), strict=True
    ):
        count = sum(len(group.changes) for group in found if group.state is kind)
        column.metric(f"{sign} {word}", count, border=True, help=explained)
    _open(at, [group for group in found if group.state is State.OPEN])
    _rest([group for group in found if group.state is not State.OPEN])
    _improvements(report)


def _open(at: data.Source, groups: list[Group]) -> None:
    if not groups:
        st.success("No open regression.", icon=":material/check_circle:")
        return
    for index, group in enumerate(groups[:_MOST_OPEN]):
        size = wording.level_change(group.worst) if group.worst is not None else "changed"
        count = wording.count(len(group.changes), "series", "series")
        title = f"▲ {size} in {count} at {wording.commit_title(group.commit)}"
        with st.expander(wording.escape(title), expanded=index == 0):
            _group(at, group)
    if len(groups) > _MOST_OPEN:
        st.caption(f"{len(groups) - _MOST_OPEN} older ones: `lmhead-perf history` lists them all.")


def _group(at: data.Source, group: Group) -> None:
    suspects = group.suspects
    told = [
        f"{details.linked(commit.hash)} {wording.escape(commit.subject or '')} "
        f"by {wording.escape(commit.author or 'an unknown author')}"
        for commit in suspects[-_MOST_SUSPECTS:]
    ]
    left_out = len(suspects) - len(told)
    heading = "Made by" if len(suspects) == 1 else f"One of {len(suspects)} commits"
    st.markdown(f"**{heading}**  \n" + "  \n".join(told))
    if left_out:
        st.caption(f"{left_out} earlier ones are left out.")
    if group.authors:
        st.markdown("**Who to ask**  \n" + wording.escape(", ".join(group.authors)))
    st.markdown("**Series**, worst first; each opens its step")
    for change in group.changes[:_MOST_SERIES]:
        cells = summary.cells_of(change)
        ratio = change.found.ratio
        size = wording.level_change(ratio) if ratio is not None else f"{change.found.difference:+g}"
        interval = wording.ratio_interval(change.found.low, change.found.high)
        gradual = ", gradually" if change.found.gradual else ""
        label = f"{cells['heading']}, {cells['shape']}: {size} ({interval}){gradual}"
        number = data.series_id(at, summary.series_key(change))
        point = None if number is None else frames.point_key(number, group.commit.hash)
        query = state.trend_query(cells, point)
        navigation.link("trends", wording.escape(label), query)
    if len(group.changes) > _MOST_SERIES:
        st.caption(f"{len(group.changes) - _MOST_SERIES} more series.")
    first = group.changes[0].series
    number = data.series_id(at, summary.series_key(group.changes[0]))
    values = [] if number is None else data.param_values(at, number)
    pair = (group.after.hash, group.commit.hash)
    st.caption("Reproduce the worst one, in the repository, on a machine like this one:")
    text = reproduce.again(first.benchmark, values, pair, first.machine)
    st.code(text, language="bash", wrap_lines=True)
    st.caption("Accept it: copy into the file that `acknowledged` in `[tool.lmhead-perf]` names.")
    st.code(regressions.entry(group, "your name"), language="toml")


def _rest(groups: list[Group]) -> None:
    if not groups:
        return
    st.subheader("Acknowledged, explained and fixed", anchor=False)
    tables.written(
        pd.DataFrame(
            {
                "State": [" ".join(_SIGNS[group.state][:2]) for group in groups],
                "Commit": [wording.short_hash(group.commit.hash) for group in groups],
                "Subject": [group.commit.subject or wording.NONE for group in groups],
                "Series": [len(group.changes) for group in groups],
                "Worst": [wording.level_change(group.worst) for group in groups],
                "Because": [_because(group) for group in groups],
            }
        )
    )


def _improvements(report: HistoryReport) -> None:
    better = regressions.improvements(report)
    if not better:
        return
    st.subheader("Changes for the better", anchor=False)
    tables.written(
        pd.DataFrame(
            {
                "Commit": [wording.short_hash(commit.hash) for commit, _ in better],
                "Subject": [commit.subject or wording.NONE for commit, _ in better],
                "Commits in question": [len(changes[0].suspects) for _, changes in better],
                "Series": [len(changes) for _, changes in better],
                "Best change": [_best(changes) for _, changes in better],
            }
        )
    )


def _best(changes: list[Change]) -> str:
    ratios = [change.found.ratio for change in changes if change.found.ratio is not None]
    return wording.level_change(min(ratios)) if ratios else wording.NONE


def _because(group: Group) -> str:
    first = group.changes[0]
    if first.acknowledged is not None:
        return f"{first.acknowledged.reason} ({first.acknowledged.author})"
    return first.found.explained_by or wording.NONE
