"""The tile kernels for Hopper alone, in Gluon: warps with different jobs, persistent programs.

A program is one warp that loads and two warp groups that multiply, each its 64 rows of a
128 x 256 tile. The second group trails the first by a step of the ring of loaded blocks: while
one is in its epilogue (exponentials, sums, stores), the other has the tensor cores to itself,
so that they do not idle between tiles as in ``forward.py`` and ``backward.py``. The ring is
three blocks deep on purpose: in a deeper one the groups drift apart and loads come late.

Operands are 16-bit and come through TMA descriptors with 128-byte swizzle. What the kernels
compute and leave in memory is what ``partials_kernel`` and ``logit_gradient_kernel`` do.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

BLOCK_M = gl.constexpr(128)
BLOCK_N = gl.constexpr(256)
BLOCK_K = gl.constexpr(64)
ROWS = gl.constexpr(64)
LAG = gl.constexpr(1)
ELEMENT_BYTES = gl.constexpr(2)
LN2 = gl.constexpr(0.6931471805599453)
# Registers a thread: 3 x 128 threads are compiled for 168, the loading warp hands most of its on.
MULTIPLYING = gl.constexpr(240)
LOADING = gl.constexpr(24)


@gluon.jit
def _tile_of(number, tiles_m, tiles_n, GROUP_M: gl.constexpr):
    """See ``tiles.tile_of_program``; here a program walks several numbers."""
    band = number // (GROUP_M * tiles_n)
    height = gl.minimum(tiles_m - band * GROUP_M, GROUP_M)
    inside = number % (GROUP_M * tiles_n)
    return band * GROUP_M + inside % height, inside // height


@gluon.jit
def _load(
    hidden,
    weight,
    ring,
    tiles_m,
    tiles_n,
    first_column,
    H: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Fill the ring, block after block of every tile of this program."""
    hidden_ring, weight_ring, ready, free, _ = ring
    stage = 0
    phase = 1
    for number in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _tile_of(number, tiles_m, tiles_n, GROUP_M)
        row = tile_m * BLOCK_M
        column = first_column + tile_n * BLOCK_N
        for k in range(0, H, BLOCK_K):
            full = ready.index(stage)
            mbarrier.wait(free.index(stage), phase)
            mbarrier.expect(full, (BLOCK_M + BLOCK_N) * BLOCK_K * ELEMENT_BYTES)
            tma.async_copy_global_to_shared(hidden, [row, k], full, hidden_ring.index(stage))
            tma.async_copy_global_to_shared(weight, [column, k], full, weight_ring.index(stage))
            stage += 1
            if stage == STAGES:
                stage = 0
                phase ^= 1


@gluon.jit
def _before(stage, STAGES: gl.constexpr):
    return gl.where(stage == 0, STAGES - 1, stage - 1)


@gluon.jit
def _steps(
    logits,
    ring,
    stage,
    phase,
    first,
    last,
    GROUP: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Steps ``first`` to ``last`` of a tile's product; each frees the block before its own."""
    hidden_ring, weight_ring, ready, free, _ = ring
    for step in range(first, last):
        mbarrier.wait(ready.index(stage), phase)
        logits = warpgroup_mma(
            hidden_ring.index(stage).slice(ROWS * GROUP, ROWS),
            weight_ring.index(stage).permute((1, 0)),
            logits,
            use_acc=step > 0,
            is_async=True,
        )
        logits = warpgroup_mma_wait(num_outstanding=1, deps=(logits,))
        mbarrier.arrive(free.index(_before(stage, STAGES)), count=1, pred=step > 0)
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
    return logits, stage, phase


@gluon.jit
def _product(
    ring,
    stage,
    phase,
    turn,
    GROUP: gl.constexpr,
    H: gl.constexpr,
    STAGES: gl.constexpr,
    MMA: gl.constexpr,
):
    """Raw logits [ROWS, BLOCK_N] of this group, fp32; and where the ring goes on."""
    STEPS: gl.constexpr = (H + BLOCK_K - 1) // BLOCK_K
    AHEAD: gl.constexpr = min(LAG.value, STEPS)
    lead = ring[4]
    free = ring[3]
    logits = gl.zeros((ROWS, BLOCK_N), gl.float32, MMA)
    if GROUP == 0:
        logits, stage, phase = _steps(logits, ring, stage, phase, 0, AHEAD, GROUP, STAGES)
        mbarrier.arrive(lead, count=1)
        logits, stage, phase = _steps(logits, ring, stage, phase, AHEAD, STEPS, GROUP, STAGES)
    else:
        mbarrier.wait(lead, turn)
        logits, stage, phase = _steps(logits, ring, stage, phase, 0, STEPS, GROUP, STAGES)
    logits = warpgroup_mma_wait(num_outstanding=0, deps=(logits,))
    mbarrier.arrive(free.index(_before(stage, STAGES)), count=1)
    return logits, stage, phase


@gluon.jit
def _targets(target, first_column, V: gl.constexpr):
    """See ``tiles.targets_in_tile``."""
    place = target - first_column
    held = (place >= 0) & (place < BLOCK_N) & (target < V)
    return gl.where(held, place, -1).to(gl.int32), gl.max(held.to(gl.int32), axis=0) > 0


@gluon.jit
def _partials(
    ring,
    data,
    GROUP: gl.constexpr,
    V: gl.constexpr,
    H: gl.constexpr,
    ENTROPY: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
    MMA: gl.constexpr,
):
    target_ptr, partials_ptr, target_logit_ptr, M, tiles_m, tiles_n, scale = data
    ROW: gl.constexpr = gl.SliceLayout(1, MMA)
    columns = gl.arange(0, BLOCK_N, gl.SliceLayout(0, MMA))
    stage = 0
    phase = 0
    turn = 0
    plane = tiles_n * M
    for number in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _tile_of(number, tiles_m, tiles_n, GROUP_M)
        rows = tile_m * BLOCK_M + ROWS * GROUP + gl.arange(0, ROWS, ROW)
        in_rows = rows < M
        target = gl.load(target_ptr + rows, mask=in_rows, other=-1)
        logits, stage, phase = _product(ring, stage, phase, turn, GROUP, H, STAGES, MMA)
        turn ^= 1

        place, any_here = _targets(target, tile_n * BLOCK_N, V)
        if any_here:
            hit = columns[None, :] == place[:, None]
            target_logit = gl.sum(gl.where(hit, logits, 0.0), axis=1)
            gl.store(target_logit_ptr + rows, target_logit, mask=place >= 0)

        partial = tile_n == V // BLOCK_N
        inside = columns < V - tile_n * BLOCK_N
        if partial:
            logits = gl.where(inside[None, :], logits, float("-inf"))
        largest = gl.max(logits, axis=1)
        exponent = (logits - largest[:, None]) * scale
        if partial:
            exponent = gl.where(inside[None, :], exponent, -1000.0)
        power = gl.exp2(exponent)
        out = partials_ptr + tile_n * M + rows
        gl.store(out, largest, mask=in_rows)
        gl.store(out + plane, gl.sum(power, axis=1), mask=in_rows)
        if ENTROPY:
            gl.store(out + 2 * plane, gl.sum(power * exponent, axis=1), mask=in_rows)


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
    columns = gl.arange(0, BLOCK_N, gl.SliceLayout(0, MMA))
    stage = 0
    phase = 0
    turn = 0
    mine = staging.index(GROUP)
    for number in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _tile_of(number, tiles_m, tiles_n, GROUP_M)
        first_row = tile_m * BLOCK_M + ROWS * GROUP
        rows = first_row + gl.arange(0, ROWS, ROW)
        in_rows = rows < M
        target = gl.load(target_ptr + rows, mask=in_rows, other=-1)
        shift = gl.load(shift_ptr + rows, mask=in_rows, other=0.0)
        log_sum = gl.load(log_sum_ptr + rows, mask=in_rows, other=0.0)
        grad = gl.load(grad_logprob_ptr + rows, mask=in_rows, other=0.0) * inverse_temperature
        if ENTROPY:
            entropy = gl.load(entropy_ptr + rows, mask=in_rows, other=0.0)
            grad_entropy = gl.load(grad_entropy_ptr + rows, mask=in_rows, other=0.0)
            grad_entropy = grad_entropy * inverse_temperature
            constant = grad + grad_entropy * entropy
        logits, stage, phase = _product(ring, stage, phase, turn, GROUP, H, STAGES, MMA)
        turn ^= 1

        log2_p = (logits - shift[:, None]) * scale - log_sum[:, None]
        p = gl.exp2(log2_p)
        if ENTROPY:
            # A logit of -inf has p·log p = 0: any finite logarithm does.
            log2_p = gl.maximum(log2_p, -1000.0)
            dz = -p * (constant[:, None] + (grad_entropy * LN2)[:, None] * log2_p)
        else:
            dz = -p * grad[:, None]
        place, any_here = _targets(target, first_column + tile_n * BLOCK_N, V)
        if any_here:
            dz += gl.where(columns[None, :] == place[:, None], grad[:, None], 0.0)
        tma.store_wait(pendings=0)
        mine.store(dz.to(out.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(out, [first_row, tile_n * BLOCK_N], mine)
    tma.store_wait(pendings=0)


@gluon.jit
def _ring_of(hidden, weight, STAGES: gl.constexpr):
    """Buffers and barriers; a block is free once both groups have read it."""
    hidden_ring = gl.allocate_shared_memory(hidden.dtype, [STAGES, BLOCK_M, BLOCK_K], hidden.layout)
    weight_ring = gl.allocate_shared_memory(weight.dtype, [STAGES, BLOCK_N, BLOCK_K], weight.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    lead = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(ready.index(stage), count=1)
        mbarrier.init(free.index(stage), count=2)
    mbarrier.init(lead, count=1)
    fence_async_shared()
    return hidden_ring, weight_ring, ready, free, lead


@gluon.jit(do_not_specialize=["M"], do_not_specialize_on_alignment=["target_ptr"])
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
    ENTROPY: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
):
    """See ``forward.partials_kernel``; the arguments in common mean the same."""
    MMA: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N.value, 16])
    ring = _ring_of(hidden, weight, STAGES)
    tiles_m = gl.cdiv(M, BLOCK_M)
    tiles_n = gl.to_tensor(gl.cdiv(V, BLOCK_N))
    data = (target_ptr, partials_ptr, target_logit_ptr, M, tiles_m, tiles_n, scale)
    gl.warp_specialize(
        [
            (_partials, (ring, data, 0, V, H, ENTROPY, GROUP_M, STAGES, MMA)),
            (_partials, (ring, data, 1, V, H, ENTROPY, GROUP_M, STAGES, MMA)),
            (
                _load,
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
    ring = _ring_of(hidden, weight, STAGES)
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
                _load,
                (hidden, weight, ring, tiles_m, tiles_n, first_column, H, GROUP_M, STAGES),
            ),
        ],
        [4, 1],
        [MULTIPLYING, LOADING],
    )
