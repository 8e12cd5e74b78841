"""The size of a verdict in words: of what is exact its difference, however small; no streamlit."""

from __future__ import annotations

from dashboard.app import wording
from dashboard.models import SeriesVerdict


def _difference(verdict: SeriesVerdict) -> float | None:
    """Head less base of a quantity of which any difference counts; None of any other, or of 0."""
    if verdict.threshold != 0 or verdict.base is None or verdict.head is None:
        return None
    return verdict.head - verdict.base or None


def change(verdict: SeriesVerdict) -> str:
    """``+4.3 %``, ``+16 bytes (+0.01 %)``; the reason where there is no ratio."""
    if verdict.ratio is None:
        return verdict.reason
    difference = _difference(verdict)
    if difference is None:
        return wording.change(verdict.ratio)
    shown = f"{difference:+,.12g} {verdict.series.unit}".replace("-", wording.MINUS).rstrip()
    return f"{shown} ({wording.level_change(verdict.ratio)})"


def ratio_and_change(verdict: SeriesVerdict) -> str:
    """``×1.043 (+4.3 %)``, ``+16 bytes (+0.01 %)``; the reason where there is no ratio."""
    if verdict.ratio is None or _difference(verdict) is not None:
        return change(verdict)
    return wording.ratio_and_change(verdict.ratio)


def sides(verdict: SeriesVerdict) -> tuple[str, str]:
    """Base and head, ``12.6 ms``; with all of their digits where a difference of theirs counts."""
    if _difference(verdict) is None:
        return (
            wording.quantity(verdict.base, verdict.series.unit),
            wording.quantity(verdict.head, verdict.series.unit),
        )
    base, head = (f"{side:,.12g} {verdict.series.unit}" for side in (verdict.base, verdict.head))
    return base.rstrip(), head.rstrip()
