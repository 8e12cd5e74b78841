"""Differentiable entropy where only some rows have an upstream gradient, as after masking.

``active`` is their share in percent; the other rows' gradients are zero. The active rows
are drawn at random, seeded: prompts and padding lie anywhere in a packed batch.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import torch

from asv_benchmarks import entropy_backward
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import Inputs, make_inputs
from asv_benchmarks.tiers import ACTIVITIES
from asv_benchmarks.workloads import SEED, Device, Workload


def active_rows(rows: int, percent: int) -> torch.Tensor:
    """Which of ``rows`` have a gradient, ``[rows]`` bool on the CPU: exactly so many percent."""
    generator = torch.Generator().manual_seed(SEED)
    mask = torch.zeros(rows, dtype=torch.bool)
    mask[torch.randperm(rows, generator=generator)[: round(rows * percent / 100)]] = True
    return mask


class _Active(Family, abstract=True):
    """Both upstream gradients, masked."""

    # The layout of the reference: 16384 tokens over CP 2, TP 4; and the smoke shape.
    params: ClassVar[list[tuple[Any, ...]]] = [
        ("nemotron-super", "smoke"),
        (8192, 2048),
        (4, 1),
        ACTIVITIES,
    ]
    param_names: ClassVar[list[str]] = ["model", "tokens", "tp", "active"]
    entropy = "grad"

    def masked(self, workload: Workload, device: Device) -> Inputs:
        """Inputs whose inactive rows have zero upstream gradients."""
        inputs = make_inputs(workload, device)
        inactive = ~active_rows(workload.m, self.values["active"]).to(inputs.upstream.device)
        inputs.upstream.masked_fill_(inactive, 0.0)
        inputs.upstream_entropy.masked_fill_(inactive, 0.0)
        return inputs


class ForwardBackwardEntropyActive(_Active):
    """The combined pass."""

    family = "forward_backward_entropy"
    work = entropy_backward.COMBINED_WORK

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        return entropy_backward.combined(fused_lmhead, self.masked(workload, device), device)


class TwoPassBackwardActive(_Active):
    """The two passes."""

    family = "two_pass_backward"
    work = entropy_backward.TWO_PASS_WORK

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        return entropy_backward.two_passes(fused_lmhead, self.masked(workload, device), device)
