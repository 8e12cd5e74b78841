"""The series known so far: identity from asv, typed columns from definitions and rounds."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from dashboard.asv_results import AsvDefinition
from dashboard.models import Series
from dashboard.store import queries, tables
from dashboard.store.connect import Store
from dashboard.store.tables import identifier

_Kind = TypeVar("_Kind")
_QUOTED = tuple(re.compile(pattern) for pattern in (r"^u?'(.+)'$", r"^<class '(.+)'>$"))
# A suite may have millions of parameter combinations: no more than these are held at once.
_MOST_ROWS = 100_000


class SeriesBook:
    """Finds or makes the rows of series.

    `identify` only gives the number; `settle` must follow before anything is learned of the
    series, and `flush` writes what is new or changed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        found = [AsvDefinition(**row) for row in queries.benchmark_rows(store)]
        self._definitions = {entry.name: entry for entry in found}
        self._numbers: dict[tuple[str, str, str], dict[tuple[str, ...], int]] = {}
        self._fresh: dict[int, tuple[str, tuple[str, ...], str, str]] = {}
        self._rows: dict[int, dict[str, Any]] = {}
        self._changed: set[int] = set()

    def define(self, definitions: Iterable[AsvDefinition]) -> None:
        """Take new benchmark definitions; known series follow them."""
        fresh = {
            entry.name: entry for entry in definitions if self._definitions.get(entry.name) != entry
        }
        self._definitions |= fresh
        known = queries.series_rows(self._store, benchmarks=sorted(fresh)) if fresh else {}
        self._rows = {**known, **self._rows}
        for number, row in self._rows.items():
            if row["benchmark"] in fresh:
                self._update(number, self._described(row, None))
        self.flush()

    def identify(
        self,
        benchmark: str,
        combinations: Sequence[tuple[str, ...]],
        machine: str,
        environment: str,
    ) -> list[int]:
        """The numbers of a benchmark's series, which are made later if they are new."""
        numbers = self._numbers.setdefault((benchmark, machine, environment), {})
        found = []
        for values in combinations:
            number = numbers.get(values)
            if number is None:
                number = identifier(benchmark, machine, environment, *values)
                numbers[values] = number
            if number not in self._rows:
                self._fresh[number] = (benchmark, values, machine, environment)
            found.append(number)
        return found

    def settle(self, used: Container[int]) -> None:
        """Read or make the rows of the series identified since, as far as they are in use."""
        fresh = [(number, identity) for number, identity in self._fresh.items() if number in used]
        for some in tables.pieces(fresh, _MOST_ROWS):
            self._make_room()
            self._rows |= queries.series_rows(self._store, numbers=[number for number, _ in some])
            for number, (benchmark, values, machine, environment) in some:
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
        self._fresh = {}

    def learn(
        self, number: int, names: Sequence[str], facts: Mapping[str, Any], at: datetime
    ) -> None:
        """Take over what the rounds of a series say of it: the newest ones count.

        ``facts`` are family, unit, higher_is_better, m, h, v, entropy; None is unknown.
        """
        if number not in self._rows:
            self._make_room()
            self._rows |= queries.series_rows(self._store, numbers=[number])
        row = self._rows[number]
        described_at = row.get("described_at")
        if described_at is not None and at <= described_at:
            return
        news = {key: value for key, value in facts.items() if value is not None and key != "unit"}
        if row.get("unit") is None and facts["unit"] is not None:
            news["unit"] = facts["unit"]
        if row["benchmark"] not in self._definitions:
            news |= self._described({**row, **news}, names)
        if described_at is None or any(row.get(key) != value for key, value in news.items()):
            self._update(number, {**news, "described_at": at})

    def flush(self) -> None:
        """Write what is new or changed."""
        rows = [self._rows[number] for number in sorted(self._changed)]
        for some in tables.pieces(rows, _MOST_ROWS):
            tables.replace(self._store, "series", some)
        self._changed = set()

    def _make_room(self) -> None:
        if len(self._rows) >= _MOST_ROWS:
            self.flush()
            self._rows, self._numbers = {}, {}

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
