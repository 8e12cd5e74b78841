"""asv's results files as rows: the run, and one column a list over all its values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.asv_results import AsvRun, read_results
from dashboard.parsing import UnreadableError, as_json
from dashboard.store.columns import (
    FAILED,
    OK,
    SKIPPED,
    STATUSES,
    flags,
    integers,
    lists_of_numbers,
    numbers,
    texts,
    times,
)
from dashboard.store.discover import Group, SourceFile
from dashboard.store.series_numbers import Identity, SeriesNumbers
from dashboard.store.tables import stored_time

_Cell = TypeVar("_Cell")

# ``run`` counts the groups that were read together.
_RESULT = (
    "run", "series_id", "status", "value", "low", "high", "q25", "q75", "samples", "version",
    "started_at", "duration_s", "profiled",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """A group whose results file has been read: its run's row and how many values it has, or why
    it has none."""

    group: Group
    row: dict[str, Any] | None = None
    size: int = 0
    problem: str | None = None


def read_groups(
    groups: Sequence[Group], numbers: SeriesNumbers
) -> tuple[list[ReadGroup], pa.Table, dict[int, Identity]]:
    """Read the results files of groups: what became of each, their values with the columns of
    `_RESULT`, and what their series are."""
    read: list[ReadGroup] = []
    tables = [_table(None, 0, ())]
    identities: dict[int, Identity] = {}
    for index, group in enumerate(groups):
        entry, run = _read_group(group)
        read.append(entry)
        if entry.row is not None and run is not None:
            machine, environment = entry.row["machine"], entry.row["environment"]
            series: list[int] = []
            for one in run.benchmarks:
                found = numbers.of(one.name, one.combinations, machine, environment)
                for number, values in zip(found, one.combinations, strict=True):
                    if number not in identities:
                        identities[number] = Identity(one.name, values, machine, environment)
                series += found
            tables.append(_table(run, index, series))
    return read, pa.concat_tables(tables).combine_chunks(), identities


def _read_group(group: Group) -> tuple[ReadGroup, AsvRun | None]:
    if group.result is None:
        return ReadGroup(group), None
    try:
        run = read_results(group.result.read())
        row = _run_row(group.result, run, group.run_id)
    except UnreadableError as error:
        return ReadGroup(group, problem=str(error)), None
    return ReadGroup(group, row, sum(len(entry.combinations) for entry in run.benchmarks)), run


def _table(run: AsvRun | None, index: int, series: Sequence[int]) -> pa.Table:
    """The values of a run, a row each; none without one."""
    benchmarks = () if run is None else run.benchmarks
    results = _all(entry.results for entry in benchmarks)
    counts = [len(entry.combinations) for entry in benchmarks]
    whose = integers(np.repeat(np.arange(len(counts)), counts))
    columns = [
        integers([index] * len(series)),
        integers(series),
        texts(STATUSES).take(integers([_status(result) for result in results])),
        *(
            numbers(cells)
            for cells in (
                results,
                _all(entry.low for entry in benchmarks),
                _all(entry.high for entry in benchmarks),
                _all(entry.q25 for entry in benchmarks),
                _all(entry.q75 for entry in benchmarks),
            )
        ),
        lists_of_numbers(_all(entry.samples for entry in benchmarks)),
        *(
            once.take(whose)
            for once in (
                texts([entry.version for entry in benchmarks]),
                times([stored_time(entry.started_at) for entry in benchmarks]),
                numbers([entry.duration for entry in benchmarks]),
                flags([entry.profiled for entry in benchmarks]),
            )
        ),
    ]
    return pa.table(columns, names=_RESULT)


def _status(result: float | None) -> int:
    if result is None:
        return FAILED
    return OK if result == result else SKIPPED  # NaN alone differs from itself


def _all(columns: Iterable[list[_Cell]]) -> list[_Cell]:
    return list(itertools.chain.from_iterable(columns))


def _run_row(file: SourceFile, run: AsvRun, run_id: int) -> dict[str, Any]:
    """The run's row. UnreadableError where its fields cannot be stored."""
    fields = as_json(
        {"params": run.params, "requirements": run.requirements, "env_vars": run.env_vars},
        "the environment",
    )
    starts = [entry.started_at for entry in run.benchmarks if entry.started_at is not None]
    return {
        "run_id": run_id,
        "path": file.path,
        "machine": run.machine or PurePosixPath(file.path).parent.name or "unknown",
        "environment": run.environment,
        "commit_hash": run.commit,
        "commit_date": stored_time(run.date),
        "started_at": stored_time(min(starts, default=None)),
        "python": run.python,
        "gpu": _plain(run.params, "gpu"),
        "driver": _plain(run.params, "driver"),
        "torch": _plain(run.params, "torch"),
        "triton": _plain(run.params, "triton"),
        "fields": fields,
    }


def _plain(params: Mapping[str, Any], name: str) -> str | None:
    value = params.get(name)
    return value if isinstance(value, str) and value else None
