"""Colours, point shapes and dashes: what tells lines and verdicts apart.

Nothing is told by colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.models import Verdict


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one theme: Okabe and Ito's, adjusted to the page's brightness."""

    lines: tuple[str, ...]
    bad: str
    good: str
    unsure: str
    muted: str
    text: str
    grid: str
    pale: str
    paper: str


LIGHT = Palette(
    lines=(
        "#0072b2",
        "#d55e00",
        "#009e73",
        "#aa4499",
        "#b8860b",
        "#56b4e9",
        "#555555",
        "#882255",
    ),
    bad="#c4420a",
    good="#0072b2",
    unsure="#8a6d00",
    muted="#7a8594",
    text="#1b2430",
    grid="#e3e7ed",
    pale="#f0f2f6",
    paper="#ffffff",
)
DARK = Palette(
    lines=(
        "#5aa9e6",
        "#f08a4b",
        "#3ec9a0",
        "#d98fc4",
        "#f0c24b",
        "#9bd3f5",
        "#b8c0cc",
        "#e07a9b",
    ),
    bad="#f08a4b",
    good="#5aa9e6",
    unsure="#f0c24b",
    muted="#8d99a8",
    text="#e4e9f0",
    grid="#2a3340",
    pale="#222b37",
    paper="#11161d",
)

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "stroke", "arrow")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3], [10, 4], [3, 1])
MOST_LINES = len(SHAPES)
"""Lines of one panel that can still be told apart."""

VERDICT_STYLE: dict[Verdict, tuple[str, str]] = {
    Verdict.REGRESSED: ("bad", "triangle-up"),
    Verdict.IMPROVED: ("good", "triangle-down"),
    Verdict.INCONCLUSIVE: ("unsure", "diamond"),
    Verdict.UNCHANGED: ("muted", "circle"),
}


def verdict_colour(verdict: Verdict, palette: Palette) -> str:
    """The colour of a verdict's word; failures and losses look as bad as a regression."""
    if verdict in (Verdict.FAILED, Verdict.MISSING):
        return palette.bad
    return str(getattr(palette, VERDICT_STYLE.get(verdict, ("muted", ""))[0]))
