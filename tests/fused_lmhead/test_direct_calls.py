"""Calls in which nothing learns go past autograd, with the same results."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

from fused_lmhead import fused_linear_logprob
from fused_lmhead.autograd import FusedLinearLogprob

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
