"""Layouts: how a family fares over TP × CP, by total tokens, for any measure."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.app import (
    data,
    downloads,
    draw,
    frames,
    heatmaps,
    layouts,
    notices,
    pickers,
    reproduce,
    state,
    theme,
    wording,
)
from dashboard.app.frames import Measure

_FIRST_FAMILIES = ("forward_entropy", "forward_backward", "forward")
_HOVER = (("local", "measured as"), ("took", "time"), ("relative", "shown"), ("n", "rounds"))
_EVERYTHING = '--bench "$(python -m asv_benchmarks.tiers full)"'
_ROWS = [f"CP {cp}" for cp in layouts.SPLITS]
_COLUMNS = [f"TP {tp}" for tp in layouts.SPLITS]
_EXPORTED = [
    "model", "total", "tp", "cp", "tokens", "layouts", "measure", "shown", "value", "low", "high",
    "unit", "rounds",
]  # fmt: skip


def render() -> None:
    """Which model, family, measure and commit; then a map per total token count."""
    at = notices.require_store()
    st.header("Layouts", anchor=False)
    machine = pickers.machine(at, state.HEAD)
    everything = data.series(at)
    ours = everything[
        (everything["machine"] == machine)
        & everything["model"].notna()
        & everything["tokens"].notna()
        & everything["tp"].notna()
    ]
    if ours.empty:
        notices.lacking(
            "No series here has a model, tokens and a TP size, so there is no layout to show. "
            "The project's own suite measures them:",
            reproduce.run(_EVERYTHING, machine),
        )
        return
    family, model, measure, commit = _choices(at, ours, machine)
    chosen = ours[(ours["group"] == family) & (ours["model"] == model)]
    controls = ours[(ours["group"] == frames.CONTROL) & (ours["model"] == model)]
    found = data.trend(at, frames.ids(chosen), frames.ids(controls), measure, (commit,), most=None)
    unfolded = layouts.unfold(found)
    if unfolded.empty:
        notices.lacking(
            wording.escape(
                f"{wording.family_title(family)} of {model} has no value of this measure at "
                f"{wording.short_hash(commit)}. Choose another commit or measure, or measure it:"
            ),
            reproduce.run(f"{_EVERYTHING} {commit[:12]}^!", machine),
        )
        return
    if layouts.is_sparse(unfolded):
        group = ours[ours["group"] == family]
        partners = ours[ours["group"] == frames.CONTROL]
        shown = data.trend(at, frames.ids(group), frames.ids(partners), measure, (commit,), None)
        _shapes(layouts.shapes(shown), shown, measure, model, machine)
    else:
        _maps(unfolded, found, measure)


def _choices(at: data.Source, ours: pd.DataFrame, machine: str) -> tuple[str, str, Measure, str]:
    families = sorted(ours["group"].unique(), key=_family_rank)
    models = list(ours["model"].value_counts(sort=True).index)
    with st.container(horizontal=True, gap="medium"):
        family = st.selectbox("Benchmark", families, key=state.BENCHMARK, bind="query-params",
                              width=260) or families[0]  # fmt: skip
        model = st.selectbox("Model", models, key=state.MODEL, bind="query-params",
                             width=260) or models[0]  # fmt: skip
        commit, remark = pickers.swept_commit(at, machine)
    if remark:
        st.caption(remark)
    measures = [Measure.CONTROL, Measure.ABSOLUTE, Measure.RATE, Measure.CEILING]
    named = state.choose_one("Values", [m.value for m in measures], state.SHOW)
    return str(family), str(model), Measure(named), commit


def _family_rank(family: str) -> tuple[int, str]:
    first = family in _FIRST_FAMILIES
    return (_FIRST_FAMILIES.index(family) if first else len(_FIRST_FAMILIES), family)


def _shapes(
    found: pd.DataFrame, points: pd.DataFrame, measure: Measure, model: str, machine: str
) -> None:
    """One map of all models, while too few layouts are measured for maps of TP × CP."""
    ordered = found.sort_values("order", kind="stable")
    column = "took" if measure is Measure.ABSOLUTE else "relative"
    st.caption(
        wording.escape(
            f"Too few layouts of {model} are measured for its map of TP by CP, so here is "
            f"{wording.count(len(found), 'local shape')} of all models: columns are the tokens on "
            f"a rank and how many ranks share the vocabulary (TP). {_better(measure)} What "
            "measures the others:"
        )
    )
    notices.command_button("The command", reproduce.run(_EVERYTHING, machine))
    drawn = heatmaps.heat(
        ordered.assign(shown=ordered[column]),
        rows=sorted(ordered["row"].unique()),
        columns=list(dict.fromkeys(ordered["column"])),
        colours=heatmaps.sequential(theme.palette()),
        domain=_domain(ordered),
        hover=(("row", "model"), ("column", "measured"), ("layouts", "stands for"), *_HOVER[1:]),
        palette=theme.palette(),
        cell=118,
    )
    draw.chart(drawn, described="Local shapes by model", width="content")
    downloads.offer(lambda: exported_shapes(ordered, points, measure), "shapes")


def _better(measure: Measure) -> str:
    better = "Higher" if measure in frames.LOWER_IS_WORSE else "Lower"
    return f"{better} is better; a stronger blue is more."


def _domain(found: pd.DataFrame) -> list[float]:
    values = found["value"].astype(float)
    low, high = float(values.min()), float(values.max())
    return [low, high if high > low else low + 1.0]


def _maps(unfolded: pd.DataFrame, points: pd.DataFrame, measure: Measure) -> None:
    st.caption(
        f"{wording.count(len(unfolded), 'layout')} from "
        f"{wording.count(unfolded['series_id'].nunique(), 'measured local shape')}: CP cuts the "
        "tokens, so layouts with equal shares are one measurement. "
        f"{_better(measure)}"
    )
    domain = _domain(unfolded)
    column = "took" if measure is Measure.ABSOLUTE else "relative"
    with st.container(horizontal=True, gap="large"):
        for total, part in unfolded.groupby("total", sort=True):
            drawn = heatmaps.heat(
                part.assign(shown=part[column]),
                rows=_ROWS,
                columns=_COLUMNS,
                colours=heatmaps.sequential(theme.palette()),
                domain=domain,
                hover=_HOVER,
                palette=theme.palette(),
                title=f"{total:,} tokens in all",
            )
            draw.chart(drawn, described=f"TP by CP at {total:,} tokens", width="content")
    downloads.offer(lambda: exported(unfolded, points, measure), "layouts")


def exported(unfolded: pd.DataFrame, points: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """The layouts of ``layouts.unfold(points)`` as numbers, to be saved.

    ``shown`` is what ``measure`` says; ``value``, ``low`` and ``high`` are what was measured, in
    ``unit``. ``tokens`` are those of one rank, ``total`` those of all.
    """
    table = unfolded[["series_id", "total"]].merge(points, on="series_id")
    return _exported(table.assign(cp=table["total"] // table["tokens"].astype(int)), measure)


def exported_shapes(found: pd.DataFrame, points: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """The local shapes of ``layouts.shapes(points)`` as numbers (see :func:`exported`), with the
    layouts that each stands for."""
    stands_for = dict(zip(found["order"], found["layouts"], strict=True))  # the same for all models
    table = points[points["y"].notna() & points["tp"].notna()]
    shapes = zip(table["tokens"].astype(int), table["tp"].astype(int), strict=True)
    return _exported(table.assign(layouts=[stands_for[shape] for shape in shapes]), measure)


def _exported(table: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    whole = dict.fromkeys(("tokens", "tp", "rounds"), "Int64")
    named = table.astype(whole).assign(measure=measure.value, shown=table["y"])
    return named[[name for name in _EXPORTED if name in named]]
