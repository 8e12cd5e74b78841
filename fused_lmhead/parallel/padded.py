"""The trainers' entry point for padded batches.

Legend: B batch, S sequence, H hidden, V vocabulary, TP ranks that share the vocabulary, CP
ranks that share each sequence (see ``zigzag``).
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from fused_lmhead.parallel.layout_checks import check_padded
from fused_lmhead.parallel.sequence import Context, ShardedHead, sequence_values
from fused_lmhead.parallel.untraced import untraced
from fused_lmhead.parallel.zigzag import even_offsets


@untraced
def from_parallel_hidden_to_logprobs(
    hidden: torch.Tensor,
    lm_head_weight: torch.Tensor,
    target: torch.Tensor,
    vocab_start_index: int,
    vocab_end_index: int,
    tp_group: dist.ProcessGroup | None,
    inference_only: bool = False,
    cp_group: dist.ProcessGroup | None = None,
    chunk_size: int | None = None,
    temperature: float = 1.0,
    fused_backend: str = "torch",
    return_entropy: bool = False,
    entropy_requires_grad: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each token of a padded batch given those before it.

    Collective calls: one MAX and one SUM over ``tp_group``; with CP > 1 one all-gather over
    ``cp_group``, and in backward one SUM over it: the gradients that the ranks' losses have
    for a token add up.

    Args:
        hidden: [B, S'/CP, H], this rank's zigzag shard; S' is S, with CP > 1 padded to a
            multiple of 2·CP. The gradient is this TP rank's part: the caller sums it.
        lm_head_weight: [V/TP, H], this rank's shard.
        target: [B, S], the whole sequences' ids, not shifted.
        vocab_start_index: the id of the shard's first row.
        vocab_end_index: one past the id of its last row. A target that two ranks' ranges
            have gets NaN.
        tp_group: the ranks that share the vocabulary; None: this one has all of it.
        inference_only: keep nothing for a backward pass; results need no gradient.
        cp_group: the ranks that share each sequence; None: this one has all of it.
        chunk_size: tokens per chunk of the torch backend, all rows together; None: 1024.
        temperature: divides the logits.
        fused_backend: "torch" or "triton".
        return_entropy: also return the entropy of what each token was drawn from, in nats.
        entropy_requires_grad: make it differentiable.

    Returns:
        fp32 [B, S - 1], the same on every rank; with ``return_entropy`` a pair.

    Raises:
        TypeError, ValueError: an argument does not fit, named.
    """
    context = Context.of(cp_group)
    check_padded(hidden, target, context.size)
    B, S = target.shape
    padded = hidden.shape[1] * context.size
    head = ShardedHead(
        weight=lm_head_weight,
        vocab_start_index=vocab_start_index,
        vocab_end_index=vocab_end_index,
        tp_group=tp_group,
        inference_only=inference_only,
        chunk_size=chunk_size,
        temperature=temperature,
        fused_backend=fused_backend,
        return_entropy=return_entropy,
        entropy_requires_grad=entropy_requires_grad,
    )
    # Rows are segments of equal length, so a padded batch is a packed one.
    logprob_T, *entropy_T = sequence_values(
        hidden.reshape(1, -1, hidden.shape[-1]),
        torch.nn.functional.pad(target, (0, padded - S)).reshape(-1),
        even_offsets(B, padded, target.device),
        head,
        context,
        sum_gradients=True,
    )

    def rows(values_T: torch.Tensor) -> torch.Tensor:
        return values_T.view(B, padded)[:, :S][:, :-1]

    return (rows(logprob_T), rows(entropy_T[0])) if return_entropy else rows(logprob_T)
