"""A backward pass in chunks of tokens, each over the whole vocabulary: the same gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from problems import (
    INTERPRETED,
    Problem,
    fused,
    make_problem,
    oracle,
    rounding,
    same_dtype_torch,
    solve,
)

from fused_lmhead import fused_linear_logprob
from fused_lmhead.problem import Normaliser
from fused_lmhead.schedules import Schedule

pytest.importorskip("triton")
from fused_lmhead import descriptors, launch

pytestmark = INTERPRETED

SMALL = Schedule(32, 32, 16, 2, 4, 2)
M, H = 137, 48
# Rows of 16 bytes as they are in every dtype, in fp32 alone, in none.
WIDTHS = [64, 52, 45]
TOKENS = 64


def options(v: int, dtype: torch.dtype) -> dict[str, object]:
    """For two chunks of ``TOKENS`` and one of nine tokens."""
    return {"schedule": SMALL, "backward_budget": dtype.itemsize * TOKENS * (v + 8)}


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The logit gradients that kernels were launched for."""
    seen: list[torch.Tensor] = []
    real = launch.logit_gradient

    def logit_gradient(*arguments) -> None:
        seen.append(arguments[6])
        real(*arguments)

    monkeypatch.setattr(launch, "logit_gradient", logit_gradient)
    return seen


def assert_chunked(blocks: list[torch.Tensor], v: int) -> None:
    assert [tuple(dz.shape) for dz in blocks] == [(TOKENS, v), (TOKENS, v), (M - 2 * TOKENS, v)]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("v", WIDTHS)
def test_fp32_agrees_with_fp64(v: int, temperature: float, blocks):
    problem = make_problem(M, H, v, torch.float32)
    problem.target[::5] = -100
    problem.target[1::5] = v
    found = fused(problem, "triton", temperature=temperature, **options(v, torch.float32))
    assert_chunked(blocks, v)
    assert all(descriptors.copyable(dz) for dz in blocks)
    ours = problem.target.clamp(0, v - 1)
    heard = problem.target == ours
    expected = solve(
        problem, lambda *inputs: outside_as_contracted(*inputs, ours, heard, temperature)
    )
    errors = found.errors(expected)
    assert errors["d_hidden"] <= 2e-5
    assert errors["d_weight"] <= 2e-5


def outside_as_contracted(hidden, weight, target, ours, heard, temperature):
    """In fp64; a target outside the vocabulary has log-prob 0 and -logsumexp's gradient."""
    z = hidden.double() @ weight.double().T / temperature
    log_p = torch.log_softmax(z, -1)
    chosen = z.gather(-1, ours[:, None])[:, 0] * heard - z.logsumexp(-1)
    return chosen, -(log_p.exp() * log_p).sum(-1)


@pytest.mark.parametrize("v", WIDTHS)
def test_fp16_errs_no_more_than_torch(v: int, blocks):
    problem = make_problem(M, H, v, torch.float16)
    expected = oracle(problem, 1.0, torch.float32)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    errors = fused(problem, "triton", **options(v, torch.float16)).errors(expected)
    assert_chunked(blocks, v)
    for name, error in errors.items():
        bound = max(1.05 * allowed[name], rounding(expected, name, torch.float16))
        assert error <= bound, name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("entropy", [False, True], ids=["log-prob", "and entropy"])
@pytest.mark.parametrize("frozen", [None, "hidden", "weight"])
def test_every_chunk_gives_what_one_would(frozen, entropy: bool, dtype: torch.dtype, blocks):
    problem = make_problem(M, H, 45, dtype)

    def gradients(**chosen) -> list[torch.Tensor]:
        inputs = {"hidden": problem.hidden.detach(), "weight": problem.weight.detach()}
        leaves = [one.requires_grad_() for name, one in inputs.items() if name != frozen]
        results = fused_linear_logprob(
            **inputs,
            target=problem.target,
            return_entropy=True,
            entropy_requires_grad=entropy,
            ignore_index=3,
            backend="triton",
            **chosen,
        )
        upstream = (problem.grad_logprob, problem.grad_entropy)
        count = 2 if entropy else 1
        first, second = (
            torch.autograd.grad(results[:count], leaves, upstream[:count], retain_graph=True)
            for _ in range(2)
        )
        assert all(map(torch.equal, first, second))
        return list(first)

    whole = gradients(schedule=SMALL)
    blocks.clear()
    parts = gradients(**options(45, dtype))
    if frozen == "hidden":  # the vocabulary is cut
        assert {dz.shape[0] for dz in blocks} == {M}
    else:
        assert_chunked(blocks[:3], 45)
        assert_chunked(blocks[3:], 45)
    steps = 4 if dtype is torch.float16 else 16
    for one, other in zip(parts, whole, strict=True):
        assert one.dtype is dtype
        bound = steps * torch.finfo(dtype).eps * float(other.abs().max())
        torch.testing.assert_close(one, other, atol=bound, rtol=0)


@pytest.mark.parametrize(
    ("v", "tma"), [(45, False), (29, True), (29, False)], ids=["no TMA", "narrow", "neither"]
)
def test_rows_stay_dense_where_padding_serves_no_one(v: int, tma: bool, blocks, monkeypatch):
    """Kernels without TMA take rows to be dense; less than a tile is compiled for as it is."""
    for module in (launch, descriptors):
        monkeypatch.setattr(module, "has_tma", lambda device: tma)
    problem = make_problem(M, H, v, torch.float32)
    errors = fused(problem, "triton", **options(v, torch.float32)).errors(
        oracle(problem, 1.0, torch.float64)
    )
    assert len(blocks) > 1
    assert all(dz.is_contiguous() for dz in blocks)
    assert errors["d_hidden"] <= 2e-5
    assert errors["d_weight"] <= 2e-5


def backward(backend, problem: Problem):
    rows = torch.zeros(M)
    inputs = (problem.hidden, problem.weight, problem.target, Normaliser(rows, rows, None))
    return backend.backward(*inputs, problem.grad_logprob, None, 1.0, True, True)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of what products are written to."""
    shapes: list[tuple[int, ...]] = []

    def recorded(real: Callable[..., object], *arguments, **named) -> object:
        shapes.append(tuple(named["out"].shape))
        return real(*arguments, **named)

    for name in ("mm", "addmm"):
        real = getattr(torch, name)
        monkeypatch.setattr(
            torch, name, lambda *args, real=real, **named: recorded(real, *args, **named)
        )
    return shapes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_d_hidden_is_told_of_before_the_last_product_of_d_weight(dtype: torch.dtype, products):
    problem = make_problem(M, H, 45, dtype)
    silent = launch.TritonBackend(**options(45, dtype))
    expected = backward(silent, problem)
    products.clear()
    told: list[tuple[torch.Tensor, torch.Tensor, int]] = []
    backend = replace(
        silent, hidden_ready=lambda found: told.append((found, found.clone(), len(products)))
    )
    got = backward(backend, problem)
    ((d_hidden, then, before),) = told
    assert d_hidden is got[0]
    assert d_hidden.dtype is dtype
    assert products[before:] == [(45, H)]
    assert products[:before].count((45, H)) == 2
    assert torch.equal(then, expected[0])
    assert all(map(torch.equal, got, expected))


def test_sums_of_chunks_round_once(products):
    """Chunks whose parts of d_weight are below half a step of what the first one gives."""
    v, n, small = 45, 1024, 2.0**-18
    hidden, weight = torch.zeros(n, H, dtype=torch.float16), torch.zeros(v, H).half()
    hidden[0], hidden[1:] = 1.0, small
    problem = Problem(hidden, weight, torch.zeros(n).long(), torch.ones(n), torch.zeros(n))
    budget = 2 * TOKENS * 48
    found = fused(problem, "triton", schedule=SMALL, backward_budget=budget)
    assert products.count((v, H)) == n // TOKENS
    total = 1 + (n - 1) * small
    share = torch.full((v, 1), -total / v, dtype=torch.float64)
    share[0] += total
    torch.testing.assert_close(found.d_weight, share.expand(v, H), rtol=2e-3, atol=0)
