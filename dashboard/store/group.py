"""One results file and its rounds, as rows of the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Self

from dashboard.asv_results import AsvBenchmark, AsvRun, AsvValue, read_results
from dashboard.attach import attached, last_of, median_of, summarize
from dashboard.models import Status
from dashboard.parsing import UnreadableError, as_json
from dashboard.rounds import Lines, RoundLine, read_rounds
from dashboard.store.discover import Group, SourceFile
from dashboard.store.series_book import SeriesBook
from dashboard.store.tables import identifier, stored_time

_ByBenchmark = dict[tuple[str, tuple[str, ...]], list[RoundLine]]


@dataclass(frozen=True, slots=True)
class FileState:
    """What became of a file: ``read``, ``partial`` (some lines rejected) or ``rejected``."""

    file: SourceFile
    status: str
    reason: str | None = None
    rows: int = 0

    @classmethod
    def of_lines(cls, file: SourceFile, lines: Lines[Any], note: str | None = None) -> Self:
        """The state of a file of lines, each of which stands for itself."""
        if not lines.rejected:
            return cls(file, "read", note, len(lines.records))
        number, reason = lines.rejected[0]
        more = f" and {len(lines.rejected) - 1} more" if len(lines.rejected) > 1 else ""
        text = f"line {number}: {reason}{more}; {len(lines.records)} lines went in"
        return cls(file, "partial" if lines.records else "rejected", text, len(lines.records))


@dataclass(slots=True)
class GroupRows:
    """Rows of a group; ``ids`` are the runs they take the place of."""

    ids: list[int] = field(default_factory=list)
    run: dict[str, Any] | None = None
    measurements: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    states: dict[str, FileState] = field(default_factory=dict)


def read_group(group: Group, book: SeriesBook) -> GroupRows:
    """Read the group's files. A file that cannot be read is rejected in ``states``, and what
    an earlier version of it brought stays in the store."""
    rows = GroupRows()
    result = _read_result(group.result, rows)
    lines = _read_lines(group.rounds, rows)
    used: set[int] = set()
    if group.result is not None and result is not None:
        run, rows.run = result
        rows.ids.append(rows.run["run_id"])
        _measurements(rows, rows.run, run, lines.records if lines else (), book, used)
        rows.states[group.result.path] = FileState(
            group.result, "read", rows=len(rows.measurements)
        )
    if group.rounds is not None and lines is not None:
        alone = identifier(group.rounds.path)
        rows.ids.append(alone)
        owner = rows.run["run_id"] if rows.run is not None else alone
        loose = [line for line in lines.records if id(line) not in used]
        for line in loose:
            values = [value for _, value in line.params]
            number = book.identify(line.benchmark, values, line.machine, line.environment)
            book.learn(number, line)
            rows.rounds.append(_round_row(owner, number, line, is_attached=False))
        settled = [line for line in lines.records if id(line) in used]
        note = _note(loose, settled, rows.run is not None)
        rows.states[group.rounds.path] = FileState.of_lines(group.rounds, lines, note)
    return rows


def _read_result(file: SourceFile | None, rows: GroupRows) -> tuple[AsvRun, dict[str, Any]] | None:
    """The results file, and its run's row."""
    if file is None:
        return None
    try:
        run = read_results(file.read())
        return run, _run_row(file, run)
    except UnreadableError as error:
        rows.states[file.path] = FileState(file, "rejected", str(error))
        return None


def _read_lines(file: SourceFile | None, rows: GroupRows) -> Lines[RoundLine] | None:
    if file is None:
        return None
    try:
        return read_rounds(file.read())
    except UnreadableError as error:
        rows.states[file.path] = FileState(file, "rejected", str(error))
        return None


def _note(loose: Sequence[RoundLine], used: Sequence[RoundLine], has_run: bool) -> str | None:
    """What to say of rounds that stand behind no result of asv's; None if nothing is odd."""
    if not has_run:
        return f"{len(loose)} rounds kept but not attached: asv has no results for them"
    settled = {(line.benchmark, line.params) for line in used}
    odd = sum((line.benchmark, line.params) not in settled for line in loose)
    if not odd:  # all belong to earlier invocations, whose results asv replaced
        return None
    total = len(loose) + len(used)
    return f"{odd} of {total} rounds kept but not attached: their samples are not those asv stored"


def _run_row(file: SourceFile, run: AsvRun) -> dict[str, Any]:
    """The run's row. UnreadableError where its fields cannot be stored."""
    fields = as_json(
        {"params": run.params, "requirements": run.requirements, "env_vars": run.env_vars},
        "the environment",
    )
    starts = [entry.started_at for entry in run.benchmarks if entry.started_at is not None]
    return {
        "run_id": identifier(file.path),
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


def _measurements(
    rows: GroupRows,
    row: Mapping[str, Any],
    run: AsvRun,
    lines: Sequence[RoundLine],
    book: SeriesBook,
    used: set[int],
) -> None:
    """Add the run's measurements with the rounds behind them; ``used`` gets their ids.

    asv's NaN means skipped or not selected. Where the run left rounds, a skipped process is
    among them, and NaN without one was not selected: no measurement.
    """
    run_id, machine = row["run_id"], row["machine"]
    owned: _ByBenchmark = {}
    for line in lines:
        if (line.machine, line.environment, line.commit) == (machine, run.environment, run.commit):
            key = (line.benchmark, tuple(value for _, value in line.params))
            owned.setdefault(key, []).append(line)
    for benchmark, value in _values(run):
        behind = attached(value, owned.get((benchmark.name, value.params), ()))
        if value.status is Status.SKIPPED and owned and not behind:
            continue
        number = book.identify(benchmark.name, value.params, machine, run.environment)
        for line in behind:
            used.add(id(line))
            book.learn(number, line)
            rows.rounds.append(_round_row(run_id, number, line, is_attached=True))
        rows.measurements.append(
            {
                "run_id": run_id,
                "series_id": number,
                **_measured(benchmark, value, behind),
                **(_conditions(behind) if behind else {}),
            }
        )


def _values(run: AsvRun) -> Iterator[tuple[AsvBenchmark, AsvValue]]:
    for benchmark in run.benchmarks:
        for value in benchmark.values:
            yield benchmark, value


def _measured(
    benchmark: AsvBenchmark, value: AsvValue, behind: Sequence[RoundLine]
) -> dict[str, Any]:
    summary = summarize(value, behind)
    reasons = [line.round.reason for line in behind if line.round.status is value.status]
    starts = [line.round.started_at for line in behind if line.round.started_at is not None]
    return {
        "status": value.status.value,
        "reason": last_of(reasons) if value.status is not Status.OK else None,
        "value": summary.value,
        "low": summary.low,
        "high": summary.high,
        "round_count": len(behind),
        "asv_value": value.value,
        "asv_low": value.low,
        "asv_high": value.high,
        "q25": value.q25,
        "q75": value.q75,
        "samples": None if value.samples is None else list(value.samples),
        "version": benchmark.version,
        "started_at": stored_time(min(starts, default=benchmark.started_at)),
        "duration_s": benchmark.duration,
    }


def _conditions(behind: Sequence[RoundLine]) -> dict[str, Any]:
    """What the rounds say of how the value came about: the median or all of what they name."""
    rounds = [line.round for line in behind]
    uuids = sorted({entry.gpu_uuid for entry in rounds if entry.gpu_uuid is not None})
    return {
        "gpu": last_of(line.gpu for line in behind),
        "gpu_uuid": ", ".join(uuids) or None,
        "driver": last_of(line.driver for line in behind),
        "torch": last_of(line.torch for line in behind),
        "triton": last_of(line.triton for line in behind),
        "sm_clock_mhz": median_of(entry.sm_clock_mhz for entry in rounds),
        "power_w": median_of(entry.power_w for entry in rounds),
        "temperature_c": median_of(entry.temperature_c for entry in rounds),
        "clock_event_reasons": sorted({x for entry in rounds for x in entry.clock_event_reasons}),
        "schedule": last_of(line.schedule for line in behind),
        "statistic": last_of(line.statistic for line in behind),
        "protocol": last_of(line.protocol for line in behind),
    }


def _round_row(run_id: int, series_id: int, line: RoundLine, is_attached: bool) -> dict[str, Any]:
    entry = line.round
    return {
        "run_id": run_id,
        "series_id": series_id,
        "attached": is_attached,
        "asv_run": line.run,
        "round": line.index,
        "status": entry.status.value,
        "reason": entry.reason,
        "value": entry.value,
        "samples": list(entry.samples),
        "started_at": stored_time(entry.started_at),
        "gap_ms": line.gap_ms,
        "gpu_uuid": entry.gpu_uuid,
        "sm_clock_mhz": entry.sm_clock_mhz,
        "power_w": entry.power_w,
        "temperature_c": entry.temperature_c,
        "clock_event_reasons": list(entry.clock_event_reasons),
        "fused_lmhead_file": line.fused_lmhead_file,
    }
