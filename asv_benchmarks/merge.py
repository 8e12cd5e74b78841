"""Results of several folders into one: shards, sittings, machines that are gone.

    python -m asv_benchmarks.merge FROM [FROM …] INTO

Rounds and commits are lines, and those that INTO lacks are added. Of asv's own results, a
series that INTO lacks is taken over, or has of an earlier version of its benchmark or of one
that was started earlier; others stay. Repeating it changes nothing. Where the folders
contradict each other INTO is left as it was.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

BENCHMARKS = "benchmarks.json"
MACHINE = "machine.json"


class MergeError(ValueError):
    """Two folders contradict each other, or one of them is none of results."""


class Versions(NamedTuple):
    """Those of a benchmark in two files. They are counted up by hand."""

    benchmark: str
    known: str
    new: str
    target: Path
    source: Path

    @property
    def later(self) -> int:
        """1 if the new one is later, 0 if they are the same, -1 if the known one is.

        Raises MergeError where that cannot be told.
        """
        if self.new == self.known:
            return 0
        if not (self.new.isdecimal() and self.known.isdecimal()):
            raise MergeError(
                f"{self.benchmark} is version {self.known} in {self.target} "
                f"and {self.new} in {self.source}"
            )
        return 1 if int(self.new) > int(self.known) else -1


def lines_of(path: Path) -> list[str]:
    """The complete lines of a file, none where there is no file.

    Not splitlines: a reason may hold one of the other characters that end a line.
    """
    if not path.exists():
        return []
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def add_lines(source: Path, target: Path) -> int:
    """Append the lines of ``source`` that ``target`` lacks; how many those were."""
    known = set(lines_of(target))
    new = [line for line in lines_of(source) if line not in known]
    if new:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in new)
    return len(new)


def add_commits(source: Path, target: Path) -> None:
    """Append the commits that ``target`` lacks, whatever their tags are by now."""
    known = {json.loads(line)["hash"] for line in lines_of(target)}
    new = [line for line in lines_of(source) if json.loads(line)["hash"] not in known]
    if new:
        with target.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in new)


def add_benchmarks(source: Path, target: Path) -> None:
    """Add the descriptions of benchmarks that ``target`` lacks or has of an earlier version.

    Each result says which it has. Raises MergeError.
    """
    if not source.exists():
        return
    new: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    known = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    for name, entry in new.items():
        before = known.setdefault(name, entry)
        if isinstance(entry, dict):
            versions = Versions(name, before["version"], entry["version"], target, source)
            if versions.later > 0:
                known[name] = entry
    target.write_text(json.dumps(known, indent=4, sort_keys=True) + "\n", encoding="utf-8")


def is_missing(value: object) -> bool:
    """asv's NaN: skipped, or not selected. None is a failure."""
    return isinstance(value, float) and math.isnan(value)


def add_results(source: Path, target: Path) -> tuple[int, int]:
    """Take over the series that ``target`` lacks or has of an earlier start; how many, and how
    many others differ there."""
    from asv.results import Results
    from asv.runner import BenchmarkResult

    new = Results.load(str(source))
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        names = new.get_all_result_keys()
        whole = [new.get_result_value(name, new.get_result_params(name)) for name in names]
        return sum(not is_missing(value) for values in whole for value in values), 0
    into, count, stayed = Results.load(str(target)), 0, 0
    for name in new.get_all_result_keys():
        params, version = new.get_result_params(name), new.benchmark_version[name]
        values = new.get_result_value(name, params)
        kept: Sequence[object] = [math.nan] * len(values)
        newer = new.started_at[name] > into.started_at.get(name, -math.inf)
        if name in into.get_all_result_keys():
            later = Versions(name, into.benchmark_version[name], version, target, source).later
            if later < 0:
                stayed += sum(not is_missing(value) for value in values)
                continue
            if later == 0:
                if into.get_result_params(name) != params:
                    raise MergeError(f"{name} has other parameters in {target} than in {source}")
                kept = into.get_result_value(name, params)
        taken = {
            index
            for index, (value, old) in enumerate(zip(values, kept, strict=True))
            if not is_missing(value) and (is_missing(old) or (newer and value != old))
        }
        stayed += sum(
            index not in taken and not is_missing(value) and value != old
            for index, (value, old) in enumerate(zip(values, kept, strict=True))
        )
        if not taken:
            continue
        count += len(taken)
        stats = new.get_result_stats(name, params)
        into.add_result(
            {"name": name, "version": version, "params": params},
            BenchmarkResult(
                result=values,
                samples=new.get_result_samples(name, params),
                number=[one and one.get("number") for one in stats],
                errcode=0,
                stderr="",
                profile=None,
            ),
            started_at=datetime.fromtimestamp(
                max(new.started_at[name], into.started_at.get(name, 0)) / 1000, UTC
            ),
            duration=new.duration.get(name),
            record_samples=True,
            selected_idx=taken,
        )
    if count:
        into.save(str(target.parent.parent))
    return count, stayed


def merge(source: Path, target: Path) -> tuple[int, int, int]:
    """Merge one folder into another: how many rounds and series came anew, and how many series
    have another value there, which stays.

    Raises MergeError, having changed nothing: all is done to a copy first.
    """
    if not (source / "rounds").is_dir():
        raise MergeError(f"{source} has no rounds: it is no folder of this suite's results")
    with tempfile.TemporaryDirectory(prefix="lmhead-merge-") as scratch:
        copy = Path(scratch) / "copy"
        if target.exists():
            shutil.copytree(target, copy)
        _merge(source, copy)
    return _merge(source, target)


def _merge(source: Path, target: Path) -> tuple[int, int, int]:
    target.mkdir(parents=True, exist_ok=True)
    add_benchmarks(source / BENCHMARKS, target / BENCHMARKS)
    add_commits(source / "commits.jsonl", target / "commits.jsonl")
    rounds = sum(
        add_lines(path, target / "rounds" / path.name)
        for path in sorted((source / "rounds").glob("*.jsonl"))
    )
    series = stayed = 0
    for machine in sorted(path.parent for path in source.glob(f"*/{MACHINE}")):
        described = target / machine.name / MACHINE
        if not described.exists():
            described.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(machine / MACHINE, described)
        for path in sorted(machine.glob("*.json")):
            if path.name != MACHINE:
                new, other = add_results(path, target / machine.name / path.name)
                series, stayed = series + new, stayed + other
    return rounds, series, stayed


def main(arguments: Iterable[str] | None = None) -> int:
    """Exit status 1, with a reason, where folders contradict each other."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.merge", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("source", type=Path, nargs="+", metavar="FROM")
    parser.add_argument("target", type=Path, metavar="INTO")
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    for source in chosen.source:
        try:
            rounds, series, stayed = merge(source, chosen.target)
        except MergeError as error:
            print(f"merge: {error}", file=sys.stderr)
            return 1
        kept = f", {stayed} stay as {chosen.target} has them" if stayed else ""
        print(f"{source}: {rounds} rounds, {series} series in asv's results{kept}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
