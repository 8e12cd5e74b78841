"""The truth in fp64, chunk by chunk, so that no fp64 logits of all tokens exist.

Written apart from ``fused_lmhead.reference``: an oracle that a commit could change
would follow its mistakes. Legend: M tokens, C tokens of a chunk, V vocabulary, H hidden.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from asv_benchmarks.inputs import Inputs

# 1 GiB of fp64 at the largest vocabulary.
CHUNK_BYTES = 2**30


class Truth(NamedTuple):
    """All fp64: ``logprob [M]``, ``entropy [M]``, ``d_hidden [M, H]``, ``d_weight [V, H]``."""

    logprob: torch.Tensor
    entropy: torch.Tensor
    d_hidden: torch.Tensor
    d_weight: torch.Tensor


def truth(inputs: Inputs) -> Truth:
    """Results and gradients of inputs whose targets all lie in the vocabulary.

    The gradients are those of sum(upstream·logprob + upstream_entropy·entropy).
    """
    weight_VH = inputs.weight.detach().double()
    m, v = inputs.hidden.shape[0], weight_VH.shape[0]
    logprobs, entropies, d_hiddens = [], [], []
    d_weight_VH = torch.zeros_like(weight_VH)
    chunk = max(1, CHUNK_BYTES // (8 * v))
    for start in range(0, m, chunk):
        rows = slice(start, min(start + chunk, m))
        hidden_CH = inputs.hidden[rows].detach().double()
        logp_CV = torch.log_softmax(hidden_CH @ weight_VH.T, dim=-1)
        p_CV = logp_CV.exp()
        entropy_C = -(p_CV * logp_CV).sum(dim=-1)
        target_C1 = inputs.target[rows, None]
        up_C1 = inputs.upstream[rows, None].double()
        up_entropy_C1 = inputs.upstream_entropy[rows, None].double()
        logprobs.append(logp_CV.gather(-1, target_C1).squeeze(-1))
        entropies.append(entropy_C)
        dz_CV = -p_CV * (up_C1 + up_entropy_C1 * (logp_CV + entropy_C[:, None]))
        dz_CV.scatter_add_(-1, target_C1, up_C1)
        d_hiddens.append(dz_CV @ weight_VH)
        d_weight_VH += dz_CV.T @ hidden_CH
    return Truth(torch.cat(logprobs), torch.cat(entropies), torch.cat(d_hiddens), d_weight_VH)
