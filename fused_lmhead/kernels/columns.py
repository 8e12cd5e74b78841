"""Single columns of a tile that lies in registers, as wgmma leaves it: [ROWS, BLOCK_N] in its
layout ``MMA``, where eight neighbouring columns of a row are four threads' and blocks of eight
are one thread's."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from fused_lmhead.kernels.ring import BLOCK_N, ROWS


@gluon.jit
def places(target_ptr, first_row, M, first_column, V: gl.constexpr, LAYOUT: gl.constexpr):
    """Column in the tile of each row's target, or -1 where the tile does not hold it."""
    rows = first_row + gl.arange(0, ROWS, LAYOUT)
    target = gl.load(target_ptr + rows, mask=rows < M, other=-1)
    place = target - first_column
    held = (place >= 0) & (place < BLOCK_N) & (target < V)
    return gl.where(held, place, -1).to(gl.int32)


@gluon.jit
def any_place(target_ptr, first_row, M, first_column, V: gl.constexpr):
    """Whether the tile holds a target. Each warp looks at all rows: none waits for another."""
    EACH: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    return gl.max(places(target_ptr, first_row, M, first_column, V, EACH), axis=0) >= 0


@gluon.jit
def _halve(values, place, N: gl.constexpr):
    """[ROWS, N columns] -> [ROWS, N / 2 columns], eight of them side by side: of each row the
    half that ``place`` is in."""
    halves = values.reshape([ROWS, 2, N // 16, 8]).permute((0, 2, 3, 1))
    low, high = gl.split(halves)
    rows: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, low.type.layout))
    upper = gl.convert_layout((place & (N // 2)) != 0, rows, assert_trivial=True)
    return gl.where(upper.expand_dims(1).expand_dims(2), high, low)


@gluon.jit
def value_at(logits, place, MMA: gl.constexpr):
    """logits[row, place[row]]: choices between registers, half as many as comparing columns."""
    values = _halve(_halve(_halve(logits, place, 256), place, 128), place, 64)
    values = _halve(_halve(values, place, 32), place, 16).reshape([ROWS, 8])
    last: gl.constexpr = values.type.layout
    columns = gl.arange(0, 8, gl.SliceLayout(0, last))
    near = gl.convert_layout(place & 7, gl.SliceLayout(1, last), assert_trivial=True)
    found = gl.sum(gl.where(columns[None, :] == near[:, None], values, 0.0), axis=1)
    return gl.convert_layout(found, gl.SliceLayout(1, MMA), assert_trivial=True)


@gluon.jit
def add_at(values, place, added, MMA: gl.constexpr):
    """values[row, place[row]] += added[row]: blocks of eight columns are compared, not columns."""
    blocks = values.reshape([ROWS, BLOCK_N // 8, 8])
    layout: gl.constexpr = blocks.type.layout
    inner: gl.constexpr = gl.SliceLayout(1, layout)
    inner_rows: gl.constexpr = gl.SliceLayout(1, inner)
    columns = gl.arange(0, 8, gl.SliceLayout(0, inner))
    near = gl.convert_layout(place & 7, inner_rows, assert_trivial=True)
    added = gl.convert_layout(added, inner_rows, assert_trivial=True)
    added = gl.where(columns[None, :] == near[:, None], added[:, None], 0.0)
    outer: gl.constexpr = gl.SliceLayout(2, layout)
    numbers = gl.arange(0, BLOCK_N // 8, gl.SliceLayout(0, outer))
    # No block is the one of -1.
    far = gl.convert_layout(place >> 3, gl.SliceLayout(1, outer), assert_trivial=True)
    here = (numbers[None, :] == far[:, None]).expand_dims(2)
    blocks = gl.where(here, blocks + added.expand_dims(1), blocks)
    return gl.convert_layout(blocks.reshape([ROWS, BLOCK_N]), MMA, assert_trivial=True)
