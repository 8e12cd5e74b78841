"""From the statistics of vocabulary shards to those of the whole vocabulary.

Legend: M tokens (the same ones on every rank), V rows of this rank's shard.

A merge is one maximum of [M] and one sum of [3, M], or of [4, M] with entropy, whatever
the chunks and splits of the backend. The pieces are functions of values, so that shards
merge through a process group and in a list alike. Between them everything is fp64: the
tensors are small, and what is large (a common offset of all logits) meets what is small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from fused_lmhead.problem import Merge, Statistics

_LOG2_E = math.log2(math.e)
_LN2 = math.log(2)

# Rows of the summed tensor.
_OWNERS, _TARGET, _SUM, _WEIGHTED = range(4)


class Shard(NamedTuple):
    """What one rank knows: its statistics, its targets and its number of vocabulary rows."""

    statistics: Statistics
    target_M: torch.Tensor
    """Relative to the shard's first row; outside [0, V) where another shard owns it."""
    V: int


def contribution(shard: Shard, shift_M: torch.Tensor, temperature: float) -> torch.Tensor:
    """What the shard adds to the sums of the group, [3 or 4, M] fp64.

    ``shift_M`` is the largest raw logit over all shards. Rows: 1 if the target is here; its
    raw logit minus the shift; the sum of 2^d with d = (logit - shift)·log2(e)/temperature;
    with entropy, the sum of d·2^d.
    """
    statistics = shard.statistics
    mean_exponent_M = statistics.mean_exponent_M
    rows = 3 if mean_exponent_M is None else 4
    sums = shift_M.new_zeros((rows, shift_M.shape[0]), dtype=torch.float64)
    owned_M = (shard.target_M >= 0) & (shard.target_M < shard.V)
    sums[_OWNERS] = owned_M
    whole_shift_M = shift_M.double()
    # Where the target is another's, its logit here is undefined: masked, not multiplied by 0.
    sums[_TARGET] = (statistics.target_logit_M.double() - whole_shift_M).where(owned_M, 0.0)
    raised_M = (statistics.shift_M.double() - whole_shift_M) * (_LOG2_E / temperature)
    power_M = (statistics.log_sum_M.double() + raised_M).exp2()
    # A shard whose every logit is -inf has no part in the sums, nor a mean.
    present_M = statistics.shift_M != float("-inf")
    sums[_SUM] = power_M.where(present_M, 0.0)
    if mean_exponent_M is not None:
        weighted_M = power_M * (mean_exponent_M.double() + raised_M)
        sums[_WEIGHTED] = weighted_M.where(present_M, 0.0)
    return sums


def combined(shift_M: torch.Tensor, sums: torch.Tensor, temperature: float) -> Statistics:
    """The statistics of the whole vocabulary from the group's maximum and sums.

    The log-probability is 0 where no shard owns the target.
    """
    log_sum_M = sums[_SUM].log2()
    target_exponent_M = sums[_TARGET] * (_LOG2_E / temperature)
    owners_M = sums[_OWNERS]
    logprob_M = ((target_exponent_M - log_sum_M) * _LN2).where(owners_M > 0, 0.0)
    # Overlapping ranges would add up to a number like any other. Raising would wait for the GPU.
    logprob_M = logprob_M.masked_fill(owners_M > 1, float("nan"))
    entropy_M = mean_exponent_M = None
    if sums.shape[0] > _WEIGHTED:
        mean_exponent_M = sums[_WEIGHTED] / sums[_SUM]
        entropy_M = ((log_sum_M - mean_exponent_M) * _LN2).float()
        mean_exponent_M = mean_exponent_M.float()
    return Statistics(
        logprob_M=logprob_M.float(),
        shift_M=shift_M,
        log_sum_M=log_sum_M.float(),
        entropy_M=entropy_M,
        target_logit_M=(sums[_TARGET] + shift_M.double()).float(),
        mean_exponent_M=mean_exponent_M,
    )


def merge_shards(shards: Sequence[Shard], temperature: float) -> Statistics:
    """Merge shards that are all in this process, in their order. At least one."""
    shift_M = torch.stack([shard.statistics.shift_M for shard in shards]).amax(dim=0)
    sums = contribution(shards[0], shift_M, temperature)
    for shard in shards[1:]:
        sums += contribution(shard, shift_M, temperature)
    return combined(shift_M, sums, temperature)


Reduce = Callable[[torch.Tensor, dist.ReduceOp.RedOpType], object]
"""Reduces a tensor over the ranks in place; every rank then holds the same bits."""


def merge_over(group: dist.ProcessGroup, V: int) -> Merge:
    """The merge of this rank's shard of ``V`` rows with those of the rest of ``group``.

    Collective calls: one MAX of [M] fp32, one SUM of [3 or 4, M] fp64; none without tokens.
    """

    def all_reduce(tensor: torch.Tensor, operation: dist.ReduceOp.RedOpType) -> None:
        dist.all_reduce(tensor, op=operation, group=group)

    return merge_by(all_reduce, V)


def merge_by(reduce: Reduce, V: int) -> Merge:
    """The merge of this rank's shard of ``V`` rows where ``reduce`` meets the other ranks."""

    def merge(statistics: Statistics, target_M: torch.Tensor, temperature: float) -> Statistics:
        if target_M.shape[0] == 0:
            return statistics
        shift_M = statistics.shift_M.clone()
        reduce(shift_M, dist.ReduceOp.MAX)
        sums = contribution(Shard(statistics, target_M, V), shift_M, temperature)
        reduce(sums, dist.ReduceOp.SUM)
        return combined(shift_M, sums, temperature)

    return merge
