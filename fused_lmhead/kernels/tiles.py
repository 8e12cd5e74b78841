"""What forward and backward share: a program's tile, its product, its targets."""

import triton
import triton.language as tl


@triton.jit
def tile_of_program(tiles_m, tiles_n, group_m):
    """Walk the vocabulary in bands of group_m token tiles, so that L2 keeps the band's tokens.

    An argument of the tile kernels: schedules that differ in nothing else share their code. The
    specialised kernels, which it makes slower, have it compiled in.
    """
    program = tl.program_id(0)
    band = program // (group_m * tiles_n)
    height = tl.minimum(tiles_m - band * group_m, group_m)
    inside = program % (group_m * tiles_n)
    return band * group_m + inside % height, inside // height


@triton.jit
def add_product(logits, carry, hidden, weight, PRECISION: tl.constexpr):
    """logits + hidden @ weight, and what fp32 lost in the sum where exactness is asked for.

    The compensated sum keeps the error of a long fp32 product at that of one block of it.
    """
    if PRECISION == "ieee":
        part = tl.dot(hidden, weight, input_precision="ieee") - carry
        total = logits + part
        lost = (total - logits) - part
        # Where the sum is infinite there is nothing to make up for.
        return total, tl.where(lost == lost, lost, 0.0)
    else:
        return tl.dot(hidden, weight, logits, input_precision=PRECISION), carry


@triton.jit
def tile_product(
    hidden_ref,
    weight_ref,
    first_row,
    first_column,
    M,
    V: tl.constexpr,
    H: tl.constexpr,
    TMA: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Raw logits [BLOCK_M, BLOCK_N], fp32; what rows and columns past the end hold is undefined.

    With TMA the references are descriptors of [BLOCK_M, BLOCK_K] and [BLOCK_N, BLOCK_K]
    boxes, which the hardware pads with zeros; else they are pointers to contiguous rows.
    """
    logits = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if PRECISION == "ieee":
        carry = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    else:
        carry = 0.0
    if TMA:
        for k in range(0, H, BLOCK_K):
            hidden = hidden_ref.load([first_row, k])
            weight = weight_ref.load([first_column, k])
            logits, carry = add_product(logits, carry, hidden, weight.T, PRECISION)
    else:
        # 64-bit: V·H nears 2^31 for every head of interest. Rows past the end repeat the last.
        row = tl.minimum(first_row + tl.arange(0, BLOCK_M), M - 1).to(tl.int64)
        column = tl.minimum(first_column + tl.arange(0, BLOCK_N), V - 1).to(tl.int64)
        step = tl.arange(0, BLOCK_K)
        hidden_ptrs = hidden_ref + row[:, None] * H + step[None, :]
        weight_ptrs = weight_ref + column[None, :] * H + step[:, None]
        for k in range(0, H, BLOCK_K):
            if H % BLOCK_K == 0:
                hidden = tl.load(hidden_ptrs)
                weight = tl.load(weight_ptrs)
            else:
                hidden = tl.load(hidden_ptrs, mask=step[None, :] < H - k, other=0.0)
                weight = tl.load(weight_ptrs, mask=step[:, None] < H - k, other=0.0)
            logits, carry = add_product(logits, carry, hidden, weight, PRECISION)
            hidden_ptrs += BLOCK_K
            weight_ptrs += BLOCK_K
    return logits


@triton.jit
def targets_in_tile(target, first_column, V: tl.constexpr, BLOCK_N: tl.constexpr):
    """Column of each row's target within the tile, int32, -1 elsewhere; and whether any is here.

    Few tiles hold a target, so searching one is left to a branch on the second value.
    """
    place = target - first_column
    held = (place >= 0) & (place < BLOCK_N) & (target < V)
    return tl.where(held, place, -1).to(tl.int32), tl.max(held.to(tl.int32), axis=0) > 0
