"""The estimates behind the verdicts, on synthetic draws of known truth."""

from __future__ import annotations

import numpy as np
import pytest

from dashboard.verdicts.decision import adjusted
from dashboard.verdicts.jumps import jump_chance
from dashboard.verdicts.noise import MOST_PRIOR_DF, RESOLUTION, fit_prior, moderate
from dashboard.verdicts.runs import LEAST_RUN_NOISE, between_runs

RNG_SEED = 3


def variances(count: int, df: float, scale: float = 1e-4) -> np.ndarray:
    """Sample variances of equally noisy series."""
    return scale * np.random.default_rng(RNG_SEED).chisquare(df, count) / df


def test_the_prior_is_recovered_from_its_draws() -> None:
    rng = np.random.default_rng(RNG_SEED)
    truth = 4e-6 * 8 / rng.chisquare(8, 50_000)
    sample = truth * rng.chisquare(4, 50_000) / 4
    prior = fit_prior(sample, np.full(50_000, 4.0))
    assert prior is not None
    assert prior.variance == pytest.approx(4e-6, rel=0.1)
    assert prior.df == pytest.approx(8, rel=0.1)


def test_equal_noise_gives_the_most_trusted_prior() -> None:
    prior = fit_prior(variances(500, 4), np.full(500, 4.0))
    assert prior is not None
    assert prior.df == MOST_PRIOR_DF
    assert prior.variance == pytest.approx(1e-4, rel=0.1)


def test_two_series_make_no_prior() -> None:
    assert fit_prior(np.array([1e-4, 2e-4]), np.array([4.0, 4.0])) is None
    noise = moderate(np.array([1e-4, 0.0]), np.array([4.0, 0.0]))
    assert noise.variance[0] == 1e-4
    assert np.isnan(noise.variance[1])
    assert noise.df.tolist() == [4.0, 0.0]


def test_wild_series_stand_apart_and_cast_doubt_on_the_others() -> None:
    sample, df = variances(200, 4, scale=1e-5), np.full(200, 4.0)
    clean = moderate(sample, df)
    assert not clean.doubt.any()
    sample[:10] *= 400
    found = moderate(sample, df)
    assert (found.variance[:10] > 20 * found.variance[10:].max()).all()
    assert (found.df[:10] < 10).all()
    np.testing.assert_allclose(found.variance[10:], clean.variance[10:], rtol=0.2)
    assert (found.doubt[10:] > 0).all()
    assert found.doubt[10:].max() < 0.05
    assert (found.doubt[:10] == 1).all()


def test_single_rounds_take_the_pools_noise_and_constant_rounds_the_resolution() -> None:
    sample, df = variances(50, 4), np.full(50, 4.0)
    df[0] = 0
    assert moderate(sample, df).variance[0] == pytest.approx(1e-4, rel=0.2)
    constant = moderate(np.zeros(50), np.full(50, 4.0))
    np.testing.assert_allclose(constant.variance, RESOLUTION**2)


def test_the_chance_of_a_jump_is_that_of_two_speeds() -> None:
    rng = np.random.default_rng(RNG_SEED)
    jumping, slow, rounds = 0.3, 0.25, 3
    state = (rng.random((2, 4000, rounds)) < slow) & (rng.random((4000, 1)) < jumping)
    spread = np.ptp(0.1 * state, axis=2)
    none = np.zeros(4000)
    chance = jump_chance(
        np.full(4000, 0.1), spread, np.full(4000, 3.0), np.full(4000, 3.0), none, none
    )
    truth = jumping * 2 * slow**rounds * (1 - slow) ** rounds
    assert chance[0] == pytest.approx(truth, rel=0.25)


def test_a_kind_of_few_series_may_jump_for_all_that_is_known() -> None:
    one, three, none = np.ones(1), np.full(1, 3.0), np.zeros(1)
    alone = jump_chance(0.3 * one, np.zeros((2, 1)), three, three, none, none)[0]
    assert alone == pytest.approx(0.02 / 32)
    assert jump_chance(0.3 * one, np.zeros((2, 1)), 2 * three, 2 * three, none, none)[0] < 1e-4
    assert jump_chance(0.3 * one, np.zeros((2, 1)), three, three, none, 8 * one)[0] < 1e-4


def test_plain_noise_is_no_jump() -> None:
    spread = np.abs(np.random.default_rng(RNG_SEED).normal(scale=0.005, size=(2, 300)))
    rounds = np.full(300, 3.0)
    none = np.zeros(300)
    assert jump_chance(np.full(300, 0.03), spread, rounds, rounds, none, none).max() == 0


def test_a_series_that_never_jumped_is_hardly_one_that_does() -> None:
    spread = np.zeros((2, 100))
    spread[:, -1] = 0.1  # one series jumps within both sides
    effect, rounds = np.full(100, 0.05), np.full(100, 3.0)
    df = np.array([0.0, 4.0, 20.0, 20.0, 20.0])
    squares = np.array([0.0, 4 * 1e-5, 20 * 1e-5, 0.05**2, 20 * 0.05**2])
    past = [np.zeros(100), np.zeros(100)]
    past[0][:5], past[1][:5] = squares, df
    chance = jump_chance(effect, spread, rounds, rounds, *past)
    alone = chance[50]
    assert alone == pytest.approx(0.01 / 32, rel=0.3)
    assert chance[0] == alone, "without a past"
    assert chance[1] == pytest.approx(alone / 16), "two quiet runs"
    assert chance[2] == pytest.approx(alone / 4**6), "no more than six count"
    assert chance[2] < chance[3] < alone, "one or two runs may have jumped"
    assert chance[4] == alone, "it always jumped"
    past[1][-1] = 20.0  # the one that jumps today never did before
    anew = jump_chance(effect, spread, rounds, rounds, *past)
    np.testing.assert_array_equal(anew, alone)
    smaller = jump_chance(3 * effect, spread, rounds, rounds, *past)
    assert not smaller.any(), "it does not jump that far"


def test_runs_that_agree_still_carry_the_least_noise() -> None:
    effect, error = np.zeros(20), np.full(20, 0.001)
    found = between_runs(effect, error, np.zeros(20, dtype=bool))
    assert found.shift == 0
    np.testing.assert_allclose(found.variance, LEAST_RUN_NOISE**2)


def test_a_common_shift_is_noise_without_controls_and_taken_off_with_them() -> None:
    error = np.full(40, 0.001)
    effect = 0.015 + 0.001 * np.random.default_rng(RNG_SEED).standard_normal(40)
    control = np.arange(40) < 6
    alone = between_runs(effect, error, np.zeros(40, dtype=bool))
    assert alone.shift == 0
    assert (np.sqrt(alone.variance) >= 0.0095).all()
    helped = between_runs(effect, error, control)
    assert helped.shift == pytest.approx(0.015, rel=0.1)
    assert (np.sqrt(helped.variance) < 0.006).all()


def test_controls_that_moved_alone_are_not_divided_by() -> None:
    effect = np.where(np.arange(40) < 6, 0.02, 0.0)
    found = between_runs(effect, np.full(40, 0.001), np.arange(40) < 6)
    assert found.shift == 0


def test_scatter_beyond_the_rounds_is_noise_but_a_minority_of_changes_is_not() -> None:
    rng = np.random.default_rng(RNG_SEED)
    error, none = np.full(200, 0.002), np.zeros(200, dtype=bool)
    calm = 0.002 * rng.standard_normal(200)
    scattered = between_runs(2 * calm, error, none)
    assert np.sqrt(scattered.variance[0]) == pytest.approx(
        np.hypot(0.002 * np.sqrt(3), 0.004), rel=0.15
    )
    calm[:40] += 0.1
    assert np.sqrt(between_runs(calm, error, none).variance[0]) < 0.005


def test_the_false_discovery_rate_is_benjamini_and_hochbergs() -> None:
    np.testing.assert_allclose(adjusted(np.array([0.01, 0.04, 0.03])), [0.03, 0.04, 0.04])
    assert adjusted(np.array([])).size == 0
