"""Keeping the logits of a forward pass, so that the backward pass needs no product for them.

Legend: M tokens, H hidden, V vocabulary, n columns of one split, T tiles of columns.
"""

from __future__ import annotations

import math

import torch

from fused_lmhead.kernels.kept import kept_gradient_kernel
from fused_lmhead.launching import launch_now
from fused_lmhead.problem import Kept, Normaliser
from fused_lmhead.schedules import Schedule, ceil_div, tile_schedule
from fused_lmhead.tuning.gpus import gpu_of

_LOG2_E = math.log2(math.e)
_BLOCK_M = 16


def keeping_tile(
    h: int, dtype: torch.dtype, device: torch.device, forced: Schedule | None
) -> Schedule:
    """The tile whose columns share a maximum: of nothing that is tuned or counts tokens, so
    that the shape of what is kept depends on neither."""
    return forced or tile_schedule(h, dtype.itemsize, gpu_of(device))


def room(hidden_MH: torch.Tensor, weight_VH: torch.Tensor, tile: Schedule) -> Kept:
    """Room for what is kept of the logits of ``hidden_MH`` and ``weight_VH``."""
    M, V = hidden_MH.shape[0], weight_VH.shape[0]
    return Kept(
        weight_VH.new_empty((M, V)),
        weight_VH.new_empty((ceil_div(V, tile.block_n), M), dtype=torch.float32),
    )


def kept_logit_gradient(
    kept: Kept,
    target_M: torch.Tensor,
    normaliser: Normaliser,
    grad_logprob_M: torch.Tensor,
    grad_entropy_M: torch.Tensor | None,
    dz_Mn: torch.Tensor,
    first_column: int,
    temperature: float,
    tile: Schedule,
) -> None:
    """As ``calls.logit_gradient``, from what was kept; it stays as it is, for a second backward.

    ``first_column`` is a multiple of the kept tile's ``block_n``.
    """
    (M, V), n = kept.numerator_MV.shape, dz_Mn.shape[1]
    # Splits are whole tiles, so all of them are as aligned as V is: one kernel serves them.
    unit = 16 if V % 16 == 0 and tile.block_n % 16 == 0 else 1
    launch_now(
        kept_gradient_kernel,
        (ceil_div(M, _BLOCK_M), ceil_div(n, tile.block_n)),
        kept.numerator_MV,
        kept.largest_TM,
        target_M,
        normaliser.shift_M,
        normaliser.log_sum_M,
        None if grad_entropy_M is None else normaliser.entropy_M,
        grad_logprob_M,
        grad_entropy_M,
        dz_Mn,
        M,
        V,
        first_column // unit,
        n // unit,
        _LOG2_E / temperature,
        1.0 / temperature,
        ENTROPY=grad_entropy_M is not None,
        UNIT=unit,
        BLOCK_M=_BLOCK_M,
        BLOCK_N=tile.block_n,
    )
