"""Where tokens lie and where values go, against loops over lists. No process group."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parallel_cases import zigzag_by_hand

from fused_lmhead.parallel.unpacking import (
    destinations,
    rows_of_segments,
    rows_of_sub_sequences,
    unpack,
)
from fused_lmhead.parallel.zigzag import even_offsets, next_positions, zigzag_positions

LENGTHS = st.lists(st.integers(0, 6), max_size=7)
CP = st.sampled_from([1, 2, 3, 4, 8])


def offsets_of(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int64)


@given(chunks=LENGTHS, cp_size=CP)
def test_ranks_hold_mirrored_chunks_of_each_segment(chunks: list[int], cp_size: int):
    lengths = [2 * cp_size * chunk for chunk in chunks] if cp_size > 1 else chunks
    total = sum(lengths)
    positions = zigzag_positions(offsets_of(lengths), cp_size, total)
    assert positions.shape == (cp_size, total // cp_size)
    assert positions.tolist() == [zigzag_by_hand(lengths, cp_size, r) for r in range(cp_size)]
    assert sorted(positions.flatten().tolist()) == list(range(total))


@given(lengths=LENGTHS)
def test_the_next_token_is_of_the_same_segment(lengths: list[int]):
    expected, first = [], 0
    for length in lengths:
        expected += [first + (offset + 1) % length for offset in range(length)]
        first += length
    assert next_positions(offsets_of(lengths), sum(lengths)).tolist() == expected


def test_a_padded_batch_has_even_segments():
    assert even_offsets(3, 4, torch.device("cpu")).tolist() == [0, 4, 8, 12]


SEGMENTS = st.lists(
    st.integers(0, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), max_size=6
)


def filled(values: torch.Tensor, places: torch.Tensor, rows: int, columns: int) -> list:
    return unpack(values, places, rows, columns).tolist()


@given(segments=SEGMENTS, columns=st.integers(0, 7))
def test_each_segment_fills_its_own_row(segments, columns: int):
    valid, padded = [v for v, _ in segments], [n for _, n in segments]
    offsets, total = offsets_of(padded), sum(padded)
    values = torch.arange(1.0, total + 1)
    expected, first = [], 0
    for true, length in segments:
        row = [0.0] * columns
        for j in range(min(true - 1, columns)):
            row[j] = float(values[first + j])
        expected.append(row)
        first += length
    rows = rows_of_segments(torch.tensor(valid, dtype=torch.int64))
    places = destinations(offsets, total, columns, rows)
    assert filled(values, places, len(segments), columns) == expected


@given(segments=SEGMENTS, data=st.data())
def test_a_mask_says_where_in_the_row(segments, data):
    widest = max((n for _, n in segments), default=0) + 2
    valid, padded = [v for v, _ in segments], [n for _, n in segments]
    mask = torch.zeros(len(segments), widest, dtype=torch.bool)
    for row, true in enumerate(valid):
        columns = data.draw(st.permutations(range(widest)))[:true]
        mask[row, columns] = True
    offsets, total = offsets_of(padded), sum(padded)
    values = torch.arange(1.0, total + 1)
    expected, first = [], 0
    for row, length in enumerate(padded):
        line = [0.0] * (widest - 1)
        places = mask[row].nonzero().flatten().tolist()
        for j in range(len(places) - 1):
            line[places[j]] = float(values[first + j])
        expected.append(line)
        first += length
    rows = rows_of_segments(mask.sum(dim=1))
    places = destinations(offsets, total, widest - 1, rows, mask)
    assert filled(values, places, len(segments), widest - 1) == expected


@given(batch=st.lists(SEGMENTS, max_size=4), columns=st.integers(0, 12))
def test_sub_sequences_follow_each_other_at_their_padded_lengths(batch, columns: int):
    padded = [n for row in batch for _, n in row]
    true_lengths = [[v for v, _ in row] for row in batch]
    offsets, total = offsets_of(padded), sum(padded)
    values = torch.arange(1.0, total + 1)
    expected, first = [], 0
    for row in batch:
        line, column = [0.0] * columns, 0
        for true, length in row:
            for j in range(true - 1):
                if column + j < columns:
                    line[column + j] = float(values[first + j])
            first += length
            column += length
        expected.append(line)
    rows = rows_of_sub_sequences(padded, true_lengths, torch.device("cpu"))
    places = destinations(offsets, total, columns, rows)
    assert filled(values, places, len(batch), columns) == expected


def test_gradients_go_back_the_way_the_values_came():
    offsets = offsets_of([3, 2])
    rows = rows_of_segments(torch.tensor([2, 2]))
    places = destinations(offsets, 5, 3, rows)
    values = torch.arange(1.0, 6.0, requires_grad=True)
    upstream = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    (gradient,) = torch.autograd.grad(unpack(values, places, 2, 3), values, upstream)
    assert gradient.tolist() == [1.0, 0.0, 0.0, 4.0, 0.0]


def test_differing_numbers_of_segments_do_not_pass():
    with pytest.raises(ValueError, match="argument"):
        rows_of_sub_sequences([4, 4], [[3]], torch.device("cpu"))
