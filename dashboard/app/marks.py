"""Marks beside the points: where something else than the code changed; pandas only."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pandas as pd

from dashboard.app import frames, summary, wording
from dashboard.history import Change, HistoryReport

CARD = {"card": "GPU card"}
"""Not among the conditions that a chart marks: its points show it themselves."""
CONDITIONS = {
    "gpu": "GPU",
    "driver": "driver",
    "torch": "torch",
    "triton": "triton",
    "version": "benchmark version",
    "protocol": "protocol",
}


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Mapping[str, str]
) -> list[str]:
    """``torch 2.10 → 2.11`` for each column that is known on both sides and differs."""
    return [
        f"{title} {before[name]} → {after[name]}"
        for name, title in names.items()
        if frames.known(before[name]) and frames.known(after[name]) and before[name] != after[name]
    ]


def card_caption(points: pd.DataFrame) -> str:
    """What hollow points are; nothing where there are none (see ``frames.hover``)."""
    if not points["elsewhere"].any():
        return ""
    return (
        "Hollow points are of another GPU card than most of their line: cards of one model differ "
        "by percents."
    )


def changes(points: pd.DataFrame) -> pd.DataFrame:
    """``tick`` and ``change`` of every commit where a series' conditions differ from before."""
    found: dict[str, list[str]] = {}
    columns = ["tick", *CONDITIONS]
    for _, line in points.groupby("series_id", sort=False):
        rows = frames.records(line.loc[line["value"].notna(), columns])
        for before, after in pairwise(rows):
            said = found.setdefault(str(after["tick"]), [])
            said += [text for text in differences(before, after, CONDITIONS) if text not in said]
    return pd.DataFrame(
        [(tick, "; ".join(said)) for tick, said in found.items() if said],
        columns=["tick", "change"],
    )


_STEP_COLUMNS = ["series_id", "commit", "sign", "worse", "said"]


def no_steps() -> pd.DataFrame:
    """What :func:`steps` gives for a history without changes."""
    return pd.DataFrame(columns=_STEP_COLUMNS)


def steps(report: HistoryReport, numbers: Mapping[summary.SeriesKey, int]) -> pd.DataFrame:
    """``series_id``, ``commit``, ``sign``, ``worse`` and ``said`` of each change of level."""
    rows = []
    for change in report.changes:
        number = numbers.get(summary.series_key(change))
        if number is None:
            continue
        size = wording.change(change.found.ratio)
        told = [f"{size} ({wording.ratio_interval(change.found.low, change.found.high)})"]
        if change.found.explained_by is not None:
            told.append(f"explained by {wording.short_cards(change.found.explained_by)}")
        accepted = change.acknowledged
        if accepted is not None:
            told.append(f"acknowledged by {accepted.author}: {accepted.reason}")
        rows.append(
            (number, change.commit.hash, _sign(change), change.found.worse, "; ".join(told))
        )
    return pd.DataFrame(rows, columns=_STEP_COLUMNS)


def _sign(change: Change) -> str:
    if change.acknowledged is not None:
        return "✓"
    if change.found.explained_by is not None:
        return wording.EXPLAINED
    return "▲" if change.found.worse else "▼"


def at_ticks(found: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """The steps of the series of ``points``, one per commit, with ``tick``.

    ``said`` tells the change of schedule that came with a step too.
    """
    here = found[found["series_id"].isin(points["series_id"])]
    ticks = dict(zip(points["commit"], points["tick"], strict=True))
    here = here[here["commit"].isin(set(ticks))]
    if here.empty:
        return here.assign(tick=pd.Series(dtype=object))
    moved = _schedule_changes(points)
    here = here.assign(
        said=[
            "; ".join(filter(None, (said, moved.get((number, commit)))))
            for said, number, commit in zip(
                here["said"], here["series_id"], here["commit"], strict=True
            )
        ]
    )
    merged = here.groupby(["commit", "sign", "worse"], as_index=False, sort=False).agg(
        {"said": " | ".join}
    )
    return merged.assign(tick=merged["commit"].map(ticks))


def _schedule_changes(points: pd.DataFrame) -> dict[tuple[int, str], str]:
    """What differs of a series' schedule from the point before, by series and commit."""
    known = points[points["schedule"].notna()]
    before = known.groupby("series_id", sort=False)["schedule"].shift()
    other = known.assign(before=before)[before.notna() & (before != known["schedule"])]
    return {
        (row["series_id"], row["commit"]): wording.schedule_change(row["before"], row["schedule"])
        for row in frames.records(other[["series_id", "commit", "before", "schedule"]])
    }


def before(points: pd.DataFrame, key: str) -> Mapping[str, Any] | None:
    """The row of the same series' measured point before the one named ``key``, if any."""
    row = points[points["key"] == key].iloc[0]
    line = points[(points["series_id"] == row["series_id"]) & points["value"].notna()]
    earlier = line[line["rank"] < row["rank"]]
    return None if earlier.empty else frames.records(earlier.tail(1))[0]
