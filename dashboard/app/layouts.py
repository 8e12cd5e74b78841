"""Layouts unfolded from the local shapes that measure them; no streamlit.

A layout of total tokens over TP × CP ranks is measured as one rank's share: tokens / CP with
the vocabulary over TP. So one series stands for several layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from dashboard.app import frames, wording

SPLITS = (1, 2, 4, 8)
MOST_RANKS = 8
_FULL_ENOUGH = 0.5
_FEWEST_OF_A_MAP = 3


def unfold(points: pd.DataFrame) -> pd.DataFrame:
    """A row per layout of ``frames.hover``'s points of one commit: model, total tokens, TP, CP.

    Columns for ``heatmaps.heat``: ``row`` (CP), ``column`` (TP), ``value``, ``shown``; and
    ``total``, ``local``, ``took``, ``series_id``. Only totals that are about as fully measured
    as the fullest.
    """
    rows = [cell for row in frames.records(points) for cell in _cells(row)]
    found = pd.DataFrame(rows)
    if found.empty:
        return found
    filled = found.groupby(["model", "total"])["value"].transform("size")
    fullest = found.assign(filled=filled).groupby("model")["filled"].transform("max")
    return found[filled >= _FULL_ENOUGH * fullest].sort_values("total", kind="stable")


def is_sparse(unfolded: pd.DataFrame) -> bool:
    """Whether no total has enough layouts for a map of TP × CP."""
    return int(unfolded.groupby(["model", "total"])["value"].size().max()) < _FEWEST_OF_A_MAP


def shapes(points: pd.DataFrame) -> pd.DataFrame:
    """The measured local shapes for ``heatmaps.heat``: model down, tokens and TP across.

    ``layouts`` says which layouts each one stands for.
    """
    rows = []
    for row in frames.records(points[points["y"].notna() & points["tp"].notna()]):
        cells = list(_cells(row))
        tokens, tp = int(row["tokens"]), int(row["tp"])
        rows.append(
            {
                "row": row["model"],
                "column": f"{tokens:,} · TP {tp}",
                "order": (tokens, tp),
                "value": row["y"],
                "took": row["shown_value"],
                "relative": row["shown_y"],
                "n": row["n"],
                "layouts": "; ".join(f"{c['total']:,} tokens at {c['row']}" for c in cells),
            }
        )
    return pd.DataFrame(rows)


def _cells(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    tokens, tp, y = (frames.number(row[name]) for name in ("tokens", "tp", "y"))
    if tokens is None or tp is None or y is None or tp not in SPLITS:
        return
    for cp in SPLITS:
        if tp * cp <= MOST_RANKS:
            yield {
                "model": row["model"],
                "total": int(tokens) * cp,
                "row": f"CP {cp}",
                "column": f"TP {int(tp)}",
                "value": y,
                "local": wording.shape_label(None, int(tokens), int(tp)),
                "took": row["shown_value"],
                "relative": row["shown_y"],
                "n": row["n"],
                "series_id": row["series_id"],
            }
