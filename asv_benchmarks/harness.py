"""Benchmarks of one call on one shape, and what they are timed by."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from asv_benchmarks.calls import describe_schedule
from asv_benchmarks.frame import Frame
from asv_benchmarks.nominal import Work, nominal_ms
from asv_benchmarks.planted import planted_fraction, with_extra_work
from asv_benchmarks.timing import (
    HostSubject,
    Plan,
    Subject,
    Timing,
    gpu_plan,
    host_plan,
    scaled,
    take_round,
)
from asv_benchmarks.workloads import (
    DISTRIBUTION,
    MODELS,
    TENSOR_PARALLEL,
    TOKENS,
    Device,
    Workload,
    runs_on,
)

if TYPE_CHECKING:
    from asv_benchmarks.graph import Outputs


class Family(Frame, abstract=True):
    """A call on a workload: parameters ``model``, ``tokens`` and ``tp``.

    ``work`` is what the call does, from which its protocol follows. ``plantable``: a
    planted slowdown reaches it. ``planted_work``: what its share is taken of, where ``work``
    is too far from the truth, and bettering that would change protocols within series.
    """

    params: ClassVar[list[tuple[Any, ...]]] = [MODELS, TOKENS, TENSOR_PARALLEL]
    param_names: ClassVar[list[str]] = ["model", "tokens", "tp"]
    work: ClassVar[Work] = Work()
    plantable: ClassVar[bool] = True
    planted_work: ClassVar[Work | None] = None

    @abstractmethod
    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        """Make the inputs; return the call to be timed, which returns its outputs.

        Raises NotImplementedError, naming it, where the commit lacks what is called.
        """

    def describe(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> dict[str, Any] | None:
        """The schedule chosen for this shape, where the commit tells it."""
        return describe_schedule(fused_lmhead, workload, device)

    def portion(self, workload: Workload, device: Device) -> Workload:
        """What is measured of ``workload``: itself, or fewer tokens of it to be scaled."""
        del device
        return workload

    def shape(self) -> Workload:
        """The workload of the parameters."""
        return Workload(self.values["model"], self.values["tokens"], self.values["tp"])

    def begin(self, package: ModuleType, device: Device) -> None:
        """Prepare the call and make it once: it compiles, tunes and warms up."""
        workload = self.shape()
        if not runs_on(workload, device):
            raise NotImplementedError(f"({workload.label}) does not run on a {device}")
        self.record.inputs = DISTRIBUTION
        self.part = self.portion(workload, device)
        if self.part != workload:
            self.record.measured_tokens = self.part.tokens
        self.call = self.prepare(package, self.part, device)
        length = nominal_ms(self.part, self.work)
        fraction = planted_fraction(self.handover.commit, length)
        if fraction and self.plantable:
            self.record.planted = fraction
            planted = nominal_ms(self.part, self.planted_work or self.work)
            self.call = with_extra_work(self.call, self.part, planted, fraction, device)
        self.call()

    def take(self, package: ModuleType, device: Device) -> Timing:
        """Time the call by the one timer."""
        del package
        subject, plan = self._subject(device)
        self.record.seconds["capture"] = round(self.elapsed() - self.record.seconds["setup"], 3)
        return scaled(take_round(subject, plan, self.monitor), self.shape().m / self.part.m)

    def chosen(self, package: ModuleType, device: Device) -> dict[str, Any] | None:
        """The schedule, by :meth:`describe`."""
        return self.describe(package, self.shape(), device)

    def _subject(self, device: Device) -> tuple[Subject, Plan]:
        if device == "cpu":
            return HostSubject(self.call), host_plan()
        from asv_benchmarks.graph import GraphSubject

        return GraphSubject(self.call), gpu_plan(nominal_ms(self.part, self.work))
