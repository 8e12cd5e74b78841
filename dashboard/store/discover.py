"""Which files of a results folder matter, what they contain, and which belong together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dashboard.errors import InputError
from dashboard.parsing import UnreadableError, load_json
from dashboard.store.hashes import digests
from dashboard.store.tables import identifier

ROUNDS_FOLDER = "rounds"
DEFINITIONS = "benchmarks.json"
MACHINE = "machine.json"
_LONGEST_NAME = 128


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the results folder; ``path`` is relative to it, with forward slashes.

    ``digest`` is that of its content, empty, with ``problem``, where it cannot be read.
    """

    path: str
    kind: str
    location: Path
    digest: str
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

    @property
    def run_id(self) -> int:
        """The number of the run that these files are: the same for the same names and bytes."""
        return identifier(
            "run", *(text for file in self.files for text in (file.path, file.digest))
        )


def discover(results: Path) -> list[SourceFile]:
    """Every file of interest, by path.

    Raises InputError where there is nothing to read, and for a folder around or in a results
    folder: benchmarks.json and the rounds would not be found, and no parameter had a name.
    """
    if not results.exists():
        raise InputError(f"no results folder at {results}")
    if not results.is_dir():
        raise InputError(f"{results} is not a folder")
    try:
        found = {path: (location, kind) for path, location, kind in _walk(results)}
        _refuse_wrong_folder(results, found.values())
    except OSError as error:
        raise InputError(f"cannot read {results}: {error.strerror}") from error
    if not any(kind in ("result", "rounds") for _, kind in found.values()):
        raise InputError(f"no asv results in {results} (expected <machine>/<commit>-<env>.json)")
    read = digests(results, {path: location for path, (location, _) in found.items()})
    return [_source_file(path, *found[path], read.get(path, "")) for path in sorted(found)]


def grouped(files: Sequence[SourceFile]) -> list[Group]:
    """Results files, each with its rounds; rounds without one by themselves."""
    rounds = {file.location.stem: file for file in files if file.kind == "rounds"}
    results = [file for file in files if file.kind == "result"]
    taken = {file.path: rounds.pop(_own_rounds(file), None) for file in results}
    if rounds and not all(taken.values()):
        lonely = {_name(file): file for file in results if taken[file.path] is None}
        for stem, file in list(rounds.items()):
            # asv shortens long environment names, and people prefix files: ask the rounds
            machine, name = _asv_name(file)
            for (folder, own), result in lonely.items():
                if folder == machine and own.endswith(name) and taken[result.path] is None:
                    taken[result.path] = rounds.pop(stem)
                    break
    groups = [Group(file, taken[file.path]) for file in results]
    return groups + [Group(None, file) for file in rounds.values()]


def _own_rounds(file: SourceFile) -> str:
    return f"{file.location.stem}-{file.location.parent.name}"


def _name(file: SourceFile) -> tuple[str, str]:
    return file.location.parent.name, file.location.stem


def _asv_name(rounds: SourceFile) -> tuple[str | None, str]:
    """The machine and name of the results file that the first readable line belongs to."""
    try:
        with rounds.location.open("rb") as handle:
            line = load_json(handle.readline(1 << 20))
        environment, commit, machine = line["environment"], line["commit"], line["machine"]
        if len(environment) >= _LONGEST_NAME:
            environment = "env-" + hashlib.md5(environment.encode()).hexdigest()
        return machine, f"{commit[:8]}-{environment}"
    except (OSError, UnreadableError, KeyError, TypeError, UnicodeEncodeError):
        return None, ""


def _walk(results: Path) -> Iterator[tuple[str, Path, str]]:
    # asv knows no results at the top, unless the folder given is a machine's
    at_top = (results / MACHINE).is_file()
    for name_of_folder, _, names in os.walk(results, onerror=_raise):
        folder = Path(name_of_folder)
        inside = folder.relative_to(results)
        prefix = f"{inside.as_posix()}/" if inside.parts else ""
        for name in names:
            kind = _kind(inside, name, at_top)
            if kind is not None:
                yield _printable(prefix + name), folder / name, kind


def _refuse_wrong_folder(results: Path, found: Collection[tuple[Path, str]]) -> None:
    """InputError if the folder is none of results, but one lies in it or it lies in one.

    A results folder has benchmarks.json; one of somebody who lost it has machine folders.
    """
    if (results / DEFINITIONS).is_file():
        return
    above = results.resolve().parent
    if (results / MACHINE).is_file() and (above / DEFINITIONS).is_file():
        raise InputError(
            f"{results} is one machine's part of the results folder {above}: ingest that"
        )
    machines = {location.parent for location, kind in found if kind == "machine"}
    if any(folder.parent == results for folder in machines):
        return
    folders = machines | {location.parent for location, kind in found if kind == "result"}
    inner = sorted(f for f in {f.parent for f in folders} if (f / DEFINITIONS).is_file())
    if inner:
        more = f" (and {len(inner) - 1} more)" if len(inner) > 1 else ""
        raise InputError(f"{results} is no results folder, {inner[0]}{more} in it is: ingest that")


def _kind(inside: Path, name: str, at_top: bool) -> str | None:
    if inside.parts[:1] == (ROUNDS_FOLDER,):
        return "rounds" if name.endswith(".jsonl") else None
    if name == MACHINE:
        return "machine"
    if not inside.parts and name in ("commits.jsonl", DEFINITIONS):
        return name.removesuffix(".json").removesuffix(".jsonl")
    if name.endswith(".json") and name != DEFINITIONS and (inside.parts or at_top):
        return "result"
    return None


def _source_file(path: str, location: Path, kind: str, digest: str | OSError) -> SourceFile:
    if isinstance(digest, OSError):
        return SourceFile(path, kind, location, "", f"cannot be read: {digest.strerror}")
    return SourceFile(path, kind, location, digest, None if digest else "not a regular file")


def _printable(path: str) -> str:
    """The path with bytes that are not UTF-8 shown as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _raise(error: OSError) -> None:
    raise error
