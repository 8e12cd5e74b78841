"""The shapes and tiers: derived counts, frozen parameters, selection without processes."""

from __future__ import annotations

import itertools
import re

import pytest

from asv_benchmarks import workloads
from asv_benchmarks.tiers import expression, main
from asv_benchmarks.workloads import (
    MODELS,
    SWEEP_MODELS,
    TENSOR_PARALLEL,
    TIERS,
    TOKENS,
    Workload,
    local_shapes,
    runs_on,
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


def test_six_are_the_shapes_with_published_ceilings() -> None:
    assert [(w.m, w.h, w.v) for w in TIERS["six"]] == [
        (8192, 8192, 131072),
        (8192, 4096, 131072),
        (8192, 2048, 248320),
        (8192, 7168, 163840),
        (16384, 4096, 32768),
        (32768, 2048, 62080),
    ]


def test_every_tier_is_made_of_declared_parameters_that_run_on_a_gpu() -> None:
    for tier in TIERS.values():
        assert set(tier) <= set(ALL)
        assert len(set(tier)) == len(tier)
        assert all(runs_on(workload, "gpu") for workload in tier)


def test_a_cpu_runs_the_smoke_tier_and_nothing_else() -> None:
    assert [w for w in ALL if runs_on(w, "cpu")] == list(TIERS["smoke"])


def test_void_combinations_run_nowhere() -> None:
    assert not runs_on(Workload("smoke", 4096, 1), "gpu")
    assert not runs_on(Workload("smoke-odd", 2048, 2), "gpu")
    assert all(runs_on(w, "gpu") for w in ALL if w.model in SWEEP_MODELS)


@pytest.mark.parametrize("tier", sorted(TIERS))
def test_a_tiers_expression_selects_exactly_its_workloads(tier: str) -> None:
    matched = [
        w for w in ALL if re.search(expression(tier), f"forward.Forward.track_time({w.label})")
    ]
    assert set(matched) == set(TIERS[tier])


def test_an_expression_can_name_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    main(["smoke", "--benchmarks", "entropy|control"])
    printed = capsys.readouterr().out.strip()
    params = "('smoke', 2048, 1)"
    assert re.search(printed, f"entropy.TwoPass.track_time{params}")
    assert re.search(printed, f"control.Control.track_time{params}")
    assert not re.search(printed, f"forward.Forward.track_time{params}")
    assert not re.search(printed, "control.Control.track_time('smoke', 4096, 1)")


def test_an_unknown_tier_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["sm0ke"])
    assert caught.value.code == 2
    assert "sm0ke" in capsys.readouterr().err
