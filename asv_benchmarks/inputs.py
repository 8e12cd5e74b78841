"""Seeded inputs of a workload, made on the device that measures them.

Hidden normal, weight normal times H^-0.5 (logits then have unit variance), targets
uniform, upstream gradients normal. Never zeros: power, and so the clock, depends on
the bits that toggle.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from asv_benchmarks.workloads import SEED, Device, Workload


@dataclass(frozen=True, slots=True)
class Inputs:
    """``hidden [M, H]`` and ``weight [V, H]`` in one dtype, ``target [M]`` int64,
    ``upstream [M]`` and ``upstream_entropy [M]`` fp32: the gradients of the log-probs and
    of the entropies, different for every token."""

    hidden: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    upstream: torch.Tensor
    upstream_entropy: torch.Tensor


def dtype_of(device: Device) -> torch.dtype:
    """bf16 as trained on a GPU; a CPU's bf16 product says nothing, so fp32 there."""
    return torch.bfloat16 if device == "gpu" else torch.float32


def make_inputs(workload: Workload, device: Device, vocabulary: int | None = None) -> Inputs:
    """The same values for every commit on the same kind of device.

    ``vocabulary``: rows of the weight, if not the workload's.
    """
    place = torch.device("cuda" if device == "gpu" else "cpu")
    dtype = dtype_of(device)
    generator = torch.Generator(place).manual_seed(SEED)
    m, h, v = workload.m, workload.h, vocabulary or workload.v
    hidden_MH = torch.randn(m, h, dtype=dtype, device=place, generator=generator)
    weight_VH = torch.randn(v, h, dtype=dtype, device=place, generator=generator)
    weight_VH.mul_(h**-0.5)
    target_M = torch.randint(v, (m,), device=place, generator=generator)
    upstream_M = torch.randn(m, dtype=torch.float32, device=place, generator=generator)
    upstream_entropy_M = torch.randn(m, dtype=torch.float32, device=place, generator=generator)
    return Inputs(hidden_MH, weight_VH, target_M, upstream_M, upstream_entropy_M)
