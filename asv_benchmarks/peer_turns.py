"""Peers on one shape: values checked, calls captured, samples taken in turn."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from asv_benchmarks.conditions import Monitor, Reading
from asv_benchmarks.graph import FLUSH_BYTES, GraphSubject, Outputs
from asv_benchmarks.inputs import Inputs
from asv_benchmarks.nominal import nominal_ms
from asv_benchmarks.peer_calls import Peer, ours_backward, ours_forward
from asv_benchmarks.peer_table import Cell
from asv_benchmarks.timing import (
    HostSubject,
    MismatchError,
    Plan,
    Subject,
    gpu_plan,
    host_plan,
)
from asv_benchmarks.workloads import Device, Workload

# bf16 logits of 4 to 8 are rounded by up to 0.016, bf16 entropies of 8 to 16 by 0.03.
LOGPROB_WITHIN = 0.05
ENTROPY_WITHIN = 0.1
# Of the gradient's norm; bf16 sums over a thousand blocks are off by about 0.03.
GRADIENT_WITHIN = 0.1


@dataclass(frozen=True, slots=True)
class Truth:
    """Ours: log-probs and entropies ``[M]``, gradients of hidden and weight if asked for."""

    logprob: torch.Tensor
    entropy: torch.Tensor
    gradients: tuple[torch.Tensor, ...]


class EventSubject(HostSubject):
    """A callable timed by CUDA events around a plain call, behind a cache flush."""

    def __init__(self, call: Callable[[], Outputs]) -> None:
        super().__init__(call)
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")

    def sample(self, group: int) -> list[float]:
        """Milliseconds of each of ``group`` calls."""
        times = []
        for _ in range(group):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            self._flush.zero_()
            start.record()
            self._call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        return times


@dataclass(slots=True)
class Entrant:
    """A peer on a shape, ready to be timed; ``reason`` says why it no longer is."""

    peer: Peer
    plan: Plan
    subject: Subject | None = None
    timed_by: str = ""
    difference: float | None = None
    reason: str = ""
    samples: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)

    def fail(self, error: Exception) -> None:
        """Keep the reason and let go of the GPU's memory."""
        self.reason = f"{type(error).__name__}: {error}".strip()[:400]
        self.subject = None

    def end_round(self) -> None:
        """The statistic of the round's samples."""
        least = self.plan.statistic == "minimum"
        self.rounds.append(min(self.samples) if least else statistics.median(self.samples))
        self.samples.clear()

    def cell(self) -> Cell:
        """What the table says of it."""
        if self.reason:
            return Cell(difference=self.difference, reason=self.reason)
        return Cell(statistics.median(self.rounds), self.timed_by, self.difference)


def truth_of(inputs: Inputs, device: Device, with_gradients: bool) -> Truth | None:
    """What ours computes; None where it fails: the others then go unchecked."""
    try:
        logprob_M, entropy_M = ours_forward(inputs, device)()
        gradients = ours_backward(inputs, device)()[1:] if with_gradients else ()
    except Exception as error:  # noqa: BLE001 - its own cell will say why
        print(f"  unchecked, since ours fails: {error}", file=sys.stderr)
        return None
    return Truth(logprob_M, entropy_M, gradients)


def check(peer: Peer, outputs: Outputs, truth: Truth | None) -> float | None:
    """The largest difference of a log-prob (of a mean: of that) from ours, in nats.

    None for logits or without ours. Raises MismatchError where a value is too far off.
    """
    if truth is None or peer.first == "logits":
        return None
    ours = truth.logprob.mean() if peer.first == "mean nll" else truth.logprob
    found = outputs[0].float()
    difference = float(((found if peer.first == "logprob" else -found) - ours).abs().max())
    if not difference <= LOGPROB_WITHIN:  # also where it is NaN
        raise MismatchError(f"log-prob differs from ours by {difference:.3g}")
    if peer.part == "forward" and len(outputs) > 1:
        off = float((outputs[1].float() - truth.entropy).abs().max())
        if not off <= ENTROPY_WITHIN:
            raise MismatchError(f"entropy differs from ours by {off:.3g}")
    if peer.part != "forward" and peer.first != "mean nll" and truth.gradients:
        for name, one, other in zip(
            ("hidden", "weight"), outputs[1:], truth.gradients, strict=True
        ):
            off = float(
                torch.linalg.vector_norm(one - other, dtype=torch.float32)
                / torch.linalg.vector_norm(other, dtype=torch.float32)
            )
            if not off <= GRADIENT_WITHIN:
                raise MismatchError(f"gradient of {name} differs from ours by {off:.3g} of it")
    return difference


def waits_for_gpu(call: Callable[[], Outputs]) -> bool:
    """Whether the call makes the host wait: no graph can capture that.

    Asked beforehand, since a capture that fails leaves the allocator in disorder.
    """
    torch.cuda.set_sync_debug_mode("error")
    try:
        call()
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        return True
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return False


def subject_of(call: Callable[[], Outputs], device: Device) -> tuple[Subject, str]:
    """What times the call, and its name."""
    if device == "cpu":
        return HostSubject(call), "host clock"
    if waits_for_gpu(call):
        return EventSubject(call), "events"
    try:
        # A capture that fails leaves its stream the current one.
        with torch.cuda.stream(torch.cuda.current_stream()):
            return GraphSubject(call), "graph"
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        print(f"  no graph, so events: {error}", file=sys.stderr)
        return EventSubject(call), "events"


def enter(
    peer: Peer, workload: Workload, inputs: Inputs, truth: Truth | None, device: Device
) -> Entrant:
    """Prepare a peer, check its values, capture it. A failure is the entrant's reason."""
    plan = gpu_plan(nominal_ms(workload, peer.work)) if device == "gpu" else host_plan()
    entrant = Entrant(peer, plan)
    started = time.monotonic()
    try:
        call = peer.prepare(inputs, device)
        entrant.difference = check(peer, call(), truth)
        entrant.subject, entrant.timed_by = subject_of(call, device)
    except Exception as error:  # noqa: BLE001 - other projects' code fails in ways of its own
        entrant.fail(error)
    took = f"{time.monotonic() - started:.1f} s"
    print(f"  {peer.part}, {peer.name}: {entrant.reason or 'ready'}, {took}", file=sys.stderr)
    return entrant


def take_turns(
    entrants: Sequence[Entrant], monitor: Monitor, sleep: Callable[[float], None] = time.sleep
) -> list[Reading]:
    """One round of all: as ``timing.take_round``, but a sample of each in turn.

    The gap before a sample is the longer one of its own plan and of the call before it.
    """
    readings = []
    before_ms = 0.0
    for number in range(1 + max((one.plan.samples for one in entrants), default=0)):
        for one in entrants:
            if one.subject is None or number > one.plan.samples:
                continue
            gap_ms = max(one.plan.gap_ms, before_ms)
            before_ms = one.plan.gap_ms
            try:
                if number == one.plan.samples:
                    one.subject.poison()
                if gap_ms:
                    sleep(gap_ms / 1000)
                sample = one.plan.sample(one.subject)
            except Exception as error:  # noqa: BLE001 - as in enter
                one.fail(error)
                continue
            if number:
                one.samples.append(sample)
                readings.append(monitor.read())
    for one in entrants:
        if one.subject is None:
            continue
        try:
            one.subject.verify()
            one.end_round()
        except Exception as error:  # noqa: BLE001 - as in enter
            one.fail(error)
    return readings
