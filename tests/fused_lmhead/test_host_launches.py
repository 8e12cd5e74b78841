"""What a call costs the host: launches that skip Triton's search for the kernel, unchecked
descriptors, no autograd where nothing learns. And that none of it changes what is launched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

from fused_lmhead import fused_linear_logprob
from fused_lmhead.autograd import FusedLinearLogprob


@pytest.fixture(scope="module")
def seen(printed_by) -> dict[str, Any]:
    """What ``host_process.py`` printed."""
    pytest.importorskip("triton")
    from fused_lmhead.launching import _known_protocol

    if not _known_protocol():
        pytest.skip("this Triton's launches are the ordinary ones")
    return printed_by("host_process.py")


def test_the_kernel_and_its_arguments_are_those_that_triton_would_launch(seen):
    compared = seen["same as Triton"]
    assert compared["wrong"] == []
    # The changes do need different kernels: what is remembered tells them apart.
    assert compared["variants"] > 15
    # Integers beyond 32 bits, of which Triton makes other types.
    assert compared["never quick"] == [14, 21, 22]


def test_device_stream_hooks_debugging_and_version_are_respected(seen):
    noted = seen["circumstances"]
    assert noted.pop("pre-run hooks called") == 4
    noted.setdefault("instrumented", {"same": True, "ordinary": 1, "function": None})
    assert all(each["same"] for each in noted.values())
    # Of three launches: with hooks, or a Triton whose protocol is unknown, all are ordinary.
    assert {name: each["ordinary"] for name, each in noted.items()} == {
        "plain": 0,
        "other device": 1,
        "other stream": 0,
        "hook": 3,
        "debug": 1,
        "instrumented": 1,
        "plain again": 0,
        "pre-run hook": 3,
        "unknown Triton": 3,
        "known Triton": 0,
    }
    plain = noted["plain"]
    for other in ("other device", "debug", "instrumented"):
        assert noted[other]["function"] != plain["function"]
    assert noted["plain again"]["function"] == plain["function"]
    assert noted["other stream"]["stream"] != plain["stream"]
    assert noted["hook"]["hooks"] == 1


def test_both_passes_give_the_c_function_what_triton_would(seen):
    same = seen["same passes as Triton"]
    assert set(same) == {
        "partials_kernel",
        "partials_kernel that keeps",
        "merge_kernel",
        "logit_gradient_kernel",
        "partials_specialised_kernel",
        "partials_specialised_kernel that keeps",
        "logit_gradient_specialised_kernel",
    }
    assert all(all(each) for each in same.values())


def test_very_small_temperatures_go_to_the_plain_kernels(seen):
    specialised = ["partials_specialised_kernel", "logit_gradient_specialised_kernel"]
    assert seen["by temperature"] == {
        "1.0": specialised,
        "0.0001": specialised,
        "1e-05": ["partials_kernel", "logit_gradient_kernel"],
    }


def test_tile_kernels_are_not_compiled_for_each_band(seen):
    assert seen["by band"] == {"partials_kernel": 1, "logit_gradient_kernel": 1}


def test_threads_launch_their_own(seen):
    assert seen["threads"] == {"launched": 1600, "functions of aligned": 1, "functions": 2}


def test_descriptors_are_triton_s_own(seen):
    assert all(seen["descriptors"]["same"])
    assert all(seen["descriptors"]["none"])
    # A box that Triton refuses is refused each time.
    assert seen["descriptors"]["refused"] == ["Shape element 0 must be a power of 2"] * 2


@pytest.mark.parametrize("kind", ["tile", "specialised"])
def test_no_descriptor_outlives_or_outdates_its_tensor(seen, kind: str):
    found = seen["tensors"][kind]
    assert found["described"] == [True] * 6  # two weights in turn
    assert found["freed"] == [True, True]  # the weight, hidden
    assert found["same address"] == [
        [True, 9, [512, 256]],  # bfloat16
        [True, 9, [256, 512]],
        [True, 6, [512, 256]],  # float16
    ]


def test_a_warm_call_costs_few_calls_of_python(seen):
    effort = seen["effort"]
    assert effort["ordinary"] == {}  # other lengths too
    # Counted, so not a matter of how busy a machine is. Before: 154, 119 and 17; now 75, 44, 10.
    assert effort["python calls"]["call"] <= 80
    assert effort["python calls"]["backward"] <= 50
    assert effort["python calls"]["launch"] < effort["python calls"]["launch by Triton"]


def test_a_warm_call_encodes_no_tensor_map(seen):
    assert seen["effort"]["maps encoded again"] == 0


def test_another_length_of_a_bucket_costs_a_plan_and_nothing_else(seen):
    lengths = seen["effort"]["new lengths"]
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


HIDDEN, WEIGHT = torch.randn(2, 3, 8), torch.randn(10, 8)
TARGET = torch.tensor([[0, 9, 3], [-100, 10, 5]])


@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("ignore_index", [None, -100])
def test_without_gradients_autograd_stands_aside(
    monkeypatch: pytest.MonkeyPatch, entropy: bool, ignore_index: int | None
):
    options = {"return_entropy": entropy, "ignore_index": ignore_index, "backend": "torch"}
    leaf = HIDDEN.clone().requires_grad_()
    learnt = fused_linear_logprob(leaf, WEIGHT, TARGET, **options)
    applied: list[object] = []
    real = FusedLinearLogprob.apply
    monkeypatch.setattr(
        FusedLinearLogprob, "apply", lambda *args: applied.append(args) or real(*args)
    )
    plain = fused_linear_logprob(HIDDEN, WEIGHT, TARGET, **options)
    with torch.no_grad():
        unlearnt = fused_linear_logprob(leaf, WEIGHT, TARGET, **options)
    with torch.inference_mode():
        inferred = fused_linear_logprob(HIDDEN, WEIGHT, TARGET, **options)
    assert not applied
    for found in (plain, unlearnt, inferred):
        pairs = zip(found, learnt, strict=True) if entropy else [(found, learnt)]
        for mine, with_graph in pairs:
            assert not mine.requires_grad
            assert mine.grad_fn is None
            assert mine.shape == TARGET.shape
            assert torch.equal(mine, with_graph.detach())
    fused_linear_logprob(leaf, WEIGHT, TARGET, **options)
    fused_linear_logprob(HIDDEN, leaf[0, :, :].detach().requires_grad_(), TARGET, **options)
    assert len(applied) == 2


def test_budgets_may_be_symbols_of_a_trace():
    pytest.importorskip("triton")

    @torch.compile(backend="aot_eager", dynamic=True, fullgraph=True)
    def compiled(budget: int, kept: int) -> torch.Tensor:
        return fused_linear_logprob(
            leaf, WEIGHT, TARGET, backend="triton", backward_budget=budget, keep_logits_budget=kept
        )

    leaf = HIDDEN.clone().requires_grad_()
    expected = fused_linear_logprob(leaf, WEIGHT, TARGET, backend="triton")
    for budget, kept in ((2**30, 0), (2**29, 100), (2**28, 10**6)):
        torch.testing.assert_close(compiled(budget, kept), expected)


@pytest.mark.parametrize("which", ["hidden", "weight"])
def test_a_tangent_is_refused_rather_than_dropped(which: str):
    inputs = {"hidden": HIDDEN, "weight": WEIGHT}
    with forward_ad.dual_level(), torch.no_grad():
        inputs[which] = forward_ad.make_dual(inputs[which], torch.ones_like(inputs[which]))
        with pytest.raises(NotImplementedError, match="forward-mode"):
            fused_linear_logprob(**inputs, target=TARGET, backend="torch")


def test_results_of_a_flat_call_share_nothing_with_its_inputs():
    hidden, target = HIDDEN.flatten(0, 1).clone(), TARGET.flatten().clone()
    found, entropy = fused_linear_logprob(
        hidden, WEIGHT, target, return_entropy=True, backend="torch"
    )
    before = entropy.clone()
    found.zero_()
    assert torch.equal(entropy, before)
    assert torch.equal(hidden, HIDDEN.flatten(0, 1))
    assert torch.equal(target, TARGET.flatten())
