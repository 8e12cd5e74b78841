"""What a sweep measures, in which order, what is left of it, and how much fits into a time.

The times are those of an H200; a tier's series and their protocols do not depend on them.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from asv_benchmarks.nominal import Work, nominal_ms
from asv_benchmarks.place import Place
from asv_benchmarks.tiers import (
    ACTIVE,
    ACTIVE_TWO_PASS,
    COMPILE,
    CONTROL,
    FORWARD,
    FORWARD_BACKWARD,
    FORWARD_BACKWARD_ENTROPY,
    FORWARD_ENTROPY,
    HOST,
    MEMORY,
    TIERS,
    TWO_PASS,
    TWO_PASS_BACKWARD,
)
from asv_benchmarks.timing import gpu_plan
from asv_benchmarks.versions import version_of
from asv_benchmarks.workloads import BY_NAME, Device, Workload, runs_on

Series = tuple[str, str]
"""A benchmark, and its parameters as asv prints them."""

# asv and its fork server import the suite before anything is measured.
ASV_START_S = 15.0
# A process from fork to end, without its calls; and the calls that it makes beside its samples.
PROCESS_S = 0.9
OTHER_CALLS = 6
# Six fresh processes that compile and load, shared by the ten figures of COMPILE.
FIRST_CALLS_S = 1.7
# Thirty groups, 20 ms apart.
HOST_S = 0.8
# What calls take in units of the product; those that are not here 1.6.
PRODUCTS = {
    CONTROL: 1.0,
    FORWARD: 1.0,
    FORWARD_ENTROPY: 1.0,
    TWO_PASS: 3.3,
    FORWARD_BACKWARD: 4.3,
    FORWARD_BACKWARD_ENTROPY: 4.3,
    ACTIVE: 4.3,
    TWO_PASS_BACKWARD: 12.0,
    ACTIVE_TWO_PASS: 12.0,
}


class SweepError(RuntimeError):
    """Nothing can be measured or told, and why."""


def in_shard(series: Sequence[Series], index: int, count: int) -> list[Series]:
    """Part ``index`` (from 1) of ``count``: whole shapes, by their place among all shapes."""
    shapes = {params: None for _, params in series}
    place = {params: number for number, params in enumerate(sorted(shapes))}
    return [pair for pair in series if place[pair[1]] % count == index - 1]


def runnable(series: Iterable[Series], device: Device) -> list[Series]:
    """Those that this kind of device can run."""
    found = []
    for benchmark, params in series:
        workload = workload_of(params)
        if workload is None or runs_on(workload, device):
            found.append((benchmark, params))
    return found


def workload_of(params: str) -> Workload | None:
    """The shape of a series' parameters, as asv prints them; None where they name none."""
    values = ast.literal_eval(f"({params},)")
    return Workload(*values[:3]) if values[0] in BY_NAME else None


def is_time_of_shape(series: Series) -> bool:
    """Whether it times a call on a shape, which others of that shape are held against."""
    benchmark = series[0]
    return benchmark.endswith(".track_time") and benchmark not in (HOST, *COMPILE)


def expected_s(series: Series) -> float:
    """About how long one process of a series takes on an H200, in seconds."""
    benchmark, params = series
    workload = workload_of(params)
    if workload is None or benchmark in MEMORY:
        return PROCESS_S
    if benchmark in COMPILE:
        return PROCESS_S + FIRST_CALLS_S
    if benchmark == HOST:
        return PROCESS_S + HOST_S
    length_ms = nominal_ms(workload, Work(PRODUCTS.get(benchmark, 1.6)))
    plan = gpu_plan(length_ms)
    sample_ms = plan.gap_ms + plan.group * length_ms
    calls_ms = (plan.samples + 1) * sample_ms + OTHER_CALLS * length_ms
    return PROCESS_S + calls_ms / 1000


def in_order(tier: str) -> list[Series]:
    """A tier's series in the order of its selections: in each whole shapes, the shortest first."""
    ordered: list[Series] = []
    for part in TIERS[tier]:
        shapes = [[(name, params) for name in part.benchmarks] for params in part.params]
        shapes.sort(key=lambda shape: sum(map(expected_s, shape)))
        ordered += itertools.chain.from_iterable(shapes)
    return list(dict.fromkeys(ordered))


def measured(
    rounds: Path, commit: str, again: Set[str] = frozenset()
) -> dict[Series, Counter[str | None]]:
    """How many rounds each series has by card, without those of a status in ``again``.

    Failures and skips count too, else they would be tried without end; rounds of another
    version of the benchmark than its present one mean something else and do not. A line cut
    short by a kill is passed over. Raises SweepError, naming it, for one that is no round,
    VersionError.
    """
    found: dict[Series, Counter[str | None]] = {}
    if not rounds.exists():
        return found
    for number, line in enumerate(rounds.read_bytes().split(b"\n"), 1):
        try:
            record: Mapping[str, Any] = json.loads(line)
        except ValueError:
            continue
        try:
            counts = record["commit"] == commit and record["status"] not in again
            if counts and record["version"] == version_of(record["benchmark"]):
                params = ", ".join(map(repr, record["params"].values()))
                series = found.setdefault((record["benchmark"], params), Counter())
                series[record.get("gpu_uuid")] += 1
        except (KeyError, TypeError, AttributeError) as error:
            raise SweepError(f"line {number} of {rounds} is no round: {error!r}") from error
    return found


def remaining(
    place: Place, series: Sequence[Series], rounds: int, again: Set[str] = frozenset()
) -> list[Series]:
    """Those of ``series`` that lack rounds.

    Times of a shape are divided by each other, and cards differ by percents: where no card has
    all times of a shape, this one is to measure those that it lacks. A card that is not there for
    as long as a shape takes (its series times ``rounds``) does not come to the end of it.
    """
    done = measured(place.rounds, place.commit, again)

    def lacks(pair: Series, card: str | None) -> bool:
        of = done.get(pair, Counter())
        return of[card] + (of[None] if card else 0) < rounds

    shapes: dict[str, list[Series]] = {}
    for pair in filter(is_time_of_shape, series):
        shapes.setdefault(pair[1], []).append(pair)
    cards = {card for of in done.values() for card in of}
    split = {
        params
        for params, pairs in shapes.items()
        if all(any(lacks(pair, card) for pair in pairs) for card in cards)
    }
    missing = {pair for pair in series if done.get(pair, Counter()).total() < rounds}
    unmeasured = {params for _, params in filter(is_time_of_shape, missing)}
    todo: list[Series] = []
    for pair in series:
        if not is_time_of_shape(pair) or pair[1] not in split:
            todo += [pair] if pair in missing else []
        elif pair in missing or pair[1] not in unmeasured:
            # All at once, and only when it is the missing ones' turn: else each card would
            # begin with what the last one did, and none might come to the end of it.
            todo += [one for one in shapes[pair[1]] if lacks(one, place.card)]
    return list(dict.fromkeys(todo))


def piece(series: Sequence[Series], rounds: int, seconds: float) -> list[Series]:
    """As many of ``series``, from the first, as fit into ``seconds``.

    Whole shapes, except where none fits.
    """
    chosen: list[Series] = []
    left = seconds - ASV_START_S
    for _, group in itertools.groupby(series, key=lambda pair: pair[1]):
        shape = list(group)
        costs = list(itertools.accumulate(rounds * expected_s(pair) for pair in shape))
        if costs[-1] > left:
            return chosen or shape[: sum(cost <= left for cost in costs)]
        chosen += shape
        left -= costs[-1]
    return chosen
