"""One function for each kernel: its grid, its operands, its options. Nothing is allocated here.

Every launch goes through these, so that no call site can forget what another passes; so does
compiling ahead, which gives ``compile_only`` for ``launch`` and tensors of the device 'meta'.
Legend: m tokens of one launch, H hidden, V vocabulary, n columns of one split.
"""

from __future__ import annotations

import contextlib
import math
from contextlib import AbstractContextManager

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from fused_lmhead import specialised
from fused_lmhead.descriptors import boxes
from fused_lmhead.descriptors import has_tma as has_tma
from fused_lmhead.kernels.backward import logit_gradient_kernel
from fused_lmhead.kernels.forward import partials_kernel
from fused_lmhead.kernels.merge import merge_kernel
from fused_lmhead.launching import Launch as Launch
from fused_lmhead.launching import compile_only as compile_only
from fused_lmhead.launching import launch_now as launch_now
from fused_lmhead.problem import Kept, Normaliser, Statistics
from fused_lmhead.schedules import Schedule, ceil_div

_LOG2_E = math.log2(math.e)


def on(device: torch.device) -> AbstractContextManager[object]:
    """Triton launches on the current device, which need not be the tensors'."""
    # Torch's own context costs host time where the device is current already.
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return contextlib.nullcontext()
    return torch.cuda.device(device)


def _tile_options(tile: Schedule, dtype: torch.dtype) -> dict[str, int | str]:
    """What both tile kernels compile for."""
    return {
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_K": tile.block_k,
        # fp32 asks for exactness; Triton's own default would be TF32.
        "PRECISION": "ieee" if dtype is torch.float32 else "tf32",
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
    }


def _operands(
    hidden_mH: torch.Tensor, weight_VH: torch.Tensor, tile: Schedule
) -> tuple[TensorDescriptor | torch.Tensor, TensorDescriptor | torch.Tensor, bool]:
    """Both operands as descriptors, or both as they are; and which of it."""
    hidden = boxes(hidden_mH, tile.block_m, tile.block_k)
    weight = boxes(weight_VH, tile.block_n, tile.block_k)
    if hidden is None or weight is None:
        return hidden_mH, weight_VH, False
    return hidden, weight, True


def tile_partials(
    hidden_mH: torch.Tensor,
    weight_VH: torch.Tensor,
    target_m: torch.Tensor,
    partials: torch.Tensor,
    target_logit_m: torch.Tensor,
    temperature: float,
    with_entropy: bool,
    tile: Schedule,
    kept: Kept | None = None,
    launch: Launch = launch_now,
) -> None:
    """Statistics of each tile into ``partials``: planes·ceil(V / block_n)·m fp32 values,
    three planes with entropy, else two; and each owned target's raw logit. ``kept`` has
    room for the logits of the m tokens; where they are, tiles are of ``block_n`` columns."""
    (m, H), V = hidden_mH.shape, weight_VH.shape[0]
    stored = () if kept is None else (kept.numerator_MV,)
    if temperature >= specialised.LEAST_TEMPERATURE and specialised.serves(
        tile, H, hidden_mH, weight_VH, *stored
    ):
        specialised.tile_partials(
            hidden_mH,
            weight_VH,
            target_m,
            partials,
            target_logit_m,
            _LOG2_E / temperature,
            with_entropy,
            tile,
            kept,
            launch,
        )
        return
    hidden, weight, tma = _operands(hidden_mH, weight_VH, tile)
    kept_boxes = None if kept is None else boxes(kept.numerator_MV, tile.block_m, tile.block_n)
    launch(
        partials_kernel,
        (ceil_div(m, tile.block_m) * ceil_div(V, tile.block_n),),
        hidden,
        weight,
        target_m,
        partials,
        target_logit_m,
        m,
        tile.group_m,
        V,
        H,
        _LOG2_E / temperature,
        kept_ref=kept_boxes if kept is None or kept_boxes is not None else kept.numerator_MV,
        kept_largest_ptr=None if kept is None else kept.largest_TM,
        kept_stride=0 if kept is None else kept.largest_TM.stride(0),
        ENTROPY=with_entropy,
        TMA=tma,
        KEEP=kept is not None,
        TMA_KEPT=kept_boxes is not None,
        **_tile_options(tile, weight_VH.dtype),
    )


def merge_partials(
    partials: torch.Tensor,
    target_m: torch.Tensor,
    statistics: Statistics,
    V: int,
    temperature: float,
    tile: Schedule,
    launch: Launch = launch_now,
) -> None:
    """Merge what ``tile_partials`` left into the [m] fields of ``statistics``."""
    m = target_m.shape[0]
    launch(
        merge_kernel,
        (ceil_div(m, 32),),
        partials,
        target_m,
        statistics.target_logit_M,
        statistics.logprob_M,
        statistics.shift_M,
        statistics.log_sum_M,
        statistics.entropy_M,
        statistics.mean_exponent_M,
        m,
        V,
        ceil_div(V, tile.block_n),
        _LOG2_E / temperature,
        ENTROPY=statistics.entropy_M is not None,
        # The loads of a program wait together: eight warps have 2,048 values of each plane.
        BLOCK_M=32,
        BLOCK_T=64,
        num_warps=8,
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
    temperature: float,
    tile: Schedule,
    launch: Launch = launch_now,
) -> None:
    """Gradient of the logits of columns ``first_column`` to ``first_column + n`` into ``dz_Mn``."""
    (M, H), V, n = hidden_MH.shape, weight_VH.shape[0], dz_Mn.shape[1]
    if temperature >= specialised.LEAST_TEMPERATURE and specialised.serves(
        tile, H, hidden_MH, weight_VH, dz_Mn
    ):
        specialised.logit_gradient(
            hidden_MH,
            weight_VH,
            target_M,
            normaliser,
            grad_logprob_M,
            grad_entropy_M,
            dz_Mn,
            first_column,
            _LOG2_E / temperature,
            1.0 / temperature,
            tile,
            launch,
        )
        return
    hidden, weight, tma = _operands(hidden_MH, weight_VH, tile)
    out = boxes(dz_Mn, tile.block_m, tile.block_n)
    tiles_n = ceil_div(n, tile.block_n)
    # A descriptor knows the width. Whole tiles instead of it: were the last split's width no
    # multiple of 16, Triton would compile anew for it.
    width = n if out is None else tiles_n * tile.block_n
    launch(
        logit_gradient_kernel,
        (ceil_div(M, tile.block_m) * tiles_n,),
        hidden,
        weight,
        target_M,
        normaliser.shift_M,
        normaliser.log_sum_M,
        None if grad_entropy_M is None else normaliser.entropy_M,
        grad_logprob_M,
        grad_entropy_M,
        dz_Mn if out is None else out,
        M,
        tile.group_m,
        V,
        H,
        first_column,
        width,
        _LOG2_E / temperature,
        1.0 / temperature,
        ENTROPY=grad_entropy_M is not None,
        TMA=tma,
        TMA_OUT=out is not None,
        **_tile_options(tile, weight_VH.dtype),
    )
