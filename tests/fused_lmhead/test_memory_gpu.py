"""Peaks that the allocator saw, against the formulas of fused_lmhead.memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from problems import Problem, make_problem

from fused_lmhead import fused_linear_logprob
from fused_lmhead.memory import backward_bytes, backward_cut, kept_bytes

pytest.importorskip("triton")
from fused_lmhead.tuning import plan_for

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

MIB, GIB = 2**20, 2**30
# The allocator rounds each tensor up, by 2 MiB at most; not all of them are alive at once.
ROUNDING = 40 * MIB

# M, H, V as one rank sees them: both ends of the sweep, 256K tokens with TP 1 and TP 8.
SHAPES = [
    (2048, 8192, 16384),
    (8192, 4096, 131072),
    (32768, 2048, 62080),
    (262144, 2048, 31040),
    (262144, 4096, 131072),
]


def peak_of(call: Callable[[], object]) -> int:
    """Bytes that ``call`` holds at most, beyond what was held before."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def forward(problem: Problem, **options) -> tuple[torch.Tensor, torch.Tensor]:
    return fused_linear_logprob(
        problem.hidden,
        problem.weight,
        problem.target,
        return_entropy=True,
        entropy_requires_grad=True,
        backend="triton",
        **options,
    )


@pytest.fixture(autouse=True)
def warm() -> None:
    """cuBLAS takes its own workspace at its first product."""
    problem = make_problem(256, 256, 512, torch.bfloat16, "cuda")
    problem.hidden.requires_grad_()
    problem.weight.requires_grad_()
    for budget in (GIB, 256 * 2 * 128):
        torch.autograd.backward(
            forward(problem, backward_budget=budget), (problem.grad_logprob,) * 2
        )
    torch.cuda.synchronize()


@pytest.mark.parametrize("budget", [256 * MIB, GIB])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_peaks_keep_to_the_formulas(shape: tuple[int, int, int], budget: int):
    m, h, v = shape
    problem = make_problem(m, h, v, torch.bfloat16, "cuda")
    hidden, weight = problem.hidden.requires_grad_(), problem.weight.requires_grad_()
    results: list[torch.Tensor] = []
    seen = peak_of(lambda: results.extend(forward(problem, backward_budget=budget)))
    print(f"forward {seen / MIB:.0f} MiB", end=", ")
    assert seen <= 256 * MIB + 16 * m + ROUNDING  # results and statistics: 16 bytes a token

    upstream = (problem.grad_logprob, problem.grad_entropy)
    seen = peak_of(lambda: torch.autograd.grad(results, (hidden, weight), upstream))
    chosen = plan_for(m, h, v, torch.bfloat16, hidden.device, True)
    cut = backward_cut(m, v, 2, chosen.backward, chosen.columns_per_split, budget)
    workspace = 2 * cut.tokens * cut.row
    assert workspace <= budget
    total = backward_bytes(m, h, v, 2, cut) - workspace
    assert total <= 4 * min(m, v) * h + 8 * m
    # What is summed is rounded when the logit gradient has gone: one comes after the other.
    summed, other = (v, m) if cut.tokens < m else (m, v)
    print(f"backward {seen / MIB:.0f} MiB")
    if (cut.tokens, cut.columns) == (m, v):
        assert seen <= 2 * (m + v) * h + workspace + 8 * m + ROUNDING
    else:
        assert seen <= 2 * other * h + total + max(workspace, 2 * summed * h) + ROUNDING


def test_kept_logits_are_accounted_for():
    m, h, v = 8192, 2048, 62080
    problem = make_problem(m, h, v, torch.bfloat16, "cuda")
    problem.hidden.requires_grad_()
    held = []
    for budget in (0, 2 * m * v + 4 * m * v // 64):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        results = forward(problem, keep_logits_budget=budget)
        held.append(torch.cuda.memory_allocated() - before)
        torch.autograd.grad(results, problem.hidden, (problem.grad_logprob, problem.grad_entropy))
        del results
    kept = held[1] - held[0]
    print(f"kept {kept / MIB:.0f} MiB")
    assert kept_bytes(m, v, 2, 256) - ROUNDING <= kept <= kept_bytes(m, v, 2, 64) + ROUNDING


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "shape", [(1000, 512, 16384), (300, 2880, 8200), (2048, 256, 40_000), (9000, 256, 8200)]
)
def test_freeing_early_changes_no_bit(shape, tp: int, dtype: torch.dtype, monkeypatch):
    m, h, v = shape
    problem = make_problem(m, h, v // tp, dtype, "cuda")
    hidden, weight = problem.hidden.requires_grad_(), problem.weight.requires_grad_()
    results = forward(problem, backward_budget=dtype.itemsize * m * (v // tp) // 3)

    def gradients() -> tuple[torch.Tensor, ...]:
        upstream = (problem.grad_logprob, problem.grad_entropy)
        return torch.autograd.grad(results, (hidden, weight), upstream, retain_graph=True)

    freed, again = gradients(), gradients()
    held: list[torch.Tensor] = []
    real = torch.Tensor.new_empty

    def keep(self: torch.Tensor, *arguments, **options) -> torch.Tensor:
        held.append(real(self, *arguments, **options))
        return held[-1]

    monkeypatch.setattr(torch.Tensor, "new_empty", keep)
    alive = gradients()
    assert held, "nothing was held: this test would prove nothing"
    for one, two, three in zip(freed, again, alive, strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, two)
        assert torch.equal(one, three)
