"""Per-tile statistics of the logits, never the logits themselves."""

import triton
import triton.language as tl

from fused_lmhead.kernels.tiles import targets_in_tile, tile_of_program, tile_product


@triton.jit(
    do_not_specialize=["M", "group_m", "kept_stride"],
    # A caller's target may start anywhere in a tensor: no reason to compile anew.
    do_not_specialize_on_alignment=["target_ptr"],
)
def partials_kernel(
    hidden_ref,  # [M, H], see tile_product
    weight_ref,  # [V, H]
    target_ptr,  # [M] int64
    partials_ptr,  # [3, tiles_n, M] fp32: max raw logit, sum, sum weighted by exponent
    target_logit_ptr,  # [M] fp32, raw; written by the one tile that holds the target
    M,
    group_m,
    V: tl.constexpr,
    H: tl.constexpr,
    scale,
    ENTROPY: tl.constexpr,
    TMA: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
    kept_ref=None,  # [M, V]: a descriptor of tiles if TMA_KEPT, else a pointer
    kept_largest_ptr=None,  # [tiles_n, kept_stride] fp32: max raw logit
    kept_stride=0,
    KEEP: tl.constexpr = False,
    TMA_KEPT: tl.constexpr = False,
):
    """One program a tile: max, sum of 2^d and of d·2^d with d = (logit - max)·scale.

    KEEP also stores the tile's 2^d, rounded, and its max, for ``kept_gradient_kernel``. A row
    of the tile that is all -inf leaves NaN beside its max: both readers take it as absent.
    A -inf beside finite logits spoils the sum of d·2^d alone; guarding it here spills registers.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(V, BLOCK_N)
    tile_m, tile_n = tile_of_program(tiles_m, tiles_n, group_m)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    logits = tile_product(
        hidden_ref,
        weight_ref,
        tile_m * BLOCK_M,
        tile_n * BLOCK_N,
        M,
        V,
        H,
        TMA,
        BLOCK_M,
        BLOCK_N,
        BLOCK_K,
        PRECISION,
    )
    in_rows = rows < M

    target = tl.load(target_ptr + rows, mask=in_rows, other=-1)
    place, any_here = targets_in_tile(target, tile_n * BLOCK_N, V, BLOCK_N)
    if any_here:
        hit = tl.arange(0, BLOCK_N)[None, :] == place[:, None]
        target_logit = tl.sum(tl.where(hit, logits, 0.0), axis=1)
        tl.store(target_logit_ptr + rows, target_logit, mask=place >= 0)

    partial = tile_n == V // BLOCK_N
    if partial:
        logits = tl.where((columns < V)[None, :], logits, float("-inf"))
    largest = tl.max(logits, axis=1)
    exponent = (logits - largest[:, None]) * scale
    if partial:
        # Far below any fp32 exponent: 2^d is 0 and d·2^d stays 0 instead of NaN.
        exponent = tl.where((columns < V)[None, :], exponent, -1000.0)
    power = tl.exp2(exponent)
    if KEEP:
        tl.store(kept_largest_ptr + tile_n.to(tl.int64) * kept_stride + rows, largest, mask=in_rows)
        if TMA_KEPT:
            kept_ref.store([tile_m * BLOCK_M, tile_n * BLOCK_N], power.to(kept_ref.dtype))
        else:
            kept_ptrs = kept_ref + rows.to(tl.int64)[:, None] * V + columns[None, :]
            inside = in_rows[:, None] & (columns < V)[None, :]
            tl.store(kept_ptrs, power.to(kept_ref.dtype.element_ty), mask=inside)
    out = partials_ptr + tile_n * M + rows
    tl.store(out, largest, mask=in_rows)
    tl.store(out + tiles_n * M, tl.sum(power, axis=1), mask=in_rows)
    if ENTROPY:
        tl.store(out + 2 * tiles_n * M, tl.sum(power * exponent, axis=1), mask=in_rows)
