"""A check report as the Overview shows it: headline, problems, table; no streamlit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, Protocol

import pandas as pd

from dashboard.acknowledged import Acknowledgement
from dashboard.app import frames, naming, relations, sizes, wording
from dashboard.models import CheckReport, Series, SeriesVerdict, Verdict

SeriesKey = tuple[str, str, str, str]
"""Benchmark, parameters as text, machine, environment: the same in frames and in records."""

Accepted = Mapping[Series, Acknowledgement]
"""The entry that accepts what became of a series."""

Level = Literal["bad", "unsure", "good"]

# Counted even where there are none: a zero is what one hopes to read here.
ALWAYS_COUNTED = (
    Verdict.REGRESSED,
    Verdict.FAILED,
    Verdict.MISSING,
    Verdict.INCONCLUSIVE,
    Verdict.IMPROVED,
    Verdict.UNCHANGED,
)


@dataclass(frozen=True, slots=True)
class Headline:
    """Whether to worry, in one line."""

    level: Level
    text: str


def headline(report: CheckReport, accepted: Accepted | None = None) -> Headline:
    """The line at the top: what is wrong first, the worst case by name.

    What an entry accepts is counted apart and worries nobody.
    """
    total = len(report.verdicts)
    all_series = wording.count(total, "series", "series")
    accepted = accepted or {}
    new = [v for v in report.verdicts if v.series not in accepted]
    bad = []
    regressed = [v for v in new if v.verdict is Verdict.REGRESSED]
    if regressed:
        bad.append(f"{len(regressed)} of {all_series} regressed")
    for verdict in (Verdict.FAILED, Verdict.MISSING):
        count = sum(v.verdict is verdict for v in new)
        if count:
            of = "" if bad else f" of {all_series}"
            bad.append(f"{count}{of} {verdict.value}")
    unsure = report.count(Verdict.INCONCLUSIVE)
    apart = report.count(Verdict.NOT_COMPARABLE)
    improved = report.count(Verdict.IMPROVED)
    tail = [f"{len(accepted)} acknowledged"] if accepted else []
    tail += [f"{improved} improved"] if improved else []
    if apart:
        tail.append(f"{apart} not comparable, since something beside the code changed")
    if bad:
        tail = [f"{unsure} inconclusive", *tail] if unsure else tail
        worst = max(regressed, key=lambda v: v.ratio or 0.0, default=None)
        named = "" if worst is None else f" Worst: {title(worst)}, {sizes.ratio_and_change(worst)}."
        return Headline("bad", ", ".join([*bad, *tail]) + "." + named)
    if unsure:
        vague = f"No regression seen, but {unsure} of {all_series} inconclusive"
        return Headline("unsure", ", ".join([vague, *tail]) + ".")
    if apart == total and total:
        return Headline("unsure", f"Nothing to compare: {tail[-1]}.")
    if not total:
        return Headline("unsure", "These two commits have no series in common.")
    fresh = report.count(Verdict.NEW)
    if fresh == total:
        return Headline("unsure", f"Nothing to compare: {all_series} new.")
    tail += [f"{fresh} new"] if fresh else []
    tail += [f"{report.left_out} not measured at head"] if report.left_out else []
    compared = wording.count(total - fresh, "series", "series")
    return Headline(
        "unsure" if report.left_out > total - fresh else "good",
        ", ".join([f"No {'further ' if accepted else ''}regression in {compared}", *tail]) + ".",
    )


def title(said: OfSeries) -> str:
    """``Forward + entropy, nemotron-super · 8,192 tokens · TP 1``."""
    row = cells_of(said)
    return ", ".join(part for part in (row["heading"], row["shape"]) if part)


class OfSeries(Protocol):
    """A verdict or a change: something said of one series."""

    @property
    def series(self) -> Series:
        """The series."""


def cells_of(said: OfSeries) -> dict[str, Any]:
    """What ``frames.describe`` says of a series."""
    series = said.series
    cells: dict[str, Any] = {
        "group": naming.group_of(series.family, series.benchmark, series.model),
        "model": series.model,
        "tokens": series.tokens,
        "tp": series.tp,
        "params": dict(series.params),
        "place": frames.place(series.machine, series.environment),
    }
    cells["heading"] = wording.family_title(cells["group"])
    cells["shape"] = naming.shape_of(series.model, series.tokens, series.tp, cells["params"])
    return cells


def problems(report: CheckReport) -> list[tuple[str, str, str]]:
    """Failed and missing series: verdict in words, series, reason."""
    return [
        (wording.verdict_words(v.verdict), title(v), v.reason)
        for v in report.verdicts
        if v.verdict in (Verdict.FAILED, Verdict.MISSING)
    ]


def ratio_frame(report: CheckReport) -> pd.DataFrame:
    """The compared series for :func:`dashboard.app.ratio_chart.ratios`, in the report's order."""
    rows = []
    several = len({(v.series.machine, v.series.environment) for v in report.verdicts}) > 1
    for verdict in report.verdicts:
        if verdict.ratio is None:
            continue
        cells = cells_of(verdict)
        base, head = sizes.sides(verdict)
        rows.append(
            {
                "heading": cells["heading"],
                "row": f"{cells['shape']} · {cells['place']}" if several else cells["shape"],
                "verdict": verdict.verdict.value.replace("_", " "),
                "ratio": verdict.ratio,
                "low": verdict.low,
                "high": verdict.high,
                "shown_base": base,
                "shown_head": head,
                "shown_ratio": sizes.ratio_and_change(verdict),
                "shown_interval": wording.ratio_interval(verdict.low, verdict.high),
                "reason": verdict.reason,
            }
        )
    return pd.DataFrame(rows)


def histories(recent: pd.DataFrame, machine: str) -> dict[SeriesKey, list[float]]:
    """The values of ``queries.recent_values`` by :func:`series_key`."""
    return {
        (
            str(row["benchmark"]),
            frames.params_text(json.loads(row["params"])),
            machine,
            str(row["environment"]),
        ): [float(value) for value in row["values"]]
        for row in recent.to_dict("records")
    }


def series_key(said: OfSeries) -> SeriesKey:
    """What identifies a series in frames as well as in records."""
    series = said.series
    params = frames.params_text(dict(series.params))
    return series.benchmark, params, series.machine, series.environment


def first_shapes(ratios: pd.DataFrame, most: int) -> pd.DataFrame:
    """The rows of the ``most`` shapes that come first, which are those with the worst series."""
    shapes = ratios["row"].drop_duplicates().head(most)
    return ratios[ratios["row"].isin(shapes)]


def worst(report: CheckReport, accepted: Accepted) -> list[SeriesVerdict]:
    """The series that need a look: regressed, failed and missing, worst first; what an entry
    accepts comes last."""
    wanted = (Verdict.REGRESSED, Verdict.FAILED, Verdict.MISSING)
    found = [v for v in report.verdicts if v.verdict in wanted]
    return sorted(found, key=lambda verdict: verdict.series in accepted)


def containing(verdicts: Sequence[SeriesVerdict], asked: str) -> list[SeriesVerdict]:
    """The verdicts in whose name, shape, machine or word every word of ``asked`` occurs."""
    words = asked.casefold().split()
    if not words:
        return list(verdicts)
    texts = []
    for verdict in verdicts:
        cells = cells_of(verdict)
        told = [verdict.series.label, cells["heading"], cells["shape"], cells["place"]]
        texts.append(" ".join([*told, wording.verdict_words(verdict.verdict)]).casefold())
    return [v for v, text in zip(verdicts, texts, strict=True) if all(w in text for w in words)]


_LEAST_SPAN, _MOST_SPAN = 0.05, 0.5


def sparkline_span(histories: Sequence[Sequence[float]]) -> float:
    """How far the sparklines' common scale reaches to either side of 1."""
    reach = max((abs(value - 1) for history in histories for value in history), default=0.0)
    return min(max(reach, _LEAST_SPAN), _MOST_SPAN)


def _relative(history: Sequence[float]) -> list[float]:
    """A history over its median, so that all sparklines share one scale."""
    middle = median(history) if history else 0.0
    return [value / middle for value in history] if middle > 0 else []


def accepted_by(entry: Acknowledgement) -> str:
    """``acknowledged by Ada: needed for convergence``."""
    return f"acknowledged by {entry.author}: {entry.reason}"


def table(
    verdicts: Sequence[SeriesVerdict],
    history: Mapping[SeriesKey, list[float]],
    accepted: Accepted | None = None,
) -> pd.DataFrame:
    """One row a series, in the order given; ``accepted`` is told beside the reason.

    Columns that would be empty throughout (model, tokens and TP of another
    suite) are left out; ``Unit`` is for formatting and not meant to be shown.
    """
    rows = []
    for verdict in verdicts:
        cells = cells_of(verdict)
        beside = naming.beside(dict(verdict.series.params), typed=cells["model"] is not None)
        entry = (accepted or {}).get(verdict.series)
        told = [] if entry is None else [f"✓ {accepted_by(entry)}"]
        rows.append(
            {
                "Verdict": wording.verdict_words(verdict.verdict),
                "Trend": "open",
                "Benchmark": cells["heading"],
                "Model": cells["model"],
                "Tokens": cells["tokens"],
                "TP": cells["tp"],
                "Parameters": beside or None,
                "Environment": cells["place"],
                "Base": verdict.base,
                "Head": verdict.head,
                "Ratio": verdict.ratio,
                "95 % interval": wording.ratio_interval(verdict.low, verdict.high),
                "History": _relative(history.get(series_key(verdict), [])),
                "Because": "; ".join([*told, verdict.reason]),
                "Unit": verdict.series.unit,
            }
        )
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame
    optional = ["Model", "Tokens", "TP", "Parameters"]
    frame = frame.drop(columns=[c for c in optional if frame[c].isna().all()])
    for column in {"Tokens", "TP"} & set(frame.columns):
        frame[column] = frame[column].astype("Int64")
    if frame["Environment"].nunique() == 1:
        frame = frame.drop(columns="Environment")
    if frame["95 % interval"].eq(wording.NONE).all():
        frame = frame.drop(columns="95 % interval")
    return frame


def values(points: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """The measurements of a single commit, with their ratio to the control where there is one."""
    shown = frames.hover(relations.relative_to_control(points, controls))
    frame = pd.DataFrame(
        {
            "Benchmark": shown["heading"],
            "Shape": shown["shape"],
            "Environment": shown["place"],
            "Status": shown["state"],
            "Value": shown["shown_value"],
            "Interval": shown["shown_interval"],
            "To control": shown["shown_y"],
            "Rounds": shown["n"],
            "Reason": shown["why"],
        }
    )
    empty = [c for c in ("To control", "Reason") if frame[c].eq(wording.NONE).all()]
    if frame["Environment"].nunique() == 1:
        empty.append("Environment")
    return frame.drop(columns=empty)
