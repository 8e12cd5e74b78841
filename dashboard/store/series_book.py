"""The series known so far: identity from asv, typed columns from definitions and rounds."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from dashboard.asv_results import AsvDefinition
from dashboard.models import Series
from dashboard.rounds import RoundLine
from dashboard.store.tables import identifier

_Kind = TypeVar("_Kind")
_QUOTED = tuple(re.compile(pattern) for pattern in (r"^u?'(.+)'$", r"^<class '(.+)'>$"))


class SeriesBook:
    """Finds or makes the row of a series; `changed` lists the rows to be written."""

    def __init__(
        self, rows: Mapping[int, dict[str, Any]], definitions: Iterable[AsvDefinition]
    ) -> None:
        self._rows = dict(rows)
        self._definitions = {entry.name: entry for entry in definitions}
        self._changed: set[int] = set()

    @property
    def changed(self) -> list[dict[str, Any]]:
        """New and changed rows."""
        return [self._rows[number] for number in sorted(self._changed)]

    def define(self, definitions: Iterable[AsvDefinition]) -> None:
        """Take new benchmark definitions; known series follow them."""
        fresh = {
            entry.name: entry for entry in definitions if self._definitions.get(entry.name) != entry
        }
        self._definitions |= fresh
        for number, row in self._rows.items():
            if row["benchmark"] in fresh:
                self._update(number, self._described(row, None))

    def identify(
        self, benchmark: str, values: Sequence[str], machine: str, environment: str
    ) -> int:
        """The series' number; the row is made if it is new."""
        number = identifier(benchmark, machine, environment, *values)
        if number not in self._rows:
            row = {
                "series_id": number,
                "benchmark": benchmark,
                "param_values": list(values),
                "machine": machine,
                "environment": environment,
                "higher_is_better": False,
            }
            self._rows[number] = {**row, **self._described(row, None)}
            self._changed.add(number)
        return number

    def learn(self, number: int, line: RoundLine) -> None:
        """Take over what a round knows of its series."""
        row = self._rows[number]
        known = {
            "family": line.family,
            "m": line.m,
            "h": line.h,
            "v": line.v,
            "entropy": line.entropy,
        }
        news = {key: value for key, value in known.items() if value is not None}
        news["higher_is_better"] = line.higher_is_better
        if row.get("unit") is None and line.unit is not None:
            news["unit"] = line.unit
        if row["benchmark"] not in self._definitions:
            news |= self._described(row, [name for name, _ in line.params])
        self._update(number, news)

    def _update(self, number: int, news: Mapping[str, Any]) -> None:
        row = self._rows[number]
        if any(row.get(key) != value for key, value in news.items()):
            self._rows[number] = {**row, **news}
            self._changed.add(number)

    def _described(self, row: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
        """Names, label, unit and typed parameters of a series."""
        definition = self._definitions.get(row["benchmark"])
        values = row["param_values"]
        unit = row.get("unit")
        if definition is not None:
            names = definition.param_names
            unit = definition.unit or unit
        if names is None or len(names) != len(values):
            # what asv itself calls parameters without a name
            names = [f"param{index}" for index in range(1, len(values) + 1)]
        named = dict(zip(names, values, strict=True))
        shown = {name: displayed(value) for name, value in named.items()}
        record = Series(
            row["benchmark"], tuple(shown.items()), row["machine"], row["environment"], ""
        )
        return {
            "params": json.dumps(shown, ensure_ascii=False),
            "label": record.label,
            "unit": unit,
            "model": _typed(named.get("model"), str),
            "tokens": _typed(named.get("tokens"), int),
            "tp": _typed(named.get("tp"), int),
        }


def displayed(value: str) -> str:
    """A parameter's repr as a reader wants it: text without its quotes."""
    for pattern in _QUOTED:
        match = pattern.match(value)
        if match and match.group(1).strip():
            return match.group(1)
    return value


def _typed(value: str | None, kind: type[_Kind]) -> _Kind | None:
    """The value of a parameter's repr if it is of that kind."""
    if value is None:
        return None
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return found if type(found) is kind else None
