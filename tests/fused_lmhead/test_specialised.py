"""The warp-specialised Hopper kernels: compiled here, compared with the tile kernels on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from problems import Problem, make_problem, oracle

from fused_lmhead import fused_linear_logprob
from fused_lmhead.releases import speaks_gluon
from fused_lmhead.schedules import Schedule
from fused_lmhead.specialised import serves

SPECIALISED = Schedule(128, 256, 64, 16, 8, 3, "specialised")
TILE = replace(SPECIALISED, kind="tile")

on_hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9,
    reason="needs a Hopper GPU",
)


def compiled_for_hopper(kernel: str, *options: str) -> dict[str, int]:
    """What ``hopper_compile.py`` says of the kernel; a process apart, since the tests'
    interpreter takes the place of Triton's library functions."""
    pytest.importorskip("triton")
    if not speaks_gluon():
        pytest.skip("Gluon of another release: the tile kernels serve")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    here = Path(__file__).parents[1]
    environment["PYTHONPATH"] = str(here.parent)
    done = subprocess.run(
        [sys.executable, here / "hopper_compile.py", kernel, *options],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


FORWARD = "partials_specialised_kernel"
BACKWARD = "logit_gradient_specialised_kernel"


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (FORWARD, "entropy=1"),
        (FORWARD, "entropy=1 keep=1 v=10008"),
        (BACKWARD, "entropy=1"),
    ],
)
def test_a_tile_stays_in_registers(kernel: str, options: str):
    compiled = compiled_for_hopper(kernel, *options.split())
    assert compiled["products"] > 0
    assert compiled["spills"] == 0
    assert compiled["shared"] <= 232_448


def test_it_serves_only_what_it_can_read_and_count():
    hidden = torch.empty(64, 256, dtype=torch.bfloat16)
    assert not serves(SPECIALISED, 256, hidden)  # no GPU
    assert not serves(TILE, 256, hidden)


@pytest.mark.gpu
@on_hopper
def test_it_serves_no_short_unaligned_or_fp32_rows():
    def rows(h: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(64, h, dtype=dtype, device="cuda")

    assert serves(SPECIALISED, 256, rows(256))
    assert serves(SPECIALISED, 136, rows(136))
    assert not serves(SPECIALISED, 128, rows(128))
    assert not serves(SPECIALISED, 333, rows(333))
    assert not serves(SPECIALISED, 256, rows(256, torch.float32))
    assert not serves(replace(SPECIALISED, block_n=128), 256, rows(256))


# M, H, V: one tile, ragged everywhere, one token, many tiles a program, the shortest rows.
SHAPES = [(128, 256, 256), (300, 2880, 10008), (1, 192, 1000), (1000, 512, 70000), (257, 136, 4104)]


@pytest.mark.gpu
@on_hopper
@pytest.mark.timeout(60)  # a lost barrier hangs
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_agrees_with_the_tile_kernels(shape: tuple[int, int, int], dtype: torch.dtype):
    problem = make_problem(*shape, dtype, device="cuda")
    problem.target[0] = shape[2] - 1
    results = []
    for schedule in (SPECIALISED, TILE):
        for differentiable in (True, False):
            hidden = problem.hidden.detach().requires_grad_()
            weight = problem.weight.detach().requires_grad_()
            logprob, entropy = fused_linear_logprob(
                hidden,
                weight,
                problem.target,
                temperature=0.7,
                return_entropy=True,
                entropy_requires_grad=differentiable,
                schedule=schedule,
            )
            outputs, grads = (logprob,), (problem.grad_logprob,)
            if differentiable:
                outputs, grads = (*outputs, entropy), (*grads, problem.grad_entropy)
            gradients = torch.autograd.grad(outputs, (hidden, weight), grads)
            results.append((logprob.detach(), entropy.detach(), *gradients))
    for specialised, tile in zip(results[:2], results[2:], strict=True):
        assert_agreement(specialised, tile)


def assert_agreement(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    """fp32 results are the same but for the order of sums. Gradients of logits differ where they
    are rounded to 16 bits, by one step; theirs therefore by a fraction of one, as a whole."""
    for one, other in zip(got, expected, strict=True):
        if one.dtype is torch.float32:
            torch.testing.assert_close(one, other, atol=4e-6, rtol=1e-6)
        else:
            difference = torch.linalg.vector_norm(one.float() - other.float())
            assert difference <= torch.finfo(one.dtype).eps / 4 * torch.linalg.vector_norm(
                other.float()
            )


def solved(problem: Problem, schedule: Schedule, **options: int) -> Sequence[torch.Tensor]:
    """Log-probs and the gradient of hidden."""
    hidden = problem.hidden.detach().requires_grad_()
    logprob = fused_linear_logprob(
        hidden, problem.weight, problem.target, schedule=schedule, **options
    )
    (d_hidden,) = torch.autograd.grad(logprob, hidden, problem.grad_logprob)
    return logprob.detach(), d_hidden


@pytest.mark.gpu
@on_hopper
@pytest.mark.timeout(60)
def test_a_target_may_be_any_column_of_a_tile():
    problem = make_problem(1024, 256, 600, torch.bfloat16, device="cuda")
    problem.target.copy_(torch.arange(1024) % 600)
    assert_agreement(*(solved(problem, schedule) for schedule in (SPECIALISED, TILE)))


@pytest.mark.gpu
@on_hopper
@pytest.mark.timeout(60)
@pytest.mark.parametrize("v", [1024, 1000], ids=["whole tiles", "a ragged one"])
def test_it_keeps_what_the_tile_kernel_keeps(v: int):
    problem = make_problem(300, 256, v, torch.bfloat16, device="cuda")
    assert serves(
        SPECIALISED, 256, problem.hidden, problem.weight, problem.weight.new_empty(300, v)
    )
    both = (solved(problem, schedule, keep_logits_budget=2**30) for schedule in (SPECIALISED, TILE))
    assert_agreement(*both)


@pytest.mark.gpu
@on_hopper
@pytest.mark.timeout(60)
@pytest.mark.parametrize("kept", [0, 2**30], ids=["recomputed", "kept"])
@pytest.mark.parametrize("temperature", [1.0, 0.1, 1e-5])
@pytest.mark.parametrize("offset", [8192.0, -8192.0])
def test_a_common_offset_costs_no_digits(offset: float, temperature: float, kept: int):
    problem = make_problem(128, 256, 600, torch.bfloat16, device="cuda")
    # Multiples of 1/512, exact beside an offset where fp32 has steps of 1/1024: what errs is
    # the softmax and not the product.
    problem.hidden.mul_(16).round_().div_(16)
    problem.weight.mul_(32).round_().div_(32)
    problem.hidden[:, -1], problem.weight[:, -1] = offset, 1.0
    hidden = problem.hidden.detach().requires_grad_()
    logprob, entropy = fused_linear_logprob(
        hidden,
        problem.weight,
        problem.target,
        temperature=temperature,
        return_entropy=True,
        entropy_requires_grad=True,
        schedule=SPECIALISED,
        keep_logits_budget=kept,
    )
    upstream = (problem.grad_logprob, problem.grad_entropy)
    (d_hidden,) = torch.autograd.grad((logprob, entropy), hidden, upstream)
    expected = oracle(problem, temperature, torch.float64)
    close = {"atol": 1e-4, "rtol": 1e-6}
    torch.testing.assert_close(logprob.detach().double(), expected.logprob, **close)
    torch.testing.assert_close(entropy.detach().double(), expected.entropy, **close)
    # But for the last feature, whose gradient is a sum that vanishes times the offset.
    got, wanted = d_hidden.double()[:, :-1], expected.d_hidden[:, :-1]
    step = torch.finfo(torch.bfloat16).eps * (1.0 if kept else 0.5)
    assert torch.linalg.vector_norm(got - wanted) <= step * torch.linalg.vector_norm(wanted)


@pytest.mark.gpu
@on_hopper
@pytest.mark.timeout(60)
def test_a_thousand_runs_agree_bit_by_bit():
    problem = make_problem(512, 512, 33000, torch.bfloat16, device="cuda")

    def run() -> torch.Tensor:
        return fused_linear_logprob(
            problem.hidden, problem.weight, problem.target, schedule=SPECIALISED
        )

    first = run()
    assert all(torch.equal(first, run()) for _ in range(1000))
