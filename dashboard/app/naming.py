"""What a series is called on the pages: its group, its heading, its local shape; no pandas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard.app import wording

SHAPE = ("model", "tokens", "tp")
CONTROL = "control"

# Families whose benchmarks measure different things: each benchmark is a group of its own.
_SEVERAL = frozenset({"compile", "accuracy", "memory", "parallel"})
_PERCENT = "active"


def group_of(family: str | None, benchmark: str, model: str | None) -> str:
    """The group of a series: its family, or its benchmark where that says more."""
    if family is None:
        return benchmark
    if family in _SEVERAL or (family == CONTROL and model is None):
        return benchmark.rsplit(".", 1)[0]
    return family


def shape_of(
    model: str | None, tokens: int | None, tp: int | None, params: Mapping[str, Any] | None
) -> str:
    """The label of a local shape with the parameters beside it; of all of another suite's."""
    label = wording.shape_label(model, tokens, tp)
    rest = beside(params or {}, typed=bool(label))
    return " · ".join(part for part in (label, rest) if part)


def beside(params: Mapping[str, Any], *, typed: bool) -> str:
    """The parameters beside the shape as text; all of them for a series that has none."""
    told = [
        f"{value} % active" if typed and name == _PERCENT else f"{name}={value}"
        for name, value in params.items()
        if not typed or name not in SHAPE
    ]
    return (" · " if typed else ", ").join(told)
