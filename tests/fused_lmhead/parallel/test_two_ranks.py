"""Two ranks over gloo: the low-level calls, their collectives, options and lost peers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from parallel_probes import SPLIT, H, M, V, lose_a_peer, the_problem
from problems import make_problem, oracle

from fused_lmhead.parallel.processes import run_ranks

pytest.importorskip("triton")

LOGPROB_GATE, HIDDEN_GATE, WEIGHT_GATE = 1.91e-6, 2.34e-5, 2.80e-5
BACKENDS = ["torch", "triton"]

Found = Callable[[str], list[Any]]


@pytest.fixture
def found(two_ranks: Path) -> Found:
    """Both ranks' findings of a probe."""
    return lambda name: [torch.load(two_ranks / f"{name}-{rank}.pt") for rank in range(2)]


def close(one: torch.Tensor, other: torch.Tensor, gate: float) -> None:
    torch.testing.assert_close(one.double(), other.double(), rtol=0, atol=gate)


def wanted():
    """The oracle's solution, in which targets that nobody owns have their own values."""
    from fused_lmhead.reference import reference_linear_logprob

    problem = the_problem()
    hidden = problem.hidden.double().requires_grad_()
    weight = problem.weight.double().requires_grad_()
    values = reference_linear_logprob(
        hidden, weight, problem.target, entropy_requires_grad=True, dtype=torch.float64
    )
    grads = (problem.grad_logprob.double(), problem.grad_entropy.double())
    both = torch.autograd.grad(values, (hidden, weight), grads, retain_graph=True)
    alone = torch.autograd.grad(values[0], (hidden, weight), grads[0])
    return values[0].detach(), values[1].detach(), both, alone


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_autograd_functions_agree_with_one_process(backend: str, found: Found):
    logprob, entropy, (d_hidden, d_weight), _ = wanted()
    ranks = [rank[backend] for rank in found("low_level")]
    for rank in ranks:
        close(rank["logprob"][0], logprob, LOGPROB_GATE)
        close(rank["entropy"][0], entropy, LOGPROB_GATE)
        assert rank["logprob"].shape == (1, M)
        assert rank["logprob"][0, [4, 9]].tolist() == [0.0, 0.0]
        assert torch.equal(rank["metric"], rank["entropy"])
        assert torch.equal(rank["scoring"], rank["only"])
        assert rank["requires_grad"] == [True, False, False]
        assert torch.equal(rank["again"][0], rank["d_hidden"])
        assert torch.equal(rank["again"][1], rank["d_weight"])
    assert torch.equal(ranks[0]["logprob"], ranks[1]["logprob"])
    assert torch.equal(ranks[0]["entropy"], ranks[1]["entropy"])
    close(ranks[0]["d_hidden"].double() + ranks[1]["d_hidden"].double(), d_hidden, HIDDEN_GATE)
    close(torch.cat([rank["d_weight"] for rank in ranks]), d_weight, WEIGHT_GATE)


def test_one_max_and_one_sum_whatever_the_chunks_and_none_in_backward(found: Found):
    for rank in found("collectives"):
        for name, (forward, backward) in rank.items():
            rows = 4 if name.endswith("True") else 3
            assert forward == [("MAX", (M,)), ("SUM", (rows, M))], name
            assert backward == [], name


@pytest.mark.parametrize("backend", BACKENDS)
def test_d_hidden_is_summed_on_request(backend: str, found: Found):
    _, _, _, (d_hidden, d_weight) = wanted()
    for number, rank in enumerate(found("summed")):
        part = d_weight[:SPLIT] if number == 0 else d_weight[SPLIT:]
        for frozen in ("neither", "weight", "hidden"):
            got_hidden, got_weight = rank[f"{backend}-{frozen}"]
            if frozen == "hidden":
                assert got_hidden is None
            else:
                close(got_hidden, d_hidden, HIDDEN_GATE)
            if frozen == "weight":
                assert got_weight is None
            else:
                close(got_weight, part, WEIGHT_GATE)
    one, other = (rank[f"{backend}-neither"][0] for rank in found("summed"))
    assert torch.equal(one, other)


def test_an_ignored_id_belongs_to_the_whole_vocabulary(found: Found):
    target = the_problem().target
    for rank in found("ignored"):
        assert len(rank) == 2
        for index, (logprob, d_hidden) in rank.items():
            rows = target == index
            assert rows.any()
            assert (logprob[rows] == 0).all()
            assert (d_hidden[rows] == 0).all()
            assert (d_hidden[~rows].abs().amax(-1) > 0).all()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_the_verl_shape_reduces_log_probs(reduction: str, found: Found):
    problem = make_problem(M, H, V, torch.float32)
    per_token = {"none": problem.grad_logprob, "sum": 0.5, "mean": 0.5 / M}[reduction]
    problem.grad_logprob[:] = per_token
    solution = oracle(problem, 0.7, torch.float64)
    value = solution.logprob if reduction == "none" else getattr(solution.logprob, reduction)()
    ranks = [rank[reduction] for rank in found("verl")]
    for logprob, entropy, _, _ in ranks:
        assert logprob.shape == value.shape
        close(logprob, value, LOGPROB_GATE if reduction != "sum" else 2e-5)
        close(entropy, solution.entropy, LOGPROB_GATE)
    close(ranks[0][2].double() + ranks[1][2].double(), solution.d_hidden, HIDDEN_GATE)
    close(torch.cat([ranks[0][3], ranks[1][3]]), solution.d_weight, WEIGHT_GATE)


def test_the_first_rank_searches_for_both(found: Found):
    first, second = found("searching")
    for tokens in (8, 5):
        (plan, searches), (same_plan, no_searches) = first[tokens], second[tokens]
        assert plan == same_plan
        # The log-prob's forward and backward pass, at the first of the two lengths.
        assert (searches, no_searches) == (2, 0)


def test_a_process_outside_the_group_is_told_so(found: Found):
    inside, outside = found("outsider")
    assert outside == {
        "tp": "this process is not a member of the vocabulary-parallel group",
        "cp": "this process is not a member of cp_group",
    }
    assert inside == {"tp": "no error", "cp": "no error"}


def test_a_lost_peer_ends_in_an_error_within_the_groups_timeout(tmp_path: Path):
    run_ranks(lose_a_peer, 2, str(tmp_path), timeout_s=20.0)
    (hangs, hang_s), (dies, _) = torch.load(tmp_path / "seen")
    assert "Timed out" in hangs
    assert hang_s < 10
    assert "Connection" in dies
