"""How the result lives with its surroundings: in-place changes, autocast, graphs, compile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import BACKENDS, make_problem
from torch.autograd import forward_ad

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
def test_the_weights_dtype_decides_under_autocast_too(backend: str):
    # As a trainer has it: activations that autocast made 16 bits wide, fp32 master weights.
    problem = make_problem(8, 32, 100, torch.float32)
    hidden = problem.hidden.half().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        logprob = fused_linear_logprob(hidden, problem.weight, problem.target, backend=backend)
        (d_hidden,) = torch.autograd.grad(logprob, hidden, problem.grad_logprob)
    exact = torch.log_softmax(hidden.detach().double() @ problem.weight.double().T, -1)
    expected = exact.gather(-1, problem.target[:, None])[:, 0]
    assert d_hidden.dtype is torch.float16
    torch.testing.assert_close(logprob.double(), expected, atol=2e-6, rtol=0)


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


TRANSFORMS = {
    "grad": lambda f, x: torch.func.grad(lambda y: f(y).sum())(x),
    "vmap": lambda f, x: torch.func.vmap(f)(x.unsqueeze(0)),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
def test_a_torch_func_transform_is_refused_by_name(backend: str, name: str):
    problem = make_problem(4, 16, 20, torch.float32)

    def function(hidden: torch.Tensor, backend: str = backend) -> torch.Tensor:
        return fused_linear_logprob(hidden, problem.weight, problem.target, backend=backend)

    with pytest.raises(RuntimeError, match=r"fused_linear_logprob works under no torch\.func"):
        TRANSFORMS[name](function, problem.hidden)
    TRANSFORMS[name](lambda hidden: function(hidden, "reference"), problem.hidden)


@pytest.mark.parametrize("backend", BACKENDS)
def test_forward_mode_is_refused_by_name(backend: str):
    problem = make_problem(4, 16, 20, torch.float32)
    with forward_ad.dual_level():
        hidden = forward_ad.make_dual(problem.hidden, torch.ones(4, 16))
        with pytest.raises(NotImplementedError, match="fused_linear_logprob has no forward-mode"):
            fused_linear_logprob(hidden, problem.weight, problem.target, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tied_weights_get_both_gradients(backend: str):
    problem = make_problem(12, 16, 50, torch.float32)
    tokens = torch.arange(12) % 7
    gradients = []
    for name in (backend, "reference"):
        weight = problem.weight.detach().requires_grad_()
        hidden = torch.tanh(weight[tokens] * 3)
        logprob = fused_linear_logprob(hidden, weight, problem.target, backend=name)
        logprob = logprob + fused_linear_logprob(
            hidden, weight, problem.target.flip(0), temperature=2.0, backend=name
        )
        gradients += torch.autograd.grad(logprob, weight, problem.grad_logprob)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_upstream_gradients_of_any_layout(backend: str):
    problem = make_problem(12, 16, 50, torch.float32)
    hidden = problem.hidden.requires_grad_()
    results = fused_linear_logprob(
        hidden,
        problem.weight,
        problem.target,
        return_entropy=True,
        entropy_requires_grad=True,
        backend=backend,
    )
    layouts = {
        "strided": torch.randn(12, 3)[:, 1],
        "reversed and cast": torch.randn(12, dtype=torch.float64).flip(0).float(),
        "expanded": torch.tensor(-0.3).expand(12),
        "one row alone": torch.eye(12)[5],
    }
    for name, upstream in layouts.items():
        pair = (upstream, 2 * upstream)
        got = torch.autograd.grad(results, hidden, pair, retain_graph=True)[0]
        plain = tuple(one.clone(memory_format=torch.contiguous_format) for one in pair)
        want = torch.autograd.grad(results, hidden, plain, retain_graph=True)[0]
        assert torch.equal(got, want), name
        assert (want[0].abs().max() == 0) == (name == "one row alone")
