"""Synthetic series whose level changes, as the search for changes takes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dashboard.models import Series
from dashboard.verdicts.changes import Condition, SeriesHistory
from dashboard.verdicts.policy import Rule

Floats = NDArray[np.float64]


def history(
    values: Floats,
    name: str = "forward",
    conditions: tuple[Condition, ...] = (),
    cards: tuple[int, ...] = (),
    **rule: bool,
) -> SeriesHistory:
    """A series measured at every third commit."""
    series = Series(f"{name}.track", (), "m", "e", "ms", name)
    return SeriesHistory(
        series,
        Rule(0.02, rule.get("higher", False), rule.get("exact", False)),
        tuple(range(0, 3 * values.size, 3)),
        values,
        conditions=conditions,
        cards=cards,
    )


def stepped(
    seed: int, factor: float = 1.1, size: int = 40, at: int = 20, sigma: float = 0.002
) -> Floats:
    """Values about 10, from index ``at`` on about 10 times ``factor``."""
    values = 10 * np.exp(sigma * np.random.default_rng(seed).standard_normal(size))
    values[at:] *= factor
    return values
