"""A workload captured in a CUDA graph, timed by events behind an L2 flush."""

from __future__ import annotations

from collections.abc import Callable

import torch

from asv_benchmarks import preload  # noqa: F401  # here, as every family imports this module
from asv_benchmarks.timing import MismatchError

Outputs = tuple[torch.Tensor, ...]

# The first call of all has compiled and tuned; these are for what belongs to a stream.
WARM_UPS = 2
# Several times any L2. Writing it takes about 0.1 ms, in which the host submits the
# events and the graph: the host's own time never enters a sample.
FLUSH_BYTES = 256 * 2**20
# Same inputs, same kernels: only the order of atomic sums may differ.
TOLERANCE = 1e-2


class GraphSubject:
    """``call`` runs on the current device, makes no host synchronisation and returns tensors."""

    def __init__(self, call: Callable[[], Outputs]) -> None:
        self._call = call
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
        # Compiling, tuning and a library's first-use allocations cannot be captured.
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                call()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = call()

    def sample(self, group: int) -> list[float]:
        """Milliseconds of each of ``group`` replays, submitted without a pause between."""
        events = [(_event(), _event()) for _ in range(group)]
        for start, end in events:
            self._flush.zero_()
            start.record()
            self._graph.replay()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in events]

    def poison(self) -> None:
        """Fill the graph's outputs with NaN."""
        for output in self._outputs:
            if output.is_floating_point():
                output.fill_(float("nan"))
        torch.cuda.synchronize()

    def verify(self) -> None:
        """Compare the outputs of the last replay with an eager call's."""
        replayed = tuple(output.clone() for output in self._outputs)
        compare(replayed, self._call())


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _norm(tensor: torch.Tensor) -> float:
    values = tensor if tensor.is_floating_point() else tensor.float()
    return float(torch.linalg.vector_norm(values, dtype=torch.float32).item())


def compare(replayed: Outputs, eager: Outputs) -> None:
    """Raise MismatchError unless the two agree to ``TOLERANCE`` of the eager norm."""
    if len(replayed) != len(eager):
        raise MismatchError(f"{len(replayed)} outputs replayed, {len(eager)} called eagerly")
    for index, (one, other) in enumerate(zip(replayed, eager, strict=True)):
        if torch.equal(one, other):
            continue
        error, scale = _norm(one - other), _norm(other)
        if not error <= TOLERANCE * scale:  # also where either is NaN
            raise MismatchError(
                f"output {index} of the replayed graph differs from an eager call's: "
                f"norm of the difference {error:.3g}, of the output {scale:.3g}"
            )
