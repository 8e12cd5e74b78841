"""Rows that overflow, vanish or are -inf, and labels that are no columns."""

from __future__ import annotations

import pytest
import torch
from problems import BACKENDS, Problem, fused, make_problem, oracle

from fused_lmhead import fused_linear_logprob
from fused_lmhead.reference import reference_linear_logprob
from fused_lmhead.schedules import Schedule


@pytest.mark.parametrize("offset", [1e4, -1e4])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_common_offset_costs_no_digits_beyond_fp32(backend: str, offset: float):
    problem = make_problem(32, 64, 300, torch.float32)
    # Multiples of 1/512: every logit stays exact beside the offset (fp32 steps there are
    # 1/1024), so the error is the softmax's own and not the product's rounding.
    problem.hidden.mul_(16).round_().div_(16)
    problem.weight.mul_(32).round_().div_(32)
    # One more hidden feature carries the same large value into every logit.
    hidden = torch.cat([problem.hidden, torch.full((32, 1), offset)], dim=1)
    weight = torch.cat([problem.weight, torch.ones(300, 1)], dim=1)
    logprob, entropy = fused_linear_logprob(
        hidden, weight, problem.target, return_entropy=True, backend=backend
    )
    expected = oracle(problem, 1.0, torch.float64)
    assert float((logprob.double() - expected.logprob).abs().max()) <= 2e-3
    assert float((entropy.double() - expected.entropy).abs().max()) <= 1e-4


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_hot_rows_are_finite_and_right(backend: str):
    weight = torch.eye(16) * 1000.0
    hidden = torch.eye(16)[:8].requires_grad_()
    target = torch.arange(8) + torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    logprob, entropy = fused_linear_logprob(
        hidden,
        weight,
        target,
        return_entropy=True,
        entropy_requires_grad=True,
        backend=backend,
    )
    assert logprob.tolist() == [0.0] * 4 + [-1000.0] * 4
    assert entropy.abs().max() <= 1e-6
    (d_hidden,) = torch.autograd.grad(logprob.sum() + entropy.sum(), hidden)
    assert d_hidden.isfinite().all()


@pytest.mark.parametrize("backend", [*BACKENDS, "reference"])
def test_labels_of_padded_columns_are_no_targets(backend: str):
    # The last tile of 301 columns pads up to column 511 at most: each is a label here.
    problem = make_problem(211, 16, 301, torch.float32)
    problem.target.copy_(torch.arange(301, 512))
    hidden = problem.hidden.requires_grad_()
    logprob = fused_linear_logprob(hidden, problem.weight, problem.target, backend=backend)
    assert logprob.abs().max() == 0
    (d_hidden,) = torch.autograd.grad(logprob, hidden, problem.grad_logprob)
    p = torch.softmax(problem.hidden @ problem.weight.T, -1).detach()
    expected = -problem.grad_logprob[:, None] * (p @ problem.weight)
    torch.testing.assert_close(d_hidden, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", [*BACKENDS, "reference"])
def test_strongly_negative_logits_are_finite_and_right(backend: str):
    problem = make_problem(16, 32, 100, torch.float32)
    # Every logit is below -1000: a maximum that started at 0 would find no probability.
    hidden = torch.cat([problem.hidden, torch.full((16, 1), -2048.0)], dim=1)
    weight = torch.cat([problem.weight, torch.ones(100, 1)], dim=1)
    shifted = Problem(hidden, weight, problem.target, problem.grad_logprob, problem.grad_entropy)
    got = fused(shifted, backend)
    expected = oracle(shifted, 1.0, torch.float64)
    for name, error in got.errors(expected).items():
        # fp32 steps at 2048 are 2.4e-4; d_weight's last column sums -2048 times errors of 1e-4.
        assert error <= (1.0 if name == "d_weight" else 5e-4), name


def masked(backend: str, dtype: torch.dtype, columns: slice):
    """Log-prob, entropy and weight gradient where the logits of ``columns`` are -inf."""
    problem = make_problem(
        8, 48, 96, dtype
    )  # several blocks of H: what one leaves the next adds to
    problem.hidden.abs_()
    problem.weight[columns] = float("-inf")
    problem.target.copy_(torch.arange(8))
    weight = problem.weight.requires_grad_()
    logprob, entropy = fused_linear_logprob(
        problem.hidden,
        weight,
        problem.target,
        return_entropy=True,
        entropy_requires_grad=True,
        backend=backend,
        **({"schedule": Schedule(32, 32, 16, 2, 4, 2)} if backend == "triton" else {}),
    )
    upstream = (problem.grad_logprob, problem.grad_entropy)
    (d_weight,) = torch.autograd.grad((logprob, entropy), weight, upstream)
    return problem, logprob.detach(), entropy.detach(), d_weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("backend", [*BACKENDS, "reference"])
def test_a_tile_of_minus_infinity_is_absent(backend: str, dtype: torch.dtype):
    problem, logprob, entropy, d_weight = masked(backend, dtype, slice(32, 64))
    weight = problem.weight.detach()
    present = torch.cat([weight[:32], weight[64:]]).requires_grad_()
    expected = reference_linear_logprob(
        problem.hidden, present, problem.target, entropy_requires_grad=True
    )
    tolerance = {"atol": 2e-6 if dtype is torch.float32 else 2e-3, "rtol": 0}
    torch.testing.assert_close(logprob, expected[0], **tolerance)
    torch.testing.assert_close(entropy, expected[1], **tolerance)
    (d_present,) = torch.autograd.grad(
        expected, present, (problem.grad_logprob, problem.grad_entropy)
    )
    assert d_weight[32:64].abs().max() == 0
    rest = torch.cat([d_weight[:32], d_weight[64:]])
    torch.testing.assert_close(rest, d_present, **{**tolerance, "atol": 2 * tolerance["atol"]})


@pytest.mark.parametrize("backend", [*BACKENDS, "reference"])
def test_a_row_of_minus_infinity_alone_is_not_a_number(backend: str):
    problem = make_problem(4, 16, 96, torch.float32)
    problem.hidden[1:].abs_()
    problem.hidden[0] = 0.0
    problem.hidden[2, 0] = float("-inf")
    problem.weight.abs_()
    logprob, entropy = fused_linear_logprob(
        problem.hidden, problem.weight, problem.target, return_entropy=True, backend=backend
    )
    for value in (logprob, entropy):
        assert value.isnan().tolist() == [False, False, True, False]
