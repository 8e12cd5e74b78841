"""Merge the tiles' statistics of each token into its log-probability and entropy."""

import triton
import triton.language as tl

LN2 = tl.constexpr(0.6931471805599453)


@triton.jit(do_not_specialize=["M"], do_not_specialize_on_alignment=["target_ptr"])
def merge_kernel(
    partials_ptr,  # [3, tiles_n, M] fp32, see partials_kernel
    target_ptr,  # [M] int64
    target_logit_ptr,  # [M] fp32, raw
    logprob_ptr,  # [M] fp32
    shift_ptr,  # [M] fp32: largest raw logit
    log_sum_ptr,  # [M] fp32: log2 of the sum of 2^((logit - shift)·scale)
    entropy_ptr,  # [M] fp32, nats
    mean_exponent_ptr,  # [M] fp32: mean of (logit - shift)·scale under the softmax
    M,
    V: tl.constexpr,
    tiles_n: tl.constexpr,
    scale,
    ENTROPY: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    """One program BLOCK_M tokens; tiles are summed in a fixed order, so runs agree bit by bit."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    in_rows = rows < M
    tiles = tl.arange(0, BLOCK_T)
    step = BLOCK_T * M

    at = partials_ptr + tiles[:, None] * M + rows[None, :]
    plane = tiles_n * M
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    weighted = tl.zeros((BLOCK_M,), tl.float32)
    for first in range(0, tiles_n, BLOCK_T):
        here = (tiles < tiles_n - first)[:, None] & in_rows[None, :]
        tile_max = tl.load(at, here, other=float("-inf"))
        tile_sum = tl.load(at + plane, here, other=0.0)
        if ENTROPY:
            tile_weighted = tl.load(at + 2 * plane, here, other=0.0)

        # What is summed so far was relative to a smaller maximum. (NaN stays NaN.)
        before = largest
        largest = tl.maximum(before, tl.max(tile_max, axis=0))
        drop = tl.where(total == 0, 0.0, (before - largest) * scale)
        power = tl.exp2(drop)
        if ENTROPY:
            weighted = power * (weighted + drop * total)
        total = power * total

        # A tile of -inf alone adds nothing, whatever its sums are.
        here &= tile_max != float("-inf")
        exponent = tl.where(here, (tile_max - largest[None, :]) * scale, 0.0)
        power = tl.exp2(exponent)
        tile_sum = tl.where(here, tile_sum, 0.0)
        total += tl.sum(power * tile_sum, axis=0)
        if ENTROPY:
            tile_weighted = tl.where(here, tile_weighted, 0.0)
            weighted += tl.sum(power * (tile_weighted + exponent * tile_sum), axis=0)
        at += step

    log_sum = tl.log2(total)
    target = tl.load(target_ptr + rows, in_rows, other=-1)
    owned = (target >= 0) & (target < V)
    target_logit = tl.load(target_logit_ptr + rows, in_rows & owned, other=0.0)
    logprob = tl.where(owned, ((target_logit - largest) * scale - log_sum) * LN2, 0.0)
    tl.store(logprob_ptr + rows, logprob, mask=in_rows)
    tl.store(shift_ptr + rows, largest, mask=in_rows)
    tl.store(log_sum_ptr + rows, log_sum, mask=in_rows)
    if ENTROPY:
        mean_exponent = weighted / total
        tl.store(mean_exponent_ptr + rows, mean_exponent, mask=in_rows)
        tl.store(entropy_ptr + rows, (log_sum - mean_exponent) * LN2, mask=in_rows)
