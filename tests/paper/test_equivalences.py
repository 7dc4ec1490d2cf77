"""Special cases that reduce to something known."""

import math

import numpy as np
import pytest
from sklearn.decomposition import KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression

import reference
import stopwise as sw
from stopwise.views.curves import directions

INVERSE_PENALTIES = np.geomspace(1e-3, 1e6, 19)


@pytest.fixture
def data(rng):
    X = rng.uniform(-1, 1, size=(30, 2))
    return X, np.sin(3 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=30)


def ridge(X, y, **settings):
    """A ridge path over the Gaussian kernel; where it stops does not matter here."""
    settings = {"rule": "critical", "noise_std": 0.3, "fit_intercept": False} | settings
    return sw.KernelRidgeRegressor(sw.kernels.Gaussian(length_scale=0.7), **settings).fit(X, y)


def descent(X, y, **settings):
    settings = {"rule": sw.rules.Fixed(iteration=1), "noise_std": 0.3, "fit_intercept": False} | settings
    return sw.KernelGradientRegressor(sw.kernels.Gaussian(length_scale=0.7), **settings).fit(X, y)


def test_ridge_equals_scikit_learn_at_every_inverse_penalty(data, rng):
    X, y = data
    path = ridge(X, y).path_
    for inverse_penalty in INVERSE_PENALTIES:
        theirs = KernelRidge(alpha=len(y) / inverse_penalty, kernel="rbf", gamma=1 / (2 * 0.7**2)).fit(X, y)
        np.testing.assert_allclose(path.fit(inverse_penalty), theirs.predict(X), rtol=0, atol=1e-8)


@pytest.mark.parametrize("noise_std", [1e-3, 0.3, 10.0])
def test_the_chosen_ridge_fit_equals_scikit_learn_at_its_alpha(data, rng, noise_std):
    X, y = data
    ours = ridge(X, y, noise_std=noise_std)
    theirs = KernelRidge(alpha=ours.alpha_, kernel="rbf", gamma=1 / (2 * 0.7**2)).fit(X, y)
    new = rng.uniform(-1, 1, size=(15, 2))
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=0, atol=1e-8)


def test_ridge_with_an_intercept_leaves_the_constant_unpenalised(data):
    X, y = data
    n = len(y)
    path = ridge(X, y, fit_intercept=True).path_
    gram = reference.gram(reference.gaussian(0.7), X)
    for inverse_penalty in (0.1, 10.0, 1e3):
        system = np.block([[gram + n / inverse_penalty * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), 0.0]])
        solution = np.linalg.solve(system, np.append(y, 0.0))
        np.testing.assert_allclose(path.fit(inverse_penalty), gram @ solution[:-1] + solution[-1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_components", [1, 2, 5, 12])
def test_spectral_cut_off_equals_regression_on_kernel_principal_components(data, n_components):
    X, y = data
    model = descent(X, y, filter="cutoff", rule="critical", fit_intercept=True)
    values = model.eigenvalues_
    step_sum = 1 / math.sqrt(values[n_components - 1] * values[n_components])
    gram = reference.gram(reference.gaussian(0.7), X)
    scores = KernelPCA(n_components=n_components, kernel="precomputed", eigen_solver="dense").fit_transform(gram)
    expected = LinearRegression().fit(scores, y).predict(scores)
    np.testing.assert_allclose(model.path_.fit(step_sum), expected, rtol=0, atol=1e-9)
    assert model.path_.degrees_of_freedom(step_sum) == pytest.approx(n_components, abs=1e-9)


def test_gradient_flow_is_the_limit_of_descent_as_the_step_shrinks(data):
    X, y = data
    flow = descent(X, y, filter="flow", rule="critical").path_
    gaps = []
    for step_size in (0.2, 0.02, 0.002):
        path = descent(X, y, schedule=step_size).path_
        sums = np.array([0.4, 2.0, 10.0])
        stops = np.round(sums / step_size).astype(int)
        gaps.append(np.abs(path.fit(iteration=stops) - flow.fit(sums)).max())
    assert gaps[2] < 1e-3
    assert gaps[1] == pytest.approx(gaps[0] / 10, rel=0.3)
    assert gaps[2] == pytest.approx(gaps[1] / 10, rel=0.3)


def test_descent_with_one_unit_step_on_a_projection_kernel_is_least_squares(rng):
    """Every eigenvalue is 0 or 1: one step of size one lands on the regression itself."""
    basis = np.linalg.qr(rng.normal(size=(12, 3)))[0]
    y = rng.normal(size=12)
    model = sw.KernelGradientRegressor(
        "precomputed", rule=sw.rules.Fixed(iteration=1), noise_std=1.0, schedule=1.0, fit_intercept=False
    ).fit(12 * basis @ basis.T, y)
    np.testing.assert_allclose(model.path_.fit(iteration=1), basis @ (basis.T @ y), rtol=0, atol=1e-12)
    assert model.path_.degrees_of_freedom(iteration=1) == pytest.approx(3, abs=1e-12)


def test_ridge_and_flow_at_the_same_clock_have_risks_within_their_known_factor(data):
    X, y = data
    truth = np.sin(3 * X[:, 0]) * X[:, 1]
    sums = np.geomspace(0.1, 1e4, 40)
    flow = descent(X, y, filter="flow", rule="critical").path_.risk(truth, 0.3, step_sum=sums)
    tikhonov = ridge(X, y).path_.risk(truth, 0.3, step_sum=sums)
    assert np.all(flow <= 1.6862 * tikhonov)


FILTERS = {
    "descent": sw.filters.GradientDescent(0.5),
    "ridge": sw.filters.Ridge(),
    "flow": sw.filters.GradientFlow(),
    "cutoff": sw.filters.CutOff(),
    "nu-method": sw.filters.NuMethod(),
}


@pytest.mark.filterwarnings("ignore:row")
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", FILTERS)
def test_the_mean_of_sure_over_noise_is_the_exact_risk(data, name, fit_intercept):
    """SURE is quadratic in the noise, so its mean over all noise is its mean over 2n well-placed noise vectors."""
    X, _ = data
    n, noise_std = len(X), 0.4
    truth = 1 + np.sin(3 * X[:, 0]) * X[:, 1]
    noise = noise_std * math.sqrt(n) * np.vstack([np.eye(n), -np.eye(n)])
    assert np.allclose(noise.T @ noise / (2 * n), noise_std**2 * np.eye(n))
    model = sw.KernelGradientRegressor(
        sw.kernels.Gaussian(length_scale=0.7),
        rule=sw.rules.Fixed(iteration=1),
        noise_std=noise_std,
        schedule=0.5,
        fit_intercept=fit_intercept,
    ).fit(X, (truth + noise).T)
    path = model.path_.along(FILTERS[name])
    sums = np.array([0.0, 0.5, 3.0, 20.0, 1e3, 1e6])
    in_problem_units = sw.rules.SURE().criterion(path, noise_std / path.scale, sums)
    assert in_problem_units.shape == (6, 2 * n)
    mean = (in_problem_units * path.scale**2).mean(axis=1)
    np.testing.assert_allclose(mean, path.risk(truth, noise_std, step_sum=sums), rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("inverse_penalty", [0.1, 10.0, 1e3])
def test_the_leave_one_out_shortcut_is_exact_for_ridge_at_a_fixed_alpha(data, inverse_penalty, fit_intercept):
    X, y = data
    y = y + 5.0
    path = ridge(X, y, fit_intercept=fit_intercept).path_
    gram = reference.gram(reference.gaussian(0.7), X)
    expected = reference.loo_by_refits(gram, y, len(y) / inverse_penalty, fit_intercept)
    np.testing.assert_allclose(path.leave_one_out(inverse_penalty), expected, rtol=1e-7, atol=1e-9)


def test_the_leave_one_out_shortcut_is_called_an_approximation_for_descent_and_is_a_few_percent_off(data):
    X, y = data
    path = descent(X, y, schedule=0.5).path_
    gram = reference.gram(reference.gaussian(0.7), X)
    n, gaps = len(y), []
    for iteration in (2, 10, 40, 200):
        errors = np.zeros(n)
        for i in range(n):
            keep = [j for j in range(n) if j != i]
            # the same step on the same matrix, a row and column gone: what deletion does to ridge at a fixed alpha
            omega = reference.descent_omega(gram[np.ix_(keep, keep)] / n, y[keep], [0.5] * iteration)[-1]
            errors[i] = y[i] - gram[i, keep] @ omega * math.sqrt(n - 1) / n
        exact = np.mean(errors**2)
        shortcut = np.mean(path.leave_one_out(iteration=iteration) ** 2)
        gaps.append(shortcut / exact - 1)
    assert 1e-6 < np.max(np.abs(gaps)) < 0.05
    assert "approximation" in sw.rules.LeaveOneOut.__doc__


@pytest.mark.filterwarnings("ignore:row")
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", ["descent", "ridge"])
def test_the_standard_deviation_of_a_prediction_is_that_of_a_linear_smoother(data, rng, name, fit_intercept):
    X, y = data
    n, new = len(y), rng.uniform(-1, 1, size=(6, 2))

    def fitted(response):
        if name == "ridge":
            rule = sw.rules.Fixed(step_sum=8.0)
            return ridge(X, response, rule=rule, fit_intercept=fit_intercept)
        rule = sw.rules.Fixed(iteration=12)
        return descent(X, response, rule=rule, schedule=0.5, fit_intercept=fit_intercept)

    weights = np.column_stack([fitted(unit).predict(new) for unit in np.eye(n)])
    model = fitted(y)
    np.testing.assert_allclose(model.predict(new), weights @ y, atol=1e-10)
    psi = directions(model, new)
    gain = model.path_.filter.weight(model.eigenvalues_, model.step_sum_)
    variance = psi**2 @ gain**2 + (1 / n if fit_intercept else 0.0)
    np.testing.assert_allclose(variance, np.sum(weights**2, axis=1), rtol=1e-8)


def test_a_precomputed_gram_matrix_gives_the_same_model_as_its_kernel(data, rng):
    X, y = data
    new = rng.uniform(-1, 1, size=(6, 2))
    kernel = sw.kernels.Gaussian(length_scale=0.7)
    direct = sw.KernelGradientRegressor(kernel, rule="sure", noise_std=0.3).fit(X, y)
    handed = sw.KernelGradientRegressor("precomputed", rule="sure", noise_std=0.3).fit(kernel(X), y)
    assert handed.stop_.iteration == direct.stop_.iteration
    for one, other in zip(
        direct.predict(new, return_std=True), handed.predict(kernel(new, X), return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_single_precision_agrees_with_double_to_its_own_digits(data):
    X, y = data
    double = descent(X, y, rule="sure", fit_intercept=True)
    single = descent(X, y, rule="sure", fit_intercept=True, precision="float32")
    np.testing.assert_allclose(single.eigenvalues_[:10], double.eigenvalues_[:10], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(single.path_.fit(5.0), double.path_.fit(5.0), atol=1e-4)
