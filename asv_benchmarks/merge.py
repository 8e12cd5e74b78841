"""Results of several folders into one: shards, sittings, machines that are gone.

    python -m asv_benchmarks.merge FROM [FROM …] INTO

Each FROM is merged into INTO, in the order given; repeating it changes nothing.

Rounds and commits are lines. Those that INTO lacks are appended, and none is ever removed.
A line of FROM that a killed writer tore is passed over.

asv's results have one value for each series. INTO's stays, with three exceptions: INTO has
none; FROM's benchmark is of a later version; it is of the same version and started later.
A later version replaces all the values that asv's file has of that benchmark, also those of
parameters that FROM did not measure. Their rounds stay in the rounds file.

Where folders contradict each other or a file is broken, INTO is left as it was.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

BENCHMARKS = "benchmarks.json"
COMMITS = "commits.jsonl"
MACHINE = "machine.json"


class MergeError(ValueError):
    """Folders that contradict each other, or a file that cannot be merged.

    Says which, and what has become of INTO.
    """


@dataclass(slots=True)
class Counts:
    """What came of merging one folder.

    ``rounds`` and ``series`` were taken over. ``stayed``: values of INTO that differ from
    FROM's and count. ``given_up``: values of INTO that a later version replaced.
    ``passed_over``: lines of FROM that are torn, or otherwise no JSON.
    """

    rounds: int = 0
    series: int = 0
    stayed: int = 0
    given_up: int = 0
    passed_over: int = 0

    def words(self, target: Path) -> str:
        """For the command line."""
        said = f"{self.rounds} rounds, {self.series} series in asv's results"
        if self.stayed:
            said += f", {self.stayed} stay as {target} has them"
        if self.given_up:
            said += f", {self.given_up} values of earlier versions given up"
        if self.passed_over:
            said += f", {self.passed_over} broken lines passed over"
        return said


class Lines(NamedTuple):
    """What a file of lines has: JSON objects by their line, and a count of other lines."""

    whole: dict[str, dict[str, Any]]
    others: int


def read_lines(path: Path) -> Lines:
    """Those of a file, none where there is no file. The last may lack its newline."""
    whole, others = {}, 0
    content = path.read_bytes() if path.exists() else b""
    # Not splitlines: a reason may hold one of the other characters that end a line. Bytes, as
    # a line may be torn within a character.
    for piece in filter(bytes.strip, content.split(b"\n")):
        try:
            line = piece.decode().strip()
            parsed = json.loads(line)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            whole[line] = parsed
        else:
            others += 1
    return Lines(whole, others)


def lines_of(path: Path) -> list[str]:
    """The complete lines of a file, each once; none where there is no file."""
    return list(read_lines(path).whole)


def append(path: Path, lines: Sequence[str]) -> None:
    """Append lines to a file, after a newline where its last line lacks one or is torn."""
    if not lines:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_bytes()[-1:] if path.exists() else b""
    text = "".join(f"{line}\n" for line in lines)
    with path.open("ab") as file:
        file.write((b"" if before in (b"", b"\n") else b"\n") + text.encode())


def add_rounds(source: Path, target: Path) -> tuple[int, int]:
    """Append the rounds that ``target`` lacks; how many those were, and how many lines of
    ``source`` were passed over."""
    lines, known = read_lines(source), read_lines(target).whole
    new = [line for line in lines.whole if line not in known]
    append(target, new)
    return len(new), lines.others


def add_commits(source: Path, target: Path) -> int:
    """Append the commits that ``target`` lacks, whatever their tags are by now; how many lines
    of ``source`` were passed over."""
    lines = read_lines(source)
    hashes = {line: commit.get("hash") for line, commit in lines.whole.items()}
    commits = {line: commit for line, commit in hashes.items() if isinstance(commit, str)}
    known = {str(commit.get("hash")) for commit in read_lines(target).whole.values()}
    append(target, [line for line, commit in commits.items() if commit not in known])
    return lines.others + len(hashes) - len(commits)


def is_missing(value: object) -> bool:
    """asv's NaN: skipped, or not selected. None is a failure."""
    return isinstance(value, float) and math.isnan(value)


def names_of(source: Path) -> list[Path]:
    """What is merged of a folder, by its place in it. Raises MergeError."""
    if not (source / "rounds").is_dir():
        raise MergeError(f"{source} has no rounds: it is no folder of this suite's results")
    found = [source / BENCHMARKS, source / COMMITS, *sorted(source.glob("rounds/*.jsonl"))]
    for described in sorted(source.glob(f"*/{MACHINE}")):
        found += sorted(described.parent.glob("*.json"))
    return [path.relative_to(source) for path in found if path.exists() or path.is_symlink()]


def is_file(path: Path) -> bool:
    """Whether there is a file. Raises MergeError where there is something else.

    Reading a pipe would wait for its writer.
    """
    if path.is_file():
        return True
    if path.exists():
        raise MergeError(f"{path} is no file")
    for folder in path.parents:
        if folder.exists():
            if not folder.is_dir():
                raise MergeError(f"{folder} is no folder")
            break
    return False


def _merge(source: Path, target: Path, shown: Path) -> Counts:
    """Merge one folder into another, which need not exist and which messages call ``shown``.

    Raises MergeError at the first file that cannot be merged; those before it are.
    """
    # Here, not above: lines_of serves where asv is not installed.
    from asv_benchmarks import merge_asv

    counts = Counts()
    for name in names_of(source):
        pair = source / name, target / name
        try:
            if name == Path(BENCHMARKS):
                merge_asv.add_benchmarks(*pair, shown / name)
            elif name == Path(COMMITS):
                counts.passed_over += add_commits(*pair)
            elif name.suffix == ".jsonl":
                new, passed_over = add_rounds(*pair)
                counts.rounds += new
                counts.passed_over += passed_over
            elif name.name == MACHINE:
                merge_asv.add_machine(*pair)
            else:
                series = merge_asv.add_results(*pair, shown / name)
                counts.series += series.taken
                counts.stayed += series.stayed
                counts.given_up += series.given_up
        except merge_asv.ResultsError as error:
            raise MergeError(str(error)) from error
        except OSError as error:
            reason = error.strerror or error
            raise MergeError(f"{source / name} into {shown / name}: {reason}") from error
    return counts


def rehearse(sources: Sequence[Path], target: Path) -> None:
    """Merge all into a copy of what they change in ``target``. Raises MergeError or OSError."""
    if target.exists() and not target.is_dir():
        raise MergeError(f"{target} is no folder")
    with tempfile.TemporaryDirectory(prefix="lmhead-merge-") as scratch:
        copy = Path(scratch)
        for source in sources:
            for name in names_of(source):
                if not is_file(source / name):
                    raise MergeError(f"{source / name} is no file")
                if is_file(target / name):
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    # With its mode: what may not be written there fails here.
                    shutil.copy(target / name, copy / name)
        for index, source in enumerate(sources):
            try:
                _merge(source, copy, target)
            except MergeError as error:
                before = " and ".join(map(str, sources[:index]))
                raise MergeError(f"{error}, {before} merged before" if before else error) from error


def merge(sources: Sequence[Path], target: Path) -> list[Counts]:
    """Merge folders into another in their order; what came of each.

    Raises MergeError. It says that ``target`` is as it was, which holds unless a write to it
    failed: all is done to a copy first.
    """
    try:
        rehearse(sources, target)
    except (MergeError, OSError) as error:
        raise MergeError(f"{error}; {target} is left as it was") from error
    try:
        target.mkdir(parents=True, exist_ok=True)
        return [_merge(source, target, target) for source in sources]
    except (MergeError, OSError) as error:
        raise MergeError(
            f"{error}; {target} may have a part of what was to be merged: repeat it"
        ) from error


def main(arguments: Iterable[str] | None = None) -> int:
    """Exit status 1, with a reason, where the folders cannot be merged."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.merge", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("source", type=Path, nargs="+", metavar="FROM")
    parser.add_argument("target", type=Path, metavar="INTO")
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    try:
        merged = merge(chosen.source, chosen.target)
    except MergeError as error:
        print(f"merge: {error}", file=sys.stderr)
        return 1
    for source, counts in zip(chosen.source, merged, strict=True):
        print(f"{source}: {counts.words(chosen.target)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
