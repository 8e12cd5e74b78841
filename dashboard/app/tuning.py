"""Chosen schedules as frames; no streamlit."""

from __future__ import annotations

import string

import pandas as pd

from dashboard.app import comparison, frames, wording

_MOST_NAMED = 3


def bucket(tokens: int) -> int:
    """The power of two at or above a token count, which tuning is done for."""
    return 1 << max(tokens - 1, 0).bit_length()


def letters(chosen: pd.DataFrame) -> dict[str, str]:
    """A letter per schedule text, the most frequent first; two letters beyond the 26th."""
    counted = chosen["schedule"].map(wording.schedule).value_counts()
    ordered = sorted(counted.index, key=lambda text: (-int(counted[text]), str(text)))
    names = [
        *string.ascii_uppercase,
        *(a + b for a in string.ascii_uppercase for b in string.ascii_uppercase),
    ]
    return dict(zip(map(str, ordered), names, strict=False))


def choice_map(chosen: pd.DataFrame, named: dict[str, str]) -> pd.DataFrame:
    """The latest schedules for ``heatmaps.heat``: bucket across, model and TP down."""
    rows = []
    for row in frames.records(chosen[chosen["model"].notna() & chosen["tokens"].notna()]):
        text = wording.schedule(row["schedule"])
        tp = None if not frames.known(row["tp"]) else int(row["tp"])
        rows.append(
            {
                "heading": row["heading"],
                "row": comparison.row_label(str(row["model"]), tp),
                "order": bucket(int(row["tokens"])),
                "column": f"{bucket(int(row['tokens'])):,}",
                "value": float(list(named).index(text)),
                "shown": named[text],
                "schedule": text,
                "shape": row["shape"],
            }
        )
    return pd.DataFrame(rows)


def changes(found: pd.DataFrame, commits: pd.DataFrame) -> pd.DataFrame:
    """One row per commit and change of a choice, newest first, with the series that changed so."""
    moved = found[found["before"].notna()]
    subjects = dict(zip(commits["commit"], commits["subject"], strict=True))
    rows = []
    for (turn, before, after), part in moved.groupby(["turn", "before", "schedule"]):
        commit = str(part["commit"].iloc[0])
        names = [f"{row['heading']}, {row['shape']}" for row in frames.records(part)]
        rows.append(
            {
                "turn": turn,
                "Commit": wording.short_hash(commit),
                "Subject": frames.text(subjects.get(commit)),
                "Change": wording.schedule_change(str(before), str(after)),
                "Series": len(names),
                "Which": "; ".join(names[:_MOST_NAMED])
                + ("; …" if len(names) > _MOST_NAMED else ""),
            }
        )
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    return table.sort_values("turn", ascending=False, kind="stable").drop(columns="turn")
