"""What the processes that test the host's launches have in common: a start without a GPU, a small
kernel, a problem, two tiles."""

from __future__ import annotations

# First, since it turns Triton's interpreter off.
from stand_in import StandIn, count_ordinary_launches  # isort: skip

import torch
import triton
import triton.language as tl
from triton.runtime import driver

from fused_lmhead import specialised
from fused_lmhead.schedules import Schedule

H, V, M = 256, 512, 100
TILE = Schedule(64, 64, 64, 4, 4, 3)
SPECIALISED = Schedule(128, 256, 64, 8, 8, 3, "specialised")


def start() -> StandIn:
    """Put the stand-in in CUDA's place, as if on a Hopper, and count ordinary launches."""
    stand_in = StandIn()
    driver.set_active(stand_in)
    specialised._is_hopper = lambda device: True
    specialised._multiprocessors = lambda device: 132
    count_ordinary_launches()
    return stand_in


@triton.jit(do_not_specialize=["m"], do_not_specialize_on_alignment=["free_ptr"])
def small_kernel(x_ptr, free_ptr, maybe_ptr, m, n, scale, SIZE: tl.constexpr, FLAG: tl.constexpr):
    at = tl.arange(0, SIZE)
    x = tl.load(x_ptr + at, at < m) * scale
    if FLAG:
        x += n
    if maybe_ptr is not None:
        tl.store(maybe_ptr + at, x, at < m)
    tl.store(free_ptr + at, x, at < m)


def problem() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """hidden [M, H], weight [V, H], target [M]."""
    return (
        torch.ones(M, H).bfloat16(),
        torch.ones(V, H).bfloat16(),
        torch.zeros(M, dtype=torch.long),
    )
