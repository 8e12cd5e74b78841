"""A chart of each regressed series over its history, as an image file.

Drawn with Altair; vl-convert (the extra ``charts``) makes an image of it without a browser.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dashboard.errors import InputError
from dashboard.models import Series
from dashboard.verdicts.reports.wording import one_line

_WIDTH, _HEIGHT = 560, 200
_SCALE = 2.0
_LONGEST = 100  # characters of a title; more widen the picture

# Blue and vermilion of Okabe and Ito, which the colour-blind tell apart; shapes differ too.
_COLOURS = {"history": "#0072B2", "base": "#0072B2", "head": "#D55E00"}
_SHAPES = {"history": "circle", "base": "square", "head": "triangle-up"}

SUFFIXES = (".png", ".svg")


@dataclass(frozen=True, slots=True)
class Curve:
    """A series' commits and values (in its unit), in order, with the two that are compared."""

    series: Series
    points: tuple[tuple[str, float], ...]
    base: str
    head: str


def file_name(series: Series, suffix: str) -> str:
    """A name that no other series has, of characters that every system and address takes."""
    identity = "\0".join([series.label, series.machine, series.environment])
    return f"{hashlib.sha256(identity.encode(errors='surrogatepass')).hexdigest()[:16]}{suffix}"


def can_draw() -> bool:
    """Whether vl-convert is installed."""
    return find_spec("vl_convert") is not None


def write_charts(curves: Sequence[Curve], folder: Path, suffix: str = ".png") -> dict[Series, str]:
    """Write an image for each curve; returns the files' names.

    A curve that vl-convert cannot draw has none. Raises InputError where the folder cannot be
    written, or vl-convert is missing.
    """
    if not can_draw():
        raise InputError("charts need vl-convert: pip install 'fused-lmhead[charts]'")
    names: dict[Series, str] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for curve in curves:
            name = file_name(curve.series, suffix)
            with suppress(ValueError):  # as vl-convert calls all that it cannot draw
                chart(curve).save(folder / name, scale_factor=_SCALE)
                names[curve.series] = name
    except OSError as error:
        raise InputError(f"cannot write charts to {folder}: {error.strerror}") from error
    return names


def chart(curve: Curve) -> Any:
    """An Altair chart: the history as a line, base and head by colour, shape and name."""
    import altair as alt

    rows = [
        {"commit": _text(commit)[:8], "value": value, "is": _role(curve, commit)}
        for commit, value in curve.points
    ]
    roles = list(_COLOURS)
    order = [_text(commit)[:8] for commit, _ in curve.points]
    x = alt.X("commit:N", sort=order, title="commit", axis=alt.Axis(labelOverlap=True))
    y = alt.Y("value:Q", title=_text(curve.series.unit), scale=alt.Scale(zero=False))
    data = alt.InlineData(values=rows)
    line = alt.Chart(data).mark_line(color=_COLOURS["history"], opacity=0.4).encode(x=x, y=y)
    points = (
        alt.Chart(data)
        .mark_point(filled=True, size=60)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "is:N", title=None, scale=alt.Scale(domain=roles, range=list(_COLOURS.values()))
            ),
            shape=alt.Shape(
                "is:N", title=None, scale=alt.Scale(domain=roles, range=list(_SHAPES.values()))
            ),
        )
    )
    title = alt.TitleParams(
        _text(curve.series.label),
        subtitle=_text(f"{curve.series.machine}, {curve.series.environment}"),
        anchor="start",
    )
    return (line + points).properties(width=_WIDTH, height=_HEIGHT, title=title)


def _text(text: str) -> str:
    """``text`` that can be drawn: a control character aborts the process of vl-convert.

    Vega reads escapes in some texts, so that a backslash could make one again.
    """
    flat = one_line(text).replace("\\", "/")
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 1]}…"


def _role(curve: Curve, commit: str) -> str:
    return {curve.base: "base", curve.head: "head"}.get(commit, "history")
