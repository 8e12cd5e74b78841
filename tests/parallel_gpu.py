"""What two GPUs are asked through NCCL; imported by name in the ranks' own processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from parallel_cases import TWO, run_cases
from problems import Problem, make_problem

from fused_lmhead import describe_schedule, fused_linear_logprob
from fused_lmhead.parallel import vocab_parallel_logprob

# M, H, V, rows of the first rank: aligned, and odd everywhere with uneven shards.
SHAPES = [(512, 1024, 8192, 4096), (257, 333, 4099, 2050), (2048, 4096, 32768, 16384)]
LENGTHS = (400, 401, 512)
"""Token counts of one bucket."""


class Compilations:
    """The kernels that this process asked for, whether compiled or found on disk."""

    def __init__(self) -> None:
        import triton

        self.seen: list[tuple[str, str, bool]] = []
        triton.knobs.compilation.listener = self._note

    def _note(self, *, metadata: dict[str, Any], cache_hit: bool, **_: object) -> None:
        self.seen.append((metadata["name"], metadata["hash"], cache_hit))

    def take(self) -> list[tuple[str, str, bool]]:
        """(name, hash, found on disk) of each since the last time."""
        taken, self.seen = self.seen, []
        return taken


def shared(rank: int, problem: Problem, split: int, **options: Any) -> dict[str, torch.Tensor]:
    """Values and gradients of this rank's shard, entropy differentiable."""
    V = problem.weight.shape[0]
    start, end = [(0, split), (split, V)][rank]
    hidden = problem.hidden.detach().clone().requires_grad_()
    weight = problem.weight[start:end].detach().clone().requires_grad_()
    logprob, entropy = vocab_parallel_logprob(
        hidden,
        weight,
        problem.target,
        vocab_start_index=start,
        vocab_end_index=end,
        group=dist.group.WORLD,
        return_entropy=True,
        entropy_requires_grad=True,
        backend="triton",
        **options,
    )
    d_hidden, d_weight = torch.autograd.grad(
        (logprob, entropy), (hidden, weight), (problem.grad_logprob, problem.grad_entropy)
    )
    found = {"logprob": logprob, "entropy": entropy, "d_hidden": d_hidden, "d_weight": d_weight}
    return {name: value.detach().cpu() for name, value in found.items()}


def compile_in_turn(rank: int) -> dict[str, Any]:
    """First one rank alone, then the other, then both together, then other lengths."""
    compilations = Compilations()
    M, H, V, split = 512, 1024, 8192, 4096
    problem = make_problem(M, H, V, torch.bfloat16, "cuda")
    found: dict[str, Any] = {}
    for turn in range(2):
        if turn == rank:
            hidden = problem.hidden.detach().clone().requires_grad_()
            weight = problem.weight[:split].detach().clone().requires_grad_()
            values = fused_linear_logprob(
                hidden,
                weight,
                problem.target,
                return_entropy=True,
                entropy_requires_grad=True,
                backend="triton",
            )
            torch.autograd.grad(
                values, (hidden, weight), (problem.grad_logprob, problem.grad_entropy)
            )
        torch.cuda.synchronize()
        dist.barrier()
    found["alone"] = compilations.take()
    for m in LENGTHS:
        shared(rank, make_problem(m, H, V, torch.bfloat16, "cuda"), split)
    found["together"] = compilations.take()
    return found


def on_two_gpus(rank: int, folder: str) -> None:
    """All that is asked, in one start of the processes."""
    found: dict[str, Any] = {"compilations": compile_in_turn(rank)}
    for m, h, v, split in SHAPES:
        problem = make_problem(m, h, v, torch.bfloat16, "cuda")
        found[f"{m}-{h}-{v}"] = shared(rank, problem, split)
        summed = shared(rank, problem, split, sum_hidden_gradient=True)
        found[f"{m}-{h}-{v}-summed"] = summed["d_hidden"]
        rows = split if rank == 0 else v - split
        found[f"{m}-{h}-{v}-schedule"] = describe_schedule(m, h, rows, torch.bfloat16, "cuda")
    torch.save(found, Path(folder) / f"found-{rank}.pt")
    run_cases(rank, TWO, folder, "cuda")


def wait_for_a_dead_peer(rank: int, folder: str) -> None:
    """Rank 1 never makes the call: rank 0 must not wait for ever."""
    problem = make_problem(64, 64, 1000, torch.bfloat16, "cuda")
    dist.barrier()
    if rank == 1:
        time.sleep(300)
    (Path(folder) / "called").touch()
    shared(rank, problem, 500)
    (Path(folder) / "returned").touch()
