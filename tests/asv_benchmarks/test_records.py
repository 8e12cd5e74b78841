"""The lines beside asv's results, the hand-over to a process, and the lock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asv_benchmarks.handover import Handover, NotHandedOverError
from asv_benchmarks.lock import BusyError, gpu_lock
from asv_benchmarks.records import (
    RoundRecord,
    append_line,
    earlier_rounds,
    reason_of,
    rounds_path,
)

CONTRACT = [
    "schema",
    "run",
    "machine",
    "environment",
    "commit",
    "benchmark",
    "params",
    "family",
    "unit",
    "higher_is_better",
    "version",
    "round",
    "started_at",
    "status",
    "reason",
    "samples",
    "value",
    "statistic",
    "protocol",
    "gap_ms",
    "gpu",
    "gpu_uuid",
    "driver",
    "torch",
    "triton",
    "python",
    "sm_clock_mhz",
    "power_w",
    "temperature_c",
    "clock_event_reasons",
    "m",
    "h",
    "v",
    "entropy",
    "schedule",
    "fused_lmhead_file",
]


def record(**changes: Any) -> RoundRecord:
    values: dict[str, Any] = {
        "run": "r",
        "machine": "m",
        "environment": "checkout-py3.12-cpu",
        "commit": "c" * 40,
        "benchmark": "forward.Forward.track_time",
        "params": {"model": "smoke", "tokens": 2048, "tp": 1},
        "family": "forward",
        "unit": "ms",
        "higher_is_better": False,
        "version": "1",
        "round": 0,
        "started_at": "2025-01-01T00:00:00.000+00:00",
        "m": 2048,
        "h": 64,
        "v": 1000,
        "entropy": "off",
    }
    return RoundRecord(**(values | changes))


def handover(**changes: Any) -> Handover:
    values: dict[str, Any] = {
        "run": "r",
        "machine": "m",
        "environment": "checkout-py3.12-gpu",
        "commit": "c" * 40,
        "checkout": Path("/checkout"),
        "device": "gpu",
        "results": Path("/results"),
        "gpu_index": 3,
    }
    return Handover(**(values | changes))


def test_a_line_has_every_key_and_unknown_is_null() -> None:
    line = record(reason="zu groß").to_line()
    assert line.endswith("\n")
    assert line.count("\n") == 1
    written = json.loads(line)
    assert set(CONTRACT) <= written.keys()
    assert [key for key in written if key in CONTRACT] == CONTRACT
    assert written["schedule"] is None
    assert written["clock_event_reasons"] == []
    assert written["reason"] == "zu groß"


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        record(samples=[float("nan")]).to_line()


def test_lines_are_appended_and_found_by_series_and_run(tmp_path: Path) -> None:
    path = rounds_path(tmp_path, handover(machine="a/b"))
    assert path == tmp_path / "rounds" / "cccccccc-checkout-py3.12-gpu-a_b.jsonl"
    params = {"model": "smoke", "tokens": 2048, "tp": 1}
    benchmark = "forward.Forward.track_time"
    assert earlier_rounds(path, "r", benchmark, params) == []
    append_line(path, record(round=0).to_line())
    append_line(path, record(run="another").to_line())
    append_line(path, record(params=params | {"model": "smoke-odd"}).to_line())
    append_line(path, record(round=1).to_line())
    append_line(path, '{"cut short by a ki')
    assert [r["round"] for r in earlier_rounds(path, "r", benchmark, params)] == [0, 1]


def test_a_reason_is_one_line() -> None:
    assert reason_of(ValueError("first\nsecond")) == "ValueError: first"
    assert reason_of(MemoryError()) == "MemoryError"
    assert len(reason_of(ValueError("x" * 10_000))) == 500


@pytest.mark.parametrize("results", [Path("/results"), None])
def test_a_handover_survives_the_environment(results: Path | None) -> None:
    sent = handover(results=results)
    assert Handover.from_environ(sent.to_environ()) == sent


def test_a_process_that_was_told_nothing_says_what_to_do() -> None:
    with pytest.raises(NotHandedOverError, match="through its 'checkout' environment"):
        Handover.from_environ({})


def test_a_cpu_number_cannot_name_a_gpu_environment() -> None:
    mixed = handover(device="cpu", environment="checkout-py3.12-gpu")
    with pytest.raises(NotHandedOverError, match=r"checkout-py3\.12-gpu"):
        Handover.from_environ(mixed.to_environ())


def test_asv_and_the_plugin_must_mean_the_same_commit() -> None:
    with pytest.raises(NotHandedOverError, match="deadbeef"):
        Handover.from_environ({**handover().to_environ(), "ASV_COMMIT": "deadbeef"})


HOLD = """
import sys
from pathlib import Path
from asv_benchmarks.lock import gpu_lock
lock = gpu_lock("GPU-1", "run", Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_one_run_at_a_time_holds_a_gpu(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    waits: list[str] = []
    lock = gpu_lock("GPU-1", "run", tmp_path)
    with pytest.raises(BusyError, match=f"GPU-1 is used by process {holder.pid}"):
        lock.acquire(timeout_s=0.1, on_wait=waits.append, poll_s=0.02)
    assert len(waits) == 1
    gpu_lock("GPU-2", "run", tmp_path).acquire(timeout_s=0)
    gpu_lock("GPU-1", "process", tmp_path).acquire(timeout_s=0)

    holder.stdin.close()
    holder.wait(timeout=10)
    lock.acquire(timeout_s=5, poll_s=0.02)
    lock.acquire(timeout_s=0)
    lock.release()
    other = gpu_lock("GPU-1", "run", tmp_path)
    other.acquire(timeout_s=0)
    other.release()
