"""Where the tokens of packed sequences lie: pure functions of the segments' offsets.

Legend: T tokens of all segments, padding included; CP ranks of the context-parallel group;
n = T/CP tokens of one rank. Segments are given by ``offsets`` [segments + 1], int64: segment
i is [offsets[i], offsets[i+1]). A padded batch [B, S] is B segments of S tokens each.

With CP > 1 each segment is cut into 2·CP equal chunks; rank r holds chunks r and 2·CP-1-r,
so that under a causal mask every rank has the same attention work.
"""

from __future__ import annotations

import torch


def segment_numbers(lengths: torch.Tensor, total: int) -> torch.Tensor:
    """The segment of each of ``total`` tokens, int64. Does not wait for the device."""
    numbers = torch.arange(lengths.shape[0], device=lengths.device)
    return torch.repeat_interleave(numbers, lengths, output_size=total)


def next_positions(offsets: torch.Tensor, total: int) -> torch.Tensor:
    """For each of the T = ``total`` tokens the next one of its segment; for the last, the first."""
    segment_T = segment_numbers(offsets.diff(), total)
    following_T = torch.arange(1, total + 1, device=offsets.device)
    wraps_T = following_T == offsets[1:][segment_T]
    return following_T.where(~wraps_T, offsets[:-1][segment_T])


def zigzag_positions(offsets: torch.Tensor, cp_size: int, total: int) -> torch.Tensor:
    """The global position of every rank's every token, [CP, n] int64: a permutation of T.

    Each segment's length must divide by 2·CP where CP > 1.
    """
    if cp_size == 1:
        return torch.arange(total, device=offsets.device).unsqueeze(0)
    chunks = offsets.diff() // (2 * cp_size)
    segment_n = segment_numbers(2 * chunks, total // cp_size)
    chunk_n = chunks[segment_n]
    offset_n = torch.arange(total // cp_size, device=offsets.device)
    offset_n = offset_n - (offsets[:-1] // cp_size)[segment_n]
    in_second_n = offset_n >= chunk_n
    rank_C1 = torch.arange(cp_size, device=offsets.device).unsqueeze(1)
    number_Cn = torch.where(in_second_n, 2 * cp_size - 1 - rank_C1, rank_C1)
    return offsets[:-1][segment_n] + number_Cn * chunk_n + offset_n - in_second_n * chunk_n


def even_offsets(rows: int, length: int, device: torch.device) -> torch.Tensor:
    """The offsets of ``rows`` segments of ``length`` tokens: a padded batch as a packed one."""
    return torch.arange(rows + 1, device=device) * length
