"""The low-level drop-ins of the trainers: targets already shifted, one rank's tokens.

Legend: B batch, S sequence of this rank, H hidden, V/TP rows of this rank's weight shard.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.distributed as dist

from fused_lmhead.ops import BackendName
from fused_lmhead.parallel.untraced import untraced
from fused_lmhead.parallel.vocabulary import CHUNK_SIZE, vocab_parallel_logprob


class _ShardedLogprob(torch.autograd.Function):
    """Called by ``apply``, as autograd Functions are; the node in the graph is the shared
    :class:`fused_lmhead.autograd.FusedLinearLogprob`."""

    fused_backend: ClassVar[BackendName]

    @classmethod
    @untraced
    def apply(
        cls,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        vocab_start_index: int,
        vocab_end_index: int,
        chunk_size: int | None,
        tp_group: dist.ProcessGroup | None,
        inference_only: bool = False,
        return_entropy: bool = False,
        entropy_requires_grad: bool = False,
        temperature: float = 1.0,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities [B, S] of a vocabulary spread over ``tp_group``.

        Collective calls: one MAX and one SUM in forward, none in backward.

        Args:
            hidden: [B, S, H], cast to the weight's dtype.
            weight: [V/TP, H], this rank's shard.
            target: [B, S], ids in the whole vocabulary, already shifted.
            vocab_start_index: the id of the shard's first row.
            vocab_end_index: one past the id of its last row. A target that two ranks' ranges
                have gets NaN.
            chunk_size: tokens per chunk of the torch backend, B·S together; None: 1024.
            tp_group: the ranks that share the vocabulary; None: this one has all of it.
            inference_only: keep nothing for a backward pass; results need no gradient.
            return_entropy: also return the entropies.
            entropy_requires_grad: make them differentiable.
            temperature: divides the logits.

        Returns:
            fp32 [B, S], the same on every rank of the group; with ``return_entropy`` a pair.
            The gradient of ``hidden`` is this rank's part: the caller sums it.

        Raises:
            TypeError, ValueError: an argument does not fit, named.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not inference_only):
            return vocab_parallel_logprob(
                hidden,
                weight,
                target,
                vocab_start_index=vocab_start_index,
                vocab_end_index=vocab_end_index,
                group=tp_group,
                temperature=temperature,
                return_entropy=return_entropy,
                entropy_requires_grad=entropy_requires_grad,
                backend=cls.fused_backend,
                chunk_size=CHUNK_SIZE if chunk_size is None else chunk_size,
            )


class FusedLinearChunkedDistributedLogprob(_ShardedLogprob):
    """The torch backend: chunks of tokens, on any device."""

    fused_backend = "torch"


class FusedLinearLogprobTriton(_ShardedLogprob):
    """The Triton backend: CUDA tensors; ``chunk_size`` is not used."""

    fused_backend = "triton"
