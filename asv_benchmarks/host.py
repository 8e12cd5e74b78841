"""The host's own time for a call: argument checks, look-ups, launches; not the GPU's work."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from types import ModuleType

import torch

from asv_benchmarks.calls import BACKEND, fused_function
from asv_benchmarks.conditions import summarise
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.timing import Plan, Timing
from asv_benchmarks.workloads import Device, Workload

# Each call has another length than the one before it, all in one bucket.
LENGTHS = 8
PLAN = Plan("host-clock", "median", 0.0, samples=9, group=40)
CPU_PLAN = Plan("host-clock", "median", 0.0, samples=5, group=4)


class Host(Family):
    """Microseconds from a call to its return, for another length in a warm bucket.

    The device is idle when the call comes, so that it is never waited for. On a CPU,
    where nothing is launched, the call's whole work is in it.
    """

    family = "host"
    unit = "us"
    entropy = "metric"
    plantable = False

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        function = fused_function(fused_lmhead, device, "return_entropy")
        inputs = make_inputs(workload, device)
        backend = BACKEND[device]
        lengths = range(workload.m - LENGTHS, workload.m)
        # Sliced beforehand: slicing is not the call's.
        pairs = itertools.cycle([(inputs.hidden[:m], inputs.target[:m]) for m in lengths])

        def call() -> Outputs:
            hidden_mH, target_m = next(pairs)
            with torch.no_grad():
                logprob_m, entropy_m = function(
                    hidden_mH, inputs.weight, target_m, return_entropy=True, backend=backend
                )
            return logprob_m, entropy_m

        return call

    def take(self, package: ModuleType, device: Device) -> Timing:
        del package
        wait = torch.cuda.synchronize if device == "gpu" else _nothing
        plan = PLAN if device == "gpu" else CPU_PLAN
        samples, readings = [], []
        for number in range(plan.samples + 1):
            sample = statistics.median(self._microseconds(wait) for _ in range(plan.group))
            if number:  # the first group has met every length once
                samples.append(round(sample, 3))
                readings.append(self.monitor.read())
        return Timing(tuple(samples), statistics.median(samples), plan, summarise(readings))

    def _microseconds(self, wait: Callable[[], None]) -> float:
        wait()
        started = time.perf_counter_ns()
        self.call()
        taken = time.perf_counter_ns() - started
        wait()
        return taken / 1000


def _nothing() -> None:
    """A CPU has finished when the call returns."""
