"""What a call costs the host once its kernels are there, counted rather than timed."""

from __future__ import annotations

from typing import Any

import pytest
import torch


@pytest.fixture(scope="module")
def seen(printed_by, quick_launches) -> dict[str, Any]:
    """What ``host_effort_process.py`` printed."""
    return printed_by("host_effort_process.py")


def test_a_warm_call_costs_few_calls_of_python(seen):
    assert seen["ordinary"] == {}  # other lengths too
    # Counted, so not a matter of how busy a machine is. Before: 154, 119 and 17; now 78, 49, 11.
    assert seen["python calls"]["call"] <= 80
    assert seen["python calls"]["backward"] <= 50
    assert seen["python calls"]["launch"] < seen["python calls"]["launch by Triton"]


def test_a_warm_call_encodes_no_tensor_map(seen):
    assert seen["maps encoded again"] == 0


def test_another_length_of_a_bucket_costs_a_plan_and_nothing_else(seen):
    lengths = seen["new lengths"]
    assert lengths["tiles settled"] == [128, 128]  # once for each pass
    assert lengths["ordinary"] == {}
    assert lengths["python calls more"] <= 35  # one of them encodes hidden's tensor map


def test_a_bucket_is_chosen_for_once_whatever_its_lengths(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("triton")
    from fused_lmhead import tuning
    from fused_lmhead.schedules import Schedule, plan
    from fused_lmhead.tuning import plans
    from fused_lmhead.tuning.cases import Case
    from fused_lmhead.tuning.gpus import gpu_of

    tuning.forget()
    chosen: list[tuple[str, int]] = []
    real = plans.choose
    monkeypatch.setattr(
        plans,
        "choose",
        lambda case, *rest: chosen.append((case.kernel, case.bucket)) or real(case, *rest),
    )
    ahead: list[object] = []
    monkeypatch.setattr(plans, "compile_ahead", lambda jobs, device: ahead.append(jobs))
    shape = (64, 1000, torch.float32)
    for m in range(1025, 1075):
        found = tuning.plan_for(m, *shape, torch.device("cpu"), True, launching="forward")
        assert found == plan(m, 64, 1000, 4, 1)
    assert chosen == [("forward", 2048), ("backward", 2048)]
    assert len(ahead) == 1
    tuning.plan_for(1024, *shape, torch.device("cpu"), True, launching="forward")
    assert len(chosen) == 4
    # What ranks agree on later counts at once, for lengths met and unmet.
    agreed = Schedule(16, 32, 16, 2, 4, 2)
    case = Case.of("forward", gpu_of(torch.device("cpu")), 1050, *shape, True)
    plans.keep(case, agreed)
    for m in (1050, 1100):
        found = tuning.plan_for(m, *shape, torch.device("cpu"), True, launching="forward")
        assert found.forward == agreed
    tuning.forget()
