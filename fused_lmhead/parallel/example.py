"""A training step's LM head over processes of this machine, against one process.

``python -m fused_lmhead.parallel.example`` starts two ranks on the CPU (gloo) that share the
vocabulary, takes one policy-gradient step with an entropy bonus as a Megatron-style trainer
would, and prints the largest differences from the same step on one process with
materialised logits.

Legend: B batch, S sequence, H hidden, V vocabulary, TP ranks that share the vocabulary, CP
ranks that share each sequence. Ranks are numbered with TP fastest, as Megatron numbers them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from fused_lmhead.parallel import from_parallel_hidden_to_logprobs
from fused_lmhead.parallel.processes import run_ranks
from fused_lmhead.parallel.zigzag import even_offsets, zigzag_positions
from fused_lmhead.reference import reference_linear_logprob

B, S, H, V = 2, 24, 96, 1003
TEMPERATURE, ENTROPY_BONUS, LEARNING_RATE = 0.7, 0.01, 0.1


class Batch(NamedTuple):
    """The same on every rank; nothing of it is special."""

    hidden: torch.Tensor
    """[B, S, H]: what the decoder would give."""
    weight: torch.Tensor
    """[V, H]"""
    target: torch.Tensor
    """[B, S]"""
    advantage: torch.Tensor
    """[B, S - 1]"""


def make_batch() -> Batch:
    """Seeded normal inputs; logits of unit variance."""
    generator = torch.Generator().manual_seed(0)
    return Batch(
        torch.randn(B, S, H, generator=generator),
        torch.randn(V, H, generator=generator) * H**-0.5,
        torch.randint(0, V, (B, S), generator=generator),
        torch.randn(B, S - 1, generator=generator),
    )


def loss_of(logprob: torch.Tensor, entropy: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    """The policy-gradient loss of a batch, each [B, S - 1]."""
    return -(advantage * logprob).mean() - ENTROPY_BONUS * entropy.mean()


class Step(NamedTuple):
    """What a step computes for the whole model: compared between one process and many."""

    logprob: torch.Tensor
    entropy: torch.Tensor
    hidden_gradient: torch.Tensor
    new_weight: torch.Tensor


def step_on_one_process(batch: Batch) -> Step:
    """Materialised logits of the whole vocabulary, in fp64."""
    hidden = batch.hidden.double().requires_grad_()
    weight = batch.weight.double().requires_grad_()
    logprob_M, entropy_M = reference_linear_logprob(
        hidden[:, :-1].reshape(-1, H),
        weight,
        batch.target[:, 1:].reshape(-1),
        temperature=TEMPERATURE,
        entropy_requires_grad=True,
        dtype=torch.float64,
    )
    logprob, entropy = logprob_M.view(B, S - 1), entropy_M.view(B, S - 1)
    loss = loss_of(logprob, entropy, batch.advantage.double())
    d_hidden, d_weight = torch.autograd.grad(loss, (hidden, weight))
    new_weight = weight.detach() - LEARNING_RATE * d_weight
    return Step(logprob.detach(), entropy.detach(), d_hidden, new_weight)


def step_on_this_rank(batch: Batch, tp: int, cp: int, fused_backend: str) -> Step:
    """This rank's shards through the fused LM head; then the whole, gathered for comparison."""
    rank = dist.get_rank()
    tp_rank, cp_rank = rank % tp, rank // tp
    tp_group = _own_group([[c * tp + t for t in range(tp)] for c in range(cp)])
    cp_group = _own_group([[c * tp + t for c in range(cp)] for t in range(tp)])

    # The vocabulary in nearly equal shards, each sequence in zigzag chunks.
    start, end = V * tp_rank // tp, V * (tp_rank + 1) // tp
    weight = batch.weight[start:end].clone().requires_grad_()
    own = zigzag_positions(even_offsets(B, S, torch.device("cpu")), cp, B * S)[cp_rank]
    hidden = batch.hidden.view(-1, H)[own].view(B, S // cp, H).clone().requires_grad_()

    logprob, entropy = from_parallel_hidden_to_logprobs(
        hidden,
        weight,
        batch.target,
        start,
        end,
        tp_group,
        cp_group=cp_group,
        temperature=TEMPERATURE,
        fused_backend=fused_backend,
        return_entropy=True,
        entropy_requires_grad=True,
    )
    # Every rank computes the whole loss, and the gather sums the ranks' gradients.
    loss = loss_of(logprob, entropy, batch.advantage) / cp
    d_hidden, d_weight = torch.autograd.grad(loss, (hidden, weight))
    # What a Megatron-style trainer does: sum d_hidden over the vocabulary's ranks (there the
    # backward of its copy to the tensor-parallel region), d_weight over the sequences'.
    dist.all_reduce(d_hidden, group=tp_group)
    dist.all_reduce(d_weight, group=cp_group)
    new_shard = weight.detach() - LEARNING_RATE * d_weight

    hidden_gradient = torch.zeros(B * S, H)
    hidden_gradient[own] = d_hidden.view(-1, H)
    dist.all_reduce(hidden_gradient, group=cp_group)
    new_weight = torch.zeros(V, H)
    new_weight[start:end] = new_shard
    dist.all_reduce(new_weight, group=tp_group)
    return Step(logprob.detach(), entropy.detach(), hidden_gradient.view(B, S, H), new_weight)


def _own_group(groups: list[list[int]]) -> dist.ProcessGroup | None:
    """The one of ``groups`` that this rank is in; every rank takes part in making each."""
    rank, own = dist.get_rank(), None
    for ranks in groups:
        group = dist.new_group(ranks)
        if rank in ranks:
            own = group
    return own


def compare(rank: int, tp: int, cp: int, fused_backend: str) -> None:
    """Take the step on all ranks and print, on the first, how far it is from one process'."""
    batch = make_batch()
    step = step_on_this_rank(batch, tp, cp, fused_backend)
    if rank > 0:
        return
    expected = step_on_one_process(batch)
    print(f"TP {tp}, CP {cp}, B {B}, S {S}, H {H}, V {V}, backend {fused_backend}, fp32 over gloo")
    print("largest difference from one process with materialised fp64 logits:")
    largest = 0.0
    for name, one, other in zip(Step._fields, step, expected, strict=True):
        difference = float((one.double() - other).abs().max())
        largest = max(largest, difference)
        print(f"  {name.replace('_', ' '):16} {difference:.2e}")
    print(f"  {'all':16} {largest:.2e}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(
        prog="python -m fused_lmhead.parallel.example", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--tp", type=int, default=2, help="ranks that share the vocabulary")
    parser.add_argument("--cp", type=int, default=1, help="ranks that share each sequence")
    parser.add_argument(
        "--backend",
        choices=["torch", "triton"],
        default="torch",
        help="triton needs TRITON_INTERPRET=1 on a CPU",
    )
    chosen = parser.parse_args(arguments)
    if chosen.tp < 1 or chosen.cp < 1 or S % (2 * chosen.cp):
        parser.error(f"--tp and --cp must be at least 1, and 2·CP divide the {S} tokens of a row")
    if chosen.backend == "triton" and os.environ.get("TRITON_INTERPRET") != "1":
        parser.error("--backend triton needs TRITON_INTERPRET=1 in the environment: ranks are CPUs")
    run_ranks(compare, chosen.tp * chosen.cp, chosen.tp, chosen.cp, chosen.backend)


if __name__ == "__main__":
    main()
