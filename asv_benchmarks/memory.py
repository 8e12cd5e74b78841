"""Peak device bytes of an eager call, over its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import torch

from asv_benchmarks import backward
from asv_benchmarks import entropy as entropy_families
from asv_benchmarks.conditions import summarise
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.timing import Plan, Timing
from asv_benchmarks.workloads import Device, Workload

PLAN = Plan("counted", "median", 0.0, samples=3)


def storage_bytes(tensors: Outputs) -> int:
    """Bytes that the tensors hold, each storage once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}
    return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())


class _Peak(Family, abstract=True):
    """What the call of ``timed`` needs beside what it is given and gives back."""

    family = "memory"
    unit = "bytes"
    method = "track_bytes"
    rounds = 2  # an allocator does not waver
    plantable = False
    timed: ClassVar[type[Family]]

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        if device == "cpu":
            raise NotImplementedError("torch counts no peak bytes on a CPU")
        return self.timed().prepare(fused_lmhead, workload, device)

    def take(self, package: ModuleType, device: Device) -> Timing:
        del package, device
        samples, readings = [], []
        for _ in range(PLAN.samples):
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            outputs = self.call()
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated()
            samples.append(float(peak - before - storage_bytes(outputs)))
            del outputs
            readings.append(self.monitor.read())
        return Timing(tuple(samples), sorted(samples)[1], PLAN, summarise(readings))

    def describe(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> dict[str, Any] | None:
        return self.timed().describe(fused_lmhead, workload, device)


class Forward(_Peak):
    """A forward pass with entropy."""

    entropy = "metric"
    timed = entropy_families.ForwardEntropy


class ForwardBackward(_Peak):
    """Forward and backward of the log-probs."""

    timed = backward.ForwardBackward
