"""The LM head whose vocabulary is spread over the ranks of a group (tensor parallelism).

Legend: M tokens, the same ones on every rank; H hidden, replicated; V rows of this rank's
weight shard, which need not be equally many on every rank.
"""

from __future__ import annotations

from numbers import Integral

import torch
import torch.distributed as dist

from fused_lmhead.arguments import check_budgets, check_options, check_tensors
from fused_lmhead.autograd import FusedLinearLogprob
from fused_lmhead.ops import BackendName, _backend
from fused_lmhead.parallel.groups import place_in
from fused_lmhead.parallel.hidden_gradient import SummedHiddenGradient
from fused_lmhead.parallel.merging import merge_over
from fused_lmhead.parallel.schedules import settle_schedules
from fused_lmhead.parallel.untraced import untraced
from fused_lmhead.problem import Backend
from fused_lmhead.schedules import BACKWARD_WORKSPACE

CHUNK_SIZE = 1024
"""Tokens per chunk of the torch backend where the caller names none."""


@untraced
def vocab_parallel_logprob(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    *,
    vocab_start_index: int,
    vocab_end_index: int,
    group: dist.ProcessGroup | None,
    temperature: float = 1.0,
    return_entropy: bool = False,
    entropy_requires_grad: bool = False,
    ignore_index: int | None = None,
    backend: BackendName = "auto",
    chunk_size: int = CHUNK_SIZE,
    backward_budget: int = BACKWARD_WORKSPACE,
    keep_logits_budget: int = 0,
    sum_hidden_gradient: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``fused_linear_logprob`` of a vocabulary that is spread over ``group``.

    Collective calls: one MAX and one SUM of per-token statistics in forward, none in
    backward unless ``sum_hidden_gradient``; while schedules are searched for, a broadcast
    where a token bucket is new. Every rank of the group must make the call, with
    the same tokens and options. A rank that does not come, since it was given a bad argument
    or ended, ends it by the group's timeout at the latest. torch.compile breaks the graph here.

    Args:
        hidden: [..., H], the same on every rank of the group; cast to the weight's dtype.
        weight: [V, H], this rank's rows of the LM head.
        target: [...], ids in the whole vocabulary. Where no rank owns it the log-prob is 0
            and its gradient that of ``-logsumexp(z)``; where two do, it is NaN.
        vocab_start_index: the id of the first of this rank's rows.
        vocab_end_index: one past the id of the last; the range must have V ids.
        group: the ranks that share the vocabulary; None: ``weight`` is all of it.
        temperature: divides the logits.
        return_entropy: also return the entropy in nats, of the whole vocabulary.
        entropy_requires_grad: make the entropy differentiable.
        ignore_index: such a target has log-prob 0 and no log-prob gradient.
        backend: "triton", "torch" (chunked over tokens) or "auto".
        chunk_size: tokens per chunk of the torch backend, all leading dimensions together.
        backward_budget: see :func:`fused_lmhead.fused_linear_logprob`; of this rank alone.
        keep_logits_budget: likewise, for the logits of this rank's rows.
        sum_hidden_gradient: sum the gradient of ``hidden`` over the group in backward, in
            the weight's dtype. If False it is **this rank's part** only, and the caller (for
            example Megatron's copy to the tensor-parallel region) sums it. The gradient of
            ``weight`` is the shard's own either way.

    Returns:
        log-probabilities, fp32, of target's shape, the same on every rank; with
        ``return_entropy`` a pair of them and the entropies.

    Raises:
        TypeError: an argument is no tensor or has an unsupported dtype.
        ValueError: shapes, devices, range, group or options do not fit.
        RuntimeError: the backend cannot run here, or not under torch.func, or a rank of the
            group did not answer.
    """
    check_tensors(hidden, weight, target)
    check_options(temperature, ignore_index, chunk_size)
    check_budgets(backward_budget, keep_logits_budget)
    _check_range(vocab_start_index, vocab_end_index, weight.shape[0])
    if entropy_requires_grad and not return_entropy:
        raise ValueError("entropy_requires_grad=True needs return_entropy=True")
    refuse_transforms()
    hidden_MH = hidden.to(weight.dtype).reshape(-1, weight.shape[1]).contiguous()
    learns = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    chosen: Backend = _shard_backend(
        backend, weight, chunk_size, backward_budget, int(keep_logits_budget) if learns else 0
    )
    merge = None
    if group is not None and place_in(group, "the vocabulary-parallel group").size > 1:
        settle_schedules(
            chosen, hidden_MH, weight, return_entropy, entropy_requires_grad, learns, group
        )
        merge = merge_over(group, weight.shape[0])
        if sum_hidden_gradient:
            chosen = SummedHiddenGradient(chosen, group)
    logprob_M, entropy_M = FusedLinearLogprob.apply(  # type: ignore[no-untyped-call]
        hidden_MH,
        weight.contiguous(),
        # Ids relative to this shard: what another owns falls outside [0, V).
        target.reshape(-1).long().contiguous() - vocab_start_index,
        chosen,
        float(temperature),
        None if ignore_index is None else _relative(ignore_index, vocab_start_index),
        return_entropy,
        entropy_requires_grad,
        merge,
    )
    logprob = logprob_M.reshape(target.shape)
    return (logprob, entropy_M.reshape(target.shape)) if return_entropy else logprob


def _shard_backend(
    name: BackendName, weight: torch.Tensor, chunk_size: int, *budgets: int
) -> Backend:
    if name == "reference":
        raise ValueError("backend 'reference' has no shards: use 'triton', 'torch' or 'auto'")
    return _backend(name, weight, chunk_size, None, *budgets)


def _relative(index: int, start: int) -> int:
    """``index - start`` as an int64 tensor of targets has it: wrapped, if need be."""
    return (int(index) - int(start) + 2**63) % 2**64 - 2**63


def refuse_transforms() -> None:
    # What autograd.Function itself asks before it fails with an error of its own.
    if torch._C._are_functorch_transforms_active():
        raise RuntimeError(
            "vocab_parallel_logprob works under no torch.func transform (grad, vmap, jvp, ...): "
            "use torch.autograd and leading dimensions"
        )


def _check_range(start: int, end: int, rows: int) -> None:
    for name, value in (("vocab_start_index", start), ("vocab_end_index", end)):
        if not isinstance(value, Integral):
            raise TypeError(f"{name} must be an integer, got {value!r}")
    if start < 0:
        raise ValueError(f"vocab_start_index must not be negative, got {start}")
    if end - start != rows:
        raise ValueError(
            f"vocab_start_index {start} to vocab_end_index {end} are {end - start} ids, "
            f"but the weight has {rows} rows"
        )
