"""What the fused kernels are compared with. Frozen: a change is a new ``version``."""

from __future__ import annotations

import torch

# Tokens a chunk of the entropy projection: 1 GB of fp32 logits at the largest vocabulary.
ENTROPY_CHUNK = 1024


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
        logits_CV = torch.matmul(hidden_MH[rows], weight_VH.T).float()
        logprobs_CV = torch.log_softmax(logits_CV, dim=-1)
        entropy_M[rows] = -(logprobs_CV.exp() * logprobs_CV).sum(dim=-1)
    return entropy_M
