"""The host's own time of a call: what is timed, what is waited for, what is counted."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import fused_lmhead
from asv_benchmarks import host
from asv_benchmarks.conditions import NoMonitor
from asv_benchmarks.host import Host
from asv_benchmarks.timing import take_round
from asv_benchmarks.workloads import SMOKE


def test_a_host_call_meets_another_length_every_time() -> None:
    call = Host().prepare(fused_lmhead, SMOKE[0], "cpu")
    assert [len(call()[0]) for _ in range(9)] == [*range(2040, 2048), 2040]


def test_the_hosts_time_ends_with_the_return_and_is_the_least_of_its_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A synthetic device: a call takes 1 to 5 ms of a synthetic clock, what it starts 1 s."""
    now, busy_until, waits = [0.0], [0.0], []
    takes = itertools.cycle([5.0, 2.0, 5.0, 1.0, 5.0, 3.0])

    def call() -> None:
        assert now[0] >= busy_until[0], "the device is idle when a call comes"
        now[0] += next(takes) / 1000
        busy_until[0] = now[0] + 1.0

    def wait() -> None:
        waits.append(now[0])
        now[0] = max(now[0], busy_until[0])

    monkeypatch.setattr("asv_benchmarks.timing.time.perf_counter", lambda: now[0])
    plan = replace(host.PLAN, samples=3, group=2)
    pauses: list[float] = []
    timing = take_round(host.UntilReturn(call, wait), plan, NoMonitor(), pauses.append)
    assert timing.samples == pytest.approx((3.0, 4.0, 3.5))
    assert timing.value == pytest.approx(3.0)
    assert pauses == [0.02] * 4
    assert busy_until[0] <= now[0]


def test_the_hosts_time_is_in_microseconds_and_meets_every_length_before_it_counts() -> None:
    family = Host()
    family.call, family.monitor = lambda: time.sleep(0.002), NoMonitor()
    timing = family.take(fused_lmhead, "cpu")
    assert 2000 <= timing.value < 20_000
    assert timing.value == min(timing.samples)
    assert host.PLAN.group >= host.LENGTHS
    assert host.PLAN.gap_ms * host.PLAN.samples >= 500, "spread over a second or so"
