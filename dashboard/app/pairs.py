"""Two families at one commit, shape by shape; pandas only.

The interval of a quotient adds both sides' relative errors in quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard.app import comparison, frames, naming, relations, wording

_KEYS = ["model", "tokens", "tp", "rest", "machine", "environment"]
_KEPT = ["group", "heading", "shape", "params", "unit", "value", "low", "high", "gpu_uuid"]
_ADDED = ["y", "y_low", "y_high", "under_value"]
_SHOWN = ["row", "column", "order", "took", "against", "interval", "shown"]
_NUMBERS = ["value", "low", "high"]
_ACTIVITY = "active"


Key = tuple[Any, ...]
Families = dict[str, dict[Key, dict[str, Any]]]
"""The measured rows of each group by what identifies them beside it."""


def rest_of(params: object) -> Key:
    """The parameters beside the shape, as something that identifies them."""
    if not isinstance(params, Mapping):
        return ()
    return tuple(sorted((k, str(v)) for k, v in params.items() if k not in naming.SHAPE))


def families(points: pd.DataFrame) -> Families:
    """The points of one commit (``data.points``) that have a value and a shape, by group."""
    names = [*_KEYS[:3], *_KEYS[4:], *_KEPT, *(["n"] if "n" in points else [])]
    found: Families = {}
    for row in frames.records(points[names]):
        if frames.known(row["value"]) and frames.known(row["model"]):
            row["rest"] = rest_of(row["params"])
            key = tuple(row[name] for name in _KEYS)
            found.setdefault(str(row["group"]), {})[key] = row
    return found


def on_other_cards(found: Families, over: str, under: str) -> int:
    """How many series of ``over`` have one of ``under`` that another card measured: no quotient."""
    top, bottom = (found.get(family, {}) for family in (over, under))
    both = [(top[key]["gpu_uuid"], bottom[key]["gpu_uuid"]) for key in top if key in bottom]
    return sum(not relations.same_card(*cards) for cards in both)


def quotients(found: Families, over: str, under: str) -> pd.DataFrame:
    """Family ``over`` divided by family ``under`` where both have a value at equal parameters,
    measured on one card.

    Columns: what names a series of ``over``, with ``n`` where the points have it (see
    ``frames.hover``), ``y``, ``y_low``, ``y_high``, ``under_value``, and ``row``, ``column``,
    ``order``, ``value``, ``shown`` for charts, ordered by model, TP and tokens.
    """
    top, bottom = (found.get(family, {}) for family in (over, under))
    keys = [key for key in top if key in bottom]
    keys = [k for k in keys if relations.same_card(top[k]["gpu_uuid"], bottom[k]["gpu_uuid"])]
    keys.sort(key=_place)
    if not keys:
        return pd.DataFrame(columns=[*_KEYS, *_KEPT, "n", *_ADDED, *_SHOWN])
    rows, others = [top[key] for key in keys], [bottom[key] for key in keys]
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    columns |= {name: _numbers(rows, name) for name in _NUMBERS}
    columns |= {f"under_{name}": _numbers(others, name) for name in _NUMBERS}
    both = pd.DataFrame(columns)
    ratio = relations.quotient(both, both["under_value"], both["under_low"], both["under_high"])
    ends = zip(ratio["y_low"].tolist(), ratio["y_high"].tolist(), strict=True)
    return ratio.assign(
        row=[comparison.row_label(str(r["model"]), frames.whole(r["tp"])) for r in rows],
        column=[f"{int(r['tokens']):,}" for r in rows],
        order=[float(r["tokens"]) for r in rows],
        took=[wording.quantity(r["value"], r["unit"]) for r in rows],
        against=[wording.quantity(r["value"], r["unit"]) for r in others],
        interval=[wording.ratio_interval(low, high) for low, high in ends],
        shown=[f"{y:.2f}{wording.TIMES}" for y in ratio["y"].tolist()],
        value=ratio["y"],
    )


def _numbers(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    cells = (frames.number(row[name]) for row in rows)
    return [math.nan if cell is None else cell for cell in cells]


def _place(key: Key) -> tuple[str, float, float]:
    """Where a series comes: by model, TP (unknown last) and tokens."""
    model, tokens, tp = key[:3]
    return str(model), float(tp) if frames.known(tp) else float("inf"), float(tokens)


def activity(params: object) -> float | None:
    """The share of active rows among a series' parameters, in percent."""
    if not isinstance(params, Mapping):
        return None
    try:
        return float(params[_ACTIVITY])
    except (KeyError, ValueError):
        return None
