"""torch.compile traces the op whole; what it traces is registered as torch.library asks."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from problems import BACKENDS, INTERPRETED, make_problem

from fused_lmhead import fused_linear_logprob
from fused_lmhead.library import linear_logprob, linear_logprob_backward, schedule_of
from fused_lmhead.ops import _plain
from fused_lmhead.schedules import BACKWARD_WORKSPACE, Schedule

OPTIONS = [
    {},
    {"ignore_index": 3, "temperature": 0.7, "return_entropy": True},
    {"return_entropy": True, "entropy_requires_grad": True, "keep_logits_budget": 2**20},
    {"schedule": Schedule(16, 16, 16, 2, 4, 2), "backward_budget": 2048},
]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    """Each test traces anew; Dynamo gives up on a function that it traced eight times."""
    torch.compiler.reset()


def values_and_gradients(function, problem, options) -> list[torch.Tensor]:
    """Of the log-prob, and of a differentiable entropy where ``options`` has one."""
    hidden = problem.hidden.detach().requires_grad_()
    weight = problem.weight.detach().requires_grad_()
    results = function(hidden, weight, problem.target, options)
    outputs = [one for one in results if one.requires_grad]
    upstream = [problem.grad_logprob, problem.grad_entropy][: len(outputs)]
    gradients = torch.autograd.grad(outputs, (hidden, weight), upstream)
    return [*(one.detach() for one in results), *gradients]


def step(hidden, weight, target, options) -> tuple[torch.Tensor, ...]:
    results = fused_linear_logprob(2 * hidden, weight, target, **options)
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_compiled_op_is_the_eager_one(backend: str, options):
    problem = make_problem(24, 16, 50, torch.float32)
    options = {**options, "backend": backend}
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    expected = values_and_gradients(step, problem, options)
    got = values_and_gradients(compiled, problem, options)
    for one, other in zip(expected, got, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_token_count_is_not_traced_again(backend: str):
    graphs = 0

    def count(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        nonlocal graphs
        graphs += 1
        return graph.forward

    compiled = torch.compile(step, fullgraph=True, backend=count, dynamic=True)
    weight = torch.randn(20, 16)
    for m in (5, 9, 12):
        hidden, target = torch.randn(m, 16), torch.arange(m)
        (got,) = compiled(hidden, weight, target, {"backend": backend})
        (expected,) = step(hidden, weight, target, {"backend": backend})
        assert torch.equal(got, expected)
    assert graphs == 1


def test_a_compiled_frozen_side_gets_no_gradient():
    problem = make_problem(8, 16, 50, torch.float32)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for frozen in ("hidden", "weight"):
        hidden = problem.hidden.detach().requires_grad_(frozen != "hidden")
        weight = problem.weight.detach().requires_grad_(frozen != "weight")
        for function in (compiled, step):
            function(hidden, weight, problem.target, {})[0].sum().backward()
        assert (hidden.grad is None) == (frozen == "hidden")
        assert (weight.grad is None) == (frozen == "weight")


def test_autocast_changes_nothing_in_a_compiled_step():
    problem = make_problem(8, 32, 100, torch.float32)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    expected = values_and_gradients(step, problem, {})
    with torch.autocast("cpu", torch.bfloat16):
        got = values_and_gradients(compiled, problem, {})
    for one, other in zip(expected, got, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("backend", "kept"), [("torch", 0), pytest.param("triton", 2**20, marks=INTERPRETED)]
)
def test_opcheck_passes(backend: str, kept: int):
    problem = make_problem(6, 16, 50, torch.float32)
    hidden = problem.hidden.T.contiguous().T.requires_grad_()
    weight = problem.weight.requires_grad_()
    chosen = (backend, 4, *_plain(Schedule(16, 16, 16, 2, 4, 2)), BACKWARD_WORKSPACE, kept)
    options = (1.0, None, True, True, *chosen)
    torch.library.opcheck(linear_logprob, (hidden, weight, problem.target, *options))
    with torch.no_grad():
        _, entropy, *saved = linear_logprob(hidden, weight, problem.target, *options)
        upstream = (entropy, problem.grad_logprob, problem.grad_entropy)
        arguments = (hidden.detach(), weight.detach(), problem.target, *saved, *upstream)
        for needs in ((True, True), (False, True)):
            torch.library.opcheck(linear_logprob_backward, (*arguments, *needs, 1.0, None, *chosen))


def test_a_second_derivative_of_the_op_is_refused():
    problem = make_problem(8, 16, 50, torch.float32)
    hidden = problem.hidden.requires_grad_()
    options = (1.0, None, False, False, "torch", 4, [], "", BACKWARD_WORKSPACE, 0)
    logprob = linear_logprob(hidden, problem.weight, problem.target, *options)[0]
    (gradient,) = torch.autograd.grad(logprob.sum(), hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        gradient.sum().backward()


def test_a_schedule_travels_as_plain_values():
    schedule = Schedule(1, 2, 3, 4, 5, 6, "specialised")
    assert schedule_of(*_plain(schedule)) == schedule
    assert schedule_of(*_plain(None)) is None
    assert len(dataclasses.fields(Schedule)) == 7, "a field that travels with no op"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kept", [0, 2**30], ids=["recomputed", "kept"])
def test_inductor_compiles_the_triton_backend_whole(kept: int):
    problem = make_problem(300, 512, 4099, torch.bfloat16, "cuda")
    options = {
        "backend": "triton",
        "return_entropy": True,
        "entropy_requires_grad": True,
        "keep_logits_budget": kept,
    }
    expected = values_and_gradients(step, problem, options)
    got = values_and_gradients(torch.compile(step, fullgraph=True), problem, options)
    for one, other in zip(expected, got, strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_opcheck_passes_on_the_gpu():
    problem = make_problem(40, 64, 500, torch.bfloat16, "cuda")
    hidden, weight = problem.hidden.requires_grad_(), problem.weight.requires_grad_()
    chosen = ("triton", 4, [], "", BACKWARD_WORKSPACE, 2**20)
    options = (1.0, None, True, True, *chosen)
    torch.library.opcheck(linear_logprob, (hidden, weight, problem.target, *options))
