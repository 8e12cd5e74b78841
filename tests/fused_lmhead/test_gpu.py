"""The Triton backend on a GPU: every dtype, odd shapes, real sizes, graphs."""

from __future__ import annotations

import pytest
import torch
from problems import Solution, make_problem, oracle, rounding, same_dtype_torch, solve

from fused_lmhead import fused_linear_logprob

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

# M, H, V: aligned, gpt-oss' hidden size, odd everywhere (no 16-byte rows), one token, V = 1.
SHAPES = [(512, 1024, 8192), (300, 2880, 20108), (257, 333, 4099), (1, 64, 1000), (130, 48, 1)]


def triton_solution(problem, temperature: float = 1.0) -> Solution:
    return solve(
        problem,
        lambda hidden, weight, target: fused_linear_logprob(
            hidden,
            weight,
            target,
            temperature=temperature,
            return_entropy=True,
            entropy_requires_grad=True,
            backend="triton",
        ),
    )


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fp32_is_exact(shape, temperature: float):
    problem = make_problem(*shape, torch.float32, "cuda")
    expected = oracle(problem, temperature, torch.float64)
    errors = triton_solution(problem, temperature).errors(expected)
    allowed = same_dtype_torch(problem, temperature).errors(expected)
    print({name: (f"{errors[name]:.2e}", f"torch {allowed[name]:.2e}") for name in errors})
    assert errors["logprob"] <= max(2e-6, allowed["logprob"])
    assert errors["entropy"] <= max(2e-6, allowed["entropy"])
    assert errors["d_hidden"] <= 2.34e-5
    assert errors["d_weight"] <= 2.80e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [*SHAPES, (2048, 4096, 32768)], ids=str)
def test_low_precision_errs_no_more_than_torch(shape, dtype: torch.dtype):
    problem = make_problem(*shape, dtype, "cuda")
    expected = oracle(problem, 1.0, torch.float32)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    for name, error in triton_solution(problem).errors(expected).items():
        print(f"{name}: {error:.3e}, torch {allowed[name]:.3e}")
        assert error <= max(allowed[name], rounding(expected, name, dtype)), name


def test_values_without_entropy_are_the_same():
    problem = make_problem(300, 512, 5000, torch.bfloat16, "cuda")
    arguments = (problem.hidden, problem.weight, problem.target)
    alone = fused_linear_logprob(*arguments, backend="triton")
    beside, _ = fused_linear_logprob(*arguments, return_entropy=True, backend="triton")
    torch.testing.assert_close(alone, beside, atol=2e-6, rtol=0)
    assert torch.equal(alone, fused_linear_logprob(*arguments, backend="triton"))


def test_several_token_chunks_agree_with_one():
    problem = make_problem(20_000, 128, 131_072, torch.bfloat16, "cuda")
    whole = fused_linear_logprob(problem.hidden, problem.weight, problem.target)
    parts = [
        fused_linear_logprob(hidden, problem.weight, target)
        for hidden, target in zip(
            problem.hidden.split(3000), problem.target.split(3000), strict=True
        )
    ]
    assert torch.equal(whole, torch.cat(parts))


def test_a_graph_replays_the_eager_values_on_new_inputs():
    problem = make_problem(512, 1024, 8192, torch.bfloat16, "cuda")
    fresh = make_problem(512, 1024, 8192, torch.bfloat16, "cuda", seed=1)

    def step() -> tuple[torch.Tensor, ...]:
        hidden = problem.hidden.requires_grad_()
        weight = problem.weight.requires_grad_()
        logprob = fused_linear_logprob(hidden, weight, problem.target, backend="triton")
        gradients = torch.autograd.grad(logprob, (hidden, weight), problem.grad_logprob)
        return (logprob.detach(), *gradients)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        problem.hidden.copy_(fresh.hidden)
        problem.target.copy_(fresh.target)
    graph.replay()
    for replayed, eager in zip(captured, step(), strict=True):
        assert torch.equal(replayed, eager)


def test_targets_outside_the_vocabulary_touch_nothing():
    problem = make_problem(64, 64, 1000, torch.bfloat16, "cuda")
    problem.target[::2] = torch.tensor([-100, 1000, 1023, 2**40], device="cuda").repeat(8)
    hidden = problem.hidden.requires_grad_()
    logprob = fused_linear_logprob(hidden, problem.weight, problem.target, backend="triton")
    assert (logprob[::2] == 0).all()
    (d_hidden,) = torch.autograd.grad(logprob, hidden, problem.grad_logprob)
    assert d_hidden.isfinite().all()
    assert (d_hidden[::2].abs().amax(-1) > 0).all()
