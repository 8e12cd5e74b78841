"""Shards merged in one process: values, gradients, and what is far from ordinary."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
import torch
from problems import BACKENDS, Problem, Solution, make_problem, oracle, solve

from fused_lmhead.autograd import FusedLinearLogprob
from fused_lmhead.chunked import ChunkedBackend
from fused_lmhead.parallel.merging import Shard, merge_by, merge_shards
from fused_lmhead.problem import Backend, Statistics
from fused_lmhead.reference import reference_linear_logprob

LOGPROB_GATE, HIDDEN_GATE, WEIGHT_GATE = 1.91e-6, 2.34e-5, 2.80e-5
GATES = {
    "logprob": LOGPROB_GATE,
    "entropy": LOGPROB_GATE,
    "d_hidden": HIDDEN_GATE,
    "d_weight": WEIGHT_GATE,
}


def backend_of(name: str) -> Backend:
    if name == "torch":
        return ChunkedBackend(16)
    from fused_lmhead.launch import TritonBackend

    return TritonBackend()


def bounds(v: int, tp: int, even: bool) -> list[tuple[int, int]]:
    """Ranges of the shards; uneven ones have widths in the ratio 1 : 2 : … : tp."""
    if even:
        edges = [round(v * i / tp) for i in range(tp + 1)]
    else:
        weights = list(accumulate(range(1, tp + 1), initial=0))
        edges = [v * w // weights[-1] for w in weights]
    return list(pairwise(edges))


def sharded(problem: Problem, backend: Backend, ranges, temperature: float = 1.0) -> Solution:
    """Every shard's forward, the merge, every shard's backward; d_hidden summed."""
    shards = []
    for start, end in ranges:
        target = problem.target - start
        weight = problem.weight[start:end]
        statistics = backend.forward(problem.hidden, weight, target, temperature, True)
        shards.append(Shard(statistics, target, end - start))
    whole = merge_shards(shards, temperature)
    assert whole.entropy_M is not None
    d_hidden = torch.zeros_like(problem.hidden, dtype=torch.float64)
    d_weights = []
    for (start, end), shard in zip(ranges, shards, strict=True):
        hidden = problem.hidden.detach().requires_grad_()
        weight = problem.weight[start:end].detach().requires_grad_()
        # Results become each call's own, as those of a merge over a group are.
        fresh = whole._replace(logprob_M=whole.logprob_M.clone(), entropy_M=whole.entropy_M.clone())
        values = FusedLinearLogprob.apply(
            hidden,
            weight,
            shard.target_M,
            backend,
            temperature,
            None,
            True,
            True,
            lambda *_, fresh=fresh: fresh,
        )
        one, other = torch.autograd.grad(
            values, (hidden, weight), (problem.grad_logprob, problem.grad_entropy)
        )
        d_hidden += one.double()
        d_weights.append(other.double())
    return Solution(
        whole.logprob_M.double(), whole.entropy_M.double(), d_hidden, torch.cat(d_weights)
    )


# M, H, V, TP, even shards: odd everywhere, no shard divisible by a tile, down to two columns.
LAYOUTS = [
    (37, 45, 1003, 8, False),
    (37, 45, 1003, 2, True),
    (19, 90, 613, 4, False),
    (5, 33, 17, 8, True),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_shards_together_are_the_whole_vocabulary(backend: str, layout):
    *shape, tp, even = layout
    problem = make_problem(*shape, torch.float32)
    got = sharded(problem, backend_of(backend), bounds(shape[2], tp, even), 0.7)
    for name, error in got.errors(oracle(problem, 0.7, torch.float64)).items():
        assert error <= GATES[name], name


@pytest.mark.slow
@pytest.mark.parametrize("tp", [2, 8])
def test_a_large_vocabulary_keeps_to_the_gates(tp: int):
    problem = make_problem(64, 288, 50_257, torch.float32)
    got = sharded(problem, backend_of("torch"), bounds(50_257, tp, False))
    for name, error in got.errors(oracle(problem, 1.0, torch.float64)).items():
        print(f"TP {tp} {name}: {error:.2e}")
        assert error <= GATES[name], name


def shards_of(logits: torch.Tensor, target: torch.Tensor, ranges, temperature: float = 1.0):
    """Shards of given logits: an identity as the hidden states."""
    backend = ChunkedBackend(64)
    identity = torch.eye(logits.shape[0])
    return [
        Shard(
            backend.forward(
                identity, logits[:, start:end].T.contiguous(), target - start, temperature, True
            ),
            target - start,
            end - start,
        )
        for start, end in ranges
    ]


def test_all_statistics_mean_what_those_of_one_shard_mean():
    logits = torch.randn(9, 40, generator=torch.Generator().manual_seed(0))
    target = torch.arange(9) * 4
    (whole,) = shards_of(logits, target, [(0, 40)], 0.7)
    got = merge_shards(shards_of(logits, target, [(0, 13), (13, 14), (14, 40)], 0.7), 0.7)
    for name, one in got._asdict().items():
        torch.testing.assert_close(one, getattr(whole.statistics, name), rtol=0, atol=1e-6)


def test_a_target_nobody_owns_has_log_prob_zero():
    logits = torch.randn(4, 12, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([-100, 12, 2**40, 5])
    got = merge_shards(shards_of(logits, target, [(0, 5), (5, 12)]), 1.0)
    assert got.logprob_M[:3].tolist() == [0.0, 0.0, 0.0]
    assert float(got.logprob_M[3]) == pytest.approx(float(logits[3].log_softmax(-1)[5]), abs=1e-6)


def test_a_target_that_two_shards_own_is_no_number():
    """Ranges that overlap would otherwise add its logit twice, to a value like any other."""
    logits = torch.randn(4, 12, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([3, 4, 5, 12])
    got = merge_shards(shards_of(logits, target, [(0, 5), (4, 12)]), 1.0)
    assert got.logprob_M.isnan().tolist() == [False, True, False, False]
    assert float(got.logprob_M[3]) == 0.0


@pytest.mark.parametrize("offset", [1e4, -1e4])
def test_a_common_offset_costs_nothing_between_shards(offset: float):
    logits = torch.randn(16, 60, generator=torch.Generator().manual_seed(0))
    logits = (logits * 256).round() / 256  # exact beside the offset
    target = torch.arange(16) * 3
    ranges = [(0, 20), (20, 33), (33, 60)]
    got = merge_shards(shards_of(logits + offset, target, ranges), 1.0)
    plain = merge_shards(shards_of(logits, target, ranges), 1.0)
    assert torch.equal(got.logprob_M, plain.logprob_M)
    assert torch.equal(got.entropy_M, plain.entropy_M)


def test_shards_of_very_different_height_do_not_disturb_each_other():
    logits = torch.zeros(2, 6)
    logits[:, 3:] = torch.tensor([[-3e4], [3e4]])
    got = merge_shards(shards_of(logits, torch.tensor([0, 5]), [(0, 3), (3, 6)], 0.1), 0.1)
    log3 = torch.log(torch.tensor(3.0)).expand(2)
    torch.testing.assert_close(got.logprob_M, -log3)
    torch.testing.assert_close(got.entropy_M, log3)


def test_a_shard_of_nothing_but_minus_infinity_has_no_part():
    """Statistics by hand: what a backend makes of such rows is its own affair."""
    logits = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([0, 3, 8])
    (whole,) = shards_of(logits, target, [(0, 8)])
    nan = torch.full((3,), float("nan"))
    masked = Shard(
        Statistics(torch.zeros(3), nan - torch.inf, nan, nan, torch.full((3,), -torch.inf), nan),
        target - 8,
        4,
    )
    masked.statistics.shift_M.fill_(-torch.inf)
    got = merge_shards([whole, masked], 1.0)
    assert torch.allclose(got.logprob_M[:2], whole.statistics.logprob_M[:2], atol=1e-6, rtol=0)
    assert float(got.logprob_M[2]) == -torch.inf
    torch.testing.assert_close(got.entropy_M, whole.statistics.entropy_M)


def test_not_a_number_in_one_shard_reaches_every_rank():
    backend, target = ChunkedBackend(4), torch.tensor([1, 1])
    hidden, weight = torch.tensor([[float("nan")], [1.0]]), torch.randn(4, 1)
    shards = [
        Shard(backend.forward(hidden.nan_to_num(), weight, target, 1.0, True), target, 4),
        Shard(backend.forward(hidden, weight, target - 4, 1.0, True), target - 4, 4),
    ]
    got = merge_shards(shards, 1.0)
    assert got.logprob_M.isnan().tolist() == [True, False]
    assert got.entropy_M is not None
    assert got.entropy_M.isnan().tolist() == [True, False]


def test_without_entropy_nothing_of_it_is_reduced():
    seen = []
    logits = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    (shard,) = shards_of(logits, torch.zeros(3, dtype=torch.long), [(0, 4)])
    statistics = shard.statistics._replace(entropy_M=None, mean_exponent_M=None)
    merge = merge_by(lambda tensor, operation: seen.append(tuple(tensor.shape)), 4)
    merged = merge(statistics, shard.target_M, 1.0)
    assert seen == [(3,), (3, 3)]
    assert merged.entropy_M is merged.mean_exponent_M is None
    torch.testing.assert_close(merged.logprob_M, shard.statistics.logprob_M, rtol=0, atol=1e-6)


def test_no_tokens_meet_nobody():
    empty = ChunkedBackend(4).forward(
        torch.zeros(0, 2), torch.ones(3, 2), torch.zeros(0, dtype=torch.long), 1.0, True
    )
    merge = merge_by(lambda *_: pytest.fail("a collective call without tokens"), 3)
    assert merge(empty, torch.zeros(0, dtype=torch.long), 1.0) is empty


def test_an_unowned_target_still_lowers_every_logit():
    """Its gradient is -p·g: that of the reference for targets outside the vocabulary."""
    problem = make_problem(6, 8, 20, torch.float32)
    problem.target[:] = 20
    expected = solve(
        problem,
        lambda hidden, weight, target: reference_linear_logprob(
            hidden, weight, target, entropy_requires_grad=True, dtype=torch.float64
        ),
    )
    got = sharded(problem, ChunkedBackend(4), [(0, 7), (7, 20)])
    assert float(expected.d_weight.abs().max()) > 0.1
    for name, error in got.errors(expected).items():
        assert error <= GATES[name], name
