"""The frame around every benchmark: guard, device, lock, record.

A benchmark says what is measured; the frame sees to it that the right commit and the
right device are measured, alone, and that each process leaves one line with its samples
and conditions, or the reason why it has none.
"""

from __future__ import annotations

import platform
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, ClassVar, Literal

from asv_benchmarks.checkout import import_measured, relative_file, verify_loaded
from asv_benchmarks.conditions import Monitor, NoMonitor, NvmlMonitor
from asv_benchmarks.device import package_version, visible_gpu
from asv_benchmarks.handover import Handover, take_over
from asv_benchmarks.lock import FileLock, gpu_lock
from asv_benchmarks.records import (
    RoundRecord,
    Status,
    append_line,
    earlier_rounds,
    reason_of,
    rounds_path,
)
from asv_benchmarks.timing import Timing
from asv_benchmarks.watchdog import Watchdog
from asv_benchmarks.workloads import Device, Workload

LOCK_WAIT_S = 60.0


class Frame(ABC):
    """Base of the benchmark classes; asv calls ``setup``, ``track_*``, ``teardown``.

    A subclass sets ``family``, ``entropy`` and, by hand, ``version``: a new one
    whenever its numbers mean something else, since that cuts the series. ``method`` is
    the name of its one benchmark, ``track_…``; ``timeout`` is in seconds. ``params`` may
    only grow, each at its end.
    """

    family: ClassVar[str]
    entropy: ClassVar[Literal["off", "metric", "grad"]] = "off"
    version: ClassVar[str] = "1"
    unit: ClassVar[str] = "ms"
    higher_is_better: ClassVar[bool] = False
    rounds: ClassVar[int] = 3
    timeout: ClassVar[float] = 180.0
    method: ClassVar[str] = "track_time"
    params: ClassVar[list[tuple[Any, ...]]]
    param_names: ClassVar[list[str]]

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        """Give the class its ``track_…``: asv reads ``rounds`` from the function only.

        ``abstract``: a base of further classes, which has none.
        """
        if abstract:
            return

        def track(self: Frame, *values: object) -> dict[str, Any]:
            """The samples of one round."""
            del values  # setup has read them
            return self._measure()

        track.__name__ = cls.method
        track.__dict__.update(
            rounds=cls.rounds, family=cls.family, higher_is_better=cls.higher_is_better
        )
        setattr(cls, cls.method, track)

    @abstractmethod
    def begin(self, package: ModuleType, device: Device) -> None:
        """Make what is needed and do it a first time.

        ``package`` is the measured commit's ``fused_lmhead``. Raises
        NotImplementedError, naming it, for what the commit or the device lacks.
        """

    @abstractmethod
    def take(self, package: ModuleType, device: Device) -> Timing:
        """The samples of this round; ``self.monitor`` reads the device."""

    def shape(self) -> Workload | None:
        """The shape that the parameters mean; None where they mean none."""
        return None

    def chosen(self, package: ModuleType, device: Device) -> dict[str, Any] | None:
        """The schedule chosen for this shape, where the commit tells it."""
        del package, device
        return None

    def setup(self, *values: object) -> None:
        """Check commit and device, take the GPU, begin."""
        self.started = time.perf_counter()
        self.values: dict[str, Any] = dict(zip(self.param_names, values, strict=True))
        self._forked = take_over(Path.cwd())
        self.handover = Handover.from_environ()
        self._writing, self._written = Lock(), False
        self._begin_record()
        self._watchdog = Watchdog(self.timeout, self._expire)
        self._watchdog.start()
        self._lock: FileLock | None = None
        self.monitor: Monitor = NoMonitor()
        try:
            self._set_up()
        except NotImplementedError as error:
            self._finish("skipped", str(error) or "not implemented")
            raise
        except Exception as error:
            self._finish("failed", reason_of(error))
            raise
        self.record.seconds["setup"] = self.elapsed()

    def elapsed(self) -> float:
        """Seconds since ``setup`` began."""
        return round(time.perf_counter() - self.started, 3)

    def _set_up(self) -> None:
        handover = self.handover
        self.package = import_measured(handover.checkout, handover.commit, self._forked)
        self.record.fused_lmhead_file = relative_file(self.package, handover.checkout)
        if handover.device == "gpu":
            self._take_gpu()
        # The first call happens here, where asv takes NotImplementedError for a skip.
        self.begin(self.package, handover.device)

    def _take_gpu(self) -> None:
        """Lock and watch the GPU. A missing one is a failure, never a CPU number."""
        import torch

        gpu = visible_gpu()
        if gpu is None or not torch.cuda.is_available():
            raise RuntimeError(
                f"environment {self.handover.environment} is a GPU's, "
                "but torch finds no CUDA device"
            )
        if gpu.index != self.handover.gpu_index:
            raise RuntimeError(
                f"the run was started for GPU {self.handover.gpu_index}, this process "
                f"sees GPU {gpu.index}"
            )
        self.record.gpu, self.record.gpu_uuid = gpu.name, gpu.uuid
        self.record.driver = gpu.driver
        self._lock = gpu_lock(gpu.uuid, "process")
        self._lock.acquire(timeout_s=LOCK_WAIT_S)
        self.monitor = NvmlMonitor(gpu.index)

    def _measure(self) -> dict[str, Any]:
        """Measure and record the round; asv pools the returned samples."""
        device = self.handover.device
        try:
            timing = self.take(self.package, device)
            verify_loaded(self.handover.checkout)
            self.record.schedule = self.chosen(self.package, device)
            self._fill(timing)
            self._finish("ok", None)
        except Exception as error:
            self._finish("failed", reason_of(error))
            raise
        return {"samples": list(timing.samples), "number": 1}

    def teardown(self, *values: object) -> None:
        """Let go of the GPU."""
        del values
        self._watchdog.stop()
        if self._lock is not None:
            self._lock.release()

    def _begin_record(self) -> None:
        handover, shape = self.handover, self.shape()
        name = f"{type(self).__module__.split('.', 1)[-1]}.{type(self).__name__}.{self.method}"
        self._path = None if handover.results is None else rounds_path(handover.results, handover)
        earlier = (
            []
            if self._path is None
            else earlier_rounds(self._path, handover.run, name, self.values)
        )
        self.record = RoundRecord(
            run=handover.run,
            machine=handover.machine,
            environment=handover.environment,
            commit=handover.commit,
            benchmark=name,
            params=self.values,
            family=self.family,
            unit=self.unit,
            higher_is_better=self.higher_is_better,
            version=self.version,
            round=len(earlier),
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            torch=package_version("torch"),
            triton=package_version("triton"),
            python=platform.python_version(),
            m=shape.m if shape else None,
            h=shape.h if shape else None,
            v=shape.v if shape else None,
            entropy=self.entropy,
        )

    def _fill(self, timing: Timing) -> None:
        record, conditions = self.record, timing.conditions
        record.samples, record.value = list(timing.samples), timing.value
        record.statistic, record.protocol = timing.plan.statistic, timing.plan.protocol
        record.gap_ms = timing.plan.gap_ms
        record.sm_clock_mhz = conditions.sm_clock_mhz
        record.power_w = conditions.power_w
        record.temperature_c = conditions.temperature_c
        record.clock_event_reasons = conditions.clock_event_reasons
        record.other_gpu_processes = conditions.other_processes
        record.disturbed_by = conditions.disturbed_by
        record.seconds["whole"] = self.elapsed()

    def _expire(self, reason: str) -> None:
        self._finish("failed", reason)

    def _finish(self, status: Status, reason: str | None) -> None:
        """Write the line, once: the watchdog may be first."""
        self._watchdog.stop()
        with self._writing:
            if self._written:
                return
            record = self.record
            record.status, record.reason = status, reason
            if status != "ok":
                record.samples, record.value, record.schedule = [], None, None
            line = record.to_line()
            if self._path is not None:
                append_line(self._path, line)
            self._written = True
