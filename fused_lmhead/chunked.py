"""The torch backend: chunks of tokens, so that no full logits tensor exists.

Statistics here: ``shift_M`` is the largest logit, ``log_sum_M`` the natural
logarithm of sum(exp(z - shift)).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fused_lmhead.problem import Statistics


def _logits(hidden_mH: torch.Tensor, weight_VH: torch.Tensor, temperature: float) -> torch.Tensor:
    return (hidden_mH @ weight_VH.T).float() / temperature


@dataclass(frozen=True, slots=True)
class ChunkedBackend:
    """Plain torch over ``chunk_size`` tokens at a time; workspace 3·chunk_size·V fp32 values."""

    chunk_size: int

    def forward(
        self,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        target_M: torch.Tensor,
        temperature: float,
        with_entropy: bool,
    ) -> Statistics:
        """See :class:`fused_lmhead.problem.Backend`."""
        M, V = hidden_MH.shape[0], weight_VH.shape[0]
        # Apart, not rows of one tensor: a caller may change a result in place.
        logprob_M, shift_M, log_sum_M, entropy_M = (
            hidden_MH.new_empty(M, dtype=torch.float32) for _ in range(4)
        )
        for first in range(0, M, self.chunk_size):
            part = slice(first, min(first + self.chunk_size, M))
            z_mV = _logits(hidden_MH[part], weight_VH, temperature)
            shift_m = z_mV.max(dim=-1).values
            z_mV -= shift_m.unsqueeze(-1)
            exp_mV = z_mV.exp()
            sum_m = exp_mV.sum(dim=-1)
            log_sum_m = sum_m.log()
            owned_m = (target_M[part] >= 0) & (target_M[part] < V)
            index_m1 = target_M[part].where(owned_m, 0).unsqueeze(-1)
            logprob_M[part] = (z_mV.gather(-1, index_m1).squeeze(-1) - log_sum_m).where(
                owned_m, 0.0
            )
            shift_M[part] = shift_m
            log_sum_M[part] = log_sum_m
            if with_entropy:
                entropy_M[part] = log_sum_m - exp_mV.mul_(z_mV).sum(dim=-1) / sum_m
        return Statistics(logprob_M, shift_M, log_sum_M, entropy_M if with_entropy else None)

    def backward(
        self,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        target_M: torch.Tensor,
        statistics: Statistics,
        grad_logprob_M: torch.Tensor,
        grad_entropy_M: torch.Tensor | None,
        temperature: float,
        needs_hidden: bool,
        needs_weight: bool,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """See :class:`fused_lmhead.problem.Backend`."""
        M, V = hidden_MH.shape[0], weight_VH.shape[0]
        d_hidden_MH = torch.empty_like(hidden_MH) if needs_hidden else None
        d_weight_VH = torch.zeros_like(weight_VH, dtype=torch.float32) if needs_weight else None
        for first in range(0, M, self.chunk_size):
            part = slice(first, min(first + self.chunk_size, M))
            log_p_mV = _logits(hidden_MH[part], weight_VH, temperature)
            log_p_mV -= statistics.shift_M[part].unsqueeze(-1)
            log_p_mV -= statistics.log_sum_M[part].unsqueeze(-1)
            p_mV = log_p_mV.exp()
            factor_mV = grad_logprob_M[part].unsqueeze(-1)
            if grad_entropy_M is not None and statistics.entropy_M is not None:
                # d(entropy)/dz = -p·(log p + entropy)
                log_p_mV += statistics.entropy_M[part].unsqueeze(-1)
                factor_mV = log_p_mV.mul_(grad_entropy_M[part].unsqueeze(-1)).add_(factor_mV)
            dz_mV = p_mV.mul_(factor_mV).neg_()
            owned_m = (target_M[part] >= 0) & (target_M[part] < V)
            index_m1 = target_M[part].where(owned_m, 0).unsqueeze(-1)
            raise_m1 = grad_logprob_M[part].where(owned_m, 0.0).unsqueeze(-1)
            dz_mV.scatter_add_(-1, index_m1, raise_m1).div_(temperature)
            dz_mV = dz_mV.to(weight_VH.dtype)
            if d_hidden_MH is not None:
                d_hidden_MH[part] = dz_mV @ weight_VH
            if d_weight_VH is not None:
                d_weight_VH += dz_mV.T @ hidden_MH[part]
        return d_hidden_MH, None if d_weight_VH is None else d_weight_VH.to(weight_VH.dtype)
