"""What forward and backward share: the product of one tile of logits."""

import triton
import triton.language as tl


@triton.jit
def tile_product(
    hidden_ptr,
    weight_ptr,
    rows,
    columns,
    M,
    V: tl.constexpr,
    H: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Raw logits [BLOCK_M, BLOCK_N], fp32; rows and columns past the end repeat the last."""
    # 64-bit: V·H passes 2^31 for every head of interest.
    row = tl.minimum(rows, M - 1).to(tl.int64)
    column = tl.minimum(columns, V - 1).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    hidden_ptrs = hidden_ptr + row[:, None] * H + k[None, :]
    weight_ptrs = weight_ptr + column[None, :] * H + k[:, None]
    logits = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, H, BLOCK_K):
        if H % BLOCK_K == 0:
            hidden = tl.load(hidden_ptrs)
            weight = tl.load(weight_ptrs)
        else:
            hidden = tl.load(hidden_ptrs, mask=k[None, :] < H - first, other=0.0)
            weight = tl.load(weight_ptrs, mask=k[:, None] < H - first, other=0.0)
        logits = tl.dot(hidden, weight, logits, input_precision=PRECISION)
        hidden_ptrs += BLOCK_K
        weight_ptrs += BLOCK_K
    return logits
