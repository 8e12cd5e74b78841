"""Reading untrusted JSON: every helper returns the wanted type or says what was wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

_quick: Callable[[bytes], Any] | None = None
with suppress(ImportError):  # five times as fast, where it is installed
    from orjson import loads as _quick


class UnreadableError(Exception):
    """A file or line cannot be read; the message is the reason, without the file's name."""


def load_json(data: bytes) -> Any:
    """Parse UTF-8 JSON; NaN and ±Infinity are numbers, as asv writes them."""
    if _quick is not None:
        with suppress(ValueError):
            return _quick(data)
    try:  # the slower one knows NaN, and says what is wrong
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        what = "empty" if not data.strip() else "not JSON"
        raise UnreadableError(f"{what}: {error}") from error
    except RecursionError as error:
        raise UnreadableError("nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise UnreadableError(f"number out of range: {error}") from error


def mapping(value: Any, what: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise UnreadableError(f"{what} is {kind(value)}, not an object")
    return value


def sequence(value: Any, what: str) -> list[Any]:
    """A JSON array."""
    if not isinstance(value, list):
        raise UnreadableError(f"{what} is {kind(value)}, not a list")
    return value


def text(value: Any, what: str) -> str:
    """A string that can be stored: no lone surrogates."""
    if not isinstance(value, str):
        raise UnreadableError(f"{what} is {kind(value)}, not text")
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnreadableError(f"{what} is not valid Unicode") from error
    return value


def optional_text(value: Any, what: str) -> str | None:
    """A string, or None for null."""
    return None if value is None else text(value, what)


def number(value: Any, what: str) -> float:
    """A number as a float; true and false count as 1 and 0, as in asv."""
    if not isinstance(value, int | float):
        raise UnreadableError(f"{what} is {kind(value)}, not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise UnreadableError(f"{what} is a number out of range") from error


def optional_number(value: Any, what: str) -> float | None:
    """A number as a float, or None for null and NaN."""
    if value is None:
        return None
    found = number(value, what)
    return None if found != found else found


def optional_integer(value: Any, what: str) -> int | None:
    """A 64-bit integer, or None for null."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**63:
        raise UnreadableError(f"{what} is not a 64-bit integer")
    return value


def texts(value: Any, what: str) -> tuple[str, ...]:
    """A list of strings; null is an empty one."""
    if value is None:
        return ()
    return tuple(text(item, f"an entry of {what}") for item in sequence(value, what))


def time_of_milliseconds(value: Any, what: str) -> datetime:
    """A JavaScript timestamp as UTC."""
    try:
        return datetime.fromtimestamp(number(value, what) / 1000, UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise UnreadableError(f"{what} is no time: {value!r}") from error


def time_of_text(value: Any, what: str) -> datetime:
    """An ISO 8601 time as UTC; one without a zone is taken for UTC."""
    try:
        time = datetime.fromisoformat(text(value, what))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UnreadableError(f"{what} is no ISO 8601 time: {value!r}") from error


def optional_time(value: Any, what: str) -> datetime | None:
    """An ISO 8601 time as UTC, or None for null."""
    return None if value is None else time_of_text(value, what)


def as_json(value: Any, what: str) -> str:
    """The value as JSON text that can be stored: no NaN or Infinity inside."""
    try:
        return text(json.dumps(value, ensure_ascii=False, allow_nan=False), what)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{what} has no JSON form: {error}") from error


def kind(value: Any) -> str:
    """What JSON calls the value's type."""
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false"}
    return names.get(type(value), "a number")
