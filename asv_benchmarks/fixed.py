"""The fused kernels under one fixed schedule: what a chosen one has to beat."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

from asv_benchmarks.calls import fused_function
from asv_benchmarks.combined import combined_call
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.nominal import Work
from asv_benchmarks.workloads import Device, Workload

# Tokens x vocabulary x hidden of a tile, as untuned kernels of this kind have it.
TILE = {"block_m": 128, "block_n": 256, "block_k": 32, "group_m": 8, "num_warps": 8}


class _Fixed(Family, abstract=True):
    """Log-probs and entropy in one pass, without gradients."""

    entropy = "metric"
    stages: ClassVar[int]

    def schedule(self) -> dict[str, int]:
        """The fields of the measured commit's ``Schedule``."""
        return {**TILE, "num_stages": self.stages}

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        if device == "cpu":
            raise NotImplementedError("tile schedules are the Triton backend's")
        function = fused_function(fused_lmhead, device, "return_entropy", "schedule")
        schedules = importlib.import_module(f"{fused_lmhead.__name__}.schedules")
        schedule = schedules.Schedule(**self.schedule())
        inputs = make_inputs(workload, device)

        return combined_call(function, inputs, backend="triton", schedule=schedule)

    def describe(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> dict[str, Any] | None:
        del fused_lmhead, workload, device
        return self.schedule()


class FiveStages(_Fixed):
    """Five stages of loads in flight: the reference PRs' baseline."""

    family = "fixed"
    stages = 5
    work = Work(products=1.5)


class ThreeStages(_Fixed):
    """Three stages. A family of its own, so that nobody takes one baseline for the other."""

    family = "fixed_three_stages"
    stages = 3
    work = Work(products=1.7)
