"""How much work a proof plants, and in which commits."""

from __future__ import annotations

import importlib

import pytest

from asv_benchmarks.nominal import PRODUCT_FLOPS, Work, nominal_ms
from asv_benchmarks.planted import VARIABLE, extra_rows, planted_fraction
from asv_benchmarks.tiers import TINY
from asv_benchmarks.workloads import Workload


def test_a_slowdown_is_planted_in_the_named_commits_only() -> None:
    environ = {VARIABLE: "abc,abe:0.01,0.03"}
    for commit in ("abc", "abe"):
        lengths = {0.1: 0.03, 1.99: 0.03, 2.0: 0.01, 19.9: 0.01, 20.0: 0.03}
        assert {ms: planted_fraction(commit, ms, environ) for ms in lengths} == lengths
    assert planted_fraction("abc", 50.0, {VARIABLE: "abc:0.01"}) == 0.01
    assert planted_fraction("abd", 1.0, environ) is None
    assert planted_fraction("abc", 1.0, {}) is None
    for wrong in ("abc", "abc:", "abc:0", "abc:-1", "abc:nan", "abc:much", "abc:1,2,3", "abc:1,"):
        with pytest.raises(ValueError, match="is not <commit>"):
            planted_fraction("abc", 1.0, {VARIABLE: wrong})


def test_the_extra_work_is_the_share_that_was_asked_for() -> None:
    workload = Workload("nemotron-super", 8192, 1)
    length = nominal_ms(workload, Work(products=4))
    rows = extra_rows(workload, length, 0.01)
    assert rows == pytest.approx(0.04 * workload.v, rel=0.02)
    extra_ms = 2 * workload.m * workload.h * rows / PRODUCT_FLOPS * 1000
    assert extra_ms == pytest.approx(0.01 * length, rel=0.02)


def test_chunked_is_planted_with_a_share_of_what_its_call_takes() -> None:
    # 8.0 ms on an H200, of which its shape lets expect 6.5.
    chunked = importlib.import_module("asv_benchmarks.chunked").Chunked
    workload = Workload("nemotron-super", 8192, 4)
    assert nominal_ms(workload, chunked.work) < 7
    assert nominal_ms(workload, chunked.planted_work) == pytest.approx(8.0, rel=0.03)


def test_the_extra_product_has_whole_tiles() -> None:
    # 1,311 rows took nine times as long as asked for.
    for workload in (Workload("nemotron-super", 8192, 4), TINY):
        for fraction in (1e-6, 0.01, 0.0123, 0.03):
            rows = extra_rows(workload, nominal_ms(workload, Work(products=4)), fraction)
            assert rows > 0
            assert rows % 64 == 0
