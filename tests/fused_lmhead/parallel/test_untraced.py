"""torch.compile around the trainers' entry points, autocast and checkpoints. One process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

from fused_lmhead.parallel import (
    FusedLinearChunkedDistributedLogprob,
    from_parallel_hidden_to_logprobs,
    from_parallel_hidden_to_logprobs_packed_sequences,
    vocab_parallel_logprob,
)

H, V = 8, 30
WEIGHT = torch.randn(V, H, generator=torch.Generator().manual_seed(0))

Head = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def padded(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor):
    return from_parallel_hidden_to_logprobs(
        hidden, weight, target, 0, V, None, return_entropy=True, entropy_requires_grad=True
    )


def packed(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor):
    length = target.shape[1]
    return from_parallel_hidden_to_logprobs_packed_sequences(
        hidden,
        weight,
        target,
        torch.tensor([0, length // 2, length]),
        length,
        0,
        V,
        None,
        return_entropy=True,
        entropy_requires_grad=True,
    )


def low_level(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor):
    return FusedLinearChunkedDistributedLogprob.apply(
        hidden, weight, target, 0, V, 4, None, False, True, True
    )


def shard(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor):
    return vocab_parallel_logprob(
        hidden,
        weight,
        target,
        vocab_start_index=0,
        vocab_end_index=V,
        group=None,
        return_entropy=True,
        entropy_requires_grad=True,
    )


HEADS = [padded, packed, low_level, shard]


def solved(head: Head, length: int = 9) -> list[torch.Tensor]:
    """Values and gradients of ``head`` on seeded inputs of ``length`` tokens."""
    generator = torch.Generator().manual_seed(length)
    hidden = torch.randn(1, length, H, generator=generator).requires_grad_()
    target = torch.randint(0, V, (1, length), generator=generator)
    weight = WEIGHT.clone().requires_grad_()
    logprob, entropy = head(hidden, weight, target)
    gradients = torch.autograd.grad(logprob.sum() + 2 * entropy.sum(), (hidden, weight))
    return [logprob.detach(), entropy.detach(), *gradients]


def assert_same(one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("head", HEADS)
def test_compiled_code_calls_it_as_it_is(head: Head):
    torch._dynamo.reset()
    counters.clear()

    def model(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor):
        logprob, entropy = head(hidden * 2, weight, target)
        return logprob * 2, entropy

    compiled = torch.compile(model, backend="eager")
    compilations = []
    for length in (9, 12, 7, 15, 31, 3):
        assert_same(solved(compiled, length), solved(model, length))
        compilations.append(counters["frames"]["total"])
    # The first lengths make the token count a symbol; then nothing is left to compile.
    assert compilations[2:] == compilations[2:3] * 4


def test_the_compiler_is_imported_only_where_it_is_used():
    code = (
        "import sys, torch, fused_lmhead.parallel as p; x = torch.ones(1, 2, 4);"
        "p.from_parallel_hidden_to_logprobs(x, x[0], x[..., 0].long(), 0, 2, None);"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("head", HEADS)
def test_autocast_changes_nothing(head: Head):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = solved(head)
    assert_same(under, solved(head))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("head", HEADS)
def test_a_checkpoint_changes_nothing(head: Head, reentrant: bool):
    def again(*inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return checkpoint(head, *inputs, use_reentrant=reentrant)

    if reentrant:  # which torch.autograd.grad does not go through
        results = []
        for call in (again, head):
            hidden = torch.randn(1, 9, H, generator=torch.Generator().manual_seed(1))
            weight, target = WEIGHT.clone().requires_grad_(), torch.arange(9).unsqueeze(0)
            logprob, entropy = call(hidden.requires_grad_(), weight, target)
            (logprob.sum() + 2 * entropy.sum()).backward()
            results.append([logprob.detach(), hidden.grad, weight.grad])
        assert_same(*results)
    else:
        assert_same(solved(again), solved(head))
