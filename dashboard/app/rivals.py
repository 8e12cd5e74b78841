"""Two schedules side by side: the same work on the same shape under each; no streamlit."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dashboard.app import frames, pairs, relations, tuning, wording

# The same work under a schedule that is not chosen but given.
_SAME_WORK = {"fixed": "forward_entropy", "fixed_three_stages": "forward_entropy"}


def schedules(found: pd.DataFrame) -> list[str]:
    """The tiles of ``data.by_schedule``, those of most series first."""
    counted = found["schedule"].map(tuning.tile).value_counts()
    return sorted(map(str, counted.index), key=lambda text: (-int(counted[text]), text))


def first_pair(found: pd.DataFrame, options: list[str]) -> tuple[str, str]:
    """The two schedules to compare at first: those with the most work in common."""
    have = {text: set(_by_work(found, text)) for text in options}
    pairs_of = [(a, b) for i, a in enumerate(options) for b in options[i + 1 :]]
    return max(pairs_of, key=lambda pair: len(have[pair[0]] & have[pair[1]]))


def table(found: pd.DataFrame, one: str, other: str) -> pd.DataFrame:
    """``other`` over ``one`` for all work that both have done, each at its newest commit.

    Numbers: ``One`` and ``Other`` in ``Unit``, and ``Ratio`` with its interval.
    """
    sides = [_by_work(found, text) for text in (one, other)]
    both = [(sides[0][work], sides[1][work]) for work in sides[0] if work in sides[1]]
    if not both:
        return pd.DataFrame()
    both.sort(key=lambda pair: (_work_of(pair[0]), str(pair[0]["shape"])))
    related = relations.quotient(
        _numbers([second for _, second in both]),
        *(_numbers([first for first, _ in both])[name] for name in ("value", "low", "high")),
    )
    rows = []
    for (first, second), ratio in zip(both, frames.records(related), strict=True):
        rows.append(
            {
                "Benchmark": wording.family_title(_work_of(first)),
                "Shape": first["shape"],
                "One": frames.number(first["value"]),
                "Other": frames.number(second["value"]),
                "Unit": str(first["unit"]),
                "Ratio": frames.number(ratio["y"]),
                "Low": frames.number(ratio["y_low"]),
                "High": frames.number(ratio["y_high"]),
                "One at": wording.short_hash(first["commit"]),
                "Other at": wording.short_hash(second["commit"]),
            }
        )
    return pd.DataFrame(rows)


def _numbers(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(
        {name: [row[name] for row in rows] for name in ("value", "low", "high")}, dtype=float
    )


def _work_of(row: dict[str, Any]) -> str:
    return _SAME_WORK.get(str(row["group"]), str(row["group"]))


def _by_work(found: pd.DataFrame, text: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The newest row under a schedule by what was computed, where and on which shape."""
    mine = found[found["schedule"].map(tuning.tile) == text].sort_values("turn", kind="stable")
    return {
        (
            _work_of(row),
            *(row[name] if frames.known(row[name]) else None for name in frames.SHAPE),
            pairs.rest_of(row["params"]),
            row["environment"],
        ): row
        for row in frames.records(mine)
    }
