"""One length scale per feature: the gradient is the gradient, the evidence is a Gaussian's, and relevance is found."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stopwise as sw
from stopwise.problem import make_problem
from stopwise.selection import choice as selection
from stopwise.selection.relevance import Learned, Objective, learn
from stopwise.selection.sample import look_at_features, make_sample
from stopwise.selection.unseen_rows import Contender
from stopwise.views.facts import parts

KERNELS = [sw.kernels.Gaussian(), sw.kernels.Laplace(), sw.kernels.Matern(), sw.kernels.Matern(smoothness=2.5)]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def sample_of(seed=0, n=40, d=3, weights=None, intercept=True, responses=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.column_stack([np.sin(2 * X[:, 0] + j) + 0.3 * rng.normal(size=n) for j in range(responses)])
    problem = make_problem(X, Y, weights, intercept=intercept, seed=0)
    return make_sample(problem, look_at_features(problem.covariates, weights))


@each_kernel
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("weighted", [True, False], ids=["weights", "no weights"])
def test_the_gradient_agrees_with_finite_differences(kernel, intercept, weighted):
    rng = np.random.default_rng(5)
    weights = rng.integers(1, 4, size=40).astype(float) if weighted else None
    objective = Objective(sample_of(weights=weights, intercept=intercept, responses=2), kernel)
    at = np.array([0.3, -0.4, -1.0, 2.0])
    step = 1e-5
    slopes = [(objective(at + step * e)[0] - objective(at - step * e)[0]) / (2 * step) for e in np.eye(4)]
    np.testing.assert_allclose(objective(at)[1], slopes, rtol=1e-6, atol=1e-8)


def test_the_evidence_is_the_density_of_contrasts_under_a_gaussian():
    sample = sample_of(n=25)
    kernel, at = sw.kernels.Matern(), np.array([0.2, -0.5, 0.1, 1.0])
    value = Objective(sample, kernel, prior_spread=1e9)(at)[0]
    gram = kernel(sample.covariates * np.exp(at[:-1]))
    covariance = np.eye(25) + np.exp(at[-1]) * gram
    # contrasts orthogonal to the constant: what is left of y once an unknown mean is taken out
    contrasts = np.linalg.svd(np.ones((1, 25)))[2][1:]
    z = contrasts @ sample.means[:, 0]
    inner = contrasts @ covariance @ contrasts.T
    s2 = z @ np.linalg.solve(inner, z) / 24
    log_density = multivariate_normal(cov=s2 * inner).logpdf(z)
    assert value == pytest.approx((-2 * log_density - 24 * np.log(2 * np.pi) - 24) / 25, rel=1e-9)


def test_the_prior_pulls_length_scales_together():
    loose, tight = (Objective(sample_of(), sw.kernels.Gaussian(), prior_spread=s) for s in (1e9, 0.5))
    apart = np.array([1.0, -1.0, -1.0, 1.0])
    assert tight(apart)[0] - loose(apart)[0] == pytest.approx((16 / 9 + 4 / 9 + 4 / 9) / (40 * 0.25))
    together = np.array([-0.3, -0.3, -0.3, 1.0])
    assert tight(together)[0] == pytest.approx(loose(together)[0], abs=1e-15)


def test_learning_only_ever_goes_downhill():
    sample = sample_of()
    start = np.zeros(3)
    found = learn(sample, sw.kernels.Gaussian(), start, 1.0, 30)
    assert found.value < Objective(sample, sw.kernels.Gaussian())(np.append(start, 1.0))[0]
    assert found.scales[0] < 0.5 * found.scales[1:].min()


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


def test_where_every_feature_counts_alike_one_length_scale_is_kept():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(120, 3))
    y = np.exp(-0.5 * (X**2).sum(axis=1)) + 0.3 * rng.normal(size=120)
    model = sw.KernelRidgeRegressor().fit(X, y)
    assert not model.selection_.chosen["per_feature"]
    assert "does not pay" in model.selection_.reason


def test_relevance_on_is_one_per_feature_even_for_a_named_kernel():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    model = sw.KernelRidgeRegressor("matern32", relevance=True).fit(X, y)
    assert model.kernel_.name == "matern32"
    assert model.kernel_.scales[1] > 2 * model.kernel_.scales[0]
    assert np.ptp(sw.KernelRidgeRegressor("matern32").fit(X, y).kernel_.scales / X.std(axis=0)) < 1e-12


def contender(errors, evidence):
    learned = Learned(np.zeros(2), 0.0, evidence, 1)
    return Contender(sw.kernels.Gaussian(), learned, np.asarray(errors, dtype=float), 1.0)


def test_length_scales_per_feature_are_better_only_where_error_bulk_and_evidence_agree():
    before = contender(np.append(np.ones(39), 21.0), evidence=0.0)
    assert before.unseen == pytest.approx(np.log(1.5))
    assert before.unseen_bulk == pytest.approx(0.0)  # the two largest of forty are left out
    halved = np.append(0.5 * np.ones(39), 10.5)
    assert contender(halved, -1.0).clearly_better(before, 0.5)
    assert not contender(halved, -1.0).clearly_better(before, 0.7)  # log 2 is not enough of a margin
    assert not contender(halved, 0.0).clearly_better(before, 0.5)  # no likelier where it learned
    lucky = np.append(1.05 * np.ones(39), 0.0)
    assert contender(lucky, -1.0).unseen < before.unseen - 0.3
    assert not contender(lucky, -1.0).clearly_better(before, 0.3)  # all it saves is one row


def test_length_scales_per_feature_that_predict_left_out_rows_worse_are_dropped(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 6))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=120)
    assert sw.KernelRidgeRegressor().fit(X, y).selection_.chosen["per_feature"]
    monkeypatch.setattr(selection, "_WORSE", 1e-6)  # as if the error had to fall a million times
    dropped = sw.KernelRidgeRegressor().fit(X, y)
    assert not dropped.selection_.chosen["per_feature"]
    assert "one per feature predicts left-out rows worse" in dropped.selection_.reason
    assert sw.KernelRidgeRegressor(relevance=True).fit(X, y).selection_.chosen["per_feature"]  # insisted on
