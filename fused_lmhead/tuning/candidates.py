"""What a search tries: schedules for any GPU, pruned before anything compiles. Pure functions.

A pruned set is never empty and starts with the rule's schedule, by which the others are checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fused_lmhead.schedules import (
    Gpu,
    Schedule,
    ceil_div,
    shared_memory,
    specialises,
    tile_schedule,
)

# The one tile of kernels/specialised.py, its ring three deep. Eight warps are for the tile
# kernel, which serves in its place where rows are not aligned.
_SPECIALISED = (
    Schedule(128, 256, 64, 8, 8, 3, "specialised"),
    Schedule(128, 256, 64, 16, 8, 3, "specialised"),
    Schedule(128, 256, 64, 32, 8, 3, "specialised"),
)

# block_m, block_n, block_k, group_m, num_warps, num_stages. Groups of the large tiles differ
# since the best band depends on H and on L2, and share their code but for the specialised ones;
# the last ones are for cards with 48 to 100 KiB of shared memory and for few tokens.
_FORWARD_2_BYTE = (
    *_SPECIALISED,
    Schedule(128, 256, 64, 8, 8, 3),
    Schedule(128, 256, 64, 16, 8, 3),
    Schedule(128, 256, 64, 32, 8, 3),
    Schedule(128, 256, 64, 16, 8, 4),
    Schedule(128, 256, 128, 16, 8, 2),
    Schedule(128, 256, 32, 16, 8, 4),
    Schedule(256, 128, 64, 4, 8, 3),
    Schedule(256, 128, 64, 8, 8, 3),
    Schedule(256, 128, 64, 16, 8, 3),
    Schedule(256, 128, 64, 8, 8, 4),
    Schedule(64, 256, 64, 16, 4, 3),
    Schedule(64, 256, 32, 16, 4, 4),
    Schedule(128, 128, 64, 16, 4, 4),
    Schedule(128, 128, 64, 16, 8, 3),
    Schedule(128, 128, 32, 16, 8, 3),
    Schedule(64, 128, 64, 16, 4, 3),
    Schedule(64, 128, 32, 16, 4, 3),
    Schedule(64, 64, 32, 16, 4, 2),
)

# Fewer: the store of d_logits leaves less to gain, and each is searched on top of the forward's.
_BACKWARD_2_BYTE = (
    *_SPECIALISED,
    Schedule(128, 256, 64, 8, 8, 3),
    Schedule(128, 256, 64, 16, 8, 3),
    Schedule(128, 256, 64, 32, 8, 3),
    Schedule(128, 256, 64, 16, 8, 4),
    Schedule(256, 128, 64, 8, 8, 3),
    Schedule(64, 256, 64, 16, 4, 3),
    Schedule(128, 128, 64, 16, 4, 4),
    Schedule(128, 128, 64, 16, 8, 3),
    Schedule(128, 128, 32, 16, 8, 3),
    Schedule(64, 64, 32, 16, 4, 2),
)

_4_BYTE = (
    Schedule(64, 64, 16, 8, 4, 2),
    Schedule(64, 64, 16, 8, 4, 3),
    Schedule(64, 64, 16, 8, 8, 2),
    Schedule(128, 64, 16, 8, 8, 2),
    Schedule(64, 128, 16, 8, 8, 2),
    Schedule(32, 64, 32, 8, 4, 2),
    Schedule(32, 32, 32, 8, 4, 2),
)

_REGISTERS = 150
"""Largest :func:`registers` that a thread has room for: 144 compiles without spilling, 160 not."""


def forward_candidates(element_size: int) -> tuple[Schedule, ...]:
    """All schedules that a forward search may try, for operands of ``element_size`` bytes."""
    return _4_BYTE if element_size == 4 else _FORWARD_2_BYTE


def backward_candidates(element_size: int) -> tuple[Schedule, ...]:
    """All schedules that a backward search may try, for operands of ``element_size`` bytes."""
    return _4_BYTE if element_size == 4 else _BACKWARD_2_BYTE


def registers(schedule: Schedule, element_size: int) -> int:
    """32-bit values that each thread's share of a tile takes at least.

    fp32 products keep the sum, its compensation, the product of one step and both operands;
    2-byte ones keep the sum alone, operands come from shared memory.
    """
    threads = 32 * schedule.num_warps
    tile = schedule.block_m * schedule.block_n // threads
    if element_size < 4:
        return tile
    operands = (schedule.block_m + schedule.block_n) * schedule.block_k // threads
    return 4 * tile + operands


def pruned(
    candidates: Iterable[Schedule], m: int, h: int, v: int, element_size: int, gpu: Gpu
) -> tuple[Schedule, ...]:
    """Those that fit the GPU and the shape of ``m`` tokens, the rule's schedule first.

    Where the specialised kernels serve, the plain ones of the same tile are left out: they do the
    same with the tensor cores idle between tiles, and a core compiles one candidate at a time.
    """
    rule = tile_schedule(h, element_size, gpu)

    def fits(tile: Schedule) -> bool:
        same_tile = (tile.block_m, tile.block_n) == (rule.block_m, rule.block_n)
        return (
            not (rule.kind == "specialised" and tile.kind == "tile" and same_tile)
            and shared_memory(tile, element_size, gpu.tma) <= gpu.shared_memory
            and (tile.kind != "specialised" or specialises(h, element_size, gpu, tile.num_stages))
            and (registers(tile, element_size) <= _REGISTERS or tile.kind != "tile")
            and not _oversized(tile.block_m, m)
            and not _oversized(tile.block_n, v)
        )

    # Bands higher than the tokens reach are all the same band.
    distinct: dict[Schedule, Schedule] = {}
    for tile in (rule, *filter(fits, candidates)):
        same = replace(tile, group_m=min(tile.group_m, ceil_div(m, tile.block_m)))
        distinct.setdefault(same, tile)
    return tuple(distinct.values())


def _oversized(block: int, extent: int) -> bool:
    """Whether half of the tile would do; below 64 a tensor core's own shape wastes as much."""
    return block // 2 >= max(64, extent)
