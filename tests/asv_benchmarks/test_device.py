"""Which GPU a run measures and what is read from it, with a fake NVML."""

from __future__ import annotations

from typing import Any

import pytest

from asv_benchmarks import conditions, device
from asv_benchmarks.conditions import NvmlMonitor, Reading, summarise
from asv_benchmarks.device import DeviceError, Gpu, accelerator, visible_gpu


class FakeNvml:
    """Two GPUs; ``missing`` names the questions that they do not support."""

    NVMLError = RuntimeError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, count: int = 2, missing: tuple[str, ...] = ()) -> None:
        self.count, self.missing = count, missing

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "missing"):

            def unsupported(*_: object) -> None:
                raise RuntimeError("Not Supported")

            return unsupported
        return object.__getattribute__(self, name)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}aaa-bbb"

    def nvmlDeviceGetName(self, handle: int) -> bytes:  # noqa: N802
        return b"NVIDIA Fake"

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.1"

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:  # noqa: N802
        return 1980

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        return 512_345

    def nvmlDeviceGetTemperature(self, handle: int, kind: int) -> int:  # noqa: N802
        return 55

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:  # noqa: N802
        return 0x24

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        return 0x8

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[object]:  # noqa: N802
        return [object()]


@pytest.mark.parametrize(
    ("visible", "index"),
    [(None, 0), ("0", 0), ("1", 1), ("1,0", 1), ("GPU-1aaa-bbb", 1), ("GPU-1", 1)],
)
def test_the_first_visible_gpu_is_measured(visible: str | None, index: int) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    expected = Gpu(index, f"GPU-{index}aaa-bbb", "NVIDIA Fake", "580.1")
    assert visible_gpu(environ, FakeNvml()) == expected


@pytest.mark.parametrize("visible", ["", "-1", " ", "NoDevFiles"])
def test_hidden_gpus_are_no_gpus(visible: str) -> None:
    assert visible_gpu({"CUDA_VISIBLE_DEVICES": visible}, FakeNvml()) is None


def test_no_gpu_at_all() -> None:
    assert visible_gpu({}, FakeNvml(count=0)) is None


@pytest.mark.parametrize("visible", ["7", "GPU-", "MIG-1", "GPU-9"])
def test_a_gpu_that_cannot_be_told_is_an_error_and_not_a_cpu(visible: str) -> None:
    with pytest.raises(DeviceError, match=visible):
        visible_gpu({"CUDA_VISIBLE_DEVICES": visible}, FakeNvml())


def test_a_driver_without_nvml_is_an_error_and_not_a_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    class Broken(FakeNvml):
        def nvmlInit(self) -> None:  # noqa: N802
            raise RuntimeError("Driver/library version mismatch")

    monkeypatch.setattr(device.importlib, "import_module", lambda name: Broken())
    monkeypatch.setattr(device, "DRIVER_FILE", tmp_path / "absent")
    assert device.load_nvml() is None
    monkeypatch.setattr(device, "DRIVER_FILE", tmp_path)
    with pytest.raises(DeviceError, match="version mismatch"):
        device.load_nvml()


def test_machine_parameters_leave_out_what_is_unknown() -> None:
    known = accelerator(Gpu(0, "GPU-1", "NVIDIA Fake", "580.1"))
    assert (known["gpu"], known["driver"]) == ("NVIDIA Fake", "580.1")
    assert not {"gpu", "driver"} & accelerator(None).keys()


def test_a_reading_is_in_the_records_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "load_nvml", FakeNvml)
    assert NvmlMonitor(1).read() == Reading(1980.0, 512.345, 55.0, 0x24, 1)


def test_what_a_gpu_does_not_tell_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = (
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetComputeRunningProcesses",
    )
    monkeypatch.setattr(conditions, "load_nvml", lambda: FakeNvml(missing=missing))
    reading = NvmlMonitor(0).read()
    assert (reading.power_w, reading.processes) == (None, None)
    assert reading.reasons == 0x8, "an old driver's name of the same question"


def test_conditions_are_medians_and_the_union_of_the_reasons() -> None:
    readings = [
        Reading(1980, 300.0, 50, 0x1, 1),
        Reading(1500, 700.0, 60, 0x4 | 0x20, 3),
        Reading(1900, 500.0, 55, 0x4, 1),
    ]
    summary = summarise(readings)
    assert summary.sm_clock_mhz == 1900
    assert summary.power_w == 500.0
    assert summary.temperature_c == 55
    assert summary.clock_event_reasons == ("sw_power_cap", "sw_thermal_slowdown")
    assert summary.other_processes == 2
    assert summarise([Reading()]) == conditions.Conditions()


def test_what_disturbs_a_round_is_named() -> None:
    capped = summarise([Reading(reasons=0x4, processes=1)])
    assert capped.clock_event_reasons == ("sw_power_cap",)
    assert capped.disturbed_by == (), "load brings the power cap: it is no disturbance"
    hot = summarise([Reading(reasons=0x40, processes=1), Reading(reasons=0x8, processes=3)])
    assert hot.disturbed_by == (
        "hw_slowdown",
        "hw_thermal_slowdown",
        "2 other processes on the GPU",
    )
    assert summarise([Reading()]).disturbed_by == ()
