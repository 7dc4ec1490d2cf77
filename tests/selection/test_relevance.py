"""One length scale per feature: the gradient is the gradient, the evidence is a Gaussian's, and relevance is found."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stopwise as sw
from stopwise.problem import make_problem
from stopwise.selection.choice import KERNELS as ALL
from stopwise.selection.choice import Budget, Search
from stopwise.selection.length_scales import PRIOR_SPREAD, Evidence, Host, Learned, learn
from stopwise.selection.rows import look_at_features, make_sample
from stopwise.views.facts import parts

KERNELS = [*ALL, sw.kernels.Matern(smoothness=2.5)]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def sample_of(seed=0, n=40, d=3, weights=None, intercept=True, responses=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.column_stack([np.sin(2 * X[:, 0] + j) + 0.3 * rng.normal(size=n) for j in range(responses)])
    problem = make_problem(X, Y, weights, intercept=intercept, seed=0)
    return make_sample(problem, look_at_features(problem.covariates, weights), 1000)


@each_kernel
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("weighted", [True, False], ids=["weights", "no weights"])
def test_the_gradient_agrees_with_finite_differences(kernel, intercept, weighted):
    rng = np.random.default_rng(5)
    weights = rng.integers(1, 4, size=40).astype(float) if weighted else None
    objective = Evidence(sample_of(weights=weights, intercept=intercept, responses=2), kernel, Host())
    at = np.array([0.3, -0.4, -1.0, 2.0])
    step = 1e-5
    slopes = [(objective(at + step * e)[0] - objective(at - step * e)[0]) / (2 * step) for e in np.eye(4)]
    np.testing.assert_allclose(objective(at)[1], slopes, rtol=1e-6, atol=1e-8)
    one = np.array([-0.4, 2.0])
    slopes = [(objective(one + step * e)[0] - objective(one - step * e)[0]) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(objective(one)[1], slopes, rtol=1e-6, atol=1e-8)


def test_the_evidence_is_the_density_of_contrasts_under_a_gaussian():
    sample = sample_of(n=25)
    kernel, at = sw.kernels.Matern(), np.array([0.2, 1.0])
    value = Evidence(sample, kernel, Host())(at)[0]
    gram = kernel(sample.covariates * np.exp(at[0]))
    covariance = np.eye(25) + np.exp(at[-1]) * gram
    # contrasts orthogonal to the constant: what is left of y once an unknown mean is taken out
    contrasts = np.linalg.svd(np.ones((1, 25)))[2][1:]
    z = contrasts @ sample.means[:, 0]
    inner = contrasts @ covariance @ contrasts.T
    s2 = z @ np.linalg.solve(inner, z) / 24
    log_density = multivariate_normal(cov=s2 * inner).logpdf(z)
    assert value == pytest.approx((-2 * log_density - 24 * np.log(2 * np.pi) - 24) / 25, rel=1e-9)


def test_the_prior_pulls_length_scales_together():
    """One for all has no prior to pay; features so scaled that one stands for several tell what it costs."""
    apart = np.array([1.0, -1.0, -1.0])
    sample = sample_of()
    moved = replace(sample, covariates=sample.covariates * np.exp(apart))
    with_prior = Evidence(sample, sw.kernels.Gaussian(), Host())(np.append(apart, 1.0))[0]
    without = Evidence(moved, sw.kernels.Gaussian(), Host())(np.array([0.0, 1.0]))[0]
    assert with_prior - without == pytest.approx((16 / 9 + 4 / 9 + 4 / 9) / (40 * PRIOR_SPREAD**2))


def test_learning_only_ever_goes_downhill():
    sample = sample_of()
    start = Learned(np.zeros(3), 1.0, 0.0)
    found = learn(sample, sw.kernels.Gaussian(), start, max_steps=30)
    assert found.value < Evidence(sample, sw.kernels.Gaussian(), Host())(np.append(start.logs, 1.0))[0]
    assert found.scales[0] < 0.5 * found.scales[1:].min()
    one = learn(sample, sw.kernels.Gaussian(), start, max_steps=30, together=True)
    assert np.ptp(one.scales) == 0
    assert one.value > found.value


@pytest.fixture(scope="module")
def two_of_ten():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(200, 10)) * 10.0 ** np.arange(-5, 5)
    y = np.sin(4 * X[:, 2] / 1e-3) + (X[:, 7] / 1e2) ** 2 + 0.1 * rng.normal(size=200)
    new = rng.uniform(-1, 1, size=(400, 10)) * 10.0 ** np.arange(-5, 5)
    truth = np.sin(4 * new[:, 2] / 1e-3) + (new[:, 7] / 1e2) ** 2
    return X, y, new, truth


def test_relevant_features_are_found_whatever_their_units(two_of_ten):
    X, y, new, truth = two_of_ten
    model = sw.KernelRidgeRegressor().fit(X, y)
    relevance = np.array([row["relevance"] for row in model.selection_.features])
    assert set(np.argsort(-relevance)[:2]) == {2, 7}
    assert np.delete(relevance, [2, 7]).max() < 0.3 * relevance[[2, 7]].min()
    assert "per feature" in model.selection_.reason
    one = sw.KernelRidgeRegressor(relevance=False).fit(X, y)
    gap = np.mean((model.predict(new) - truth) ** 2) / np.mean((one.predict(new) - truth) ** 2)
    assert gap < 0.2


def test_relevance_off_means_one_length_scale_in_units_of_spread(two_of_ten):
    X, y, *_ = two_of_ten
    kernel = sw.KernelRidgeRegressor(relevance=False).fit(X, y).kernel_
    radial = [part for part in parts(kernel) if hasattr(part, "scales")]
    assert len(radial) >= 1
    for part in radial:
        np.testing.assert_allclose(part.scales / X.std(axis=0), part.scales[0] / X[:, 0].std(), rtol=1e-10)


def test_relevance_on_is_one_per_feature_even_for_a_named_kernel():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    model = sw.KernelRidgeRegressor("matern32", relevance=True).fit(X, y)
    assert model.kernel_.name == "matern32"
    assert model.kernel_.scales[1] > 2 * model.kernel_.scales[0]
    assert np.ptp(sw.KernelRidgeRegressor("matern32").fit(X, y).kernel_.scales / X.std(axis=0)) < 1e-12


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_length_scales_per_feature_that_predict_unseen_rows_worse_are_dropped(seed):
    """Every feature counts alike, and rows are few: what is learned on them flatters, and rows outside them tell."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 8))
    y = np.sin(1.5 * X.sum(axis=1) / np.sqrt(8)) + 0.1 * rng.normal(size=600)
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    few = Budget(grid_rows=40, rows=40, more_rows=40, unseen_rows=560, small_rows=0)
    search = Search([sw.kernels.Gaussian()], per_feature=True, budget=few)
    unchecked = replace(search, budget=replace(few, unseen_rows=0)).run(problem)
    assert unchecked.table.chosen["per_feature"]
    assert not search.run(problem).table.chosen["per_feature"]
    assert replace(search, forced=True).run(problem).table.chosen["per_feature"]  # insisted on
