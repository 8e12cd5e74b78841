"""What sharing the vocabulary costs: two GPUs against one of them with the same shard.

``python -m fused_lmhead.parallel.efficiency`` measures, on the first two GPUs, the LM head of
``--vocabulary`` ids over TP = 2 through NCCL, and the half shard alone on the first GPU, and
prints both with their ratio. A sample is the slower rank's time of one call by CUDA events,
behind an L2 flush, after an idle gap of three lengths, without which the power cap bites; the
value is the smallest of ``--samples``, as the gap leaves it the steadiest.

Legend: M tokens, H hidden, V vocabulary of all ranks.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from fused_lmhead import fused_linear_logprob
from fused_lmhead.parallel.processes import run_ranks
from fused_lmhead.parallel.vocabulary import vocab_parallel_logprob

RANKS = 2
WARM_UPS = 3
FLUSH_BYTES = 256 * 2**20
# So many take the GPU longer than the host takes to submit a forward pass.
FLUSHES = 10
LONGEST_GAP_S = 0.2


class Shape(NamedTuple):
    """The problem of both ranks together."""

    tokens: int
    hidden: int
    vocabulary: int


class Inputs(NamedTuple):
    """One rank's: bf16 leaves, and an upstream gradient for each token."""

    hidden: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    upstream: torch.Tensor
    start: int


class Row(NamedTuple):
    """A line of the table: milliseconds, and the half shard's alone where that is comparable."""

    name: str
    ms: float
    alone_ms: float | None


def make_inputs(shape: Shape, rank: int) -> Inputs:
    """Hidden states and targets are the same on both ranks; each has half of the rows."""
    generator = torch.Generator("cuda").manual_seed(0)
    M, H, rows = shape.tokens, shape.hidden, shape.vocabulary // RANKS
    options = {"dtype": torch.bfloat16, "device": "cuda", "generator": generator}
    hidden = torch.randn(M, H, **options).requires_grad_()  # type: ignore[call-overload]
    target = torch.randint(0, shape.vocabulary, (M,), device="cuda", generator=generator)
    upstream = torch.randn(M, device="cuda", generator=generator)
    generator.manual_seed(1 + rank)
    weight = torch.randn(rows, H, **options).mul_(H**-0.5)  # type: ignore[call-overload]
    return Inputs(hidden, weight.requires_grad_(), target, upstream, rank * rows)


def calls_of(inputs: Inputs, shared: bool) -> dict[str, Callable[[], object]]:
    """The calls to be timed, over both ranks or of this shard alone."""

    def logprob(sum_hidden_gradient: bool = False) -> torch.Tensor:
        if not shared:
            # Targets of the other shard would cost less: keep as many as a whole vocabulary.
            target = inputs.target % inputs.weight.shape[0]
            return fused_linear_logprob(inputs.hidden, inputs.weight, target, backend="triton")
        result = vocab_parallel_logprob(
            inputs.hidden,
            inputs.weight,
            inputs.target,
            vocab_start_index=inputs.start,
            vocab_end_index=inputs.start + inputs.weight.shape[0],
            group=dist.group.WORLD,
            backend="triton",
            sum_hidden_gradient=sum_hidden_gradient,
        )
        assert isinstance(result, torch.Tensor)
        return result

    def forward() -> object:
        with torch.no_grad():
            return logprob()

    def both(sum_hidden_gradient: bool = False) -> object:
        leaves = (inputs.hidden, inputs.weight)
        return torch.autograd.grad(logprob(sum_hidden_gradient), leaves, inputs.upstream)

    calls: dict[str, Callable[[], object]] = {"forward": forward, "forward + backward": both}
    if shared:
        calls["forward + backward, d_hidden summed"] = lambda: both(True)
    return calls


def collectives(tokens: int) -> Callable[[], object]:
    """The two all-reduces of a forward pass by themselves."""
    shift = torch.zeros(tokens, device="cuda")
    sums = torch.zeros(3, tokens, dtype=torch.float64, device="cuda")

    def call() -> None:
        dist.all_reduce(shift, op=dist.ReduceOp.MAX)
        dist.all_reduce(sums)

    return call


def smallest_ms(call: Callable[[], object], samples: int, together: bool) -> float:
    """The smallest of the samples; of both ranks' calls, the slower one's time each."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    times: list[float] = []
    for number in range(WARM_UPS + samples):
        time.sleep(min(LONGEST_GAP_S, 3e-3 * times[-1]) if times else 0.0)
        if together:
            dist.barrier()
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        for _ in range(FLUSHES):
            flush.zero_()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        elapsed = torch.tensor([start.elapsed_time(end)], device="cuda")
        if together:
            dist.all_reduce(elapsed, op=dist.ReduceOp.MAX)
        times.append(float(elapsed))
        if number == WARM_UPS - 1:
            times = times[-1:]
    return min(times[1:])


def measure(rank: int, shape: Shape, samples: int) -> None:
    """Measure on this rank; the first prints the table."""
    inputs = make_inputs(shape, rank)
    alone: dict[str, float] = {}
    if rank == 0:
        for name, call in calls_of(inputs, shared=False).items():
            alone[name] = smallest_ms(call, samples, together=False)
    dist.barrier()
    rows = [
        Row(name, smallest_ms(call, samples, together=True), alone.get(name.partition(",")[0]))
        for name, call in calls_of(inputs, shared=True).items()
    ]
    rows.append(
        Row("its collectives alone", smallest_ms(collectives(shape.tokens), samples, True), None)
    )
    if rank == 0:
        print(table(shape, torch.cuda.get_device_name(), rows))


def table(shape: Shape, gpu: str, rows: Sequence[Row]) -> str:
    """The measured rows as text; efficiency is the half shard's time over the shared one's."""
    M, H, V = shape
    lines = [
        f"M {M}, H {H}, V {V} over TP {RANKS}, bf16, NCCL, {gpu}",
        f"{'':38}{'TP 2 ms':>10}{'half shard ms':>16}{'efficiency':>12}",
    ]
    for name, ms, alone_ms in rows:
        line = f"{name:38}{ms:10.3f}"
        if alone_ms is not None:
            line += f"{alone_ms:16.3f}{alone_ms / ms:12.1%}"
        lines.append(line)
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m fused_lmhead.parallel.efficiency",
        description=__doc__.partition("\n")[0],
    )
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=131072)
    parser.add_argument("--samples", type=int, default=12)
    chosen = parser.parse_args(arguments)
    shape = Shape(chosen.tokens, chosen.hidden, chosen.vocabulary)
    if min(*shape, chosen.samples) < 1 or shape.vocabulary % RANKS:
        parser.error(f"sizes must be positive and --vocabulary divide by {RANKS}")
    found = torch.cuda.device_count()
    if found < RANKS:
        sys.exit(f"needs {RANKS} GPUs, found {found}")
    run_ranks(measure, RANKS, shape, chosen.samples, transport="nccl", timeout_s=120.0)


if __name__ == "__main__":
    main()
