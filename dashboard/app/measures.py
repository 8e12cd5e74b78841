"""What a time is worth: work per second, and how near the ceiling; pandas only.

The unit of work is the product of hidden states and LM head: 2·M·H·V operations, which the
control (a library product of the same shape) takes once.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from dashboard.app import wording

PRODUCTS = {
    "control": 1,
    "forward": 1,
    "forward_entropy": 1,
    "two_pass": 1,
    "fixed": 1,
    "fixed_three_stages": 1,
    "chunked": 1,
    "materialised": 1,
    "materialised_backward": 3,
    # The logits are not kept: their recomputation and the two gradients' products.
    "forward_backward": 4,
    "forward_backward_entropy": 4,
    "two_pass_backward": 4,
}
"""The products that a family cannot do without, by its name."""

_LOWER_IS_BETTER_COLUMNS = ["value", "low", "high"]


def products(frame: pd.DataFrame) -> pd.Series:
    """How many products each row's family needs; null where it is none of ours."""
    return frame["family"].map(PRODUCTS).astype(float)


def rate(frame: pd.DataFrame) -> pd.DataFrame:
    """``y``, ``y_low`` and ``y_high`` in TFLOP/s; null where the shape is unknown."""
    shape = frame["m"].astype(float) * frame["h"].astype(float) * frame["v"].astype(float)
    seconds = frame["unit"].map(wording.seconds).astype(float)
    work = 2e-12 * shape * products(frame) / seconds
    return _inverse(frame, work)


def share_of_ceiling(frame: pd.DataFrame, control: pd.Series) -> pd.DataFrame:
    """The share of the ceiling reached: the control's time for as many products, over the value.

    ``control`` is the control's value of the same shape, machine and commit.
    """
    return _inverse(frame, products(frame) * control)


def _inverse(frame: pd.DataFrame, numerator: pd.Series) -> pd.DataFrame:
    out = frame.copy()
    value, low, high = (out[name].astype(float) for name in _LOWER_IS_BETTER_COLUMNS)
    with np.errstate(divide="ignore"):
        out["y"], out["y_low"], out["y_high"] = numerator / value, numerator / high, numerator / low
    return out
