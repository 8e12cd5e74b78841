"""What may explain a step: schedule, registers, spills, memory, control; no streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboard.app import frames, relations, tuning, wording

KERNELS = ("compile.Registers", "compile.Spills", "compile.SharedMemory")
"""Groups that tell what the kernels of a commit take of a multiprocessor."""

_COLUMNS = ["What", "Change", "Before", "Now"]
_RATIO = "Ratio to the control"


def companions(series: pd.DataFrame, row: Mapping[str, Any]) -> pd.DataFrame:
    """The series that explain ``row``'s: its shape's control, and its place's kernel figures.

    Of several shapes with kernel figures those of the same model, where there are any.
    """
    here = series[series["place"] == row["place"]]
    control = here[(here["group"] == frames.CONTROL) & _same(here, row, frames.SHAPE)]
    kernels = here[here["group"].isin(KERNELS)]
    alike = kernels[_same(kernels, row, ["model"])]
    kernels = (alike if len(alike) else kernels).drop_duplicates("group")
    if row["group"] == frames.CONTROL:
        control = control.iloc[:0]
    found: pd.DataFrame = pd.concat([control, kernels])
    return found


def _same(frame: pd.DataFrame, row: Mapping[str, Any], names: list[str]) -> pd.Series:
    found = pd.Series(True, index=frame.index)
    for name in names:
        found &= (frame[name] == row[name]) if frames.known(row[name]) else frame[name].isna()
    return found


def table(before: Mapping[str, Any], now: Mapping[str, Any], others: pd.DataFrame) -> pd.DataFrame:
    """A row per explanation that is known on either side; ``others`` are the companions' points."""
    rows: list[tuple[str, ...]] = []
    old, new = _text(before["schedule"]), _text(now["schedule"])
    if old is not None or new is not None:
        changed = wording.schedule_change(old, new)
        rows.append(("Schedule", changed or "none", tuning.tile(old), tuning.tile(new)))
    for group, part in others.groupby("group", sort=False):
        sides = [_value(part, str(side["commit"])) for side in (before, now)]
        unit = str(part["unit"].iloc[0])
        if group == frames.CONTROL:
            ratios = [_over(side, part) for side in (before, now)]
            if unit == now["unit"]:
                rows.append((_RATIO, _change(*ratios), *map(wording.ratio, ratios)))
            name = "Control itself"
        else:
            name = f"{part['heading'].iloc[0]} ({part['shape'].iloc[0]})"
        rows.append((name, _change(*sides), *(wording.quantity(side, unit) for side in sides)))
    known = [row for row in rows if {row[2], row[3]} != {wording.NONE}]
    return pd.DataFrame(known, columns=_COLUMNS)


def _text(cell: object) -> str | None:
    return str(cell) if frames.known(cell) else None


def _value(points: pd.DataFrame, commit: str) -> float | None:
    found = points["value"][points["commit"] == commit]
    return None if found.empty else frames.number(found.iloc[-1])


def _over(row: Mapping[str, Any], controls: pd.DataFrame) -> float | None:
    alike = [relations.same_card(row["gpu_uuid"], card) for card in controls["gpu_uuid"]]
    value, control = frames.number(row["value"]), _value(controls[alike], str(row["commit"]))
    return value / control if value is not None and control else None


def _change(before: float | None, now: float | None) -> str:
    if before is None or now is None:
        return wording.NONE
    if before == 0:
        return "none" if now == 0 else wording.NONE
    return wording.change(now / before)
