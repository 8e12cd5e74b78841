"""Entropy: what it adds, what combining saves, and what differentiating it costs."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.app import (
    dots,
    downloads,
    draw,
    frames,
    heatmaps,
    notices,
    pairs,
    pickers,
    references,
    reproduce,
    state,
    theme,
    wording,
)

_MOST_DOTS = 16
_HOVER = (
    ("shape", "shape"),
    ("took", "time"),
    ("against", "against"),
    ("shown", "quotient"),
    ("interval", "95 % interval"),
    ("n", "rounds"),
)


def render() -> None:
    """Three quotients at one commit: two passes over one, with over without, by activity."""
    at = notices.require_store()
    st.header("Entropy", anchor=False)
    machine = pickers.machine(at, state.HEAD)
    commit, remark = pickers.swept_commit(at, machine)
    if remark:
        st.caption(remark)
    found = pairs.families(pickers.points_at(at, machine, commit))
    _section(
        found,
        "Two passes over one combined pass",
        "How many times longer log-probabilities and entropy take in two passes than in one. "
        "Higher is better for the combined pass.",
        ("two_pass", "forward_entropy"),
        [(1.0, "equal"), (references.COMBINED_MEDIAN, "reference PRs' median, H100")],
        commit,
        machine,
    )
    _section(
        found,
        "Forward with entropy over forward without",
        "What the entropy adds to a forward pass. 1 would be free.",
        ("forward_entropy", "forward"),
        [(1.0, "free")],
        commit,
        machine,
    )
    _differentiable(found, commit, machine)


def _section(
    found: pairs.Families,
    title: str,
    explained: str,
    families: tuple[str, str],
    marks: list[tuple[float, str]],
    commit: str,
    machine: str,
) -> None:
    st.subheader(title, anchor=False)
    both = pairs.quotients(found, *families)
    if both.empty:
        notices.lacking(
            wording.escape(
                f"{wording.short_hash(commit)} has no shape with both "
                f"{wording.family_title(families[0])} and {wording.family_title(families[1])} "
                "measured on one card of this machine. Measure them:"
            ),
            reproduce.run(f"{commit[:12]}^!", machine),
        )
        return
    values = both["y"].astype(float)
    apart = pairs.on_other_cards(found, *families)
    left_out = f" {wording.count(apart, 'shape')} left out: measured on two cards." if apart else ""
    st.caption(explained + left_out)
    left, middle, right = st.columns(3)
    left.metric(f"Median of {wording.count(len(both), 'shape')}", _times(values.median()))
    middle.metric("Least", _times(values.min()))
    right.metric("Most", _times(values.max()))
    both = both.assign(line=title)
    if len(both) <= _MOST_DOTS:
        chart = dots.dots(
            both,
            lines=[title],
            palette=theme.palette(),
            references=marks,
            x_title=" ÷ ".join(f"time of {wording.family_title(name)}" for name in families),
            hover=_HOVER,
        )
        draw.chart(chart, described=title)
    else:
        _map(both, title)
    downloads.offer(
        both[["model", "tokens", "tp", "took", "against", "y", "y_low", "y_high"]],
        "-over-".join(families),
    )


def _map(both: pd.DataFrame, title: str) -> None:
    ordered = both.sort_values("order", kind="stable")
    values = both["y"].astype(float)
    drawn = heatmaps.heat(
        both,
        rows=list(dict.fromkeys(both["row"])),
        columns=list(dict.fromkeys(ordered["column"])),
        colours=heatmaps.sequential(theme.palette()),
        domain=[float(values.min()), float(values.max()) or 1.0],
        hover=_HOVER,
        palette=theme.palette(),
        x_title="tokens on a rank",
    )
    draw.chart(drawn, described=f"{title} by shape", width="content")


def _times(value: float) -> str:
    return f"{value:.3f}{wording.TIMES}"


def _differentiable(found: pairs.Families, commit: str, machine: str) -> None:
    title = "Differentiable entropy by activity"
    st.subheader(title, anchor=False)
    both = pairs.quotients(found, "two_pass_backward", "forward_backward_entropy")
    both = both.assign(active=both["params"].map(pairs.activity))
    both = both[both["active"].notna()].sort_values("active", ascending=False)
    low, high = references.DIFFERENTIABLE
    cited = (
        f"The reference PRs had {low}{wording.TIMES} to {high}{wording.TIMES} at "
        f"{'/'.join(map(str, references.ACTIVITIES))} % active rows, on an H100."
    )
    if both.empty:
        notices.lacking(
            wording.escape(
                f"{wording.short_hash(commit)} has no differentiable entropy by share of active "
                f"rows on this machine. {cited} The suite's benchmarks of activity measure it, at "
                "a commit that has both passes:"
            ),
            reproduce.run(
                '--bench "$(python -m asv_benchmarks.tiers full --benchmarks activity)" '
                f"{commit[:12]}^!",
                machine,
            ),
        )
        return
    st.caption(
        wording.escape(
            "How many times longer forward and backward take in two passes than combined, by the "
            f"share of rows with a gradient. {cited}"
        )
    )
    rows = both.assign(
        line=[
            wording.shape_label(str(row["model"]), int(row["tokens"]), int(row["tp"]))
            for row in frames.records(both)
        ],
        shape=[f"{share:g} % active" for share in both["active"]],
    )
    chart = dots.dots(
        rows,
        lines=list(dict.fromkeys(rows["line"])),
        palette=theme.palette(),
        references=[(1.0, "equal")],
        x_title="two passes over combined",
        hover=(("shape", "activity"), *_HOVER[1:]),
    )
    draw.chart(chart, described=title)
