"""Two families at one commit, shape by shape; pandas only.

The interval of a quotient adds both sides' relative errors in quadrature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pandas as pd

from dashboard.app import comparison, frames, wording

_KEYS = ["model", "tokens", "tp", "rest", "machine", "environment"]
_KEPT = ["group", "heading", "shape", "params", "unit", "value", "low", "high"]
_ADDED = ["y", "y_low", "y_high", "under_value"]
_SHOWN = ["row", "column", "order", "took", "against", "interval", "shown"]
_ACTIVITY_NAMES = ("active", "activity")


def rest_of(params: object) -> str:
    """The parameters beside the shape, as text that identifies them."""
    if not isinstance(params, Mapping):
        return ""
    return json.dumps({k: v for k, v in sorted(params.items()) if k not in comparison.SHAPE_NAMES})


def quotients(points: pd.DataFrame, over: str, under: str) -> pd.DataFrame:
    """Family ``over`` divided by family ``under`` where both have a value at equal parameters.

    ``points`` are those of one commit (``data.points``). Columns: what names a series of
    ``over``, with ``n`` where ``points`` has it (see ``frames.hover``), ``y``, ``y_low``,
    ``y_high``, ``under_value``, and ``row``, ``column``, ``order``, ``value``, ``shown`` for
    charts, ordered by model, TP and tokens.
    """
    if not {over, under} <= set(points["group"]):
        return pd.DataFrame(columns=[*_KEYS, *_KEPT, "n", *_ADDED, *_SHOWN])
    wanted = points["group"].isin([over, under])
    measured = points[wanted & points["value"].notna() & points["model"].notna()]
    measured = measured.assign(rest=measured["params"].map(rest_of))
    measured = measured[[*_KEYS, *_KEPT, *(["n"] if "n" in measured else [])]]
    sides = [
        measured[measured["group"] == family].drop_duplicates(_KEYS, keep="last")
        for family in (over, under)
    ]
    below = sides[1][[*_KEYS, "value", "low", "high"]]
    both = sides[0].merge(below, on=_KEYS, suffixes=("", "_under"))
    found = frames.quotient(both, both["value_under"], both["low_under"], both["high_under"])
    found = found.rename(columns={"value_under": "under_value"})
    rows = frames.records(found)
    found["row"] = [comparison.row_label(str(r["model"]), frames.whole(r["tp"])) for r in rows]
    found["column"] = [f"{int(r['tokens']):,}" for r in rows]
    found["order"] = found["tokens"].astype(float)
    found["took"] = [wording.quantity(frames.number(r["value"]), r["unit"]) for r in rows]
    found["against"] = [wording.quantity(frames.number(r["under_value"]), r["unit"]) for r in rows]
    found["interval"] = [
        wording.ratio_interval(frames.number(r["y_low"]), frames.number(r["y_high"])) for r in rows
    ]
    found["shown"] = [f"{r['y']:.2f}{wording.TIMES}" for r in rows]
    found["value"] = found["y"]
    return found.sort_values(["model", "tp", "order"], kind="stable").reset_index(drop=True)


def activity(params: object) -> float | None:
    """The share of active rows among a series' parameters, in percent."""
    if not isinstance(params, Mapping):
        return None
    for name in _ACTIVITY_NAMES:
        try:
            return float(params[name])
        except (KeyError, ValueError):
            continue
    return None
