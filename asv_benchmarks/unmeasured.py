"""Which commits of the history change what the kernels do and still lack measurements.

    python -m asv_benchmarks.unmeasured --range main --machine h200 > hashes
    asv run HASHFILE:hashes --machine h200 --attribute rounds=1

Prints their hashes, oldest first; on stderr also how many series of the tier each lacks. A
commit changes what the kernels do where it touches one of the paths (``fused_lmhead`` without
``fused_lmhead/parallel``) other than in a Python file's comments, docstrings or layout. A merge
is held against its first parent. Skipped and failed series count as measured, as in ``sweep``.
It needs neither torch nor a GPU: ``--environment checkout-py3.12-gpu`` asks for another machine's.
"""

from __future__ import annotations

import argparse
import ast
import functools
import glob
import os
import posixpath
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from asv_benchmarks.commits import GitError, run_git
from asv_benchmarks.place import (
    Place,
    PlaceError,
    check_machine,
    environment_of,
    own_gpu,
    own_machine,
    results_folder,
)
from asv_benchmarks.sweep import positive
from asv_benchmarks.sweep_plan import Series, SweepError, measured, runnable
from asv_benchmarks.tiers import DEFAULT_TIER, TIERS, series_of
from asv_benchmarks.versions import VersionError
from asv_benchmarks.workloads import Device

KERNELS = "fused_lmhead"
# Collectives between ranks: the kernels of a rank are not in it.
APART = "fused_lmhead/parallel"
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit does to a file: git's modes and hashes before and after."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str

    @property
    def rewrites_python(self) -> bool:
        """Whether a Python file was there before and is there after."""
        regular = self.old_mode.startswith("100") and self.new_mode.startswith("100")
        return regular and self.path.endswith(".py")


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with what it changes against its first parent, or against nothing."""

    hash: str
    subject: str
    changes: tuple[Change, ...]


def history(repository: Path, revisions: str) -> list[Commit]:
    """The commits of a range, parents first. Raises GitError where there is no such range."""
    shown = ("--raw", "-z", "--no-abbrev", "--no-renames", "--root", "--diff-merges=first-parent")
    order = ("--topo-order", "--reverse", "--format=%H %s")
    log = run_git(repository, "log", *shown, *order, "--end-of-options", revisions, "--")
    fields = iter(os.fsdecode(log).split("\0"))
    found: list[tuple[str, str, list[Change]]] = []
    for field in filter(None, fields):
        if field.lstrip("\n").startswith(":"):
            old_mode, new_mode, old, new, _ = field.lstrip("\n:").split(" ")
            found[-1][2].append(Change(next(fields), old_mode, new_mode, old, new))
        else:
            commit, _, subject = field.partition(" ")
            found.append((commit, subject, []))
    return [Commit(commit, subject, tuple(changes)) for commit, subject, changes in found]


def contents(repository: Path, blobs: Iterable[str]) -> dict[str, bytes]:
    """Blobs by their hashes, without those that the repository lacks. Raises GitError."""
    asked = sorted(set(blobs))
    output = run_git(repository, "cat-file", "--batch", given="\n".join(asked).encode())
    found, at = {}, 0
    for blob in asked:
        end = output.index(b"\n", at)
        words = output[at:end].split()
        at = end + 1
        if len(words) == 3:
            size = int(words[2])
            found[blob] = output[at : at + size]
            at += size + 1
    return found


@functools.lru_cache(maxsize=256)  # a commit's file is the next one's before
def meaning(source: bytes | None) -> str | None:
    """What Python makes of a file, without docstrings; None where it makes nothing of it."""
    if source is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a file of long ago
            tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def is_under(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies in it; everything lies in ``.``."""
    return folder in (".", path) or path.startswith(f"{folder}/")


def changing(
    repository: Path, commits: Sequence[Commit], paths: Sequence[str], revisions: str
) -> list[Commit]:
    """Those that change what the code under ``paths`` does; of none, what the kernels do.

    Raises SweepError for a path that none of them touches, GitError.
    """
    folders = {path: posixpath.normpath(path) for path in paths}
    touched = {change.path for commit in commits for change in commit.changes}
    for path, folder in folders.items():
        if not path or not any(is_under(file, folder) for file in touched):
            raise SweepError(f"no commit in {revisions!r} touches {path!r}")

    def counts(change: Change) -> bool:
        if not paths:
            return is_under(change.path, KERNELS) and not is_under(change.path, APART)
        return any(is_under(change.path, folder) for folder in folders.values())

    kept = {commit.hash: list(filter(counts, commit.changes)) for commit in commits}
    rewritten = [one for changes in kept.values() for one in changes if one.rewrites_python]
    files = contents(repository, (blob for one in rewritten for blob in (one.old, one.new)))

    def alters(change: Change) -> bool:
        if not change.rewrites_python:
            return True
        before, after = (meaning(files.get(blob)) for blob in (change.old, change.new))
        return before is None or before != after

    return [commit for commit in commits if any(map(alters, kept[commit.hash]))]


def device_of(environment: str) -> Device:
    """What an environment measures, which ends its name. Raises PlaceError."""
    for device in DEFAULT_TIER:
        if environment.endswith(f"-{device}"):
            return device
    raise PlaceError(f"the environment {environment!r} ends neither in -gpu nor in -cpu")


def check_names(results: Path, environment: str, machine: str) -> None:
    """Raises PlaceError where nobody knows the machine, or its environment: all would lack."""
    if not (results / machine / "machine.json").is_file():
        try:
            check_machine(machine)
        except PlaceError as error:
            raise PlaceError(f"{results} has no machine {machine!r}, and {error}") from error
    if environment == environment_of(device_of(environment)):
        return
    any_commit = Place(results, "?" * 8, glob.escape(environment), glob.escape(machine))
    if not any((results / "rounds").glob(any_commit.rounds.name)):
        raise PlaceError(f"{results} has no rounds of {machine!r} in {environment!r}")


def rounds_had(
    place: Place, series: Iterable[Series], again: frozenset[str] = frozenset()
) -> list[int]:
    """How many rounds each series has, on whatever card. Raises SweepError, VersionError."""
    done = measured(place.rounds, place.commit, again)
    return [done.get(pair, Counter()).total() for pair in series]


def report(options: argparse.Namespace) -> None:
    """Print what is asked for. Raises PlaceError, SweepError, VersionError, GitError, OSError."""
    environment = options.environment or environment_of("gpu" if own_gpu() else "cpu")
    device = device_of(environment)
    results, machine = results_folder(), options.machine or own_machine()
    check_names(results, environment, machine)
    tier = options.tier or DEFAULT_TIER[device]
    series = runnable(series_of(tier), device)
    if not series:
        raise SweepError(f"no series of the tier {tier!r} runs on a {device}")
    again = frozenset({"failed"} if options.retry_failed else ())
    commits = history(Path.cwd(), options.range)
    commits = changing(Path.cwd(), commits, options.paths, options.range)
    lacking = in_part = 0
    for commit in commits:
        had = rounds_had(Place(results, commit.hash, environment, machine), series, again)
        if missing := sum(number < options.rounds for number in had):
            lacking += 1
            in_part += any(had)
            print(commit.hash)
            said = f"{commit.hash[:8]} {commit.subject}: {missing} of {len(had)} series missing"
            print(said, file=sys.stderr)
    kind = f"commits that change {', '.join(options.paths)}"
    kind = kind if options.paths else "kernel-changing commits"
    said = f"{lacking} of {len(commits)} {kind} lack the tier {tier}; {in_part} of them in part"
    print(said, file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 whether or not some lack measurements, 1 where that cannot be told."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.unmeasured", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help=f"default: {KERNELS} without {APART}"
    )
    parser.add_argument("--range", default="main", metavar="REVISIONS", help="default: main")
    parser.add_argument(
        "--tier",
        choices=sorted(TIERS),
        help="default: what asv measures without --bench, core on a GPU and smoke on a CPU",
    )
    parser.add_argument("--rounds", type=positive, default=1, help="processes a series (default 1)")
    parser.add_argument("--machine", help="asv's name of the machine (default: this one)")
    parser.add_argument(
        "--environment", metavar="NAME", help="such as checkout-py3.12-gpu (default: this one)"
    )
    parser.add_argument("--retry-failed", action="store_true", help="failures do not count as done")
    options = parser.parse_args(arguments)
    try:
        report(options)
    except (PlaceError, SweepError, VersionError, GitError, OSError) as error:
        print(f"unmeasured: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
