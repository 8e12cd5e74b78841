"""The GPU behind a torch device, as a value."""

from __future__ import annotations

from functools import cache

import torch

from fused_lmhead.calls import has_tma
from fused_lmhead.releases import speaks_gluon
from fused_lmhead.schedules import HOPPER, Gpu

_WITHOUT_OPT_IN = 49_152


@cache
def gpu_of(device: torch.device) -> Gpu:
    """What schedules depend on; a CPU (Triton's interpreter) counts as a small Hopper."""
    if device.type != "cuda":
        return Gpu(device.type, 1, HOPPER.shared_memory, tma=True)
    found = torch.cuda.get_device_properties(device)
    # HIP has no opt-in: there the plain limit is the limit.
    shared = getattr(found, "shared_memory_per_block_optin", 0) or getattr(
        found, "shared_memory_per_block", _WITHOUT_OPT_IN
    )
    tma = has_tma(device)
    hopper = tma and found.major == 9 and speaks_gluon()
    return Gpu(found.name, found.multi_processor_count, int(shared), tma, hopper)
