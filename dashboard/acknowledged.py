"""Regressions that somebody accepted, with a reason: a file in the repository.

    [[acknowledged]]
    series = "forward.Forward.track_time(model=nemotron-super, *)"
    commit = "3f2a91bc"       # the commit that made it; any unique beginning of its hash
    reason = "fp32 accumulation, needed for convergence (#41)"
    author = "Ada"
    expires = 2027-06-30      # optional: until this day, inclusive

``series`` is a pattern as in ``[tool.lmhead-perf]``: over the benchmark's name, or over
``name(params)`` where it contains a parenthesis. What is acknowledged stays visible and
fails nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from dashboard.errors import InputError
from dashboard.models import Series
from dashboard.verdicts.policy import matches

_REQUIRED = ("series", "commit", "reason", "author")
_HASH = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """An accepted regression: which series, made by which commit, why and by whom."""

    series: str
    commit: str
    reason: str
    author: str
    expires: date | None = None

    def is_of(self, hashes: Collection[str]) -> bool:
        """Whether its commit is one of ``hashes``."""
        return any(name.startswith(self.commit) for name in hashes)

    def has_expired(self, today: date) -> bool:
        """Whether its last day has passed."""
        return self.expires is not None and today > self.expires


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """The entries of a file, and the day on which they are read."""

    entries: tuple[Acknowledgement, ...] = ()
    today: date = date.min

    def find(self, series: Series, hashes: Collection[str]) -> Acknowledgement | None:
        """The entry in force that accepts what one of the commits ``hashes`` did to ``series``."""
        for entry in self.entries:
            if entry.has_expired(self.today) or not matches(entry.series, series):
                continue
            if entry.is_of(hashes):
                return entry
        return None

    def complaints(
        self, used: Collection[Acknowledgement], hashes: Collection[str] | None = None
    ) -> list[str]:
        """What is wrong with the entries that are not in ``used``: expired, or matching nothing.

        With ``hashes`` only entries of these commits are expected to match.
        """
        found = []
        for entry in self.entries:
            name = f"acknowledgement of {entry.series} at {entry.commit} by {entry.author}"
            if entry.has_expired(self.today):
                found.append(f"{name} expired on {entry.expires}")
            elif entry not in used and (hashes is None or entry.is_of(hashes)):
                found.append(f"{name} matches no regression: remove it")
        return found


def load(path: Path | None, today: date | None = None) -> Acknowledgements:
    """The acknowledgements of a file; none for ``None``. ``today`` defaults to today, UTC.

    Raises InputError, naming the file and the entry: unreadable, or an entry is bad.
    """
    day = datetime.now(UTC).date() if today is None else today
    if path is None:
        return Acknowledgements(today=day)
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read acknowledgements {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    unknown = sorted(set(document) - {"acknowledged"})
    if unknown:
        raise InputError(f"{path}: unknown table {unknown[0]!r}; entries are [[acknowledged]]")
    entries = document.get("acknowledged", [])
    if not isinstance(entries, list):
        raise InputError(f"{path}: entries are [[acknowledged]], with two brackets")
    read = tuple(
        _entry(entry, f"{path}: entry {number}") for number, entry in enumerate(entries, start=1)
    )
    return Acknowledgements(read, day)


def _entry(entry: object, where: str) -> Acknowledgement:
    if not isinstance(entry, Mapping):
        raise InputError(f"{where} must be a table, not {entry!r}")
    unknown = sorted(set(entry) - {*_REQUIRED, "expires"})
    if unknown:
        known = ", ".join((*_REQUIRED, "expires"))
        raise InputError(f"{where}: unknown key {unknown[0]!r}; known: {known}")
    texts = [_text(entry, key, where) for key in _REQUIRED]
    commit = texts[1].lower()
    if not _HASH.fullmatch(commit):
        raise InputError(
            f"{where}: commit must be 7 to 40 hexadecimal digits, not {entry['commit']!r}"
        )
    expires = entry.get("expires")
    if isinstance(expires, datetime) or not isinstance(expires, date | None):
        raise InputError(f"{where}: expires must be a date such as 2027-06-30, not {expires!r}")
    return Acknowledgement(texts[0], commit, texts[2], texts[3], expires)


def _text(entry: Mapping[str, object], key: str, where: str) -> str:
    value = entry.get(key)
    if value is None:
        raise InputError(f"{where}: {key} is missing")
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: {key} must be a text, not {value!r}")
    return value
