"""The tile kernels for Hopper alone, in Gluon: warps with different jobs, persistent programs.

A program is one warp that loads and two warp groups that multiply, see ``ring.py``. While one
group is in its epilogue (exponentials, sums, stores), the other multiplies, so that the tensor
cores do not idle between tiles as in ``forward.py`` and ``backward.py``.

Programs read what their neighbours read at the same time, and it pays to stay in step: a tile
that takes longer than the next one's costs more than its own time. So an epilogue does the same
work for every tile where it can, and little where it cannot: code is short, an exponent is one
fused multiply-add, the logit of a target comes out of a tree of choices.

Operands are 16-bit and come through TMA descriptors with 128-byte swizzle. What the kernels
compute and leave in memory is what ``partials_kernel`` and ``logit_gradient_kernel`` do.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

from fused_lmhead.kernels.columns import add_at, any_place, places, value_at
from fused_lmhead.kernels.ring import (
    BLOCK_M,
    BLOCK_N,
    ROWS,
    load_tiles,
    product,
    ring_of,
    tile_of,
)

LN2 = gl.constexpr(0.6931471805599453)
# The logit of a column that V does not reach: no maximum, and finite times any 1 / temperature.
ABSENT = gl.constexpr(-1.0e30)
# Registers a thread: 3 x 128 threads are compiled for 168, the loading warp hands most of its on.
MULTIPLYING = gl.constexpr(240)
LOADING = gl.constexpr(24)


@gluon.jit
def _store_tile(values, out, staging, first_row, first_column):
    """Through shared memory, whose last tile is on its way out until now."""
    tma.store_wait(pendings=0)
    staging.store(values.to(out.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(out, [first_row, first_column], staging)


@gluon.jit
def _partials(
    ring,
    data,
    keeping,
    GROUP: gl.constexpr,
    V: gl.constexpr,
    H: gl.constexpr,
    ENTROPY: gl.constexpr,
    KEEP: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
    MMA: gl.constexpr,
):
    target_ptr, partials_ptr, target_logit_ptr, M, tiles_m, tiles_n, scale = data
    ROW: gl.constexpr = gl.SliceLayout(1, MMA)
    RAGGED: gl.constexpr = V % BLOCK_N != 0
    columns = gl.arange(0, BLOCK_N, gl.SliceLayout(0, MMA))
    stage = 0
    phase = 0
    turn = 0
    plane = tiles_n * M
    for number in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(number, tiles_m, tiles_n, GROUP_M)
        first_row = tile_m * BLOCK_M + ROWS * GROUP
        rows = first_row + gl.arange(0, ROWS, ROW)
        in_rows = rows < M
        place = places(target_ptr, first_row, M, tile_n * BLOCK_N, V, ROW)
        logits = gl.zeros((ROWS, BLOCK_N), gl.float32, MMA)
        if RAGGED:  # noqa: SIM102 - decided when it is compiled
            if tile_n == V // BLOCK_N:
                inside = columns < V - tile_n * BLOCK_N
                logits = gl.where(inside[None, :], logits, ABSENT)
        logits, stage, phase = product(ring, stage, phase, turn, logits, RAGGED, GROUP, H, STAGES)
        turn ^= 1

        gl.store(target_logit_ptr + rows, value_at(logits, place, MMA), mask=place >= 0)
        largest = gl.max(logits, axis=1)
        offset = largest * scale
        exponent = gl.fma(logits, scale, -offset[:, None])
        power = gl.exp2(exponent)
        # What rounding of the offset took from each exponent is given back to the sums.
        rest = gl.fma(largest, scale, -offset)
        factor = gl.exp2(-rest)
        total = gl.sum(power, axis=1) * factor
        if RAGGED:
            largest = gl.where(largest <= ABSENT / 2, float("-inf"), largest)
        out = partials_ptr + tile_n * M + rows
        gl.store(out, largest, mask=in_rows)
        gl.store(out + plane, total, mask=in_rows)
        if ENTROPY:
            weighted = gl.sum(power * exponent, axis=1) * factor - total * rest
            gl.store(out + 2 * plane, weighted, mask=in_rows)
        if KEEP:
            kept, kept_largest_ptr, kept_stride, staging = keeping
            at = tile_n.to(gl.int64) * kept_stride + rows
            gl.store(kept_largest_ptr + at, largest, mask=in_rows)
            numerator = power * factor[:, None]
            _store_tile(numerator, kept, staging.index(GROUP), first_row, tile_n * BLOCK_N)
    if KEEP:
        tma.store_wait(pendings=0)


@gluon.jit
def _gradients(
    ring,
    rows_data,
    data,
    GROUP: gl.constexpr,
    V: gl.constexpr,
    H: gl.constexpr,
    ENTROPY: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
    MMA: gl.constexpr,
):
    target_ptr, shift_ptr, log_sum_ptr, entropy_ptr, grad_logprob_ptr, grad_entropy_ptr = rows_data
    staging, out, M, tiles_m, tiles_n, first_column, scale, inverse_temperature = data
    ROW: gl.constexpr = gl.SliceLayout(1, MMA)
    stage = 0
    phase = 0
    turn = 0
    for number in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(number, tiles_m, tiles_n, GROUP_M)
        first_row = tile_m * BLOCK_M + ROWS * GROUP
        column = first_column + tile_n * BLOCK_N
        rows = first_row + gl.arange(0, ROWS, ROW)
        in_rows = rows < M
        place = places(target_ptr, first_row, M, column, V, ROW)
        any_here = any_place(target_ptr, first_row, M, column, V)
        shift = gl.load(shift_ptr + rows, mask=in_rows, other=0.0)
        log_sum = gl.load(log_sum_ptr + rows, mask=in_rows, other=0.0)
        grad = gl.load(grad_logprob_ptr + rows, mask=in_rows, other=0.0) * inverse_temperature
        if ENTROPY:
            entropy = gl.load(entropy_ptr + rows, mask=in_rows, other=0.0)
            grad_entropy = gl.load(grad_entropy_ptr + rows, mask=in_rows, other=0.0)
            grad_entropy = grad_entropy * inverse_temperature
            constant = grad + grad_entropy * entropy
            grad_entropy *= LN2  # the exponents' logarithm is of base 2
        logits = gl.zeros((ROWS, BLOCK_N), gl.float32, MMA)
        logits, stage, phase = product(ring, stage, phase, turn, logits, False, GROUP, H, STAGES)
        turn ^= 1

        # log2 p = logit·scale - offset - rest: the rounded offset, and what rounding took. By fmas:
        # the compiler contracts a product and a sum, and what it does not round is not lost.
        offset = gl.fma(shift, scale, log_sum)
        rest = log_sum - gl.fma(shift, -scale, offset)
        factor = -gl.exp2(-rest)
        exponent = gl.fma(logits, scale, -offset[:, None])
        power = gl.exp2(exponent)
        if ENTROPY:
            constant = factor * (constant - grad_entropy * rest)
            slope = factor * grad_entropy
            # A logit of -inf has p·log p = 0: any finite logarithm does.
            exponent = gl.maximum(exponent, -1000.0)
            dz = power * gl.fma(slope[:, None], exponent, constant[:, None])
        else:
            dz = power * (factor * grad)[:, None]
        if any_here:
            dz = add_at(dz, place, grad, MMA)
        _store_tile(dz, out, staging.index(GROUP), first_row, tile_n * BLOCK_N)
    tma.store_wait(pendings=0)


@gluon.jit(do_not_specialize=["M", "kept_stride"], do_not_specialize_on_alignment=["target_ptr"])
def partials_specialised_kernel(
    hidden,  # descriptor of [BLOCK_M, BLOCK_K] boxes of [M, H]
    weight,  # descriptor of [BLOCK_N, BLOCK_K] boxes of [V, H]
    target_ptr,
    partials_ptr,
    target_logit_ptr,
    M,
    V: gl.constexpr,
    H: gl.constexpr,
    scale,
    kept,  # descriptor of [ROWS, BLOCK_N] boxes of [M, V], or None
    kept_largest_ptr,
    kept_stride,
    ENTROPY: gl.constexpr,
    KEEP: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
):
    """See ``forward.partials_kernel``; the arguments in common mean the same."""
    MMA: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N.value, 16])
    ring = ring_of(hidden, weight, STAGES)
    tiles_m = gl.cdiv(M, BLOCK_M)
    tiles_n = gl.to_tensor(gl.cdiv(V, BLOCK_N))
    data = (target_ptr, partials_ptr, target_logit_ptr, M, tiles_m, tiles_n, scale)
    if KEEP:
        staging = gl.allocate_shared_memory(kept.dtype, [2, ROWS, BLOCK_N], kept.layout)
        keeping = (kept, kept_largest_ptr, kept_stride, staging)
    else:
        keeping = ()
    gl.warp_specialize(
        [
            (_partials, (ring, data, keeping, 0, V, H, ENTROPY, KEEP, GROUP_M, STAGES, MMA)),
            (_partials, (ring, data, keeping, 1, V, H, ENTROPY, KEEP, GROUP_M, STAGES, MMA)),
            (
                load_tiles,
                (hidden, weight, ring, tiles_m, tiles_n, gl.to_tensor(0), H, GROUP_M, STAGES),
            ),
        ],
        [4, 1],
        [MULTIPLYING, LOADING],
    )


@gluon.jit(
    do_not_specialize=["M", "first_column", "tiles_n"],
    do_not_specialize_on_alignment=["target_ptr", "grad_logprob_ptr", "grad_entropy_ptr"],
)
def logit_gradient_specialised_kernel(
    hidden,  # descriptors as above
    weight,
    target_ptr,
    shift_ptr,
    log_sum_ptr,
    entropy_ptr,
    grad_logprob_ptr,
    grad_entropy_ptr,
    out,  # descriptor of [ROWS, BLOCK_N] boxes of [M, width]
    M,
    V: gl.constexpr,
    H: gl.constexpr,
    first_column,
    tiles_n,
    scale,
    inverse_temperature,
    ENTROPY: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
):
    """See ``backward.logit_gradient_kernel``; the arguments in common mean the same."""
    MMA: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N.value, 16])
    ring = ring_of(hidden, weight, STAGES)
    staging = gl.allocate_shared_memory(out.dtype, [2, ROWS, BLOCK_N], out.layout)
    tiles_m = gl.cdiv(M, BLOCK_M)
    rows_data = (
        target_ptr,
        shift_ptr,
        log_sum_ptr,
        entropy_ptr,
        grad_logprob_ptr,
        grad_entropy_ptr,
    )
    data = (staging, out, M, tiles_m, tiles_n, first_column, scale, inverse_temperature)
    gl.warp_specialize(
        [
            (_gradients, (ring, rows_data, data, 0, V, H, ENTROPY, GROUP_M, STAGES, MMA)),
            (_gradients, (ring, rows_data, data, 1, V, H, ENTROPY, GROUP_M, STAGES, MMA)),
            (
                load_tiles,
                (hidden, weight, ring, tiles_m, tiles_n, first_column, H, GROUP_M, STAGES),
            ),
        ],
        [4, 1],
        [MULTIPLYING, LOADING],
    )
