"""asv's results files as rows: the run, and one column a list over all its values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.asv_results import AsvBenchmark, AsvRun, read_results
from dashboard.models import Status
from dashboard.parsing import UnreadableError, as_json
from dashboard.store.discover import Group, SourceFile
from dashboard.store.series_book import SeriesBook
from dashboard.store.tables import stored_time

_LISTS = {
    "status": pa.string(), "value": pa.float64(), "low": pa.float64(), "high": pa.float64(),
    "q25": pa.float64(), "q75": pa.float64(), "samples": pa.list_(pa.float64()),
}  # fmt: skip
_REPEATED = {
    "version": pa.string(), "started_at": pa.timestamp("us"), "duration_s": pa.float64(),
    "profiled": pa.bool_(),
}  # fmt: skip
RESULT = pa.schema(
    [("run_id", pa.int64()), ("series_id", pa.int64()), *_LISTS.items(), *_REPEATED.items()]
)


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """A group whose results file has been read: its run's row and values, or why it has none."""

    group: Group
    row: dict[str, Any] | None = None
    run: AsvRun | None = None
    problem: str | None = None

    @property
    def size(self) -> int:
        """How many values it has."""
        return 0 if self.run is None else sum(len(x.combinations) for x in self.run.benchmarks)


def read_group(group: Group) -> ReadGroup:
    """Read the results file of a group, if it has one."""
    if group.result is None:
        return ReadGroup(group)
    try:
        run = read_results(group.result.read())
        return ReadGroup(group, _run_row(group.result, run, group.run_id), run)
    except UnreadableError as error:
        return ReadGroup(group, problem=str(error))


def result_table(read: ReadGroup, book: SeriesBook) -> pa.Table:
    """The values of a group, with the columns of `RESULT`; none if it has no run."""
    if read.run is None or read.row is None:
        return RESULT.empty_table()
    series: list[int] = []
    lists: dict[str, list[Any]] = {name: [] for name in _LISTS}
    repeated: dict[str, list[Any]] = {name: [] for name in _REPEATED}
    for entry in read.run.benchmarks:
        series += book.identify(
            entry.name, entry.combinations, read.row["machine"], read.row["environment"]
        )
        count = len(entry.combinations)
        for name, column in _columns(entry).items():
            lists[name] += column
        for name, value in (
            ("version", entry.version),
            ("started_at", stored_time(entry.started_at)),
            ("duration_s", entry.duration),
            ("profiled", entry.profiled),
        ):
            repeated[name] += [value] * count
    arrays = [pa.array(ids, pa.int64()) for ids in ([read.row["run_id"]] * len(series), series)]
    arrays += [pa.array(lists[name], kind) for name, kind in _LISTS.items()]
    arrays += [pa.array(repeated[name], kind) for name, kind in _REPEATED.items()]
    return pa.table(arrays, schema=RESULT)


def _columns(entry: AsvBenchmark) -> dict[str, list[Any]]:
    statuses: list[str] = []
    values: list[float | None] = []
    for result in entry.results:
        if result is None:
            statuses.append(Status.FAILED.value)
            values.append(None)
        elif math.isnan(result):
            statuses.append(Status.SKIPPED.value)
            values.append(None)
        else:
            statuses.append(Status.OK.value)
            values.append(result)
    return {
        "status": statuses,
        "value": values,
        "low": entry.low,
        "high": entry.high,
        "q25": entry.q25,
        "q75": entry.q75,
        "samples": entry.samples,
    }


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
