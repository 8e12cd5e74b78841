"""The op as torch.compile sees it: opaque, with a fake kernel, options as plain values.

Eager calls do not come here: the dispatch of a custom op costs more of the host's time
than :class:`fused_lmhead.autograd.FusedLinearLogprob` alone.
Where something is not kept or not needed, an empty tensor stands for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

import torch

from fused_lmhead.autograd import NO_SECOND_DERIVATIVE, run_backward, run_forward
from fused_lmhead.chunked import ChunkedBackend
from fused_lmhead.ops import BackendName, _backend
from fused_lmhead.problem import Kept, Normaliser
from fused_lmhead.schedules import Schedule

if TYPE_CHECKING:
    from fused_lmhead.launch import TritonBackend

Kind = Literal["tile", "specialised"]


def schedule_of(tile: list[int], kind: str) -> Schedule | None:
    """The schedule that ``ops`` made plain; none where there are no numbers."""
    if not tile:
        return None
    block_m, block_n, block_k, group_m, num_warps, num_stages = tile
    return Schedule(block_m, block_n, block_k, group_m, num_warps, num_stages, cast(Kind, kind))


def _chosen(
    weight_VH: torch.Tensor, name: str, chunk_size: int, tile: list[int], kind: str, *budgets: int
) -> TritonBackend | ChunkedBackend:
    """The backend of an op's trailing options."""
    forced = schedule_of(tile, kind)
    return _backend(cast(BackendName, name), weight_VH, chunk_size, forced, *budgets)


@torch.library.custom_op("fused_lmhead::linear_logprob", mutates_args=())
def linear_logprob(
    hidden_MH: torch.Tensor,
    weight_VH: torch.Tensor,
    target_M: torch.Tensor,
    temperature: float,
    ignore_index: int | None,
    with_entropy: bool,
    entropy_requires_grad: bool,
    backend: str,
    chunk_size: int,
    schedule: list[int],
    schedule_kind: str,
    backward_budget: int,
    keep_logits_budget: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-prob [M], entropy [M], and for the backward op: shift [M], log-sum [M], Kept's two."""
    del entropy_requires_grad  # a matter of autograd alone
    options = (backend, chunk_size, schedule, schedule_kind, backward_budget, keep_logits_budget)
    logprob_M, statistics = run_forward(
        hidden_MH.contiguous(),
        weight_VH.contiguous(),
        target_M.contiguous(),
        _chosen(weight_VH, *options),
        temperature,
        ignore_index,
        with_entropy,
    )
    entropy_M = statistics.entropy_M
    return (
        logprob_M,
        logprob_M.new_empty(0) if entropy_M is None else entropy_M,
        statistics.shift_M,
        statistics.log_sum_M,
        *(statistics.kept or (weight_VH.new_empty((0, 0)), logprob_M.new_empty((0, 0)))),
    )


@linear_logprob.register_fake
def _(
    hidden_MH: torch.Tensor,
    weight_VH: torch.Tensor,
    target_M: torch.Tensor,
    temperature: float,
    ignore_index: int | None,
    with_entropy: bool,
    entropy_requires_grad: bool,
    *options: Any,
) -> tuple[torch.Tensor, ...]:
    (M, H), V = hidden_MH.shape, weight_VH.shape[0]
    chosen = _chosen(weight_VH, *options)
    tiles = chosen.kept_tiles(M, H, V, weight_VH.dtype, weight_VH.device)

    def tokens(count: int) -> torch.Tensor:
        return hidden_MH.new_empty(count, dtype=torch.float32)

    return (
        tokens(M),
        tokens(M if with_entropy else 0),
        tokens(M),
        tokens(M),
        weight_VH.new_empty((M, V) if tiles else (0, 0)),
        hidden_MH.new_empty((tiles, M) if tiles else (0, 0), dtype=torch.float32),
    )


@torch.library.custom_op("fused_lmhead::linear_logprob_backward", mutates_args=())
def linear_logprob_backward(
    hidden_MH: torch.Tensor,
    weight_VH: torch.Tensor,
    target_M: torch.Tensor,
    shift_M: torch.Tensor,
    log_sum_M: torch.Tensor,
    numerator_MV: torch.Tensor,
    largest_TM: torch.Tensor,
    entropy_M: torch.Tensor | None,
    grad_logprob_M: torch.Tensor | None,
    grad_entropy_M: torch.Tensor | None,
    needs_hidden: bool,
    needs_weight: bool,
    temperature: float,
    ignore_index: int | None,
    backend: str,
    chunk_size: int,
    schedule: list[int],
    schedule_kind: str,
    backward_budget: int,
    keep_logits_budget: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of hidden [M, H] and weight [V, H]."""
    options = (backend, chunk_size, schedule, schedule_kind, backward_budget, keep_logits_budget)
    kept = Kept(numerator_MV, largest_TM) if largest_TM.numel() else None
    d_hidden_MH, d_weight_VH = run_backward(
        hidden_MH.contiguous(),
        weight_VH.contiguous(),
        target_M.contiguous(),
        Normaliser(shift_M, log_sum_M, entropy_M, kept),
        grad_logprob_M,
        grad_entropy_M,
        _chosen(weight_VH, *options),
        temperature,
        ignore_index,
        needs_hidden,
        needs_weight,
    )
    return (
        hidden_MH.new_empty((0, 0)) if d_hidden_MH is None else d_hidden_MH,
        weight_VH.new_empty((0, 0)) if d_weight_VH is None else d_weight_VH,
    )


@linear_logprob_backward.register_fake
def _(
    hidden_MH: torch.Tensor, weight_VH: torch.Tensor, *arguments: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    needs_hidden, needs_weight = arguments[8:10]
    return (
        hidden_MH.new_empty(hidden_MH.shape if needs_hidden else (0, 0)),
        weight_VH.new_empty(weight_VH.shape if needs_weight else (0, 0)),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    hidden_MH, weight_VH, target_M, temperature, ignore_index, _, entropy_requires_grad = inputs[:7]
    _, entropy_M, *kept = output
    ctx.save_for_backward(
        hidden_MH, weight_VH, target_M, *kept, entropy_M if entropy_requires_grad else None
    )
    ctx.options = (temperature, ignore_index, *inputs[7:])
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*kept, *(() if entropy_requires_grad else (entropy_M,)))


def _differentiate(
    ctx: Any,
    grad_logprob_M: torch.Tensor | None,
    grad_entropy_M: torch.Tensor | None,
    *_: None,
) -> tuple[torch.Tensor | None, ...]:
    rest = (None,) * (len(ctx.options) + 3)
    if grad_logprob_M is None and grad_entropy_M is None:
        return None, None, *rest
    needs = ctx.needs_input_grad[:2]
    gradients = linear_logprob_backward(
        *ctx.saved_tensors, grad_logprob_M, grad_entropy_M, *needs, *ctx.options
    )
    wanted = (one if need else None for one, need in zip(gradients, needs, strict=True))
    return *wanted, *rest


def _refuse(ctx: Any, *gradients: torch.Tensor | None) -> NoReturn:
    raise RuntimeError(NO_SECOND_DERIVATIVE)


linear_logprob.register_autograd(_differentiate, setup_context=_save)
linear_logprob_backward.register_autograd(_refuse)
