"""Gradient of the logits of one vocabulary split, recomputed tile by tile."""

import triton
import triton.language as tl

from fused_lmhead.kernels.tiles import targets_in_tile, tile_of_program, tile_product

LN2 = tl.constexpr(0.6931471805599453)


@triton.jit(
    do_not_specialize=["M", "group_m", "first_column"],
    do_not_specialize_on_alignment=["target_ptr", "grad_logprob_ptr", "grad_entropy_ptr"],
)
def logit_gradient_kernel(
    hidden_ref,  # [M, H], see tile_product
    weight_ref,  # [V, H]
    target_ptr,  # [M] int64
    shift_ptr,  # [M] fp32, see merge_kernel
    log_sum_ptr,  # [M] fp32
    entropy_ptr,  # [M] fp32
    grad_logprob_ptr,  # [M] fp32
    grad_entropy_ptr,  # [M] fp32
    out_ref,  # [M, width] in weight's dtype: a descriptor of tiles if TMA_OUT, else a pointer
    M,
    group_m,
    V: tl.constexpr,
    H: tl.constexpr,
    first_column,
    width,
    scale,
    inverse_temperature,
    ENTROPY: tl.constexpr,
    TMA: tl.constexpr,
    TMA_OUT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a tile: dz = (g·(onehot - p) - g_ent·p·(log p + entropy)) / temperature."""
    tile_m, tile_n = tile_of_program(tl.cdiv(M, BLOCK_M), tl.cdiv(width, BLOCK_N), group_m)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    local = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    logits = tile_product(
        hidden_ref,
        weight_ref,
        tile_m * BLOCK_M,
        first_column + tile_n * BLOCK_N,
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
    shift = tl.load(shift_ptr + rows, in_rows, other=0.0)
    log_sum = tl.load(log_sum_ptr + rows, in_rows, other=0.0)
    grad = tl.load(grad_logprob_ptr + rows, in_rows, other=0.0) * inverse_temperature
    target = tl.load(target_ptr + rows, in_rows, other=-1)

    log2_p = (logits - shift[:, None]) * scale - log_sum[:, None]
    p = tl.exp2(log2_p)
    if ENTROPY:
        entropy = tl.load(entropy_ptr + rows, in_rows, other=0.0)
        grad_entropy = tl.load(grad_entropy_ptr + rows, in_rows, other=0.0) * inverse_temperature
        constant = grad + grad_entropy * entropy
        # A logit of -inf has p·log p = 0: any finite logarithm does.
        log2_p = tl.maximum(log2_p, -1000.0)
        dz = -p * (constant[:, None] + (grad_entropy * LN2)[:, None] * log2_p)
    else:
        dz = -p * grad[:, None]
    place, any_here = targets_in_tile(target, first_column + tile_n * BLOCK_N, V, BLOCK_N)
    if any_here:
        hit = tl.arange(0, BLOCK_N)[None, :] == place[:, None]
        dz += tl.where(hit, grad[:, None], 0.0)
    if TMA_OUT:
        out_ref.store([tile_m * BLOCK_M, tile_n * BLOCK_N], dz.to(out_ref.dtype))
    else:
        out_ptrs = out_ref + rows.to(tl.int64)[:, None] * width + local[None, :]
        inside = in_rows[:, None] & (local < width)[None, :]
        tl.store(out_ptrs, dz.to(out_ref.dtype.element_ty), mask=inside)
