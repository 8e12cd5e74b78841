"""Noise learned from earlier commits; all values are synthetic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard.check import check
from dashboard.models import SeriesVerdict, Verdict
from dashboard.noise import past_noise
from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest
from dashboard.verdicts import Policy
from dashboard.verdicts.past import NO_PAST, Past, run_variances, with_past

FORWARD = "forward.Forward.track_time"
RNG_SEED = 5


def test_the_past_adds_degrees_of_freedom_up_to_a_limit() -> None:
    variance, df = np.array([1e-6, 1e-6]), np.array([4.0, 4.0])
    past = [NO_PAST, Past(squares=40 * 2e-6, df=40.0, run_variance=0.0)]
    mixed, total = with_past(variance, df, past)
    assert total.tolist() == [4.0, 16.0]
    assert mixed[0] == 1e-6
    assert mixed[1] == pytest.approx((4 * 1e-6 + 12 * 2e-6) / 16)


def test_a_single_round_takes_the_noise_of_the_past() -> None:
    mixed, total = with_past(np.array([0.0]), np.array([0.0]), [Past(1e-5, 5.0, 0.0)])
    assert (mixed[0], total[0]) == (pytest.approx(2e-6), 5.0)


def test_a_machine_that_became_noisier_is_judged_by_today() -> None:
    mixed, total = with_past(np.array([1e-3]), np.array([4.0]), [Past(40e-6, 40.0, 0.0)])
    assert (mixed[0], total[0]) == (1e-3, 4.0)


def test_runs_that_differ_more_than_their_rounds_are_told() -> None:
    rng = np.random.default_rng(RNG_SEED)
    own = 0.01 * rng.standard_normal((30, 20))
    common = 0.05 * rng.standard_normal((1, 20))
    found = run_variances(own + common, np.full(30, 1e-6))
    assert np.sqrt(np.median(found)) == pytest.approx(0.01, rel=0.2)
    calm = 0.001 * rng.standard_normal((30, 20))
    assert np.median(run_variances(calm, np.full(30, 1e-6))) < 1e-6


def test_a_change_of_one_series_in_the_past_is_not_its_noise() -> None:
    values = 0.001 * np.random.default_rng(RNG_SEED).standard_normal((30, 20))
    values[0, 10:] += 0.3
    assert np.sqrt(run_variances(values, np.full(30, 1e-7))[0]) < 0.005


def test_few_or_missing_runs_tell_nothing() -> None:
    values = np.full((3, 20), np.nan)
    values[:, :7] = np.random.default_rng(RNG_SEED).standard_normal((3, 7))
    assert run_variances(values, np.full(3, 1e-6)).tolist() == [0.0, 0.0, 0.0]
    assert run_variances(np.empty((0, 20)), np.empty(0)).size == 0


@pytest.fixture
def noisy_runs(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> tuple[Path, Any]:
    """Sixteen commits; forward's runs differ by a factor that no round can show."""
    rng = np.random.default_rng(RNG_SEED)
    factors = {(FORWARD, index): float(np.exp(0.02 * rng.standard_normal())) for index in range(15)}
    made = make_history(
        tmp_path / "results", recipe(commits=16, factors={**factors, (FORWARD, 15): 1.03})
    )
    ingest(tmp_path / "s.duckdb", made.results)
    return tmp_path / "s.duckdb", made


def judged(store: Path, **commits: str) -> list[SeriesVerdict]:
    with open_store(store) as opened:
        report = check(opened, Policy(), **commits)
    return [v for v in report.verdicts if v.series.benchmark == FORWARD]


def test_the_store_gives_the_noise_of_the_commits_before(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=12, noise=0.004))
    ingest(tmp_path / "s.duckdb", made.results)
    with open_store(tmp_path / "s.duckdb") as store:
        found = past_noise(store, queries.measured_commits(store))
        assert past_noise(store, []) == {}
    assert len(found) == 6
    assert {past.df for past in found.values()} == {24.0}
    pooled = sum(past.squares for past in found.values()) / sum(p.df for p in found.values())
    assert np.sqrt(pooled) == pytest.approx(0.0043, rel=0.2)


def test_runs_that_always_differed_make_no_regression(noisy_runs: tuple[Path, Any]) -> None:
    store, made = noisy_runs
    found = judged(store)
    assert {v.verdict for v in found} == {Verdict.INCONCLUSIVE}
    for verdict in found:
        assert verdict.low is not None
        assert verdict.high is not None
        assert verdict.high - verdict.low > 0.04
    early = judged(store, base=made.commits[0], head=made.commits[1])
    for verdict in early:
        assert verdict.low is not None
        assert verdict.high is not None
        assert verdict.high - verdict.low < 0.04, "there was no past to learn from"
