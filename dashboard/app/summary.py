"""A check report as the Overview shows it: headline, problems, table; no streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from dashboard.app import frames, wording
from dashboard.models import CheckReport, SeriesVerdict, Verdict

SeriesKey = tuple[str, str, str, str]
"""Benchmark, parameters as text, machine, environment: the same in frames and in records."""

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
_LONGEST_HISTORY = 40


@dataclass(frozen=True, slots=True)
class Headline:
    """Whether to worry, in one line."""

    level: Level
    text: str


def headline(report: CheckReport) -> Headline:
    """The line at the top: what is wrong first, the worst case by name."""
    total = len(report.verdicts)
    all_series = wording.count(total, "series", "series")
    bad = []
    regressed = [v for v in report.verdicts if v.verdict is Verdict.REGRESSED]
    if regressed:
        bad.append(f"{len(regressed)} of {all_series} regressed")
    bad += [
        f"{report.count(verdict)} {verdict.value}"
        for verdict in (Verdict.FAILED, Verdict.MISSING)
        if report.count(verdict)
    ]
    unsure = report.count(Verdict.INCONCLUSIVE)
    improved = report.count(Verdict.IMPROVED)
    tail = [f"{improved} improved"] if improved else []
    if bad:
        tail = [f"{unsure} inconclusive", *tail] if unsure else tail
        worst = max(regressed, key=lambda v: v.ratio or 0.0, default=None)
        named = "" if worst is None else f" Worst: {title(worst)}, {_size(worst)}."
        return Headline("bad", ", ".join([*bad, *tail]) + "." + named)
    if unsure:
        vague = f"No regression seen, but {unsure} of {all_series} inconclusive"
        return Headline("unsure", ", ".join([vague, *tail]) + ".")
    if not total:
        return Headline("unsure", "These two commits have no series in common.")
    return Headline(
        "good",
        ", ".join([f"No regression in {all_series}", *tail]) + ".",
    )


def _size(verdict: SeriesVerdict) -> str:
    if verdict.ratio is None:
        return verdict.reason
    return wording.ratio_and_change(verdict.ratio)


def title(verdict: SeriesVerdict) -> str:
    """``Forward + entropy, nemotron-super · 8,192 tokens · TP 1``."""
    row = _series_cells(verdict)
    return ", ".join(part for part in (row["heading"], row["shape"]) if part)


def _series_cells(verdict: SeriesVerdict) -> dict[str, Any]:
    series = verdict.series
    cells: dict[str, Any] = {
        "group": series.family or series.benchmark,
        "model": series.model,
        "tokens": series.tokens,
        "tp": series.tp,
        "params": dict(series.params),
        "place": f"{series.machine} · {series.environment}",
    }
    cells["heading"] = wording.family_title(cells["group"])
    cells["shape"] = frames.shape_of(cells)
    return cells


def problems(report: CheckReport) -> list[tuple[str, str, str]]:
    """Failed and missing series: verdict in words, series, reason."""
    return [
        (wording.verdict_words(v.verdict), title(v), v.reason)
        for v in report.verdicts
        if v.verdict in (Verdict.FAILED, Verdict.MISSING)
    ]


def ratio_frame(report: CheckReport) -> pd.DataFrame:
    """The compared series for :func:`dashboard.app.charts.ratios`."""
    rows = []
    several = len({(v.series.machine, v.series.environment) for v in report.verdicts}) > 1
    for verdict in report.verdicts:
        if verdict.ratio is None:
            continue
        cells = _series_cells(verdict)
        unit = verdict.series.unit
        rows.append(
            {
                "heading": cells["heading"],
                "row": f"{cells['shape']} · {cells['place']}" if several else cells["shape"],
                "verdict": verdict.verdict.value.replace("_", " "),
                "ratio": verdict.ratio,
                "low": verdict.low,
                "high": verdict.high,
                "shown_base": wording.quantity(verdict.base, unit),
                "shown_head": wording.quantity(verdict.head, unit),
                "shown_ratio": wording.ratio_and_change(verdict.ratio),
                "shown_interval": wording.ratio_interval(verdict.low, verdict.high),
                "reason": verdict.reason,
            }
        )
    return pd.DataFrame(rows)


def histories(points: pd.DataFrame) -> dict[SeriesKey, list[float]]:
    """Each series' latest values in graph order, keyed by :func:`series_key`."""
    found: dict[SeriesKey, list[float]] = {}
    columns = ["benchmark", "params", "machine", "environment", "value"]
    for row in points.loc[points["value"].notna(), columns].to_dict("records"):
        params = frames.params_text(row["params"])
        key = (str(row["benchmark"]), params, str(row["machine"]), str(row["environment"]))
        found.setdefault(key, []).append(float(row["value"]))
    return {key: values[-_LONGEST_HISTORY:] for key, values in found.items()}


def series_key(verdict: SeriesVerdict) -> SeriesKey:
    """What identifies a series in frames as well as in records."""
    series = verdict.series
    params = frames.params_text(dict(series.params))
    return series.benchmark, params, series.machine, series.environment


def table(
    verdicts: Sequence[SeriesVerdict],
    history: Mapping[SeriesKey, list[float]],
    link: Any,
) -> pd.DataFrame:
    """One row a series, in the order given; ``link`` maps a row's cells to an address.

    Columns that would be empty throughout (model, tokens and TP of another
    suite) are left out; ``Unit`` is for formatting and not meant to be shown.
    """
    rows = []
    for verdict in verdicts:
        cells = _series_cells(verdict)
        typed = cells["model"] is not None
        rows.append(
            {
                "Verdict": wording.verdict_words(verdict.verdict),
                "Benchmark": cells["heading"],
                "Model": cells["model"],
                "Tokens": cells["tokens"],
                "TP": cells["tp"],
                "Parameters": None if typed else cells["shape"] or None,
                "Environment": cells["place"],
                "Base": verdict.base,
                "Head": verdict.head,
                "Ratio": verdict.ratio,
                "95 % interval": wording.ratio_interval(verdict.low, verdict.high),
                "History": history.get(series_key(verdict), []),
                "Trend": link(cells),
                "Because": verdict.reason,
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
    shown = frames.hover(frames.relative_to_control(points, controls))
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
