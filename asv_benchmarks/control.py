"""The control: a product that no commit of this project changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.workloads import Device, Workload

LARGEST_LOGITS_BYTES = 32 * 2**30


class Control(Family):
    """The library's ``hidden @ weight.T``, logits written: what a fused pass is held against.

    Where the logits would pass ``LARGEST_LOGITS_BYTES``, a slice of the tokens is timed and
    scaled to all of them; the record's ``measured_tokens`` says so.
    """

    family = "control"
    plantable = False

    def portion(self, workload: Workload, device: Device) -> Workload:
        tokens = workload.tokens
        while tokens * workload.v * (2 if device == "gpu" else 4) > LARGEST_LOGITS_BYTES:
            tokens //= 2
        return replace(workload, tokens=tokens)

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        del fused_lmhead
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
