"""The project's own settings on the families that a commit is measured by, noisy ones included.

All values are synthetic; their noise is of the size that each family has on an H200.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from verdict_sides import side

from dashboard.models import Pair, Series, SeriesVerdict, Verdict
from dashboard.verdicts import Policy, compare, load_policy
from dashboard.verdicts.changes import SeriesHistory, find_changes
from dashboard.verdicts.past import Past
from dashboard.verdicts.policy import Rule

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3
COMMITS, CHANGED = 40, 30

Floats = NDArray[np.float64]

# Benchmark, family, unit, value, deviation of a round, number of series.
SUITE = (
    ("forward.Forward.track_time", "forward", "ms", 11.0, 0.002, 10),
    ("entropy.ForwardEntropy.track_time", "forward_entropy", "ms", 11.2, 0.002, 10),
    ("backward.ForwardBackward.track_time", "forward_backward", "ms", 43.0, 0.003, 10),
    ("control.Control.track_time", "control", "ms", 10.5, 0.002, 6),
    ("compile.Cold.track_time", "compile", "ms", 9000.0, 0.08, 1),
    ("compile.WarmDisk.track_time", "compile", "ms", 800.0, 0.08, 1),
    ("compile.KnownBucket.track_time", "compile", "ms", 40.0, 0.08, 1),
    ("compile.SameBucket.track_time", "compile", "ms", 0.3, 0.08, 1),
    ("compile.NewBucket.track_time", "compile", "ms", 6000.0, 0.08, 1),
    ("compile.Registers.track_count", "compile", "registers", 240.0, 0.0, 1),
    ("compile.Spills.track_count", "compile", "registers", 0.0, 0.0, 1),
    ("compile.SharedMemory.track_bytes", "compile", "bytes", 229376.0, 0.0, 1),
    ("memory.Forward.track_bytes", "memory", "bytes", 50462720.0, 0.0, 1),
    ("memory.ForwardBackward.track_bytes", "memory", "bytes", 343998464.0, 0.0, 1),
    ("host.Host.track_time", "host", "us", 280.0, 0.1, 1),
    ("accuracy.LogProb.track_error", "accuracy", "abs", 2e-5, 0.0, 1),
    ("accuracy.Entropy.track_error", "accuracy", "abs", 5.4e-6, 0.0, 1),
    ("accuracy.HiddenGradient.track_error", "accuracy", "abs", 9.2e-4, 0.0, 1),
    ("accuracy.WeightGradient.track_error", "accuracy", "abs", 5.9e-2, 0.0, 1),
    ("bandwidth.Bandwidth.track_rate", "control", "GB/s", 2735.0, 0.002, 1),
)


@pytest.fixture(scope="module")
def policy() -> Policy:
    """The settings that ship with the project."""
    return load_policy(ROOT / "pyproject.toml")


def pairs(seed: int, factors: Mapping[str, float] | None = None) -> list[Pair]:
    """One check of the suite, interleaved; ``factors`` multiply a benchmark's first series."""
    rng = np.random.default_rng(seed)
    found = []
    for benchmark, family, unit, value, sigma, count in SUITE:
        for number in range(count):
            series = Series(
                benchmark,
                (("i", str(number)),),
                "h200",
                "gpu",
                unit,
                family,
                higher_is_better=unit == "GB/s",
            )
            base, head = value * np.exp(sigma * rng.standard_normal((2, ROUNDS)))
            if number == 0:
                head = head * (factors or {}).get(benchmark, 1.0)
            found.append(Pair(series, side(base), side(head, first=1.0)))
    return found


def first(verdicts: tuple[SeriesVerdict, ...], benchmark: str) -> SeriesVerdict:
    (found,) = [
        v for v in verdicts if v.series.benchmark == benchmark and v.series.params[0][1] == "0"
    ]
    return found


@pytest.mark.parametrize(
    ("benchmark", "effect", "exact"),
    [
        ("forward.Forward.track_time", 0.02, False),
        ("compile.Cold.track_time", 0.15, False),
        ("compile.Registers.track_count", 0.02, True),
        ("compile.SharedMemory.track_bytes", 0.02, True),
        ("memory.Forward.track_bytes", 0.02, True),
        ("host.Host.track_time", 0.1, False),
        ("accuracy.LogProb.track_error", 0.1, False),
    ],
)
def test_the_settings_fit_the_families(
    policy: Policy, benchmark: str, effect: float, exact: bool
) -> None:
    assert policy.rule(Series(benchmark, (), "m", "e", "")) == Rule(effect, False, exact)


def test_a_larger_error_is_worse_whatever_the_suite_says(policy: Policy) -> None:
    wrong = Series("accuracy.A.track_error", (), "m", "e", "abs", higher_is_better=True)
    assert not policy.rule(wrong).higher_is_better


def test_nothing_changed_is_no_alarm_and_noisy_families_spoil_no_steady_one(
    policy: Policy,
) -> None:
    counts: Counter[tuple[str, Verdict]] = Counter()
    for seed in range(25):
        for v in compare(pairs(seed), policy):
            counts[v.series.family or "", v.verdict] += 1
    told = {key for key in counts if key[1] not in (Verdict.UNCHANGED, Verdict.INCONCLUSIVE)}
    assert told == set()
    for family in ("forward", "forward_entropy", "forward_backward", "control", "accuracy"):
        unsure = counts[family, Verdict.INCONCLUSIVE]
        assert unsure <= 0.05 * counts[family, Verdict.UNCHANGED], family
    assert counts["memory", Verdict.INCONCLUSIVE] == 0


def test_changes_are_told_family_by_family(policy: Policy) -> None:
    wanted = {
        "forward.Forward.track_time": (1.03, Verdict.REGRESSED),
        "backward.ForwardBackward.track_time": (1 / 1.04, Verdict.IMPROVED),
        "compile.Cold.track_time": (2.5, Verdict.REGRESSED),
        "compile.Registers.track_count": (241 / 240, Verdict.REGRESSED),
        "compile.SharedMemory.track_bytes": (0.5, Verdict.IMPROVED),
        "memory.Forward.track_bytes": (1.0001, Verdict.REGRESSED),
        "accuracy.LogProb.track_error": (1.25, Verdict.REGRESSED),
        "accuracy.Entropy.track_error": (0.8, Verdict.IMPROVED),
        "accuracy.HiddenGradient.track_error": (1.05, Verdict.UNCHANGED),
    }
    factors = {name: factor for name, (factor, _) in wanted.items()}
    found: dict[str, Counter[Verdict]] = {name: Counter() for name in wanted}
    for seed in range(20):
        verdicts = compare(pairs(seed, factors), policy)
        for name in wanted:
            found[name][first(verdicts, name).verdict] += 1
    for name, (_, verdict) in wanted.items():
        assert found[name][verdict] >= 19, (name, found[name])


@pytest.mark.parametrize(
    ("benchmark", "factor"), [("compile.WarmDisk.track_time", 1.05), ("host.Host.track_time", 1.05)]
)
def test_what_a_noisy_family_cannot_tell_is_not_told(
    policy: Policy, benchmark: str, factor: float
) -> None:
    for seed in range(20):
        found = first(compare(pairs(seed, {benchmark: factor}), policy), benchmark)
        assert found.verdict in (Verdict.UNCHANGED, Verdict.INCONCLUSIVE)
        assert found.threshold == policy.rule(found.series).minimum_effect


def test_a_host_time_of_two_speeds_is_no_change_and_a_known_one_that_slows_is(
    policy: Policy,
) -> None:
    slow, fast = [406.0, 405.0, 408.0], [275.0, 276.0, 274.0]
    suite = [pair for pair in pairs(3) if pair.series.family != "host"]
    (host,) = [pair.series for pair in pairs(3) if pair.series.family == "host"]
    apart = [*suite, Pair(host, side(fast), side(slow, first=1.0))]
    assert first(compare(apart, policy), host.benchmark).verdict is Verdict.INCONCLUSIVE
    calm = {host: Past(squares=12 * 0.01**2, df=12.0, run_variance=0.0)}
    assert first(compare(apart, policy, calm), host.benchmark).verdict is Verdict.REGRESSED
    jumping = {host: Past(squares=6 * 0.2**2, df=12.0, run_variance=0.0)}
    assert first(compare(apart, policy, jumping), host.benchmark).verdict is Verdict.INCONCLUSIVE


def test_a_register_that_begins_to_spill_is_worse_though_it_has_no_ratio(policy: Policy) -> None:
    spilled = Series("compile.Spills.track_count", (), "m", "e", "registers", "compile")
    (found,) = compare([Pair(spilled, side([0.0] * 3), side([8.0] * 3))], policy)
    assert (found.verdict, found.ratio, found.difference) == (Verdict.REGRESSED, None, 8.0)


def test_the_history_of_noisy_families_tells_their_changes_and_no_others(policy: Policy) -> None:
    planted = {
        "forward.F0.track_time": 1.03,
        "compile.C0.track_time": 1.5,
        "accuracy.A.track_error": 1.25,
    }
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows: dict[str, tuple[str, Floats]] = {
            **{f"forward.F{i}.track_time": ("ms", noisy(rng, 10.0, 0.002)) for i in range(30)},
            **{f"compile.C{i}.track_time": ("ms", noisy(rng, 900.0, 0.05)) for i in range(5)},
            "host.Host.track_time": ("us", noisy(rng, 280.0, 0.1)),
            "accuracy.A.track_error": ("abs", np.full(COMMITS, 2e-5)),
            "accuracy.B.track_error": ("abs", np.full(COMMITS, 2e-3)),
            "compile.Spills.track_count": ("registers", np.zeros(COMMITS)),
        }
        for name, factor in planted.items():
            rows[name][1][CHANGED:] *= factor
        rows["accuracy.B.track_error"][1][CHANGED:] *= 1.05
        rows["compile.Spills.track_count"][1][CHANGED:] = 8.0
        found = find_changes(
            [history(name, unit, values, policy) for name, (unit, values) in rows.items()]
        )
        assert {(f.series.benchmark, f.first) for f in found} == {
            *((name, CHANGED) for name in planted),
            ("compile.Spills.track_count", CHANGED),
        }
        assert all(f.worse for f in found)


def noisy(rng: np.random.Generator, value: float, sigma: float) -> Floats:
    return np.asarray(value * np.exp(sigma * rng.standard_normal(COMMITS)))


def history(benchmark: str, unit: str, values: Floats, policy: Policy) -> SeriesHistory:
    series = Series(benchmark, (), "h200", "gpu", unit, benchmark.partition(".")[0])
    return SeriesHistory(series, policy.rule(series), tuple(range(COMMITS)), values)
