"""Log-probabilities with entropy: combined in one pass, and as two passes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from asv_benchmarks.baselines import ENTROPY_CHUNK, ENTROPY_PASS, chunked_entropy
from asv_benchmarks.calls import BACKEND, fused_function
from asv_benchmarks.combined import combined_call
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.nominal import Work
from asv_benchmarks.workloads import Device, Workload


class ForwardEntropy(Family):
    """Log-probs and entropy from one fused pass, without gradients."""

    family = "forward_entropy"
    entropy = "metric"

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        function = fused_function(fused_lmhead, device, "return_entropy")
        inputs = make_inputs(workload, device)
        backend = BACKEND[device]

        return combined_call(function, inputs, backend=backend)


class TwoPass(Family):
    """The same two results without the combination: log-probs, then projected entropy."""

    family = "two_pass"
    entropy = "metric"
    work = Work(products=1 + ENTROPY_PASS.products, logit_ps=ENTROPY_PASS.logit_ps)

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        function = fused_function(fused_lmhead, device)
        inputs = make_inputs(workload, device)
        backend = BACKEND[device]

        def call() -> Outputs:
            with torch.no_grad():
                logprob_M = function(inputs.hidden, inputs.weight, inputs.target, backend=backend)
                return logprob_M, chunked_entropy(inputs.hidden, inputs.weight)

        return call

    def describe(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> dict[str, Any] | None:
        chosen = super().describe(fused_lmhead, workload, device) or {}
        return {**chosen, "entropy_chunk": ENTROPY_CHUNK}
