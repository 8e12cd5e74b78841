"""Keeping the logits saves a product and changes nothing but their rounding."""

from __future__ import annotations

import dataclasses
import functools

import pytest
import torch
from problems import (
    INTERPRETED,
    Problem,
    Solution,
    fused,
    make_problem,
    oracle,
    rounding,
    same_dtype_torch,
)

from fused_lmhead import fused_linear_logprob
from fused_lmhead.autograd import FusedLinearLogprob
from fused_lmhead.schedules import Schedule, plan

pytest.importorskip("triton")
from fused_lmhead import kept, launch

pytestmark = INTERPRETED

# M, H, V: rows that TMA can store, rows that it cannot, one token, one column, several tiles.
SHAPES = [(40, 32, 128), (37, 48, 301), (1, 17, 33), (5, 16, 1), (66, 16, 200)]
SMALL = Schedule(32, 32, 16, 2, 4, 2)
ENOUGH = 2**30


def run(problem: Problem, **options) -> Solution:
    return fused(problem, "triton", **options)


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """Shapes of what was kept during the test."""
    shapes: list[torch.Size] = []
    real = kept.room

    def room(*arguments):
        found = real(*arguments)
        shapes.append(found.numerator_MV.shape)
        return found

    monkeypatch.setattr(kept, "room", room)
    return shapes


@pytest.mark.parametrize("schedule", [None, SMALL], ids=["rule", "small"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fp32_is_as_exact_as_without(shape, schedule, rooms):
    problem = make_problem(*shape, torch.float32)
    problem.target[::3] = shape[2]  # the first padded column
    options = {"temperature": 0.7, "schedule": schedule}
    plain = run(problem, **options)
    got = run(problem, keep_logits_budget=ENOUGH, **options)
    assert rooms == [(shape[0], shape[2])]
    assert torch.equal(got.logprob, plain.logprob)
    assert torch.equal(got.entropy, plain.entropy)
    torch.testing.assert_close(got.d_hidden, plain.d_hidden, atol=2e-6, rtol=0)
    torch.testing.assert_close(got.d_weight, plain.d_weight, atol=4e-6, rtol=0)


@pytest.mark.parametrize("scale", [1.0, 20.0], ids=["flat", "peaked"])
@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_16_bits_err_no_more_than_torch(shape, scale: float):
    problem = make_problem(*shape, torch.float16)
    problem.weight.mul_(scale)
    expected = oracle(problem, 1.0, torch.float32)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    errors = run(problem, keep_logits_budget=ENOUGH).errors(expected)
    for name, error in errors.items():
        assert error <= max(1.05 * allowed[name], rounding(expected, name, torch.float16)), name


def test_a_common_offset_does_not_reach_what_is_kept():
    problem = make_problem(16, 32, 200, torch.float16)
    plain = run(problem, keep_logits_budget=ENOUGH)
    hidden = torch.cat([problem.hidden, torch.full((16, 1), 1e4).half()], dim=1)
    weight = torch.cat([problem.weight, torch.ones(200, 1).half()], dim=1)
    shifted = Problem(hidden, weight, problem.target, problem.grad_logprob, problem.grad_entropy)
    got = run(shifted, keep_logits_budget=ENOUGH)
    # At 1e4 a rounded fp16 logit would be off by up to 4.
    torch.testing.assert_close(got.d_hidden[:, :32], plain.d_hidden, atol=4e-3, rtol=0)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the launches of both passes, in their order."""
    names: list[str] = []

    def recorded(name: str, real, *arguments):
        names.append(name)
        return real(*arguments)

    for module, name in ((launch, "tile_partials"), (kept, "kept_logit_gradient")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, functools.partial(recorded, name, real))
    return names


@pytest.mark.parametrize("v", [140, 144], ids=["odd rows", "aligned rows"])
def test_splits_and_chunks_change_nothing(v: int, launches, monkeypatch: pytest.MonkeyPatch):
    problem = make_problem(70, 16, v, torch.float32)
    whole = run(problem, schedule=SMALL, keep_logits_budget=ENOUGH)
    assert launches == ["tile_partials", "kept_logit_gradient"]
    launches.clear()
    in_chunks = dataclasses.replace(plan(70, 16, v, 4, 1, SMALL), tokens_per_chunk=32)
    monkeypatch.setattr(launch, "plan_for", lambda *arguments, **options: in_chunks)
    split = run(problem, schedule=SMALL, keep_logits_budget=ENOUGH, backward_budget=70 * 4 * 64)
    assert launches == 3 * ["tile_partials"] + 3 * ["kept_logit_gradient"]
    for name, error in split.errors(whole).items():
        assert error <= 2e-6, name


def test_what_is_kept_of_many_tokens_is_read_in_splits_of_columns(launches):
    problem = make_problem(70, 16, 45, torch.float32)
    budget = 70 * 4 * 32  # else two chunks of 32 tokens and one of six
    plain = run(problem, schedule=SMALL, backward_budget=budget)
    launches.clear()
    got = run(problem, schedule=SMALL, backward_budget=budget, keep_logits_budget=ENOUGH)
    assert launches == ["tile_partials"] + 2 * ["kept_logit_gradient"]
    for name, error in got.errors(plain).items():
        assert error <= 2e-6, name


def test_no_tokens_keep_nothing(rooms):
    hidden = torch.zeros(0, 16, requires_grad=True)
    weight = torch.randn(10, 16, requires_grad=True)
    target = torch.zeros(0, dtype=torch.long)
    logprob = fused_linear_logprob(
        hidden, weight, target, backend="triton", keep_logits_budget=ENOUGH
    )
    assert torch.autograd.grad(logprob.sum(), weight)[0].abs().max() == 0
    assert rooms == []


def test_what_does_not_fit_is_recomputed(rooms):
    problem = make_problem(16, 32, 100, torch.float32)
    needed = 4 * 16 * 100 + 4 * 16 * 4
    plain = run(problem, schedule=SMALL)
    for budgets in (
        {"keep_logits_budget": needed - 1},
        {"keep_logits_budget": needed, "backward_budget": 4 * 16 * 31},
    ):
        errors = run(problem, schedule=SMALL, **budgets).errors(plain)
        assert max(errors.values()) <= 2e-6
    assert rooms == []
    run(problem, schedule=SMALL, keep_logits_budget=needed)
    assert rooms == [(16, 100)]


def test_nothing_is_kept_for_no_backward(rooms):
    problem = make_problem(8, 16, 50, torch.float32)
    arguments = (problem.hidden, problem.weight, problem.target)
    fused_linear_logprob(*arguments, backend="triton", keep_logits_budget=ENOUGH)
    problem.hidden.requires_grad_()
    with torch.no_grad():
        fused_linear_logprob(*arguments, backend="triton", keep_logits_budget=ENOUGH)
    assert rooms == []


def test_a_second_backward_finds_what_was_kept():
    problem = make_problem(40, 32, 200, torch.float16)
    hidden, weight = problem.hidden.requires_grad_(), problem.weight.requires_grad_()
    logprob = fused_linear_logprob(
        hidden, weight, problem.target, backend="triton", keep_logits_budget=ENOUGH
    )
    upstream = problem.grad_logprob
    first = torch.autograd.grad(logprob, (hidden, weight), upstream, retain_graph=True)
    second = torch.autograd.grad(logprob, (hidden, weight), upstream)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


def test_a_shard_keeps_its_own_whatever_it_is_merged_with():
    problem = make_problem(24, 32, 200, torch.float32)
    problem.weight[100:].mul_(3)  # the largest logits are the other shard's
    backend = launch.TritonBackend(SMALL, keep_logits_budget=ENOUGH)

    def merge(statistics, target_M, temperature):
        inputs = (problem.hidden.detach(), problem.weight, problem.target)
        return backend.forward(*inputs, temperature, True)._replace(kept=None)

    shard = problem.weight[:100].clone().requires_grad_()
    hidden = problem.hidden.requires_grad_()
    logprob, entropy = FusedLinearLogprob.apply(
        hidden, shard, problem.target, backend, 1.0, None, True, True, merge
    )
    upstream = (problem.grad_logprob, problem.grad_entropy)
    (d_shard,) = torch.autograd.grad((logprob, entropy), shard, upstream)
    expected = oracle(problem, 1.0, torch.float64).d_weight[:100]
    torch.testing.assert_close(d_shard.double(), expected, atol=2e-5, rtol=0)


def test_a_tile_of_minus_infinity_has_no_gradient():
    problem = make_problem(8, 16, 96, torch.float32)
    problem.hidden.abs_()
    problem.weight[32:64] = float("-inf")
    problem.target.fill_(3)
    weight = problem.weight.requires_grad_()
    gradients = []
    for budget in (0, ENOUGH):
        logprob, entropy = fused_linear_logprob(
            problem.hidden,
            weight,
            problem.target,
            return_entropy=True,
            entropy_requires_grad=True,
            backend="triton",
            schedule=SMALL,
            keep_logits_budget=budget,
        )
        upstream = (problem.grad_logprob, problem.grad_entropy)
        gradients += torch.autograd.grad((logprob, entropy), weight, upstream)
    assert gradients[0][32:64].abs().max() == 0
    torch.testing.assert_close(gradients[0], gradients[1], atol=2e-6, rtol=0)
