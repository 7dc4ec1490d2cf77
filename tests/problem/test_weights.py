"""An integer weight is the same as so many copies of the row, in the fit, the noise and the rule alike."""

import numpy as np
import pytest

import stopwise as sw
from stopwise.problem import make_problem

RULES = ["critical", "minimax", "sure", "discrepancy", "gcv", "loo", "auto", sw.rules.Critical(hilbert_radius="auto")]
NOISES = ["hall-marron", "rice", "gsjs", "nearest-neighbour", "gcv", "evidence", sw.noise.SpectralTail(leading=4), 0.3]
ESTIMATORS = [sw.KernelGradientRegressor, sw.KernelRidgeRegressor]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)


def weighted_sample(zeros=False):
    rng = np.random.default_rng(21)
    X = rng.uniform(size=(20, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=20)
    return X, y, rng.integers(0 if zeros else 1, 5, size=20)


def assert_same_fit(weighted, repeated, X):
    assert weighted.noise_std_ == pytest.approx(repeated.noise_std_, rel=1e-7)
    assert weighted.step_sum_ == pytest.approx(repeated.step_sum_, rel=1e-5)
    assert weighted.stop_.iteration == repeated.stop_.iteration
    assert weighted.trace_ == pytest.approx(repeated.trace_, rel=1e-10)
    k = min(len(weighted.eigenvalues_), len(repeated.eigenvalues_), 15)
    np.testing.assert_allclose(weighted.eigenvalues_[:k], repeated.eigenvalues_[:k], rtol=1e-8, atol=1e-13)
    new = np.linspace(0, 1, 9)[:, None]
    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), rtol=1e-4, atol=1e-5)


def fit_both(estimator, zeros=False, **settings):
    X, y, weights = weighted_sample(zeros)
    model = estimator(sw.kernels.Laplace(0.4), **settings)
    weighted = model.fit(X, y, sample_weight=weights)
    rows = np.repeat(np.arange(20), weights)
    repeated = estimator(sw.kernels.Laplace(0.4), **settings).fit(X[rows], y[rows])
    return weighted, repeated, X


@each_estimator
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_weights_act_as_repeated_rows_for_every_rule(estimator, rule):
    assert_same_fit(*fit_both(estimator, rule=rule, noise_std=0.3))


@each_estimator
@pytest.mark.parametrize("noise_std", NOISES, ids=str)
def test_weights_act_as_repeated_rows_for_every_noise_estimate(estimator, noise_std):
    assert_same_fit(*fit_both(estimator, rule="sure", noise_std=noise_std))


@pytest.mark.parametrize("filter_name", ["descent", "flow", "cutoff", "nu-method"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_weights_act_as_repeated_rows_along_every_filter(filter_name, fit_intercept):
    settings = {"filter": filter_name, "fit_intercept": fit_intercept, "rule": "sure", "noise_std": 0.3}
    assert_same_fit(*fit_both(sw.KernelGradientRegressor, **settings))


@each_estimator
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_every_quantity_of_the_path_counts_a_row_as_often_as_its_weight(estimator, fit_intercept):
    weighted, repeated, _ = fit_both(estimator, rule="critical", noise_std=0.3, fit_intercept=fit_intercept)
    assert len(repeated.X_fit_) == 20
    for step_sum in (0.5, 4.0, 90.0):
        for name in ("degrees_of_freedom", "residual_norm", "hilbert_norm"):
            value = getattr(weighted.path_, name)(step_sum)
            assert value == pytest.approx(float(getattr(repeated.path_, name)(step_sum)), rel=1e-9)
        for name in ("fit", "leave_one_out"):
            by_row = getattr(weighted.path_, name)(step_sum)
            np.testing.assert_allclose(by_row, getattr(repeated.path_, name)(step_sum), rtol=1e-8, atol=1e-10)


@each_estimator
def test_a_row_of_weight_zero_is_as_good_as_absent(estimator):
    assert_same_fit(*fit_both(estimator, zeros=True, rule="sure", noise_std="evidence"))


@each_estimator
def test_equal_weights_of_one_change_nothing(estimator):
    X, y, _ = weighted_sample()
    plain = estimator(sw.kernels.Laplace(0.4)).fit(X, y)
    ones = estimator(sw.kernels.Laplace(0.4)).fit(X, y, sample_weight=np.ones(20))
    np.testing.assert_allclose(ones.predict(X), plain.predict(X), rtol=1e-10)
    assert ones.stop_.iteration == plain.stop_.iteration


def test_weights_that_are_not_whole_lie_between_their_neighbours():
    X, y, _ = weighted_sample()
    heavy = np.ones(20)

    def prediction(weight):
        heavy[0] = weight
        model = sw.KernelRidgeRegressor(sw.kernels.Laplace(0.4), rule=sw.rules.Fixed(step_sum=5.0), noise_std=0.3)
        return model.fit(X, y, sample_weight=heavy.copy()).predict(X[:1])[0]

    low, middle, high = prediction(1.0), prediction(1.5), prediction(2.0)
    assert min(low, high) < middle < max(low, high)


@each_estimator
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (-np.ones(20), r"weight.*(negative|at least 0)"),
        (np.zeros(20), r"weight.*(zero|positive)"),
        (np.full(20, np.nan), r"finite"),
        (np.ones(19), r"(20|19)"),
    ],
    ids=["negative", "all zero", "nan", "too few"],
)
def test_weights_that_make_no_sense_are_refused(estimator, weights, words):
    X, y, _ = weighted_sample()
    with pytest.raises(ValueError, match=words):
        estimator(sw.kernels.Laplace(0.4)).fit(X, y, sample_weight=weights)


def test_a_larger_random_sample_holds_the_smaller_one():
    problem = make_problem(np.zeros((120, 1)), np.zeros((120, 1)), None, intercept=True, seed=5)
    few, many = problem.random_rows(12), problem.random_rows(40)
    assert set(few) < set(many)
    assert np.all(np.diff(many) > 0)
