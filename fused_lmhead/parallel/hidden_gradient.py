"""The option that sums d_hidden over the ranks of a vocabulary-parallel group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
import torch.distributed as dist

from fused_lmhead.problem import Backend, Normaliser, Statistics


@runtime_checkable
class AnnouncingBackend(Protocol):
    """A backend, as a dataclass, that can say when d_hidden is done while d_weight is not.

    ``hidden_ready`` is told the tensor that the backward pass will return for d_hidden, once,
    when nothing more is going to touch it and before the last product of d_weight is queued.
    """

    hidden_ready: Callable[[torch.Tensor], None] | None


@dataclass(frozen=True, slots=True)
class SummedHiddenGradient:
    """``backend`` with d_hidden summed over ``group``, in the dtype of the hidden states.

    Collective calls: one SUM of [M, H] in backward, none if hidden needs no gradient. It runs
    beside the rest of the weight's gradient where the backend announces d_hidden, else after.
    """

    backend: Backend
    group: dist.ProcessGroup

    def forward(
        self,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        target_M: torch.Tensor,
        temperature: float,
        with_entropy: bool,
    ) -> Statistics:
        """See :class:`fused_lmhead.problem.Backend`."""
        return self.backend.forward(hidden_MH, weight_VH, target_M, temperature, with_entropy)

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
        """See :class:`fused_lmhead.problem.Backend`; d_hidden is the whole vocabulary's."""
        pending: list[dist.Work] = []

        def start(d_hidden_MH: torch.Tensor) -> None:
            work = dist.all_reduce(d_hidden_MH, group=self.group, async_op=True)
            assert work is not None
            pending.append(work)

        backend = self.backend
        if isinstance(backend, AnnouncingBackend):
            backend = replace(backend, hidden_ready=start)  # type: ignore[type-var]
        d_hidden_MH, d_weight_VH = backend.backward(
            hidden_MH,
            weight_VH,
            target_M,
            normaliser,
            grad_logprob_M,
            grad_entropy_M,
            temperature,
            needs_hidden,
            needs_weight,
        )
        if d_hidden_MH is not None and not pending:
            start(d_hidden_MH)
        for work in pending:
            work.wait()
        return d_hidden_MH, d_weight_VH
