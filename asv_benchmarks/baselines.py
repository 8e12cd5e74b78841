"""What the fused kernels are compared with. Frozen: a change is a new ``version``.

Legend: M tokens, C tokens of a chunk, V vocabulary, H hidden.
"""

from __future__ import annotations

from functools import partial
from typing import cast

import torch
from torch.utils.checkpoint import checkpoint

from asv_benchmarks.nominal import Work

# Tokens a chunk of the entropy projection: 1 GB of fp32 logits at the largest vocabulary.
ENTROPY_CHUNK = 1024

# The nominal length of `chunked_entropy` without gradients, from the shipped history.
ENTROPY_PASS = Work(products=1, logit_ps=12.7)


def entropy_of_logits(logits_CV: torch.Tensor) -> torch.Tensor:
    """Entropy ``[C]`` in nats of ``softmax(logits)``."""
    logprobs_CV = torch.log_softmax(logits_CV, dim=-1)
    return -(logprobs_CV.exp() * logprobs_CV).sum(dim=-1)


def _projected_entropy(hidden_CH: torch.Tensor, weight_VH: torch.Tensor) -> torch.Tensor:
    return entropy_of_logits(torch.matmul(hidden_CH, weight_VH.T).float())


def chunked_entropy(
    hidden_MH: torch.Tensor, weight_VH: torch.Tensor, chunk: int = ENTROPY_CHUNK
) -> torch.Tensor:
    """Entropy ``[M]`` fp32 of ``softmax(hidden @ weight.T)``, ``chunk`` tokens at a time.

    The second pass of a trainer whose log-prob kernel gives no entropy: the
    logits of a chunk are projected again and kept in fp32.
    """
    entropy_M = torch.empty(hidden_MH.shape[0], dtype=torch.float32, device=hidden_MH.device)
    for start in range(0, hidden_MH.shape[0], chunk):
        rows = slice(start, start + chunk)
        entropy_M[rows] = _projected_entropy(hidden_MH[rows], weight_VH)
    return entropy_M


def differentiable_chunked_entropy(
    hidden_MH: torch.Tensor, weight_VH: torch.Tensor, chunk: int = ENTROPY_CHUNK
) -> torch.Tensor:
    """As :func:`chunked_entropy`, differentiable; backward projects each chunk again.

    Without that, the fp32 logits of all chunks would be kept until then.
    """
    project = partial(checkpoint, _projected_entropy, use_reentrant=False, preserve_rng_state=False)
    parts = []
    for start in range(0, hidden_MH.shape[0], chunk):
        hidden_CH = hidden_MH[start : start + chunk]
        parts.append(cast(torch.Tensor, project(hidden_CH, weight_VH)))
    return torch.cat(parts)


def materialised(
    hidden_MH: torch.Tensor, weight_VH: torch.Tensor, target_M: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs ``[M]`` and entropies ``[M]`` in plain torch, from all logits in fp32."""
    logits_MV = torch.matmul(hidden_MH, weight_VH.T).float()
    logprobs_MV = torch.log_softmax(logits_MV, dim=-1)
    chosen_M = logprobs_MV.gather(-1, target_M[:, None]).squeeze(-1)
    return chosen_M, -(logprobs_MV.exp() * logprobs_MV).sum(dim=-1)
