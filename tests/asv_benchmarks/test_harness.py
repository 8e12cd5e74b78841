"""The frame around a benchmark, in this process: every outcome leaves its line."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from asv_benchmarks import frame, harness
from asv_benchmarks.conditions import Reading
from asv_benchmarks.device import Gpu
from asv_benchmarks.harness import Family
from asv_benchmarks.lock import BusyError, gpu_lock
from asv_benchmarks.nominal import Work
from asv_benchmarks.watchdog import Watchdog
from asv_benchmarks.workloads import Device, Workload

COMMIT = "c" * 40
SMOKE = ("smoke", 2048, 1)

pytestmark = pytest.mark.usefixtures("measured")


class Toy(Family):
    family = "forward"
    prepared: Callable[[], Any] = staticmethod(lambda: ())

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Any]:
        assert fused_lmhead.__name__ == "toy_lmhead"
        return type(self).prepared


def lines(results: Path) -> list[dict[str, Any]]:
    (path,) = (results / "rounds").iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(benchmark: Any) -> Any:
    benchmark.setup(*SMOKE)
    try:
        return benchmark.track_time(*SMOKE)
    finally:
        benchmark.teardown(*SMOKE)


def test_a_round_is_returned_to_asv_and_recorded(handed_over) -> None:
    results = handed_over()
    returned = [run(Toy()), run(Toy())]
    recorded = lines(results)
    assert [line["round"] for line in recorded] == [0, 1]
    for line, result in zip(recorded, returned, strict=True):
        assert result == {"samples": line["samples"], "number": 1}
        assert line["status"] == "ok"
        assert line["value"] == sorted(line["samples"])[2]
        assert (line["protocol"], line["statistic"]) == ("host-clock", "median")
        assert (line["m"], line["h"], line["v"], line["entropy"]) == (2048, 64, 1000, "off")
        assert line["fused_lmhead_file"] == "toy_lmhead/__init__.py"
        assert line["params"] == {"model": "smoke", "tokens": 2048, "tp": 1}
        assert line["gpu"] is None
        assert line["inputs"].startswith("hidden N(0, 1), weight N(0, 1/H)")
        assert line["benchmark"].endswith("test_harness.Toy.track_time")


def test_asv_finds_rounds_on_the_function() -> None:
    assert Toy().track_time.rounds == 3
    assert Toy().track_time.family == "forward"


def test_a_failing_call_is_recorded_and_raised(handed_over) -> None:
    results = handed_over()
    calls: list[int] = []

    class Fails(Toy):
        family = "forward"

        @staticmethod
        def prepared() -> None:
            calls.append(1)
            if len(calls) > 3:
                raise MemoryError("out of memory\ntraceback")

    with pytest.raises(MemoryError):
        run(Fails())
    (line,) = lines(results)
    assert (line["status"], line["reason"]) == ("failed", "MemoryError: out of memory")
    assert (line["samples"], line["value"]) == ([], None)


def test_a_schedule_that_is_no_json_fails_with_its_reason(handed_over) -> None:
    results = handed_over()

    class Odd(Toy):
        family = "forward"

        def describe(self, *_: object) -> dict[str, Any]:
            return {"schedule": object()}

    with pytest.raises(TypeError):
        run(Odd())
    (line,) = lines(results)
    assert line["status"] == "failed"
    assert "not JSON serializable" in line["reason"]


def test_what_is_not_there_is_a_skip_in_setup(handed_over) -> None:
    results = handed_over()

    class Lacks(Toy):
        family = "forward"

        @staticmethod
        def prepared() -> None:
            raise NotImplementedError("no such mode yet")

    with pytest.raises(NotImplementedError):
        Lacks().setup(*SMOKE)
    (line,) = lines(results)
    assert (line["status"], line["reason"]) == ("skipped", "no such mode yet")


def test_a_workload_beyond_the_device_is_a_skip(handed_over) -> None:
    results = handed_over()
    with pytest.raises(NotImplementedError):
        Toy().setup("kimi-k2", 8192, 1)
    assert lines(results)[0]["status"] == "skipped"


def test_a_gpu_environment_without_a_gpu_is_a_failure(
    handed_over, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = handed_over(device="gpu", environment="checkout-py3.12-gpu", gpu_index=0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(RuntimeError, match="finds no CUDA device"):
        Toy().setup(*SMOKE)
    (line,) = lines(results)
    assert line["status"] == "failed"
    assert line["environment"] == "checkout-py3.12-gpu"
    assert line["samples"] == []


def test_a_gpu_round_is_locked_watched_and_planned_by_length(
    handed_over, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    graph = importlib.import_module("asv_benchmarks.graph")
    results = handed_over(device="gpu", environment="checkout-py3.12-gpu", gpu_index=1)
    gpu = Gpu(1, "GPU-synthetic", "NVIDIA Fake", "580.1")
    held: list[bool] = []

    class Subject:
        def __init__(self, call: Callable[[], Any]) -> None:
            with pytest.raises(BusyError):
                gpu_lock(gpu.uuid, "process", tmp_path).acquire(timeout_s=0)
            held.append(True)

        def sample(self, group: int) -> list[float]:
            return [0.5] * group

        def poison(self) -> None: ...

        def verify(self) -> None: ...

    class Monitor:
        def __init__(self, index: int) -> None:
            assert index == 1

        def read(self) -> Reading:
            return Reading(1980, 350.0, 44, 0x4, 1)

    monkeypatch.setattr(frame, "visible_gpu", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(frame, "NvmlMonitor", Monitor)
    monkeypatch.setattr(graph, "GraphSubject", Subject)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    class Long(Toy):
        family = "forward"
        work = Work(products=2000)  # 0.7 ms of nominal length, for the smoke shape

    assert run(Long())["samples"] == [0.5] * 9
    assert held == [True]
    gpu_lock(gpu.uuid, "process", tmp_path).acquire(timeout_s=0)
    (line,) = lines(results)
    assert (line["protocol"], line["gap_ms"], line["value"]) == ("graph-bursts", 20.0, 0.5)
    assert (line["gpu"], line["gpu_uuid"], line["driver"]) == (gpu.name, gpu.uuid, gpu.driver)
    assert (line["sm_clock_mhz"], line["power_w"], line["temperature_c"]) == (1980, 350, 44)
    assert line["clock_event_reasons"] == ["sw_power_cap"]
    assert (line["other_gpu_processes"], line["disturbed_by"]) == (0, [])

    monkeypatch.setattr(frame, "visible_gpu", lambda: dataclasses.replace(gpu, index=0))
    with pytest.raises(RuntimeError, match="started for GPU 1, this process sees GPU 0"):
        Toy().setup(*SMOKE)


def test_a_planted_slowdown_is_recorded_where_it_is_planted(
    handed_over, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    results = handed_over()

    class Spared(Toy):
        family = "control"
        plantable = False

    monkeypatch.setenv("LMHEAD_BENCH_PLANT", f"{COMMIT}:0.5")
    run(Toy())
    run(Spared())
    monkeypatch.setenv("LMHEAD_BENCH_PLANT", f"{'d' * 40}:0.5")
    run(Toy())
    assert [line["planted"] for line in lines(results)] == [0.5, None, None]


def test_what_share_is_planted_goes_by_the_length_of_the_call(
    handed_over, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    results = handed_over()
    monkeypatch.setattr(harness, "with_extra_work", lambda call, *_: call)
    monkeypatch.setenv("LMHEAD_BENCH_PLANT", f"{COMMIT}:0.01,0.03")

    class Still(Toy):
        family = "forward_backward"
        work = Work(products=20_000)  # 7 ms of nominal length, for the smoke shape

    run(Toy())
    run(Still())
    assert [line["planted"] for line in lines(results)] == [0.03, 0.01]


def test_a_planted_share_is_of_the_work_that_a_family_names(
    handed_over, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    handed_over()
    lengths: list[float] = []

    def noted(call: Any, workload: Any, length_ms: float, *_: Any) -> Any:
        lengths.append(length_ms)
        return call

    monkeypatch.setattr(harness, "with_extra_work", noted)
    monkeypatch.setenv("LMHEAD_BENCH_PLANT", f"{COMMIT}:0.5")

    class Told(Toy):
        family = "chunked"
        planted_work = Work(products=3)

    run(Toy())
    run(Told())
    assert lengths[1] == pytest.approx(3 * lengths[0])


def test_a_slice_is_recorded_and_scaled(handed_over) -> None:
    results = handed_over()

    class Sliced(Toy):
        family = "control"

        def portion(self, workload: Workload, device: Device) -> Workload:
            return dataclasses.replace(workload, tokens=workload.tokens // 4)

        @staticmethod
        def prepared() -> None:
            time.sleep(0.01)

    run(Sliced())
    (line,) = lines(results)
    assert (line["m"], line["measured_tokens"]) == (2048, 512)
    assert 40 <= line["value"] < 80
    assert line["params"]["tokens"] == 2048


def test_what_a_process_spends_is_recorded(handed_over) -> None:
    results = handed_over()
    run(Toy())
    (line,) = lines(results)
    assert set(line["seconds"]) == {"setup", "capture", "whole"}
    assert 0 <= line["seconds"]["setup"] <= line["seconds"]["whole"] < 10


def test_nothing_is_written_where_asv_saves_nothing(handed_over, tmp_path: Path) -> None:
    handed_over(results=None)
    assert run(Toy())["number"] == 1
    assert not (tmp_path / "results").exists()


def test_the_watchdog_speaks_before_the_process_is_killed() -> None:
    reasons: list[str] = []
    left = threading.Event()
    Watchdog(0.05, reasons.append, leave=lambda code: left.set()).start()
    assert left.wait(5)
    assert reasons == ["TimeoutError: no result within 0.0475 s"]

    early = Watchdog(0.05, reasons.append, leave=lambda code: left.set())
    early.start()
    early.stop()
    assert not threading.Event().wait(0.1)
    assert len(reasons) == 1
