"""What other kernels say outside the data, against Gaussian processes written out."""

import warnings

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import multivariate_normal, norm

import stopwise as sw
from stopwise.estimators.prediction.other_kernels import OtherKernels, Sampled, _half_widths


def sampled(n=40, weighted=True, of_all=40.0):
    rng = np.random.default_rng(n)
    rows = rng.uniform(size=(n, 2))
    weights = rng.uniform(0.5, 2, size=n) if weighted else np.ones(n)
    weights *= n / weights.sum()
    response = np.sin(6 * rows[:, 0]) + 0.3 * rng.normal(size=n)
    response -= np.average(response, weights=weights)
    return Sampled(rows, weights, response, 0.0, sw.kernels.Matern((0.5, 2.0)), True, None, 50.0, of_all)


def process(sample, model, at, new):
    """Mean and variance at new rows of a process with flat prior on constant and slopes, by the bordered system."""
    kernel, free = model.posterior.kernel, model.posterior.free
    prior = model.step_sums[at] / free.total  # over the noise variance
    design = np.ones((len(sample.rows), 1))
    new_design = np.ones((len(new), 1))
    if free.trend is not None:
        design, new_design = np.hstack([design, sample.rows]), np.hstack([new_design, new])
    p = design.shape[1]
    system = prior * kernel(sample.rows) + np.diag(1 / sample.weights)
    bordered = np.block([[system, design], [design.T, np.zeros((p, p))]])
    cross = np.hstack([prior * kernel(new, sample.rows), new_design])
    mean = cross @ np.linalg.solve(bordered, np.append(sample.response, np.zeros(p)))
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(bordered, cross.T))
    return mean, model.noise[at] * (prior * kernel.diagonal(new) - explained)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_model_is_a_gaussian_process_with_slopes_left_free(weighted):
    sample = sampled(weighted=weighted)
    new = np.random.default_rng(1).uniform(-1, 2, size=(7, 2))
    models = OtherKernels(sample).models
    assert sum(model.share.sum() for model in models) == pytest.approx(1)
    for model in models[::5]:
        at = int(np.argmax(model.share))
        mean, variance = process(sample, model, at, new)
        np.testing.assert_allclose(model.means(new)[:, at], mean, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(model.deviations(new)[:, at] ** 2, variance, rtol=1e-4, atol=1e-6)


def test_shares_are_in_proportion_to_the_likelihood_of_what_slopes_leave():
    sample = sampled(30)
    basis = np.linalg.qr(np.sqrt(sample.weights)[:, None] * np.column_stack([np.ones(30), sample.rows]), "complete")[0]
    left = basis[:, 3:].T  # contrasts that constant and slopes do not enter
    scaled = left * np.sqrt(sample.weights)
    shares, logs = [], []
    for model in OtherKernels(sample).models[::6]:
        for at in range(0, len(model.step_sums), 4):
            prior = model.step_sums[at] / model.posterior.free.total
            covariance = prior * scaled @ model.posterior.kernel(sample.rows) @ scaled.T + np.eye(len(left))
            logs.append(multivariate_normal.logpdf(scaled @ sample.response, cov=model.noise[at] * covariance))
            shares.append(np.log(model.share[at]))
    difference = np.array(shares) - np.array(logs)
    assert len(shares) > 10
    np.testing.assert_allclose(difference, difference[0], atol=1e-4)


def test_the_half_width_holds_the_level_of_the_mixture():
    rng = np.random.default_rng(0)
    gaps, deviations, shares = rng.normal(size=(5, 4)), rng.uniform(0.1, 3, size=(5, 4)), np.array([0.4, 0.3, 0.2, 0.1])
    for level in (0.5, 0.9, 0.99):
        found = _half_widths(gaps, deviations, shares, level)
        for row in range(5):
            law = norm(gaps[row], deviations[row])
            expected = brentq(lambda h, law=law, level=level: shares @ (law.cdf(h) - law.cdf(-h)) - level, 0, 99)
            assert found[row] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("of_all", [40.0, 160.0, 4_000.0])
def test_moments_are_those_of_the_mixture_about_the_fit_shrunk_to_the_table(of_all):
    sample, new = sampled(of_all=of_all), np.random.default_rng(1).uniform(size=(5, 2))
    others = OtherKernels(sample)
    fit = others.own.means(new)[:, 0]
    gaps, variances = np.zeros(5), np.zeros(5)
    for model in others.models:
        for at, share in enumerate(model.share):
            mean, variance = process(sample, model, at, new)
            gaps, variances = gaps + share * (mean - fit) ** 2, variances + share * variance
    shrunk = 40 / of_all if of_all < 800 else 0  # a sample of less than a twentieth says nothing of all rows
    np.testing.assert_allclose(others.moments(new), shrunk * np.stack([gaps, variances]), rtol=1e-4, atol=1e-6)


def test_the_curve_of_a_linear_fit_is_as_uncertain_as_other_kernels_allow():
    """A line fitted to a step under loud noise knows little of its own error."""
    rng = np.random.default_rng([17, 200])
    x, grid = rng.uniform(size=(200, 1)), np.linspace(0.02, 0.98, 9)[:, None]
    model = sw.KernelGradientRegressor().fit(x, (x[:, 0] > 0.5) + rng.normal(size=200))
    assert model.step_sum_ == 0
    half = np.diff(model.predict_interval(grid, of="mean"))[:, 0] / 2
    gaps, variances = model.uncertainty().others.moments(grid)[:, :, 0]
    assert np.all(half >= norm.ppf(0.95) * np.sqrt(gaps + variances) * (1 - 1e-9))


def test_the_fit_on_the_sample_is_the_fit_where_the_sample_is_all():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(60, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=60)
    model = sw.KernelRidgeRegressor().fit(X, y, sample_weight=rng.uniform(0.5, 2, size=60))
    others = model.uncertainty().others.responses[0]
    shift = model.predict(X) - others.own.means(X)[:, 0]
    slopes = model._fitted.trend is not None
    design = np.column_stack([np.ones(60), X]) if slopes else np.ones((60, 1))
    left = shift - design @ np.linalg.lstsq(design, shift, rcond=None)[0]
    np.testing.assert_allclose(left, 0, atol=1e-8)


def test_outside_the_data_intervals_start_at_the_edge_and_never_shrink_below_it():
    rng = np.random.default_rng(4)
    X = rng.uniform(size=(50, 1))
    model = sw.KernelGradientRegressor().fit(X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=50))
    edge = X.max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sw.exceptions.ExtrapolationWarning)
        for of in ("new", "mean"):
            width = np.diff(model.predict_interval(edge + np.array([[0], [1e-9], [0.1], [0.5], [4]]), of=of))[:, 0]
            assert width[1] == pytest.approx(width[0], rel=1e-5)
            assert np.all(np.diff(width) > -1e-6 * width[0])


def test_a_kink_that_goes_on_outside_the_data_is_covered():
    """A kernel that turns back to its mean covered .3 of it at this distance."""
    covered = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.uniform(size=40)
        model = sw.KernelGradientRegressor().fit(x[:, None], np.abs(x - 0.5) + 0.05 * rng.normal(size=40))
        with pytest.warns(sw.exceptions.ExtrapolationWarning):
            ends = model.predict_interval(np.array([[-4.0], [5.0]]))
        covered += [np.all((ends[:, 0] < 4.5) & (ends[:, 1] > 4.5))]
    assert np.mean(covered) >= 0.85


def test_a_kernel_that_was_given_is_the_only_one():
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(40, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=40)
    given = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.3)).fit(X, y)
    assert given.uncertainty().others is None
    chosen = sw.KernelGradientRegressor().fit(X, y)
    assert chosen.uncertainty().others is not None
