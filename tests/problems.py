"""Problems to solve and the errors that same-dtype torch makes on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from fused_lmhead import fused_linear_logprob
from fused_lmhead.reference import reference_linear_logprob

INTERPRETED = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="CPU tensors need the interpreter"
)
BACKENDS = ["torch", pytest.param("triton", marks=INTERPRETED)]


@dataclass(frozen=True)
class Problem:
    """Seeded inputs, upstream gradients included; never zeros, never all ones."""

    hidden: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    grad_logprob: torch.Tensor
    grad_entropy: torch.Tensor


@dataclass(frozen=True)
class Solution:
    """Values and gradients in fp64, for comparison."""

    logprob: torch.Tensor
    entropy: torch.Tensor
    d_hidden: torch.Tensor
    d_weight: torch.Tensor

    def errors(self, other: Solution) -> dict[str, float]:
        """Largest absolute difference by quantity."""
        return {
            name: float((getattr(self, name) - getattr(other, name)).abs().max())
            for name in ("logprob", "entropy", "d_hidden", "d_weight")
        }


Evaluate = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def make_problem(
    m: int, h: int, v: int, dtype: torch.dtype, device: str = "cpu", seed: int = 0
) -> Problem:
    """Normal inputs; weight scaled by h^-0.5 so that logits have unit variance."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    return Problem(
        hidden=normal(m, h).to(dtype),
        weight=(normal(v, h) * h**-0.5).to(dtype),
        target=torch.randint(0, v, (m,), generator=generator, device=device),
        grad_logprob=normal(m),
        grad_entropy=normal(m),
    )


def solve(problem: Problem, evaluate: Evaluate) -> Solution:
    """Values and both gradients of ``evaluate(hidden, weight, target)``."""
    hidden = problem.hidden.detach().requires_grad_()
    weight = problem.weight.detach().requires_grad_()
    logprob, entropy = evaluate(hidden, weight, problem.target)
    d_hidden, d_weight = torch.autograd.grad(
        (logprob, entropy),
        (hidden, weight),
        (problem.grad_logprob.to(logprob.dtype), problem.grad_entropy.to(entropy.dtype)),
    )
    values = (logprob.detach(), entropy.detach(), d_hidden, d_weight)
    return Solution(*(value.double() for value in values))


def fused(problem: Problem, backend: str, **options: Any) -> Solution:
    """The public function's solution, entropy differentiable; see its options."""
    return solve(
        problem,
        lambda hidden, weight, target: fused_linear_logprob(
            hidden,
            weight,
            target,
            return_entropy=True,
            entropy_requires_grad=True,
            backend=backend,
            **options,
        ),
    )


def oracle(problem: Problem, temperature: float, dtype: torch.dtype) -> Solution:
    """The oracle's solution, computed in ``dtype``."""
    return solve(
        problem,
        lambda hidden, weight, target: reference_linear_logprob(
            hidden, weight, target, temperature=temperature, entropy_requires_grad=True, dtype=dtype
        ),
    )


def same_dtype_torch(problem: Problem, temperature: float) -> Solution:
    """What a user would write: the product in the inputs' dtype, softmax in fp32."""

    def evaluate(
        hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        log_p = torch.log_softmax((hidden @ weight.T).float() / temperature, dim=-1)
        chosen = log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return chosen, -(log_p.exp() * log_p).sum(-1)

    return solve(problem, evaluate)


def rounding(expected: Solution, name: str, dtype: torch.dtype) -> float:
    """What cannot be asked of any implementation: gradients round twice to ``dtype``, half a
    step each (dz, then the product); log-prob and entropy are fp32 and never round to it."""
    if not name.startswith("d_"):
        return 4e-6
    return torch.finfo(dtype).eps * float(getattr(expected, name).abs().max())
