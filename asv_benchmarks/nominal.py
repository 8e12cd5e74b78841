"""How long a call is expected to take, from its shape alone.

The protocol of a series (paced or not, median or minimum, how long a gap) follows from
this and from nothing measured: it cannot differ between commits, rounds or machines.
"""

from __future__ import annotations

from dataclasses import dataclass

from asv_benchmarks.workloads import Workload

# What the library's bf16 product reaches on an H200 over the shapes of the sweep.
PRODUCT_FLOPS = 800e12


@dataclass(frozen=True, slots=True)
class Work:
    """What a call does: ``products`` of 2·M·H·V operations, and ``logit_ps`` picoseconds
    for each of the M·V logits where plain torch reads and writes them."""

    products: float = 1.0
    logit_ps: float = 0.0


def nominal_ms(workload: Workload, work: Work) -> float:
    """Milliseconds of one call on the GPU that ``PRODUCT_FLOPS`` describes."""
    logits = workload.m * workload.v
    seconds = 2 * logits * workload.h * work.products / PRODUCT_FLOPS
    return seconds * 1000 + logits * work.logit_ps * 1e-9
