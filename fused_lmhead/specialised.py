"""Launching the specialised kernels: what they ask for, their grid, their options."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from fused_lmhead.descriptors import copyable, swizzled_boxes
from fused_lmhead.problem import Kept, Normaliser
from fused_lmhead.releases import speaks_gluon
from fused_lmhead.schedules import Schedule, ceil_div, fills_ring

if TYPE_CHECKING:
    from fused_lmhead.launching import Launch

# The tile of kernels/specialised.py, one 128-byte swizzle line of 16-bit values deep.
_BLOCK_M, _BLOCK_N, _BLOCK_K = 128, 256, 64
_GROUP_ROWS = 64
# Each multiplying group is Triton's four warps; registers of 3 x 128 threads fill the file.
_OPTIONS = {"num_warps": 4, "maxnreg": 168}

LEAST_TEMPERATURE = 1e-4
"""Below it, what rounding takes from an exponent no longer fits one of its own."""


def serves(tile: Schedule, h: int, *tensors: torch.Tensor) -> bool:
    """Whether the specialised kernels can read and write these matrices on their device, and
    multiply rows of ``h`` values."""
    return (
        tile.kind == "specialised"
        and (tile.block_m, tile.block_n, tile.block_k) == (_BLOCK_M, _BLOCK_N, _BLOCK_K)
        and fills_ring(h, tile.num_stages)
        and _is_hopper(tensors[0].device)
        and all(tensor.element_size() == 2 and copyable(tensor) for tensor in tensors)
    )


@cache
def _kernels() -> tuple[Any, Any]:
    # Imported here: Gluon costs a tenth of a second and is for Hopper only.
    from fused_lmhead.kernels.specialised import (
        logit_gradient_specialised_kernel,
        partials_specialised_kernel,
    )

    return partials_specialised_kernel, logit_gradient_specialised_kernel


@cache
def _is_hopper(device: torch.device) -> bool:
    if not speaks_gluon():
        return False
    if device.type == "meta":  # stands for the current device
        return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


@cache
def _multiprocessors(device: torch.device) -> int:
    index = None if device.type == "meta" else device
    return torch.cuda.get_device_properties(index).multi_processor_count


def _programs(tiles: int, device: torch.device) -> tuple[int]:
    """Programs walk tiles until none is left; one fills a multiprocessor."""
    return (min(tiles, _multiprocessors(device)),)


def tile_partials(
    hidden_mH: torch.Tensor,
    weight_VH: torch.Tensor,
    target_m: torch.Tensor,
    partials: torch.Tensor,
    target_logit_m: torch.Tensor,
    scale: float,
    with_entropy: bool,
    tile: Schedule,
    kept: Kept | None,
    launch: Launch,
) -> None:
    """See :func:`fused_lmhead.calls.tile_partials`."""
    (m, H), V = hidden_mH.shape, weight_VH.shape[0]
    launch(
        _kernels()[0],
        _programs(ceil_div(m, _BLOCK_M) * ceil_div(V, _BLOCK_N), hidden_mH.device),
        swizzled_boxes(hidden_mH, _BLOCK_M, _BLOCK_K),
        swizzled_boxes(weight_VH, _BLOCK_N, _BLOCK_K),
        target_m,
        partials,
        target_logit_m,
        m,
        V,
        H,
        scale,
        None if kept is None else swizzled_boxes(kept.numerator_MV, _GROUP_ROWS, _BLOCK_N),
        None if kept is None else kept.largest_TM,
        0 if kept is None else kept.largest_TM.stride(0),
        ENTROPY=with_entropy,
        KEEP=kept is not None,
        **_tile_options(tile),
    )


def logit_gradient(
    hidden_MH: torch.Tensor,
    weight_VH: torch.Tensor,
    target_M: torch.Tensor,
    normaliser: Normaliser,
    grad_logprob_M: torch.Tensor,
    grad_entropy_M: torch.Tensor | None,
    dz_Mn: torch.Tensor,
    first_column: int,
    scale: float,
    inverse_temperature: float,
    tile: Schedule,
    launch: Launch,
) -> None:
    """See :func:`fused_lmhead.calls.logit_gradient`."""
    (M, H), V = hidden_MH.shape, weight_VH.shape[0]
    tiles_n = ceil_div(dz_Mn.shape[1], _BLOCK_N)
    launch(
        _kernels()[1],
        _programs(ceil_div(M, _BLOCK_M) * tiles_n, hidden_MH.device),
        swizzled_boxes(hidden_MH, _BLOCK_M, _BLOCK_K),
        swizzled_boxes(weight_VH, _BLOCK_N, _BLOCK_K),
        target_M,
        normaliser.shift_M,
        normaliser.log_sum_M,
        None if grad_entropy_M is None else normaliser.entropy_M,
        grad_logprob_M,
        grad_entropy_M,
        swizzled_boxes(dz_Mn, _GROUP_ROWS, _BLOCK_N),
        M,
        V,
        H,
        first_column,
        tiles_n,
        scale,
        inverse_temperature,
        ENTROPY=grad_entropy_M is not None,
        **_tile_options(tile),
    )


def _tile_options(tile: Schedule) -> dict[str, Any]:
    return {"GROUP_M": tile.group_m, "STAGES": tile.num_stages, **_OPTIONS}
