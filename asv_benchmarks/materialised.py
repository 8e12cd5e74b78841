"""Plain torch with all logits in memory: what the fused kernels make unnecessary."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from asv_benchmarks.baselines import materialised
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import Inputs, make_inputs
from asv_benchmarks.nominal import Work
from asv_benchmarks.workloads import Device, Workload

# fp32 logits; log-probabilities and gradients come as large, and for the check of a replay
# against an eager call all of them exist twice.
LARGEST_LOGITS_BYTES = 8 * 2**30


def _inputs(workload: Workload, device: Device) -> Inputs:
    """The workload's inputs. Raises NotImplementedError where its logits do not fit."""
    size = workload.m * workload.v * 4
    if size > LARGEST_LOGITS_BYTES:
        raise NotImplementedError(
            f"the fp32 logits would take {size / 2**30:.0f} GiB, "
            f"this baseline stops at {LARGEST_LOGITS_BYTES // 2**30}"
        )
    return make_inputs(workload, device)


class _Materialised(Family, abstract=True):
    def describe(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> dict[str, Any] | None:
        del fused_lmhead, workload, device
        return None


class Materialised(_Materialised):
    """Log-probs and entropy, without gradients."""

    family = "materialised"
    entropy = "metric"
    work = Work(products=1, logit_ps=13)

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        del fused_lmhead
        inputs = _inputs(workload, device)

        def call() -> Outputs:
            with torch.no_grad():
                return materialised(inputs.hidden, inputs.weight, inputs.target)

        return call


class MaterialisedBackward(_Materialised):
    """Log-probs and the gradients of hidden and weight, from the logits that were kept."""

    family = "materialised_backward"
    work = Work(products=3, logit_ps=16)

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        del fused_lmhead
        inputs = _inputs(workload, device)
        hidden_MH = inputs.hidden.requires_grad_()
        weight_VH = inputs.weight.requires_grad_()

        def call() -> Outputs:
            logits_MV = torch.matmul(hidden_MH, weight_VH.T).float()
            logprobs_MV = torch.log_softmax(logits_MV, dim=-1)
            logprob_M = logprobs_MV.gather(-1, inputs.target[:, None]).squeeze(-1)
            gradients = torch.autograd.grad(logprob_M, (hidden_MH, weight_VH), inputs.upstream)
            return logprob_M.detach(), *gradients

        return call
