"""A slowdown of a known size, planted to see whether it is found: ``asv_benchmarks.proof``.

``LMHEAD_BENCH_PLANT=<commit>:<fraction>`` makes every planted call of that commit, and
of no other, do ``fraction`` more work: the product of the call's hidden states with as
many more rows of the vocabulary. Records say so (``planted``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from asv_benchmarks.nominal import PRODUCT_FLOPS
from asv_benchmarks.workloads import Device, Workload

if TYPE_CHECKING:
    from asv_benchmarks.graph import Outputs

VARIABLE = "LMHEAD_BENCH_PLANT"


def planted_fraction(commit: str, environ: Mapping[str, str] = os.environ) -> float | None:
    """The fraction of extra work for ``commit``; None where none is planted.

    Raises ValueError where the variable is malformed.
    """
    value = environ.get(VARIABLE)
    if not value:
        return None
    planted, _, fraction = value.partition(":")
    try:
        size = float(fraction)
    except ValueError:
        size = math.nan
    if not 0 < size < 10:
        raise ValueError(f"{VARIABLE}={value!r} is not <commit>:<fraction>")
    return size if planted == commit else None


def extra_rows(workload: Workload, length_ms: float, fraction: float) -> int:
    """Rows of the vocabulary whose product takes ``fraction`` of ``length_ms``."""
    extra_flops = fraction * length_ms / 1000 * PRODUCT_FLOPS
    return max(1, round(extra_flops / (2 * workload.m * workload.h)))


def with_extra_work(
    call: Callable[[], Outputs],
    workload: Workload,
    length_ms: float,
    fraction: float,
    device: Device,
) -> Callable[[], Outputs]:
    """``call``, then the extra product; the outputs stay the call's."""
    import torch

    from asv_benchmarks.inputs import make_inputs

    rows = extra_rows(workload, length_ms, fraction)
    inputs = make_inputs(workload, device, vocabulary=rows)
    product_MV = inputs.hidden.new_empty(workload.m, rows)

    def slower() -> Outputs:
        outputs = call()
        torch.matmul(inputs.hidden, inputs.weight.T, out=product_MV)
        return outputs

    return slower
