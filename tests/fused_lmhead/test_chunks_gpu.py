"""On a GPU: chunks of tokens give the gradients of the whole, and compile nothing anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from problems import fused, make_problem, oracle, rounding, same_dtype_torch

pytest.importorskip("triton")
import triton

from fused_lmhead import launch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

M, H = 20_000, 512
# Rows of whole 16 bytes, and not.
WIDTHS = [1504, 1503]
BUDGET = 2 * 6000 * 1504


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Tokens, columns and row length of the logit gradients that kernels were launched for."""
    seen: list[tuple[int, int, int]] = []
    real = launch.logit_gradient

    def logit_gradient(*arguments: Any) -> None:
        seen.append((*arguments[6].shape, arguments[6].stride(0)))
        real(*arguments)

    monkeypatch.setattr(launch, "logit_gradient", logit_gradient)
    return seen


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("v", WIDTHS)
def test_low_precision_errs_no_more_than_torch(v: int, dtype: torch.dtype, blocks):
    problem = make_problem(M, H, v, dtype, "cuda")
    expected = oracle(problem, 1.0, torch.float32)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    got = fused(problem, "triton", backward_budget=BUDGET)
    assert len(blocks) == 4
    assert sum(tokens for tokens, _, _ in blocks) == M
    assert blocks[-1][0] < blocks[0][0]
    assert {columns for _, columns, _ in blocks} == {v}
    if torch.cuda.get_device_capability()[0] >= 9:
        assert {row for _, _, row in blocks} == {1504}
    for name, error in got.errors(expected).items():
        print(f"{name}: {error:.3e}, torch {allowed[name]:.3e}")
        assert error <= max(allowed[name], rounding(expected, name, dtype)), name
    again = fused(problem, "triton", backward_budget=BUDGET)
    assert max(again.errors(got).values()) == 0


@pytest.mark.parametrize("v", WIDTHS)
def test_fp32_is_exact(v: int):
    problem = make_problem(M, H, v, torch.float32, "cuda")
    expected = oracle(problem, 1.0, torch.float64)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    errors = fused(problem, "triton", backward_budget=2 * BUDGET).errors(expected)
    print({name: (f"{errors[name]:.2e}", f"torch {allowed[name]:.2e}") for name in errors})
    assert errors["d_hidden"] <= max(2.34e-5, allowed["d_hidden"])
    assert errors["d_weight"] <= max(2.80e-5, allowed["d_weight"])


@pytest.mark.parametrize("v", WIDTHS)
def test_no_chunk_compiles_what_another_length_did_not(v: int, monkeypatch, blocks):
    problem = make_problem(M, H, v, torch.bfloat16, "cuda")
    fused(problem, "triton", backward_budget=BUDGET)
    compiled: list[Any] = []
    monkeypatch.setattr(
        triton.knobs.runtime,
        "jit_post_compile_hook",
        lambda **told: compiled.append(told["fn"].name),
    )
    last = []
    for m, budget in ((M, BUDGET), (M - 31, BUDGET), (18_432, BUDGET), (1537, 2 * 128 * 1504)):
        part = make_problem(m, H, v, torch.bfloat16, "cuda")
        blocks.clear()
        fused(part, "triton", backward_budget=budget)
        assert len(blocks) > 1
        last.append(blocks[-1][0])
    assert last == [4640, 4609, 4608, 1]
    assert compiled == []
