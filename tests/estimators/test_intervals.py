"""Intervals are what leaving out each row by hand makes them, and grow where there are no data."""

import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import stopwise as sw
from stopwise.estimators.prediction import interval_calibration, posterior, row_leverages, varying_noise
from stopwise.estimators.prediction.interval_calibration import uncertainty_of
from stopwise.estimators.prediction.intervals import free_scales, predict_with_variance
from stopwise.estimators.prediction.varying_noise import find_varying_noise
from stopwise.rules.left_out_blocks import DependentRowsWarning
from stopwise.selection.result import Selection

KERNEL = sw.kernels.Matern(0.3)


def sample(n=40, seed=0, replicated=False, outputs=1, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    if replicated:
        X[n // 2 :] = X[: n - n // 2]
    truth = np.column_stack([np.sin(5 * X[:, 0]), X[:, 1] ** 2, X.sum(axis=1)])[:, :outputs]
    y = truth + noise * rng.normal(size=truth.shape)
    return X, (y[:, 0] if outputs == 1 else y), rng


def predicted(X, y, weights, penalty, intercept, new, new_weight=1.0, kernel=KERNEL):
    """Ridge with a free constant and its predictive variance over the noise variance, solved as it is written.

    The penalty is on the scale of the Gram matrix; the constant has a flat prior. What a `kernel` that landmarks see
    leaves of KERNEL at a row is prior.
    """
    system = kernel(X, X) + penalty * np.diag(1 / weights)
    ones = np.ones((len(X), 1)) if intercept else np.zeros((len(X), 0))
    bordered = np.block([[system, ones], [ones.T, np.zeros((ones.shape[1],) * 2)]])
    cross = np.hstack([kernel(new, X), np.ones((len(new), ones.shape[1]))])
    mean = cross @ np.linalg.solve(bordered, np.append(y, np.zeros(ones.shape[1])))
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(bordered, cross.T))
    return mean, 1 / new_weight + (KERNEL.diagonal(new) - explained) / penalty


def by_hand(X, y, weights, step_sum, intercept, new, level, kernel=KERNEL):
    """Half-widths from refits without each row in turn, at one penalty on the Gram matrix."""
    weights = weights / weights.mean()
    penalty, ratios = len(y) / step_sum, []
    for row in range(len(y)):
        kept = np.arange(len(y)) != row
        rest = X[kept], y[kept], weights[kept], penalty, intercept
        mean, variance = predicted(*rest, X[row : row + 1], weights[row], kernel)
        ratios.append(abs(y[row] - mean[0]) / math.sqrt(variance[0]))
    quantile = np.sort(ratios)[math.ceil((len(y) + 1) * level) - 1]
    mean, variance = predicted(X, y, weights, penalty, intercept, new, kernel=kernel)
    return mean, quantile * np.sqrt(variance), quantile * np.sqrt(variance - 1)


@pytest.fixture
def even_noise(monkeypatch):
    monkeypatch.setattr(interval_calibration, "find_varying_noise", lambda rows, ratios: None)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_landmarks", [5, 30])
def test_intervals_through_landmarks_are_those_of_leaving_each_row_out_by_hand(
    n_landmarks, weighted, intercept, even_noise
):
    X, y, rng = sample(60)
    weights = rng.uniform(0.5, 2, size=60) if weighted else np.ones(60)
    points, new = rng.uniform(size=(n_landmarks, 2)), rng.uniform(-0.5, 1.5, size=(9, 2))

    def seen(left, right):
        return KERNEL(left, points) @ np.linalg.solve(KERNEL(points), KERNEL(points, right))

    settings = {"rule": sw.rules.Fixed(step_sum=80.0), "solver": "nystrom", "n_landmarks": points}
    model = sw.KernelRidgeRegressor(KERNEL, fit_intercept=intercept, **settings).fit(X, y, sample_weight=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sw.exceptions.ExtrapolationWarning)
        ends, curve = (model.predict_interval(new, 0.8, of) for of in ("new", "mean"))
        np.testing.assert_allclose(ends.mean(axis=1), model.predict(new), rtol=1e-10, atol=1e-10)
    mean, half, half_mean = by_hand(X, y, weights, 80.0, intercept, new, 0.8, seen)
    np.testing.assert_allclose(ends, np.column_stack([mean - half, mean + half]), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(curve, np.column_stack([mean - half_mean, mean + half_mean]), rtol=1e-8, atol=1e-8)


def test_directions_left_to_the_prior_change_the_mean_variance_by_less_than_said():
    X, y, _ = sample(400)
    fitted = sw.KernelRidgeRegressor(sw.kernels.Gaussian(0.4), solver="nystrom", n_landmarks=200).fit(X, y)._fitted
    basis, clock = fitted.path.spectrum.basis, interval_calibration.scale_clock(fitted)
    spectrum, free = fitted.path.spectrum, posterior.Free(True, None, 400.0)
    every = posterior.posterior_of_landmarks(basis.rows, basis.rotation, spectrum, free)
    some = every.visible(clock)
    assert len(some.eigenvalues) < 0.7 * len(every.eigenvalues)
    more = some.variance(X, clock) - every.variance(X, clock)
    assert np.all(more >= -1e-12)
    assert 0 < more.mean() <= 1e-4 * every.variance(X, clock).mean()


@pytest.fixture
def twenty(monkeypatch):
    monkeypatch.setattr(posterior, "DIRECTIONS", 20)


def landmark_posterior(kernel, intercept, n=500, n_landmarks=150):
    """Rows, the posterior through landmarks with all directions and with 20, and a clock reading of a rough fit."""
    X, y, _ = sample(n)
    settings = {"solver": "nystrom", "n_landmarks": n_landmarks, "rule": sw.rules.Fixed(step_sum=5e4)}
    fitted = sw.KernelRidgeRegressor(kernel, fit_intercept=intercept, **settings).fit(X, y)._fitted
    spectrum, free = fitted.path.spectrum, posterior.Free(intercept, None, float(n))
    parts, clock = (spectrum.basis.rows, spectrum.basis.rotation, spectrum, free), np.array([5e4])
    return X, posterior.posterior_of_landmarks(*parts), posterior.posterior_of_landmarks(*parts, clock), clock


@pytest.mark.parametrize("intercept", [False, True])
def test_faint_directions_share_what_the_leading_ones_leave(intercept, twenty):
    _, every, few, clock = landmark_posterior(sw.kernels.Matern(0.5), intercept)
    assert few.seen.shape[1] == 20
    new = np.random.default_rng(1).uniform(-1, 2, size=(40, 2))
    eta, n, values = clock[0], 500.0, every.eigenvalues
    image, t = every.images(new)
    prior = every._less_free(new, every.kernel(new, every.rows) @ np.hstack([every.weighted, every.seen]))[0]
    kept = np.argsort(-values)[:20]
    dropped = np.setdiff1d(np.arange(len(values)), kept)
    dropped = dropped[np.isin(values[dropped], few.faint)]
    left = values[dropped].sum() + every.unseen
    told = sum(values[j] * eta * values[j] / (1 + eta * values[j]) for j in dropped) / left
    expected = np.zeros(40)
    for i in range(40):
        seen = image[i, kept] ** 2 / (n * values[kept])
        share = seen.sum() / prior[i]
        near = min(1.0, share / (values[kept].sum() / (values[kept].sum() + left)))
        variance = prior[i] - (seen * eta * values[kept] / (1 + eta * values[kept])).sum()
        expected[i] = eta / n * (variance - told * near * (prior[i] - seen.sum())) + (t[i] ** 2).sum()
    assert np.any(expected < 0.8 * replace(few, faint=np.zeros(0)).variance(new, clock)[:, 0])
    np.testing.assert_allclose(few.variance(new, clock)[:, 0], expected, rtol=1e-9)


@pytest.mark.parametrize("kernel", [sw.kernels.Laplace(0.5), sw.kernels.Matern(0.5)], ids=str)
def test_a_variance_from_few_directions_is_that_of_all_in_the_mean_and_the_prior_far_away(kernel, twenty):
    X, every, few, clock = landmark_posterior(kernel, intercept=False)
    new = np.random.default_rng(2).uniform(size=(400, 2))
    assert few.variance(X, clock).mean() == pytest.approx(every.variance(X, clock).mean(), rel=0.05)
    alone = replace(few, faint=np.zeros(0))
    shared, alone = (
        np.sqrt((1 + each.variance(new, clock)) / (1 + every.variance(new, clock))) for each in (few, alone)
    )
    assert abs(shared.mean() - 1) < 0.07
    assert shared.std() < 0.2
    assert alone.mean() > 1.25
    far = np.full((1, 2), 60.0)
    np.testing.assert_allclose(few.variance(far, clock), every.variance(far, clock), rtol=1e-3)


@pytest.mark.parametrize("solver", ["dense", "nystrom", "krylov"])
def test_one_pass_gives_the_values_and_variances_of_two(solver, monkeypatch):
    monkeypatch.setattr(interval_calibration, "STANDING_ROWS", 100)
    X, y, rng = sample(300, outputs=2)
    model = sw.KernelRidgeRegressor(KERNEL, solver=solver, n_jobs=2).fit(X, y)
    fitted, known, new = model._fitted, model.uncertainty(), rng.uniform(size=(50, 2))
    values, variance = predict_with_variance(fitted, known, new, 2)
    np.testing.assert_allclose(values, model.predict(new), rtol=1e-10, atol=1e-12)
    assert (variance is None) == (solver == "krylov")
    if variance is not None:
        np.testing.assert_allclose(variance, known.variance(new), rtol=1e-10)


@pytest.mark.parametrize("n_features", [1, 3, 6])
def test_the_log_variance_from_few_points_is_that_from_all(n_features):
    rng = np.random.default_rng(n_features)
    points = rng.normal(size=(300, n_features))
    logs = np.sin(points[:, 0]) + 2 * rng.normal(size=300)
    length, penalty, new = 2.0, 3.0, 1.5 * rng.normal(size=(50, n_features))
    few, weights, constant = varying_noise._solved(points, logs, length, penalty)
    kernel = sw.kernels.Gaussian(length)
    bordered = np.block([[kernel(points) + penalty * np.eye(300), np.ones((300, 1))], [np.ones((1, 300)), 0.0]])
    solved = np.linalg.solve(bordered, np.append(logs, 0.0))
    assert len(few) < 300 if n_features < 6 else len(few) <= 300
    np.testing.assert_allclose(
        constant + kernel(new, few) @ weights, solved[-1] + kernel(new, points) @ solved[:-1], atol=1e-5
    )


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("n", [12, 60])
def test_intervals_are_those_of_leaving_each_row_out_by_hand(n, replicated, weighted, intercept, even_noise):
    X, y, rng = sample(n, replicated=replicated)
    weights = rng.uniform(0.5, 2, size=n) if weighted else np.ones(n)
    new = rng.uniform(-0.5, 1.5, size=(9, 2))
    model = sw.KernelRidgeRegressor(KERNEL, rule=sw.rules.Fixed(step_sum=80.0), fit_intercept=intercept)
    model.fit(X, y, sample_weight=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sw.exceptions.ExtrapolationWarning)
        ends, curve = (model.predict_interval(new, 0.8, of) for of in ("new", "mean"))
    mean, half, half_mean = by_hand(X, y, weights, 80.0, intercept, new, 0.8)
    np.testing.assert_allclose(ends, np.column_stack([mean - half, mean + half]), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(curve, np.column_stack([mean - half_mean, mean + half_mean]), rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings("ignore::stopwise.estimators.doubts.TrustWarning")
@pytest.mark.parametrize("step_sum", [1e4, 1e8, 1e10])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("solver", ["dense", "krylov", "factor", "preconditioned"])
def test_ratios_keep_their_digits_where_a_fit_nearly_runs_through_its_rows(solver, intercept, step_sum, even_noise):
    """With P the inverse of I + (eta / n) K off what is free, left-out residuals over scales are Py / sqrt P_ii."""
    X, y, _ = sample(120, noise=0.0)
    kernel, rule = sw.kernels.Laplace(0.5), sw.rules.Fixed(step_sum=step_sum)
    model = sw.KernelRidgeRegressor(kernel, rule=rule, fit_intercept=intercept, solver=solver).fit(X, y)
    # In a basis of what is not free: taking the free part out of a whole inverse would cost the digits asked for.
    basis = np.linalg.qr(np.ones((120, 1)), mode="complete")[0][:, 1:] if intercept else np.eye(120)
    inverse = basis @ np.linalg.solve(basis.T @ (np.eye(120) + step_sum / 120 * kernel(X)) @ basis, basis.T)
    ratios = np.sort(np.abs(inverse @ y) / np.sqrt(np.diagonal(inverse)))
    np.testing.assert_allclose(model.uncertainty().calibrations[0].observed.values, ratios, rtol=1e-6)


@pytest.mark.parametrize("solver", ["dense", "nystrom"])
@pytest.mark.parametrize("outlying", [False, True])
def test_with_copies_the_factor_holds_for_rows_that_are_new_and_for_one_of_the_copies(outlying, solver, even_noise):
    X, y, rng = sample(40)
    copies = np.array([4] * 5 + [2] * 10 + [1] * 25)
    y = y + 3.0 * outlying * (copies == 4)
    rows, new, level = np.repeat(np.arange(40), copies), rng.uniform(size=(9, 2)), 0.8
    settings = {"rule": sw.rules.Fixed(step_sum=80.0), "solver": solver, "n_landmarks": X}
    model = sw.KernelRidgeRegressor(KERNEL, **settings).fit(X[rows], y[rows])
    weights, penalty = copies / copies.mean(), 40 / 80.0
    ratios, one = [], weights[-1]
    for row in range(40):
        left = weights - one * (np.arange(40) == row)
        kept = left > 1e-12
        fit = X[kept], y[kept], left[kept], penalty, True
        mean, variance = predicted(*fit, X[row : row + 1])
        ratios.append(abs(y[row] - mean[0]) / math.sqrt(variance[0]))
    given = np.sort(np.repeat(ratios, copies))[math.ceil((len(rows) + 1) * level) - 1]
    mean, variance = predicted(X, y, weights, penalty, True, new)
    _, half, _ = by_hand(X, y, weights, 80.0, True, new, level)
    assert (given * np.sqrt(variance) > half).all() == (not outlying)
    expected = np.maximum(half, given * np.sqrt(variance))
    np.testing.assert_allclose(np.diff(model.predict_interval(new, level))[:, 0] / 2, expected, rtol=1e-8)
    weighed = sw.KernelRidgeRegressor(KERNEL, **settings).fit(X, y, sample_weight=copies)
    np.testing.assert_allclose(weighed.predict_interval(new, level), model.predict_interval(new, level), rtol=1e-8)


@pytest.mark.parametrize(("gaps", "rows", "moved"), [((0, 0, 0, 0), 800, 0.0), ((1, -1, 0, 0), 800, 2.0)])
def test_length_scales_count_as_far_as_the_data_moved_them(gaps, rows, moved):
    features = tuple({"relevance": math.exp(gap - 1)} for gap in gaps) + ({"used": False},)
    table = Selection(({"chosen": True, "per_feature": True},), features, "", rows)
    assert free_scales(table) == pytest.approx(moved)
    # With fewer than twenty rows for each scale, the prior is narrower: down to half.
    assert free_scales(replace(table, n_rows=16)) == pytest.approx(min(4 * moved, 3))
    common = Selection(({"chosen": True, "per_feature": False},), features, "", rows)
    assert free_scales(common) == 0


def test_few_places_with_many_observations_flatter_as_little_as_many_places():
    """Parameters were counted on three places where 500 observations tell: intervals were 1.7 times too wide."""
    rng = np.random.default_rng(0)
    X = rng.integers(1, 4, size=(500, 1)).astype(float)
    y = np.sqrt(X[:, 0]) + 0.5 * rng.normal(size=500)
    model = sw.KernelGradientRegressor().fit(X, y)
    half = np.diff(model.predict_interval(X))[:, 0] / 2
    assert half.mean() == pytest.approx(1.645 * model.noise_std_, rel=0.1)  # 500 residuals tell a quantile to 4 percent


def test_several_responses_have_the_intervals_they_have_alone():
    X, y, _ = sample(50, outputs=3)
    settings = {"rule": sw.rules.Fixed(step_sum=30.0)}
    together = sw.KernelRidgeRegressor(KERNEL, **settings).fit(X, y).predict_interval(X)
    assert together.shape == (50, 3, 2)
    for column in range(3):
        alone = sw.KernelRidgeRegressor(KERNEL, **settings).fit(X, y[:, column]).predict_interval(X)
        np.testing.assert_allclose(together[:, column], alone, rtol=1e-8, atol=1e-10)


def test_copies_and_weights_of_two_leave_intervals_as_they_were():
    X, y, rng = sample(60)
    plain = sw.KernelRidgeRegressor(KERNEL).fit(X, y)
    some = np.repeat(np.arange(60), 2)
    for other in (plain.__class__(KERNEL).fit(X[some], y[some]), plain.__class__(KERNEL).fit(X, y, np.full(60, 2.0))):
        np.testing.assert_allclose(other.predict_interval(X), plain.predict_interval(X), rtol=1e-8)
    weights = rng.uniform(0.5, 2, size=60)
    ends = plain.predict_interval(X, sample_weight=weights)
    wider = (ends[:, 1] - ends[:, 0]) > np.diff(plain.predict_interval(X))[:, 0]
    assert np.all(wider == (weights < 1))


@pytest.mark.parametrize("solver", ["krylov", "nystrom", "line"])
def test_every_solver_has_nearly_the_intervals_of_the_dense_one(solver):
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(300, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=300)
    settings = {"kernel": "sobolev2" if solver == "line" else sw.kernels.Gaussian(0.2)}
    settings["rule"] = sw.rules.Fixed(step_sum=100.0)
    dense = sw.KernelRidgeRegressor(solver="dense", **settings).fit(X, y)
    other = sw.KernelRidgeRegressor(solver=solver, **settings).fit(X, y)
    new = np.linspace(0.02, 0.97, 30)[:, None]
    width = np.diff(dense.predict_interval(new)).mean()
    np.testing.assert_allclose(other.predict_interval(new), dense.predict_interval(new), atol=0.03 * width)


def test_rows_that_stand_for_all_give_nearly_the_same_intervals(monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(900, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=900)
    model = sw.KernelRidgeRegressor(sw.kernels.Gaussian(0.2), solver="krylov").fit(X, y)
    new = np.linspace(-0.3, 1.3, 40)[:, None]
    exact = uncertainty_of(model._fitted).half_width(new, 0.9, "new")
    monkeypatch.setattr(interval_calibration, "STANDING_ROWS", 300)
    sampled = uncertainty_of(model._fitted).half_width(new, 0.9, "new")
    np.testing.assert_allclose(sampled, exact, rtol=0.12)


def nearly_free_of_noise(n, seed=0):
    """Five covariates, a kink in one: fits nearly run through the rows."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 5))
    return X, np.sin(3 * X[:, 0] + X[:, 1] ** 2) * np.cos(2 * X[:, 2] * X[:, 3]) + 0.5 * np.abs(X[:, 4])


def flow_left_out_by_hand(X, y, kernel, step_sum):
    """y_i less what gradient flow on all rows but i predicts there, its intercept free; Gram over the n of all rows."""
    n, out = len(y), np.empty(len(y))
    for i in range(n):
        rows = np.arange(n) != i
        gram = kernel(X[rows]) / n
        centring = np.eye(n - 1) - 1 / (n - 1)
        values, vectors = np.linalg.eigh(centring @ gram @ centring)
        values = np.maximum(values, 1e-300)
        mean = y[rows].mean()
        dual = vectors @ (-np.expm1(-step_sum * values) / values * (vectors.T @ (y[rows] - mean))) / n
        dual -= dual.mean()
        level = mean - (kernel(X[rows]) @ dual).mean()
        out[i] = y[i] - kernel(X[i : i + 1], X[rows])[0] @ dual - level
    return out


@pytest.mark.parametrize("step_sum", [30.0, 1e4, 1e7])
@pytest.mark.parametrize("solver", ["dense", "nystrom"])
def test_left_out_residuals_of_flow_are_those_of_leaving_each_row_out_by_hand(solver, step_sum):
    X, y = nearly_free_of_noise(50)
    kernel = sw.kernels.Gaussian(1.0)
    settings = {"n_landmarks": 50, "precision": "float64"} if solver == "nystrom" else {}
    model = sw.KernelGradientRegressor(
        kernel, filter="flow", rule=sw.rules.Fixed(step_sum=step_sum), solver=solver, **settings
    )
    fitted = model.fit(X, y)._fitted
    rows, by_hand = np.arange(50), flow_left_out_by_hand(X, y, kernel, step_sum)
    vectors = None if solver == "dense" else row_leverages.landmark_vectors(fitted.path, rows)
    found = row_leverages.left_out_residuals(fitted.path, fitted.step_sums, rows, vectors)[:, 0]
    assert np.linalg.norm(found - by_hand) <= 1e-4 * np.linalg.norm(by_hand)


@pytest.mark.parametrize("step_sum", [30.0, 1e4, 1e9])
def test_rows_left_out_on_a_line_are_left_out_of_the_filter_that_was_fitted(step_sum):
    x = np.sort(np.random.default_rng(0).uniform(size=(80, 1)), axis=0)
    y, kernel = np.sin(6 * x[:, 0]), sw.kernels.Matern(0.5, smoothness=2.5)
    rule = sw.rules.Fixed(step_sum=step_sum)
    model = sw.KernelGradientRegressor(kernel, filter="flow", rule=rule, solver="line").fit(x, y)
    fitted, rows = model._fitted, np.arange(80)
    line, by_hand = model.uncertainty().posterior, flow_left_out_by_hand(x, y, kernel, step_sum)
    found, within = row_leverages.left_out_on_line(fitted.path, line, fitted.step_sums, rows)
    assert np.linalg.norm(found[:, 0] - by_hand) <= 1e-4 * np.linalg.norm(by_hand)
    residuals = y - model.predict(x)
    assert np.linalg.norm(within[:, 0] - residuals) <= 1e-4 * np.linalg.norm(residuals) + 1e-12
    left = row_leverages.rows_left(fitted.path, fitted.step_sums, rows, None, line, x)[:, 0]
    inverse = np.linalg.inv(np.eye(80) + step_sum / 80 * kernel(x))
    ones = inverse.sum(axis=1)
    np.testing.assert_allclose(left, np.diagonal(inverse) - ones**2 / ones.sum(), rtol=1e-4)


@pytest.mark.parametrize("together", [False, True])
def test_a_response_that_is_a_sum_of_columns_is_covered_to_its_last_digits(together):
    """The path's own residuals there are far smaller than what predictions are off by: it held .03."""
    rng = np.random.default_rng(0)
    boys, girls = rng.integers(3000, 9000, size=(2, 700))
    X, y = np.column_stack([rng.integers(1600, 1700, size=700), boys, girls, boys / girls]), (boys + girls) / 1000
    groups = np.repeat(np.arange(40), 5) if together else None
    model = sw.KernelGradientRegressor().fit(X[:200], y[:200], groups=groups)
    lower, upper = model.predict_interval(X[200:], 0.9).T
    assert np.abs(model.predict(X[200:]) - y[200:]).max() < 1e-10 * y.std()
    assert np.mean((lower <= y[200:]) & (y[200:] <= upper)) > 0.85
    assert (upper - lower).max() < 1e-10 * y.std()


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("curve", [lambda x: np.sin(6 * x), np.exp])
def test_a_curve_without_noise_is_covered_where_a_line_is_solved(curve, level):
    """Descent's errors are far from ridge's there: left out of ridge, rows claimed .75 and .25 of new ones at .5."""
    rng = np.random.default_rng(400)
    x, new = rng.uniform(size=(400, 1)), rng.uniform(0.01, 0.99, size=(3_000, 1))
    model = sw.KernelGradientRegressor().fit(x, curve(x[:, 0]))
    assert model.solver_ == "line"
    lower, upper = model.predict_interval(new, level).T
    truth = curve(new[:, 0])
    assert abs(np.mean((lower <= truth) & (truth <= upper)) - level) < 0.06


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_a_search_by_solves_keeps_the_left_out_residuals_of_the_filter_that_is_fitted(noise):
    X, y = nearly_free_of_noise(150)
    y = y + noise * np.random.default_rng(3).normal(size=150)
    kernel = sw.kernels.Gaussian(1.0)
    model = sw.KernelGradientRegressor(kernel, filter="flow", solver="factor").fit(X, y)
    path, by_hand = model.path_, flow_left_out_by_hand(X, y, kernel, model.step_sum_)[model.path_.left_out_rows]
    assert np.linalg.norm(path.left_out * path.scale - by_hand) <= 0.05 * np.linalg.norm(by_hand)
    ridge = sw.KernelRidgeRegressor(kernel, solver="dense").fit(X, y).path_.leave_one_out(model.step_sum_)
    assert np.linalg.norm(ridge[path.left_out_rows] - by_hand) >= 0.1 * np.linalg.norm(by_hand)


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.StopwiseWarning")
@pytest.mark.parametrize("solver", ["factor", "preconditioned", "krylov"])
def test_half_of_the_rows_are_left_out_where_few_more_than_those_that_stand_for_all_are_there(solver, monkeypatch):
    """All but a few stood for all: an interval of level .9 was refused, or rested on five rows."""
    monkeypatch.setattr(interval_calibration, "STANDING_ROWS", 100)
    X, y = nearly_free_of_noise(105)
    model = sw.KernelRidgeRegressor(sw.kernels.Gaussian(1.0), solver=solver).fit(X, y)
    assert model.uncertainty().calibrations[0].n_observations == 53
    assert np.isfinite(model.predict_interval(X, 0.9)).all()


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.StopwiseWarning")
@pytest.mark.parametrize("solver", ["factor", "preconditioned"])
def test_intervals_rest_on_the_rows_that_a_solver_left_out(solver, monkeypatch):
    monkeypatch.setattr(interval_calibration, "STANDING_ROWS", 150)
    X, y = nearly_free_of_noise(500)
    kernel = sw.kernels.Gaussian(1.0)
    model = sw.KernelRidgeRegressor(kernel, solver=solver).fit(X, y)
    dense = sw.KernelRidgeRegressor(kernel, solver="dense").fit(X, y)
    path = model.path_
    exact = dense.path_.leave_one_out(np.array([model.step_sum_]))[0]
    told = path.left_out * path.scale
    share = 0.003 if solver == "factor" else 0.3  # a twentieth of the rows is left out at once
    assert np.linalg.norm(told - exact[path.left_out_rows]) <= share * np.linalg.norm(exact[path.left_out_rows])
    new = nearly_free_of_noise(200, 1)[0]
    width = uncertainty_of(model._fitted).half_width(new, 0.9, "new")
    louder = replace(model._fitted, path=replace(model._fitted.path, left_out=3 * model._fitted.path.left_out))
    np.testing.assert_allclose(uncertainty_of(louder).half_width(new, 0.9, "new"), 3 * width)


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.StopwiseWarning")
@pytest.mark.parametrize("solver", ["factor", "preconditioned"])
def test_a_fit_by_solves_that_nearly_runs_through_its_rows_covers_new_ones(solver, monkeypatch):
    monkeypatch.setattr(interval_calibration, "STANDING_ROWS", 300)
    X, y = nearly_free_of_noise(1_000)
    model = sw.KernelRidgeRegressor(sw.kernels.Gaussian(1.0), solver=solver).fit(X, y)
    new, truth = nearly_free_of_noise(4_000, 1)
    ends = model.predict_interval(new)
    assert 0.87 <= np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) <= 0.94


def test_away_from_the_data_intervals_grow_to_the_prior_and_stay():
    X, y, _ = sample(80, noise=0.1)
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.2)).fit(X, y)
    away = np.array([[0.5, 0.5], [2.0, 2.0], [60.0, 60.0], [1e4, 1e4]])
    with pytest.warns(sw.exceptions.ExtrapolationWarning):
        width = np.diff(model.predict_interval(away))[:, 0]
    assert width[0] < 0.5 * width[1]
    assert width[1] <= width[2] * (1 + 1e-9)
    assert width[2] == pytest.approx(width[3], rel=1e-9)
    std = model.predict(away, return_std=True)[1]
    assert std[3] == pytest.approx(std[2], rel=1e-9)
    assert std[3] > 3 * std[0]


def test_the_old_way_gives_the_same_numbers():
    X, y, _ = sample(60)
    model = sw.KernelGradientRegressor(KERNEL).fit(X, y)
    for of, asked in (("new", {"interval": "new"}), ("mean", {"return_std": True})):
        mean, std = model.predict(X, **asked)
        ends = model.predict_interval(X, of=of)
        np.testing.assert_allclose(ends, np.column_stack([mean - 1.6448536 * std, mean + 1.6448536 * std]), atol=1e-6)


def test_levels_out_of_reach_and_rows_that_are_not_kept_are_said():
    X, y, _ = sample(19)
    model = sw.KernelRidgeRegressor(KERNEL).fit(X, y)
    assert model.predict_interval(X, 0.95).shape == (19, 2)
    with pytest.raises(ValueError, match=r"at most n / \(n \+ 1\) = 0.95 with 19 left-out rows, got 0.96"):
        model.predict_interval(X, 0.96)
    for wrong in (0, 1, 1.5, -0.1, "0.9", math.nan, True):
        with pytest.raises(ValueError, match="level must lie between 0 and 1"):
            model.predict_interval(X, wrong)
    with pytest.raises(ValueError, match='of must be "new"'):
        model.predict_interval(X, 0.9, of="median")
    streamed = sw.KernelRidgeRegressor(KERNEL, n_landmarks=X[:5]).partial_fit(X, y)
    with pytest.raises(ValueError, match="intervals need rows that can be left out"):
        streamed.predict_interval(X)


def test_a_stop_at_zero_covers_about_the_mean():
    rng = np.random.default_rng(4)
    X, y = rng.uniform(size=(200, 1)), rng.normal(size=200)
    model = sw.KernelRidgeRegressor(KERNEL.with_length_scale(0.3), rule=sw.rules.Fixed(step_sum=0.0)).fit(X, y)
    ends = model.predict_interval(X)
    np.testing.assert_allclose(ends, np.broadcast_to(ends[:1], ends.shape), rtol=1e-9)
    assert np.mean((y >= ends[:, 0]) & (y <= ends[:, 1])) == pytest.approx(0.9, abs=0.02)


def test_noise_that_grows_is_found_and_even_noise_is_not():
    rng = np.random.default_rng(5)
    rows = rng.uniform(size=(400, 1))
    normal = rng.normal(size=400)
    found = find_varying_noise(rows, normal * np.exp(1.8 * rows[:, 0]))
    assert found is not None
    logs = found[0].log_variance(np.array([[0.1], [0.9]]))
    assert logs[1] - logs[0] == pytest.approx(2 * 1.8 * 0.8, rel=0.35)
    assert sum(find_varying_noise(rows, rng.normal(size=400)) is not None for _ in range(6)) <= 1
    assert find_varying_noise(rows[:30], normal[:30]) is None
    assert find_varying_noise(np.ones((100, 2)), normal[:100]) is None
    assert find_varying_noise(rows, np.zeros(400)) is None


@pytest.mark.parametrize("n_features", [1, 3, 12])
@pytest.mark.parametrize(("negligible", "off"), [(1e-12, 1e-7), (varying_noise._NEGLIGIBLE, 1e-2)])
def test_log_variances_at_rows_are_learned_from_the_other_rows(n_features, negligible, off):
    rng = np.random.default_rng(6)
    points, n = rng.normal(size=(70, n_features)), 70
    logs = 1.5 * np.sin(points[:, 0]) + np.log(rng.chisquare(1, n))
    length, penalty, left_out = varying_noise._best(points, logs - logs.mean(), negligible)
    gram, by_hand = sw.kernels.Gaussian(length)(points), np.empty(n)
    for i in range(n):  # a ridge fit with a free constant to all rows but one
        others = np.arange(n) != i
        system = gram[np.ix_(others, others)] + penalty * np.eye(n - 1)
        solved = np.linalg.solve(system, np.column_stack([logs[others] - logs.mean(), np.ones(n - 1)]))
        constant = solved[:, 0].sum() / solved[:, 1].sum()
        by_hand[i] = constant + gram[i, others] @ (solved[:, 0] - constant * solved[:, 1])
    np.testing.assert_allclose(left_out, by_hand, atol=off * by_hand.std())


def test_noise_is_not_called_varying_where_that_widens_intervals():
    """Rows on the left are quiet, but for a few: over the small deviation learned there these are enormous."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(400, 1))
    ratios = np.where(x[:, 0] > 0, 1.0, 1e-2) * rng.normal(size=400)
    assert find_varying_noise(x, ratios) is not None
    few = np.flatnonzero(x[:, 0] < 0)[:12]
    ratios[few] = 0.3
    assert find_varying_noise(x, ratios) is None


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.ExtrapolationWarning")
@pytest.mark.parametrize("table", ["yacht", "noise-free"])
def test_the_curve_is_never_less_certain_than_a_new_observation(table):
    rng = np.random.default_rng(0)
    if table == "noise-free":
        X = rng.uniform(size=(120, 1))
        y = np.sin(6 * X[:, 0])
    else:  # a rough truth on few levels of many covariates, as in yacht: other kernels differ much from the fit
        X = rng.choice([0.0, 1.0, 2.0, 3.0], size=(150, 4))
        y = np.exp(X[:, 0]) + 0.1 * X[:, 1] * X[:, 2]
    new = np.vstack([rng.uniform(X.min(axis=0), X.max(axis=0), size=(60, X.shape[1])), X[:5] + 4.0])
    model = sw.KernelGradientRegressor(random_state=0).fit(X, y)
    mean, observed = (np.diff(model.predict_interval(new, of=of), axis=1) for of in ("mean", "new"))
    assert np.all(mean <= observed * (1 + 1e-9))


def test_whole_weights_of_any_size_are_not_written_out():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(120, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=120)
    weights = np.ones(120)
    weights[0] = 1e12
    model = sw.KernelRidgeRegressor(KERNEL.with_length_scale(0.3)).fit(X, y, sample_weight=weights)
    assert np.all(np.isfinite(model.predict_interval(X)))


def test_tiny_responses_have_intervals_in_their_units():
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(120, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=120)
    one, tiny = (sw.KernelGradientRegressor("gaussian").fit(X, s * y).predict_interval(X) for s in (1.0, 2.0**-560))
    np.testing.assert_allclose(tiny * 2.0**560, one, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.ExtrapolationWarning")
@pytest.mark.parametrize("columns", [1, 2])
def test_an_interval_too_wide_to_be_squared_is_refused_with_the_row_that_asks_for_it(columns):
    """They were NaN, among a hundred warnings of numpy's."""
    X, y, _ = sample(400)
    model = sw.KernelGradientRegressor().fit(X[:, :columns], y)
    new = np.full((3, columns), 0.5)
    new[1] = 1e100
    assert np.isfinite(model.predict_interval(new)).all()
    for far in (1e155, 1e160, 1e299):
        new[1] = far
        message = re.escape(f"row 1 of X reaches {far:.3g}; leave such rows out")
        for ask in (model.predict_interval, lambda at: model.predict_interval(at, of="mean")):
            with pytest.raises(ValueError, match=message):
                ask(new)
        with pytest.raises(ValueError, match=message):
            model.predict(new, return_std=True)
        assert np.isfinite(model.predict(new)).all()


def ratio_left_out(prior, y, weights, inside, filter):
    """Residuals over their scales at some rows of a fit to all the others; `prior` is the kernel over the penalty."""
    others = np.setdiff1d(np.arange(len(y)), inside)
    root, share = np.sqrt(weights[others]), weights[others] / weights[others].sum()
    across, among = prior[np.ix_(inside, others)], prior[np.ix_(others, others)]
    # Predictions: the filter along the eigenvectors of the weighted, centred matrix.
    centre = np.eye(len(others)) - share  # takes the weighted mean out of each row's left side
    values, vectors = np.linalg.eigh(root[:, None] * (centre @ among @ centre.T) * root)
    values = np.maximum(values, 1e-13)
    gains = values / (1 + values) if filter == "ridge" else -np.expm1(-values)
    mean = share @ y[others]
    dual = centre.T @ (root * (vectors @ (gains / values * (vectors.T @ (root * (y[others] - mean))))))
    predicted = mean + (across - share @ among) @ dual
    # Variance: a Gaussian process with a free constant.
    inverse = np.linalg.inv(among + np.diag(1 / weights[others]))
    level = 1 - across @ inverse.sum(axis=1)
    variance = np.diag(prior)[inside] - ((across @ inverse) * across).sum(axis=1) + level**2 / inverse.sum()
    return (y[inside] - predicted) / np.sqrt(1 / weights[inside] + variance)


@pytest.mark.parametrize("filter", ["ridge", "flow"])
@pytest.mark.parametrize("weighted", [False, True])
def test_where_groups_are_given_a_row_is_left_out_with_its_whole_group(filter, weighted, tmp_path):
    """Against refits without the group at the same penalty; a model file keeps the groups."""
    rng = np.random.default_rng(3)
    groups = rng.permutation(np.repeat(np.arange(12), 4))
    n = len(groups)
    X = rng.uniform(size=(12, 2))[groups] + 0.05 * rng.normal(size=(n, 2))
    y = np.sin(5 * X[:, 0]) + 0.4 * rng.normal(size=12)[groups] + 0.1 * rng.normal(size=n)
    weights = rng.uniform(0.5, 2, size=n) if weighted else np.ones(n)
    kernel, step_sum = sw.kernels.Gaussian(0.4), 100.0
    rule = sw.rules.Fixed(step_sum=step_sum)
    model = sw.KernelGradientRegressor(kernel, rule=rule, filter=filter).fit(X, y, sample_weight=weights, groups=groups)

    weights, prior = weights * n / weights.sum(), kernel(X) * step_sum / n
    ratios = np.empty(n)
    for group in range(12):
        inside = np.flatnonzero(groups == group)
        ratios[inside] = ratio_left_out(prior, y, weights, inside, filter)

    sw.save(model, tmp_path / "model.stopwise")
    for each in (model, sw.load(tmp_path / "model.stopwise")):
        found = each.uncertainty().calibrations[0].observed.values
        # A sum of ridges follows flow to 7e-6 of the responses.
        np.testing.assert_allclose(found, np.sort(np.abs(ratios)), rtol=1e-10, atol=0 if filter == "ridge" else 7e-6)
    with pytest.raises(ValueError, match="refit does not know which rows hang together"):
        model.refit(y)


def test_under_leave_block_out_a_row_is_left_out_with_the_block_around_it(tmp_path):
    """Blocks of ten neighbours in x, each for the two in its middle; such a pair counts as one observation."""
    rng = np.random.default_rng(4)
    n, kernel = 57, sw.kernels.Gaussian(0.2)
    X = rng.uniform(size=(n, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)
        model = sw.KernelRidgeRegressor(kernel, rule=sw.rules.LeaveBlockOut(10, allowance=0.0)).fit(X, y)
    order, prior = np.argsort(X[:, 0]), kernel(X) * model.stop_.step_sum / n
    ratios = np.empty(n)
    for first in range(0, n, 2):
        inside = order[max(first - 4, 0) : first + 6]
        middle = np.isin(inside, order[first : first + 2])
        ratios[inside[middle]] = ratio_left_out(prior, y, np.ones(n), inside, "ridge")[middle]
    sw.save(model, tmp_path / "model.stopwise")
    # The clock of the scale is known to three digits.
    for each in (model, sw.load(tmp_path / "model.stopwise")):
        found = each.uncertainty().calibrations[0].observed
        np.testing.assert_allclose(found.values, np.sort(np.abs(ratios)), rtol=1e-3)
        assert found.total == 29


def test_intervals_under_leave_block_out_hold_new_observations_where_neighbours_share_noise():
    def noise(rng):
        out = np.zeros(300)
        for t in range(1, 300):
            out[t] = 0.8 * out[t - 1] + 0.6 * rng.normal()
        return 0.4 * out[100:]

    x, covered, levels = np.arange(200) / 200, [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DependentRowsWarning)
            model = sw.KernelGradientRegressor(rule=sw.rules.LeaveBlockOut(40))
            model.fit(x[:, None], np.sin(6 * x) + noise(rng))
        lower, upper = model.predict_interval(x[:, None]).T
        fresh = np.array([np.sin(6 * x) + noise(rng) for _ in range(20)])
        covered.append(np.mean((lower <= fresh) & (fresh <= upper)))
        levels.append(model.noise_std_)
    assert 0.87 < np.mean(covered) < 0.97  # it was .45, with a kernel and a noise level that took the noise for signal
    assert np.sqrt(np.mean(np.square(levels))) == pytest.approx(0.4, rel=0.2)


def test_intervals_of_a_fit_with_groups_hold_rows_of_new_groups():
    def truth(X):
        return 2 * np.sin(6 * X[:, 0])

    covered, levels = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        groups, centres, shared = np.repeat(np.arange(60), 4), rng.uniform(size=(60, 1)), 0.4 * rng.normal(size=60)
        X = centres[groups] + 0.005 * rng.normal(size=(240, 1))
        y = truth(X) + shared[groups] + 0.1 * rng.normal(size=240)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DependentRowsWarning)
            model = sw.KernelGradientRegressor("matern32").fit(X, y, groups=groups)
        new = rng.uniform(X.min(), X.max(), size=(500, 1))
        lower, upper = model.predict_interval(new).T
        fresh = truth(new) + np.hypot(0.4, 0.1) * rng.normal(size=500)
        covered.append(np.mean((lower <= fresh) & (fresh <= upper)))
        levels.append(model.noise_std_)
    assert 0.87 < np.mean(covered) < 0.93  # with rows left out one by one .83
    assert np.mean(levels) == pytest.approx(np.hypot(0.4, 0.1), rel=0.1)


def test_few_groups_allow_low_levels_alone():
    X, y, _ = sample(40)
    model = sw.KernelRidgeRegressor(KERNEL, rule=sw.rules.Fixed(step_sum=50.0)).fit(X, y, groups=np.arange(40) % 5)
    assert np.all(np.diff(model.predict_interval(X[:3], level=0.8)) > 0)
    with pytest.raises(ValueError, match=r"n / \(n \+ 1\) = 0.8333 with 5 left-out groups or blocks, got 0.9"):
        model.predict_interval(X[:3], level=0.9)
