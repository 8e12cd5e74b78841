"""Memory beside inputs and results: the formulas at every shape, and what is really held."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import INTERPRETED, make_problem
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fused_lmhead import fused_linear_logprob
from fused_lmhead.memory import (
    NARROWEST_SPLIT,
    backward_bytes,
    forward_bytes,
    kept_bytes,
    split_columns,
)
from fused_lmhead.problem import Normaliser
from fused_lmhead.schedules import Schedule, plan

MIB, GIB = 2**20, 2**30
SMALL = Schedule(32, 32, 16, 2, 4, 2)

# The sweep: heads x total tokens x (TP, CP), as the distinct shapes that one rank sees.
HEADS = [(8192, 131072), (4096, 131072), (2048, 248320), (7168, 163840)]
TOTALS = [16384, 32768, 65536, 131072, 262144]
SPLITS = [(tp, cp) for tp in (1, 2, 4, 8) for cp in (1, 2, 4, 8) if tp * cp <= 8]
LOCAL_SHAPES = sorted(
    {
        (total // cp, h, v // tp)
        for (h, v), total, (tp, cp) in itertools.product(HEADS, TOTALS, SPLITS)
    }
)


def test_the_sweep_has_104_local_shapes():
    assert len(LOCAL_SHAPES) == 104
    assert max(m for m, _, _ in LOCAL_SHAPES) == 262144


@pytest.mark.parametrize("multiprocessors", [78, 108, 132])
@pytest.mark.parametrize("budget", [256 * MIB, GIB, 4 * GIB])
def test_workspaces_keep_to_their_bounds_at_every_local_shape(budget: int, multiprocessors: int):
    for m, h, v in LOCAL_SHAPES:
        chosen = plan(m, h, v, 2, multiprocessors)
        block_n = chosen.forward.block_n
        assert forward_bytes(m, v, block_n, chosen.tokens_per_chunk, True) <= 256 * MIB
        columns = split_columns(m, v, 2, chosen.backward.block_n, chosen.columns_per_split, budget)
        # 8·M: upstream gradients as plain rows.
        accumulator = 4 * m * h if columns < v else 0
        assert backward_bytes(m, h, v, 2, columns) <= budget + 8 * m + accumulator
        assert 2 * m * columns <= budget
        assert columns == v or columns % chosen.backward.block_n == 0


def test_a_bigger_budget_makes_wider_splits_where_tokens_are_many():
    m, h, v = 262144, 4096, 131072
    chosen = plan(m, h, v, 2, 132)
    planned, block_n = chosen.columns_per_split, chosen.backward.block_n
    assert split_columns(m, v, 2, block_n, planned, GIB) == planned
    assert split_columns(m, v, 2, block_n, planned, 4 * GIB) == 4 * planned


@given(
    m=st.integers(1, 2**20),
    v=st.integers(1, 300_000),
    element_size=st.sampled_from([2, 4]),
    budget=st.integers(1, 2**36),
)
def test_a_split_fits_any_budget_or_says_why_not(m: int, v: int, element_size: int, budget: int):
    chosen = plan(m, 4096, v, element_size, 132)
    block_n, planned = chosen.backward.block_n, chosen.columns_per_split
    if budget < min(planned, NARROWEST_SPLIT) * m * element_size:
        with pytest.raises(ValueError, match=f"backward_budget {budget} is too small for {m} tok"):
            split_columns(m, v, element_size, block_n, planned, budget)
        return
    columns = split_columns(m, v, element_size, block_n, planned, budget)
    assert 1 <= columns <= v
    assert columns * m * element_size <= budget
    assert columns == v or columns % NARROWEST_SPLIT == 0


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
        dz, first_column = arguments[6:8]
        dz.normal_(generator=torch.Generator().manual_seed(first_column))

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


@pytest.mark.parametrize("columns", [32, 96, 200], ids=lambda n: f"{n} of 200 columns")
@pytest.mark.parametrize("frozen", [None, "hidden", "weight"])
def test_a_backward_pass_holds_what_the_formula_says(columns: int, frozen, no_kernels):
    m, h, v = 40, 24, 200
    needs = {} if frozen is None else {f"needs_{frozen}": False}
    alive, gradients = backward_alone(m, h, v, torch.float32, 4 * m * columns, **needs)
    gradient_bytes = sum(one.nbytes for one in gradients if one is not None)
    # In fp32 the sum of the splits is itself the result; the upstream rows came as they are.
    assert alive.peak == gradient_bytes + 4 * m * columns
    assert sum(alive.sizes.values()) == gradient_bytes


def test_the_logit_gradient_is_gone_before_d_hidden_is_rounded(no_kernels):
    m, h, v = 40, 24, 200
    alive, (d_hidden, d_weight) = backward_alone(m, h, v, torch.float16, 2 * m * 64)
    assert d_hidden.dtype is torch.float16
    assert alive.at_casts[-1] == 4 * m * h + d_weight.nbytes
    assert sum(alive.sizes.values()) == d_hidden.nbytes + d_weight.nbytes


def test_one_split_has_no_accumulator(no_kernels):
    m, h, v = 40, 24, 200
    alive, (d_hidden, d_weight) = backward_alone(m, h, v, torch.float16, 2 * m * v)
    assert d_hidden.dtype is torch.float16
    assert alive.at_casts == []
    assert alive.peak == d_hidden.nbytes + d_weight.nbytes + 2 * m * v


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(16, 16, 256), (9, 24, 200), (33, 8, 136)], ids=str)
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
