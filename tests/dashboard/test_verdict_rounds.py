"""Inconclusive verdicts: the rounds they ask for, and the words they give. Values are invented."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from math import exp, expm1, log1p

import numpy as np
import pytest

from dashboard.models import Pair, Round, Series, SeriesVerdict, Side, Status, Verdict
from dashboard.verdicts import Policy, compare

START = datetime(2026, 1, 1, tzinfo=UTC)
SERIES = Series("forward.Forward.track_time", (), "h200", "py-gpu", "ms", "forward")
LIMIT = log1p(0.02)


def pair(base: Sequence[float], head: Sequence[float], apart: bool = False) -> Pair:
    """Values of rounds that took turns, or of which head's all came a day later."""
    sides = []
    for first, values in ((0.0, base), (1440.0 if apart else 1.0, head)):
        rounds = tuple(
            Round((v,), v, started_at=START + timedelta(minutes=first + 2 * i))
            for i, v in enumerate(values)
        )
        sides.append(Side("c", Status.OK, float(np.median(values)), rounds))
    return Pair(SERIES, *sides)


def one(base: Sequence[float], head: Sequence[float], apart: bool = False) -> SeriesVerdict:
    (verdict,) = compare([pair(base, head, apart)], Policy())
    return verdict


def repeated(values: Sequence[float], count: int) -> list[float]:
    return list(islice(cycle(values), count))


def drawn(seed: int) -> tuple[list[float], list[float]]:
    """Three rounds a side: an effect of up to twice the threshold, noise of 0.1 to 3 %."""
    rng = np.random.default_rng(seed)
    effect = rng.uniform(-2, 2) * LIMIT
    sigma = 0.001 * 30 ** rng.uniform()
    base, head = 10 * np.exp(sigma * rng.standard_normal((2, 3)))
    return base.tolist(), (head * exp(effect)).tolist()


def test_the_rounds_that_are_asked_for_settle_it() -> None:
    """Rounds like those seen, as many as named or a few more, leave nothing open."""
    named = unnamed = 0
    for seed in range(300):
        base, head = drawn(seed)
        found = one(base, head)
        if found.verdict is not Verdict.INCONCLUSIVE:
            continue
        if found.rounds_needed is None:
            unnamed += 1
            assert "rounds a side would settle" not in found.reason
            continue
        named += 1
        count = 3 * -(-found.rounds_needed // 3)  # whole repetitions keep the effect
        assert found.rounds_needed > 3
        assert f"about {found.rounds_needed} rounds a side would settle it (3 now)" in found.reason
        again = one(repeated(base, count), repeated(head, count))
        assert again.verdict is not Verdict.INCONCLUSIVE, (seed, found.reason, again.reason)
    assert named > 50
    assert unnamed < named / 4


def test_more_rounds_are_never_asked_for_again_and_again() -> None:
    """An estimate just inside the threshold: one call for more rounds, then a verdict."""
    base, head = [10.0, 10.03, 9.97], [10.175, 10.205, 10.145]
    asked: list[int] = []
    rounds = 3
    while len(asked) < 5:
        found = one(repeated(base, rounds), repeated(head, rounds))
        if found.verdict is not Verdict.INCONCLUSIVE or found.rounds_needed is None:
            break
        assert found.rounds_needed > rounds
        asked.append(found.rounds_needed)
        rounds = 3 * -(-found.rounds_needed // 3)
    assert len(asked) == 1


def test_an_estimate_at_a_threshold_that_noise_hides_names_no_number() -> None:
    spread = np.array([-0.06, 0.0, 0.06])
    base, head = 10 * np.exp(spread), 10 * np.exp(spread + 0.999 * LIMIT)
    found = one(base.tolist(), head.tolist())
    assert (found.verdict, found.rounds_needed) == (Verdict.INCONCLUSIVE, None)
    assert found.reason.endswith("too close to the threshold of 2 % to be settled by more rounds")


def test_noise_that_no_hundred_rounds_overcome_is_called_that() -> None:
    spread = np.array([-0.3, 0.0, 0.3])
    found = one((10 * np.exp(spread)).tolist(), (10 * np.exp(spread)).tolist())
    assert (found.verdict, found.rounds_needed) == (Verdict.INCONCLUSIVE, None)
    assert found.reason.endswith("too noisy to be settled by a hundred rounds")


def test_rounds_of_two_runs_are_settled_by_interleaving() -> None:
    base, head = [10.0, 10.001, 9.999], [10.17, 10.171, 10.169]
    found = one(base, head, apart=True)
    assert (found.verdict, found.rounds_needed) == (Verdict.INCONCLUSIVE, None)
    assert "more rounds of these runs would not settle it, interleaved ones would" in found.reason
    assert one(base, head).verdict is Verdict.UNCHANGED


def test_one_wild_round_is_named_as_what_makes_the_change() -> None:
    pairs = [pair([10.0, 10.01, 9.99], [10.0, 10.01, 9.99]) for _ in range(20)]
    pairs.append(pair([10.0, 10.01, 9.99], [10.0, 10.01, 11.5]))
    (found,) = [v for v in compare(pairs, Policy()) if v.verdict is Verdict.INCONCLUSIVE]
    assert "single rounds make it, by the medians it is +0.1 %" in found.reason
    assert found.reason.endswith("rounds that agree better are needed")
    assert found.rounds_needed is None


@pytest.mark.parametrize("seed", range(40))
def test_the_reason_agrees_with_the_interval(seed: int) -> None:
    """Whatever is said of the limits is so for the interval that is shown beside it."""
    found = one(*drawn(seed + 1000))
    assert found.low is not None
    assert found.high is not None
    assert found.ratio is not None
    low, high, inside = found.low, found.high, 1 / 1.02 <= found.ratio <= 1.02
    if "lies within -1.96 … +2 %" in found.reason:
        assert 1 / 1.02 <= low < high <= 1.02
    if "by less than a tenth" in found.reason:
        assert not 1 / 1.02 <= low < high <= 1.02
    if found.verdict is Verdict.UNCHANGED:
        assert inside
        assert expm1(-1.1 * LIMIT) <= low - 1
        assert high - 1 <= expm1(1.1 * LIMIT)
    if (reached := re.search(r"([+-][\d.]+) % is possible, past", found.reason)) is not None:
        shown = float(reached[1]) / 100
        assert inside
        assert min(abs(shown - (low - 1)), abs(shown - (high - 1))) < 1e-3
        assert not -0.0196 <= shown <= 0.02
    if "no change is possible too" in found.reason:
        assert low <= 1 <= high


def test_a_clear_change_just_below_the_threshold_is_unchanged_and_its_size_said() -> None:
    spread = np.array([-0.0008, 0.0, 0.0008])
    base, head = 10 * np.exp(spread), 10 * np.exp(spread - 0.0185)
    found = one(base.tolist(), head.tolist())
    assert found.low is not None
    assert found.low < 1 / 1.02, "the interval passes the limit, by little"
    assert found.verdict is Verdict.UNCHANGED
    assert found.reason.startswith("1.83 % faster, less than the 1.96 % that count; the interval")


def test_a_change_that_may_be_well_beyond_the_threshold_is_not_unchanged() -> None:
    spread = np.array([-0.003, 0.0, 0.003])
    base, head = 10 * np.exp(spread), 10 * np.exp(spread - 0.0185)
    found = one(base.tolist(), head.tolist())
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "is possible, past -1.96 % by more than a tenth" in found.reason
