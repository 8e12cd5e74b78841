"""How far a trend's points reach up and down, which depends on how many rounds they have.

The store has a 95 % interval by t for two rounds too, 12.7 times as wide as the two lie apart: it
would hide every line. Of a single round it has asv's own interval, which is of the samples of one
process and says nothing of the next process. A chart shows neither.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from dashboard.store.student import quantiles

_ENOUGH = 3
_ENDS = {"low": "stored_low", "high": "stored_high"}
_QUANTILE = float(quantiles(np.array([2]))[0])
_EQUAL = 1e-9  # of a value


def of_rounds(points: pd.DataFrame) -> pd.DataFrame:
    """``points`` whose ``low`` and ``high`` are what a chart shows; :func:`stored` undoes that.

    From three rounds on, and without any, they stay; of two they are the rounds' values; of one
    they are null.
    """
    found = points.assign(**{kept: points[name] for name, kept in _ENDS.items()})
    value, low, high = (points[name].astype(float) for name in ("value", *_ENDS))
    rounds = points["rounds"].astype(float)
    few = (rounds > 0) & (rounds < _ENOUGH)
    # A value of two rounds is in the middle of them. Else one of the two has no value.
    both = (rounds == 2) & ((low + high - 2 * value).abs() <= _EQUAL * value.abs())
    half = ((high - low) / (2 * _QUANTILE)).where(both)
    found["low"] = low.where(~few, value - half)
    found["high"] = high.where(~few, value + half)
    return found


def stored(points: pd.DataFrame) -> pd.DataFrame:
    """The points of :func:`of_rounds` with ``low`` and ``high`` as the store has them."""
    back = points.assign(**{name: points[kept] for name, kept in _ENDS.items()})
    return back.drop(columns=list(_ENDS.values()))


def caption(points: pd.DataFrame) -> str:
    """What the bars and bands of these points are."""
    rounds = points["rounds"].fillna(0).astype(float)
    said = []
    if (rounds >= _ENOUGH).any():
        said.append("95 % intervals of the value over its rounds")
    if (rounds == 2).any():
        said.append("of two rounds the two themselves" if said else "the two rounds of each value")
    if not said and points["low"].notna().any() and not rounds.gt(0).any():
        said.append("asv's own 99 % intervals")
    told = f"Bands and bars are {', '.join(said)}." if said else ""
    single = "A value of a single round has none." if (rounds == 1).any() else ""
    return " ".join(filter(None, [told, single]))
