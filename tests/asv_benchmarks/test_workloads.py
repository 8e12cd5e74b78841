"""The shapes: derived counts, frozen parameters, what runs where."""

from __future__ import annotations

import itertools

from asv_benchmarks import workloads
from asv_benchmarks.workloads import (
    MODELS,
    SIX,
    SMOKE,
    SWEEP_MODELS,
    TENSOR_PARALLEL,
    TOKENS,
    Workload,
    local_shapes,
    pair_layouts,
    runs_on,
    spread_shapes,
    sweep,
)

ALL = [Workload(*params) for params in itertools.product(MODELS, TOKENS, TENSOR_PARALLEL)]


def test_the_sweep_is_200_cases_in_104_local_shapes() -> None:
    cases = list(sweep())
    assert len(cases) == len(set(cases)) == 200
    assert {layout.model for layout in cases} == set(SWEEP_MODELS)
    assert all(layout.tp * layout.cp <= 8 for layout in cases)
    assert len(local_shapes()) == 104
    assert {layout.local for layout in cases} == set(local_shapes())


def test_the_heads_are_those_of_the_papers() -> None:
    shapes = {head.name: (head.hidden, head.vocab) for head in workloads.HEADS}
    assert shapes["nemotron-ultra"] == (8192, 131072)
    assert shapes["nemotron-super"] == (4096, 131072)
    assert shapes["qwen3.6-35b-a3b"] == (2048, 248320)
    assert shapes["kimi-k2"] == (7168, 163840)


def test_parameters_only_ever_grow_at_the_end() -> None:
    # A removed or reordered value would erase or shift stored results.
    assert MODELS[:6] == (*SWEEP_MODELS, "smoke", "smoke-odd")
    assert TOKENS[:8] == tuple(2**power for power in range(11, 19))
    assert TENSOR_PARALLEL[:4] == (1, 2, 4, 8)


def test_combined_is_held_against_two_passes_at_120_points() -> None:
    points = pair_layouts()
    assert len(set(points)) == 120
    assert {(layout.tp, layout.cp) for layout in points} == set(workloads.PAIR_SPLITS)
    assert {layout.local for layout in points} <= set(local_shapes())
    assert len({layout.local for layout in points}) == 96


def test_the_spread_is_28_of_the_local_shapes_from_end_to_end() -> None:
    spread = spread_shapes()
    assert len(set(spread)) == 28
    assert set(spread) <= set(local_shapes())
    assert {w.tp for w in spread} == {1, 2, 4, 8}
    assert {min(w.tokens for w in spread), max(w.tokens for w in spread)} == {2048, 262144}


def test_six_are_the_shapes_with_published_ceilings() -> None:
    assert [(w.m, w.h, w.v) for w in SIX] == [
        (8192, 8192, 131072),
        (8192, 4096, 131072),
        (8192, 2048, 248320),
        (8192, 7168, 163840),
        (16384, 4096, 32768),
        (32768, 2048, 62080),
    ]


def test_a_cpu_runs_the_smoke_shapes_and_nothing_else() -> None:
    assert [w for w in ALL if runs_on(w, "cpu")] == list(SMOKE)


def test_void_combinations_run_nowhere() -> None:
    assert not runs_on(Workload("smoke", 4096, 1), "gpu")
    assert not runs_on(Workload("smoke-odd", 2048, 2), "gpu")
    assert all(runs_on(w, "gpu") for w in ALL if w.model in SWEEP_MODELS)
