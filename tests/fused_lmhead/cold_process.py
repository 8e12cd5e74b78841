"""Run by tests in a process of its own with an empty cache, on a GPU: seconds of first calls.
Prints JSON. Arguments: H, V, and a schedule search's token counts, of three buckets."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import triton

from fused_lmhead import fused_linear_logprob, tuning

compiled: list[str] = []


def note_compilation(*args: Any, **kwargs: Any) -> None:
    """Triton's hook after each compilation."""
    compiled.append(kwargs["fn"].name.rpartition(".")[2])


def seconds(work: Callable[[], Any]) -> dict[str, Any]:
    """Of one run, the GPU's work included; and what it compiled and searched."""
    compiled.clear()
    before = len(tuning.searches())
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return {
        "seconds": round(time.perf_counter() - start, 4),
        "compiled": len(compiled),
        "searched": [
            [found.case.kernel, len(found.candidates), round(found.seconds, 2)]
            for found in tuning.searches()[before:]
        ],
    }


def main(h: int, v: int, tokens: list[int]) -> dict[str, Any]:
    """First call, another length of its bucket, another bucket, and the host's time of a call."""
    generator = torch.Generator("cuda").manual_seed(0)
    hidden = torch.empty(max(tokens), h, dtype=torch.bfloat16, device="cuda")
    hidden.normal_(generator=generator)
    weight = torch.empty(v, h, dtype=torch.bfloat16, device="cuda")
    weight.normal_(generator=generator).mul_(h**-0.5)
    target = torch.randint(0, v, (max(tokens),), device="cuda", generator=generator)

    def forward(m: int) -> torch.Tensor:
        return fused_linear_logprob(hidden[:m], weight, target[:m], return_entropy=True)[0]

    def both(m: int) -> torch.Tensor:
        leaf = hidden[:m].detach().requires_grad_()
        return torch.autograd.grad(fused_linear_logprob(leaf, weight, target[:m]).sum(), leaf)[0]

    first, same, other = tokens
    found: dict[str, Any] = {
        "first call": seconds(lambda: forward(first)),
        "same call": seconds(lambda: forward(first)),
        "same bucket": seconds(lambda: forward(same)),
        "other bucket": seconds(lambda: forward(other)),
        "first backward": seconds(lambda: both(first)),
        "same backward": seconds(lambda: both(first)),
    }

    def host(m: int) -> float:
        start = time.perf_counter()
        forward(m)
        return time.perf_counter() - start

    # Few enough calls that the GPU's queue never fills, which would make the host wait.
    calls = [host(first) for _ in range(20)]
    torch.cuda.synchronize()
    found["host microseconds"] = round(1e6 * sorted(calls)[10], 1)
    lengths = [host(same - 1 - i) for i in range(20)]
    torch.cuda.synchronize()
    found["host microseconds, each a new length"] = round(1e6 * sorted(lengths)[10], 1)
    return found


if __name__ == "__main__":
    torch.zeros(1, device="cuda")
    triton.knobs.runtime.jit_post_compile_hook = note_compilation
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), list(map(int, sys.argv[3:6])))))
