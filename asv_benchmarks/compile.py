"""What a first call costs: compiling and tuning, with cold caches and with warm ones.

Every figure of a round comes from the same fresh processes (``fresh.cold_and_warm``): the
first benchmark that asv runs starts them and leaves the figures of the others, which then
cost no process with a GPU. First calls scatter (``PROOF.md``), so that a round takes three
pairs of processes and the median; ``LMHEAD_BENCH_PAIRS`` sets another number, one for a long
history. Each figure is taken once; a further round finds none and measures anew.

The version is still the first although a sample once took an interpreter of its own, and a
round one sample: a value means the same.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from asv_benchmarks.calls import fused_function
from asv_benchmarks.conditions import summarise
from asv_benchmarks.frame import Frame
from asv_benchmarks.fresh import PAIRS, FreshProcessError, Report, cold_and_warm
from asv_benchmarks.timing import Plan, Timing
from asv_benchmarks.watchdog import MARGIN
from asv_benchmarks.workloads import Device, Workload, runs_on

Figures = dict[str, list[float]]
"""Samples by benchmark class; none where the commit does not tell."""

VARIABLE = "LMHEAD_BENCH_PAIRS"

# From the end of the processes to the watchdog: to remove their caches and leave the reason.
SPARE_S = 5.0


def figures(pairs: Sequence[tuple[Report, Report]]) -> Figures:
    """The figures of a round, of each pair of a cold and a warm process one sample.

    Times in ms, shared memory in bytes. Counts are those of the cold process's first call;
    registers, spills and shared memory those of the kernel that takes most of each.
    """
    told = [_figures_of_pair(cold, warm) for cold, warm in pairs]
    return {
        name: [sample for of_pair in told if (sample := of_pair[name]) is not None]
        for name in NAMES
    }


def _figures_of_pair(cold: Report, warm: Report) -> dict[str, float | None]:
    first, same, new = cold["calls"]
    known_process, known_bucket = warm["calls"]
    kernels = cold["kernels"]

    def most(name: str) -> float | None:
        return max((kernel[name] for kernel in kernels), default=None)

    return {
        "Cold": first["ms"],
        "WarmDisk": known_process["ms"],
        "KnownBucket": known_bucket["ms"],
        "SameBucket": same["ms"],
        "NewBucket": new["ms"],
        "Compilations": first["compilations"],
        "Candidates": first["candidates"],
        "Registers": most("registers"),
        "Spills": most("spills"),
        "SharedMemory": most("shared_bytes"),
    }


NAMES = tuple(
    _figures_of_pair(
        {"calls": [{"ms": 0.0, "compilations": 0, "candidates": 0}] * 3, "kernels": []},
        {"calls": [{"ms": 0.0}] * 2},
    )
)


def summary(samples: Sequence[float], unit: str) -> float:
    """The median; of a count one that occurred."""
    return statistics.median(samples) if unit == "ms" else statistics.median_high(samples)


def pairs_of_a_round(environ: Mapping[str, str] = os.environ) -> int:
    """How many pairs of processes a round takes. Raises ValueError where that is malformed."""
    value = environ.get(VARIABLE) or str(PAIRS)
    if not (value.isascii() and value.isdigit() and int(value)):
        raise ValueError(f"{VARIABLE}={value!r} is not a number of at least 1")
    return int(value)


def take_figure(path: Path, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """``{"samples", "schedule"}`` of one figure: what an earlier benchmark left, or anew.

    ``path`` holds what is left; ``measure`` returns ``{"figures", "schedule"}``. A failure
    is left to the other benchmarks too, which would fail alike. Raises FreshProcessError.
    """
    left: dict[str, Any] = {}
    if path.exists():
        left = json.loads(path.read_text(encoding="utf-8"))
    if name not in left.get("figures", {}):
        try:
            left = measure()
        except FreshProcessError as error:
            left = {"figures": {name: [] for name in NAMES}, "schedule": None, "error": str(error)}
    samples = left["figures"].pop(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(left), encoding="utf-8")
    if "error" in left:
        raise FreshProcessError(left["error"])
    return {"samples": samples, "schedule": left["schedule"]}


class _Figure(Frame, abstract=True):
    """One figure of first calls with entropy, for ``tokens``, ``tokens + 1``, ``2 * tokens``."""

    family = "compile"
    entropy = "metric"
    rounds = 2
    timeout = 300.0
    params: ClassVar[list[tuple[Any, ...]]] = [("nemotron-super", "smoke"), (20000, 2048), (1,)]
    param_names: ClassVar[list[str]] = ["model", "tokens", "tp"]

    def shape(self) -> Workload:
        return Workload(self.values["model"], self.values["tokens"], self.values["tp"])

    def begin(self, package: ModuleType, device: Device) -> None:
        workload, handover = self.shape(), self.handover
        if not runs_on(workload, device):
            raise NotImplementedError(f"({workload.label}) does not run on a {device}")
        fused_function(package, device, "return_entropy")
        wanted = pairs_of_a_round()

        def measure() -> dict[str, Any]:
            shape = (workload.m, workload.h, workload.v)
            pairs = cold_and_warm(
                handover.checkout,
                device,
                *shape,
                entropy=True,
                pairs=wanted,
                timeout_s=self.timeout * MARGIN - SPARE_S - self.elapsed(),
            )
            cold, _ = pairs[0]
            return {"figures": figures(pairs), "schedule": cold["schedule"]}

        name = f"{handover.run}-{handover.commit}-{workload.model}-{workload.tokens}.json"
        left = handover.checkout.parent / "first-calls" / name
        found = take_figure(left, type(self).__name__, measure)
        if not found["samples"]:
            raise NotImplementedError(
                f"this commit, its Triton or a {device} does not tell {type(self).__name__}"
            )
        self.samples, self.schedule = tuple(map(float, found["samples"])), found["schedule"]

    def take(self, package: ModuleType, device: Device) -> Timing:
        del package, device
        conditions = summarise([self.monitor.read()])
        plan = Plan("fresh-process", "median", 0.0, samples=len(self.samples))
        return Timing(self.samples, summary(self.samples, self.unit), plan, conditions)

    def chosen(self, package: ModuleType, device: Device) -> dict[str, Any] | None:
        del package, device
        return self.schedule if isinstance(self.schedule, dict) else None


class Cold(_Figure):
    """The first call of a process that finds no cache."""


class WarmDisk(_Figure):
    """The first call of a process that finds a cache on disk."""


class KnownBucket(_Figure):
    """The first call in a further bucket, whose kernels and choice are on disk."""


class SameBucket(_Figure):
    """A call with another length in a bucket that this process has used."""


class NewBucket(_Figure):
    """The first call in a bucket that nobody has used."""


class Compilations(_Figure):
    """Kernels that the cold first call compiles."""

    unit = "kernels"
    method = "track_count"


class Candidates(_Figure):
    """Schedules that the cold first call tries out."""

    unit = "candidates"
    method = "track_count"


class Registers(_Figure):
    """Registers a thread of the hungriest kernel."""

    unit = "registers"
    method = "track_count"


class Spills(_Figure):
    """Registers a thread that the worst kernel spills."""

    unit = "registers"
    method = "track_count"


class SharedMemory(_Figure):
    """Shared memory of the hungriest kernel."""

    unit = "bytes"
    method = "track_bytes"
