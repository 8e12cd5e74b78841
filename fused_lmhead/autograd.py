"""The autograd Function that every fused backend runs under."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from fused_lmhead.problem import Backend, Merge, Normaliser


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Forward and backward both compute in the weight's dtype, whatever autocast says."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


class FusedLinearLogprob(torch.autograd.Function):
    """Log-probability and entropy [M] of hidden [M, H], weight [V, H], target [M].

    Use :func:`fused_lmhead.fused_linear_logprob`, which checks its arguments.
    Entropy is an empty tensor unless ``with_entropy``. ``merge`` makes the statistics of one
    vocabulary shard those of all; None where ``weight`` is the whole vocabulary.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        target_M: torch.Tensor,
        backend: Backend,
        temperature: float,
        ignore_index: int | None,
        with_entropy: bool,
        entropy_requires_grad: bool,
        merge: Merge | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the backend and keep inputs and per-token statistics, nothing of size V."""
        with without_autocast(hidden_MH.device):
            statistics = backend.forward(hidden_MH, weight_VH, target_M, temperature, with_entropy)
            if merge is not None:
                statistics = merge(statistics, target_M, temperature)
        logprob_M = statistics.logprob_M
        if ignore_index is not None:
            logprob_M = logprob_M.masked_fill(target_M == ignore_index, 0.0)
        entropy_M = logprob_M.new_empty(0) if not with_entropy else statistics.entropy_M
        assert entropy_M is not None
        # A metric entropy is the caller's alone: it may be changed in place.
        kept_entropy_M = (entropy_M,) if entropy_requires_grad else ()
        ctx.save_for_backward(
            hidden_MH,
            weight_VH,
            target_M,
            statistics.shift_M,
            statistics.log_sum_M,
            *kept_entropy_M,
        )
        ctx.backend, ctx.temperature, ctx.ignore_index = backend, temperature, ignore_index
        ctx.set_materialize_grads(False)
        if not entropy_requires_grad:
            ctx.mark_non_differentiable(entropy_M)
        return logprob_M, entropy_M

    @staticmethod
    def backward(
        ctx: Any, grad_logprob_M: torch.Tensor | None, grad_entropy_M: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        """Recompute the logits from the saved statistics and project their gradient."""
        if torch.is_grad_enabled():
            raise RuntimeError(
                "fused_linear_logprob has no second derivative: its gradients would enter a "
                "graph (create_graph=True) as constants; use backend='reference' for that"
            )
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        hidden_MH, weight_VH, target_M, shift_M, log_sum_M, *kept = ctx.saved_tensors
        entropy_M = kept[0] if kept else None
        if entropy_M is None:
            grad_entropy_M = None
        if grad_logprob_M is None and grad_entropy_M is None:
            return (None,) * 9
        if grad_logprob_M is None:
            grad_logprob_M = torch.zeros_like(shift_M)
        elif ctx.ignore_index is not None:
            grad_logprob_M = grad_logprob_M.masked_fill(target_M == ctx.ignore_index, 0.0)
        with without_autocast(hidden_MH.device):
            d_hidden_MH, d_weight_VH = ctx.backend.backward(
                hidden_MH,
                weight_VH,
                target_M,
                Normaliser(shift_M, log_sum_M, entropy_M),
                # Expanded or strided upstream gradients become plain rows here.
                grad_logprob_M.float().contiguous(),
                None if grad_entropy_M is None else grad_entropy_M.float().contiguous(),
                ctx.temperature,
                needs_hidden,
                needs_weight,
            )
        return d_hidden_MH, d_weight_VH, None, None, None, None, None, None, None
