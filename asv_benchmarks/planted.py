"""A slowdown of a known size, planted to see whether it is found: ``asv_benchmarks.proof``.

``LMHEAD_BENCH_PLANT=<commit>[,<commit>…]:<fraction>[,<fraction>]`` makes every plantable
call of those commits, and of no other, do a fraction more work: the product of the call's
hidden states with as many more rows of the vocabulary. The first fraction is for the calls
whose times hold stillest, of 2 to 20 ms by their shape, the second for the others.
Records say so (``planted``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from asv_benchmarks.nominal import PRODUCT_FLOPS
from asv_benchmarks.workloads import Device, Workload

if TYPE_CHECKING:
    from asv_benchmarks.graph import Outputs

VARIABLE = "LMHEAD_BENCH_PLANT"

STILLEST_MS = (2.0, 20.0)


def planted_fraction(
    commit: str, length_ms: float, environ: Mapping[str, str] = os.environ
) -> float | None:
    """The fraction of extra work for a call of ``commit``; None where none is planted.

    Raises ValueError where the variable is malformed.
    """
    value = environ.get(VARIABLE)
    if not value:
        return None
    commits, _, fractions = value.partition(":")
    try:
        sizes = [float(fraction) for fraction in fractions.split(",")]
    except ValueError:
        sizes = []
    if len(sizes) not in (1, 2) or not all(0 < size < 10 for size in sizes):
        raise ValueError(
            f"{VARIABLE}={value!r} is not <commit>[,<commit>…]:<fraction>[,<fraction>]"
        )
    if commit not in commits.split(","):
        return None
    least, end = STILLEST_MS
    return sizes[0] if least <= length_ms < end else sizes[-1]


# A product of rows that are no multiple of eight takes the library up to nine times as long.
ROWS = 64


def extra_rows(workload: Workload, length_ms: float, fraction: float) -> int:
    """Rows of the vocabulary whose product takes ``fraction`` of ``length_ms``, in whole tiles."""
    extra_flops = fraction * length_ms / 1000 * PRODUCT_FLOPS
    return max(1, round(extra_flops / (2 * workload.m * workload.h) / ROWS)) * ROWS


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
