"""The values that a backend takes and gives: one problem, its statistics.

Legend: M tokens of this rank, H hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch


class Statistics(NamedTuple):
    """What a forward pass leaves for the backward pass, all fp32.

    ``shift_M`` and ``log_sum_M`` are in the backend's own unit (see there); they
    stay apart because their sum would cost the digits that a large common offset
    of the logits takes. ``entropy_M`` is in nats, ``None`` if it was not asked for.
    """

    logprob_M: torch.Tensor
    shift_M: torch.Tensor
    log_sum_M: torch.Tensor
    entropy_M: torch.Tensor | None


class Backend(Protocol):
    """Forward and backward of one problem on detached, contiguous tensors."""

    def forward(
        self,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        target_M: torch.Tensor,
        temperature: float,
        with_entropy: bool,
    ) -> Statistics:
        """Log-probability (0 where the target is outside [0, V)) and statistics."""
        ...

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
        """Gradients of hidden [M, H] and weight [V, H], each ``None`` if not needed."""
        ...
