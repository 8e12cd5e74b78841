"""Run by tests in a process of its own, without Triton's interpreter: warm calls and passes, in
the driver's absence. Prints what they cost the host, counted, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

# First, since these turn Triton's interpreter off.
from host_subjects import SPECIALISED, M, problem, small_kernel, start  # isort: skip
from stand_in import StandIn, as_triton_does, ordinary_launches  # isort: skip

import torch

from fused_lmhead import fused_linear_logprob, ops
from fused_lmhead.launch import TritonBackend
from fused_lmhead.launching import launch_now
from fused_lmhead.problem import Normaliser
from fused_lmhead.tuning import plans


def python_calls(work: Callable[[], Any]) -> int:
    """Python functions that ``work`` calls, warm."""
    work()
    work()
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    least = []
    for _ in range(5):
        calls = 0
        sys.setprofile(count)
        work()
        sys.setprofile(None)
        least.append(calls - 1)
    # A workspace that comes to lie at a new address has its map encoded.
    return min(least)


def effort(stand_in: StandIn) -> dict[str, Any]:
    """Python calls and ordinary launches of warm passes, in the driver's absence."""
    ops._check_interpreter = lambda weight: None
    hidden, weight, target = problem()
    backend = TritonBackend(SPECIALISED)
    rows = torch.ones(M)
    found = backend.forward(hidden, weight, target, 1.0, True)
    normaliser = Normaliser(found.shift_M, found.log_sum_M, found.entropy_M)

    def call(m: int = M) -> None:
        fused_linear_logprob(
            hidden[:m],
            weight,
            target[:m],
            return_entropy=True,
            backend="triton",
            schedule=SPECIALISED,
        )

    def backward() -> None:
        backend.backward(hidden, weight, target, normaliser, rows, rows, 1.0, True, True)

    def launched_by(launch: Any) -> None:
        launch(small_kernel, (1,), rows, rows, None, 50, 48, 0.5, SIZE=64, FLAG=True, num_warps=4)

    stand_in.noting = False
    counts = {
        "call": python_calls(call),
        "backward": python_calls(backward),
        "launch": python_calls(lambda: launched_by(launch_now)),
        "launch by Triton": python_calls(lambda: launched_by(as_triton_does)),
    }
    ordinary_launches.clear()
    for m in (M, 77, 96, 1, 64):
        call(m)
    backward()
    encoded = []
    for _ in range(5):  # as above
        stand_in.encoded = 0
        call()
        backward()
        encoded.append(stand_in.encoded)
    return {
        "python calls": counts,
        "ordinary": dict(ordinary_launches),
        "maps encoded again": min(encoded),
        "new lengths": new_lengths(),
    }


def new_lengths() -> dict[str, Any]:
    """Of calls with lengths that the process has not seen, in one bucket, both passes."""
    hidden, weight, target = problem()
    weight.requires_grad_()
    settled: list[int] = []
    real = plans._settle_tiles
    plans._settle_tiles = lambda *key: settled.append(key[0]) or real(*key)
    plans.forget()
    options = {"return_entropy": True, "backend": "triton", "schedule": SPECIALISED}

    def call(m: int) -> tuple[torch.Tensor, torch.Tensor]:
        differentiable = torch.is_grad_enabled()
        return fused_linear_logprob(
            hidden[:m], weight, target[:m], entropy_requires_grad=differentiable, **options
        )

    def both(m: int) -> None:
        torch.autograd.grad(call(m), weight, [torch.ones(m)] * 2)

    both(M)
    ordinary_launches.clear()
    lengths = iter(range(40, M))
    for _ in range(50):
        both(next(lengths))
    with torch.no_grad():
        new, known = (python_calls(one) for one in (lambda: call(next(lengths)), lambda: call(M)))
    return {
        "tiles settled": settled,
        "ordinary": dict(ordinary_launches),
        "python calls more": new - known,
    }


if __name__ == "__main__":
    print(json.dumps(effort(start())))
