"""From the values of packed tokens to rows of a batch: pure functions of the layout.

Legend: T packed tokens, padding included; L columns of the unpacked batch of token ids, so
that results have L - 1 columns. A destination is an index into the flattened [rows, L - 1]
result; rows·(L - 1), one past the end, is where values go that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from fused_lmhead.parallel.zigzag import segment_numbers


class Rows(NamedTuple):
    """Where each packed segment's values go."""

    number: int
    """Rows of the result."""
    row: torch.Tensor
    """Each segment's row, int64."""
    first_column: torch.Tensor
    """Each segment's first column, int64."""
    valid: torch.Tensor
    """Each segment's true number of tokens, int64: it gives that many values, less one."""


def rows_of_sub_sequences(
    padded_lengths: Sequence[int], sub_seq_lengths: Sequence[Sequence[int]], device: torch.device
) -> Rows:
    """Several segments a row, each ahead of the next by its padded length.

    Raises ValueError where the two describe different numbers of segments.
    """
    described = [(row, n) for row, lengths in enumerate(sub_seq_lengths) for n in lengths]
    first_columns, column, before = [], 0, -1
    for (row, _), padded in zip(described, padded_lengths, strict=True):
        column = column if row == before else 0
        first_columns.append(column)
        column, before = column + padded, row

    def tensor(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=device)

    return Rows(
        len(sub_seq_lengths),
        tensor([row for row, _ in described]),
        tensor(first_columns),
        tensor([valid for _, valid in described]),
    )


def rows_of_segments(valid: torch.Tensor) -> Rows:
    """One segment a row, each from the first column on."""
    count = valid.shape[0]
    return Rows(count, torch.arange(count, device=valid.device), torch.zeros_like(valid), valid)


def destinations(
    offsets: torch.Tensor,
    total: int,
    columns: int,
    rows: Rows,
    attention_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Where the value of each of the T = ``total`` packed tokens goes, int64 [T].

    A token's value is about its successor, so a segment's last true token has none.
    ``columns`` is L - 1. ``attention_mask`` [rows, L], bool, puts the j-th value of a row
    where the mask's j-th true token is, instead of at column j.
    """
    segment_T = segment_numbers(offsets.diff(), total)
    ordinal_T = torch.arange(total, device=offsets.device) - offsets[:-1][segment_T]
    row_T = rows.row[segment_T]
    kept_T = ordinal_T < (rows.valid - 1)[segment_T]
    if attention_mask is None:
        column_T = rows.first_column[segment_T] + ordinal_T
    else:
        # True tokens first, in their order: the j-th entry of a row is its j-th true column.
        places = attention_mask.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
        column_T = places[row_T, ordinal_T.clamp(max=places.shape[1] - 1)]
    kept_T &= column_T < columns
    return (row_T * columns + column_T).where(kept_T, rows.number * columns)


def unpack(
    values_T: torch.Tensor, destination_T: torch.Tensor, rows: int, columns: int
) -> torch.Tensor:
    """The [rows, columns] result; 0 where no value goes. Differentiable in the values."""
    room = values_T.new_zeros(rows * columns + 1)
    return room.scatter(0, destination_T, values_T)[:-1].view(rows, columns)
