"""The oracle: materialised logits, plain autograd, in the precision asked for.

Slow and large by design. Every other backend is tested against it.
"""

from __future__ import annotations

import torch


def reference_linear_logprob(
    hidden_MH: torch.Tensor,
    weight_VH: torch.Tensor,
    target_M: torch.Tensor,
    *,
    temperature: float = 1.0,
    ignore_index: int | None = None,
    entropy_requires_grad: bool = False,
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability and entropy [M] from full logits [M, V] in ``dtype``.

    Both results are in ``dtype``; ``torch.float64`` gives a reference for fp32
    inputs. Semantics of targets outside [0, V) and of ``ignore_index`` are
    those of :func:`fused_lmhead.fused_linear_logprob`.
    """
    logits_MV = hidden_MH.to(weight_VH.dtype).to(dtype) @ weight_VH.to(dtype).T / temperature
    log_p_MV = torch.log_softmax(logits_MV, dim=-1)
    owned_M = (target_M >= 0) & (target_M < weight_VH.shape[0])
    index_M1 = target_M.where(owned_M, 0).long().unsqueeze(-1)
    chosen_M = log_p_MV.gather(-1, index_M1).squeeze(-1)
    # A target nobody owns has no logit to raise: value 0, gradient that of -logsumexp.
    lse_M = torch.logsumexp(logits_MV, dim=-1)
    logprob_M = chosen_M.where(owned_M, lse_M.detach() - lse_M)
    if ignore_index is not None:
        logprob_M = logprob_M.where(target_M != ignore_index, 0.0)
    # A logit of -inf has p·log p = 0.
    entropy_M = -(log_p_MV.exp() * log_p_MV.masked_fill(log_p_MV == -torch.inf, 0.0)).sum(-1)
    return logprob_M, entropy_M if entropy_requires_grad else entropy_M.detach()
