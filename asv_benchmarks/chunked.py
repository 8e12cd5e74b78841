"""The torch backend: what a machine without Triton gets, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from asv_benchmarks.calls import fused_function
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

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        # The torch backend is the same anywhere: nothing of a GPU's is asked of the commit.
        function = fused_function(fused_lmhead, "cpu", "return_entropy", "chunk_size")
        inputs = make_inputs(workload, device)

        def call() -> Outputs:
            with torch.no_grad():
                logprob_M, entropy_M = function(
                    inputs.hidden,
                    inputs.weight,
                    inputs.target,
                    return_entropy=True,
                    backend="torch",
                    chunk_size=CHUNK,
                )
            return logprob_M, entropy_M

        return call

    def describe(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> dict[str, Any] | None:
        del fused_lmhead, workload, device
        return {"chunk_size": CHUNK}
