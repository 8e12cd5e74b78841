"""Every context-parallel rank's values, in the order of the whole sequence.

Legend: CP ranks, n tokens of one rank, T = CP·n tokens in all, k kinds of values.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class GatherSequence(torch.autograd.Function):
    """values [k, n] of each rank -> [k, T], the same on every rank.

    ``positions`` [CP, n] says where each rank's tokens belong (see ``zigzag_positions``).
    Collective calls: one all-gather of [k, n]; in backward one SUM of [k, T] if
    ``sum_gradients``, else none.

    With ``sum_gradients`` the gradient of the whole result is summed over the ranks before
    each takes its part: right where each rank's loss is a part of the whole. Without, each
    takes its part of its own gradient: right where every rank computes the whole loss, or
    one over its own tokens.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values_kn: torch.Tensor,
        positions_Cn: torch.Tensor,
        rank: int,
        group: dist.ProcessGroup,
        sum_gradients: bool,
    ) -> torch.Tensor:
        """Gather and put in order."""
        cp_size, n = positions_Cn.shape
        k = values_kn.shape[0]
        gathered_Ckn = values_kn.new_empty(cp_size, k, n)
        dist.all_gather(list(gathered_Ckn.unbind(0)), values_kn.contiguous(), group=group)
        whole_kT = values_kn.new_empty(k, cp_size * n)
        whole_kT[:, positions_Cn.reshape(-1)] = gathered_Ckn.transpose(0, 1).reshape(k, -1)
        ctx.save_for_backward(positions_Cn[rank])
        ctx.group, ctx.sum_gradients = group, sum_gradients
        return whole_kT

    @staticmethod
    def backward(ctx: Any, grad_kT: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """This rank's part of the gradient."""
        (position_n,) = ctx.saved_tensors
        if ctx.sum_gradients:
            grad_kT = grad_kT.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(grad_kT, group=ctx.group)
        return grad_kT[:, position_n], None, None, None, None
