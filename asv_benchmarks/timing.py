"""The one timer of all families.

Why each rule, on a GPU whose clocks are not locked: host jitter goes with graph
replay; power capping goes with an idle gap before each sample; but after a gap the first
replays are slower, by different amounts, which shows in a short kernel: it is replayed in
bursts, of which about the first half is not counted. One far under 0.3 ms is not paced at
all; one over 20 ms is capped inside itself, where the minimum after a gap of three lengths
holds best. Lengths are nominal ones (``nominal.py``): near a limit, measured ones would mix
two protocols in a series.
``python -m asv_benchmarks.figures agreement`` shows how still the values hold.

The protocol is a value from a pure function and the loop takes any ``Subject``,
so both are tested without a GPU. ``graph.py`` holds the GPU's subject.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from asv_benchmarks.conditions import Conditions, Monitor, summarise

BACK_TO_BACK_BELOW_MS = 0.3
CAPPED_ABOVE_MS = 20.0
GAP_MS = 20.0
BURSTS_BELOW_MS = 5.0
# A burst is over before the power cap is reached.
BURST_MS = 10.0
# A back-to-back sample is the median of a group that keeps the GPU busy this long, so
# that the clock has risen; the group dropped first does the raising.
GROUP_MS = 20.0
FLUSH_MS = 0.1
LONGEST_GROUP = 200

ProtocolName = Literal[
    "graph-back-to-back",
    "graph-bursts",
    "graph-paced",
    "host-clock",
    "fresh-process",
    "counted",
    "events-two-ranks",
]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to sample: ``samples`` are kept, one more is taken first and dropped.

    A sample is the median of ``group`` replays in a row, less the first ``warming``.
    """

    protocol: ProtocolName
    statistic: Literal["median", "minimum"]
    gap_ms: float
    samples: int
    group: int = 1
    warming: int = 0

    def sample(self, subject: Subject) -> float:
        """One sample of ``subject``, in ms."""
        return statistics.median(subject.sample(self.group)[self.warming :])


def _group(length_ms: float) -> int:
    return min(LONGEST_GROUP, math.ceil(GROUP_MS / (length_ms + FLUSH_MS)))


def gpu_plan(length_ms: float) -> Plan:
    """The protocol for a kernel of this nominal length.

    A process samples for about 3 s at most up to 100 ms; beyond, a gap of one length
    keeps three samples of the longest shapes within half a minute.
    """
    if length_ms < BACK_TO_BACK_BELOW_MS:
        return Plan("graph-back-to-back", "median", 0.0, samples=9, group=_group(length_ms))
    if length_ms < BURSTS_BELOW_MS:
        burst = max(2, int(BURST_MS / (length_ms + FLUSH_MS)))
        half = burst // 2
        return Plan("graph-bursts", "median", GAP_MS, samples=9, group=burst, warming=half)
    if length_ms <= CAPPED_ABOVE_MS:
        return Plan("graph-paced", "median", GAP_MS, samples=9)
    three_lengths = round(3 * length_ms, 1)
    if length_ms <= 50:
        return Plan("graph-paced", "minimum", three_lengths, samples=6)
    if length_ms <= 100:
        return Plan("graph-paced", "minimum", three_lengths, samples=3)
    return Plan("graph-paced", "minimum", round(length_ms, 1), samples=3)


def host_plan() -> Plan:
    """The protocol on a CPU: wall clock, no gap, few samples: a laptop is to be done soon."""
    return Plan("host-clock", "median", 0.0, samples=5)


class Subject(Protocol):
    """Something that can be timed again and again. Times in ms."""

    def sample(self, group: int) -> list[float]:
        """Run ``group`` times, each behind a cache flush; the time of each."""
        ...

    def poison(self) -> None:
        """Overwrite the outputs, so that a run that writes nothing cannot pass."""
        ...

    def verify(self) -> None:
        """Raise MismatchError unless the last outputs equal a fresh call's."""
        ...


class MismatchError(RuntimeError):
    """What was timed computes something else than a plain call."""


class HostSubject:
    """A callable timed by the wall clock; it is called eagerly, so it cannot mismatch."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def sample(self, group: int) -> list[float]:
        times = []
        for _ in range(group):
            started = time.perf_counter()
            self._call()
            times.append((time.perf_counter() - started) * 1000)
        return times

    def poison(self) -> None:
        """Each call makes new outputs."""

    def verify(self) -> None:
        """Each sample was a plain call."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A round: samples in ms as taken, their statistic, the conditions beside them."""

    samples: tuple[float, ...]
    value: float
    plan: Plan
    conditions: Conditions


def take_round(
    subject: Subject,
    plan: Plan,
    monitor: Monitor,
    sleep: Callable[[float], None] = time.sleep,
) -> Timing:
    """Take the samples of one round and verify the outputs of the last.

    ``sleep`` takes seconds. Conditions are read right after each kept sample.
    """
    samples, readings = [], []
    for number in range(plan.samples + 1):
        if number == plan.samples:
            subject.poison()
        if plan.gap_ms:
            sleep(plan.gap_ms / 1000)
        sample = plan.sample(subject)
        if number:
            samples.append(round(sample, 6))
            readings.append(monitor.read())
    subject.verify()
    value = statistics.median(samples) if plan.statistic == "median" else min(samples)
    return Timing(tuple(samples), value, plan, summarise(readings))


def scaled(timing: Timing, factor: float) -> Timing:
    """The same round as if everything had taken ``factor`` times as long."""
    if factor == 1:
        return timing
    return replace(
        timing,
        samples=tuple(round(sample * factor, 6) for sample in timing.samples),
        value=round(timing.value * factor, 6),
    )
