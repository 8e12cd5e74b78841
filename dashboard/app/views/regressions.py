"""Regressions: what became slower over the history, who may know, and what has become of it."""

from __future__ import annotations

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
    wording,
)
from dashboard.app.regressions import Group, State

_MOST_OPEN = 10
_MOST_SERIES = 8
_MOST_REST = 30
_MOST_SUSPECTS = 12
_SIGNS = {
    State.OPEN: ("▲", "open", "Slower and nobody has said why."),
    State.ACKNOWLEDGED: ("✓", "acknowledged", "Accepted by an entry of the settings' file."),
    State.EXPLAINED: ("≠", "explained", "Something beside the code changed at the same commit."),
    State.FIXED: ("▼", "fixed", "A later commit has undone it."),
}
_IMPROVED = "▼"


def render() -> None:
    """Counts by state, then the open ones in full, then the others to be opened."""
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
    _rest(
        at,
        "Acknowledged, explained and fixed",
        "worse",
        [group for group in found if group.state is not State.OPEN],
    )
    _rest(at, "Changes for the better", "better", regressions.improvements(report))


def _open(at: data.Source, groups: list[Group]) -> None:
    if not groups:
        st.success("No open regression.", icon=":material/check_circle:")
        return
    for index, group in enumerate(groups[:_MOST_OPEN]):
        with st.expander(wording.escape(_title(group)), expanded=index == 0):
            _group(at, group)
    if len(groups) > _MOST_OPEN:
        st.caption(f"{len(groups) - _MOST_OPEN} older ones: `lmhead-perf history` lists them all.")


def _title(group: Group) -> str:
    """``▲ +4.3 % in Forward and 2 more series at 3e5b35f Make it fast``."""
    sign, word, _ = _SIGNS.get(group.state, (_IMPROVED, "", ""))
    size = wording.level_change(group.largest) if group.largest is not None else "changed"
    first, *others = group.changes
    where = summary.cells_of(first)["heading"] if others else summary.title(first)
    if others:
        where += f" and {wording.count(len(others), 'more series', 'more series')}"
    state = "" if group.state in (State.OPEN, State.IMPROVED) else f"{word}: "
    return f"{sign} {state}{size} in {where} at {wording.commit_title(group.commit)}"


def _group(at: data.Source, group: Group) -> None:
    """An open regression: who made it, its series, how to take it again and how to accept it."""
    _made_by(group)
    if group.authors:
        st.markdown("**Who to ask**  \n" + wording.escape(", ".join(group.authors)))
    _series(at, group)
    first = group.changes[0].series
    number = data.series_id(at, summary.series_key(group.changes[0]))
    values = [] if number is None else data.param_values(at, number)
    pair = (group.after.hash, group.commit.hash)
    st.caption("Reproduce the worst one, in the repository, on a machine like this one:")
    text = reproduce.again(first.benchmark, values, pair, first.machine)
    st.code(text, language="bash", wrap_lines=True)
    st.caption("Accept it: copy into the file that `acknowledged` in `[tool.lmhead-perf]` names.")
    st.code(regressions.entry(group, "your name"), language="toml")


def _made_by(group: Group) -> None:
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


def _series(at: data.Source, group: Group) -> None:
    """The series that changed, each a link to its step."""
    st.markdown("**Series**, the largest change first; each opens its step")
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


def _rest(at: data.Source, heading: str, key: str, groups: list[Group]) -> None:
    """What needs no work, a closed box each: what explains it or who made it, and its series.

    ``key`` begins the names that the boxes have in the address.
    """
    if not groups:
        return
    st.subheader(heading, anchor=False)
    for group in groups[:_MOST_REST]:
        name = f"{key}_{group.state.value}_{wording.short_hash(group.commit.hash)}"
        opened = state.opened(wording.escape(_title(group)), name)
        if opened is None:
            continue
        with opened:
            if reasons := _reasons(group):
                st.markdown("**Because**  \n" + "  \n".join(map(wording.escape, reasons)))
            if group.state in (State.FIXED, State.IMPROVED):
                _made_by(group)
            _series(at, group)
    if len(groups) > _MOST_REST:
        left_out = len(groups) - _MOST_REST
        st.caption(f"{left_out} older ones: `lmhead-perf history` lists them all.")


def _reasons(group: Group) -> list[str]:
    """Who accepted the changes and why, or what explains them; each reason once."""
    said = []
    for change in group.changes:
        if change.acknowledged is not None:
            said.append(f"{change.acknowledged.reason} ({change.acknowledged.author})")
        elif change.found.explained_by is not None:
            said.append(wording.short_cards(change.found.explained_by))
    return list(dict.fromkeys(said))
