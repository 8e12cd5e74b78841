"""Verdicts of two commits, pair by pair. All values are invented."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, isclose, isfinite, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verdict_sides import START, side

from dashboard.models import Pair, Round, Series, SeriesVerdict, Side, Status, Verdict
from dashboard.verdicts import Policy, compare
from dashboard.verdicts.policy import Override

SERIES = Series("forward.Forward.track_time", (), "h200", "py-gpu", "ms", "forward")


def pair(base: Sequence[float], head: Sequence[float], series: Series = SERIES) -> Pair:
    """Base and head interleaved."""
    return Pair(series, side(base), side(head, first=1.0))


def one(found: Pair, policy: Policy | None = None) -> SeriesVerdict:
    (verdict,) = compare([found], policy or Policy())
    return verdict


def suite(
    count: int,
    slowdown: dict[int, float] | None = None,
    sigma: float = 0.002,
    offset: float = 0.0,
    apart: bool = False,
    controls: int = 0,
) -> list[Pair]:
    """Synthetic pairs of three rounds; ``offset`` shifts all of head, ``slowdown`` some series."""
    rng = np.random.default_rng(7)
    pairs = []
    for i in range(count):
        control = i >= count - controls
        series = replace(
            SERIES, params=(("i", f"{i}"),), family="control" if control else "forward"
        )
        base, head = 10 * np.exp(sigma * rng.standard_normal((2, 3)))
        head *= (1 + (slowdown or {}).get(i, 0.0)) * (1 + offset)
        times = ((0.0, 2.0), (600.0, 2.0)) if apart else ((0.0, 2.0), (1.0, 2.0))
        pairs.append(Pair(series, side(base, *times[0]), side(head, *times[1])))
    return pairs


def by_index(verdicts: Sequence[SeriesVerdict]) -> dict[int, SeriesVerdict]:
    return {int(v.series.params[0][1]): v for v in verdicts}


def test_a_slowdown_is_found_and_the_worst_comes_first() -> None:
    verdicts = compare(suite(30, {4: 0.05, 9: 0.10, 11: -0.10}), Policy())
    assert [v.series.params[0][1] for v in verdicts[:2]] == ["9", "4"]
    assert [v.verdict for v in verdicts[:3]] == [Verdict.REGRESSED] * 2 + [Verdict.IMPROVED]
    assert {v.verdict for v in verdicts[3:]} == {Verdict.UNCHANGED}
    worst = verdicts[0]
    assert worst.ratio is not None
    assert worst.ratio == pytest.approx(1.10, rel=0.01)
    assert worst.base is not None
    assert worst.head is not None
    assert worst.ratio == pytest.approx(worst.head / worst.base)
    assert worst.low is not None
    assert worst.high is not None
    assert 1.09 < worst.low < worst.ratio < worst.high < 1.11
    assert "slower, beyond 2 %" in worst.reason


def test_a_change_below_the_minimum_effect_is_no_regression_however_clear() -> None:
    pairs = suite(30, {0: 0.01}, sigma=0.0005)
    assert by_index(compare(pairs, Policy()))[0].verdict is Verdict.UNCHANGED
    strict = by_index(compare(pairs, Policy().with_minimum_effect(0.005)))
    assert strict[0].verdict is Verdict.REGRESSED


def test_one_bad_process_makes_no_regression() -> None:
    pairs = suite(60)
    pairs[0] = pair([10.0, 10.01, 9.99], [10.0, 10.01, 11.5], pairs[0].series)
    assert by_index(compare(pairs, Policy()))[0].verdict is Verdict.INCONCLUSIVE


def test_higher_is_better_turns_the_ratio() -> None:
    faster = replace(SERIES, higher_is_better=True, unit="TFLOP/s")
    values = [100.0, 100.1, 99.9], [90.0, 90.1, 89.9]
    found = one(pair(*values, faster))
    assert found.verdict is Verdict.REGRESSED
    assert found.ratio == pytest.approx(100 / 90, rel=1e-3)
    assert "worse" in found.reason
    turned = Policy(overrides=(Override("forward.*", direction="lower"),))
    assert one(pair(*values, faster), turned).verdict is Verdict.IMPROVED


def test_noise_wider_than_the_threshold_is_inconclusive_and_names_rounds() -> None:
    found = one(pair([10.0, 10.4, 9.7], [10.5, 10.1, 10.6]))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.rounds_needed is not None
    assert found.rounds_needed > 3
    assert f"about {found.rounds_needed} rounds a side" in found.reason


def test_single_rounds_learn_the_noise_from_the_suite_or_stay_open() -> None:
    lone = Pair(replace(SERIES, params=(("i", "99"),)), side([10.0]), side([11.0], 1.0))
    found = one(lone)
    assert (found.verdict, found.low, found.high) == (Verdict.INCONCLUSIVE, None, None)
    assert "one round a side" in found.reason
    pooled = by_index(compare([*suite(60), lone], Policy()))[99]
    assert pooled.verdict is Verdict.REGRESSED
    assert pooled.low is not None


def test_an_offset_between_runs_is_no_regression_unless_interleaving_excludes_it() -> None:
    apart = compare(suite(40, offset=0.025, apart=True), Policy())
    assert Verdict.REGRESSED not in {v.verdict for v in apart}
    assert all("not interleaved" in v.reason for v in apart)
    together = compare(suite(40, offset=0.04), Policy())
    assert {v.verdict for v in together} == {Verdict.REGRESSED}


def test_controls_take_a_shift_of_the_machine_off() -> None:
    pairs = suite(40, {0: 0.06}, offset=0.025, apart=True, controls=6)
    found = by_index(compare(pairs, Policy()))
    assert found[0].verdict is Verdict.REGRESSED
    assert "controls moved by +2.4 %" in found[0].reason
    assert {found[i].verdict for i in range(1, 40)} == {Verdict.UNCHANGED}
    ratio = found[0].ratio
    assert ratio == pytest.approx(1.06 * 1.025, rel=0.01)


def test_controls_that_stood_still_show_that_the_code_moved() -> None:
    slow = dict.fromkeys(range(34), 0.05)
    found = by_index(compare(suite(40, slow, apart=True, controls=6), Policy()))
    assert {found[i].verdict for i in range(34)} == {Verdict.REGRESSED}
    assert {found[i].verdict for i in range(34, 40)} == {Verdict.UNCHANGED}


def test_a_commit_that_changes_everything_by_much_is_told_without_controls() -> None:
    faster = {i: -0.10 - 0.005 * i for i in range(40)}
    verdicts = compare(suite(40, faster, apart=True), Policy())
    assert {v.verdict for v in verdicts} == {Verdict.IMPROVED}


def test_rounds_without_times_count_as_not_interleaved() -> None:
    timeless = [
        Pair(p.series, *(_without_times(s) for s in (p.base, p.head) if s)) for p in suite(12)
    ]
    assert all("carry no times" in v.reason for v in compare(timeless, Policy()))


def _without_times(side: Side) -> Side:
    return replace(side, rounds=tuple(replace(r, started_at=None) for r in side.rounds))


def test_another_card_is_noise_and_said() -> None:
    values = [10.0, 10.01, 9.99], [10.25, 10.26, 10.24]
    assert one(pair(*values)).verdict is Verdict.REGRESSED
    found = one(Pair(SERIES, side(values[0]), side(values[1], 1.0, card="card-2")))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "another card of the same model" in found.reason
    assert "rounds on one card would" in found.reason


def test_rounds_of_a_shared_card_are_compared_with_each_other() -> None:
    base = side([10.0, 10.01, 9.99])
    stranger = side([13.0, 13.1], 7.0, card="card-2").rounds
    head = side([10.0, 10.01, 9.99], 1.0)
    found = one(Pair(SERIES, base, replace(head, rounds=(*head.rounds, *stranger))))
    assert found.verdict is Verdict.UNCHANGED
    assert "another card" not in found.reason


@pytest.mark.parametrize("key", ["version", "gpu", "driver", "torch", "triton"])
def test_changed_conditions_are_not_comparable(key: str) -> None:
    base, head = side([10.0] * 3), side([20.0] * 3, 1.0)
    before: dict[str, Any] = {key: "1"}
    after: dict[str, Any] = {key: "2"}
    changed = Pair(SERIES, replace(base, **before), replace(head, **after))
    found = one(changed)
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "1 → 2" in found.reason
    unknown = Pair(SERIES, replace(base, **before), head)
    assert one(unknown).verdict is Verdict.REGRESSED


OK = side([10.0, 10.01, 9.99])
FAILED = Side("c", Status.FAILED, None, reason="CUDA out of memory")
SKIPPED = Side("c", Status.SKIPPED, None, reason="no such API")


@pytest.mark.parametrize(
    ("base", "head", "verdict", "reason"),
    [
        (OK, FAILED, Verdict.FAILED, "failed at head: CUDA out of memory"),
        (FAILED, FAILED, Verdict.FAILED, "failed at both commits: CUDA out of memory"),
        (None, FAILED, Verdict.FAILED, "failed at head: CUDA out of memory"),
        (OK, None, Verdict.MISSING, "not measured at head"),
        (OK, SKIPPED, Verdict.MISSING, "not measured at head: no such API"),
        (None, OK, Verdict.NEW, "not measured at base"),
        (SKIPPED, OK, Verdict.NEW, "not measured at base: no such API"),
        (FAILED, OK, Verdict.NEW, "failed at base: CUDA out of memory"),
        (FAILED, None, Verdict.NOT_COMPARABLE, "failed at base, not measured at head: CUDA"),
        (None, None, Verdict.NOT_COMPARABLE, "measured at neither commit"),
        (OK, replace(OK, value=inf, rounds=()), Verdict.FAILED, "failed at head: its value is inf"),
        (OK, replace(OK, value=nan, rounds=()), Verdict.FAILED, "failed at head: its value is nan"),
    ],
)
def test_absent_sides(base: Side | None, head: Side | None, verdict: Verdict, reason: str) -> None:
    found = one(Pair(SERIES, base, head))
    assert found.verdict is verdict
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("base", "head", "higher", "verdict"),
    [
        (3.0, 3.0, False, Verdict.UNCHANGED),
        (3.0, 4.0, False, Verdict.REGRESSED),
        (4.0, 3.0, False, Verdict.IMPROVED),
        (0.0, 1.0, False, Verdict.REGRESSED),
        (0.0, 0.0, False, Verdict.UNCHANGED),
        (4.0, 3.0, True, Verdict.REGRESSED),
        (1e9, 1e9 + 1, False, Verdict.REGRESSED),
    ],
)
def test_exact_quantities(base: float, head: float, higher: bool, verdict: Verdict) -> None:
    policy = Policy(exact=("forward.*",))
    series = replace(SERIES, higher_is_better=higher)
    found = one(Pair(series, Side("a", Status.OK, base), Side("b", Status.OK, head)), policy)
    assert found.verdict is verdict
    if base == 0:
        assert (found.ratio, found.difference) == (None, head)


def test_pooled_values_without_rounds_have_no_interval_and_no_verdict() -> None:
    found = one(Pair(SERIES, Side("a", Status.OK, 10.0), Side("b", Status.OK, 20.0)))
    assert (found.verdict, found.ratio, found.low) == (Verdict.INCONCLUSIVE, 2.0, None)
    assert found.reason.startswith("beyond -1.96 … +2 %, but without rounds")


@pytest.mark.parametrize(("base", "head"), [(0.0, 5.0), (-1.0, 5.0), (5.0, 0.0), (-1.0, -2.0)])
def test_values_without_a_ratio_give_the_difference(base: float, head: float) -> None:
    found = one(pair([base] * 3, [head] * 3))
    assert (found.ratio, found.difference) == (None, head - base)
    assert found.verdict is Verdict.INCONCLUSIVE


values = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, -0.0, 1e-320, 1e308, 10.0]))
samples = st.lists(st.one_of(st.floats(), st.sampled_from([0.0, 9.0, 10.0, 11.0])), max_size=3)
rounds = st.lists(
    st.builds(
        lambda taken, v, gap: Round(tuple(taken), v, started_at=START, gap_ms=gap),
        samples,
        values,
        st.sampled_from([None, 0.0, 20.0]),
    ),
    max_size=4,
)
sides = st.one_of(
    st.none(),
    st.builds(
        lambda status, value, found, name: Side("c", status, value, tuple(found), statistic=name),
        st.sampled_from(Status),
        values,
        rounds,
        st.sampled_from([None, "minimum", "median", "mean"]),
    ),
)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(sides, sides), max_size=6), st.booleans())
def test_no_input_breaks_the_comparison(found: list[tuple[Side, Side]], exact: bool) -> None:
    pairs = [Pair(SERIES, base, head) for base, head in found]
    verdicts = compare(pairs, Policy(exact=("*",) if exact else ()))
    assert len(verdicts) == len(pairs)
    order = list(Verdict)
    assert all(order.index(a.verdict) <= order.index(b.verdict) for a, b in pairwise(verdicts))
    for verdict in verdicts:
        numbers = (verdict.base, verdict.head, verdict.ratio, verdict.low, verdict.high)
        assert all(n is None or isfinite(n) for n in numbers)
        if verdict.low is not None and verdict.high is not None and verdict.ratio is not None:
            assert verdict.low <= verdict.ratio <= verdict.high


def test_the_order_of_the_pairs_does_not_matter() -> None:
    pairs = suite(25, {3: 0.04})
    there, back = compare(pairs, Policy()), compare(pairs[::-1], Policy())
    assert [v.series for v in there] == [v.series for v in back]
    for a, b in zip(there, back, strict=True):
        assert a.low is not None
        assert b.low is not None
        assert isclose(a.low, b.low)


def test_a_thousand_series_take_well_under_a_second() -> None:
    pairs = suite(1000, {0: 0.05})
    compare(pairs[:3], Policy())  # imports scipy
    started = time.perf_counter()
    compare(pairs, Policy())
    assert time.perf_counter() - started < 1.0


def test_nothing_to_compare() -> None:
    assert compare([], Policy()) == ()
