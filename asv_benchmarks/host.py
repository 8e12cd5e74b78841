"""The host's own time for a call: argument checks, look-ups, launches; not the GPU's work."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType

import torch

from asv_benchmarks.calls import BACKEND, fused_function
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.timing import HostSubject, Plan, Timing, scaled, take_round
from asv_benchmarks.workloads import Device, Workload

# Each call has another length than the one before it, all in one bucket.
LENGTHS = 8
MICROSECONDS = 1000.0  # in a ms, the timer's unit
# Groups of one process jump between 100 and 200 us, as if the core were shared: they are spread
# over a second, and the least of their medians is the call's own time.
PLAN = Plan("host-clock", "minimum", 20.0, samples=30, group=20)
CPU_PLAN = Plan("host-clock", "minimum", 0.0, samples=5, group=4)


class Host(Family):
    """Microseconds from a call to its return, for another length in a warm bucket.

    The device is idle when the call comes, so that it is never waited for. On a CPU,
    where nothing is launched, the call's whole work is in it.
    """

    family = "host"
    unit = "us"
    version = "2"
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
        gpu = device == "gpu"
        # The first group, which is not counted, has met every length once.
        subject = UntilReturn(self.call, torch.cuda.synchronize if gpu else _nothing)
        timing = take_round(subject, PLAN if gpu else CPU_PLAN, self.monitor)
        return scaled(timing, MICROSECONDS)


class UntilReturn(HostSubject):
    """A callable timed until it returns, whatever it has started by then; ``wait`` ends that."""

    def __init__(self, call: Callable[[], object], wait: Callable[[], None]) -> None:
        super().__init__(call)
        self._wait = wait

    def sample(self, group: int) -> list[float]:
        times = []
        for _ in range(group):
            self._wait()
            times += super().sample(1)
        self._wait()
        return times


def _nothing() -> None:
    """A CPU has finished when the call returns."""
