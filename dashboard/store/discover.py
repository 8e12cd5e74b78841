"""Which files of a results folder matter, and which of them changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dashboard.errors import InputError
from dashboard.parsing import UnreadableError

ROUNDS_FOLDER = "rounds"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the results folder; ``path`` is relative to it, with forward slashes.

    ``sha256`` is None, with ``problem``, where it cannot be read.
    """

    path: str
    kind: str
    location: Path
    sha256: str | None
    problem: str | None = None

    def read(self) -> bytes:
        """The file's bytes. Raises UnreadableError where it cannot be read."""
        if self.problem is not None:
            raise UnreadableError(self.problem)
        try:
            return self.location.read_bytes()
        except OSError as error:
            raise UnreadableError(f"cannot be read: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Group:
    """An asv results file and the rounds file beside it; one of them may be missing."""

    result: SourceFile | None
    rounds: SourceFile | None

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """The files it has."""
        return tuple(file for file in (self.result, self.rounds) if file is not None)


def discover(results: Path) -> list[SourceFile]:
    """Every file of interest, by path. Raises InputError where there is nothing to read."""
    if not results.exists():
        raise InputError(f"no results folder at {results}")
    if not results.is_dir():
        raise InputError(f"{results} is not a folder")
    try:
        found = sorted(_walk(results), key=lambda file: file.path)
    except OSError as error:
        raise InputError(f"cannot read {results}: {error.strerror}") from error
    if not any(file.kind in ("result", "rounds") for file in found):
        raise InputError(f"no asv results in {results} (expected <machine>/<commit>-<env>.json)")
    return found


def grouped(files: list[SourceFile]) -> list[Group]:
    """Results files, each with its rounds; rounds without one by themselves."""
    rounds = {file.location.stem: file for file in files if file.kind == "rounds"}
    groups = []
    for file in files:
        if file.kind == "result":
            name = f"{file.location.stem}-{file.location.parent.name}"
            groups.append(Group(file, rounds.pop(name, None)))
    return groups + [Group(None, file) for file in rounds.values()]


def _walk(results: Path) -> Iterator[SourceFile]:
    # asv knows no results at the top, unless the folder given is a machine's
    at_top = (results / "machine.json").is_file()
    for name_of_folder, _, names in os.walk(results, onerror=_raise):
        folder = Path(name_of_folder)
        inside = folder.relative_to(results)
        for name in names:
            location = folder / name
            kind = _kind(inside, name, at_top)
            if kind is not None:
                yield _source(location, _printable((inside / name).as_posix()), kind)


def _kind(inside: Path, name: str, at_top: bool) -> str | None:
    if inside.parts[:1] == (ROUNDS_FOLDER,):
        return "rounds" if name.endswith(".jsonl") else None
    if name == "machine.json":
        return "machine"
    if not inside.parts and name in ("commits.jsonl", "benchmarks.json"):
        return name.removesuffix(".json").removesuffix(".jsonl")
    if name.endswith(".json") and name != "benchmarks.json" and (inside.parts or at_top):
        return "result"
    return None


def _source(location: Path, path: str, kind: str) -> SourceFile:
    try:
        if not location.is_file():
            return SourceFile(path, kind, location, None, "not a regular file")
        with location.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        return SourceFile(path, kind, location, None, f"cannot be read: {error.strerror}")
    return SourceFile(path, kind, location, digest)


def _printable(path: str) -> str:
    """The path with bytes that are not UTF-8 shown as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _raise(error: OSError) -> None:
    raise error
