"""Schedules and plans are pure functions of shape and GPU: bounds, waves, memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fused_lmhead import describe_schedule
from fused_lmhead.schedules import (
    BACKWARD_WORKSPACE,
    FORWARD_WORKSPACE,
    HOPPER,
    Gpu,
    Schedule,
    ceil_div,
    plan,
    shared_memory,
    tile_schedule,
    token_bucket,
)

HEADS = [(8192, 131072), (4096, 131072), (2048, 248320), (7168, 163840), (2880, 201088)]

# Shared memory that Triton 3.6 gave the forward and the backward kernel, in bf16: for sm_90
# with TMA, for sm_80 without.
COMPILED = [
    (Schedule(128, 256, 64, 16, 8, 3), 147_480, 98_304),
    (Schedule(256, 128, 64, 8, 8, 4), 196_640, 147_456),
    (Schedule(128, 256, 128, 16, 8, 2), 196_624, 98_304),
    (Schedule(128, 256, 32, 16, 8, 4), 98_336, 73_728),
    (Schedule(128, 128, 32, 8, 8, 3), 49_176, 32_768),
    (Schedule(64, 256, 64, 16, 4, 3), 122_904, 81_920),
    (Schedule(64, 64, 32, 8, 4, 2), 16_400, 8_192),
]


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


def test_each_pass_is_planned_for_its_own_tiles():
    wide, narrow = Schedule(128, 256, 64, 16, 8, 3), Schedule(64, 64, 32, 16, 4, 2)
    chosen = plan(2**18, 4096, 131072, 2, 132, wide, narrow)
    assert (chosen.forward, chosen.backward) == (wide, narrow)
    assert chosen.tokens_per_chunk == plan(2**18, 4096, 131072, 2, 132, wide).tokens_per_chunk
    assert chosen.columns_per_split == plan(2**18, 4096, 131072, 2, 132, narrow).columns_per_split


@pytest.mark.parametrize(
    ("tokens", "bucket"),
    [(20_000, 32_768), (40_000, 65_536), (32_768, 32_768), (32_769, 65_536), (1, 128), (129, 256)],
)
def test_buckets_are_powers_of_two(tokens: int, bucket: int):
    assert token_bucket(tokens) == bucket


@pytest.mark.parametrize(("schedule", "with_tma", "without"), COMPILED, ids=str)
def test_shared_memory_is_what_compiled_kernels_take_at_most(schedule, with_tma, without):
    estimate = shared_memory(schedule, 2, tma=True)
    assert with_tma <= estimate <= with_tma + 1024
    estimate = shared_memory(schedule, 2, tma=False)
    # The output tile goes through it too, which sm_80's kernels store directly.
    assert without <= estimate <= max(without, 2 * schedule.block_m * schedule.block_n) + 1024


@pytest.mark.parametrize("limit", [232_448, 166_912, 101_376, 65_536, 49_152])
@pytest.mark.parametrize("element_size", [2, 4])
def test_the_rule_fits_small_cards(limit: int, element_size: int):
    gpu = Gpu("a card", 80, limit, tma=limit > 200_000)
    tile = tile_schedule(4096, element_size, gpu)
    assert shared_memory(tile, element_size, gpu.tma) <= limit


def test_the_rule_for_hopper_is_the_default():
    assert tile_schedule(4096, 2) == tile_schedule(4096, 2, HOPPER)
    plain = replace(HOPPER, hopper=False)
    assert tile_schedule(2048, 2, plain).group_m > tile_schedule(4096, 2, plain).group_m


def test_the_choice_can_be_asked_for():
    pytest.importorskip("triton")
    described = describe_schedule(8192, 4096, 131072, torch.bfloat16, "cpu")
    assert described["block_m"] * described["block_n"] == 256 * 128
    assert described["tokens_per_chunk"] == described["tokens_per_split"] == 8192
    described = describe_schedule(262_144, 2048, 31_040, torch.bfloat16, "cpu")
    assert described["tokens_per_split"] == 16_384  # of all columns
    assert described["columns_per_split"] < 31_040
