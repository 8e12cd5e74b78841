"""Values and gradients of the public function against the fp32 and fp64 oracle."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from problems import (
    BACKENDS,
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
from fused_lmhead.schedules import Schedule
from fused_lmhead.tuning.candidates import backward_candidates, forward_candidates

# M, H, V: aligned, odd everywhere, one token, a vocabulary of one, gpt-oss' hidden size.
SHAPES = [(64, 64, 512), (37, 48, 301), (1, 17, 33), (5, 16, 1), (3, 2880, 70)]


def run(problem: Problem, backend: str, temperature: float = 1.0, **options) -> Solution:
    return fused(problem, backend, temperature=temperature, chunk_size=16, **options)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_fp32_agrees_with_fp64(backend: str, shape: tuple[int, int, int], temperature: float):
    problem = make_problem(*shape, torch.float32)
    errors = run(problem, backend, temperature).errors(oracle(problem, temperature, torch.float64))
    assert errors["logprob"] <= 2e-6
    assert errors["entropy"] <= 2e-6
    assert errors["d_hidden"] <= 2e-5
    assert errors["d_weight"] <= 2e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_low_precision_errs_no_more_than_torch(backend: str, shape, dtype: torch.dtype):
    if backend == "triton" and dtype is torch.bfloat16:
        pytest.skip("bf16 dots are wrong in Triton's interpreter; the gpu tests cover them")
    problem = make_problem(*shape, dtype)
    expected = oracle(problem, 1.0, torch.float32)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    errors = run(problem, backend).errors(expected)
    for name, error in errors.items():
        assert error <= max(1.05 * allowed[name], rounding(expected, name, dtype)), name


@pytest.mark.parametrize("backend", [*BACKENDS, "reference"])
def test_targets_outside_the_vocabulary_follow_the_contract(backend: str):
    problem = make_problem(8, 16, 50, torch.float32)
    problem.target[:3] = torch.tensor([-100, 50, 2**40])
    hidden = problem.hidden.requires_grad_()
    logprob = fused_linear_logprob(hidden, problem.weight, problem.target, backend=backend)
    assert logprob[:3].tolist() == [0.0, 0.0, 0.0]
    (d_hidden,) = torch.autograd.grad(logprob, hidden, problem.grad_logprob)
    p = torch.softmax(problem.hidden @ problem.weight.T, -1).detach()
    expected = -problem.grad_logprob[:3, None] * (p[:3] @ problem.weight)
    torch.testing.assert_close(d_hidden[:3], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", [*BACKENDS, "reference"])
def test_ignored_targets_give_zero_and_no_gradient_but_an_entropy(backend: str):
    problem = make_problem(8, 16, 50, torch.float32)
    problem.target[2] = -100
    problem.target[5] = 7
    for ignored in (-100, 7):
        hidden = problem.hidden.detach().requires_grad_()
        logprob, entropy = fused_linear_logprob(
            hidden,
            problem.weight,
            problem.target,
            return_entropy=True,
            ignore_index=ignored,
            backend=backend,
        )
        row = 2 if ignored == -100 else 5
        assert logprob[row] == 0
        assert (entropy > 0).all()
        assert not entropy.requires_grad
        (d_hidden,) = torch.autograd.grad(logprob, hidden, problem.grad_logprob)
        assert d_hidden[row].abs().max() == 0
        assert d_hidden[row - 1].abs().max() > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_strides_expansion_and_leading_shapes_do_not_matter(backend: str):
    problem = make_problem(24, 32, 100, torch.float32)
    expected = fused_linear_logprob(
        problem.hidden, problem.weight, problem.target, backend="reference"
    )
    hidden = problem.hidden.T.contiguous().T.reshape(2, 12, 32)
    weight = problem.weight.T.contiguous().T.requires_grad_()
    got = fused_linear_logprob(hidden, weight, problem.target.int().view(2, 12), backend=backend)
    torch.testing.assert_close(got.flatten(), expected)
    expanded = torch.tensor(0.5).expand(2, 12)
    (d_weight,) = torch.autograd.grad(got, weight, expanded)
    (again,) = torch.autograd.grad(
        fused_linear_logprob(problem.hidden, weight, problem.target, backend="reference"),
        weight,
        torch.full((24,), 0.5),
    )
    torch.testing.assert_close(d_weight, again)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_tokens_give_no_values_and_zero_gradients(backend: str):
    hidden = torch.zeros(2, 0, 16, requires_grad=True)
    weight = torch.randn(10, 16, requires_grad=True)
    logprob, entropy = fused_linear_logprob(
        hidden, weight, torch.zeros(2, 0, dtype=torch.long), return_entropy=True, backend=backend
    )
    assert logprob.shape == entropy.shape == (2, 0)
    d_hidden, d_weight = torch.autograd.grad(logprob.sum(), (hidden, weight))
    assert d_hidden.shape == hidden.shape
    assert d_weight.abs().max() == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_backwards_agree_and_runs_are_bit_identical(backend: str):
    problem = make_problem(40, 32, 200, torch.float32)
    hidden = problem.hidden.requires_grad_()
    logprob = fused_linear_logprob(hidden, problem.weight, problem.target, backend=backend)
    again = fused_linear_logprob(hidden, problem.weight, problem.target, backend=backend)
    assert torch.equal(logprob, again)
    (first,) = torch.autograd.grad(logprob, hidden, problem.grad_logprob, retain_graph=True)
    (second,) = torch.autograd.grad(logprob, hidden, problem.grad_logprob)
    assert torch.equal(first, second)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_frozen_side_gets_no_gradient_and_the_other_its_own(backend: str):
    problem = make_problem(16, 32, 60, torch.float32)
    both = run(problem, backend)
    for frozen in ("hidden", "weight"):
        hidden = problem.hidden.detach().requires_grad_(frozen != "hidden")
        weight = problem.weight.detach().requires_grad_(frozen != "weight")
        logprob, entropy = fused_linear_logprob(
            hidden,
            weight,
            problem.target,
            return_entropy=True,
            entropy_requires_grad=True,
            backend=backend,
        )
        moving = weight if frozen == "hidden" else hidden
        (gradient,) = torch.autograd.grad(
            (logprob, entropy), moving, (problem.grad_logprob, problem.grad_entropy)
        )
        expected = both.d_weight if frozen == "hidden" else both.d_hidden
        torch.testing.assert_close(gradient.double(), expected)


def test_the_entropy_gradient_alone_is_enough():
    problem = make_problem(16, 32, 60, torch.float32)
    gradients = []
    for backend in ("torch", "reference"):
        hidden = problem.hidden.detach().requires_grad_()
        _, entropy = fused_linear_logprob(
            hidden,
            problem.weight,
            problem.target,
            return_entropy=True,
            entropy_requires_grad=True,
            backend=backend,
        )
        gradients += torch.autograd.grad(entropy, hidden, problem.grad_entropy)
    for gradient in gradients:
        torch.testing.assert_close(gradient, gradients[-1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_forced_schedule_gives_the_same_values(backend: str):
    problem = make_problem(37, 48, 301, torch.float32)
    expected = oracle(problem, 1.0, torch.float64)
    errors = run(problem, backend, schedule=Schedule(32, 16, 16, 2, 4, 2)).errors(expected)
    assert max(errors["logprob"], errors["entropy"]) <= 2e-6


@pytest.mark.parametrize("backend", BACKENDS)
def test_statistics_mean_what_they_say(backend: str):
    from fused_lmhead.ops import _backend

    problem = make_problem(37, 48, 301, torch.float32)
    logits = problem.hidden.double() @ problem.weight.double().T
    got = _backend(backend, problem.weight, 16, None).forward(
        problem.hidden, problem.weight, problem.target, 0.7, True
    )
    exponents = (logits - got.shift_M.double()[:, None]) * math.log2(math.e) / 0.7
    expected = {
        "shift_M": logits.amax(-1),
        "log_sum_M": exponents.exp2().sum(-1).log2(),
        "target_logit_M": logits.gather(-1, problem.target[:, None])[:, 0],
        "mean_exponent_M": (exponents * torch.softmax(logits / 0.7, -1)).sum(-1),
    }
    for name, value in expected.items():
        torch.testing.assert_close(getattr(got, name).double(), value, atol=4e-6, rtol=0, msg=name)


def test_hidden_is_cast_to_the_weights_dtype_and_its_gradient_back():
    problem = make_problem(8, 16, 20, torch.float16)
    hidden = problem.hidden.float().requires_grad_()
    logprob = fused_linear_logprob(hidden, problem.weight, problem.target)
    (d_hidden,) = torch.autograd.grad(logprob.sum(), hidden)
    assert logprob.dtype is torch.float32
    assert d_hidden.dtype is torch.float32


def distinct_tiles() -> list[tuple[torch.dtype, Schedule]]:
    """Of the candidates those that the interpreter can tell apart: it has no warps or stages."""
    tiles = {
        (dtype, tile.block_m, tile.block_n, tile.block_k): (dtype, tile)
        for dtype in (torch.float32, torch.float16)
        for tile in (*forward_candidates(dtype.itemsize), *backward_candidates(dtype.itemsize))
        if tile.kind == "tile"
    }
    return list(tiles.values())


def _tile(case: tuple[torch.dtype, Schedule]) -> str:
    dtype, tile = case
    return f"{dtype}"[6:] + "-" + "x".join(map(str, dataclasses.astuple(tile)[:3]))


@INTERPRETED
@pytest.mark.parametrize("case", distinct_tiles(), ids=_tile)
def test_every_candidate_is_exact(case: tuple[torch.dtype, Schedule]):
    dtype, tile = case
    problem = make_problem(37, 40, 2 * tile.block_n - 11, dtype)
    expected = oracle(problem, 1.0, torch.float64 if dtype is torch.float32 else torch.float32)
    got = run(problem, "triton", schedule=tile)
    errors = got.errors(expected)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    for name, error in errors.items():
        if dtype is torch.float32:
            assert error <= (2e-5 if name.startswith("d_") else 2e-6), name
        else:
            assert error <= max(1.05 * allowed[name], rounding(expected, name, dtype)), name
    alone = fused_linear_logprob(
        problem.hidden, problem.weight, problem.target, backend="triton", schedule=tile
    )
    torch.testing.assert_close(alone.double(), expected.logprob, atol=4e-6, rtol=0)
    assert max(run(problem, "triton", schedule=tile).errors(got).values()) == 0
