"""The Triton backend on a GPU: every dtype, odd shapes, real sizes, graphs."""

from __future__ import annotations

import pytest
import torch
from problems import Problem, Solution, fused, make_problem, oracle, rounding, same_dtype_torch

from fused_lmhead import fused_linear_logprob
from fused_lmhead.reference import reference_linear_logprob
from fused_lmhead.schedules import Schedule, shared_memory
from fused_lmhead.tuning.candidates import backward_candidates, forward_candidates
from fused_lmhead.tuning.gpus import gpu_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

# M, H, V: aligned, gpt-oss' hidden size, odd everywhere (no 16-byte rows), one token, V = 1.
SHAPES = [(512, 1024, 8192), (300, 2880, 20108), (257, 333, 4099), (1, 64, 1000), (130, 48, 1)]


def triton_solution(problem: Problem, **options) -> Solution:
    return fused(problem, "triton", **options)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fp32_is_exact(shape, temperature: float):
    problem = make_problem(*shape, torch.float32, "cuda")
    expected = oracle(problem, temperature, torch.float64)
    errors = triton_solution(problem, temperature=temperature).errors(expected)
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


@pytest.mark.parametrize("kept", [0, 2**30], ids=["recomputed", "kept"])
def test_a_graph_replays_the_eager_values_on_new_inputs(kept: int):
    problem = make_problem(512, 1024, 8192, torch.bfloat16, "cuda")
    fresh = make_problem(512, 1024, 8192, torch.bfloat16, "cuda", seed=1)

    def step() -> tuple[torch.Tensor, ...]:
        hidden = problem.hidden.requires_grad_()
        weight = problem.weight.requires_grad_()
        logprob = fused_linear_logprob(
            hidden, weight, problem.target, backend="triton", keep_logits_budget=kept
        )
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [*SHAPES, (2048, 4096, 32768)], ids=str)
def test_kept_logits_err_no_more_than_torch(shape, dtype: torch.dtype):
    problem = make_problem(*shape, dtype, "cuda")
    expected = oracle(problem, 1.0, torch.float32)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    got = triton_solution(problem, keep_logits_budget=2**34)
    for name, error in got.errors(expected).items():
        print(f"{name}: {error:.3e}, torch {allowed[name]:.3e}")
        bound = 2.8e-5 if dtype is torch.float32 else rounding(expected, name, dtype)
        assert error <= max(allowed[name], bound), name
    again = triton_solution(problem, keep_logits_budget=2**34)
    assert max(again.errors(got).values()) == 0


def candidates() -> list[tuple[torch.dtype, Schedule]]:
    return [
        (dtype, tile)
        for dtype in (torch.bfloat16, torch.float32)
        for tile in dict.fromkeys(
            (*forward_candidates(dtype.itemsize), *backward_candidates(dtype.itemsize))
        )
    ]


@pytest.mark.parametrize("case", candidates(), ids=str)
@pytest.mark.parametrize("shape", [(300, 2880, 4099), (257, 333, 1001)], ids=str)
def test_every_candidate_is_exact(shape, case: tuple[torch.dtype, Schedule]):
    dtype, tile = case
    gpu = gpu_of(torch.device("cuda", torch.cuda.current_device()))
    if shared_memory(tile, dtype.itemsize, gpu.tma) > gpu.shared_memory:
        pytest.skip(f"takes more shared memory than {gpu.name} has")
    problem = make_problem(*shape, dtype, "cuda")
    exact = torch.float64 if dtype is torch.float32 else torch.float32
    expected = oracle(problem, 1.0, exact)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    got = triton_solution(problem, schedule=tile)
    for name, error in got.errors(expected).items():
        bound = rounding(expected, name, dtype)
        if dtype is torch.float32:
            bound = 2.8e-5 if name.startswith("d_") else 2e-6
        assert error <= max(allowed[name], bound), name
    alone = fused_linear_logprob(
        problem.hidden, problem.weight, problem.target, backend="triton", schedule=tile
    )
    torch.testing.assert_close(alone.double(), got.logprob, atol=2e-6, rtol=0)
    assert max(triton_solution(problem, schedule=tile).errors(got).values()) == 0


@pytest.mark.parametrize("kept", [0, 2**30], ids=["recomputed", "kept"])
def test_a_tile_of_minus_infinity_is_absent(kept: int):
    problem = make_problem(300, 256, 2048, torch.bfloat16, "cuda")
    problem.hidden.abs_()
    problem.weight[512:1024] = float("-inf")  # whole tiles of every schedule
    problem.target.clamp_(max=511)
    weight = problem.weight.requires_grad_()
    results = fused_linear_logprob(
        problem.hidden,
        weight,
        problem.target,
        return_entropy=True,
        entropy_requires_grad=True,
        backend="triton",
        keep_logits_budget=kept,
    )
    (d_weight,) = torch.autograd.grad(results, weight, (problem.grad_logprob, problem.grad_entropy))
    assert d_weight[512:1024].abs().max() == 0
    assert d_weight.isfinite().all()
    present = torch.cat([weight[:512], weight[1024:]]).detach()
    expected = reference_linear_logprob(problem.hidden, present, problem.target)
    for one, other in zip(results, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)


def test_autocast_changes_nothing():
    problem = make_problem(256, 512, 4096, torch.float32, "cuda")
    plain = triton_solution(problem)
    with torch.autocast("cuda", torch.bfloat16):
        cast = triton_solution(problem)
    assert max(cast.errors(plain).values()) == 0


@pytest.mark.parametrize("kept", [0, 2**30], ids=["recomputed", "kept"])
def test_a_call_never_waits_for_the_gpu(kept: int):
    problem = make_problem(300, 512, 4099, torch.bfloat16, "cuda")
    triton_solution(problem, keep_logits_budget=kept)  # compiles
    hidden, weight = problem.hidden.requires_grad_(), problem.weight.requires_grad_()
    torch.cuda.set_sync_debug_mode("error")
    try:
        results = fused_linear_logprob(
            hidden,
            weight,
            problem.target,
            return_entropy=True,
            entropy_requires_grad=True,
            ignore_index=7,
            backend="triton",
            keep_logits_budget=kept,
        )
        upstream = (problem.grad_logprob, problem.grad_entropy)
        torch.autograd.grad(results, (hidden, weight), upstream)
    finally:
        torch.cuda.set_sync_debug_mode("default")
