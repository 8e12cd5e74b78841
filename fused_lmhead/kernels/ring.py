"""The ring of loaded blocks that the kernels of ``specialised.py`` share: one warp fills it, two
warp groups multiply what is in it, each its 64 rows of a 128 x 256 tile.

The second group trails the first by a step: while one is in its epilogue, the other has the
tensor cores to itself. The ring is three blocks deep on purpose: in a deeper one the groups
drift apart and loads come late.
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


@gluon.jit
def tile_of(number, tiles_m, tiles_n, GROUP_M: gl.constexpr):
    """See ``tiles.tile_of_program``; here a program walks several numbers."""
    band = number // (GROUP_M * tiles_n)
    height = gl.minimum(tiles_m - band * GROUP_M, GROUP_M)
    inside = number % (GROUP_M * tiles_n)
    return band * GROUP_M + inside % height, inside // height


@gluon.jit
def load_tiles(
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
        tile_m, tile_n = tile_of(number, tiles_m, tiles_n, GROUP_M)
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
    STARTED: gl.constexpr,
    GROUP: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Steps ``first`` to ``last`` of a tile's product; each frees the block before its own.

    The first one adds to ``logits`` if STARTED.
    """
    hidden_ring, weight_ring, ready, free, _ = ring
    for step in range(first, last):
        mbarrier.wait(ready.index(stage), phase)
        logits = warpgroup_mma(
            hidden_ring.index(stage).slice(ROWS * GROUP, ROWS),
            weight_ring.index(stage).permute((1, 0)),
            logits,
            use_acc=STARTED or step > 0,
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
def product(
    ring,
    stage,
    phase,
    turn,
    logits,
    STARTED: gl.constexpr,
    GROUP: gl.constexpr,
    H: gl.constexpr,
    STAGES: gl.constexpr,
):
    """``logits`` [ROWS, BLOCK_N] plus this group's raw ones if STARTED, else those alone, fp32;
    and where the ring goes on."""
    STEPS: gl.constexpr = (H + BLOCK_K - 1) // BLOCK_K
    lead = ring[4]
    free = ring[3]
    if GROUP == 0:
        logits, stage, phase = _steps(logits, ring, stage, phase, 0, LAG, STARTED, GROUP, STAGES)
        mbarrier.arrive(lead, count=1)
        logits, stage, phase = _steps(
            logits, ring, stage, phase, LAG, STEPS, STARTED, GROUP, STAGES
        )
    else:
        mbarrier.wait(lead, turn)
        logits, stage, phase = _steps(logits, ring, stage, phase, 0, STEPS, STARTED, GROUP, STAGES)
    logits = warpgroup_mma_wait(num_outstanding=0, deps=(logits,))
    mbarrier.arrive(free.index(_before(stage, STAGES)), count=1)
    return logits, stage, phase


@gluon.jit
def ring_of(hidden, weight, STAGES: gl.constexpr):
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
