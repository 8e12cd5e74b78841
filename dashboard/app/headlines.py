"""The reference pull requests' tables, computed from the store; no streamlit.

Every table has a row per figure: what it is, this commit's value, the reference PRs' value.
A figure that the store cannot give is left out; an empty table says that there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pandas as pd

from dashboard.app import frames, measures, pairs, references, wording

_COLUMNS = ["Figure", "This commit", "Reference PRs (H100)"]


def tuned(found: pairs.Families) -> pd.DataFrame:
    """Chosen schedule against the fixed one, over the shapes that have both."""
    both = pairs.quotients(found, "forward_entropy", "fixed")
    if both.empty:
        both = pairs.quotients(found, "forward", "fixed")
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
        (
            "Best",
            f"{wording.change(float(best['y']))} ({best['against']} → {best['took']})",
            reference.best,
        ),
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def compiled(points: pd.DataFrame) -> pd.DataFrame:
    """What first calls cost, a row per compile benchmark."""

    def told(part: pd.DataFrame) -> str:
        return wording.quantity(float(part["value"].median()), str(part["unit"].iloc[0]))

    return _by_benchmark(points, "compile", references.COMPILE, told)


def combined(found: pairs.Families) -> pd.DataFrame:
    """Two passes over one, and the differentiable one by activity."""
    rows = _two_passes(pairs.quotients(found, "two_pass", "forward_entropy"))
    rows += _differentiable(pairs.quotients(found, "two_pass_backward", "forward_backward_entropy"))
    added = pairs.quotients(found, "forward_entropy", "forward")
    if not added.empty:
        rows.append(
            (
                "What the entropy adds to a forward pass, median",
                wording.change(float(added["y"].median())),
                wording.NONE,
            )
        )
    return pd.DataFrame(rows, columns=_COLUMNS)


Row = tuple[str, str, str]


def _two_passes(both: pd.DataFrame) -> list[Row]:
    """Two passes over one: the median over shapes, that over the PRs' kind of points, the span."""
    if both.empty:
        return []
    quotient = both["y"].astype(float)
    points = _over_points(both)
    cited = (
        f"{references.COMBINED_MEDIAN}{wording.TIMES} over "
        f"{wording.count(references.COMBINED_POINTS, 'point')}"
    )
    title = "Two passes over one combined pass, median"
    rows = [(title, _median(quotient, "shape"), wording.NONE if len(points) else cited)]
    if len(points):
        rows.append(("the same over layouts", _median(points, "point"), cited))
    return [*rows, ("least and most", _span(quotient), wording.NONE)]


def _over_points(both: pd.DataFrame) -> pd.Series:
    """The quotient at each point of ``references`` that a local shape stands for."""
    values = [
        float(row["y"])
        for row in frames.records(both)
        for tp, cp in references.COMBINED_SPLITS
        if row["model"] in references.COMBINED_MODELS
        and row["tp"] == tp
        and row["tokens"] * cp in references.COMBINED_TOKENS
    ]
    return pd.Series(values, dtype=float)


def _differentiable(both: pd.DataFrame) -> list[Row]:
    """Forward and backward in two passes over the combined ones: the span, and by activity."""
    active = both["params"].map(pairs.activity)
    title = "Differentiable entropy, forward and backward"
    whole = [("least and most", active.isna())] if active.isna().any() else []
    shares = sorted(active.dropna().unique(), reverse=True)
    parts = whole + [(f"{share:g} % of the rows active", active == share) for share in shares]
    low, high = references.DIFFERENTIABLE
    cited = f"{low} {wording.DASH} {high}{wording.TIMES} at all shares"
    # The PRs' figure is one of activity: beside the first of those, where there is one.
    place = len(whole) if shares else 0
    return [
        (
            f"{title}, {what}" if number == 0 else f"the same, {what}",
            _span(both["y"][rows].astype(float)),
            cited if number == place else wording.NONE,
        )
        for number, (what, rows) in enumerate(parts)
    ]


def errors(points: pd.DataFrame) -> pd.DataFrame:
    """Largest errors against the fp64 oracle, a row per benchmark."""

    def told(part: pd.DataFrame) -> str:
        return wording.error(float(part["value"].max()))

    return _by_benchmark(points, "accuracy", references.ERRORS, told)


def _by_benchmark(
    points: pd.DataFrame,
    family: str,
    reference: Mapping[str, tuple[str, str]],
    told: Callable[[pd.DataFrame], str],
) -> pd.DataFrame:
    """A row per benchmark of a family, in the order of its headings' list, its reference beside.

    ``reference`` has what the PRs call a figure and its value, by group; those that no benchmark
    measures come last.
    """
    found = points[(points["family"] == family) & points["value"].notna()]
    if found.empty:
        return pd.DataFrame(columns=_COLUMNS)
    known = list(wording.TITLES)
    parts = {str(group): part for group, part in found.groupby("group", sort=True)}
    order = sorted(parts, key=lambda group: known.index(group) if group in known else len(known))
    rows = []
    for group in order:
        name, value = reference.get(group, ("", wording.NONE))
        cited = f"{value} ({name})" if name else value
        rows.append((wording.family_title(group), told(parts[group]), cited))
    rows += [
        (name[:1].upper() + name[1:], wording.NONE, value)
        for group, (name, value) in reference.items()
        if group not in parts
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def ceiling(found: pairs.Families) -> pd.DataFrame:
    """Every family's time over the control's of its shape, with ``line`` and ``floor``.

    ``floor`` is what the products that a family cannot do without would take.
    """
    parts = []
    for family, products in measures.PRODUCTS.items():
        ratio = pairs.quotients(found, family, frames.CONTROL)
        if family != frames.CONTROL and not ratio.empty:
            parts.append(ratio.assign(line=ratio["heading"], floor=products))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def beside_the_ceiling(found: pairs.Families) -> int:
    """How many series :func:`ceiling` leaves out, their control measured on another card."""
    families = (family for family in measures.PRODUCTS if family != frames.CONTROL)
    return sum(pairs.on_other_cards(found, family, frames.CONTROL) for family in families)


def to_ceiling(found: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean and worst of each family's ratio to the control, for a table."""
    rows = []
    for line, part in found.groupby("line", sort=False):
        y = part["y"].astype(float)
        part = part[(y > 0) & (y < math.inf)]  # a time of 0 says nothing
        if part.empty:
            continue
        y = y[part.index]
        worst = frames.records(part[y == y.max()])[0]
        rows.append(
            {
                "Benchmark": line,
                "Shapes": len(part),
                "Geometric mean": wording.ratio(math.exp(y.map(math.log).mean())),
                "Worst": wording.ratio(float(y.max())),
                "Worst at": worst["shape"],
                "Floor": f"{wording.TIMES}{int(part['floor'].iloc[0])}",
            }
        )
    return pd.DataFrame(rows)


def _percent(value: float) -> str:
    return f"{value:+.2f} %".replace("-", wording.MINUS)


def _median(values: pd.Series, of: str) -> str:
    return f"{values.median():.2f}{wording.TIMES} over {wording.count(len(values), of)}"


def _span(values: pd.Series) -> str:
    if len(values) == 1:
        return f"{values.iloc[0]:.2f}{wording.TIMES} over 1 shape"
    return f"{values.min():.2f} {wording.DASH} {values.max():.2f}{wording.TIMES}"
