"""Compile and tune ahead of the first call, so that it costs what any other does."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from fused_lmhead.schedules import Plan
from fused_lmhead.tuning.ahead import Jobs, backward_jobs, compile_ahead, forward_jobs
from fused_lmhead.tuning.cases import Kernel
from fused_lmhead.tuning.plans import plan_for


def warm(
    tokens: int | Iterable[int],
    h: int,
    v: int,
    dtype: torch.dtype,
    device: torch.device | str,
    *,
    with_entropy: bool = True,
    backward: bool = True,
) -> dict[int, Plan]:
    """Choose (search, under FUSED_LMHEAD_TUNING=search), compile and load all that calls of
    these token counts launch, side by side on the host's cores. Nothing is launched but by a
    search, and no tensor of the problem is needed.

    Args:
        tokens: one count or several, at least 1 each; a count stands for its bucket.
        h: hidden size.
        v: vocabulary, of one shard.
        dtype: the weight's.
        device: the CUDA device of the calls.
        with_entropy: the forward pass computes it; the backward pass with and without.
        backward: also the backward pass' kernel.

    Returns:
        The plan of each count.

    Raises:
        ValueError: a count below 1, or FUSED_LMHEAD_TUNING has no meaning.
        Exception: a chosen schedule does not compile here, as its first call would say.
    """
    counts = [tokens] if isinstance(tokens, int) else list(tokens)
    if min(counts, default=1) < 1:
        raise ValueError(f"tokens must be at least 1, got {min(counts)}")
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    plans: dict[int, Plan] = {}
    jobs: Jobs = {}
    for m in counts:
        made = plan_for(m, h, v, dtype, device, with_entropy)
        jobs |= forward_jobs(h, v, dtype, with_entropy, made.forward)
        if backward:
            for entropy in {False, with_entropy}:
                made = plan_for(m, h, v, dtype, device, entropy, launching="backward")
                jobs |= backward_jobs(h, v, dtype, entropy, made.backward)
        last: Kernel | None = "backward" if backward else None
        plans[m] = plan_for(m, h, v, dtype, device, with_entropy, launching=last)
    for failure in compile_ahead(jobs, device):
        raise failure
    return plans
