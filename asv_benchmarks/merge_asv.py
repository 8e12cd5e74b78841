"""asv's own files into those of another folder: ``benchmarks.json`` and result files.

Each function takes the file of the one folder, the file that it is merged into, and what
messages call the latter: in a rehearsal it is a copy.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from asv_benchmarks.merge import is_missing


class ResultsError(ValueError):
    """Two of asv's files contradict each other, or one is broken; says which."""


@dataclass(slots=True)
class Series:
    """What came of merging results, in values of series.

    ``taken`` came anew, ``stayed`` are others than the new ones and stay, ``given_up`` were
    replaced with all of their benchmark by a later version.
    """

    taken: int = 0
    stayed: int = 0
    given_up: int = 0


class Measured(NamedTuple):
    """A benchmark in a result file, by combination of parameters in asv's order.

    A value that is NaN was not measured, one that is None failed.
    """

    version: str
    params: list[list[str]]
    values: list[float | None]
    samples: list[list[float] | None]
    numbers: list[int | None]
    started_at: datetime
    duration: float | None

    @classmethod
    def of(cls, results: Any, name: str, shown: Path) -> Measured:
        """Raises ResultsError where asv would not have written such."""
        version = version_of(name, results.benchmark_version[name], shown)
        try:
            params = results.get_result_params(name)
            values = results.get_result_value(name, params)
            samples = results.get_result_samples(name, params)
            single = [value for value in values if value is not None]
            single += [one for many in samples if many is not None for one in many]
            if not all(isinstance(one, int | float) for one in single):
                raise TypeError("its values are no numbers")
            numbers = [
                one.get("number") if one and many else None
                for one, many in zip(results.get_result_stats(name, params), samples, strict=True)
            ]
            started_at = datetime.fromtimestamp(results.started_at[name] / 1000, UTC)
            duration = results.duration[name]
            duration = None if duration is None else float(duration)
        except (TypeError, ValueError, LookupError, OverflowError, OSError) as error:
            raise ResultsError(f"{name} in {shown} is not as asv writes it: {error}") from error
        return cls(version, params, values, samples, numbers, started_at, duration)


def version_of(benchmark: str, version: object, shown: Path) -> str:
    """The version itself. Raises ResultsError where there is none."""
    if not isinstance(version, str):
        raise ResultsError(f"{benchmark} has no version in {shown}")
    return version


def order(benchmark: str, known: tuple[str, Path], new: tuple[str, Path]) -> int:
    """1 if the new version is later, 0 if they are the same, -1 if the known one is.

    Versions, given with their files, are counted up by hand. Raises ResultsError where they
    cannot be told apart so.
    """
    if new[0] == known[0]:
        return 0
    if not (new[0].isdecimal() and known[0].isdecimal()):
        raise ResultsError(
            f"{benchmark} is version {known[0]} in {known[1]} and {new[0]} in {new[1]}"
        )
    return 1 if int(new[0]) > int(known[0]) else -1


def read_object(path: Path, shown: Path) -> dict[str, Any]:
    """A file's JSON object. Raises ResultsError naming ``shown``."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{shown} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ResultsError(f"{shown} is no JSON object")
    return found


def add_benchmarks(source: Path, target: Path, shown: Path) -> None:
    """Add the descriptions of benchmarks that ``target`` lacks or has of an earlier version.

    Each result says which it has. Raises ResultsError.
    """
    known = read_object(target, shown) if target.exists() else {}
    merged = dict(known)
    for name, entry in read_object(source, source).items():
        before = merged.setdefault(name, entry)
        if not isinstance(entry, dict):
            continue  # the version of asv's format
        new = version_of(name, entry.get("version"), source)
        old = version_of(name, before.get("version") if isinstance(before, dict) else None, shown)
        if order(name, (old, shown), (new, source)) > 0:
            merged[name] = entry
    if merged != known:
        text = json.dumps(merged, indent=4, sort_keys=True) + "\n"
        target.write_text(text, encoding="utf-8")


def add_machine(source: Path, target: Path) -> None:
    """Describe the machine, where it is not described yet. Raises ResultsError."""
    if not target.exists():
        read_object(source, source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def load(path: Path, shown: Path) -> Any:
    """asv's results of a file. Raises ResultsError naming ``shown``."""
    # Not above, here and below: asv's benchmark processes import every module of the suite.
    from asv.results import Results
    from asv.util import UserError

    try:
        return Results.load(str(path))
    except (UserError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = str(error).replace(str(path), str(shown))
        raise ResultsError(f"{shown} is no result file of asv: {reason}") from error


def present(values: Iterable[object]) -> int:
    """How many were measured, or failed."""
    return sum(not is_missing(value) for value in values)


def take(into: Any, name: str, new: Measured, found: Series, source: Path, shown: Path) -> bool:
    """Take over the values of a benchmark that count for more than those of ``into``.

    Whether there were any; ``found`` counts them. Raises ResultsError.
    """
    from asv.runner import BenchmarkResult

    kept: Sequence[object] = [math.nan] * len(new.values)
    newer, started_at, given_up = False, new.started_at, 0
    if name in into.get_all_result_keys():
        old = Measured.of(into, name, shown)
        later = order(name, (old.version, shown), (new.version, source))
        if later < 0:
            found.stayed += present(new.values)
            return False
        if later > 0:
            given_up = present(old.values)
        elif old.params != new.params:
            raise ResultsError(f"{name} has other parameters in {shown} than in {source}")
        else:
            kept, newer = old.values, new.started_at > old.started_at
            started_at = max(new.started_at, old.started_at)
    differing = {
        index
        for index, (value, before) in enumerate(zip(new.values, kept, strict=True))
        if not is_missing(value) and value != before
    }
    taken = {index for index in differing if newer or is_missing(kept[index])}
    found.stayed += len(differing - taken)
    if not taken:
        return False
    found.taken += len(taken)
    found.given_up += given_up
    into.add_result(
        {"name": name, "version": new.version, "params": new.params},
        BenchmarkResult(
            result=new.values,
            samples=new.samples,
            # None has asv keep a value and its statistics as they are.
            number=[one if index in taken else None for index, one in enumerate(new.numbers)],
            errcode=0,
            stderr="",
            profile=None,
        ),
        started_at=started_at,
        duration=new.duration,
        record_samples=True,
        selected_idx=taken,
    )
    return True


def add_results(source: Path, target: Path, shown: Path) -> Series:
    """Take over the series that ``target`` lacks or has of an earlier version or start.

    Raises ResultsError.
    """
    new = load(source, source)
    measured = {name: Measured.of(new, name, source) for name in new.get_all_result_keys()}
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        return Series(taken=sum(present(one.values) for one in measured.values()))
    into, found = load(target, shown), Series()
    changed = [take(into, name, one, found, source, shown) for name, one in measured.items()]
    if any(changed):
        into.save(str(target.parent.parent))
    return found
