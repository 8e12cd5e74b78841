"""The protocol and the sampling loop, with a synthetic device."""

from __future__ import annotations

import pytest

from asv_benchmarks.conditions import NoMonitor, Reading
from asv_benchmarks.timing import (
    HostSubject,
    MismatchError,
    Plan,
    gpu_plan,
    host_plan,
    scaled,
    take_round,
)


class FakeDevice:
    """A kernel of ``length_ms`` whose first run is slow, on a clock of its own.

    It notes every event, and fails verification unless it ran after the poison.
    """

    def __init__(self, lengths: list[float]) -> None:
        self.lengths = iter(lengths)
        self.events: list[str] = []
        self.poisoned = False

    def sample(self, group: int) -> list[float]:
        self.events.append(f"run*{group}")
        self.poisoned = False
        return [next(self.lengths)] * group

    def poison(self) -> None:
        self.events.append("poison")
        self.poisoned = True

    def verify(self) -> None:
        self.events.append("verify")
        if self.poisoned:
            raise MismatchError("outputs are poison")

    def sleep(self, seconds: float) -> None:
        self.events.append(f"sleep {seconds:g}")

    def read(self) -> Reading:
        self.events.append("read")
        return Reading(1980, 400.0, 50, 0x4 | 0x1, 2)


@pytest.mark.parametrize(
    ("length_ms", "protocol", "statistic", "gap_ms"),
    [
        (0.06, "graph-back-to-back", "median", 0.0),
        (0.299, "graph-back-to-back", "median", 0.0),
        (0.3, "graph-bursts", "median", 20.0),
        (4.99, "graph-bursts", "median", 20.0),
        (5.0, "graph-paced", "median", 20.0),
        (13.0, "graph-paced", "median", 20.0),
        (20.0, "graph-paced", "median", 20.0),
        (26.0, "graph-paced", "minimum", 78.0),
        (99.0, "graph-paced", "minimum", 297.0),
        (120.0, "graph-paced", "minimum", 120.0),
        (500.0, "graph-paced", "minimum", 500.0),
    ],
)
def test_the_protocol_follows_the_kernels_length(
    length_ms: float, protocol: str, statistic: str, gap_ms: float
) -> None:
    plan = gpu_plan(length_ms)
    assert (plan.protocol, plan.statistic, plan.gap_ms) == (protocol, statistic, gap_ms)
    assert plan.samples >= 3


@pytest.mark.parametrize("length_ms", [0.01, 0.1, 0.3, 5, 20, 21, 49, 51, 99, 110, 370])
def test_a_round_takes_at_most_about_three_seconds(length_ms: float) -> None:
    plan = gpu_plan(length_ms)
    seconds = (plan.samples + 1) * (plan.gap_ms + plan.group * (length_ms + 0.1)) / 1000
    assert seconds < 3.2


def test_a_back_to_back_sample_keeps_the_gpu_busy() -> None:
    for length_ms in (0.02, 0.06, 0.29):
        plan = gpu_plan(length_ms)
        assert plan.group == 200 or plan.group * (length_ms + 0.1) >= 20


@pytest.mark.parametrize("length_ms", [0.3, 0.5, 1.4, 2.7, 3.4, 4.99])
def test_a_burst_ends_before_the_power_cap_and_counts_its_later_half(length_ms: float) -> None:
    plan = gpu_plan(length_ms)
    assert plan.group >= 2
    assert plan.group * length_ms <= 10
    assert plan.group / 3 <= plan.warming <= plan.group / 2


def test_the_first_replays_of_a_burst_are_not_counted() -> None:
    class Burst(FakeDevice):
        def sample(self, group: int) -> list[float]:
            self.poisoned = False
            return [9.0, 7.0, 3.0, 1.0, 2.0][:group]

    device = Burst([])
    plan = Plan("graph-bursts", "median", 20.0, samples=3, group=5, warming=2)
    assert take_round(device, plan, device, device.sleep).samples == (2.0, 2.0, 2.0)


def test_a_round_drops_the_first_sample_and_poisons_before_the_last() -> None:
    device = FakeDevice([9.0, 3.0, 1.0, 2.0])
    plan = Plan("graph-paced", "median", 20.0, samples=3)
    timing = take_round(device, plan, device, device.sleep)
    assert timing.samples == (3.0, 1.0, 2.0)
    assert timing.value == 2.0
    assert device.events == [
        *("sleep 0.02", "run*1"),
        *("sleep 0.02", "run*1", "read"),
        *("sleep 0.02", "run*1", "read"),
        *("poison", "sleep 0.02", "run*1", "read"),
        "verify",
    ]
    assert timing.conditions.sm_clock_mhz == 1980
    assert timing.conditions.clock_event_reasons == ("sw_power_cap",)
    assert timing.conditions.other_processes == 1


def test_long_kernels_are_told_by_their_minimum() -> None:
    device = FakeDevice([90.0, 33.0, 31.0, 32.0])
    plan = Plan("graph-paced", "minimum", 90.0, samples=3)
    assert take_round(device, plan, device, device.sleep).value == 31.0


def test_a_group_is_one_sample() -> None:
    device = FakeDevice([0.2, 0.1, 0.1, 0.1])
    plan = Plan("graph-back-to-back", "median", 0.0, samples=3, group=50)
    timing = take_round(device, plan, device, device.sleep)
    assert timing.samples == (0.1, 0.1, 0.1)
    assert "sleep 0" not in device.events
    assert device.events.count("run*50") == 4


def test_outputs_that_a_replay_does_not_write_fail_the_round() -> None:
    class Idle(FakeDevice):
        def sample(self, group: int) -> list[float]:
            return [1.0] * group

    device = Idle([])
    with pytest.raises(MismatchError):
        take_round(device, Plan("graph-paced", "median", 0.0, samples=3), device)


def test_a_slice_is_scaled_to_the_whole() -> None:
    device = FakeDevice([9.0, 3.0, 1.0, 2.0])
    timing = take_round(device, Plan("graph-paced", "median", 0.0, samples=3), device)
    whole = scaled(timing, 4)
    assert (whole.samples, whole.value) == ((12.0, 4.0, 8.0), 8.0)
    assert whole.conditions == timing.conditions
    assert scaled(timing, 1) is timing


def test_the_host_clock_times_the_call() -> None:
    calls = []
    subject = HostSubject(lambda: calls.append(1))
    timing = take_round(subject, host_plan(), NoMonitor())
    assert len(calls) == 6
    assert len(timing.samples) == 5
    assert all(sample >= 0 for sample in timing.samples)
    assert timing.conditions.sm_clock_mhz is None
