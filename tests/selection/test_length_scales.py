"""Length scales by evidence: the gradient is the gradient, the evidence is a Gaussian's, and relevance is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stopwise as sw
from stopwise._support.array_library import HOST, library_on
from stopwise.kernels.gradients import median_distance
from stopwise.problem import make_problem
from stopwise.sample import Sample, look_at_features, make_sample
from stopwise.selection import learning
from stopwise.selection.kernel_search import _first_scale
from stopwise.selection.learning import Evidence, learn, part_at
from stopwise.views.facts import parts

K = sw.kernels
KERNELS = [K.Gaussian(), K.Laplace(), K.Matern(), K.Matern(1.0, 2.5), K.ProductLaplace(), K.ProductMatern()]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def sample_of(seed=0, n=40, d=3, weights=None, intercept=True, responses=1) -> Sample:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.column_stack([np.sin(2 * X[:, 0] + j) + 0.3 * rng.normal(size=n) for j in range(responses)])
    problem = make_problem(X, Y, weights, intercept=intercept, seed=0)
    return make_sample(problem, look_at_features(problem.covariates, weights), 600)


@each_kernel
@pytest.mark.parametrize("fixed", ["nothing", "intercept", "linear"])
@pytest.mark.parametrize("weighted", [True, False], ids=["weights", "no weights"])
def test_the_gradient_agrees_with_finite_differences(kernel, fixed, weighted):
    weights = np.random.default_rng(5).integers(1, 4, size=40).astype(float) if weighted else None
    sample = sample_of(weights=weights, intercept=fixed != "nothing", responses=2)
    evidence = Evidence(sample.with_linear() if fixed == "linear" else sample, kernel)
    at, step = np.array([0.3, -0.4, -1.0, 2.0]), 1e-5
    slopes = [(evidence(at + step * e)[0] - evidence(at - step * e)[0]) / (2 * step) for e in np.eye(4)]
    np.testing.assert_allclose(evidence(at)[1], slopes, rtol=1e-5, atol=1e-8)
    together = np.array([-0.4, 2.0])
    slopes = [(evidence(together + step * e)[0] - evidence(together - step * e)[0]) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(evidence(together)[1], slopes, rtol=1e-5, atol=1e-8)


@each_kernel
def test_a_device_gives_the_same_numbers(kernel):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'stopwise[torch]'")
    at, places = np.array([0.3, -0.4, -1.0, 2.0]), [sample_of(responses=2).with_linear()]
    places.append(replace(places[0], library=library_on("cpu")))
    here, there = (Evidence(there, kernel)(at) for there in places)
    assert there[0] == pytest.approx(here[0], rel=1e-9)
    np.testing.assert_allclose(there[1], here[1], rtol=1e-6, atol=1e-10)
    new = np.random.default_rng(2).normal(size=(7, 3))
    part = replace(part_at(kernel, np.array([1.0, 2.0, 0.5])), share=0.5)
    here, there = (part.between(new, there) for there in places)
    np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-12)


@each_kernel
def test_a_matrix_that_cannot_be_factored_has_a_value_that_no_search_takes_and_no_slope(kernel, monkeypatch):
    evidence, at = Evidence(sample_of(), kernel), np.array([0.5, 0.5, 0.5, 2.0])
    usual = evidence(at)[0]
    monkeypatch.setattr(type(HOST), "inverse", lambda *given: None)
    value, slope = evidence(at)
    assert value > usual + 1e6
    np.testing.assert_array_equal(slope, np.zeros(4))


def test_the_evidence_is_the_density_of_contrasts_under_a_gaussian(monkeypatch):
    monkeypatch.setattr(learning, "PRIOR_SPREAD", 1e9)
    sample, kernel, at = sample_of(n=25), K.Matern(), np.array([0.2, -0.5, 0.1, 1.0])
    covariance = np.eye(25) + np.exp(at[-1]) * kernel(sample.covariates * np.exp(at[:-1]))
    for rows, design in ((sample, np.ones((25, 1))), (sample.with_linear(), np.c_[np.ones(25), sample.covariates])):
        # contrasts orthogonal to what is not penalised: what is left of y once an unknown mean is taken out
        p = design.shape[1]
        contrasts = np.linalg.svd(design.T)[2][p:]
        z, inner = contrasts @ sample.means[:, 0], contrasts @ covariance @ contrasts.T
        s2 = z @ np.linalg.solve(inner, z) / (25 - p)
        density = multivariate_normal(cov=s2 * inner).logpdf(z)
        expected = (-2 * density - (25 - p) * (np.log(2 * np.pi) + 1)) / 25
        assert Evidence(rows, kernel)(at)[0] == pytest.approx(expected, rel=1e-9)


def test_the_prior_pulls_length_scales_together_more_with_fewer_rows(monkeypatch):
    apart, together = np.array([1.0, -1.0, -1.0, 1.0]), np.array([-0.3, -0.3, -0.3, 1.0])
    evidence = Evidence(sample_of(), K.Gaussian())
    with_prior = [evidence(at)[0] for at in (apart, together)]
    monkeypatch.setattr(learning, "PRIOR_SPREAD", 1e9)
    without = [evidence(at)[0] for at in (apart, together)]
    # 40 rows for 3 scales are two thirds of 20 each
    assert with_prior[0] - without[0] == pytest.approx((16 / 9 + 4 / 9 + 4 / 9) / 40 * 1.5)
    assert with_prior[1] == pytest.approx(without[1], abs=1e-15)


def test_learning_only_ever_goes_downhill():
    sample, start = sample_of(), part_at(K.Gaussian(), np.ones(3), np.e)
    found = learn(sample, start, max_steps=30, per_feature=True)
    assert found.value < Evidence(sample, K.Gaussian())(np.array([0.0, 0.0, 0.0, 1.0]))[0]
    assert found.scales[0] < 0.5 * found.scales[1:].min()
    one = learn(sample, start, max_steps=30, per_feature=False)
    assert np.ptp(one.scales) == 0
    assert found.value < one.value


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
    scaled = [part for part in parts(kernel) if hasattr(part, "scales")]
    assert scaled
    for part in scaled:
        np.testing.assert_allclose(part.scales / X.std(axis=0), part.scales[0] / X[:, 0].std(), rtol=1e-10)


def test_relevance_on_is_one_per_feature_even_for_a_named_kernel():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    model = sw.KernelRidgeRegressor("matern32", relevance=True).fit(X, y)
    assert model.kernel_.name == "matern32"
    assert model.kernel_.scales[1] > 2 * model.kernel_.scales[0]
    assert np.ptp(sw.KernelRidgeRegressor("matern32").fit(X, y).kernel_.scales / X.std(axis=0)) < 1e-12


@pytest.mark.parametrize("kernel", [K.Gaussian(1.0), K.Laplace(1.0)], ids=str)
@pytest.mark.parametrize("n", [40, 200])
def test_where_length_scales_cannot_be_told_apart_the_longest_is_the_start(kernel, n):
    """Of noise alone every scale predicts alike: started at a short one, fits ran through their rows."""
    long = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
        sample = make_sample(make_problem(X, y, None, intercept=True, seed=0), look_at_features(X, None), n)
        start = _first_scale(sample, kernel)
        long += bool(start.scales[0] > median_distance(sample.places))
    assert long >= 13  # 5 to 7 by the score alone
