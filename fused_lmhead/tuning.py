"""Which schedules a shape gets on a device."""

from __future__ import annotations

from functools import cache

import torch

from fused_lmhead.schedules import Plan, Schedule, plan


@cache
def _multiprocessors(device: torch.device) -> int:
    if device.type == "cpu":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


def plan_for(
    m: int,
    h: int,
    v: int,
    dtype: torch.dtype,
    device: torch.device,
    with_entropy: bool,
    schedule: Schedule | None = None,
) -> Plan:
    """The plan of M tokens (at least 1), H, V on ``device``; ``schedule`` forces the tiles."""
    del with_entropy  # the schedules in use serve both
    return plan(m, h, v, dtype.itemsize, _multiprocessors(device), schedule)
