"""The frame around every benchmark: guard, device, lock, timing, record.

A family says what is called (``prepare``); the frame sees to it that the right
commit and the right device are measured, alone, and that each process leaves
one line with its samples and conditions, or the reason why it has none.
"""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from asv_benchmarks.calls import describe_schedule
from asv_benchmarks.checkout import import_measured, relative_file, verify_loaded
from asv_benchmarks.conditions import Monitor, NoMonitor, NvmlMonitor
from asv_benchmarks.device import package_version, visible_gpu
from asv_benchmarks.handover import Handover
from asv_benchmarks.lock import FileLock, gpu_lock
from asv_benchmarks.records import (
    RoundRecord,
    append_line,
    earlier_rounds,
    reason_of,
    rounds_path,
)
from asv_benchmarks.timing import (
    HostSubject,
    Plan,
    Subject,
    Timing,
    estimate_ms,
    gpu_plan,
    host_plan,
    settled,
    take_round,
)
from asv_benchmarks.watchdog import Watchdog
from asv_benchmarks.workloads import (
    MODELS,
    TENSOR_PARALLEL,
    TOKENS,
    Device,
    Workload,
    runs_on,
)

if TYPE_CHECKING:
    from asv_benchmarks.graph import Outputs

LOCK_WAIT_S = 60.0


class Family(ABC):
    """Base of the benchmark classes; asv calls ``setup``, ``track_time``, ``teardown``.

    A subclass sets ``family``, ``entropy`` and, by hand, ``version``: a new one
    whenever its numbers mean something else, since that cuts the series.
    ``timeout`` in seconds.
    """

    family: ClassVar[str]
    entropy: ClassVar[Literal["off", "metric", "grad"]] = "off"
    version: ClassVar[str] = "1"
    unit: ClassVar[str] = "ms"
    higher_is_better: ClassVar[bool] = False
    rounds: ClassVar[int] = 3
    timeout: ClassVar[float] = 180.0
    params: ClassVar[list[tuple[str, ...] | tuple[int, ...]]] = [MODELS, TOKENS, TENSOR_PARALLEL]
    param_names: ClassVar[list[str]] = ["model", "tokens", "tp"]

    def __init_subclass__(cls) -> None:
        """Give the class its ``track_time``: asv reads ``rounds`` from the function only."""

        def track_time(self: Family, model: str, tokens: int, tp: int) -> dict[str, Any]:
            """Milliseconds of one call: the samples of one round."""
            del model, tokens, tp  # setup has made the workload of them
            return self._measure()

        track_time.__dict__.update(
            rounds=cls.rounds, family=cls.family, higher_is_better=cls.higher_is_better
        )
        cls.track_time = track_time  # type: ignore[attr-defined]

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

    def setup(self, model: str, tokens: int, tp: int) -> None:
        """Check commit and device, take the GPU, make the inputs and warm up."""
        self._workload = Workload(model, tokens, tp)
        self._handover = Handover.from_environ()
        self._writing, self._written = Lock(), False
        self._begin_record()
        self._watchdog = Watchdog(self.timeout, self._expire)
        self._watchdog.start()
        self._lock: FileLock | None = None
        try:
            self._set_up()
        except NotImplementedError as error:
            self._finish("skipped", str(error) or "not implemented")
            raise
        except Exception as error:
            self._finish("failed", reason_of(error))
            raise

    def _set_up(self) -> None:
        handover, workload = self._handover, self._workload
        if not runs_on(workload, handover.device):
            raise NotImplementedError(f"({workload.label}) does not run on a {handover.device}")
        self._package = import_measured(handover.checkout, handover.commit)
        self._record.fused_lmhead_file = relative_file(self._package, handover.checkout)
        self._monitor: Monitor = NoMonitor()
        if handover.device == "gpu":
            self._take_gpu()
        self._call = self.prepare(self._package, workload, handover.device)
        # The first call happens here, where asv takes NotImplementedError for a skip.
        self._call()

    def _take_gpu(self) -> None:
        """Lock and watch the GPU. A missing one is a failure, never a CPU number."""
        import torch

        gpu = visible_gpu()
        if gpu is None or not torch.cuda.is_available():
            raise RuntimeError(
                f"environment {self._handover.environment} is a GPU's, "
                "but torch finds no CUDA device"
            )
        if gpu.index != self._handover.gpu_index:
            raise RuntimeError(
                f"the run was started for GPU {self._handover.gpu_index}, this process "
                f"sees GPU {gpu.index}"
            )
        self._record.gpu, self._record.gpu_uuid = gpu.name, gpu.uuid
        self._record.driver = gpu.driver
        self._lock = gpu_lock(gpu.uuid, "process")
        self._lock.acquire(timeout_s=LOCK_WAIT_S)
        self._monitor = NvmlMonitor(gpu.index)

    def _measure(self) -> dict[str, Any]:
        """Time the workload and record the round; asv pools the returned samples."""
        try:
            subject, plan = self._subject()
            timing = take_round(subject, plan, self._monitor)
            verify_loaded(self._handover.checkout)
            self._record.schedule = self.describe(
                self._package, self._workload, self._handover.device
            )
            self._fill(timing)
            self._finish("ok", None)
        except Exception as error:
            self._finish("failed", reason_of(error))
            raise
        return {"samples": list(timing.samples), "number": 1}

    def _subject(self) -> tuple[Subject, Plan]:
        if self._handover.device == "cpu":
            return HostSubject(self._call), host_plan()
        from asv_benchmarks.graph import GraphSubject

        subject = GraphSubject(self._call)
        return subject, settled(gpu_plan(estimate_ms(subject)), self._earlier)

    def teardown(self, model: str, tokens: int, tp: int) -> None:
        """Let go of the GPU."""
        del model, tokens, tp
        self._watchdog.stop()
        if self._lock is not None:
            self._lock.release()

    def _begin_record(self) -> None:
        handover, workload = self._handover, self._workload
        name = f"{type(self).__module__.split('.', 1)[-1]}.{type(self).__name__}.track_time"
        params = {"model": workload.model, "tokens": workload.tokens, "tp": workload.tp}
        self._path = None if handover.results is None else rounds_path(handover.results, handover)
        self._earlier = (
            [] if self._path is None else earlier_rounds(self._path, handover.run, name, params)
        )
        self._record = RoundRecord(
            run=handover.run,
            machine=handover.machine,
            environment=handover.environment,
            commit=handover.commit,
            benchmark=name,
            params=params,
            family=self.family,
            unit=self.unit,
            higher_is_better=self.higher_is_better,
            version=self.version,
            round=len(self._earlier),
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            torch=package_version("torch"),
            triton=package_version("triton"),
            python=platform.python_version(),
            m=workload.m,
            h=workload.h,
            v=workload.v,
            entropy=self.entropy,
        )

    def _fill(self, timing: Timing) -> None:
        record, conditions = self._record, timing.conditions
        record.samples, record.value = list(timing.samples), timing.value
        record.statistic, record.protocol = timing.plan.statistic, timing.plan.protocol
        record.gap_ms = timing.plan.gap_ms
        record.sm_clock_mhz = conditions.sm_clock_mhz
        record.power_w = conditions.power_w
        record.temperature_c = conditions.temperature_c
        record.clock_event_reasons = conditions.clock_event_reasons
        record.other_gpu_processes = conditions.other_processes

    def _expire(self, reason: str) -> None:
        self._finish("failed", reason)

    def _finish(self, status: Literal["ok", "failed", "skipped"], reason: str | None) -> None:
        """Write the line, once: the watchdog may be first."""
        self._watchdog.stop()
        with self._writing:
            if self._written:
                return
            record = self._record
            record.status, record.reason = status, reason
            if status != "ok":
                record.samples, record.value, record.schedule = [], None, None
            line = record.to_line()
            if self._path is not None:
                append_line(self._path, line)
            self._written = True
