"""The torch backend: chunks of tokens, so that no full logits tensor exists."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from fused_lmhead.problem import Normaliser, Statistics

_LOG2_E = math.log2(math.e)
_LN2 = math.log(2)
_LOWEST = -1000.0  # an exponent of two far below fp32


def _logits(hidden_mH: torch.Tensor, weight_VH: torch.Tensor) -> torch.Tensor:
    return (hidden_mH @ weight_VH.T).float()


def _owned(target_m: torch.Tensor, V: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which targets are in [0, V), and an index [m, 1] that is valid for the others too."""
    owned_m = (target_m >= 0) & (target_m < V)
    return owned_m, target_m.where(owned_m, 0).unsqueeze(-1)


@dataclass(frozen=True, slots=True)
class ChunkedBackend:
    """Plain torch over ``chunk_size`` tokens at a time; workspace 3·chunk_size·V fp32 values."""

    chunk_size: int

    def kept_tiles(self, m: int, h: int, v: int, dtype: torch.dtype, device: torch.device) -> int:
        """None: every backward pass recomputes the logits."""
        return 0

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
        scale = _LOG2_E / temperature
        statistics = Statistics.empty(hidden_MH, with_entropy)
        for first in range(0, M, self.chunk_size):
            part = slice(first, min(first + self.chunk_size, M))
            here = statistics.rows(part)
            owned_m, index_m1 = _owned(target_M[part], V)
            exponent_mV = _logits(hidden_MH[part], weight_VH)
            here.target_logit_M.copy_(exponent_mV.gather(-1, index_m1).squeeze(-1))
            here.shift_M.copy_(exponent_mV.amax(dim=-1))
            # Where all logits are -inf, so is the sum's logarithm.
            finite_m = here.shift_M.masked_fill(here.shift_M == float("-inf"), 0.0)
            exponent_mV.sub_(finite_m.unsqueeze(-1)).mul_(scale)
            power_mV = exponent_mV.exp2()
            sum_m = power_mV.sum(dim=-1)
            here.log_sum_M.copy_(sum_m.log2())
            target_exponent_m = (here.target_logit_M - here.shift_M) * scale
            here.logprob_M.copy_(((target_exponent_m - here.log_sum_M) * _LN2).where(owned_m, 0.0))
            if here.entropy_M is not None and here.mean_exponent_M is not None:
                # A logit of -inf has p·log p = 0.
                exponent_mV.clamp_(min=_LOWEST)
                here.mean_exponent_M.copy_(power_mV.mul_(exponent_mV).sum(dim=-1) / sum_m)
                here.entropy_M.copy_((here.log_sum_M - here.mean_exponent_M) * _LN2)
        return statistics

    def backward(
        self,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        target_M: torch.Tensor,
        normaliser: Normaliser,
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
            log2_p_mV = _logits(hidden_MH[part], weight_VH)
            log2_p_mV.sub_(normaliser.shift_M[part].unsqueeze(-1)).mul_(_LOG2_E / temperature)
            log2_p_mV -= normaliser.log_sum_M[part].unsqueeze(-1)
            p_mV = log2_p_mV.exp2()
            factor_mV = grad_logprob_M[part].unsqueeze(-1)
            if grad_entropy_M is not None and normaliser.entropy_M is not None:
                # d(entropy)/dz = -p·(log p + entropy), 0 for a logit of -inf
                log_p_mV = (
                    log2_p_mV.clamp_(min=_LOWEST)
                    .mul_(_LN2)
                    .add_(normaliser.entropy_M[part].unsqueeze(-1))
                )
                factor_mV = log_p_mV.mul_(grad_entropy_M[part].unsqueeze(-1)).add_(factor_mV)
            dz_mV = p_mV.mul_(factor_mV).neg_()
            owned_m, index_m1 = _owned(target_M[part], V)
            raise_m1 = grad_logprob_M[part].where(owned_m, 0.0).unsqueeze(-1)
            dz_mV.scatter_add_(-1, index_m1, raise_m1).div_(temperature)
            dz_mV = dz_mV.to(weight_VH.dtype)
            if d_hidden_MH is not None:
                d_hidden_MH[part] = dz_mV @ weight_VH
            if d_weight_VH is not None:
                d_weight_VH += dz_mV.T @ hidden_MH[part]
        return d_hidden_MH, None if d_weight_VH is None else d_weight_VH.to(weight_VH.dtype)
