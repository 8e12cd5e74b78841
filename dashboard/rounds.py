"""Reader of what the suite keeps beside asv's JSON: rounds (one process a line), commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dashboard.models import Commit, Status
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
_TEXTS = (
    "run", "family", "unit", "version", "reason", "statistic", "protocol", "gpu", "gpu_uuid",
    "driver", "torch", "triton", "entropy", "fused_lmhead_file",
)  # fmt: skip
_NUMBERS = ("value", "gap_ms", "sm_clock_mhz", "power_w", "temperature_c")
_INTEGERS = ("round", "m", "h", "v")
_MOST_ROUNDS = 2**31
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Lines(Generic[_Record]):
    """What could be read of a file of lines, and (line number, reason) for the rest."""

    records: tuple[_Record, ...]
    rejected: tuple[tuple[int, str], ...]


def good_rounds(data: bytes) -> Lines[bytes]:
    """The lines of a rounds file that hold a round, as they are; each stands for itself.

    This is the slow and talkative reader: the store reads a file in one piece, and asks here
    only when that fails.
    """
    return _read_lines(data, _checked_round)


def read_commits(data: bytes) -> Lines[Commit]:
    """Read commits.jsonl; of several lines for one commit the last counts."""
    lines = _read_lines(data, lambda line: _commit(mapping(load_json(line), "the line")))
    return Lines(tuple({c.hash: c for c in lines.records}.values()), lines.rejected)


def param_values(params: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and values of a round's parameters (JSON text), as asv has them: Python's repr."""
    named = mapping(load_json(params.encode()), "'params'")
    return tuple(named), tuple(text(repr(value), "a parameter") for value in named.values())


def _read_lines(data: bytes, parse: Callable[[bytes], _Record]) -> Lines[_Record]:
    records, rejected = [], []
    for count, line in _numbered(data):
        try:
            records.append(parse(line))
        except UnreadableError as error:
            rejected.append((count, str(error)))
    return Lines(tuple(records), tuple(rejected))


def _numbered(data: bytes) -> Iterator[tuple[int, bytes]]:
    for count, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield count, line


def _checked_round(data: bytes) -> bytes:
    """The line itself. UnreadableError with what is wrong with it."""
    line = mapping(load_json(data), "the line")
    if line.get("schema") != _SCHEMA:
        raise UnreadableError(f"schema {line.get('schema')!r}; this reader knows {_SCHEMA}")
    for key in ("machine", "environment", "commit", "benchmark"):
        text(line.get(key), f"'{key}'")
    for name, value in mapping(line.get("params"), "'params'").items():
        text(name, "a parameter")
        text(repr(value), "a parameter")
    try:
        Status(text(line.get("status"), "'status'"))
    except ValueError as error:
        raise UnreadableError(f"status {line.get('status')!r}") from error
    for sample in sequence(line.get("samples") or [], "'samples'"):
        number(sample, "a sample")
    for key in _TEXTS:
        optional_text(line.get(key), f"'{key}'")
    for key in _NUMBERS:
        optional_number(line.get(key), f"'{key}'")
    for key in _INTEGERS:
        optional_integer(line.get(key), f"'{key}'")
    if abs(line.get("round") or 0) >= _MOST_ROUNDS:
        raise UnreadableError("'round' is not a 32-bit integer")
    if line.get("higher_is_better") not in (None, False, True):
        raise UnreadableError("'higher_is_better' is neither true nor false")
    optional_time(line.get("started_at"), "'started_at'")
    texts(line.get("clock_event_reasons"), "'clock_event_reasons'")
    as_json(line.get("schedule"), "'schedule'")
    return data


def _commit(line: dict[str, Any]) -> Commit:
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
