"""What a sweep measures, in which order, and what fits into a time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from asv_benchmarks.nominal import Work, nominal_ms
from asv_benchmarks.sweep_plan import (
    ASV_START_S,
    PROCESS_S,
    Series,
    expected_s,
    in_order,
    in_shard,
    piece,
    runnable,
)
from asv_benchmarks.tiers import (
    FORWARD,
    FORWARD_BACKWARD,
    TIERS,
    TWO_PASS,
    TWO_PASS_BACKWARD,
    series_of,
)
from asv_benchmarks.timing import gpu_plan
from asv_benchmarks.workloads import Workload

FULL = series_of("full")


def test_shards_are_a_partition_into_whole_shapes() -> None:
    parts = [in_shard(FULL, index, 4) for index in (1, 2, 3, 4)]
    assert Counter(pair for part in parts for pair in part) == Counter(FULL)
    shapes = [{params for _, params in part} for part in parts]
    assert sum(map(len, shapes)) == len(set.union(*shapes)), "a shape lies in one shard only"
    assert max(map(len, shapes)) - min(map(len, shapes)) <= 1


def test_a_cpu_is_given_what_it_can_run() -> None:
    assert runnable(FULL, "gpu") == list(FULL)
    left = runnable(FULL, "cpu")
    assert ("bandwidth.Bandwidth.track_rate", "4") in left
    assert all("nemotron" not in params for _, params in left)


def test_longer_work_is_expected_to_take_longer() -> None:
    small, large = "'nemotron-super', 2048, 8", "'kimi-k2', 262144, 1"
    assert expected_s((FORWARD, small)) < 2
    length_ms = nominal_ms(Workload("nemotron-super", 2048, 8), Work())
    plan = gpu_plan(length_ms)
    assert plan.group > 10
    samples = (plan.samples + 1) * (plan.gap_ms + plan.group * length_ms) / 1000
    assert expected_s((FORWARD, small)) >= PROCESS_S + samples
    times = [
        expected_s((name, large))
        for name in (FORWARD, TWO_PASS, FORWARD_BACKWARD, TWO_PASS_BACKWARD)
    ]
    assert times == sorted(times)
    assert 10 < times[0] < times[-1] < 180, "within the benchmarks' own limit"


def shapes_in_turn(series: Sequence[Series]) -> list[str]:
    """The shapes of ``series``, each as often as others lie between its series."""
    return [params for params, _ in itertools.groupby(series, key=lambda pair: pair[1])]


def test_a_tier_is_measured_by_selection_then_by_shape_the_shortest_first() -> None:
    ordered = in_order("full")
    assert Counter(ordered) == Counter(FULL)
    first = [pair for pair in ordered if pair in set(TIERS["full"][0].series())]
    assert ordered[: len(first)] == first
    shapes = shapes_in_turn(first)
    assert len(shapes) == len(set(shapes)) == 104
    whole = [sum(expected_s(p) for p in first if p[1] == shape) for shape in shapes]
    assert whole == sorted(whole)


def test_a_piece_is_the_whole_shapes_that_fit() -> None:
    todo = in_order("full")
    cost = ASV_START_S + sum(map(expected_s, todo[:8]))
    assert piece(todo, 1, cost + 0.1) == todo[:8]
    assert piece(todo, 1, cost - 0.1) == todo[:4], "no part of a shape that does not fit"
    assert piece(todo, 3, ASV_START_S + 3 * (cost - ASV_START_S) + 0.1) == todo[:8]
    assert piece(todo, 1, ASV_START_S + sum(map(expected_s, todo[:3])) + 0.1) == todo[:3]
    assert piece(todo, 1, ASV_START_S + 0.1) == piece([], 1, 100) == []
    assert piece(todo, 1, 1e6) == todo
