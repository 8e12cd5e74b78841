"""That batches and packed segments fit together, before anything is launched.

Legend: B batch, S sequence, H hidden, T packed tokens with padding, CP ranks that share each
sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from operator import index

import torch


def _check_tensors(**tensors: object) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")


def check_padded(hidden: torch.Tensor, target: torch.Tensor, cp_size: int) -> None:
    """ValueError unless hidden is [B, S'/CP, H] of a target [B, S], S' a whole multiple >= S."""
    _check_tensors(hidden=hidden, target=target)
    shapes = f"hidden {tuple(hidden.shape)}, target {tuple(target.shape)}"
    if hidden.ndim != 3 or target.ndim != 2 or hidden.shape[0] != target.shape[0]:
        raise ValueError(f"hidden must be [B, S/CP, H] and target [B, S], got {shapes}")
    if cp_size > 1 and hidden.shape[1] % 2:
        raise ValueError(
            f"hidden {tuple(hidden.shape)} has {hidden.shape[1]} tokens a row, which are not two "
            f"equal chunks: pad sequences to a multiple of 2·CP = {2 * cp_size}"
        )
    if hidden.shape[1] * cp_size < target.shape[1]:
        raise ValueError(
            f"target has {target.shape[1]} tokens a row, but hidden's {hidden.shape[1]} on each "
            f"of CP = {cp_size} ranks are only {hidden.shape[1] * cp_size}"
        )


def check_packed(
    hidden: torch.Tensor,
    target: torch.Tensor,
    cu_seqlens_padded: torch.Tensor,
    unpacked_seqlen: int,
    attention_mask: torch.Tensor | None,
    cp_size: int,
) -> None:
    """TypeError, ValueError unless the shapes are those of one packed batch. Reads no values."""
    _check_tensors(hidden=hidden, target=target, cu_seqlens_padded=cu_seqlens_padded)
    if attention_mask is not None:
        _check_tensors(attention_mask=attention_mask)
    shapes = f"hidden {tuple(hidden.shape)}, target {tuple(target.shape)}"
    if hidden.ndim != 3 or target.ndim != 2 or hidden.shape[0] != 1 or target.shape[0] != 1:
        raise ValueError(f"hidden must be [1, T/CP, H] and target [1, T], got {shapes}")
    if hidden.shape[1] * cp_size != target.shape[1]:
        raise ValueError(
            f"target has {target.shape[1]} tokens, but hidden's {hidden.shape[1]} on each of "
            f"CP = {cp_size} ranks are {hidden.shape[1] * cp_size}"
        )
    if cu_seqlens_padded.ndim != 1 or cu_seqlens_padded.shape[0] == 0:
        raise ValueError(
            f"cu_seqlens_padded must be [segments + 1], got shape {tuple(cu_seqlens_padded.shape)}"
        )
    if cu_seqlens_padded.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"cu_seqlens_padded must be int32 or int64, got {cu_seqlens_padded.dtype}")
    if not isinstance(unpacked_seqlen, Integral):
        raise TypeError(f"unpacked_seqlen must be an integer, got {unpacked_seqlen!r}")
    if unpacked_seqlen < 1:
        raise ValueError(f"unpacked_seqlen must be at least 1, got {unpacked_seqlen}")
    segments = cu_seqlens_padded.shape[0] - 1
    if attention_mask is not None and attention_mask.shape != (segments, unpacked_seqlen):
        raise ValueError(
            f"attention_mask {tuple(attention_mask.shape)} must be [segments, unpacked_seqlen] = "
            f"({segments}, {unpacked_seqlen})"
        )


def row_lengths(sub_seq_lengths: Iterable[Iterable[int]]) -> list[list[int]]:
    """The true lengths of each row's segments, as plain integers. TypeError unless they are."""
    try:
        return [[index(length) for length in row] for row in sub_seq_lengths]
    except TypeError:
        raise TypeError(
            f"sub_seq_lengths must be a list of integers for each row, got {sub_seq_lengths!r:.60}"
        ) from None


def segment_lengths(
    offsets: torch.Tensor,
    true_lengths: torch.Tensor | Sequence[Sequence[int]],
    total: int,
    cp_size: int,
) -> list[int]:
    """The padded length of each segment, once all of them have been seen to fit.

    ``true_lengths``: a tensor [segments], or sub-sequence lengths per row. One read of the
    device, of both together. Raises ValueError.
    """
    if isinstance(true_lengths, torch.Tensor):
        values = torch.cat([offsets, true_lengths]).tolist()
        bounds, true = values[: offsets.shape[0]], values[offsets.shape[0] :]
    else:
        bounds = offsets.tolist()
        true = [length for row in true_lengths for length in row]
    if bounds[0] != 0 or bounds[-1] != total:
        raise ValueError(
            f"cu_seqlens_padded must go from 0 to target's {total} tokens, "
            f"got {bounds[0]} to {bounds[-1]}"
        )
    lengths = [after - before for before, after in pairwise(bounds)]
    if len(true) != len(lengths):
        raise ValueError(
            f"sub_seq_lengths describes {len(true)} segments, cu_seqlens_padded {len(lengths)}"
        )
    for number, (length, valid) in enumerate(zip(lengths, true, strict=True)):
        if length < 0:
            raise ValueError(f"cu_seqlens_padded decreases at segment {number}")
        if cp_size > 1 and length % (2 * cp_size):
            raise ValueError(
                f"segment {number} has {length} tokens with padding, "
                f"not a multiple of 2·CP = {2 * cp_size}"
            )
        if not 0 <= valid <= length:
            raise ValueError(f"segment {number} has {valid} true tokens, but {length} with padding")
    return lengths
