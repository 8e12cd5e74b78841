"""The Triton backend: what is allocated, and the chunks and splits it is allocated for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fused_lmhead.calls import logit_gradient, merge_partials, on, tile_partials
from fused_lmhead.problem import Normaliser, Statistics
from fused_lmhead.schedules import Schedule, ceil_div
from fused_lmhead.tuning import plan_for


@dataclass(frozen=True, slots=True)
class TritonBackend:
    """Fused kernels for CUDA tensors (for CPU tensors under Triton's interpreter).

    ``schedule`` forces the tiles of both passes; None leaves them to the plan.
    """

    schedule: Schedule | None = None

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
        statistics = Statistics.empty(hidden_MH, with_entropy)
        if M == 0:
            return statistics
        plan = plan_for(M, H, V, weight_VH.dtype, weight_VH.device, with_entropy, self.schedule)
        tile, chunk = plan.forward, plan.tokens_per_chunk
        planes = 3 if with_entropy else 2
        workspace = hidden_MH.new_empty(
            planes * ceil_div(V, tile.block_n) * min(M, chunk), dtype=torch.float32
        )
        with on(hidden_MH.device):
            for first in range(0, M, chunk):
                part = slice(first, min(first + chunk, M))
                here = statistics.rows(part)
                tile_partials(
                    hidden_MH[part],
                    weight_VH,
                    target_M[part],
                    workspace,
                    here.target_logit_M,
                    temperature,
                    with_entropy,
                    tile,
                )
                merge_partials(workspace, target_M[part], here, V, temperature, tile)
        return statistics

    def backward(
        self,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        target_M: torch.Tensor,
        normaliser: Normaliser,
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
        plan = plan_for(
            M, H, V, weight_VH.dtype, weight_VH.device, grad_entropy_M is not None, self.schedule
        )
        columns = plan.columns_per_split
        d_hidden_MH = (
            hidden_MH.new_zeros(hidden_MH.shape, dtype=torch.float32) if needs_hidden else None
        )
        d_weight_VH = torch.empty_like(weight_VH) if needs_weight else None
        workspace = weight_VH.new_empty(M * columns)
        with on(hidden_MH.device):
            for first in range(0, V, columns):
                part = slice(first, min(first + columns, V))
                n = part.stop - part.start
                dz_Mn = workspace[: M * n].view(M, n)
                logit_gradient(
                    hidden_MH,
                    weight_VH,
                    target_M,
                    normaliser,
                    grad_logprob_M,
                    grad_entropy_M,
                    dz_Mn,
                    first,
                    temperature,
                    plan.backward,
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
