"""Element counts beyond 2^31: every offset that could overflow 32 bits does so here."""

from __future__ import annotations

import pytest
import torch
from problems import Problem, make_problem

from fused_lmhead import fused_linear_logprob

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

# Which offsets pass 2^31; M, H, V. Odd row lengths take pointers instead of bulk copies, but for
# the logit gradient, whose rows are padded where the card has bulk copies.
LARGE = {
    "V·H": (64, 16_384, 131_200),
    "V·H, odd rows": (64, 16_385, 131_200),
    "M·H": (262_400, 8192, 64),
    "M·H, odd rows": (262_400, 8193, 64),
    "M·V": (262_400, 32, 16_400),
    "M·V, odd rows": (262_400, 32, 8191),
}


def step(problem: Problem, rows: torch.Tensor | slice, **options) -> tuple[torch.Tensor, ...]:
    """Log-prob, entropy and d_hidden of the chosen rows, and d_weight of these alone."""
    hidden = problem.hidden[rows].requires_grad_()
    weight = problem.weight.requires_grad_()
    results = fused_linear_logprob(
        hidden,
        weight,
        problem.target[rows],
        return_entropy=True,
        entropy_requires_grad=True,
        **options,
    )
    upstream = (problem.grad_logprob[rows], problem.grad_entropy[rows])
    gradients = torch.autograd.grad(results, (hidden, weight), upstream)
    return tuple(one.detach().float() for one in (*results, *gradients))


@pytest.mark.parametrize("kept", [0, 2**34], ids=["recomputed", "kept"])
@pytest.mark.parametrize("shape", LARGE.values(), ids=LARGE)
def test_offsets_do_not_overflow(shape: tuple[int, int, int], kept: int):
    m, h, v = shape
    if kept and m * v < 2**31:
        pytest.skip("what is kept has fewer elements")
    assert max(m * h, v * h, m * v) > 2**31
    problem = make_problem(m, h, v, torch.bfloat16, "cuda")
    # The last token's target is the last column, whose offsets are the largest.
    problem.target[-1] = v - 1
    # One split holds all logit gradients, so that its own offsets pass 2^31 where M·V does.
    got = step(
        problem, slice(None), backend="triton", backward_budget=2**33, keep_logits_budget=kept
    )
    rows = torch.tensor([0, 1, m // 2, m - 2, m - 1], device="cuda")
    few = step(problem, rows, backend="torch", chunk_size=8)
    for name, one, other in zip(("logprob", "entropy", "d_hidden"), got, few, strict=False):
        assert_close(name, one[rows], other)
    # Only the chosen rows have an upstream gradient: the weight's is then known too.
    heard = torch.zeros(m, dtype=torch.bool, device="cuda")
    heard[rows] = True
    problem.grad_logprob.mul_(heard)
    problem.grad_entropy.mul_(heard)
    del got
    d_weight = step(
        problem, slice(None), backend="triton", backward_budget=2**33, keep_logits_budget=kept
    )[3]
    assert_close("d_weight", d_weight, few[3])


def assert_close(name: str, got: torch.Tensor, expected: torch.Tensor) -> None:
    """Within 3 % as a whole: bf16 rounds by less, a wrong offset errs by more."""
    assert got.isfinite().all(), name
    assert (got - expected).norm() <= 0.03 * expected.norm(), name
