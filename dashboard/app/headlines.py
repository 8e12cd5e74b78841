"""The reference pull requests' tables, computed from the store; no streamlit.

Every table has a row per figure: what it is, this commit's value, the reference PRs' value.
A figure that the store cannot give is left out; an empty table says that there is none.
"""

from __future__ import annotations

import math

import pandas as pd

from dashboard.app import frames, measures, pairs, references, wording

_COLUMNS = ["Figure", "This commit", "Reference PRs (H100)"]


def tuned(points: pd.DataFrame) -> pd.DataFrame:
    """Chosen schedule against the fixed one, over the shapes that have both."""
    both = pairs.quotients(points, "forward_entropy", "fixed")
    if both.empty:
        both = pairs.quotients(points, "forward", "fixed")
    if both.empty:
        return pd.DataFrame(columns=_COLUMNS)
    change = both["y"].astype(float)
    reference = references.TUNED
    best = frames.records(both[change == change.min()])[0]
    faster = int((change < 1).sum())
    rows = [
        ("Mean change", wording.change(float(change.mean())), _percent(reference.mean)),
        ("Median change", wording.change(float(change.median())), _percent(reference.median)),
        (
            "90 % of the shapes: at most",
            wording.change(float(change.quantile(0.9))),
            wording.NONE,
        ),
        (
            "Shapes faster",
            f"{faster} of {len(both)}",
            f"{reference.faster} of {reference.shapes}",
        ),
        ("Worst", wording.change(change.max()), _percent(reference.worst)),
        ("Best", f"{best['against']} → {best['took']}", reference.best),
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def compiled(points: pd.DataFrame) -> pd.DataFrame:
    """What first calls cost, a row per compile benchmark; the PRs' probe below."""
    found = points[(points["group"] == "compile") & points["value"].notna()]
    rows = [
        (str(name), wording.quantity(float(part["value"].median()), str(part["unit"].iloc[0])), "")
        for name, part in found.groupby("benchmark", sort=True)
    ]
    if not rows:
        return pd.DataFrame(columns=_COLUMNS)
    rows += [
        (name[:1].upper() + name[1:], wording.NONE, value)
        for name, value in references.COMPILE.items()
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def combined(points: pd.DataFrame) -> pd.DataFrame:
    """Two passes over one, and the differentiable one by activity."""
    rows = []
    both = pairs.quotients(points, "two_pass", "forward_entropy")
    if not both.empty:
        quotient = both["y"].astype(float)
        median = f"{quotient.median():.2f}{wording.TIMES} over {wording.count(len(both), 'shape')}"
        rows += [
            (
                "Two passes over one combined pass, median",
                median,
                f"{references.COMBINED_MEDIAN}{wording.TIMES} over "
                f"{references.COMBINED_POINTS} points",
            ),
            ("least and most", _span(quotient), wording.NONE),
        ]
    grad = pairs.quotients(points, "two_pass_backward", "forward_backward_entropy")
    if not grad.empty:
        low, high = references.DIFFERENTIABLE
        rows.append(
            (
                "The same with a differentiable entropy, forward and backward",
                _span(grad["y"].astype(float)),
                f"{low} {wording.DASH} {high}{wording.TIMES}",
            )
        )
    added = pairs.quotients(points, "forward_entropy", "forward")
    if not added.empty:
        rows.append(
            (
                "What the entropy adds to a forward pass, median",
                wording.change(float(added["y"].median())),
                wording.NONE,
            )
        )
    return pd.DataFrame(rows, columns=_COLUMNS)


def errors(points: pd.DataFrame) -> pd.DataFrame:
    """Largest errors against the fp32 oracle, a row per benchmark."""
    found = points[(points["group"] == "accuracy") & points["value"].notna()]
    rows = [
        (str(name), f"{float(part['value'].max()):.2e}", wording.NONE)
        for name, part in found.groupby("benchmark", sort=True)
    ]
    if not rows:
        return pd.DataFrame(columns=_COLUMNS)
    rows += [
        (name[:1].upper() + name[1:], wording.NONE, value)
        for name, value in references.ERRORS.items()
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def ceiling(points: pd.DataFrame) -> pd.DataFrame:
    """Every family's time over the control's of its shape, with ``line`` and ``floor``.

    ``floor`` is what the products that a family cannot do without would take.
    """
    parts = []
    for family, products in measures.PRODUCTS.items():
        found = pairs.quotients(points, family, frames.CONTROL)
        if family != frames.CONTROL and not found.empty:
            parts.append(found.assign(line=found["heading"], floor=products))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def to_ceiling(found: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean and worst of each family's ratio to the control, for a table."""
    rows = []
    for line, part in found.groupby("line", sort=False):
        y = part["y"].astype(float)
        worst = frames.records(part[y == y.max()])[0]
        rows.append(
            {
                "Benchmark": line,
                "Shapes": len(part),
                "Geometric mean": wording.ratio(math.exp(y.map(math.log).mean())),
                "Worst": wording.ratio(float(y.max())),
                "at": worst["shape"],
                "Floor": f"{wording.TIMES}{int(part['floor'].iloc[0])}",
            }
        )
    return pd.DataFrame(rows)


def _percent(value: float) -> str:
    return wording.change(1 + value / 100)


def _span(values: pd.Series) -> str:
    return f"{values.min():.2f} {wording.DASH} {values.max():.2f}{wording.TIMES}"
