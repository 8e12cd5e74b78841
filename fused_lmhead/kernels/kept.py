"""Gradient of the logits of one vocabulary split, from what the forward pass kept of them."""

import triton
import triton.language as tl

LN2 = tl.constexpr(0.6931471805599453)


@triton.jit(do_not_specialize=["M", "first_unit", "units"])
def kept_gradient_kernel(
    kept_ptr,  # [M, V]: 2^((logit - tile's max)·scale), see partials_kernel
    kept_largest_ptr,  # [tiles of BLOCK_N columns, M] fp32: the tile's max raw logit
    target_ptr,  # [M] int64
    shift_ptr,  # [M] fp32, see merge_kernel
    log_sum_ptr,  # [M] fp32
    entropy_ptr,  # [M] fp32
    grad_logprob_ptr,  # [M] fp32
    grad_entropy_ptr,  # [M] fp32
    out_ptr,  # [M, columns of the split]
    M,
    V: tl.constexpr,
    first_unit,  # first column of the split / UNIT; a multiple of BLOCK_N, the kept tile's
    units,  # columns of the split / UNIT
    scale,
    inverse_temperature,
    ENTROPY: tl.constexpr,
    UNIT: tl.constexpr,  # 16 tells the compiler that rows are aligned, for any split
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One program BLOCK_M tokens of one tile; the gradient is logit_gradient_kernel's."""
    first_column = first_unit * UNIT
    width = units * UNIT
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    local = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    in_rows = rows < M
    inside = in_rows[:, None] & (local < width)[None, :]
    row_offsets = rows.to(tl.int64)
    tile_n = (first_column // BLOCK_N + tl.program_id(1)).to(tl.int64)

    kept_ptrs = kept_ptr + row_offsets[:, None] * V + (first_column + local)[None, :]
    numerator = tl.load(kept_ptrs, mask=inside, other=0.0).to(tl.float32)
    largest = tl.load(kept_largest_ptr + tile_n * M + rows, in_rows, other=0.0)
    shift = tl.load(shift_ptr + rows, in_rows, other=0.0)
    log_sum = tl.load(log_sum_ptr + rows, in_rows, other=0.0)
    grad = tl.load(grad_logprob_ptr + rows, in_rows, other=0.0) * inverse_temperature
    target = tl.load(target_ptr + rows, in_rows, other=-1)

    exponent = (largest - shift) * scale - log_sum
    # A tile of -inf alone has no probability; what was kept of it is NaN.
    absent = (largest == float("-inf")) & (shift != float("-inf"))
    numerator = tl.where(absent[:, None], 0.0, numerator)
    p = numerator * tl.exp2(exponent)[:, None]
    if ENTROPY:
        entropy = tl.load(entropy_ptr + rows, in_rows, other=0.0)
        grad_entropy = tl.load(grad_entropy_ptr + rows, in_rows, other=0.0) * inverse_temperature
        constant = grad + grad_entropy * entropy
        # What rounded to 0 has p·log p = 0 too: any finite logarithm does.
        log2_p = tl.log2(tl.maximum(numerator, 1e-38)) + tl.maximum(exponent, -1000.0)[:, None]
        dz = -p * (constant[:, None] + (grad_entropy * LN2)[:, None] * log2_p)
    else:
        dz = -p * grad[:, None]
    hit = (first_column + local)[None, :] == target[:, None]
    dz += tl.where(hit, grad[:, None], 0.0)
    out_ptrs = out_ptr + row_offsets[:, None] * width + local[None, :]
    tl.store(out_ptrs, dz.to(out_ptr.dtype.element_ty), mask=inside)
