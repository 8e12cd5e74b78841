"""Two ranks over gloo, called as trainers call: memory options, traffic, strides, wrong ranges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from parallel_probes import SPLIT, H, M, V
from parallel_trainers import B, S, whole_batch

from fused_lmhead.reference import reference_linear_logprob

pytest.importorskip("triton")

LOGPROB_GATE, HIDDEN_GATE, WEIGHT_GATE = 1.91e-6, 2.34e-5, 2.80e-5

Found = Callable[[str], list[Any]]


@pytest.fixture
def found(two_ranks: Path) -> Found:
    """Both ranks' findings of a probe."""
    return lambda name: [torch.load(two_ranks / f"{name}-{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("budget", ["narrow", "kept"])
def test_memory_options_change_no_result(budget: str, found: Found):
    for rank in found("budgets"):
        plain, other = rank["default"], rank[budget]
        for one, two in zip(plain["values"], other["values"], strict=True):
            torch.testing.assert_close(two, one, rtol=0, atol=LOGPROB_GATE)
        for name, gate in (("d_hidden", HIDDEN_GATE), ("d_weight", WEIGHT_GATE)):
            torch.testing.assert_close(other[name], plain[name], rtol=0, atol=gate)


def test_memory_options_reach_the_backend(found: Found):
    for rank, rows in zip(found("budgets"), (SPLIT, V - SPLIT), strict=True):
        assert (M, rows) in rank["kept"]["saved"]
        assert (M, rows) not in rank["default"]["saved"]
        # Sums over several splits round otherwise than one product.
        assert not torch.equal(rank["narrow"]["d_hidden"], rank["default"]["d_hidden"])


def test_each_call_makes_the_collective_calls_that_it_documents(found: Found):
    vocabulary = ({"all_reduce": 2}, {})
    for rank in found("traffic"):
        assert rank == {
            "padded-tp": vocabulary,
            "packed-tp": vocabulary,
            "padded-cp": ({"all_gather": 1}, {"all_reduce": 1}),
            "packed-cp": ({"all_gather": 1}, {}),
        }


@pytest.mark.parametrize("shares", ["tp", "cp"])
def test_strides_change_no_bit(shares: str, found: Found):
    for rank in found("layouts_in_memory"):
        plain, strided = rank[f"{shares}-False"], rank[f"{shares}-True"]
        dtypes = [torch.float32, torch.float32, torch.float32, torch.bfloat16]
        for one, other, dtype in zip(plain, strided, dtypes, strict=True):
            assert one.dtype is other.dtype is dtype
            assert torch.equal(one, other)


def test_a_bf16_head_takes_fp32_hidden_states(found: Found):
    hidden, weight, target = whole_batch()
    expected = reference_linear_logprob(
        hidden.bfloat16().double()[:, :-1].reshape(-1, H),
        weight.bfloat16().double(),
        target[:, 1:].reshape(-1),
        dtype=torch.float64,
    )
    for rank in found("layouts_in_memory"):
        for shares in ("tp", "cp"):
            for value, truth in zip(rank[f"{shares}-False"][:2], expected, strict=True):
                # Logits of unit variance, rounded to 8 bits by the torch backend.
                assert float((value.double() - truth.view(B, S - 1)).abs().max()) < 0.03


def test_overlapping_ranges_give_no_number(found: Found):
    target = whole_batch()[2][:, 1:]
    for logprob in found("overlapping"):
        both, one = target < SPLIT, (target >= SPLIT) & (target < V - SPLIT)
        assert both.any()
        assert one.any()
        assert torch.equal(logprob.isnan(), both)
        assert (logprob[one] < 0).all()
        assert (logprob[target >= V - SPLIT] == 0).all()
