"""What a pass of the Triton backend holds beside its inputs, results and gradients, in bytes.

Pure functions of the shape. Legend: M tokens, H hidden, V vocabulary, e bytes of an element,
T = ceil(V / block_n) tiles of a token, C tokens of a forward launch; of the logit gradient m
tokens and n columns at once, r elements from one of its rows to the next: n, rounded up to 16
bytes so that rows are aligned.

    forward      12·T·C + 8·M            8·T·C + 4·M without entropy
    kept logits  e·M·V + 4·M·T           until backward has run; opt-in
    backward     e·m·r + 8·M             e·m·r within ``backward_budget``
                 + 4·M·H                 in splits of the vocabulary: d_hidden is summed in fp32
                 + 4·V·H                 in chunks of tokens: d_weight is summed in fp32

C is the plan's. A backward pass cuts either the vocabulary (m = M) or the tokens (n = V),
whichever sums less: for both gradients the tokens where V < M, for d_hidden alone the tokens,
for d_weight alone the vocabulary, and these two sum nothing. So a sum takes 4·min(M, V)·H bytes
at most. With kept logits, or a budget that a tile of tokens times V does not fit, only the
vocabulary is cut. The logit gradient is gone when a sum is rounded, so gradients included a
pass holds at most

    splits   e·V·H + 4·M·H + max(e·m·r, e·M·H)
    chunks   e·M·H + 4·V·H + max(e·m·r, e·V·H)

Inputs that are cast or made contiguous come on top.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from fused_lmhead.schedules import BACKWARD_WORKSPACE, WIDEST_SPLIT, Schedule, ceil_div, even_chunk

NARROWEST_SPLIT = 16
"""Columns below which a split is refused: its rows would not be aligned."""

_ALIGNMENT = 16  # bytes, of rows that TMA can store


class Block(NamedTuple):
    """A part of the logit gradient: these tokens, these columns."""

    tokens: slice
    columns: slice
    row: int
    """Elements from one token to the next: at least as many as there are columns."""


class Cut(NamedTuple):
    """The blocks that a backward pass has the logit gradient in, one at a time: all of it, or
    splits of its columns, or chunks of its tokens. The last one may be smaller."""

    tokens: int
    columns: int
    row: int
    blocks: tuple[Block, ...]


def forward_bytes(m: int, v: int, block_n: int, chunk: int, with_entropy: bool) -> int:
    """Workspace of a forward pass over M tokens, ``chunk`` of them at a time."""
    planes, statistics = (3, 2) if with_entropy else (2, 1)
    return 4 * (planes * ceil_div(v, block_n) * min(m, chunk) + statistics * m)


def kept_bytes(m: int, v: int, element_size: int, block_n: int) -> int:
    """What keeping the logits of M tokens takes."""
    return element_size * m * v + 4 * m * ceil_div(v, block_n)


def backward_bytes(
    m: int,
    h: int,
    v: int,
    element_size: int,
    cut: Cut,
    needs_hidden: bool = True,
    needs_weight: bool = True,
) -> int:
    """Workspace of a backward pass in blocks of ``cut``."""
    total = 0
    if needs_hidden and cut.columns < v:
        total += 4 * m * h
    if needs_weight and cut.tokens < m:
        total += 4 * v * h
    return element_size * cut.tokens * cut.row + 8 * m + total


# A call's length may come again, and each block costs the host time.
@lru_cache(256)
def backward_cut(
    m: int,
    v: int,
    element_size: int,
    tile: Schedule,
    planned: int,
    budget: int,
    needs_hidden: bool = True,
    needs_weight: bool = True,
    aligned: bool = True,
    keeps: bool = False,
) -> Cut:
    """How a backward pass in ``tile`` cuts its logit gradient of M tokens and V columns.

    Splits have ``planned`` columns where they fit ``budget`` bytes, see ``split_columns``. With
    ``aligned`` rows are multiples of 16 bytes long, except of all logits at once where the
    budget is too small for that. ``keeps``: the forward pass kept its logits, and V is cut.

    Raises ValueError where the budget is too small for either cut.
    """
    unit = _ALIGNMENT // element_size if aligned else 1
    row_bytes = element_size * _round_up(v, unit)
    fits = m * row_bytes <= budget
    if needs_hidden and (v < m or not needs_weight) and not keeps:
        if fits:
            return _cut(m, v, m, v, unit)
        if (most := budget // row_bytes) >= tile.block_m:
            return _cut(m, v, even_chunk(m, most, tile.block_m), v, unit)
    columns = split_columns(m, v, element_size, tile.block_n, planned, budget)
    return _cut(m, v, m, columns, unit if columns < v or fits else 1)


def _cut(m: int, v: int, tokens: int, columns: int, unit: int) -> Cut:
    blocks = []
    for token in range(0, m, tokens):
        for column in range(0, v, columns):
            end = min(column + columns, v)
            row = _round_up(end - column, unit)
            blocks.append(Block(slice(token, min(token + tokens, m)), slice(column, end), row))
    return Cut(tokens, columns, blocks[0].row, tuple(blocks))


def _round_up(number: int, unit: int) -> int:
    return ceil_div(number, unit) * unit


def split_columns(
    m: int, v: int, element_size: int, block_n: int, planned: int, budget: int
) -> int:
    """Columns of a backward split whose logit gradient fits ``budget`` bytes.

    ``planned`` columns where they fit, multiples of them where more does and they were few;
    else whole tiles, or part of one.

    Raises ValueError where not even ``NARROWEST_SPLIT`` columns fit.
    """
    most = budget // (m * element_size)
    if most >= planned:
        wider = min(most, WIDEST_SPLIT) // planned if budget > BACKWARD_WORKSPACE else 1
        return min(v, planned * max(1, wider))
    step = block_n if most >= block_n else NARROWEST_SPLIT
    if most < step:
        raise ValueError(
            f"backward_budget {budget} is too small for {m} tokens: at least "
            f"{NARROWEST_SPLIT * m * element_size} bytes"
        )
    return most // step * step
