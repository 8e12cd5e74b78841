"""When d_hidden's sum starts and is waited for. The collective call and one backend are played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
import torch.distributed as dist
from problems import make_problem

from fused_lmhead.parallel.hidden_gradient import SummedHiddenGradient
from fused_lmhead.problem import Normaliser


@dataclass(frozen=True)
class Announces:
    """Says when d_hidden is there, with d_weight still to come."""

    events: list[str]
    hidden_ready: Callable[[torch.Tensor], None] | None = None

    def backward(self, *arguments):
        d_hidden, d_weight = Silent(self.events).backward(*arguments)
        if d_hidden is not None and self.hidden_ready is not None:
            self.hidden_ready(d_hidden)
        self.events.append("weight")
        return d_hidden, d_weight


@dataclass(frozen=True)
class Silent:
    """Gives both gradients at once."""

    events: list[str]

    def backward(self, *arguments):
        needs_hidden, needs_weight = arguments[-2:]
        self.events.append("hidden")
        return (
            torch.ones(3, 2) if needs_hidden else None,
            torch.ones(4, 2) if needs_weight else None,
        )


class Work:
    def __init__(self, events: list[str]) -> None:
        self.events = events

    def wait(self) -> None:
        self.events.append("wait")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, in order; the played sum doubles."""
    seen: list[str] = []

    def all_reduce(tensor: torch.Tensor, group: object, async_op: bool) -> Work:
        assert group == "group"
        assert async_op
        tensor.mul_(2)
        seen.append("sum")
        return Work(seen)

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    return seen


def gradients(backend, needs_hidden: bool = True):
    return SummedHiddenGradient(backend, "group").backward(*[None] * 7, needs_hidden, True)


def test_the_sum_runs_beside_the_weights_gradient(events):
    d_hidden, d_weight = gradients(Announces(events))
    assert events == ["hidden", "sum", "weight", "wait"]
    assert (d_hidden == 2).all()
    assert (d_weight == 1).all()


def test_a_backend_that_says_nothing_is_summed_at_its_end(events):
    d_hidden, _ = gradients(Silent(events))
    assert events == ["hidden", "sum", "wait"]
    assert (d_hidden == 2).all()


@pytest.mark.parametrize("backend", [Announces, Silent])
def test_frozen_hidden_states_are_not_summed(events, backend):
    d_hidden, d_weight = gradients(backend(events), needs_hidden=False)
    assert d_hidden is None
    assert (d_weight == 1).all()
    assert "sum" not in events
    assert "wait" not in events


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("budget", [2**30, 20_000])
def test_the_triton_backend_announces_d_hidden_before_d_weight_is_done(
    dtype: torch.dtype, budget: int, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("triton")
    from fused_lmhead.launch import TritonBackend

    problem = make_problem(37, 48, 301, dtype)
    silent = TritonBackend(backward_budget=budget)
    announced, products = [], []
    real = torch.mm
    monkeypatch.setattr(
        torch, "mm", lambda *args, **options: (products.append("mm"), real(*args, **options))[1]
    )

    def ready(d_hidden: torch.Tensor) -> None:
        announced.append((d_hidden, len(products)))

    statistics = silent.forward(problem.hidden, problem.weight, problem.target, 1.0, False)
    arguments = (
        problem.hidden,
        problem.weight,
        problem.target,
        Normaliser(statistics.shift_M, statistics.log_sum_M, None),
        problem.grad_logprob,
        None,
        1.0,
        True,
        True,
    )
    expected = silent.backward(*arguments)
    splits, products[:] = len(products), []
    got = replace(silent, hidden_ready=ready).backward(*arguments)
    ((d_hidden, before),) = announced
    assert d_hidden is got[0]
    assert before == splits - 1
    assert len(products) == splits
    assert (splits > 1) == (budget < 2**30)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])
