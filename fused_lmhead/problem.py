"""The values that a backend takes and gives: one problem, its statistics.

Legend: M tokens of this rank, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch


class Kept(NamedTuple):
    """The logits as a forward pass keeps them, for a backward pass without their product.

    Kept is not a logit but its softmax numerator within one tile of columns: 2^d of
    d = (logit - tile's largest)·log2(e)/temperature. Rounded to 16 bits it errs relatively, by
    as little as the logit gradient itself does; a rounded logit would err by its magnitude,
    at a common offset of 1e4 by 32. The largest of a row is 1 and stays exact.
    """

    numerator_MV: torch.Tensor
    """In the weight's dtype."""
    largest_TM: torch.Tensor
    """The largest raw logit of each of T tiles and each token, fp32."""

    def rows(self, part: slice) -> Kept:
        """Views of the tokens in ``part``."""
        return Kept(self.numerator_MV[part], self.largest_TM[:, part])


class Statistics(NamedTuple):
    """What a forward pass leaves for the backward pass and for a merge of shards, in fp32.

    d = (logit - shift)·log2(e)/temperature is a logit's exponent of two; everything
    that is a large number stays apart from what is small beside it, since a sum of
    them would cost the digits that a large common offset of the logits takes.
    """

    logprob_M: torch.Tensor
    """Nats; 0 where the target is outside [0, V)."""
    shift_M: torch.Tensor
    """The largest raw logit, before temperature; -inf where there is no other."""
    log_sum_M: torch.Tensor
    """log2 of the sum of 2^d; -inf where every logit is -inf."""
    entropy_M: torch.Tensor | None
    """Nats; None if it was not asked for."""
    target_logit_M: torch.Tensor
    """The target's raw logit; undefined where the target is outside [0, V)."""
    mean_exponent_M: torch.Tensor | None
    """Mean of d under the softmax; None without entropy."""
    kept: Kept | None = None
    """This shard's own, whatever the statistics were merged with; None if not kept."""

    @classmethod
    def empty(cls, hidden_MH: torch.Tensor, with_entropy: bool) -> Statistics:
        """Room for the statistics of ``hidden_MH``'s rows.

        Apart, not rows of one tensor: a caller may change a result in place, and an odd M
        would unalign them, for which Triton compiles anew.
        """
        M = hidden_MH.shape[0]
        first = hidden_MH.new_empty(M, dtype=torch.float32)
        room = [first, *[first.new_empty(M) for _ in range(5 if with_entropy else 3)]]
        logprob_M, shift_M, log_sum_M, target_logit_M = room[:4]
        entropy_M, mean_exponent_M = room[4:] if with_entropy else (None, None)
        return cls(logprob_M, shift_M, log_sum_M, entropy_M, target_logit_M, mean_exponent_M)

    def rows(self, part: slice) -> Statistics:
        """Views of the tokens in ``part``, without what was kept."""
        return Statistics(
            self.logprob_M[part],
            self.shift_M[part],
            self.log_sum_M[part],
            None if self.entropy_M is None else self.entropy_M[part],
            self.target_logit_M[part],
            None if self.mean_exponent_M is None else self.mean_exponent_M[part],
        )


class Normaliser(NamedTuple):
    """The fields of :class:`Statistics` that a backward pass needs."""

    shift_M: torch.Tensor
    log_sum_M: torch.Tensor
    entropy_M: torch.Tensor | None
    kept: Kept | None = None

    def rows(self, part: slice) -> Normaliser:
        """Views of the tokens in ``part``, without what was kept."""
        return Normaliser(
            self.shift_M[part],
            self.log_sum_M[part],
            None if self.entropy_M is None else self.entropy_M[part],
        )


Merge = Callable[[Statistics, torch.Tensor, float], Statistics]
"""From this shard's statistics, its targets [M] (outside [0, V) where another shard owns
them) and the temperature to the statistics of the whole vocabulary."""


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
        normaliser: Normaliser,
        grad_logprob_M: torch.Tensor,
        grad_entropy_M: torch.Tensor | None,
        temperature: float,
        needs_hidden: bool,
        needs_weight: bool,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Gradients of hidden [M, H] and weight [V, H], each ``None`` if not needed."""
        ...
