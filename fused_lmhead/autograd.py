"""The autograd Function that every fused backend runs under, and its two passes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import torch

from fused_lmhead.problem import Backend, Kept, Merge, Normaliser, Statistics

NO_SECOND_DERIVATIVE = (
    "fused_linear_logprob has no second derivative: its gradients would enter a "
    "graph (create_graph=True) as constants; use backend='reference' for that"
)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Forward and backward both compute in the weight's dtype, whatever autocast says."""
    kind = device.type
    known = kind in ("cuda", "cpu") or torch.amp.is_autocast_available(kind)
    if not known or not torch.is_autocast_enabled(kind):
        return nullcontext()
    return torch.autocast(kind, enabled=False)


def run_forward(
    hidden_MH: torch.Tensor,
    weight_VH: torch.Tensor,
    target_M: torch.Tensor,
    backend: Backend,
    temperature: float,
    ignore_index: int | None,
    with_entropy: bool,
    merge: Merge | None = None,
) -> tuple[torch.Tensor, Statistics]:
    """Log-probability [M], 0 where ignored, and the statistics of the whole vocabulary."""
    with without_autocast(hidden_MH.device):
        statistics = backend.forward(hidden_MH, weight_VH, target_M, temperature, with_entropy)
        if merge is not None:
            kept = statistics.kept
            statistics = merge(statistics, target_M, temperature)._replace(kept=kept)
    logprob_M = statistics.logprob_M
    if ignore_index is not None:
        logprob_M = logprob_M.masked_fill(target_M == ignore_index, 0.0)
    return logprob_M, statistics


def run_backward(
    hidden_MH: torch.Tensor,
    weight_VH: torch.Tensor,
    target_M: torch.Tensor,
    normaliser: Normaliser,
    grad_logprob_M: torch.Tensor | None,
    grad_entropy_M: torch.Tensor | None,
    backend: Backend,
    temperature: float,
    ignore_index: int | None,
    needs_hidden: bool,
    needs_weight: bool,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Gradients of hidden [M, H] and weight [V, H]; upstream ones [M] of any strides, or None."""
    if normaliser.entropy_M is None:
        grad_entropy_M = None
    if grad_logprob_M is None and grad_entropy_M is None:
        return None, None
    if grad_logprob_M is None:
        grad_logprob_M = torch.zeros_like(normaliser.shift_M)
    elif ignore_index is not None:
        grad_logprob_M = grad_logprob_M.masked_fill(target_M == ignore_index, 0.0)
    with without_autocast(hidden_MH.device):
        return backend.backward(
            hidden_MH,
            weight_VH,
            target_M,
            normaliser,
            # Expanded or strided upstream gradients become plain rows here.
            grad_logprob_M.float().contiguous(),
            None if grad_entropy_M is None else grad_entropy_M.float().contiguous(),
            temperature,
            needs_hidden,
            needs_weight,
        )


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
        """Run the backend and keep inputs and per-token statistics, and logits if it kept any."""
        logprob_M, statistics = run_forward(
            hidden_MH,
            weight_VH,
            target_M,
            backend,
            temperature,
            ignore_index,
            with_entropy,
            merge,
        )
        entropy_M = logprob_M.new_empty(0) if not with_entropy else statistics.entropy_M
        assert entropy_M is not None
        ctx.save_for_backward(
            hidden_MH,
            weight_VH,
            target_M,
            statistics.shift_M,
            statistics.log_sum_M,
            # A metric entropy is the caller's alone: it may be changed in place.
            entropy_M if entropy_requires_grad else None,
            *(statistics.kept or ()),
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
        """The gradient of the logits, from the saved statistics, projected to both inputs."""
        if torch.is_grad_enabled():
            raise RuntimeError(NO_SECOND_DERIVATIVE)
        hidden_MH, weight_VH, target_M, shift_M, log_sum_M, entropy_M, *kept = ctx.saved_tensors
        d_hidden_MH, d_weight_VH = run_backward(
            hidden_MH,
            weight_VH,
            target_M,
            Normaliser(shift_M, log_sum_M, entropy_M, Kept(*kept) if kept else None),
            grad_logprob_M,
            grad_entropy_M,
            ctx.backend,
            ctx.temperature,
            ctx.ignore_index,
            *ctx.needs_input_grad[:2],
        )
        return d_hidden_MH, d_weight_VH, None, None, None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: object) -> NoReturn:
        """Refused by name; torch's own error would name neither function nor way out."""
        raise NotImplementedError(
            "fused_linear_logprob has no forward-mode derivative; use backend='reference'"
        )
