"""The control of the memory: how fast the device copies, which no commit changes."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import torch

from asv_benchmarks.frame import Frame
from asv_benchmarks.timing import (
    HostSubject,
    Subject,
    Timing,
    gpu_plan,
    host_plan,
    take_round,
)
from asv_benchmarks.workloads import SEED, Device

# Of what a copy is expected to reach, read and written, for its nominal length.
NOMINAL_GB_PER_S = 4000.0


def copy_rate(nbytes: int, milliseconds: float) -> float:
    """GB/s of a copy of ``nbytes``, which are read and written."""
    return round(2 * nbytes / milliseconds / 1e6, 3)


class Bandwidth(Frame):
    """GB/s, read and written, of a copy of ``gib`` GiB within the device's memory."""

    family = "control"
    unit = "GB/s"
    higher_is_better = True
    method = "track_rate"
    params: ClassVar[list[tuple[Any, ...]]] = [(4, 0.0625)]
    param_names: ClassVar[list[str]] = ["gib"]

    def begin(self, package: ModuleType, device: Device) -> None:
        del package
        place = torch.device("cuda" if device == "gpu" else "cpu")
        generator = torch.Generator(place).manual_seed(SEED)
        count = int(self.values["gib"] * 2**30)
        self.source = torch.randint(
            256, (count,), dtype=torch.uint8, device=place, generator=generator
        )
        self.target = torch.empty_like(self.source)
        self.copy()

    def copy(self) -> tuple[torch.Tensor]:
        """One copy."""
        self.target.copy_(self.source)
        return (self.target,)

    def take(self, package: ModuleType, device: Device) -> Timing:
        del package
        nbytes = self.source.numel()
        subject: Subject
        if device == "cpu":
            subject, plan = HostSubject(self.copy), host_plan()
        else:
            from asv_benchmarks.graph import GraphSubject

            subject = GraphSubject(self.copy)
            plan = gpu_plan(2 * nbytes / NOMINAL_GB_PER_S / 1e6)
        timing = take_round(subject, plan, self.monitor)
        return Timing(
            tuple(copy_rate(nbytes, sample) for sample in timing.samples),
            copy_rate(nbytes, timing.value),
            timing.plan,
            timing.conditions,
        )
