"""Forward and backward of the log-probabilities."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch

from asv_benchmarks.calls import BACKEND, fused_function
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.nominal import Work
from asv_benchmarks.workloads import Device, Workload


class ForwardBackward(Family):
    """Log-probs and the gradients of hidden and weight, for a gradient per token."""

    family = "forward_backward"
    work = Work(products=4)  # the logits again, and two gradients

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        function = fused_function(fused_lmhead, device)
        inputs = make_inputs(workload, device)
        hidden_MH = inputs.hidden.requires_grad_()
        weight_VH = inputs.weight.requires_grad_()
        backend = BACKEND[device]

        def call() -> Outputs:
            logprob_M = function(hidden_MH, weight_VH, inputs.target, backend=backend)
            d_hidden_MH, d_weight_VH = torch.autograd.grad(
                logprob_M, (hidden_MH, weight_VH), inputs.upstream
            )
            return logprob_M.detach(), d_hidden_MH, d_weight_VH

        return call
