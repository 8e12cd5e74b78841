"""One function for each kernel: its grid, its operands, its options. Nothing is allocated here.

Every launch goes through these, so that no call site can forget what another passes.
Legend: m tokens of one launch, H hidden, V vocabulary, n columns of one split.
"""

from __future__ import annotations

import contextlib
import math
from contextlib import AbstractContextManager
from functools import cache

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from fused_lmhead.kernels.backward import logit_gradient_kernel
from fused_lmhead.kernels.forward import partials_kernel
from fused_lmhead.kernels.merge import merge_kernel
from fused_lmhead.problem import Normaliser, Statistics
from fused_lmhead.schedules import Schedule, ceil_div

_LOG2_E = math.log2(math.e)


def on(device: torch.device) -> AbstractContextManager[object]:
    """Triton launches on the current device, which need not be the tensors'."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


@cache
def has_tma(device: torch.device) -> bool:
    """Whether the device has Hopper's bulk copies; Triton's interpreter plays them."""
    if device.type == "cpu":
        return True
    return torch.version.hip is None and torch.cuda.get_device_capability(device)[0] >= 9


def _tile_options(tile: Schedule, dtype: torch.dtype) -> dict[str, int | str]:
    """What both tile kernels compile for."""
    return {
        "GROUP_M": tile.group_m,
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_K": tile.block_k,
        # fp32 asks for exactness; Triton's own default would be TF32.
        "PRECISION": "ieee" if dtype is torch.float32 else "tf32",
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
    }


def _boxes(tensor: torch.Tensor, rows: int, columns: int) -> TensorDescriptor | None:
    """A TMA descriptor of [rows, columns] boxes, where hardware and alignment allow one."""
    row_bytes = tensor.stride(0) * tensor.element_size()
    # A single row or column counts as contiguous whatever its strides; a descriptor differs.
    if tensor.stride(1) != 1 or tensor.stride(0) < tensor.shape[1]:
        return None
    if row_bytes % 16 or tensor.data_ptr() % 16 or not has_tma(tensor.device):
        return None
    return TensorDescriptor.from_tensor(tensor, [rows, columns])


def _operands(
    hidden_mH: torch.Tensor, weight_VH: torch.Tensor, tile: Schedule
) -> tuple[TensorDescriptor | torch.Tensor, TensorDescriptor | torch.Tensor, bool]:
    """Both operands as descriptors, or both as they are; and which of it."""
    hidden = _boxes(hidden_mH, tile.block_m, tile.block_k)
    weight = _boxes(weight_VH, tile.block_n, tile.block_k)
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
) -> None:
    """Statistics of each tile into ``partials``: planes·ceil(V / block_n)·m fp32 values,
    three planes with entropy, else two; and each owned target's raw logit."""
    (m, H), V = hidden_mH.shape, weight_VH.shape[0]
    hidden, weight, tma = _operands(hidden_mH, weight_VH, tile)
    partials_kernel[(ceil_div(m, tile.block_m) * ceil_div(V, tile.block_n),)](
        hidden,
        weight,
        target_m,
        partials,
        target_logit_m,
        m,
        V,
        H,
        _LOG2_E / temperature,
        ENTROPY=with_entropy,
        TMA=tma,
        **_tile_options(tile, weight_VH.dtype),
    )


def merge_partials(
    partials: torch.Tensor,
    target_m: torch.Tensor,
    statistics: Statistics,
    V: int,
    temperature: float,
    tile: Schedule,
) -> None:
    """Merge what ``tile_partials`` left into the [m] fields of ``statistics``."""
    m = target_m.shape[0]
    merge_kernel[(ceil_div(m, 32),)](
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
        BLOCK_M=32,
        BLOCK_T=32,
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
) -> None:
    """Gradient of the logits of columns ``first_column`` to ``first_column + n`` into ``dz_Mn``."""
    (M, H), V, n = hidden_MH.shape, weight_VH.shape[0], dz_Mn.shape[1]
    hidden, weight, tma = _operands(hidden_MH, weight_VH, tile)
    out = _boxes(dz_Mn, tile.block_m, tile.block_n)
    logit_gradient_kernel[(ceil_div(M, tile.block_m) * ceil_div(n, tile.block_n),)](
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
        V,
        H,
        first_column,
        n,
        _LOG2_E / temperature,
        1.0 / temperature,
        ENTROPY=grad_entropy_M is not None,
        TMA=tma,
        TMA_OUT=out is not None,
        **_tile_options(tile, weight_VH.dtype),
    )
