"""The Triton backend: allocation, grids and kernel calls.

Statistics here: ``shift_M`` is the largest raw logit (before temperature),
``log_sum_M`` the base-two logarithm of sum(2^((logit - shift)·log2(e)/temperature)).
"""

from __future__ import annotations

import contextlib
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from fused_lmhead.kernels.backward import logit_gradient_kernel
from fused_lmhead.kernels.forward import partials_kernel
from fused_lmhead.kernels.merge import merge_kernel
from fused_lmhead.problem import Statistics
from fused_lmhead.schedules import Plan, Schedule, ceil_div, plan

_LOG2_E = math.log2(math.e)


def _on(device: torch.device) -> AbstractContextManager[object]:
    # Triton launches on the current device, which need not be the tensors'.
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


@cache
def _has_tma(device: torch.device) -> bool:
    if device.type == "cpu":  # Triton's interpreter, which plays descriptors too
        return True
    return torch.version.hip is None and torch.cuda.get_device_capability(device)[0] >= 9


@cache
def _multiprocessors(device: torch.device) -> int:
    if device.type == "cpu":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


def plan_for(m: int, h: int, v: int, dtype: torch.dtype, device: torch.device) -> Plan:
    """The plan that this backend follows for a shape (M at least 1) on ``device``."""
    return plan(m, h, v, dtype.itemsize, _multiprocessors(device))


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


def _tiles(tensor: torch.Tensor, rows: int, columns: int) -> TensorDescriptor | None:
    """A TMA descriptor of [rows, columns] boxes, where hardware and alignment allow one."""
    row_bytes = tensor.stride(0) * tensor.element_size()
    # A single row or column counts as contiguous whatever its strides; a descriptor differs.
    if tensor.stride(1) != 1 or tensor.stride(0) < tensor.shape[1]:
        return None
    if row_bytes % 16 or tensor.data_ptr() % 16 or not _has_tma(tensor.device):
        return None
    return TensorDescriptor.from_tensor(tensor, [rows, columns])


def _operands(
    hidden_MH: torch.Tensor, weight_VH: torch.Tensor, schedule: Schedule
) -> tuple[TensorDescriptor | torch.Tensor, TensorDescriptor | torch.Tensor, bool]:
    """Both operands as descriptors, or both as they are; and which of it."""
    hidden = _tiles(hidden_MH, schedule.block_m, schedule.block_k)
    weight = _tiles(weight_VH, schedule.block_n, schedule.block_k)
    if hidden is None or weight is None:
        return hidden_MH, weight_VH, False
    return hidden, weight, True


@dataclass(frozen=True, slots=True)
class TritonBackend:
    """Fused kernels for CUDA tensors (for CPU tensors under Triton's interpreter)."""

    def forward(
        self,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        target_M: torch.Tensor,
        temperature: float,
        with_entropy: bool,
    ) -> Statistics:
        """See :class:`fused_lmhead.problem.Backend`. Workspace: at most 256 MiB."""
        (M, H), V = hidden_MH.shape, weight_VH.shape[0]
        # Apart, not rows of one tensor: an odd M would unalign them and compile anew.
        logprob_M, shift_M, log_sum_M, entropy_M, target_logit_M = (
            hidden_MH.new_empty(M, dtype=torch.float32) for _ in range(5)
        )
        statistics = Statistics(logprob_M, shift_M, log_sum_M, entropy_M if with_entropy else None)
        if M == 0:
            return statistics
        plan = plan_for(M, H, V, weight_VH.dtype, weight_VH.device)
        tile, chunk = plan.tile, plan.tokens_per_chunk
        tiles_n = ceil_div(V, tile.block_n)
        planes = 3 if with_entropy else 2
        workspace = hidden_MH.new_empty(planes * tiles_n * min(M, chunk), dtype=torch.float32)
        scale = _LOG2_E / temperature
        with _on(hidden_MH.device):
            for first in range(0, M, chunk):
                part = slice(first, min(first + chunk, M))
                m = part.stop - part.start
                hidden, weight, tma = _operands(hidden_MH[part], weight_VH, tile)
                partials_kernel[(ceil_div(m, tile.block_m) * tiles_n,)](
                    hidden,
                    weight,
                    target_M[part],
                    workspace,
                    target_logit_M[part],
                    m,
                    V,
                    H,
                    scale,
                    ENTROPY=with_entropy,
                    TMA=tma,
                    **_tile_options(tile, weight_VH.dtype),
                )
                merge_kernel[(ceil_div(m, 32),)](
                    workspace,
                    target_M[part],
                    target_logit_M[part],
                    logprob_M[part],
                    shift_M[part],
                    log_sum_M[part],
                    entropy_M[part],
                    m,
                    V,
                    tiles_n,
                    scale,
                    ENTROPY=with_entropy,
                    BLOCK_M=32,
                    BLOCK_T=32,
                )
        return statistics

    def backward(
        self,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        target_M: torch.Tensor,
        statistics: Statistics,
        grad_logprob_M: torch.Tensor,
        grad_entropy_M: torch.Tensor | None,
        temperature: float,
        needs_hidden: bool,
        needs_weight: bool,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """See :class:`fused_lmhead.problem.Backend`.

        Workspace: at most 1 GiB of logit gradient, and 4·M·H bytes for d_hidden.
        """
        (M, H), V = hidden_MH.shape, weight_VH.shape[0]
        if M == 0:
            return (
                torch.zeros_like(hidden_MH) if needs_hidden else None,
                torch.zeros_like(weight_VH) if needs_weight else None,
            )
        plan = plan_for(M, H, V, weight_VH.dtype, weight_VH.device)
        tile, columns = plan.tile, plan.columns_per_split
        d_hidden_MH = (
            hidden_MH.new_zeros(hidden_MH.shape, dtype=torch.float32) if needs_hidden else None
        )
        d_weight_VH = torch.empty_like(weight_VH) if needs_weight else None
        workspace = weight_VH.new_empty(M * columns)
        entropy_M = statistics.entropy_M if grad_entropy_M is not None else None
        hidden, weight, tma = _operands(hidden_MH, weight_VH, tile)
        with _on(hidden_MH.device):
            for first in range(0, V, columns):
                part = slice(first, min(first + columns, V))
                n = part.stop - part.start
                dz_Mn = workspace[: M * n].view(M, n)
                out = _tiles(dz_Mn, tile.block_m, tile.block_n)
                logit_gradient_kernel[(ceil_div(M, tile.block_m) * ceil_div(n, tile.block_n),)](
                    hidden,
                    weight,
                    target_M,
                    statistics.shift_M,
                    statistics.log_sum_M,
                    entropy_M,
                    grad_logprob_M,
                    grad_entropy_M,
                    dz_Mn if out is None else out,
                    M,
                    V,
                    H,
                    first,
                    n,
                    _LOG2_E / temperature,
                    1.0 / temperature,
                    ENTROPY=grad_entropy_M is not None,
                    TMA=tma,
                    TMA_OUT=out is not None,
                    **_tile_options(tile, weight_VH.dtype),
                )
                if d_hidden_MH is not None:
                    _accumulate(d_hidden_MH, dz_Mn, weight_VH[part])
                if d_weight_VH is not None:
                    torch.mm(dz_Mn.T, hidden_MH, out=d_weight_VH[part])
        return None if d_hidden_MH is None else d_hidden_MH.to(hidden_MH.dtype), d_weight_VH


def _accumulate(total_MH: torch.Tensor, dz_Mn: torch.Tensor, weight_nH: torch.Tensor) -> None:
    """total += dz @ weight in fp32: bf16 sums over splits are known to harm training."""
    if dz_Mn.dtype is torch.float32 or not dz_Mn.is_cuda:
        total_MH.addmm_(dz_Mn.float(), weight_nH.float())
    else:
        torch.addmm(total_MH, dz_Mn, weight_nH, out_dtype=torch.float32, out=total_MH)
