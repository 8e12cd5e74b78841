"""Rounds valued by different statistics, or timed differently, are never compared as they are.

All values are invented, but for the shipped kind of case: a kernel that gets shorter than
the length from which on a minimum is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import pytest

from dashboard.models import Pair, Round, Series, SeriesVerdict, Side, Status, Verdict
from dashboard.verdicts import Policy, compare

START = datetime(2026, 1, 1, tzinfo=UTC)
SERIES = Series("forward.Forward.track_time", (), "h200", "py-gpu", "ms", "forward")
# Five samples of a round: the minimum is 10.0, the median 10.5.
SAMPLES = (10.6, 10.0, 10.5, 10.4, 10.7)
OF: dict[str, Callable[[Sequence[float]], float]] = {"minimum": min, "median": median}


def side(
    statistic: str,
    first: int,
    samples: Sequence[float] = SAMPLES,
    protocol: str | None = "graph-paced",
    gap: float | None = 20.0,
) -> Side:
    """Three rounds of nearly the same samples, every second minute from ``first`` on."""
    rounds = []
    for number, level in enumerate((1.0, 1.001, 0.999)):
        taken = tuple(level * sample for sample in samples)
        rounds.append(
            Round(
                taken,
                OF[statistic](taken),
                started_at=START + timedelta(minutes=first + 2 * number),
                gap_ms=gap,
            )
        )
    value = median(r.value for r in rounds if r.value is not None)
    return Side("c", Status.OK, value, tuple(rounds), statistic=statistic, protocol=protocol)


def one(base: Side, head: Side, policy: Policy | None = None) -> SeriesVerdict:
    (verdict,) = compare([Pair(SERIES, base, head)], policy or Policy())
    return verdict


def bare(found: Side) -> Side:
    """The side with its rounds' samples lost."""
    return replace(found, rounds=tuple(replace(r, samples=()) for r in found.rounds))


@pytest.mark.parametrize(("old", "new"), [("minimum", "median"), ("median", "minimum")])
def test_a_minimum_and_a_median_are_compared_by_the_minimum(old: str, new: str) -> None:
    found = one(side(old, 0), side(new, 1))
    assert found.verdict is Verdict.UNCHANGED
    assert found.ratio == pytest.approx(1.0)
    assert found.base == pytest.approx(10.0)
    assert found.head == pytest.approx(10.0)
    assert f"base was valued by the {old} of a round, head by the {new}" in found.reason
    assert "compared by the minimum of 5 samples" in found.reason


@pytest.mark.parametrize("statistic", ["minimum", "median"])
def test_one_statistic_is_left_as_it_is(statistic: str) -> None:
    found = one(side(statistic, 0), side(statistic, 1))
    assert found.base == pytest.approx(OF[statistic](SAMPLES), rel=1e-3)
    assert "compared by" not in found.reason


def test_rounds_of_one_side_that_differ_are_seen_by_their_samples() -> None:
    mixed = side("median", 0)
    first = replace(mixed.rounds[0], value=min(mixed.rounds[0].samples))
    found = one(replace(mixed, rounds=(first, *mixed.rounds[1:])), side("median", 1))
    assert found.verdict is Verdict.UNCHANGED
    assert found.ratio == pytest.approx(1.0)
    assert "base was valued by the median and minimum of a round" in found.reason


def test_every_minimum_is_of_as_many_samples() -> None:
    longer = (*SAMPLES, 9.0)  # its minimum would be lower for no other reason
    found = one(side("minimum", 0), side("median", 1, longer))
    assert found.ratio == pytest.approx(1.0)


def test_without_samples_two_statistics_are_not_comparable() -> None:
    for base, head in (
        (bare(side("minimum", 0)), side("median", 1)),
        (side("minimum", 0), bare(side("median", 1))),
        (replace(side("minimum", 0), rounds=()), replace(side("median", 1), rounds=())),
    ):
        found = one(base, head)
        assert found.verdict is Verdict.NOT_COMPARABLE
        assert "statistic minimum → median, and not all samples are there" in found.reason


def test_exact_quantities_are_valued_alike_too() -> None:
    found = one(side("minimum", 0), side("median", 1), Policy(exact=("forward.*",)))
    assert found.verdict is Verdict.UNCHANGED
    assert found.reason.startswith("exactly equal; base was valued by the minimum")


def test_another_protocol_is_not_comparable() -> None:
    found = one(side("median", 0), side("median", 1, protocol="graph-back-to-back", gap=0.0))
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "timing protocol graph-paced → graph-back-to-back" in found.reason
    unknown = one(side("median", 0), side("median", 1, protocol=None, gap=None))
    assert unknown.verdict is Verdict.UNCHANGED


def test_a_side_with_some_rounds_not_paced_is_not_comparable() -> None:
    head = side("median", 1)
    odd = replace(head, rounds=(replace(head.rounds[0], gap_ms=0.0), *head.rounds[1:]))
    found = one(side("median", 0), odd)
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "timing paced → paced in some rounds only" in found.reason


def test_longer_gaps_are_paced_alike() -> None:
    assert one(side("median", 0), side("median", 1, gap=60.0)).verdict is Verdict.UNCHANGED


def test_a_failed_round_has_no_statistic() -> None:
    failed: dict[str, Any] = {"status": Status.FAILED, "value": None, "samples": ()}
    base = side("minimum", 0)
    rounds = (replace(base.rounds[0], **failed), *base.rounds[1:])
    found = one(replace(base, rounds=rounds), side("median", 1))
    assert found.ratio == pytest.approx(1.0, rel=1e-3)
