"""Give asv's results the series whose rounds a killed run left behind.

    python -m asv_benchmarks.recover asv_benchmarks/results

asv saves a commit's results at its end, so a run that is killed, or a piece of a sweep that
is interrupted, leaves only the lines of its processes. Their samples are what asv would have
pooled; a series that asv's results have is left as it is. Repeating it changes nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from asv_benchmarks.merge import BENCHMARKS, MACHINE, is_missing, lines_of

Run = tuple[str, str, str]
"""Machine, environment, commit."""
Record = Mapping[str, Any]


class RecoverError(ValueError):
    """Rounds that do not belong to these results."""


def records_of(results: Path) -> dict[Run, dict[str, list[Record]]]:
    """The good rounds by run and benchmark; a line cut short by a kill is passed over."""
    found: dict[Run, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((results / "rounds").glob("*.jsonl")):
        for line in lines_of(path):
            try:
                record: Record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if record["status"] == "ok":
                run = (record["machine"], record["environment"], record["commit"])
                found[run][record["benchmark"]].append(record)
    return found


def pooled(
    described: Mapping[str, Any], records: Sequence[Record]
) -> tuple[list[list[float] | None], datetime]:
    """The samples of each parameter combination, as asv orders them, and the first start.

    Rounds of another version than the described one mean something else and are left out.
    """
    combinations = list(itertools.product(*described["params"]))
    places = {combination: index for index, combination in enumerate(combinations)}
    samples: list[list[float] | None] = [None] * len(combinations)
    started = datetime.max.replace(tzinfo=UTC)
    for record in sorted(records, key=lambda record: record["started_at"]):
        index = places.get(tuple(map(repr, record["params"].values())))
        if index is None or record["version"] != described["version"]:
            continue
        samples[index] = (samples[index] or []) + record["samples"]
        started = min(started, datetime.fromisoformat(record["started_at"]))
    return samples, started


def commit_date_ms(results: Path, commit: str) -> int:
    """asv's date of a commit. Raises RecoverError where commits.jsonl lacks it."""
    for line in lines_of(results / "commits.jsonl"):
        known = json.loads(line)
        if known["hash"] == commit:
            return round(datetime.fromisoformat(known["date"]).timestamp() * 1000)
    raise RecoverError(f"{results / 'commits.jsonl'} has no commit {commit}")


def results_of(results: Path, run: Run, python: str) -> Any:
    """asv's results of a run, empty ones where it never got to write any."""
    from asv.results import Results, get_filename

    machine, environment, commit = run
    path = results / get_filename(machine, commit, environment)
    if path.exists():
        return Results.load(str(path))
    described = results / machine / MACHINE
    if not described.exists():
        raise RecoverError(f"{described} is missing: what machine was {machine}?")
    params = json.loads(described.read_text(encoding="utf-8"))
    params.pop("version", None)
    date = commit_date_ms(results, commit)
    return Results({**params, "python": python}, {}, commit, date, python, environment, {})


def add_series(
    into: Any, name: str, described: Mapping[str, Any], records: Sequence[Record]
) -> int:
    """Add what ``into`` lacks of a benchmark; how many series that were."""
    from asv.runner import BenchmarkResult

    samples, started = pooled(described, records)
    kept: Sequence[object] = [math.nan] * len(samples)
    if name in into.get_all_result_keys():
        if into.benchmark_version[name] != described["version"]:
            return 0
        kept = into.get_result_value(name, described["params"])
    taken = {
        index
        for index, (new, old) in enumerate(zip(samples, kept, strict=True))
        if new and is_missing(old)
    }
    if taken:
        into.add_result(
            {"name": name, "version": described["version"], "params": described["params"]},
            BenchmarkResult(
                # asv makes a value of the samples; NaN stands for what was not measured.
                result=[0.0 if new else math.nan for new in samples],
                samples=list(samples),
                number=[1 if new else None for new in samples],
                errcode=0,
                stderr="",
                profile=None,
            ),
            started_at=started,
            record_samples=True,
            selected_idx=taken,
        )
    return len(taken)


def recover(results: Path) -> dict[str, int]:
    """Complete asv's results; how many series came to which file. Raises RecoverError."""
    if not results.is_dir():
        raise RecoverError(f"no results folder at {results}")
    runs = records_of(results)
    if not runs:
        return {}
    described_at = results / BENCHMARKS
    if not described_at.exists():
        raise RecoverError(f"{described_at} is missing: {results} is no folder of asv's results")
    described = json.loads(described_at.read_text(encoding="utf-8"))
    added = {}
    for run, benchmarks in runs.items():
        machine, environment, commit = run
        python = next(iter(benchmarks.values()))[0]["python"].rpartition(".")[0]
        into = results_of(results, run, python)
        count = sum(
            add_series(into, name, described[name], records)
            for name, records in benchmarks.items()
            if name in described
        )
        if count:
            into.save(str(results))
            added[f"{machine}/{commit[:8]}-{environment}"] = count
    return added


def main(arguments: Iterable[str] | None = None) -> int:
    """Exit status 1, with a reason, where rounds and results do not belong together."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.recover", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("results", type=Path, metavar="RESULTS")
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    try:
        added = recover(chosen.results)
    except RecoverError as error:
        print(f"recover: {error}", file=sys.stderr)
        return 1
    for name, count in added.items():
        print(f"{name}: {count} series recovered from their rounds", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
