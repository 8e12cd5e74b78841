"""What two ranks are asked beyond whole batches; imported by name in their own processes.

Each probe is ``probe(rank)`` in a world of two and gives what its test looks at.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from problems import Problem, make_problem

from fused_lmhead.parallel import (
    FusedLinearChunkedDistributedLogprob,
    FusedLinearLogprobTriton,
    from_parallel_hidden_to_logprobs,
    linear_cross_entropy,
    vocab_parallel_logprob,
)

RANKS = 2
M, H, V = 37, 45, 302
SPLIT = 130
"""Rows of the first rank's shard, unless shards are equal."""
FUNCTIONS = {
    "torch": FusedLinearChunkedDistributedLogprob,
    "triton": FusedLinearLogprobTriton,
}


def the_problem() -> Problem:
    """37 tokens; two targets that no rank owns."""
    problem = make_problem(M, H, V, torch.float32)
    problem.target[4], problem.target[9] = -100, V
    return problem


def shard_of(rank: int) -> tuple[torch.Tensor, torch.Tensor, int, int]:
    """Leaves: hidden [M, H] and this rank's weight; the shard's range."""
    problem = the_problem()
    start, end = [(0, SPLIT), (SPLIT, V)][rank]
    hidden = problem.hidden.clone().requires_grad_()
    return hidden, problem.weight[start:end].clone().requires_grad_(), start, end


def low_level(rank: int) -> dict[str, Any]:
    """Both autograd Functions, called by position as trainers do."""
    problem, found = the_problem(), {}
    for name, function in FUNCTIONS.items():
        hidden, weight, start, end = shard_of(rank)
        arguments = (
            hidden.unsqueeze(0),
            weight,
            problem.target.unsqueeze(0),
            start,
            end,
            16,
            dist.group.WORLD,
        )
        only = function.apply(*arguments)
        scoring = function.apply(*arguments, True)
        logprob, entropy = function.apply(*arguments, False, True, True)
        metric = function.apply(*arguments, False, True)[1]
        grads = (problem.grad_logprob.unsqueeze(0), problem.grad_entropy.unsqueeze(0))
        pair = torch.autograd.grad((logprob, entropy), (hidden, weight), grads, retain_graph=True)
        again = torch.autograd.grad((logprob, entropy), (hidden, weight), grads)
        found[name] = {
            "logprob": logprob.detach(),
            "entropy": entropy.detach(),
            "d_hidden": pair[0],
            "d_weight": pair[1],
            "again": again,
            "only": only.detach(),
            "scoring": scoring.detach(),
            "metric": metric.detach(),
            "requires_grad": [v.requires_grad for v in (only, scoring, metric)],
        }
    return found


def collectives(rank: int) -> dict[str, Any]:
    """Every all-reduce of a forward and of a backward, by operation and shape."""
    problem, seen = the_problem(), []
    real = dist.all_reduce

    def counting(tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM, **options: Any) -> Any:
        seen.append((str(op).rsplit(".", 1)[-1], tuple(tensor.shape)))
        return real(tensor, op=op, **options)

    dist.all_reduce = counting
    try:
        found: dict[str, Any] = {}
        for backend in ("torch", "triton"):
            for entropy in (False, True):
                hidden, weight, start, end = shard_of(rank)
                result = vocab_parallel_logprob(
                    hidden,
                    weight,
                    problem.target,
                    vocab_start_index=start,
                    vocab_end_index=end,
                    group=dist.group.WORLD,
                    return_entropy=entropy,
                    entropy_requires_grad=entropy,
                    backend=backend,
                    chunk_size=3,
                )
                forward, seen = list(seen), []
                values = result if isinstance(result, tuple) else (result,)
                torch.autograd.grad([v.sum() for v in values], (hidden, weight))
                found[f"{backend}-{entropy}"] = (forward, list(seen))
                seen = []
    finally:
        dist.all_reduce = real
    return found


def summed(rank: int) -> dict[str, Any]:
    """The option that sums d_hidden, for trained and for frozen sides."""
    problem, found = the_problem(), {}
    for backend in ("torch", "triton"):
        for frozen in ("neither", "weight", "hidden"):
            hidden, weight, start, end = shard_of(rank)
            hidden.requires_grad_(frozen != "hidden")
            weight.requires_grad_(frozen != "weight")
            logprob = vocab_parallel_logprob(
                hidden,
                weight,
                problem.target,
                vocab_start_index=start,
                vocab_end_index=end,
                group=dist.group.WORLD,
                backend=backend,
                sum_hidden_gradient=True,
            )
            logprob.backward(problem.grad_logprob)
            found[f"{backend}-{frozen}"] = (hidden.grad, weight.grad)
    return found


def ignored(rank: int) -> dict[str, Any]:
    """An ignored id is one of the whole vocabulary, whichever rank owns it."""
    problem, found = the_problem(), {}
    for index in (int(problem.target[0]), -100):
        hidden, weight, start, end = shard_of(rank)
        logprob = vocab_parallel_logprob(
            hidden,
            weight,
            problem.target,
            vocab_start_index=start,
            vocab_end_index=end,
            group=dist.group.WORLD,
            ignore_index=index,
            sum_hidden_gradient=True,
        )
        logprob.backward(problem.grad_logprob)
        found[index] = (logprob.detach(), hidden.grad)
    return found


def verl(rank: int) -> dict[str, Any]:
    """Equal shards in the order of the ranks, every reduction."""
    problem, found = make_problem(M, H, V, torch.float32), {}
    half = V // 2
    for reduction in ("none", "sum", "mean"):
        hidden = problem.hidden.clone().requires_grad_()
        weight = problem.weight[rank * half : (rank + 1) * half].clone().requires_grad_()
        logprob, entropy = linear_cross_entropy(
            hidden.unsqueeze(0),
            weight,
            problem.target.unsqueeze(0),
            0.7,
            reduction,
            dist.group.WORLD,
        )
        upstream = problem.grad_logprob if reduction == "none" else torch.tensor(0.5)
        d_hidden, d_weight = torch.autograd.grad(
            (logprob, entropy), (hidden, weight), (upstream, problem.grad_entropy)
        )
        found[reduction] = (logprob.detach(), entropy.detach(), d_hidden, d_weight)
    return found


def outsider(rank: int) -> dict[str, Any]:
    """A group that only the first rank is in."""
    group = dist.new_group([0])
    hidden, weight, start, end = shard_of(rank)
    target = the_problem().target

    def message(call: Callable[[], object]) -> str:
        try:
            call()
        except ValueError as error:
            return str(error)
        return "no error"

    def tp() -> object:
        return vocab_parallel_logprob(
            hidden,
            weight,
            target,
            vocab_start_index=start,
            vocab_end_index=end,
            group=group,
        )

    def cp() -> object:
        return from_parallel_hidden_to_logprobs(
            hidden.unsqueeze(0), weight, target.unsqueeze(0), start, end, None, cp_group=group
        )

    return {"tp": message(tp), "cp": message(cp)}


def searching(rank: int) -> dict[str, Any]:
    """Schedules are searched for, and ranks have no cache in common."""
    from fused_lmhead import tuning

    rows, found = 32, {}
    problem = make_problem(8, 16, RANKS * rows, torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"FUSED_LMHEAD_TUNING": "search", "TRITON_CACHE_DIR": folder}
        tuning.forget()
        for m in (8, 5):
            hidden = problem.hidden[:m].clone().requires_grad_()
            weight = problem.weight[rank * rows : (rank + 1) * rows].clone().requires_grad_()
            logprob = vocab_parallel_logprob(
                hidden,
                weight,
                problem.target[:m],
                vocab_start_index=rank * rows,
                vocab_end_index=(rank + 1) * rows,
                group=dist.group.WORLD,
                backend="triton",
            )
            assert isinstance(logprob, torch.Tensor)
            logprob.sum().backward()
            plan = tuning.plan_for(m, 16, rows, torch.float32, weight.device, False)
            found[m] = (str(plan), len(tuning.searches()))
        del os.environ["FUSED_LMHEAD_TUNING"], os.environ["TRITON_CACHE_DIR"]
        tuning.forget()
    return found


PROBES = (low_level, collectives, summed, ignored, verl, outsider, searching)


def lose_a_peer(rank: int, folder: str) -> None:
    """Rank 1 first never comes, then ends; what rank 0 sees, and after how many seconds."""
    group = dist.new_group([0, 1], timeout=timedelta(seconds=1))
    hidden, weight, start, end = shard_of(rank)
    waited, seen = Path(folder) / "waited", []
    if rank == 1:
        while not waited.exists():
            time.sleep(0.05)
        os._exit(0)
    for over in (group, dist.group.WORLD):
        started = time.monotonic()
        try:
            vocab_parallel_logprob(
                hidden,
                weight,
                the_problem().target,
                vocab_start_index=start,
                vocab_end_index=end,
                group=over,
            )
            seen.append(("no error", time.monotonic() - started))
        except RuntimeError as error:
            seen.append((str(error), time.monotonic() - started))
        waited.touch()
    torch.save(seen, Path(folder) / "seen")
