"""The Triton backend: what is allocated, and the chunks and splits it is allocated for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from fused_lmhead import kept as keeping
from fused_lmhead.calls import has_tma, logit_gradient, merge_partials, on, tile_partials
from fused_lmhead.memory import backward_cut, kept_bytes
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
    over ranks can then run beside it. Costs 2·M·H bytes more at that moment if d_hidden is a
    sum of splits."""

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

        Workspace: the budget's bytes of logit gradient; and, where that does not hold all of
        it, 4·M·H for d_hidden if its splits of V are summed, or 4·V·H for d_weight if its
        chunks of tokens are. The logit gradient is gone before a sum is rounded.
        """
        if hidden_MH.shape[0] == 0:
            return (
                torch.zeros_like(hidden_MH) if needs_hidden else None,
                torch.zeros_like(weight_VH) if needs_weight else None,
            )
        d_hidden_MH, d_weight_VH = self._sums(
            _Tokens(hidden_MH, target_M, normaliser, grad_logprob_M, grad_entropy_M),
            weight_VH,
            temperature,
            needs_hidden,
            needs_weight,
        )
        if d_hidden_MH is not None:
            d_hidden_MH = d_hidden_MH.to(hidden_MH.dtype)
        if d_weight_VH is not None:
            d_weight_VH = d_weight_VH.to(weight_VH.dtype)
        return d_hidden_MH, d_weight_VH

    def _sums(
        self,
        every: _Tokens,
        weight_VH: torch.Tensor,
        temperature: float,
        needs_hidden: bool,
        needs_weight: bool,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Both gradients, one of them yet in fp32 if it is a sum of several blocks.

        A function of its own: what it works in is gone when it returns.
        """
        hidden_MH, kept = every.hidden_MH, every.normaliser.kept
        M, V = hidden_MH.shape[0], weight_VH.shape[0]
        tile, planned = self._backward_tile(every, weight_VH)
        cut = backward_cut(
            M,
            V,
            weight_VH.element_size(),
            tile,
            planned,
            self.backward_budget,
            needs_hidden,
            needs_weight,
            # Rows that TMA can store. Of less than a tile they are compiled for as they are.
            kept is None and tile.block_n <= V and has_tma(hidden_MH.device),
            kept is not None,
        )
        chunked, split = cut.tokens < M, cut.columns < V
        # One product rounds once, within it; several are summed in fp32, since bf16 sums over
        # splits are known to harm training.
        d_hidden_MH = d_weight_VH = None
        if needs_hidden:
            dtype = torch.float32 if split else hidden_MH.dtype
            d_hidden_MH = hidden_MH.new_empty(hidden_MH.shape, dtype=dtype)
        if needs_weight:
            dtype = torch.float32 if chunked else weight_VH.dtype
            d_weight_VH = weight_VH.new_empty(weight_VH.shape, dtype=dtype)
        workspace = weight_VH.new_empty(cut.tokens * cut.row)
        with on(hidden_MH.device):
            for tokens, columns, row in cut.blocks:
                here = every.rows(tokens) if chunked else every  # views cost host time
                m, n = tokens.stop - tokens.start, columns.stop - columns.start
                dz_mn = workspace[: m * row].view(m, row)
                if row > n:
                    dz_mn = dz_mn[:, :n]
                launched = (*here[1:], dz_mn, columns.start, temperature, tile)
                if kept is None:
                    logit_gradient(here.hidden_MH, weight_VH, *launched)
                else:
                    keeping.kept_logit_gradient(kept, *launched)
                if d_hidden_MH is not None:
                    part = d_hidden_MH[tokens] if chunked else d_hidden_MH
                    weight_nH = weight_VH[columns] if split else weight_VH
                    _project(part, dz_mn, weight_nH, columns.start > 0)
                    if (tokens.stop, columns.stop) == (M, V) and self.hidden_ready is not None:
                        d_hidden_MH = d_hidden_MH.to(hidden_MH.dtype)
                        self.hidden_ready(d_hidden_MH)
                if d_weight_VH is not None and chunked:
                    _project(d_weight_VH, dz_mn.T, here.hidden_MH, tokens.start > 0)
                elif d_weight_VH is not None:
                    part = d_weight_VH[columns] if split else d_weight_VH
                    torch.mm(dz_mn.T, hidden_MH, out=part)
        return d_hidden_MH, d_weight_VH

    def _backward_tile(self, every: _Tokens, weight_VH: torch.Tensor) -> tuple[Schedule, int]:
        """The tile of a backward pass, and the columns that its splits have where they fit."""
        (M, H), V = every.hidden_MH.shape, weight_VH.shape[0]
        dtype, device = weight_VH.dtype, weight_VH.device
        if every.normaliser.kept is not None:
            return keeping.keeping_tile(H, dtype, device, self.schedule), V
        plan = plan_for(
            M,
            H,
            V,
            dtype,
            device,
            every.grad_entropy_M is not None,
            self.schedule,
            launching="backward",
        )
        return plan.backward, plan.columns_per_split


class _Tokens(NamedTuple):
    """What a backward pass reads of each of M tokens."""

    hidden_MH: torch.Tensor
    target_M: torch.Tensor
    normaliser: Normaliser
    grad_logprob_M: torch.Tensor
    grad_entropy_M: torch.Tensor | None

    def rows(self, part: slice) -> _Tokens:
        """Views of the tokens in ``part``."""
        return _Tokens(
            self.hidden_MH[part],
            self.target_M[part],
            self.normaliser.rows(part),
            self.grad_logprob_M[part],
            None if self.grad_entropy_M is None else self.grad_entropy_M[part],
        )


def _project(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor, add: bool) -> None:
    """total = left @ right, or total += left @ right, in total's dtype."""
    if total.dtype is not left.dtype and not left.is_cuda:
        left, right = left.float(), right.float()
    if total.dtype is left.dtype:
        torch.addmm(total, left, right, beta=int(add), out=total)
    else:
        torch.addmm(total, left, right, out_dtype=torch.float32, beta=int(add), out=total)
