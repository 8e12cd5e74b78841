"""The entry point of verl's shape."""

from __future__ import annotations

import torch
import torch.distributed as dist

from fused_lmhead.arguments import check_tensors
from fused_lmhead.parallel.groups import place_in
from fused_lmhead.parallel.vocabulary import vocab_parallel_logprob

_REDUCTIONS = ("none", "sum", "mean")


def linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: float = 1.0,
    reduction: str = "none",
    group: dist.ProcessGroup | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies of a vocabulary in equal shards, both differentiable.

    Collective calls: one MAX and one SUM over ``group``.

    Args:
        hidden: [..., H]; its gradient is this rank's part: the caller sums it.
        weight: [V/TP, H], equally many rows on every rank, in the order of the ranks.
        labels: [...], ids in the whole vocabulary, already shifted.
        temperature: divides the logits.
        reduction: "none", "sum" or "mean" of the log-probabilities.
        group: the ranks that share the vocabulary; None: this one has all of it.

    Returns:
        log-probabilities, fp32 [tokens] (a scalar unless ``reduction`` is "none"), and
        entropies, fp32 [tokens]: leading dimensions are one.

    Raises:
        TypeError, ValueError: an argument does not fit, named.
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be 'none', 'sum' or 'mean', got {reduction!r}")
    check_tensors(hidden, weight, labels)
    first = place_in(group, "group").rank * weight.shape[0]
    logprob, entropy = vocab_parallel_logprob(
        hidden,
        weight,
        labels,
        vocab_start_index=first,
        vocab_end_index=first + weight.shape[0],
        group=group,
        temperature=temperature,
        return_entropy=True,
        entropy_requires_grad=True,
    )
    logprob_M = logprob.reshape(-1)
    if reduction == "sum":
        logprob_M = logprob_M.sum()
    elif reduction == "mean":
        logprob_M = logprob_M.mean()
    return logprob_M, entropy.reshape(-1)
