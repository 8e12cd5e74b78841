"""The series known so far: identity from asv, typed columns from definitions and rounds."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.asv_results import AsvDefinition
from dashboard.models import Series
from dashboard.store import queries, tables
from dashboard.store.batch import Learned
from dashboard.store.columns import integers
from dashboard.store.connect import Store
from dashboard.store.handover import shown
from dashboard.store.series_numbers import Identity

_Kind = TypeVar("_Kind")
_QUOTED = tuple(re.compile(pattern) for pattern in (r"^u?'(.+)'$", r"^<class '(.+)'>$"))
# A suite may have millions of parameter combinations: no more than these are held at once.
_MOST_ROWS = 100_000


class SeriesBook:
    """Finds or makes the rows of series: `take`, `learn`, then `flush` what is new or changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        found = [AsvDefinition(**row) for row in queries.benchmark_rows(store)]
        self._definitions = {entry.name: entry for entry in found}
        self._rows: dict[int, dict[str, Any]] = {}
        self._changed: set[int] = set()

    def define(self, definitions: Iterable[AsvDefinition]) -> None:
        """Take new benchmark definitions; known series follow them."""
        fresh = {
            entry.name: entry for entry in definitions if self._definitions.get(entry.name) != entry
        }
        self._definitions |= fresh
        known = queries.series_of_benchmarks(self._store, sorted(fresh)) if fresh else {}
        self._rows = {**known, **self._rows}
        for number, row in self._rows.items():
            if row["benchmark"] in fresh:
                self._update(number, self._described(row, None))
        self.flush()

    def take(self, series: Mapping[int, Identity]) -> None:
        """Read or make the rows of these series."""
        fresh = [(number, one) for number, one in series.items() if number not in self._rows]
        for some in tables.pieces(fresh, _MOST_ROWS):
            self._make_room()
            self._rows |= self._stored([number for number, _ in some])
            for number, identity in some:
                if number not in self._rows:
                    row = {
                        "series_id": number,
                        "benchmark": identity.benchmark,
                        "param_values": list(identity.values),
                        "machine": identity.machine,
                        "environment": identity.environment,
                        "higher_is_better": False,
                    }
                    self._rows[number] = {**row, **self._described(row, None)}
                    self._changed.add(number)

    def learn(self, number: int, news: Learned) -> None:
        """Take over what the rounds of a series say of it: the newest ones count."""
        if number not in self._rows:
            self._make_room()
            self._rows |= self._stored([number])
        row = self._rows[number]
        described_at = row.get("described_at")
        if described_at is not None and news.at <= described_at:
            return
        facts = {key: value for key, value in news.facts.items() if key != "unit"}
        if row.get("unit") is None and "unit" in news.facts:
            facts["unit"] = news.facts["unit"]
        if row["benchmark"] not in self._definitions:
            facts |= self._described({**row, **facts}, news.names)
        if described_at is None or any(row.get(key) != value for key, value in facts.items()):
            self._update(number, {**facts, "described_at": news.at})

    def flush(self) -> None:
        """Write what is new or changed."""
        rows = [self._rows[number] for number in sorted(self._changed)]
        for some in tables.pieces(rows, _MOST_ROWS):
            tables.replace(self._store, "series", some)
        self._changed = set()

    def _stored(self, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        with shown(self._store.connection, pa.table([integers(numbers)], names=["series_id"])):
            return queries.series_of_batch(self._store)

    def _make_room(self) -> None:
        if len(self._rows) >= _MOST_ROWS:
            self.flush()
            self._rows = {}

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
