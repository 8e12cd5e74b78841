"""Points related to others: to the control, to the first, to another commit; pandas only.

Columns added are ``y``, ``y_low`` and ``y_high``, null where there is nothing to divide by.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from dashboard.app import frames, measures


def quotient(
    frame: pd.DataFrame, value: pd.Series, low: pd.Series, high: pd.Series
) -> pd.DataFrame:
    """``y`` as the quotient; the interval adds both sides' relative errors in quadrature."""
    out = frame.copy()
    out["y"] = out["value"] / value
    above = np.hypot(np.log(out["high"] / out["value"]), np.log(value / low))
    below = np.hypot(np.log(out["value"] / out["low"]), np.log(high / value))
    out["y_low"] = out["y"] / np.exp(below)
    out["y_high"] = out["y"] * np.exp(above)
    return out


def absolute(frame: pd.DataFrame) -> pd.DataFrame:
    """``y``, ``y_low``, ``y_high`` in the series' own unit."""
    out = frame.copy()
    out["y"], out["y_low"], out["y_high"] = out["value"], out["low"], out["high"]
    return out


def relative_to_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Each series divided by its own value at the first commit that has one."""
    measured = frame[frame["value"].notna()]
    first = measured.groupby("series_id", sort=False)[_BASE].first()
    return _relative(frame, first)


def relative_to(frame: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Each series divided by its own value in ``base``, the points of one commit."""
    measured = base[base["value"].notna()].drop_duplicates("series_id", keep="last")
    return _relative(frame, measured.set_index("series_id")[_BASE])


_BASE = ["commit", "value", "low", "high"]


def _relative(frame: pd.DataFrame, bases: pd.DataFrame) -> pd.DataFrame:
    """``frame`` over the row of ``bases`` of the same series; null where there is none."""
    base = bases.reindex(frame["series_id"]).set_axis(frame.index)
    out = quotient(frame, base["value"], base["low"], base["high"])
    # A value divided by itself has no error of its own.
    itself = out["commit"].eq(base["commit"]) & out["value"].notna()
    out.loc[itself, ["y", "y_low", "y_high"]] = 1.0
    return out


def same_card(one: object, other: object) -> bool:
    """Whether two ``gpu_uuid`` may be divided by each other: cards of one model differ by
    percents. Unknown ones may."""
    return not frames.known(one) or not frames.known(other) or one == other


def _partners(frame: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """``value``, ``low`` and ``high`` of each row's control: same shape, machine, card, commit,
    unit.

    A control is a time, so that bytes, errors and counts have none.
    """
    keys, found = [*frames.RUN, *frames.SHAPE, "unit"], ["value", "low", "high"]
    partners = controls.dropna(subset=["value"]).drop_duplicates(keys, keep="last")
    partners = partners[[*keys, *found, "gpu_uuid"]].rename(columns={"gpu_uuid": "card"})
    both = frame[[*keys, "gpu_uuid"]].merge(partners, on=keys, how="left").set_axis(frame.index)
    alike = [same_card(*cards) for cards in zip(both["gpu_uuid"], both["card"], strict=True)]
    return both[found].where(pd.Series(alike, index=frame.index, dtype=bool))


def relative_to_control(frame: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """Each point divided by the control's of the same shape, machine, card and commit.

    ``controls`` are the points of family ``control``. Points without a partner
    have a null ``y``.
    """
    both = _partners(frame, controls)
    return quotient(frame, both["value"], both["low"], both["high"])


def measured(points: pd.DataFrame, measure: frames.Measure, partners: pd.DataFrame) -> pd.DataFrame:
    """``points`` with what ``measure`` shows and the hover text; only series that have it.

    ``partners`` are the points to divide by: the controls', or those of the commit chosen.
    """
    if measure is frames.Measure.FIRST:
        return frames.hover(relative_to_first(points))
    if measure is frames.Measure.ABSOLUTE:
        return frames.hover(absolute(points))
    if measure is frames.Measure.CONTROL:
        related = relative_to_control(points, partners)
    elif measure is frames.Measure.COMMIT:
        related = relative_to(points, partners)
    elif measure is frames.Measure.RATE:
        related = measures.rate(points)
    else:
        related = measures.share_of_ceiling(points, _partners(points, partners)["value"])
    # A failure has no quotient and is shown none the less, where its series has any.
    has_any = related.groupby("series_id")["y"].transform("count") > 0
    return frames.hover(
        related[has_any & (related["y"].notna() | related["value"].isna())], measure
    )
