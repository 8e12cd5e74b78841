"""How a backward pass cuts its logit gradient: pure functions of shape and budget."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fused_lmhead.memory import (
    NARROWEST_SPLIT,
    backward_bytes,
    backward_cut,
    forward_bytes,
    split_columns,
)
from fused_lmhead.schedules import Plan, Schedule, plan

MIB, GIB = 2**20, 2**30
SMALL = Schedule(32, 32, 16, 2, 4, 2)

# The sweep: heads x total tokens x (TP, CP), as the distinct shapes that one rank sees.
HEADS = [(8192, 131072), (4096, 131072), (2048, 248320), (7168, 163840)]
TOTALS = [16384, 32768, 65536, 131072, 262144]
SPLITS = [(tp, cp) for tp in (1, 2, 4, 8) for cp in (1, 2, 4, 8) if tp * cp <= 8]
LOCAL_SHAPES = sorted(
    {
        (total // cp, h, v // tp)
        for (h, v), total, (tp, cp) in itertools.product(HEADS, TOTALS, SPLITS)
    }
)
NEEDS = [(True, True), (True, False), (False, True)]


def cut_of(m: int, v: int, size: int, chosen: Plan, budget: int, *needs: bool, **options):
    columns = chosen.columns_per_split
    return backward_cut(m, v, size, chosen.backward, columns, budget, *needs, **options)


def test_the_sweep_has_104_local_shapes():
    assert len(LOCAL_SHAPES) == 104
    assert max(m for m, _, _ in LOCAL_SHAPES) == 262144


@pytest.mark.parametrize("multiprocessors", [78, 108, 132])
@pytest.mark.parametrize("budget", [256 * MIB, GIB, 4 * GIB])
def test_workspaces_keep_to_their_bounds_at_every_local_shape(budget: int, multiprocessors: int):
    for m, h, v in LOCAL_SHAPES:
        chosen = plan(m, h, v, 2, multiprocessors)
        block_n = chosen.forward.block_n
        assert forward_bytes(m, v, block_n, chosen.tokens_per_chunk, True) <= 256 * MIB
        for needs in NEEDS:
            cut = cut_of(m, v, 2, chosen, budget, *needs)
            assert 2 * cut.tokens * cut.row <= budget
            whole = (cut.tokens, cut.columns) == (m, v)
            total = 4 * min(m, v) * h if needs == (True, True) and not whole else 0
            # 8·M: upstream gradients as plain rows.
            assert backward_bytes(m, h, v, 2, cut, *needs) <= budget + 8 * m + total
            assert cut.columns == v or cut.columns % chosen.backward.block_n == 0
            assert cut.tokens == m or cut.tokens % chosen.backward.block_m == 0


@pytest.mark.parametrize("budget", [256 * MIB, GIB, 4 * GIB])
def test_what_sums_less_is_cut_at_every_local_shape(budget: int):
    seen = set()
    for m, h, v in LOCAL_SHAPES:
        chosen = plan(m, h, v, 2, 132)
        both, hidden, weight = (cut_of(m, v, 2, chosen, budget, *needs) for needs in NEEDS)
        assert (both.columns == v) if v < m else (both.tokens == m)
        assert hidden.columns == v
        assert weight.tokens == m
        if 2 * m * v <= budget:
            assert hidden.tokens == m
        assert (both.tokens < m) == (v < m and 2 * m * v > budget)
        seen.add((both.tokens < m, both.columns < v))
    assert seen >= {(True, False), (False, True)}


def test_the_cut_of_many_tokens_and_a_small_shard():
    m, v = 262_144, 31_040
    cut = cut_of(m, v, 2, plan(m, 2048, v, 2, 132), GIB)
    # 17,280 tokens would fit; sixteen even chunks take 16,384.
    assert cut[:3] == (16_384, v, v)
    assert backward_bytes(m, 2048, v, 2, cut) == 2 * 16_384 * v + 8 * m + 4 * v * 2048
    assert [block.tokens.start for block in cut.blocks] == list(range(0, m, 16_384))


def test_kept_logits_are_cut_by_columns_alone():
    m, v = 262_144, 31_040
    chosen = plan(m, 2048, v, 2, 132)
    for needs in NEEDS:
        kept = cut_of(m, v, 2, chosen, GIB, *needs, aligned=False, keeps=True)
        assert (kept.tokens, kept.columns) == (m, chosen.columns_per_split)


def test_a_budget_below_a_tile_of_tokens_cuts_the_vocabulary():
    chosen = plan(4000, 64, 1001, 2, 132, SMALL)
    least = 2 * 32 * 1008
    assert cut_of(4000, 1001, 2, chosen, 3 * least)[:3] == (96, 1001, 1008)
    assert cut_of(4000, 1001, 2, chosen, least)[:3] == (32, 1001, 1008)
    with pytest.raises(ValueError, match="too small for 4000 tokens: at least 128000 bytes"):
        cut_of(4000, 1001, 2, chosen, least - 1)
    chosen = plan(400, 64, 300, 2, 132, SMALL)
    assert cut_of(400, 300, 2, chosen, 2 * 32 * 304)[:3] == (32, 300, 304)
    assert cut_of(400, 300, 2, chosen, 2 * 32 * 304 - 1)[:3] == (400, 16, 16)


def test_rows_of_all_columns_are_aligned_where_there_is_room():
    chosen = plan(40, 64, 301, 2, 132, SMALL)
    assert cut_of(40, 301, 2, chosen, 2 * 40 * 304)[:3] == (40, 301, 304)
    assert cut_of(40, 301, 2, chosen, 2 * 40 * 304 - 1)[:3] == (40, 301, 301)
    # The last split of columns is as aligned as the others.
    narrow = cut_of(40, 301, 2, chosen, 2 * 40 * 128)
    assert [block.columns.stop for block in narrow.blocks] == [128, 256, 301]
    assert [block.row for block in narrow.blocks] == [128, 128, 48]
    loose = cut_of(40, 301, 2, chosen, 2 * 40 * 128, aligned=False)
    assert [block.row for block in loose.blocks] == [128, 128, 45]
    # fp32 takes four elements for it, and 300 columns are aligned as they are.
    assert cut_of(40, 301, 4, chosen, GIB).row == 304
    assert cut_of(40, 300, 4, chosen, GIB).row == 300


def test_a_bigger_budget_makes_wider_splits_where_tokens_are_many():
    m, h, v = 262144, 4096, 131072
    chosen = plan(m, h, v, 2, 132)
    planned, block_n = chosen.columns_per_split, chosen.backward.block_n
    assert split_columns(m, v, 2, block_n, planned, GIB) == planned
    assert split_columns(m, v, 2, block_n, planned, 4 * GIB) == 4 * planned


@given(
    m=st.integers(1, 2**20),
    v=st.integers(1, 300_000),
    element_size=st.sampled_from([2, 4]),
    budget=st.integers(1, 2**36),
)
def test_a_split_fits_any_budget_or_says_why_not(m: int, v: int, element_size: int, budget: int):
    chosen = plan(m, 4096, v, element_size, 132)
    block_n, planned = chosen.backward.block_n, chosen.columns_per_split
    if budget < min(planned, NARROWEST_SPLIT) * m * element_size:
        with pytest.raises(ValueError, match=f"backward_budget {budget} is too small for {m} tok"):
            split_columns(m, v, element_size, block_n, planned, budget)
        return
    columns = split_columns(m, v, element_size, block_n, planned, budget)
    assert 1 <= columns <= v
    assert columns * m * element_size <= budget
    assert columns == v or columns % NARROWEST_SPLIT == 0


@given(
    m=st.integers(1, 2**20),
    v=st.integers(1, 300_000),
    element_size=st.sampled_from([2, 4]),
    budget=st.integers(2**20, 2**36),
    needs=st.sampled_from(NEEDS),
)
def test_blocks_are_even_few_and_cover_everything_once(m, v, element_size, budget, needs):
    chosen = plan(m, 4096, v, element_size, 132)
    try:
        cut = cut_of(m, v, element_size, chosen, budget, *needs)
    except ValueError:
        assert 16 * m * element_size > budget
        return
    block_m = chosen.backward.block_m
    assert element_size * cut.tokens * cut.row <= budget
    assert cut.tokens == m or cut.columns == v
    at = [0, 0]
    for tokens, columns, row in cut.blocks:
        assert [tokens.start, columns.start] == at
        n = columns.stop - columns.start
        assert n <= row < n + 16 // element_size
        assert row * element_size % 16 == 0 or len(cut.blocks) == 1
        assert element_size * (tokens.stop - tokens.start) * row <= budget
        at = [0 if cut.tokens == m else tokens.stop, 0 if cut.columns == v else columns.stop]
    assert (tokens.stop, columns.stop) == (m, v)
    if cut.tokens < m:
        assert cut.tokens % block_m == 0
        most = budget // (element_size * cut.row) // block_m * block_m
        assert len(cut.blocks) == -(-m // cut.tokens) <= -(-m // most)
        # Even: a tile less in each would not do.
        assert (cut.tokens - block_m) * -(-m // most) < m
