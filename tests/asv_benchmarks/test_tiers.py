"""Tiers: selections among the suite's constant parameters, and nothing but selections."""

from __future__ import annotations

import importlib
import itertools
import re

import pytest

from asv_benchmarks import tiers
from asv_benchmarks.tiers import TIERS, expression, expression_of, main, series_of
from asv_benchmarks.workloads import SIX, local_shapes

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def offered() -> set[tuple[str, str]]:
    """(benchmark, params) of all that asv finds in the suite, for the tiers' benchmarks."""
    names = {name for tier in TIERS for name, _ in series_of(tier)}
    found = set()
    for name in names:
        module, cls, method = name.split(".")
        family = getattr(importlib.import_module(f"asv_benchmarks.{module}"), cls)
        assert hasattr(family, method), name
        assert family.method == method
        for values in itertools.product(*family.params):
            found.add((name, ", ".join(map(repr, values))))
    return found


@pytest.mark.parametrize("tier", sorted(TIERS))
def test_a_tier_selects_exactly_its_series_of_what_asv_offers(
    tier: str, offered: set[tuple[str, str]]
) -> None:
    chosen = set(series_of(tier))
    assert chosen <= offered
    pattern = re.compile(expression(tier))
    assert {pair for pair in offered if pattern.search(f"{pair[0]}({pair[1]})")} == chosen


def test_the_shipped_history_stays_within_core_and_six() -> None:
    first = {(name, w.label) for name in tiers.FIRST for w in SIX}
    assert set(series_of("six")) == first
    assert first <= set(series_of("core"))
    assert 45 <= len(series_of("core")) <= 70


def test_full_has_every_local_shape_of_the_four_that_are_compared() -> None:
    labels = {w.label for w in local_shapes()}
    full = series_of("full")
    for benchmark in (
        "control.Control.track_time",
        "entropy.ForwardEntropy.track_time",
        "entropy.TwoPass.track_time",
        "fixed.FiveStages.track_time",
    ):
        assert {params for name, params in full if name == benchmark} == labels
    few = [params for name, params in full if name == "backward.ForwardBackward.track_time"]
    assert len(few) == 30, "the spread shapes and what else is in core"
    assert set(series_of("core")) <= set(full), "a nightly run misses nothing of a commit's"
    active = [params for name, params in full if name.startswith("activity.")]
    assert sorted({int(params.split(", ")[-1]) for params in active}) == [23, 64, 73, 95, 100]


def test_pairs_are_the_local_shapes_of_the_120_points() -> None:
    pairs = series_of("pairs")
    assert len(pairs) == 2 * 96
    assert {name for name, _ in pairs} == {tiers.FORWARD_ENTROPY, tiers.TWO_PASS}


def test_series_are_named_whatever_they_share() -> None:
    chosen = [("a.A.track_time", "'x', 1"), ("b.B.track_time", "'x', 1"), ("a.A.track_time", "2")]
    pattern = expression_of(chosen)
    for name, params in chosen:
        assert re.search(pattern, f"{name}({params})")
    assert not re.search(pattern, "b.B.track_time(2)")
    assert not re.search(pattern, "aXA.track_time(2)"), "a name is text, no pattern"


def test_an_expression_can_name_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    main(["smoke", "--benchmarks", "entropy|control"])
    printed = capsys.readouterr().out.strip()
    params = "('smoke', 2048, 1)"
    assert re.search(printed, f"entropy.TwoPass.track_time{params}")
    assert re.search(printed, f"control.Control.track_time{params}")
    assert not re.search(printed, f"forward.Forward.track_time{params}")
    assert not re.search(printed, "control.Control.track_time('smoke', 4096, 1)")


def test_the_series_of_a_tier_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["six", "--list"])
    assert len(capsys.readouterr().out.splitlines()) == 30


@pytest.mark.parametrize("arguments", [["sm0ke"], ["smoke", "--benchmarks", "nothing"]])
def test_what_is_not_there_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert arguments[-1] in capsys.readouterr().err
