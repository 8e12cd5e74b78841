"""The control: a product that no commit of this project changes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.workloads import Device, Workload

LARGEST_LOGITS_BYTES = 32 * 2**30


class Control(Family):
    """The library's ``hidden @ weight.T``, logits written: what a fused pass is held against."""

    family = "control"

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        del fused_lmhead
        size = workload.m * workload.v * (2 if device == "gpu" else 4)
        if size > LARGEST_LOGITS_BYTES:
            raise NotImplementedError(
                f"the logits would take {size / 2**30:.0f} GiB, "
                f"the control stops at {LARGEST_LOGITS_BYTES // 2**30}"
            )
        inputs = make_inputs(workload, device)
        logits_MV = inputs.hidden.new_empty(workload.m, workload.v)

        def call() -> Outputs:
            torch.matmul(inputs.hidden, inputs.weight.T, out=logits_MV)
            return (logits_MV,)

        return call

    def describe(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> dict[str, Any] | None:
        del fused_lmhead, workload, device
        return None
