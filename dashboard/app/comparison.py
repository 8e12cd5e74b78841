"""Two commits or two machines side by side, as frames; no streamlit."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dashboard.app import frames, naming, relations, sizes, wording
from dashboard.models import SeriesVerdict

LEAST_REACH = 0.05
"""A change of 5 % has the strongest colour at least, lest noise look like news."""


def by_benchmark(verdicts: Sequence[SeriesVerdict]) -> dict[str, list[SeriesVerdict]]:
    """The compared series of this suite by the heading of their map, in their order."""
    found: dict[str, list[SeriesVerdict]] = {}
    for verdict in verdicts:
        series = verdict.series
        extra = {name for name, _ in series.params} - set(naming.SHAPE)
        if verdict.ratio is None or series.model is None or series.tokens is None or extra:
            continue
        group = naming.group_of(series.family, series.benchmark, series.model)
        found.setdefault(wording.family_title(group), []).append(verdict)
    return found


def ratio_map(verdicts: Sequence[SeriesVerdict]) -> pd.DataFrame:
    """The series of one map of :func:`by_benchmark` for ``heatmaps.heat``, by tokens."""
    rows = []
    for verdict in verdicts:
        series = verdict.series
        sign, _ = wording.VERDICTS[verdict.verdict]
        base, head = sizes.sides(verdict)
        rows.append(
            {
                "row": row_label(str(series.model), series.tp),
                "column": f"{series.tokens:,}",
                "order": series.tokens,
                "value": verdict.ratio,
                "shown": f"{wording.change(verdict.ratio)} {sign}",
                "base": base,
                "head": head,
                "interval": wording.ratio_interval(verdict.low, verdict.high),
                "reason": verdict.reason,
            }
        )
    return pd.DataFrame(rows).sort_values("order", kind="stable")


def row_label(model: str, tp: int | None) -> str:
    """``kimi-k2 · TP 4``."""
    return model if tp is None else f"{model} · TP {tp}"


def reach(ratios: Sequence[float]) -> float:
    """How far from 1 the strongest colour stands."""
    return max([abs(ratio - 1) for ratio in ratios] + [LEAST_REACH])


def places(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The series of two places (``frames.points`` of one commit each), ``other`` over ``one``.

    Intervals are combined in quadrature on the logarithm.
    """
    keys = ["benchmark", "label"]
    columns = [*keys, "value", "low", "high"]
    both = one.merge(other[columns], on=keys, suffixes=("", "_other"))
    related = both.assign(value=both["value_other"], low=both["low_other"], high=both["high_other"])
    ratio = relations.quotient(related, both["value"], both["low"], both["high"])
    rows = []
    for first, row in zip(frames.records(both), frames.records(ratio), strict=True):
        unit = frames.text(first["unit"])
        rows.append(
            {
                "Benchmark": first["heading"],
                "Shape": first["shape"],
                "One": wording.quantity(frames.number(first["value"]), unit),
                "Other": wording.quantity(frames.number(row["value"]), unit),
                "Ratio": frames.number(row["y"]),
                "95 % interval": wording.ratio_interval(
                    frames.number(row["y_low"]), frames.number(row["y_high"])
                ),
            }
        )
    return pd.DataFrame(rows)
