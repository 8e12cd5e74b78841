"""Reader of what the suite keeps beside asv's JSON: rounds (one process a line), commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dashboard.models import Commit, Round, Status
from dashboard.parsing import (
    UnreadableError,
    as_json,
    load_json,
    mapping,
    number,
    optional_integer,
    optional_number,
    optional_text,
    optional_time,
    sequence,
    text,
    texts,
    time_of_text,
)

_SCHEMA = 1
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class RoundLine:
    """One benchmark process: whose it is, what it measured and the conditions.

    ``params`` are (name, repr of the value) as asv has them; ``run`` names the asv
    invocation, ``index`` counts from 0 within it.
    """

    run: str | None
    machine: str
    environment: str
    commit: str
    benchmark: str
    params: tuple[tuple[str, str], ...]
    index: int
    round: Round
    family: str | None
    unit: str | None
    higher_is_better: bool
    version: str | None
    statistic: str | None
    protocol: str | None
    gap_ms: float | None
    gpu: str | None
    driver: str | None
    torch: str | None
    triton: str | None
    m: int | None
    h: int | None
    v: int | None
    entropy: str | None
    schedule: str | None  # JSON text
    fused_lmhead_file: str | None


@dataclass(frozen=True, slots=True)
class Lines(Generic[_Record]):
    """What could be read of a file of lines, and (line number, reason) for the rest."""

    records: tuple[_Record, ...]
    rejected: tuple[tuple[int, str], ...]


def read_rounds(data: bytes) -> Lines[RoundLine]:
    """Read a rounds file; each line stands for itself."""
    return _read_lines(data, _round_line)


def read_commits(data: bytes) -> Lines[Commit]:
    """Read commits.jsonl; of several lines for one commit the last counts."""
    lines = _read_lines(data, _commit_line)
    return Lines(tuple({c.hash: c for c in lines.records}.values()), lines.rejected)


def _read_lines(data: bytes, parse: Callable[[dict[str, Any]], _Record]) -> Lines[_Record]:
    records, rejected = [], []
    for count, line in _numbered(data):
        try:
            records.append(parse(mapping(load_json(line), "the line")))
        except UnreadableError as error:
            rejected.append((count, str(error)))
    return Lines(tuple(records), tuple(rejected))


def _numbered(data: bytes) -> Iterator[tuple[int, bytes]]:
    for count, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield count, line


def _round_line(line: dict[str, Any]) -> RoundLine:
    if line.get("schema") != _SCHEMA:
        raise UnreadableError(f"schema {line.get('schema')!r}; this reader knows {_SCHEMA}")
    params = mapping(line.get("params"), "'params'")
    schedule = line.get("schedule")
    return RoundLine(
        run=_optional(line, "run"),
        machine=text(line.get("machine"), "'machine'"),
        environment=text(line.get("environment"), "'environment'"),
        commit=text(line.get("commit"), "'commit'"),
        benchmark=text(line.get("benchmark"), "'benchmark'"),
        params=tuple((text(name, "a parameter"), _repr(value)) for name, value in params.items()),
        index=optional_integer(line.get("round"), "'round'") or 0,
        round=_round(line),
        family=_optional(line, "family"),
        unit=_optional(line, "unit"),
        higher_is_better=line.get("higher_is_better") is True,
        version=_optional(line, "version"),
        statistic=_optional(line, "statistic"),
        protocol=_optional(line, "protocol"),
        gap_ms=optional_number(line.get("gap_ms"), "'gap_ms'"),
        gpu=_optional(line, "gpu"),
        driver=_optional(line, "driver"),
        torch=_optional(line, "torch"),
        triton=_optional(line, "triton"),
        m=optional_integer(line.get("m"), "'m'"),
        h=optional_integer(line.get("h"), "'h'"),
        v=optional_integer(line.get("v"), "'v'"),
        entropy=_optional(line, "entropy"),
        schedule=None if schedule is None else as_json(schedule, "'schedule'"),
        fused_lmhead_file=_optional(line, "fused_lmhead_file"),
    )


def _round(line: dict[str, Any]) -> Round:
    try:
        status = Status(text(line.get("status"), "'status'"))
    except ValueError as error:
        raise UnreadableError(f"status {line.get('status')!r}") from error
    samples = sequence(line.get("samples") or [], "'samples'")
    return Round(
        samples=tuple(number(sample, "a sample") for sample in samples),
        value=optional_number(line.get("value"), "'value'"),
        status=status,
        reason=_optional(line, "reason"),
        started_at=optional_time(line.get("started_at"), "'started_at'"),
        gpu_uuid=_optional(line, "gpu_uuid"),
        sm_clock_mhz=optional_number(line.get("sm_clock_mhz"), "'sm_clock_mhz'"),
        power_w=optional_number(line.get("power_w"), "'power_w'"),
        temperature_c=optional_number(line.get("temperature_c"), "'temperature_c'"),
        clock_event_reasons=texts(line.get("clock_event_reasons"), "'clock_event_reasons'"),
    )


def _commit_line(line: dict[str, Any]) -> Commit:
    return Commit(
        hash=text(line.get("hash"), "'hash'"),
        date=time_of_text(line.get("date"), "'date'"),
        tree=_optional(line, "tree"),
        parents=texts(line.get("parents"), "'parents'"),
        author=_optional(line, "author"),
        author_date=optional_time(line.get("author_date"), "'author_date'"),
        subject=_optional(line, "subject"),
        tags=texts(line.get("tags"), "'tags'"),
    )


def _optional(line: dict[str, Any], key: str) -> str | None:
    return optional_text(line.get(key), f"'{key}'")


def _repr(value: Any) -> str:
    """A parameter as asv writes it: Python's repr of the value."""
    return text(repr(value), "a parameter")
