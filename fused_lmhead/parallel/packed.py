"""The trainers' entry point for packed sequences.

Legend: T tokens of all segments with padding, H hidden, V vocabulary, TP ranks that share the
vocabulary, CP ranks that share each segment (see ``zigzag``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from fused_lmhead.parallel.layout_checks import check_packed, row_lengths, segment_lengths
from fused_lmhead.parallel.sequence import Context, ShardedHead, sequence_values
from fused_lmhead.parallel.unpacking import (
    destinations,
    rows_of_segments,
    rows_of_sub_sequences,
    unpack,
)
from fused_lmhead.parallel.untraced import untraced


@untraced
def from_parallel_hidden_to_logprobs_packed_sequences(
    hidden: torch.Tensor,
    lm_head_weight: torch.Tensor,
    target: torch.Tensor,
    cu_seqlens_padded: torch.Tensor,
    unpacked_seqlen: int,
    vocab_start_index: int,
    vocab_end_index: int,
    group: dist.ProcessGroup | None,
    inference_only: bool = False,
    cp_group: dist.ProcessGroup | None = None,
    chunk_size: int | None = None,
    attention_mask: torch.Tensor | None = None,
    sub_seq_lengths: Sequence[Sequence[int]] | None = None,
    temperature: float = 1.0,
    fused_backend: str = "torch",
    return_entropy: bool = False,
    entropy_requires_grad: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each token of packed sequences given those before it in its own.

    Collective calls: one MAX and one SUM over ``group``; with CP > 1 one all-gather over
    ``cp_group`` and none in backward: each rank keeps the gradients of its own tokens. The
    host reads the layout once, and waits for it if it lies on the device.

    Args:
        hidden: [1, T/CP, H], this rank's zigzag shard of every segment. The gradient is this
            TP rank's part: the caller sums it.
        lm_head_weight: [V/TP, H], this rank's shard.
        target: [1, T], the segments' ids, not shifted.
        cu_seqlens_padded: [segments + 1], cumulative padded lengths from 0 to T, with CP > 1
            each a multiple of 2·CP. A segment may be empty.
        unpacked_seqlen: columns of the batch that was packed.
        vocab_start_index: the id of the shard's first row.
        vocab_end_index: one past the id of its last row. A target that two ranks' ranges
            have gets NaN.
        group: the ranks that share the vocabulary; None: this one has all of it.
        inference_only: keep nothing for a backward pass; results need no gradient.
        cp_group: the ranks that share each segment; None: this one has all of it.
        chunk_size: tokens per chunk of the torch backend; None: 1024.
        attention_mask: [batch, unpacked_seqlen], true for the tokens that were packed, a
            segment a row; a row's values go to its true places. Not looked at where
            ``sub_seq_lengths`` is given.
        sub_seq_lengths: for each row of the batch the true lengths of its segments. Their
            values go one segment after the other, each at the sum of the padded lengths
            before it in the row; what would pass the row's end is left out.
        temperature: divides the logits.
        fused_backend: "torch" or "triton".
        return_entropy: also return the entropy of what each token was drawn from, in nats.
        entropy_requires_grad: make it differentiable.

    Returns:
        fp32 [batch, unpacked_seqlen - 1], the same on every rank: of each segment the first
        true length - 1 values, 0 elsewhere; with ``return_entropy`` a pair. Without mask and
        lengths a segment is a row and its padded length the true one.

    Raises:
        TypeError, ValueError: an argument does not fit, named.
    """
    context = Context.of(cp_group)
    if sub_seq_lengths is not None:
        attention_mask = None
    check_packed(hidden, target, cu_seqlens_padded, unpacked_seqlen, attention_mask, context.size)
    device, total, columns = target.device, target.shape[1], unpacked_seqlen - 1
    offsets = cu_seqlens_padded.to(device=device, dtype=torch.int64)
    if sub_seq_lengths is not None:
        described = row_lengths(sub_seq_lengths)
        lengths = segment_lengths(offsets, described, total, context.size)
        rows = rows_of_sub_sequences(lengths, described, device)
    else:
        if attention_mask is None:
            true_lengths = offsets.diff()
        else:
            attention_mask = attention_mask.to(device=device, dtype=torch.bool)
            true_lengths = attention_mask.sum(dim=1)
        segment_lengths(offsets, true_lengths, total, context.size)
        rows = rows_of_segments(true_lengths)
    head = ShardedHead(
        weight=lm_head_weight,
        vocab_start_index=vocab_start_index,
        vocab_end_index=vocab_end_index,
        tp_group=group,
        inference_only=inference_only,
        chunk_size=chunk_size,
        temperature=temperature,
        fused_backend=fused_backend,
        return_entropy=return_entropy,
        entropy_requires_grad=entropy_requires_grad,
    )
    logprob_T, *entropy_T = sequence_values(
        hidden, target[0], offsets, head, context, sum_gradients=False
    )
    places_T = destinations(offsets, total, columns, rows, attention_mask)

    def batch(values_T: torch.Tensor) -> torch.Tensor:
        return unpack(values_T, places_T, rows.number, columns)

    return (batch(logprob_T), batch(entropy_T[0])) if return_entropy else batch(logprob_T)
