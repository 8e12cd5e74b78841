"""The tables under the charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral, Real

import numpy as np
import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from dashboard.app import downloads, frames, state, summary, wording
from dashboard.app.frames import Measure
from dashboard.app.palette import Palette, verdict_colour
from dashboard.models import Verdict

_POINT_COLUMNS = {
    "tick": "Commit",
    "what": "Subject",
    "heading": "Benchmark",
    "shape": "Shape",
    "shown_value": "Value",
    "shown_interval": "Interval",
    "shown_y": "Relative",
    "step": "To point before",
    "n": "Rounds",
    "state": "Status",
    "why": "Reason",
    "clock": "SM clock",
    "card": "Card",
    "power": "Power",
    "heat": "Temperature",
    "throttle": "Clock events",
    "versions": "Versions",
    "when": "Commit date",
    "taken": "Measured",
    "who": "Author",
    "place": "Machine",
}


_RAW = [
    "benchmark", "heading", "shape", "machine", "environment", "commit", "commit_date", "value",
    "low", "high", "unit", "y", "y_low", "y_high", "rounds", "status", "reason", "started_at",
    "schedule", "gpu_uuid",
]  # fmt: skip
_TABLES = ("by commit", "every point", "the commits")
_ROW = 36
_MOST_WRITTEN = 15
_BLANK = "&nbsp;"
_MOST_ROWS_SHOWN = 20


def _height(frame: pd.DataFrame) -> int:
    """Pixels for all rows up to a limit, beyond which the table scrolls."""
    return _ROW * (min(len(frame), _MOST_ROWS_SHOWN) + 1) + 2


def plain(frame: pd.DataFrame, narrow: Mapping[str, int] | None = None) -> None:
    """A table of text, as high as its rows up to a limit; ``narrow``: pixels of some columns."""
    config = {name: st.column_config.Column(width=width) for name, width in (narrow or {}).items()}
    st.dataframe(
        frame, hide_index=True, row_height=_ROW, height=_height(frame), column_config=config
    )


def written(frame: pd.DataFrame) -> None:
    """A table of few rows as text of the page, which wraps, can be selected and searched, and
    needs no code of its own in the browser; many rows as :func:`plain`.

    Either scrolls by itself where it is wider than the page.
    """
    if len(frame) > _MOST_WRITTEN:
        plain(frame)
    else:
        st.markdown(as_markdown(frame))


def as_markdown(frame: pd.DataFrame) -> str:
    """A table in Markdown: numbers to the right, with separators; nothing in it is markup.

    Truth values are yes or no; what is not finite is unknown, a dash. Names may repeat.
    """
    numeric = [
        pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind)
        for kind in frame.dtypes
    ]
    columns = [[_cell(value) for value in frame.iloc[:, at]] for at in range(frame.shape[1])]
    lines = [
        [wording.escape(str(name)) or _BLANK for name in frame.columns],
        ["---:" if right else ":---" for right in numeric],
        *zip(*columns, strict=True),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        # 15 digits are what a float keeps of a decimal number.
        return wording.escape(f"{value:,.15g}") if math.isfinite(value) else wording.NONE
    return wording.escape(frames.text(value)) or _BLANK


def trend_tables(points: pd.DataFrame, measure: Measure, commits: pd.DataFrame) -> None:
    """Values by commit, every point with its conditions, or the commits: one table at a time.

    Closed at first: charts come first, and a browser loads its table only with the first one.
    """
    named = state.TABLE in st.query_params
    numbers = state.opened("The numbers as a table", state.NUMBERS, at_first=named)
    if numbers is not None:
        with numbers:
            _trend_table(points, measure, commits)


def _trend_table(points: pd.DataFrame, measure: Measure, commits: pd.DataFrame) -> None:
    chosen = state.choose_one("Table", _TABLES, state.TABLE)
    if chosen == _TABLES[0]:
        plain(values_by_commit(points, measure))
    elif chosen == _TABLES[1]:
        plain(every_point(points, measure))
    else:
        plain(commit_table(points, commits))
    downloads.offer(points[[name for name in _RAW if name in points]], "trend")


def every_point(points: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """All that is known of each point, the newest commits first."""
    hidden = {"shown_y"} if measure is Measure.ABSOLUTE else set()
    names = {k: v for k, v in _POINT_COLUMNS.items() if k not in hidden}
    newest_first = points.sort_values("rank", ascending=False, kind="stable")
    return newest_first[list(names)].rename(columns=names)


def values_by_commit(points: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """A row per series, a column per commit; failures by name."""
    value = points["shown_value"] if measure is Measure.ABSOLUTE else points["shown_y"]
    cells = points.assign(cell=value.where(points["state"] == "ok", points["state"]))
    keys = ["heading", "shape", "place"]
    wide = cells.pivot_table(
        index=[*keys, "series_id"], columns="tick", values="cell", aggfunc="last", sort=False
    )
    wide = wide.reindex(columns=frames.tick_order(points)).fillna(wording.NONE).reset_index()
    names = {"heading": "Benchmark", "shape": "Shape", "place": "Machine"}
    if points["place"].nunique() == 1:
        wide = wide.drop(columns="place")
    return wide.drop(columns="series_id").rename(columns=names)


def commit_table(points: pd.DataFrame, commits: pd.DataFrame) -> pd.DataFrame:
    """The commits of ``points``, newest in the graph first."""
    shown = commits[commits["commit"].isin(points["commit"])].iloc[::-1]
    ticks = dict(zip(points["commit"], points["tick"], strict=True))
    return pd.DataFrame(
        {
            "Commit": [ticks[commit] for commit in shown["commit"]],
            "Subject": [frames.text(subject) for subject in shown["subject"]],
            "Author": [frames.text(author) for author in shown["author"]],
            "Date": [wording.moment(date) for date in shown["date"]],
            "Tags": [", ".join(tags) for tags in shown["tags"]],
        }
    )


MOST_STYLED_ROWS = 60
"""Rows of a table of verdicts; styling more takes longer than a reader waits."""


def verdict_table(
    frame: pd.DataFrame, verdicts: Sequence[Verdict], palette: Palette, key: str
) -> int | None:
    """The table of ``summary.table``: numbers sort as numbers, verdicts have word and colour.

    The row whose ``Trend`` cell was clicked, if one was.
    """
    shown = frame.drop(columns="Unit", errors="ignore")
    span = summary.sparkline_span(list(shown["History"]))
    config = {
        "Verdict": st.column_config.TextColumn(width=112),
        "Trend": st.column_config.TextColumn(width=56, help="Click for a link to its trend."),
        "Benchmark": st.column_config.TextColumn(width=138),
        "Base": st.column_config.NumberColumn(width=95),
        "Head": st.column_config.NumberColumn(width=95),
        "History": st.column_config.LineChartColumn(
            "History",
            width=95,
            y_min=1 - span,
            y_max=1 + span,
            help="The latest values in graph order over their median; every row from "
            f"{-100 * span:.0f} % to {100 * span:+.0f} %.",
        ),
        "Tokens": st.column_config.NumberColumn(format="localized", width=68),
        "TP": st.column_config.NumberColumn(width=40),
        "Parameters": st.column_config.TextColumn(width=86),
        "95 % interval": st.column_config.TextColumn(width=108),
        "Because": st.column_config.TextColumn(width="large"),
        "Ratio": st.column_config.NumberColumn(width=116, help="Head / base; above 1 is worse."),
    }
    event = st.dataframe(
        _styled(shown, frame["Unit"], verdicts, palette),
        hide_index=True,
        column_config=config,
        row_height=_ROW,
        height=_height(shown),
        placeholder=wording.NONE,
        key=key,
        on_select="rerun",
        selection_mode="single-cell",
    )
    clicked = [row for row, column in event["selection"]["cells"] if column == "Trend"]
    return int(clicked[0]) if clicked else None


def ratio_table(frame: pd.DataFrame) -> None:
    """Two sides with a column ``Ratio`` that sorts as numbers; all else is text.

    Where it has a ``Unit``, ``One`` and ``Other`` are numbers of that unit, and ``Low`` and
    ``High`` the ends of the ratio's interval.
    """
    config = {"Ratio": st.column_config.NumberColumn(format=f"{wording.TIMES}%.3f")}
    st.dataframe(
        sides_in_words(frame) if "Unit" in frame else frame,
        hide_index=True,
        column_config=config,
        row_height=_ROW,
        height=_height(frame),
    )


def sides_in_words(frame: pd.DataFrame) -> pd.DataFrame:
    """The numbers of :func:`ratio_table` as text, each in the unit that suits its size."""
    rows = frames.records(frame)
    shown = frame.drop(columns=["Unit", "High"]).rename(columns={"Low": "95 % interval"})
    for side in ("One", "Other"):
        shown[side] = [wording.quantity(frames.number(r[side]), str(r["Unit"])) for r in rows]
    shown["95 % interval"] = [
        wording.ratio_interval(frames.number(r["Low"]), frames.number(r["High"])) for r in rows
    ]
    return shown


def _ratio(cell: object) -> str:
    return wording.ratio_and_change(frames.number(cell))


def _styled(
    shown: pd.DataFrame, units: pd.Series, verdicts: Sequence[Verdict], palette: Palette
) -> Styler:
    colours = [
        f"color: {verdict_colour(verdict, palette)}; font-weight: 600" for verdict in verdicts
    ]
    styler = shown.style.apply(lambda _: colours, axis=0, subset=["Verdict"])
    link = f"color: {palette.good}; text-decoration: underline"
    styler = styler.map(lambda _: link, subset=["Trend"])
    # Values of one column may have several units, each in the cells of its rows.
    for unit, rows in units.groupby(units).groups.items():
        styler = styler.format(
            partial(wording.quantity, unit=str(unit)),
            subset=pd.IndexSlice[list(rows), ["Base", "Head"]],
        )
    return styler.format(_ratio, subset=["Ratio"])
