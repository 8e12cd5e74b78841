"""The state of the GPU beside each sample, by NVML. MHz, W, °C."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from asv_benchmarks.device import load_nvml

# NVML's bits by the names of nvidia-smi's clocks_event_reasons. The idle bit is left
# out: it says only that the reading came after the kernel.
CLOCK_EVENT_REASONS = {
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}

# A clock under one of these is not the code's doing. The power cap is: it comes with load.
FORCED_DOWN = (
    "hw_slowdown",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the GPU; None where NVML does not tell."""

    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """Readings of a round: medians, and every clock event reason seen."""

    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_event_reasons: tuple[str, ...] = ()
    other_processes: int | None = None

    @property
    def disturbed_by(self) -> tuple[str, ...]:
        """What makes the round one not to be believed; empty for a good one."""
        found = [name for name in self.clock_event_reasons if name in FORCED_DOWN]
        if self.other_processes:
            found.append(f"{self.other_processes} other processes on the GPU")
        return tuple(found)


class Monitor(Protocol):
    """Anything that can be asked for the state of the device."""

    def read(self) -> Reading: ...


class NoMonitor:
    """A CPU: nothing to read."""

    def read(self) -> Reading:
        return Reading()


class NvmlMonitor:
    """Reads one GPU by its NVML index."""

    def __init__(self, index: int) -> None:
        self._nvml = load_nvml()
        if self._nvml is None:
            raise RuntimeError("NVML is gone: the GPU's clocks cannot be recorded")
        self._handle = self._nvml.nvmlDeviceGetHandleByIndex(index)

    def _ask(self, function: str, *arguments: Any) -> Any | None:
        """The answer, or None where this GPU does not support the question."""
        nvml: Any = self._nvml
        try:
            return getattr(nvml, function)(self._handle, *arguments)
        except (nvml.NVMLError, AttributeError):
            return None

    def read(self) -> Reading:
        nvml: Any = self._nvml
        clock = self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM)
        milliwatts = self._ask("nvmlDeviceGetPowerUsage")
        celsius = self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # a driver before 535 knows them by their old name
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return Reading(
            sm_clock_mhz=None if clock is None else float(clock),
            power_w=None if milliwatts is None else milliwatts / 1000,
            temperature_c=None if celsius is None else float(celsius),
            reasons=None if reasons is None else int(reasons),
            processes=None if processes is None else len(processes),
        )


def summarise(readings: Sequence[Reading]) -> Conditions:
    """Conditions of a round from the readings after each of its samples."""

    def median(field: Callable[[Reading], float | None]) -> float | None:
        known = [value for value in map(field, readings) if value is not None]
        return round(statistics.median(known), 3) if known else None

    bits = 0
    for reading in readings:
        bits |= reading.reasons or 0
    counts = [reading.processes for reading in readings if reading.processes is not None]
    return Conditions(
        sm_clock_mhz=median(lambda reading: reading.sm_clock_mhz),
        power_w=median(lambda reading: reading.power_w),
        temperature_c=median(lambda reading: reading.temperature_c),
        clock_event_reasons=tuple(n for bit, n in CLOCK_EVENT_REASONS.items() if bits & bit),
        # This process holds a context itself; a namespace that hides it hides the others too.
        other_processes=max(0, max(counts) - 1) if counts else None,
    )
