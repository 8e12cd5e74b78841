"""Tile schedules and the splits that bound the workspace: pure functions of the shape.

Legend: M tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

FORWARD_WORKSPACE = 256 * 2**20
"""Bytes of per-tile statistics that a forward pass may hold at once."""

BACKWARD_WORKSPACE = 2**30
"""Bytes of logit gradient that a backward pass may hold at once."""

WIDEST_SPLIT = 16_896
"""Columns that a backward split stops at where memory is no limit."""

_SPLIT_COST = 2
_SMALLEST_BUCKET = 128


@dataclass(frozen=True, slots=True)
class Schedule:
    """How one tile of logits is computed, and by which kernel."""

    block_m: int
    block_n: int
    block_k: int
    group_m: int
    """Token tiles of a band, see :func:`fused_lmhead.kernels.tiles.tile_of_program`."""
    num_warps: int
    num_stages: int
    kind: Literal["tile", "specialised"] = "tile"


@dataclass(frozen=True, slots=True)
class Gpu:
    """What a choice of schedule may depend on."""

    name: str
    """The driver's, for example 'NVIDIA H200': chips of one architecture differ."""
    multiprocessors: int
    shared_memory: int
    """Bytes that one program may take."""
    tma: bool
    """Whether it has Hopper's bulk copies (and so its products that read shared memory)."""
    hopper: bool = False
    """Whether the specialised kernels run: Hopper itself, and a Triton that compiles them."""


HOPPER = Gpu("NVIDIA H200", 132, 232_448, tma=True, hopper=True)

_RULE = (
    # 128x256 rather than 256x128: each token row then has half as many tiles, so half the
    # statistics to write and merge, and fewer live registers in the epilogue. Three stages of
    # 48 KiB fill Hopper's shared memory; 64 columns of bf16 are one 128-byte swizzle line.
    Schedule(block_m=128, block_n=256, block_k=64, group_m=16, num_warps=8, num_stages=3),
    Schedule(block_m=128, block_n=128, block_k=64, group_m=16, num_warps=8, num_stages=3),
    Schedule(block_m=128, block_n=128, block_k=32, group_m=16, num_warps=8, num_stages=3),
    Schedule(block_m=64, block_n=64, block_k=32, group_m=16, num_warps=4, num_stages=2),
)


def shared_memory(schedule: Schedule, element_size: int, tma: bool) -> int:
    """Bytes of shared memory that a program takes at most, forward or backward.

    Compiled kernels take these: with bulk copies each stage has a buffer of its own, without
    them one stage's operands are in registers; the backward's output tile goes through the
    buffers afterwards, or has its own if specialised. The rest, barriers, is a few bytes.
    """
    buffers = schedule.num_stages if tma else max(1, schedule.num_stages - 1)
    operands = buffers * (schedule.block_m + schedule.block_n) * schedule.block_k
    output = schedule.block_m * schedule.block_n
    both = operands + output if schedule.kind == "specialised" else max(operands, output)
    return both * element_size + 1024


def specialises(h: int, element_size: int, gpu: Gpu, stages: int) -> bool:
    """Whether the specialised kernels can multiply contiguous rows of ``h`` values."""
    # Bulk copies take rows of 16-byte multiples.
    return gpu.hopper and h * element_size % 16 == 0 and fills_ring(h, stages)


def fills_ring(h: int, stages: int) -> bool:
    """Whether a product of rows of ``h`` values has a step for each block of the specialised
    kernels' ring: else one group could be two tiles ahead of the other, and their barriers lose
    count."""
    return ceil_div(h, 64) >= stages


def tile_schedule(h: int, element_size: int, gpu: Gpu = HOPPER) -> Schedule:
    """The schedule for rows of ``h`` values of ``element_size`` bytes, where none is measured."""
    if element_size == 4:
        # fp32 products run on the plain ALUs, and the compensated sum doubles their
        # accumulators: registers, not bandwidth, are short.
        return Schedule(block_m=64, block_n=64, block_k=16, group_m=8, num_warps=4, num_stages=2)
    fitting = (
        tile for tile in _RULE if shared_memory(tile, element_size, gpu.tma) <= gpu.shared_memory
    )
    tile = next(fitting, _RULE[-1])
    if tile == _RULE[0] and specialises(h, element_size, gpu, tile.num_stages):
        return replace(tile, kind="specialised")
    # A band's tokens take group·128·H·2 bytes of L2: wider bands fit where rows are short.
    return replace(tile, group_m=32) if h <= 2048 else tile


def token_bucket(m: int) -> int:
    """The power of two that stands for ``m`` tokens in a choice; launches use ``m`` itself."""
    return max(_SMALLEST_BUCKET, 1 << (m - 1).bit_length())


def ceil_div(a: int, b: int) -> int:
    """``a / b`` rounded up."""
    return -(-a // b)


def tokens_per_chunk(m: int, v: int, schedule: Schedule) -> int:
    """Tokens of one forward launch: the workspace's share, in even chunks of whole tiles.

    The workspace takes 12·ceil(V / block_n) bytes a token.
    """
    limit = FORWARD_WORKSPACE // (12 * ceil_div(v, schedule.block_n))
    return even_chunk(m, max(schedule.block_m, limit), schedule.block_m)


def even_chunk(m: int, most: int, block_m: int) -> int:
    """Tokens of a chunk of M: as few chunks of at most ``most`` (at least ``block_m``) as there
    can be, even, in whole tiles of ``block_m``."""
    most = most // block_m * block_m
    even = ceil_div(m, ceil_div(m, most))
    return ceil_div(even, block_m) * block_m


def columns_per_split(
    m: int,
    v: int,
    element_size: int,
    schedule: Schedule,
    multiprocessors: int,
) -> int:
    """Vocabulary columns of one backward split: whole tiles, at most 2^30 bytes of gradient.

    Among widths up to ``WIDEST_SPLIT``, the one whose splits waste the least on
    half-empty last waves, with ``_SPLIT_COST`` waves charged for each split.
    """
    limit = min(WIDEST_SPLIT, BACKWARD_WORKSPACE // (m * element_size)) // schedule.block_n
    limit = max(1, min(limit, ceil_div(v, schedule.block_n)))
    tiles_m, tiles_n = ceil_div(m, schedule.block_m), ceil_div(v, schedule.block_n)
    return min(v, _tiles_per_split(limit, tiles_m, tiles_n, multiprocessors) * schedule.block_n)


# Lengths differ from call to call, their tiles less so, and a search is a part of a call.
@lru_cache(4096)
def _tiles_per_split(limit: int, tiles_m: int, tiles_n: int, multiprocessors: int) -> int:
    def cost(width: int) -> int:
        splits, rest = divmod(tiles_n, width)
        waves = splits * -(-tiles_m * width // multiprocessors)
        waves += -(-tiles_m * rest // multiprocessors)
        return waves + _SPLIT_COST * (splits + (rest > 0))

    return min(range(limit, 0, -1), key=cost)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a forward and backward pass of one shape decides before it launches."""

    forward: Schedule
    backward: Schedule
    tokens_per_chunk: int
    columns_per_split: int


def plan(
    m: int,
    h: int,
    v: int,
    element_size: int,
    multiprocessors: int,
    tile: Schedule | None = None,
    backward: Schedule | None = None,
) -> Plan:
    """The plan of M tokens (at least 1), H, V for inputs of ``element_size`` bytes.

    ``tile`` is the schedule of a tile, ``backward`` the backward pass' own where it has one.
    """
    tile = tile or tile_schedule(h, element_size)
    backward = backward or tile
    return Plan(
        tile,
        backward,
        tokens_per_chunk(m, v, tile),
        columns_per_split(m, v, element_size, backward, multiprocessors),
    )
