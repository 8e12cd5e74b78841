"""The Triton backend: what is allocated, and the chunks and splits it is allocated for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fused_lmhead import kept as keeping
from fused_lmhead.calls import logit_gradient, merge_partials, on, tile_partials
from fused_lmhead.memory import kept_bytes, split_columns
from fused_lmhead.problem import Kept, Normaliser, Statistics
from fused_lmhead.schedules import BACKWARD_WORKSPACE, Schedule, ceil_div, tokens_per_chunk
from fused_lmhead.tuning import plan_for


@dataclass(frozen=True, slots=True)
class TritonBackend:
    """Fused kernels for CUDA tensors (for CPU tensors under Triton's interpreter).

    ``schedule`` forces the tiles of both passes; None leaves them to the plan.
    ``backward_budget`` bounds the logit gradient that a backward pass holds at once, and
    ``keep_logits_budget`` what a forward pass may keep for it, both in bytes;
    :mod:`fused_lmhead.memory` has the formulas.
    """

    schedule: Schedule | None = None
    backward_budget: int = BACKWARD_WORKSPACE
    keep_logits_budget: int = 0
    hidden_ready: Callable[[torch.Tensor], None] | None = None
    """Told d_hidden, complete and rounded, before the last product of d_weight is queued: a sum
    over ranks can then run beside it. Costs 2·M·H bytes more at that moment."""

    def kept_tiles(self, m: int, h: int, v: int, dtype: torch.dtype, device: torch.device) -> int:
        """Tiles of a token whose logits a forward pass keeps; 0 where budgets allow it not."""
        if m == 0 or self.keep_logits_budget <= 0:
            return 0
        block_n = keeping.keeping_tile(h, dtype, device, self.schedule).block_n
        if kept_bytes(m, v, dtype.itemsize, block_n) > self.keep_logits_budget:
            return 0
        # A split of the backward pass has to hold whole tiles.
        if m * block_n * dtype.itemsize > self.backward_budget:
            return 0
        return ceil_div(v, block_n)

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
        dtype, device = weight_VH.dtype, weight_VH.device
        keeps = self.kept_tiles(M, H, V, dtype, device) > 0
        # What is compiled ahead is the plain pass, which one that keeps does not launch.
        plan = plan_for(
            M,
            H,
            V,
            dtype,
            device,
            with_entropy,
            self.schedule,
            launching=None if keeps else "forward",
        )
        tile, chunk = plan.forward, plan.tokens_per_chunk
        kept: Kept | None = None
        if keeps:
            keeping_tile = keeping.keeping_tile(H, dtype, device, self.schedule)
            # What is tuned for the plain pass does here too where its tiles are as wide.
            if tile.block_n != keeping_tile.block_n:
                tile, chunk = keeping_tile, tokens_per_chunk(M, V, keeping_tile)
            kept = keeping.room(hidden_MH, weight_VH, keeping_tile)
            statistics = statistics._replace(kept=kept)
        planes = 3 if with_entropy else 2
        workspace = hidden_MH.new_empty(
            planes * ceil_div(V, tile.block_n) * min(M, chunk), dtype=torch.float32
        )
        with on(hidden_MH.device):
            for first in range(0, M, chunk):
                rows = (hidden_MH, target_M, statistics, kept)
                if chunk < M:  # views cost host time
                    part = slice(first, min(first + chunk, M))
                    rows = (
                        hidden_MH[part],
                        target_M[part],
                        statistics.rows(part),
                        None if kept is None else kept.rows(part),
                    )
                hidden_mH, target_m, here, room = rows
                tile_partials(
                    hidden_mH,
                    weight_VH,
                    target_m,
                    workspace,
                    here.target_logit_M,
                    temperature,
                    with_entropy,
                    tile,
                    room,
                )
                merge_partials(workspace, target_m, here, V, temperature, tile)
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

        Workspace: the budget's bytes of logit gradient, and 4·M·H for d_hidden where several
        splits add to it. The logit gradient is gone before d_hidden is rounded.
        """
        (M, H), V = hidden_MH.shape, weight_VH.shape[0]
        if M == 0:
            return (
                torch.zeros_like(hidden_MH) if needs_hidden else None,
                torch.zeros_like(weight_VH) if needs_weight else None,
            )
        size, kept = weight_VH.element_size(), normaliser.kept
        if kept is None:
            plan = plan_for(
                M,
                H,
                V,
                weight_VH.dtype,
                weight_VH.device,
                grad_entropy_M is not None,
                self.schedule,
                launching="backward",
            )
            tile, planned = plan.backward, plan.columns_per_split
        else:
            tile = keeping.keeping_tile(H, weight_VH.dtype, weight_VH.device, self.schedule)
            planned = V
        columns = split_columns(M, V, size, tile.block_n, planned, self.backward_budget)
        d_hidden_MH = d_weight_VH = None
        if needs_hidden:
            # A single split rounds once, within its product; several are summed in fp32, since
            # bf16 sums over splits are known to harm training.
            dtype = hidden_MH.dtype if columns == V else torch.float32
            d_hidden_MH = hidden_MH.new_empty(hidden_MH.shape, dtype=dtype)
        if needs_weight:
            d_weight_VH = torch.empty_like(weight_VH)
        workspace = weight_VH.new_empty(M * columns)
        with on(hidden_MH.device):
            for first in range(0, V, columns):
                part = slice(first, min(first + columns, V))
                n = part.stop - first
                dz_Mn = workspace[: M * n].view(M, n)
                upstream = (grad_logprob_M, grad_entropy_M, dz_Mn, first, temperature, tile)
                if kept is None:
                    logit_gradient(hidden_MH, weight_VH, target_M, normaliser, *upstream)
                else:
                    keeping.kept_logit_gradient(kept, target_M, normaliser, *upstream)
                if d_hidden_MH is not None:
                    _project(d_hidden_MH, dz_Mn, weight_VH[part], first > 0)
                    if part.stop == V and self.hidden_ready is not None:
                        d_hidden_MH = d_hidden_MH.to(hidden_MH.dtype)
                        self.hidden_ready(d_hidden_MH)
                if d_weight_VH is not None:
                    torch.mm(dz_Mn.T, hidden_MH, out=d_weight_VH[part])
        del workspace, dz_Mn, upstream  # before the rounded d_hidden comes
        if d_hidden_MH is not None:
            d_hidden_MH = d_hidden_MH.to(hidden_MH.dtype)
        return d_hidden_MH, d_weight_VH


def _project(
    total_MH: torch.Tensor, dz_Mn: torch.Tensor, weight_nH: torch.Tensor, add: bool
) -> None:
    """total = dz @ weight, or total += dz @ weight, in total's dtype."""
    if total_MH.dtype is not dz_Mn.dtype and not dz_Mn.is_cuda:
        dz_Mn, weight_nH = dz_Mn.float(), weight_nH.float()
    if total_MH.dtype is dz_Mn.dtype:
        torch.addmm(total_MH, dz_Mn, weight_nH, beta=int(add), out=total_MH)
    else:
        torch.addmm(
            total_MH, dz_Mn, weight_nH, out_dtype=torch.float32, beta=int(add), out=total_MH
        )
