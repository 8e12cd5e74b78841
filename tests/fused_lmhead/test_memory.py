"""Memory beside inputs and results: what is really held, against the formulas."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from problems import INTERPRETED, make_problem
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fused_lmhead import fused_linear_logprob
from fused_lmhead.memory import forward_bytes, kept_bytes
from fused_lmhead.problem import Normaliser
from fused_lmhead.schedules import Schedule

SMALL = Schedule(32, 32, 16, 2, 4, 2)


class Alive(TorchDispatchMode):
    """Bytes of the storages made since it began and alive, at most; and at each dtype cast."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.peak = 0
        self.at_casts: list[int] = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function is torch.ops.aten._to_copy.default:
            self.at_casts.append(sum(self.sizes.values()))
        result = function(*arguments, **(options or {}))
        old = {one.untyped_storage()._cdata for one in _tensors(arguments) + _tensors(options)}
        for one in _tensors(result):
            storage = one.untyped_storage()
            key = storage._cdata
            if key not in self.sizes and key not in old:
                self.sizes[key] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, key)
        self.peak = max(self.peak, sum(self.sizes.values()))
        return result


def _tensors(tree) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@contextmanager
def everything_kept_alive() -> Iterator[None]:
    """No tensor that is made here dies before the end, whoever lets go of it."""
    held: list[torch.Tensor] = []

    class Holding(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            result = function(*arguments, **(options or {}))
            held.extend(_tensors(result))
            return result

    with Holding():
        yield


@pytest.fixture
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logit gradient is made up: Triton's interpreter keeps its arguments in cycles."""
    pytest.importorskip("triton")

    def logit_gradient(*arguments) -> None:
        hidden, dz, first_column = arguments[0], *arguments[6:8]
        block = hidden.storage_offset() + first_column
        dz.normal_(generator=torch.Generator().manual_seed(block))

    monkeypatch.setattr("fused_lmhead.launch.logit_gradient", logit_gradient)


def backward_alone(m: int, h: int, v: int, dtype: torch.dtype, budget: int, **needs: bool):
    """The tracker, and the gradients of made-up upstream gradients."""
    from fused_lmhead.launch import TritonBackend

    problem = make_problem(m, h, v, dtype)
    normaliser = Normaliser(torch.zeros(m), torch.zeros(m), None)
    inputs = (problem.hidden, problem.weight, problem.target, normaliser, problem.grad_logprob)
    wanted = {"needs_hidden": True, "needs_weight": True, **needs}
    with Alive() as alive:
        backend = TritonBackend(SMALL, backward_budget=budget)
        gradients = backend.backward(*inputs, None, 1.0, **wanted)
    return alive, gradients


def assert_nothing_else(alive: Alive, gradients, logit_gradient: int) -> None:
    """In fp32 a sum is itself the result; the upstream rows came as they are."""
    gradient_bytes = sum(one.nbytes for one in gradients if one is not None)
    assert alive.peak == gradient_bytes + logit_gradient
    assert sum(alive.sizes.values()) == gradient_bytes


@pytest.mark.parametrize("columns", [32, 96, 200], ids=lambda n: f"{n} of 200 columns")
@pytest.mark.parametrize("frozen", [None, "hidden", "weight"])
def test_a_backward_pass_holds_what_the_formula_says(columns: int, frozen, no_kernels):
    m, h, v = 40, 24, 200
    needs = {} if frozen is None else {f"needs_{frozen}": False}
    alive, gradients = backward_alone(m, h, v, torch.float32, 4 * m * columns, **needs)
    assert_nothing_else(alive, gradients, 4 * m * columns)


def test_the_logit_gradient_is_gone_before_d_hidden_is_rounded(no_kernels):
    m, h, v = 40, 24, 200
    alive, (d_hidden, d_weight) = backward_alone(m, h, v, torch.float16, 2 * m * 64)
    assert d_hidden.dtype is torch.float16
    assert alive.at_casts[-1] == 4 * m * h + d_weight.nbytes
    assert sum(alive.sizes.values()) == d_hidden.nbytes + d_weight.nbytes


@pytest.mark.parametrize("v", [40, 37], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("frozen", [None, "weight"])
def test_chunks_of_tokens_hold_what_the_formula_says(v: int, frozen: str | None, no_kernels):
    m, h, tokens, row = 200, 24, 96, 40
    needs = {} if frozen is None else {f"needs_{frozen}": False}
    alive, gradients = backward_alone(m, h, v, torch.float32, 4 * tokens * row, **needs)
    assert_nothing_else(alive, gradients, 4 * tokens * row)


def test_frozen_hidden_states_are_cut_by_columns_and_sum_nothing(no_kernels):
    m, h, v = 200, 24, 40
    budget = 4 * m * 16
    alive, gradients = backward_alone(m, h, v, torch.float32, budget, needs_hidden=False)
    assert gradients[0] is None
    assert alive.peak == gradients[1].nbytes + budget
    # Rounded within its product: nothing is cast, but what CPU tensors are for a sum in fp32.
    alive, _ = backward_alone(m, h, v, torch.float16, budget // 2, needs_hidden=False)
    assert alive.at_casts == []


def test_frozen_weights_are_cut_by_tokens_and_sum_nothing(no_kernels):
    m, h, v = 40, 24, 200
    alive, (d_hidden, _) = backward_alone(m, h, v, torch.float16, 2 * 32 * v, needs_weight=False)
    assert alive.at_casts == []
    assert alive.peak == d_hidden.nbytes + 2 * 32 * v


def test_the_logit_gradient_is_gone_before_d_weight_is_rounded(no_kernels):
    m, h, v = 200, 24, 40
    alive, (d_hidden, d_weight) = backward_alone(m, h, v, torch.float16, 2 * 96 * v)
    assert d_weight.dtype is torch.float16
    assert alive.at_casts[-1] == 4 * v * h + d_hidden.nbytes
    assert sum(alive.sizes.values()) == d_hidden.nbytes + d_weight.nbytes


def test_one_split_has_no_accumulator(no_kernels):
    m, h, v = 40, 24, 200
    alive, (d_hidden, d_weight) = backward_alone(m, h, v, torch.float16, 2 * m * v)
    assert d_hidden.dtype is torch.float16
    assert alive.at_casts == []
    assert alive.peak == d_hidden.nbytes + d_weight.nbytes + 2 * m * v


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "shape", [(16, 16, 256), (9, 24, 200), (33, 8, 136), (264, 24, 200)], ids=str
)
def test_freeing_early_changes_no_bit(shape, tp: int, dtype: torch.dtype, no_kernels):
    m, h, v = shape
    arguments = (m, h, v // tp, dtype, dtype.itemsize * m * 32)
    _, freed = backward_alone(*arguments)
    with everything_kept_alive():
        _, held = backward_alone(*arguments)
    for one, other in zip(freed, held, strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, other)


@INTERPRETED
def test_a_forward_pass_holds_what_the_formula_says():
    from fused_lmhead.launch import TritonBackend

    m, h, v = 33, 16, 100
    for kept in (0, kept_bytes(m, v, 4, 32)):
        backend = TritonBackend(SMALL, keep_logits_budget=kept)
        problem = make_problem(m, h, v, torch.float32)
        for with_entropy in (True, False):
            with Alive() as alive:
                backend.forward(problem.hidden, problem.weight, problem.target, 1.0, with_entropy)
            results = 4 * m * (4 if with_entropy else 3)  # log-prob, entropy, shift, log-sum
            expected = forward_bytes(m, v, SMALL.block_n, m, with_entropy) + results + kept
            assert alive.peak == expected


def test_a_budget_that_fits_nothing_is_named():
    hidden = torch.randn(100, 16, requires_grad=True)
    weight, target = torch.randn(50, 16), torch.arange(100) % 50
    if INTERPRETED.args[0]:
        pytest.skip("needs Triton's interpreter")
    logprob = fused_linear_logprob(hidden, weight, target, backend="triton", backward_budget=6399)
    with pytest.raises(ValueError, match="6399 is too small for 100 tokens: at least 6400 bytes"):
        logprob.sum().backward()
