"""What padded and packed batches share: from a rank's tokens to the whole sequence's values.

Legend: T tokens of the whole batch with padding, CP ranks that share each segment, n = T/CP
tokens of one rank, H hidden, V rows of this rank's weight shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.distributed as dist

from fused_lmhead.parallel.functions import (
    FusedLinearChunkedDistributedLogprob,
    FusedLinearLogprobTriton,
)
from fused_lmhead.parallel.gather import GatherSequence
from fused_lmhead.parallel.groups import place_in
from fused_lmhead.parallel.zigzag import next_positions, zigzag_positions

_FUNCTIONS = {
    "torch": FusedLinearChunkedDistributedLogprob,
    "triton": FusedLinearLogprobTriton,
}


class Context(NamedTuple):
    """This rank's place among those that share each sequence."""

    rank: int
    size: int
    group: dist.ProcessGroup | None

    @classmethod
    def of(cls, cp_group: dist.ProcessGroup | None) -> Context:
        """ValueError where ``cp_group`` is no group that this process is in."""
        return cls(*place_in(cp_group, "cp_group"), cp_group)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedHead:
    """One rank's shard of an LM head, and how it is called; see ``_ShardedLogprob.apply``."""

    weight: torch.Tensor
    vocab_start_index: int
    vocab_end_index: int
    tp_group: dist.ProcessGroup | None
    inference_only: bool
    chunk_size: int | None
    temperature: float
    fused_backend: str
    return_entropy: bool
    entropy_requires_grad: bool

    def values(self, hidden_1nH: torch.Tensor, target_1n: torch.Tensor) -> torch.Tensor:
        """Log-probabilities, and with ``return_entropy`` entropies, [1 or 2, n] fp32."""
        name = self.fused_backend
        function = _FUNCTIONS.get(name) if isinstance(name, str) else None
        if function is None:
            raise ValueError(f"fused_backend must be 'torch' or 'triton', got {name!r}")
        results = function.apply(
            hidden_1nH,
            self.weight,
            target_1n,
            self.vocab_start_index,
            self.vocab_end_index,
            self.chunk_size,
            self.tp_group,
            self.inference_only,
            self.return_entropy,
            self.entropy_requires_grad,
            self.temperature,
        )
        return torch.cat(results) if isinstance(results, tuple) else results


def sequence_values(
    hidden_1nH: torch.Tensor,
    target_T: torch.Tensor,
    offsets: torch.Tensor,
    head: ShardedHead,
    context: Context,
    sum_gradients: bool,
) -> tuple[torch.Tensor, ...]:
    """Log-probabilities, and with ``return_entropy`` entropies, each fp32 [T].

    ``target_T`` is not shifted: a token's value is about its successor within the segment,
    for the last token about the first. ``sum_gradients``: see :class:`GatherSequence`.
    """
    total = target_T.shape[0]
    shifted_T = target_T[next_positions(offsets, total)]
    if context.group is None or context.size == 1:
        whole = head.values(hidden_1nH, shifted_T.unsqueeze(0))
    else:
        positions_Cn = zigzag_positions(offsets, context.size, total)
        local = head.values(hidden_1nH, shifted_T[positions_Cn[context.rank]].unsqueeze(0))
        whole = GatherSequence.apply(  # type: ignore[no-untyped-call]
            local, positions_Cn, context.rank, context.group, sum_gradients
        )
    if not head.return_entropy:
        return (whole[0],)
    # One tensor carried both: a metric entropy leaves the graph again here.
    return whole[0], whole[1] if head.entropy_requires_grad else whole[1].detach()
