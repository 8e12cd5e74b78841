"""What a pass of the Triton backend holds beside its inputs, results and gradients, in bytes.

Pure functions of the shape. Legend: M tokens, H hidden, V vocabulary, e bytes of an element,
T = ceil(V / block_n) tiles of a token, C tokens of a forward launch, n columns of a split.

    forward      12·T·C + 8·M            8·T·C + 4·M without entropy
    kept logits  e·M·V + 4·M·T           until backward has run; opt-in
    backward     e·M·n + 8·M             e·M·n within ``backward_budget``
                 + 4·M·H                 with several splits: d_hidden is summed in fp32

What C and n are is the plan's; both are whole tiles. The logit gradient e·M·n is gone when
d_hidden is rounded, so gradients included a backward pass holds at most
e·V·H + 4·M·H + max(e·M·n, e·M·H). Inputs that are cast or made contiguous come on top.
"""

from __future__ import annotations

from fused_lmhead.schedules import BACKWARD_WORKSPACE, ceil_div

NARROWEST_SPLIT = 16
"""Columns below which a split is refused: its rows would not be aligned."""

_WIDEST_SPLIT = 16_384  # about what plans stop at where memory is no limit


def forward_bytes(m: int, v: int, block_n: int, chunk: int, with_entropy: bool) -> int:
    """Workspace of a forward pass over M tokens, ``chunk`` of them at a time."""
    planes, statistics = (3, 2) if with_entropy else (2, 1)
    return 4 * (planes * ceil_div(v, block_n) * min(m, chunk) + statistics * m)


def kept_bytes(m: int, v: int, element_size: int, block_n: int) -> int:
    """What keeping the logits of M tokens takes."""
    return element_size * m * v + 4 * m * ceil_div(v, block_n)


def backward_bytes(
    m: int, h: int, v: int, element_size: int, columns: int, needs_hidden: bool = True
) -> int:
    """Workspace of a backward pass in splits of ``columns``."""
    total = 4 * m * h if needs_hidden and columns < v else 0
    return element_size * m * min(columns, v) + 8 * m + total


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
        wider = min(most, _WIDEST_SPLIT) // planned if budget > BACKWARD_WORKSPACE else 1
        return min(v, planned * max(1, wider))
    step = block_n if most >= block_n else NARROWEST_SPLIT
    if most < step:
        raise ValueError(
            f"backward_budget {budget} is too small for {m} tokens: at least "
            f"{NARROWEST_SPLIT * m * element_size} bytes"
        )
    return most // step * step
