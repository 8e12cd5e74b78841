"""The only reader of asv's JSON: results (file formats 1 and 2), benchmarks, machine.

Nothing is guessed: what a file does not say is None. A value is failed where asv has
null, skipped where it has NaN (skipped, or not selected), else a number, ±Infinity kept.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.models import Status
from dashboard.parsing import (
    UnreadableError,
    load_json,
    mapping,
    number,
    optional_number,
    optional_text,
    sequence,
    text,
    texts,
    time_of_milliseconds,
)

_MOST_COMBINATIONS = 10_000_000
_STATS = ("ci_99_a", "ci_99_b", "q_25", "q_75")


@dataclass(frozen=True, slots=True)
class AsvValue:
    """One parameter combination (repr strings) of one benchmark, in the benchmark's unit."""

    params: tuple[str, ...]
    status: Status
    value: float | None
    low: float | None = None  # 99 % interval of the value
    high: float | None = None
    q25: float | None = None
    q75: float | None = None
    samples: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class AsvBenchmark:
    """One benchmark of a results file; duration in seconds, over all its combinations.

    The lists run over ``combinations``. ``results`` has None for failed and NaN for skipped;
    ``profiled`` says that asv kept a profile, which is not read further.
    """

    name: str
    version: str | None
    started_at: datetime | None
    duration: float | None
    profiled: bool
    combinations: list[tuple[str, ...]]
    results: list[float | None]
    low: list[float | None]
    high: list[float | None]
    q25: list[float | None]
    q75: list[float | None]
    samples: list[list[float] | None]

    @property
    def values(self) -> tuple[AsvValue, ...]:
        """The same as one record a combination."""
        return tuple(
            AsvValue(params, *_outcome(result), low, high, q25, q75, samples and tuple(samples))
            for params, result, low, high, q25, q75, samples in zip(
                self.combinations, self.results, self.low, self.high, self.q25, self.q75,
                self.samples, strict=True,
            )
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AsvRun:
    """One results file. ``date`` is the commit's; ``machine`` is None where it has none."""

    commit: str
    date: datetime
    environment: str
    machine: str | None
    python: str | None
    params: dict[str, Any]
    requirements: dict[str, Any]
    env_vars: dict[str, Any]
    benchmarks: tuple[AsvBenchmark, ...]


@dataclass(frozen=True, slots=True)
class AsvDefinition:
    """What benchmarks.json says of a benchmark."""

    name: str
    unit: str | None
    type: str | None
    version: str | None
    param_names: tuple[str, ...]


def read_results(data: bytes) -> AsvRun:
    """Read a results file. Raises UnreadableError with the reason."""
    document = mapping(load_json(data), "the file")
    version = _format_of(document)
    for key in ("commit_hash", "date", "params", "results"):
        if key not in document:
            raise UnreadableError(f"no {key!r}: not an asv results file")
    params = mapping(document["params"], "'params'")
    python = document.get("python")
    rows = _rows_of_format_1(document) if version == 1 else _rows_of_format_2(document)
    return AsvRun(
        commit=text(document["commit_hash"], "'commit_hash'"),
        date=time_of_milliseconds(document["date"], "'date'"),
        environment=_environment(document),
        machine=optional_text(params.get("machine"), "the machine's name"),
        python=None if python is None else text(str(python), "'python'"),
        params=params,
        requirements=mapping(document.get("requirements") or {}, "'requirements'"),
        env_vars=mapping(document.get("env_vars") or {}, "'env_vars'"),
        benchmarks=tuple(_benchmark(name, row) for name, row in rows),
    )


def read_benchmarks(data: bytes) -> tuple[AsvDefinition, ...]:
    """Read benchmarks.json. Raises UnreadableError with the reason."""
    document = mapping(load_json(data), "the file")
    return tuple(
        _definition(text(name, "a benchmark's name"), mapping(entry, f"benchmark {name!r}"))
        for name, entry in document.items()
        if name != "version"
    )


def read_machine(data: bytes) -> tuple[str, dict[str, Any]]:
    """Read machine.json: its machine's name and all its fields."""
    document = mapping(load_json(data), "the file")
    return text(document.get("machine"), "'machine'"), document


def _definition(name: str, entry: dict[str, Any]) -> AsvDefinition:
    return AsvDefinition(
        name=name,
        unit=optional_text(entry.get("unit"), f"the unit of {name}"),
        type=optional_text(entry.get("type"), f"the type of {name}"),
        version=optional_text(entry.get("version"), f"the version of {name}"),
        param_names=texts(entry.get("param_names"), f"the parameter names of {name}"),
    )


def _format_of(document: dict[str, Any]) -> int:
    version = document.get("version")
    if version is None:
        raise UnreadableError("no 'version': not an asv results file")
    if version not in (1, 2):
        raise UnreadableError(f"file format {version!r}; this reader knows 1 and 2")
    return int(version)


def _environment(document: dict[str, Any]) -> str:
    name = document.get("env_name")
    if name is not None:
        return text(name, "'env_name'")
    # Old files have none; this is the name asv itself gives them.
    requirements = mapping(document.get("requirements") or {}, "'requirements'")
    parts = [f"py{document.get('python')}"]
    parts += [f"{key}{value or ''}" for key, value in sorted(requirements.items())]
    return text(re.sub(r'[<>:"/\\^|?*\x00-\x1f]', "_", "-".join(parts)), "the environment's name")


def _rows_of_format_2(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each benchmark's cells by column; missing trailing ones are absent."""
    columns = texts(document.get("result_columns"), "'result_columns'")
    for name, cells in mapping(document["results"], "'results'").items():
        yield name, dict(zip(columns, sequence(cells, f"the row of {name!r}"), strict=False))


def _rows_of_format_1(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same cells from the old layout: a bare value, or an object with lists."""
    by_name = {
        column: mapping(document.get(key) or {}, f"{key!r}")
        for column, key in (
            ("version", "benchmark_version"),
            ("started_at", "started_at"),
            ("duration", "duration"),
            ("profile", "profiles"),
        )
    }
    for name, entry in mapping(document["results"], "'results'").items():
        if not isinstance(entry, dict):
            entry = {"result": entry}
        row = {column: values.get(name) for column, values in by_name.items()}
        row["result"] = _listed(entry.get("result"))
        row["params"] = entry.get("params")
        row["samples"] = entry.get("samples")
        stats = _listed(entry.get("stats"))
        if stats is not None:
            parsed = [_stats_of_format_1(cell, name) for cell in stats]
            for key in _STATS:
                row[f"stats_{key}"] = [cell.get(key) for cell in parsed]
        yield name, row


def _listed(value: Any) -> list[Any] | None:
    return value if value is None or isinstance(value, list) else [value]


def _stats_of_format_1(cell: Any, name: str) -> dict[str, Any]:
    if cell is None:
        return {}
    stats = dict(mapping(cell, f"a statistic of {name!r}"))
    low, high, *_ = [*sequence(stats.get("ci_99") or [], "'ci_99'"), None, None]
    return {**stats, "ci_99_a": low, "ci_99_b": high}


def _benchmark(name: str, row: dict[str, Any]) -> AsvBenchmark:
    text(name, "a benchmark's name")
    started = row.get("started_at")
    combinations = _combinations(name, row)
    count = len(combinations)
    results = _column(row, "result", name)
    if len(results) > count:
        raise UnreadableError(f"{name} has {len(results)} results for {count} combinations")
    columns: dict[str, list[Any]] = {
        # asv shortens a list of nulls to one null; what is not there failed, to asv too
        "results": _padded(_numbers(results, f"a result of {name}", nan=True), count),
        "samples": _padded(_samples(_column(row, "samples", name), name), count),
    }
    for field, key in zip(("low", "high", "q25", "q75"), _STATS, strict=True):
        cells = _column(row, f"stats_{key}", name)
        columns[field] = _padded(_numbers(cells, f"a statistic of {name}"), count)
    last = {params: index for index, params in enumerate(combinations)}
    if len(last) < count:  # of equal combinations the last counts
        kept = list(last.values())
        combinations = list(last)
        columns = {key: [cells[index] for index in kept] for key, cells in columns.items()}
    return AsvBenchmark(
        name=name,
        version=optional_text(row.get("version"), f"the version of {name}"),
        started_at=None if started is None else time_of_milliseconds(started, f"start of {name}"),
        duration=optional_number(row.get("duration"), f"the duration of {name}"),
        profiled=bool(row.get("profile")),
        combinations=combinations,
        **columns,
    )


def _combinations(name: str, row: dict[str, Any]) -> list[tuple[str, ...]]:
    """The product of the parameters, the last fastest."""
    axes = [
        texts(axis, f"a parameter of {name}")
        for axis in sequence(row.get("params") or [], f"the parameters of {name}")
    ]
    count = math.prod(len(axis) for axis in axes)
    if count > _MOST_COMBINATIONS:
        raise UnreadableError(f"{name} has {count} parameter combinations")
    return list(itertools.product(*axes))


def _numbers(cells: list[Any], what: str, nan: bool = False) -> list[float | None]:
    """Numbers or None; NaN is None too unless it means something."""
    if not set(map(type, cells)) <= {float, type(None)}:
        cells = [None if cell is None else number(cell, what) for cell in cells]
    if nan or not any(cell != cell for cell in cells):
        return cells
    return [None if cell != cell else cell for cell in cells]


def _samples(cells: list[Any], name: str) -> list[list[float] | None]:
    what = f"a sample of {name}"
    lists = [None if cell is None else sequence(cell, "samples") for cell in cells]
    if set(map(type, itertools.chain.from_iterable(filter(None, lists)))) <= {float}:
        return lists
    return [cells and [number(cell, what) for cell in cells] for cells in lists]


def _outcome(result: float | None) -> tuple[Status, float | None]:
    if result is None:
        return Status.FAILED, None
    return (Status.SKIPPED, None) if math.isnan(result) else (Status.OK, result)


def _column(row: dict[str, Any], key: str, name: str) -> list[Any]:
    value = row.get(key)
    return [] if value is None else sequence(value, f"column {key!r} of {name}")


def _padded(cells: list[Any], count: int) -> list[Any]:
    """The cells of so many combinations; those asv left out are None."""
    return (cells + [None] * (count - len(cells)))[:count]
