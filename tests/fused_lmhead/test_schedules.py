"""Plans are pure functions of the shape: bounds and waves, no GPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fused_lmhead import describe_schedule
from fused_lmhead.schedules import (
    BACKWARD_WORKSPACE,
    FORWARD_WORKSPACE,
    ceil_div,
    plan,
)

HEADS = [(8192, 131072), (4096, 131072), (2048, 248320), (7168, 163840), (2880, 201088)]


@pytest.mark.parametrize("tokens", [2048, 32768, 262144])
@pytest.mark.parametrize("tp", [1, 8])
@pytest.mark.parametrize(("h", "v"), HEADS)
def test_workspaces_stay_within_their_bounds(h: int, v: int, tp: int, tokens: int):
    chosen = plan(tokens, h, v // tp, 2, 132)
    tiles_n = ceil_div(v // tp, chosen.forward.block_n)
    assert 12 * tiles_n * min(tokens, chosen.tokens_per_chunk) <= FORWARD_WORKSPACE
    assert 2 * tokens * chosen.columns_per_split <= BACKWARD_WORKSPACE


@given(
    m=st.integers(1, 2**20),
    v=st.integers(1, 300_000),
    element_size=st.sampled_from([2, 4]),
    multiprocessors=st.integers(1, 200),
)
def test_any_shape_has_a_plan_of_whole_tiles(m: int, v: int, element_size: int, multiprocessors):
    chosen = plan(m, 4096, v, element_size, multiprocessors)
    assert chosen.tokens_per_chunk % chosen.forward.block_m == 0
    assert chosen.tokens_per_chunk >= chosen.forward.block_m
    assert 1 <= chosen.columns_per_split <= v
    assert chosen.columns_per_split == v or chosen.columns_per_split % chosen.forward.block_n == 0


def test_splits_fill_whole_waves_where_they_can():
    chosen = plan(8192, 4096, 131072, 2, 132)
    programs = 8192 // chosen.forward.block_m * chosen.columns_per_split // chosen.forward.block_n
    assert programs % 132 == 0


def test_the_choice_can_be_asked_for():
    pytest.importorskip("triton")
    described = describe_schedule(8192, 4096, 131072, torch.bfloat16, "cpu")
    assert described["block_m"] * described["block_n"] == 256 * 128
    assert described["tokens_per_chunk"] == 8192
