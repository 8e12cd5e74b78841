"""The README's figures, from the rounds files of a results folder.

    python -m asv_benchmarks.figures ratios RESULTS --commit REV
    python -m asv_benchmarks.figures agreement RESULTS [OTHER_RESULTS] --commit REV [--runs]
    python -m asv_benchmarks.figures duration RESULTS --commit REV

``ratios`` divides each series by the cuBLAS control of its shape, both from one card: of those
that measured most of the shape beside its control, the one that did so last. Below stand
geometric means, least and most; it looks at the times of calls on a shape and at nothing else.
``agreement`` compares the runs of one commit in two folders; in one folder its first round with
its last, two processes with all the others between them, or with ``--runs`` its newest two runs.
A series' value is the median of its rounds' values. ``duration`` says how long each run
took: from asv's start to its first process, whichever commit's, and from the first to the end of
the last process of this one.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)
"""What a series is called."""


class Key(NamedTuple):
    """A series, apart from machine and environment."""

    family: str
    model: str
    tokens: int
    tp: int

    @property
    def shape(self) -> tuple[str, int, int]:
        """What the control of the same shape shares."""
        return self[1:]


class Series(NamedTuple):
    """A series of any kind: its benchmark with its parameters, as asv prints them.

    Values of another ``version`` of the benchmark mean something else.
    """

    label: str
    unit: str
    version: str | None


def is_time_of_shape(record: Mapping[str, Any]) -> bool:
    """Whether a good round timed a call whose shape is all that its parameters say."""
    return (
        record["status"] == "ok"
        and record["unit"] == "ms"
        and record["protocol"] != "fresh-process"
        and set(record["params"]) == {"model", "tokens", "tp"}
    )


def records_of(results: Path, commit: str) -> Iterator[dict[str, Any]]:
    """The lines of all rounds of ``commit`` (a prefix of its hash)."""
    for path in sorted(results.glob("rounds/*.jsonl")):
        for line in filter(None, path.read_text(encoding="utf-8").split("\n")):
            record: dict[str, Any] = json.loads(line)
            if record["commit"].startswith(commit):
                yield record


def key_of(record: Mapping[str, Any]) -> Key | None:
    """The series of a time of a call on a shape; None for any other round."""
    return Key(record["family"], **record["params"]) if is_time_of_shape(record) else None


def series_of(record: Mapping[str, Any]) -> Series | None:
    """The series of a good round, whatever it measured."""
    if record["status"] != "ok":
        return None
    params = ", ".join(map(repr, record["params"].values()))
    return Series(f"{record['benchmark']}({params})", record["unit"], record.get("version"))


def load_rounds(
    results: Path, commit: str, name: Callable[[Mapping[str, Any]], S | None]
) -> dict[S, list[float]]:
    """Values, by round, of each series' newest run of ``commit`` (a prefix of its hash).

    ``name`` says of which series a round is. Raises SystemExit, naming the folder, where there
    are none.
    """
    runs = runs_of(results, commit, name)
    # A run's id begins with its time: what a newer one measured too counts.
    return {key: values for run in sorted(runs) for key, values in runs[run].items()}


def runs_of(
    results: Path, commit: str, name: Callable[[Mapping[str, Any]], S | None]
) -> dict[str, dict[S, list[float]]]:
    """Values of every run of ``commit``, by series and round.

    Raises SystemExit, naming the folder, where there are none.
    """
    runs: dict[str, dict[S, list[float]]] = {}
    for record in records_of(results, commit):
        key = name(record)
        if key is not None:
            runs.setdefault(record["run"], {}).setdefault(key, []).append(record["value"])
    if not runs:
        raise SystemExit(f"{results}/rounds holds no good round of commit {commit}")
    return runs


def load(results: Path, commit: str) -> dict[Key, float]:
    """The value in ms of each time of a call on a shape: the median of :func:`load_rounds`."""
    return medians(load_rounds(results, commit, key_of))


def medians(rounds: Mapping[S, list[float]]) -> dict[S, float]:
    """Each series' value."""
    return {key: statistics.median(values) for key, values in rounds.items()}


def load_shapes(results: Path, commit: str) -> tuple[dict[Key, float], int]:
    """Each series' value in ms, those of a shape from one card: cards differ by percents. And how
    many series only other cards have.

    Raises SystemExit, naming the folder, where there are none.
    """
    runs = runs_of(results, commit, key_of)
    # Who does not tell the card may have had another one each time.
    cards = {
        record["run"]: record.get("gpu_uuid") or record["run"]
        for record in records_of(results, commit)
    }
    parts: dict[tuple[str, int, int], dict[str, Measured]] = {}
    for name in sorted(runs):
        for key, value in medians(runs[name]).items():
            of_card = parts.setdefault(key.shape, {}).setdefault(cards[name], Measured({}, name))
            of_card.series[key] = value
            of_card.newest = name
    found: dict[Key, float] = {}
    for shapes in parts.values():
        found |= max(shapes.values(), key=Measured.worth).series
    return found, len({key for series in runs.values() for key in series} - found.keys())


@dataclass(slots=True)
class Measured:
    """What one card measured of a shape, and its newest run that did."""

    series: dict[Key, float]
    newest: str

    def worth(self) -> tuple[bool, int, str]:
        """With the control, more series, or a newer one is worth more."""
        return any(key.family == "control" for key in self.series), len(self.series), self.newest


def newest_runs(results: Path, commit: str) -> tuple[dict[Series, float], dict[Series, float]]:
    """Each series' value in the newest two runs, the older first.

    Raises SystemExit, naming the folder, where there are no two, or they share no series.
    """
    runs = runs_of(results, commit, series_of)
    if len(runs) < 2:
        raise SystemExit(f"{results}/rounds holds one run of commit {commit} only")
    older, newer = (medians(runs[name]) for name in sorted(runs)[-2:])
    if not older.keys() & newer.keys():
        raise SystemExit(f"the newest two runs of {commit} in {results}/rounds share no series")
    return older, newer


def ends(rounds: Mapping[S, list[float]]) -> tuple[dict[S, float], dict[S, float]]:
    """First and last round of each series that has two. Raises SystemExit where none has."""
    several = {key: values for key, values in rounds.items() if len(values) > 1}
    if not several:
        raise SystemExit("no series has two rounds, which could differ")
    first = {key: values[0] for key, values in several.items()}
    return first, {key: values[-1] for key, values in several.items()}


def ratios(values: Mapping[Key, float]) -> dict[Key, float]:
    """Each series over the control of its shape, where that was measured."""
    controls = {key.shape: value for key, value in values.items() if key.family == "control"}
    return {
        key: value / controls[key.shape]
        for key, value in values.items()
        if key.family != "control" and key.shape in controls
    }


def differences(one: Mapping[S, float], other: Mapping[S, float]) -> dict[S, float]:
    """Relative difference of the two runs, for the series that both have.

    Infinite where the first value alone is 0.
    """
    return {
        key: other[key] / value - 1 if value else (math.inf if other[key] else 0.0)
        for key, value in one.items()
        if key in other
    }


def ratio_table(values: Mapping[Key, float]) -> str:
    """Markdown: a row a shape, a column a family, in units of the control; then means and ends."""
    found = ratios(values)
    families = sorted({key.family for key in found})
    lines = [
        "| model | tokens | TP | control ms | " + " | ".join(families) + " |",
        "| --- | --- | --- | --- |" + " --- |" * len(families),
    ]
    for control in sorted(key for key in values if key.family == "control"):
        cells = [
            f"{found[key]:.3f}" if (key := control._replace(family=family)) in found else "-"
            for family in families
        ]
        lines.append(
            f"| {control.model} | {control.tokens} | {control.tp} | {values[control]:.2f} | "
            + " | ".join(cells)
            + " |"
        )
    columns = [[ratio for key, ratio in found.items() if key.family == one] for one in families]
    for name, of in (("geometric mean", statistics.geometric_mean), ("least", min), ("most", max)):
        cells = [f"{of(column):.3f}" for column in columns]
        lines.append(f"| {name} | | | | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def agreement_table(one: Mapping[Series, float], other: Mapping[Series, float]) -> str:
    """Markdown: series by how far the two runs are apart, farthest first."""
    found = differences(one, other)
    lines = ["| series | value | again | unit | difference |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {key.label} | {one[key]:.5g} | {other[key]:.5g} | {key.unit} | {found[key]:+.2%} |"
        for key in sorted(found, key=lambda key: -abs(found[key]))
    ]
    return "\n".join(lines)


def duration_table(results: Path, commit: str) -> str:
    """Markdown: a row for each run of ``commit``, oldest first.

    Where several commits took turns, the whole time holds the others' processes too. Raises
    SystemExit, naming the folder, where there are none.
    """
    runs: dict[str, list[dict[str, Any]]] = {}
    beginnings: dict[str, datetime] = {}
    commits: dict[str, set[str]] = {}
    for record in records_of(results, ""):
        run, at = record["run"], datetime.fromisoformat(record["started_at"])
        beginnings[run] = min(at, beginnings.get(run, at))
        commits.setdefault(run, set()).add(record["commit"])
        if record["commit"].startswith(commit):
            runs.setdefault(run, []).append(record)
    if not runs:
        raise SystemExit(f"{results}/rounds holds no round of commit {commit}")
    lines = [
        "| began | machine | commits | series | processes | start, s | in processes, s "
        "| in all, s |"
    ]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in sorted(runs):
        records = sorted(runs[name], key=lambda record: str(record["started_at"]))
        began = [datetime.fromisoformat(record["started_at"]) for record in records]
        taken = [float((record.get("seconds") or {}).get("whole", 0.0)) for record in records]
        series = {(record["benchmark"], str(record["params"])) for record in records}
        whole = (began[-1] - began[0]).total_seconds() + taken[-1]
        start = (beginnings[name] - started(name)).total_seconds()
        lines.append(
            f"| {began[0]:%Y-%m-%d %H:%M:%S} | {records[0]['machine']} | {len(commits[name])} | "
            f"{len(series)} | {len(records)} | {start:.0f} | {sum(taken):.0f} | {whole:.0f} |"
        )
    return "\n".join(lines)


def started(run: str) -> datetime:
    """When asv was started, which its run's id begins with."""
    return datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.figures")
    parser.add_argument("table", choices=["ratios", "agreement", "duration"])
    parser.add_argument("results", type=Path)
    parser.add_argument("other", type=Path, nargs="?", help="the second run, for agreement")
    parser.add_argument("--commit", required=True, help="hash, or its first characters")
    parser.add_argument("--runs", action="store_true", help="agreement of the newest two runs")
    chosen = parser.parse_args(arguments)
    if chosen.runs and (chosen.table != "agreement" or chosen.other):
        parser.error("--runs is for agreement, within one folder")
    if chosen.table == "ratios":
        values, elsewhere = load_shapes(chosen.results, chosen.commit)
        print(ratio_table(values))
        if elsewhere:
            print(f"{elsewhere} series of other cards are left out", file=sys.stderr)
    elif chosen.table == "duration":
        print(duration_table(chosen.results, chosen.commit))
    elif chosen.runs:
        print(agreement_table(*newest_runs(chosen.results, chosen.commit)))
    elif chosen.other is None:
        print(agreement_table(*ends(load_rounds(chosen.results, chosen.commit, series_of))))
    else:
        one, other = (
            medians(load_rounds(folder, chosen.commit, series_of))
            for folder in (chosen.results, chosen.other)
        )
        print(agreement_table(one, other))


if __name__ == "__main__":
    main(sys.argv[1:])
