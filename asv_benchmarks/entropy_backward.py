"""Differentiable entropy, forward and backward: combined in one pass, and as two passes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from asv_benchmarks.baselines import ENTROPY_CHUNK, differentiable_chunked_entropy
from asv_benchmarks.calls import BACKEND, fused_function
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import Inputs, make_inputs
from asv_benchmarks.nominal import Work
from asv_benchmarks.workloads import Device, Workload

COMBINED_WORK = Work(products=4)
# The log-prob pass and its backward; then logits twice, and two gradients, in plain torch.
TWO_PASS_WORK = Work(products=8, logit_ps=38)


def combined(fused_lmhead: ModuleType, inputs: Inputs, device: Device) -> Callable[[], Outputs]:
    """Log-probs, entropies and the gradients of both results at once."""
    function = fused_function(fused_lmhead, device, "return_entropy", "entropy_requires_grad")
    hidden_MH = inputs.hidden.requires_grad_()
    weight_VH = inputs.weight.requires_grad_()
    backend = BACKEND[device]

    def call() -> Outputs:
        logprob_M, entropy_M = function(
            hidden_MH,
            weight_VH,
            inputs.target,
            return_entropy=True,
            entropy_requires_grad=True,
            backend=backend,
        )
        gradients = torch.autograd.grad(
            (logprob_M, entropy_M),
            (hidden_MH, weight_VH),
            (inputs.upstream, inputs.upstream_entropy),
        )
        return logprob_M.detach(), entropy_M.detach(), *gradients

    return call


def two_passes(fused_lmhead: ModuleType, inputs: Inputs, device: Device) -> Callable[[], Outputs]:
    """The same results from the log-prob pass and a projection for the entropy."""
    function = fused_function(fused_lmhead, device)
    hidden_MH = inputs.hidden.requires_grad_()
    weight_VH = inputs.weight.requires_grad_()
    backend = BACKEND[device]

    def call() -> Outputs:
        logprob_M = function(hidden_MH, weight_VH, inputs.target, backend=backend)
        entropy_M = differentiable_chunked_entropy(hidden_MH, weight_VH)
        gradients = torch.autograd.grad(
            (logprob_M, entropy_M),
            (hidden_MH, weight_VH),
            (inputs.upstream, inputs.upstream_entropy),
        )
        return logprob_M.detach(), entropy_M.detach(), *gradients

    return call


class ForwardBackwardEntropy(Family):
    """Log-probs, entropies and their gradients, for two upstream gradients per token."""

    family = "forward_backward_entropy"
    entropy = "grad"
    work = COMBINED_WORK

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        return combined(fused_lmhead, make_inputs(workload, device), device)


class TwoPassBackward(Family):
    """The same without the combination: the log-prob pass, then a differentiable projection."""

    family = "two_pass_backward"
    entropy = "grad"
    work = TWO_PASS_WORK

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        return two_passes(fused_lmhead, make_inputs(workload, device), device)

    def describe(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> dict[str, Any] | None:
        chosen = super().describe(fused_lmhead, workload, device) or {}
        return {**chosen, "entropy_chunk": ENTROPY_CHUNK}
