"""One of the two ranks that share a vocabulary; the second is run by its path:

    python -P parallel_rank.py SPEC.json

That process finds the measured ``fused_lmhead`` on its path, perhaps beside an older suite,
and so this file imports nothing of the suite. SPEC: ``{"meeting_place": a file's URI,
"device": "gpu" or "cpu", "m", "h", "v": rows of each rank's shard, "backward": bool,
"package": the folder that fused_lmhead must come from, "timeout_s"}``.

The first rank tells the second, before each call, to make it too; both then start behind an
L2 flush that is longer than the host takes to submit the forward pass. Times in ms.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

RANKS = 2
STOP, CALL = 0, 1
FLUSH_BYTES = 256 * 2**20
FLUSHES = 10
SEED = 20250607

Outputs = tuple[torch.Tensor, ...]


class Rank:
    """This process as rank ``number`` of the group that the spec describes."""

    def __init__(self, spec: dict[str, Any], number: int) -> None:
        self._on_gpu = spec["device"] == "gpu"
        if self._on_gpu:
            torch.cuda.set_device(number)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if self._on_gpu else "gloo",
            init_method=spec["meeting_place"],
            rank=number,
            world_size=RANKS,
            timeout=timedelta(seconds=spec["timeout_s"]),
        )
        place = torch.device("cuda", number) if self._on_gpu else torch.device("cpu")
        self._flush = torch.empty(FLUSH_BYTES if self._on_gpu else 0, dtype=torch.int8).to(place)
        self._call = _call_of(spec, number, place)

    def lead(self) -> tuple[float, float, Outputs]:
        """Make the call together with the other rank: this one's time, the part of it in
        collective calls, and the outputs."""
        self._tell(CALL)
        return self._timed()

    def follow(self) -> None:
        """Make every call that the first rank makes, until it stops."""
        while self._tell(STOP) == CALL:
            self._timed()

    def leave(self) -> None:
        """The first rank: let the other go."""
        self._tell(STOP)

    def _tell(self, command: int) -> int:
        """The first rank's command, on both. Waits for the other rank."""
        told = torch.tensor([command])
        dist.broadcast(told, src=0)
        return int(told)

    def _timed(self) -> tuple[float, float, Outputs]:
        self._wait()
        if self._on_gpu:
            for _ in range(FLUSHES):
                self._flush.zero_()
        with self._collectives() as spans:
            start = self._mark()
            outputs = self._call()
            end = self._mark()
        self._wait()
        return _between(start, end), sum(_between(*span) for span in spans), outputs

    @contextlib.contextmanager
    def _collectives(self) -> Iterator[list[tuple[Any, Any]]]:
        """Marks before and after each all-reduce, where the stream waits for its end."""
        spans: list[tuple[Any, Any]] = []
        real = dist.all_reduce

        def marked(*args: Any, **options: Any) -> Any:
            before = self._mark()
            result = real(*args, **options)
            spans.append((before, self._mark()))
            return result

        dist.all_reduce = marked
        try:
            yield spans
        finally:
            dist.all_reduce = real

    def _mark(self) -> Any:
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _wait(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize()


def _between(start: Any, end: Any) -> float:
    return float((end - start) * 1000 if isinstance(start, float) else start.elapsed_time(end))


def shared_function() -> Callable[..., Any]:
    """The measured commit's LM head of a spread vocabulary.

    Raises NotImplementedError where the commit lacks it.
    """
    name = "fused_lmhead.parallel"
    if importlib.util.find_spec(name) is None:
        raise NotImplementedError(f"this commit has no {name}")
    function: Callable[..., Any] = importlib.import_module(name).vocab_parallel_logprob
    return function


def _call_of(spec: dict[str, Any], number: int, place: torch.device) -> Callable[[], Outputs]:
    """Inputs as everywhere in the suite: hidden states alike on both ranks, shards not."""
    function = shared_function()
    m, h, v = spec["m"], spec["h"], spec["v"]
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    generator = torch.Generator(place).manual_seed(SEED)
    hidden = torch.randn(m, h, dtype=dtype, device=place, generator=generator)
    target = torch.randint(RANKS * v, (m,), device=place, generator=generator)
    upstream = torch.randn(m, dtype=torch.float32, device=place, generator=generator)
    generator.manual_seed(SEED + 1 + number)
    weight = torch.randn(v, h, dtype=dtype, device=place, generator=generator)
    weight.mul_(h**-0.5)
    leaves = (hidden.requires_grad_(), weight.requires_grad_())

    def logprob() -> torch.Tensor:
        result: torch.Tensor = function(
            *leaves,
            target,
            vocab_start_index=number * v,
            vocab_end_index=(number + 1) * v,
            group=dist.group.WORLD,
            backend="triton" if place.type == "cuda" else "torch",
        )
        return result

    def forward() -> Outputs:
        with torch.no_grad():
            return (logprob(),)

    def both() -> Outputs:
        value = logprob()
        return (value.detach(), *torch.autograd.grad(value, leaves, upstream))

    return both if spec["backward"] else forward


def main(path: str) -> None:
    """Be the second rank."""
    spec = json.loads(Path(path).read_text())
    package = importlib.import_module("fused_lmhead")
    if not Path(str(package.__file__)).resolve().is_relative_to(Path(spec["package"]).resolve()):
        sys.exit(f"fused_lmhead was imported from {package.__file__}, not from {spec['package']}")
    rank = Rank(spec, 1)
    rank.follow()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
