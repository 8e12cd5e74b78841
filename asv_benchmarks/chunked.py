"""The torch backend: what a machine without Triton gets, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from asv_benchmarks.calls import fused_function
from asv_benchmarks.combined import combined_call
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.nominal import Work
from asv_benchmarks.workloads import Device, Workload

CHUNK = 1024


class Chunked(Family):
    """Log-probs and entropy by ``backend="torch"``, without gradients."""

    family = "chunked"
    entropy = "metric"
    work = Work(products=1, logit_ps=14)
    planted_work = Work(products=1, logit_ps=19)

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        # The torch backend is the same anywhere: nothing of a GPU's is asked of the commit.
        function = fused_function(fused_lmhead, "cpu", "return_entropy", "chunk_size")
        inputs = make_inputs(workload, device)

        return combined_call(function, inputs, backend="torch", chunk_size=CHUNK)

    def describe(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> dict[str, Any] | None:
        del fused_lmhead, workload, device
        return {"chunk_size": CHUNK}
