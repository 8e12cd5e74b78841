"""How the result lives with its surroundings: in-place changes, autocast, graphs, compile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import BACKENDS, make_problem

from fused_lmhead import fused_linear_logprob


@pytest.mark.parametrize("backend", [*BACKENDS, "reference"])
def test_results_may_be_changed_in_place(backend: str):
    problem = make_problem(8, 16, 50, torch.float32)
    gradients = []
    for change in (False, True):
        hidden = problem.hidden.detach().requires_grad_()
        logprob, entropy = fused_linear_logprob(
            hidden, problem.weight, problem.target, return_entropy=True, backend=backend
        )
        if change:
            logprob[2] = 0.0
            entropy.mul_(2)  # a metric: no gradient depends on it
        else:
            logprob = logprob * (torch.arange(8) != 2)
        gradients += torch.autograd.grad(logprob, hidden, problem.grad_logprob)
    torch.testing.assert_close(gradients[0], gradients[1])
    assert gradients[0][2].abs().max() == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_changes_nothing(backend: str):
    problem = make_problem(8, 32, 100, torch.float32)

    def step() -> tuple[torch.Tensor, ...]:
        hidden = problem.hidden.detach().requires_grad_()
        logprob = fused_linear_logprob(hidden, problem.weight, problem.target, backend=backend)
        return logprob, *torch.autograd.grad(logprob, hidden, problem.grad_logprob)

    plain = step()
    with torch.autocast("cpu", torch.bfloat16):
        cast = step()
    for one, other in zip(plain, cast, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_derivative_is_refused_not_dropped(backend: str):
    problem = make_problem(8, 16, 50, torch.float32)
    hidden = problem.hidden.requires_grad_()
    logprob = fused_linear_logprob(hidden, problem.weight, problem.target, backend=backend)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(logprob.sum(), hidden, create_graph=True)
    torch.autograd.grad(logprob.sum(), hidden)


@pytest.mark.parametrize("backend", BACKENDS)
def test_single_rows_and_columns_with_odd_strides(backend: str):
    hidden = torch.randn(64).as_strided((1, 1), (8, 8))
    weight = torch.randn(64).as_strided((1, 1), (8, 8))
    logprob = fused_linear_logprob(
        hidden, weight, torch.zeros(1, dtype=torch.long), backend=backend
    )
    assert logprob.tolist() == [0.0]


def test_numpy_numbers_are_numbers():
    problem = make_problem(4, 16, 20, torch.float32)
    arguments = (problem.hidden, problem.weight, problem.target)
    got = fused_linear_logprob(*arguments, temperature=np.float32(0.5), ignore_index=np.int64(-100))
    assert torch.equal(got, fused_linear_logprob(*arguments, temperature=0.5, ignore_index=-100))


def test_the_torch_backend_compiles_without_a_graph_break():
    problem = make_problem(8, 16, 50, torch.float32)

    def step(hidden: torch.Tensor) -> torch.Tensor:
        return fused_linear_logprob(hidden, problem.weight, problem.target, backend="torch").sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    gradients = []
    for function in (step, compiled):
        hidden = problem.hidden.detach().requires_grad_()
        gradients += torch.autograd.grad(function(hidden), hidden)
    torch.testing.assert_close(gradients[0], gradients[1])
