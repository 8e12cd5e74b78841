"""Data: what the store holds, what it could not read, how noisy it is, how fresh."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.app import (
    data,
    downloads,
    draw,
    frames,
    health,
    notices,
    pickers,
    reproduce,
    spread,
    state,
    tables,
    theme,
    wording,
)

_COMMITS = 20
_MOST_READINGS = 200
_WIDE = 0.01


def render() -> None:
    """Totals, what was rejected, the last runs, the noise, and the log."""
    at = notices.require_store()
    st.header("Data", anchor=False)
    _totals(at)
    _files(at)
    st.subheader("Last run of each machine", anchor=False)
    tables.written(pickers.last_runs(data.runs(at)))
    _noise(at)
    _log(at)


def _log(at: data.Source) -> None:
    """What was read when; read itself once it is opened."""
    opened = state.opened("Ingest log", state.LOG)
    if opened is None:
        return
    with opened:
        st.caption(f"The newest {_MOST_READINGS} readings; nothing is ever deleted from the log.")
        log = health.latest_readings(at, _MOST_READINGS)
        tables.plain(_as_text(log))
        downloads.offer(log, "ingest-log")


def _totals(at: data.Source) -> None:
    totals = health.totals(at)
    size = health.size(at)
    cells = [(name.capitalize(), f"{totals[name]:,}") for name in ("runs", "series")]
    cells.append(("Measurements", f"{totals['measurements']:,}"))
    cells.append(("Store", wording.quantity(size, "B") if size is not None else wording.NONE))
    for column, (name, value) in zip(st.columns(len(cells)), cells, strict=True):
        column.metric(name, value, border=True)
    st.caption(wording.escape(f"Store {at.path}"))


def _files(at: data.Source) -> None:
    st.subheader("Files", anchor=False)
    troubled = health.troubled_files(at)
    if troubled.empty:
        st.success("Every file was read completely.", icon=":material/check_circle:")
    else:
        rejected = int((troubled["status"] == "rejected").sum())
        st.warning(
            f"{wording.count(rejected, 'file')} rejected, "
            f"{len(troubled) - rejected} read in part or with a remark.",
            icon=":material/warning:",
        )
        tables.written(_as_text(troubled))
    tables.written(
        health.file_states(at).rename(
            columns={"kind": "Kind", "status": "Status", "files": "Files", "rows": "Rows"}
        )
    )


def _as_text(files: pd.DataFrame) -> pd.DataFrame:
    shown = {
        "File": files["path"],
        "Kind": files["kind"],
        "Status": files["status"],
        "Reason": [frames.text(reason) for reason in files["reason"]],
        "When": [wording.moment(when) for when in files["ingested_at"]],
    }
    return pd.DataFrame(shown)


def _noise(at: data.Source) -> None:
    st.subheader("Noise", anchor=False)
    machine = pickers.machine(at)
    measured = data.measured_commits(at, machine)[-_COMMITS:]
    found = health.spreads(at, machine, tuple(commit.hash for commit in measured))
    if found.empty:
        notices.lacking(
            "No series of this machine has several rounds of one commit, so its noise is unknown. "
            "Take several rounds of the newest commit:",
            reproduce.run("--append-samples HEAD^!", machine),
        )
        return
    wide = int((found["spread"] > _WIDE).sum())
    st.caption(
        wording.escape(
            f"How far apart the rounds of one commit lie on {machine}, though nothing changed "
            f"between them: the median over the last {wording.count(len(measured), 'commit')}. "
            f"{wide} of {wording.count(len(found), 'series', 'series')} are wider than "
            f"{100 * _WIDE:g} %. Ticks are series, diamonds the medians."
        )
    )
    ordered = found.sort_values(["heading", "spread"], kind="stable")
    draw.chart(
        spread.spreads(ordered, theme.palette()),
        described="Spread between rounds of one commit, by benchmark",
    )
    opened = state.opened("The noise of every series", state.SPREADS)
    if opened is None:
        return
    with opened:
        tables.plain(
            pd.DataFrame(
                {
                    "Benchmark": found["heading"],
                    "Shape": found["shape"],
                    "Spread": [f"{100 * value:.2f} %" for value in found["spread"]],
                    "Widest": [f"{100 * value:.2f} %" for value in found["widest"]],
                    "Commits": found["runs"],
                    "Rounds": found["rounds"],
                }
            )
        )
