"""What the changed series have in common; all numbers are invented."""

from __future__ import annotations

from itertools import product

import pytest

from dashboard.models import Series, SeriesVerdict, Verdict
from dashboard.verdicts.causes import causes, mean_of_call_times

BENCHMARKS = ("forward", "entropy", "backward")
MODELS = ("super", "ultra")
TOKENS = ("8192", "16384", "32768")


def suite(**changed: Verdict) -> list[SeriesVerdict]:
    """All benchmarks × models × tokens unchanged, but those that mention a key of ``changed``."""
    verdicts = []
    for benchmark, model, tokens in product(BENCHMARKS, MODELS, TOKENS):
        names = {benchmark, model, f"t{tokens}", f"{benchmark}_{model}"}
        kind = next((v for key, v in changed.items() if key in names), Verdict.UNCHANGED)
        params = (("model", model), ("tokens", tokens))
        series = Series(benchmark, params, "h", "e", "ms", benchmark)
        ratio = {Verdict.REGRESSED: 1.1, Verdict.IMPROVED: 0.9}.get(kind, 1.0)
        gone = kind in (Verdict.MISSING, Verdict.FAILED)
        verdicts.append(SeriesVerdict(series, kind, "r", ratio=None if gone else ratio))
    return verdicts


def said(verdicts: list[SeriesVerdict]) -> list[tuple[str, str, int, int]]:
    return [(c.verdict.value, c.what, c.count, c.total) for c in causes(verdicts)]


def test_every_layout_of_one_model_is_said_once() -> None:
    assert said(suite(ultra=Verdict.REGRESSED)) == [("regressed", "model ultra", 9, 9)]
    (cause,) = causes(suite(ultra=Verdict.REGRESSED))
    assert cause.ratio == pytest.approx(1.1)


def test_everything_is_said_as_everything() -> None:
    changed = suite(super=Verdict.IMPROVED, ultra=Verdict.IMPROVED)
    assert said(changed) == [("improved", "the check", 18, 18)]


def test_a_pair_of_values_is_a_cause_where_one_is_not() -> None:
    assert said(suite(backward_ultra=Verdict.MISSING)) == [
        ("missing", "benchmark backward and model ultra", 3, 3)
    ]


def test_two_causes_are_told_apart() -> None:
    changed = suite(backward_ultra=Verdict.REGRESSED, t8192=Verdict.IMPROVED)
    found = said(changed)
    assert ("regressed", "benchmark backward and model ultra", 3, 3) in found
    assert ("improved", "tokens 8192", 5, 6) not in found, "one of its series regressed"
    assert all("ultra" not in what for name, what, _, _ in found if name == "improved")


def test_nearly_all_will_do_and_an_opposite_will_not() -> None:
    changed = suite(ultra=Verdict.REGRESSED)
    ninth = next(i for i, v in enumerate(changed) if v.verdict is Verdict.REGRESSED)
    changed[ninth] = SeriesVerdict(changed[ninth].series, Verdict.INCONCLUSIVE, "r", ratio=1.05)
    assert said(changed)[0] == ("regressed", "model ultra", 8, 9)
    changed[ninth] = SeriesVerdict(changed[ninth].series, Verdict.IMPROVED, "r", ratio=0.9)
    assert all(what != "model ultra" for _, what, _, _ in said(changed))


def test_two_series_have_no_cause_and_new_ones_do_not_count() -> None:
    one_each = suite(backward_ultra=Verdict.REGRESSED)
    few = [v for v in one_each if dict(v.series.params)["tokens"] != "8192"]
    assert said(few) == []
    fresh = SeriesVerdict(
        Series("later", (("model", "ultra"),), "h", "e", "ms"), Verdict.NEW, "not at base"
    )
    assert said([*suite(ultra=Verdict.REGRESSED), fresh])[0][2:] == (9, 9)


def test_controls_are_no_part_of_a_cause_or_of_the_mean() -> None:
    control = SeriesVerdict(
        Series("control", (("model", "ultra"),), "h", "e", "ms", "control"),
        Verdict.UNCHANGED,
        "r",
        ratio=0.5,
    )
    assert said([*suite(ultra=Verdict.REGRESSED), control]) == [("regressed", "model ultra", 9, 9)]
    assert mean_of_call_times([control]) == (None, 0)


def test_the_geometric_mean_is_over_series_measured_on_both_sides() -> None:
    verdicts = suite(forward=Verdict.REGRESSED, entropy=Verdict.MISSING, t8192=Verdict.IMPROVED)
    ratio, count = mean_of_call_times(verdicts)
    assert count == 12
    assert ratio == pytest.approx((1.1**6 * 0.9**2) ** (1 / 12))


def other(family: str, unit: str, kind: Verdict, ratio: float) -> list[SeriesVerdict]:
    """A series of another kind for each of the suite's models."""
    shared = [(("model", model),) for model in MODELS]
    series = [Series(f"{family}.X", params, "h", "e", unit, family) for params in shared]
    return [SeriesVerdict(one, kind, "r", ratio=ratio) for one in series]


@pytest.mark.parametrize(
    ("family", "unit"),
    [
        ("compile", "ms"), ("host", "us"), ("compile", "kernels"), ("memory", "bytes"),
        ("accuracy", "abs"), ("control", "ms"), ("control", "GB/s"), ("odd", ""),
    ],
)  # fmt: skip
def test_the_mean_is_of_calls_times_alone(family: str, unit: str) -> None:
    """A cold start that is 12 % faster by noise made the mean of 47 series -0.53 %."""
    noisy = other(family, unit, Verdict.INCONCLUSIVE, 0.5)
    assert mean_of_call_times([*suite(), *noisy]) == (pytest.approx(1.0), 18)
    assert mean_of_call_times(noisy) == (None, 0)


def test_a_suite_without_families_has_call_times_too() -> None:
    seconds = SeriesVerdict(
        Series("a.time_b", (), "h", "e", "seconds"), Verdict.UNCHANGED, "", 1, 2, 2
    )
    assert mean_of_call_times([seconds]) == (pytest.approx(2.0), 1)


def test_a_cause_of_several_kinds_has_no_mean_ratio() -> None:
    _, bytes_too = other("memory", "bytes", Verdict.REGRESSED, 1.5)
    (cause,) = causes([*suite(ultra=Verdict.REGRESSED), bytes_too])
    assert (cause.what, cause.count, cause.ratio) == ("model ultra", 10, None)
